//! Registration of a subscriber.

use std::marker::PhantomData;
use std::ops::RangeInclusive;
use std::time::Duration;

use redgrid_codecs::{Codec, Decode};
use redgrid_core::into_future;
use redgrid_core::object::{ObjectError, ObjectRef};
use uuid::Uuid;

use super::deliveries::Deliveries;
use super::subscriber::Options;

/// The default lease of a subscriber: 10 minutes, as Redisson's.
const DEFAULT_LEASE: Duration = Duration::from_secs(600);

/// The allowed leases.
const LEASE_RANGE: RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_secs(3650 * 24 * 3600);

/// The default maximum number of messages that are read but not acknowledged.
const DEFAULT_MAX_UNACKNOWLEDGED: usize = 100;

/// The allowed values of that maximum.
const MAX_UNACKNOWLEDGED_RANGE: RangeInclusive<usize> = 1..=10_000;

/// The default interval at which a subscriber polls.
const DEFAULT_POLL_INTERVAL: Duration = Duration::from_secs(1);

/// The allowed poll intervals.
const POLL_INTERVAL_RANGE: RangeInclusive<Duration> = Duration::from_millis(10)..=Duration::from_secs(3600);

/// The default delay after which a dropped message is delivered again.
const DEFAULT_REDELIVERY_DELAY: Duration = Duration::from_secs(1);

/// Registers a subscriber when awaited; made by
/// [`ReliableTopic::subscribe`](super::ReliableTopic::subscribe).
#[must_use = "does nothing until awaited"]
pub struct SubscribeReliably<T, C> {
    object_ref: ObjectRef,
    codec: C,
    subscriber: Option<String>,
    from_beginning: bool,
    options: Options,
    messages: PhantomData<fn() -> T>,
}

impl<T, C> SubscribeReliably<T, C> {
    pub(super) fn new(object_ref: &ObjectRef, codec: C, family: &'static str) -> Self {
        let options = Options {
            lease: DEFAULT_LEASE,
            max_unacknowledged: DEFAULT_MAX_UNACKNOWLEDGED,
            poll_interval: DEFAULT_POLL_INTERVAL,
            redelivery_delay: DEFAULT_REDELIVERY_DELAY,
            family,
        };
        SubscribeReliably {
            object_ref: object_ref.clone(),
            codec,
            subscriber: None,
            from_beginning: false,
            options,
            messages: PhantomData,
        }
    }

    /// Continues as the subscriber with this id, of 1 to 256 bytes.
    ///
    /// The messages that it has not acknowledged are delivered first. If there is no subscriber
    /// with this id, a new one is registered. By default a new subscriber with an id of 32
    /// hexadecimal digits is registered, as by Redisson.
    ///
    /// An id must be used by only one process at a time. If two processes use it, a message is
    /// delivered to at least one of them. The other is not notified of messages that it missed: a
    /// message that one process has acknowledged may be removed before the other reads it. Do not
    /// use the ids of Redisson's subscribers: messages that Redisson has delivered but not
    /// acknowledged are not delivered here.
    pub fn as_subscriber(mut self, id: impl Into<String>) -> Self {
        self.subscriber = Some(id.into());
        self
    }

    /// Lets a new subscriber start with the messages that are still kept, as Redisson's subscribers
    /// do.
    pub fn from_the_beginning(mut self) -> Self {
        self.from_beginning = true;
        self
    }

    /// Sets how long the subscriber continues to exist without its process, 1 s to 3650 days. The
    /// default is 10 minutes.
    ///
    /// The lease is renewed every third of that time. With a longer lease, messages are kept
    /// longer. With a shorter lease, a subscriber whose process was suspended is more likely to be
    /// removed, and to receive a gap.
    pub fn lease(mut self, lease: Duration) -> Self {
        self.options.lease = lease;
        self
    }

    /// Limits the number of messages that are read but not acknowledged, 1 to 10,000. The default
    /// is 100.
    ///
    /// At the limit, no more messages are read until some are acknowledged. A higher limit needs
    /// more memory; a lower limit needs more requests.
    pub fn max_unacknowledged(mut self, messages: usize) -> Self {
        self.options.max_unacknowledged = messages;
        self
    }

    /// Sets the poll interval, 10 ms to 1 h. The default is 1 s.
    ///
    /// Messages that redgrid publishes are announced at once. Polls find the messages that Redisson
    /// publishes, and those that are published while a connection is lost.
    pub fn poll_interval(mut self, interval: Duration) -> Self {
        self.options.poll_interval = interval;
        self
    }

    /// Sets the delay after which a dropped delivery is delivered again, up to 1 h. The default is
    /// 1 s.
    pub fn redelivery_delay(mut self, pause: Duration) -> Self {
        self.options.redelivery_delay = pause;
        self
    }
}

impl<T, C: Codec + Decode<T>> SubscribeReliably<T, C> {
    async fn run(self) -> Result<Deliveries<T, C>, ObjectError> {
        let SubscribeReliably { object_ref, codec, subscriber, from_beginning, options, .. } = self;
        object_ref.name_and_key()?;
        let subscriber = subscriber.unwrap_or_else(|| Uuid::new_v4().simple().to_string());
        if !(1..=256).contains(&subscriber.len()) {
            return Err(object_ref.invalid(
                "subscriber",
                "an id of 1 to 256 bytes",
                format_args!("{} bytes", subscriber.len()),
            ));
        }
        if !LEASE_RANGE.contains(&options.lease) {
            return Err(object_ref.invalid("lease", "1 s to 3650 days", format_args!("{:?}", options.lease)));
        }
        if !MAX_UNACKNOWLEDGED_RANGE.contains(&options.max_unacknowledged) {
            return Err(object_ref.invalid("max_unacknowledged", "1 to 10000 messages", options.max_unacknowledged));
        }
        if !POLL_INTERVAL_RANGE.contains(&options.poll_interval) {
            return Err(object_ref.invalid(
                "poll_interval",
                "10 ms to 1 h",
                format_args!("{:?}", options.poll_interval),
            ));
        }
        if options.redelivery_delay > *POLL_INTERVAL_RANGE.end() {
            return Err(object_ref.invalid(
                "redelivery_delay",
                "up to 1 h",
                format_args!("{:?}", options.redelivery_delay),
            ));
        }
        Deliveries::subscribe(object_ref, codec, subscriber, from_beginning, options).await
    }
}

into_future!(
    /// # Errors
    ///
    /// [`ObjectError`] states what failed. After `OutcomeUnknown` the subscriber may exist until
    /// its lease ends.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the subscriber may exist until its lease ends.
    [T: 'static, C: Codec + Decode<T> + Send + 'static] SubscribeReliably<T, C>
        => Result<Deliveries<T, C>, ObjectError>,
    |this| this.run()
);

redgrid_core::debug_fields!([T, C] SubscribeReliably<T, C>, |it| name: it.object_ref.name(), options: it.options);
