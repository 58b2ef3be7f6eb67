//! Becoming a subscriber.

use std::fmt;
use std::future::IntoFuture;
use std::marker::PhantomData;
use std::ops::RangeInclusive;
use std::pin::Pin;
use std::time::Duration;

use redgrid_codecs::{Codec, Decode};
use redgrid_core::object::{ObjectError, Place};
use uuid::Uuid;

use super::deliveries::{Deliveries, Terms};

/// How long a subscriber outlives a silent process, unless set: 10 minutes, as Redisson's.
const LEASE: Duration = Duration::from_secs(600);

/// How long it may be.
const LEASES: RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_secs(3650 * 24 * 3600);

/// How many messages may be read and not acknowledged, unless set: 100.
const MOST: usize = 100;

/// How many may be.
const MOSTS: RangeInclusive<usize> = 1..=10_000;

/// How often it looks by itself, unless set: each second.
const LOOK: Duration = Duration::from_secs(1);

/// How often it may be.
const LOOKS: RangeInclusive<Duration> = Duration::from_millis(10)..=Duration::from_secs(3600);

/// When a message that was dropped comes again, unless set: after a second.
const AGAIN: Duration = Duration::from_secs(1);

/// Becomes a subscriber when awaited.
#[must_use = "nobody is subscribed until this is awaited"]
pub struct SubscribeReliably<T, C> {
    place: Place,
    codec: C,
    subscriber: Option<String>,
    beginning: bool,
    terms: Terms,
    messages: PhantomData<fn() -> T>,
}

impl<T, C> SubscribeReliably<T, C> {
    pub(super) fn new(place: &Place, codec: C) -> Self {
        let terms = Terms { lease: LEASE, most: MOST, look: LOOK, again: AGAIN };
        SubscribeReliably {
            place: place.clone(),
            codec,
            subscriber: None,
            beginning: false,
            terms,
            messages: PhantomData,
        }
    }

    /// Goes on as this subscriber, of 1 to 256 bytes: what it has not acknowledged comes first. It is a new one where there is none of that id. Unless
    /// said, a new one with an id of 32 hexadecimal digits, as Redisson's.
    ///
    /// An id is for one process at a time. With two, a message comes to one of them at least, and the other is not told what it did not get:
    /// what one has acknowledged may be dropped before the other reads it. Ids of Redisson's subscribers are not taken over: what was
    /// delivered there and not acknowledged does not come here.
    pub fn as_subscriber(mut self, id: impl Into<String>) -> Self {
        self.subscriber = Some(id.into());
        self
    }

    /// A new subscriber gets what is kept of earlier messages, too, as Redisson's do.
    pub fn from_the_beginning(mut self) -> Self {
        self.beginning = true;
        self
    }

    /// How long the subscriber outlives a process that is gone, 1 s to 3650 days; 10 minutes unless set. It is renewed every third of that. Longer
    /// keeps messages for longer, with a shorter one a process that stood still finds itself taken out, and is told a gap.
    pub fn lease(mut self, lease: Duration) -> Self {
        self.terms.lease = lease;
        self
    }

    /// How many messages may be read and not acknowledged, 1 to 10,000; 100 unless set. With that many no more are read until some are
    /// acknowledged. More cost memory, with fewer more requests are made.
    pub fn at_most(mut self, messages: usize) -> Self {
        self.terms.most = messages;
        self
    }

    /// How often it looks by itself, 10 ms to 1 h; each second unless set. What is published by redgrid is told at once; what Redisson
    /// publishes, and what was published while a connection was lost, is found by this.
    pub fn look_every(mut self, interval: Duration) -> Self {
        self.terms.look = interval;
        self
    }

    /// After how long a delivery that was dropped comes again, up to 1 h; 1 s unless set.
    pub fn again_after(mut self, pause: Duration) -> Self {
        self.terms.again = pause;
        self
    }
}

impl<T, C: Codec + Decode<T>> SubscribeReliably<T, C> {
    async fn begin(self) -> Result<Deliveries<T, C>, ObjectError> {
        let SubscribeReliably { place, codec, subscriber, beginning, terms, .. } = self;
        place.named()?;
        let subscriber = subscriber.unwrap_or_else(|| Uuid::new_v4().simple().to_string());
        if !(1..=256).contains(&subscriber.len()) {
            return Err(place.invalid(
                "subscriber",
                "an id of 1 to 256 bytes",
                format_args!("{} bytes", subscriber.len()),
            ));
        }
        if !LEASES.contains(&terms.lease) {
            return Err(place.invalid("lease", "1 s to 3650 days", format_args!("{:?}", terms.lease)));
        }
        if !MOSTS.contains(&terms.most) {
            return Err(place.invalid("at_most", "1 to 10000 messages", terms.most));
        }
        if !LOOKS.contains(&terms.look) {
            return Err(place.invalid("look_every", "10 ms to 1 h", format_args!("{:?}", terms.look)));
        }
        if terms.again > *LOOKS.end() {
            return Err(place.invalid("again_after", "up to 1 h", format_args!("{:?}", terms.again)));
        }
        Deliveries::begin(place, codec, subscriber, beginning, terms).await
    }
}

/// # Errors
///
/// [`ObjectError`] says what stands in the way. After `OutcomeUnknown` there may be a subscriber, for a lease.
///
/// # Cancel safety
///
/// Dropped early, there may be a subscriber, for a lease.
impl<T: 'static, C: Codec + Decode<T> + Send + 'static> IntoFuture for SubscribeReliably<T, C> {
    type Output = Result<Deliveries<T, C>, ObjectError>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.begin())
    }
}

impl<T, C> fmt::Debug for SubscribeReliably<T, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("SubscribeReliably");
        debug.field("name", &self.place.name()).field("terms", &self.terms).finish_non_exhaustive()
    }
}
