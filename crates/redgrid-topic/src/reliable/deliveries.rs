//! The deliveries of a subscriber.
//!
//! The position of its group on the server is the id up to which all messages are acknowledged. The
//! server does not mark messages as delivered. So a read changes nothing: it may be repeated, and
//! its reply may be lost. Scripts of other subscribers do not remove unacknowledged messages.

use std::fmt;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use futures_util::Stream;
use futures_util::stream::unfold;
use redgrid_codecs::{Codec, Decode};
use redgrid_core::author::ClientExt;
use redgrid_core::author::counts::{Direction, topic_messages};
use redgrid_core::clock::Instant;
use redgrid_core::object::events::Gap;
use redgrid_core::object::{ObjectError, ObjectRef};
use redgrid_core::{ConnectionId, Failure, Reply, Watch};
use tokio::sync::{Notify, oneshot};

use super::delivery::Delivery;
use super::subscriber::{Options, Renewal, ServerPosition, Subscriber, parse_position};
use super::window::Ready;
use super::{LEAVE, MessageId, READ, channel, keys};
use crate::message::SubscriptionError;

/// The messages of a [`ReliableTopic`](super::ReliableTopic) for one subscriber.
///
/// Messages arrive in their order, except for those that are redelivered.
///
/// If they are dropped, the subscriber exists until its lease ends, and messages are kept for it;
/// [`leave`](Deliveries::leave) removes the subscriber at once. Deliveries keep the client alive.
pub struct Deliveries<T, C> {
    subscriber: Arc<Subscriber>,
    codec: C,
    watch: Watch,
    /// The connection of the last resync.
    synced_connection: Option<ConnectionId>,
    /// The value of `resync_requests` at the last resync.
    synced_requests: u64,
    /// No request is sent before this time. It implements the pause after an error.
    not_before: Instant,
    /// Dropping it ends the renewals.
    _renewed: oneshot::Sender<()>,
    messages: PhantomData<fn() -> T>,
}

impl<T, C: Codec + Decode<T>> Deliveries<T, C> {
    pub(super) async fn subscribe(
        object_ref: ObjectRef,
        codec: C,
        id: String,
        from_beginning: bool,
        options: Options,
    ) -> Result<Self, ObjectError> {
        let keys = keys(&object_ref)?;
        let client = object_ref.client().clone();
        // The subscription starts before the registration, so that no message is missed in between.
        let watch = client.watch_unpolled(channel(&keys), &keys[0]);
        let subscriber = Subscriber {
            object_ref,
            keys,
            id: id.into(),
            options,
            window: Mutex::default(),
            changed: Notify::new(),
            resync_requests: AtomicU64::new(0),
            gap_pending: AtomicBool::new(false),
        };
        let synced_connection = client.epoch_of(&subscriber.keys[0]);
        let from = if from_beginning { "0-0" } else { "$" };
        let name = subscriber.object_ref.name_and_key()?.0;
        let reply = subscriber.object_ref.change(subscriber.register_request(from.to_owned())).await?;
        match parse_position(reply).map_err(|source| ObjectError::of(name, source))? {
            ServerPosition::Existing(last) | ServerPosition::New(last) => subscriber.window().restart(last, true),
            ServerPosition::Missing => subscriber.request_resync(),
        }
        let subscriber = Arc::new(subscriber);
        let (renewed, ended) = oneshot::channel();
        let renewal = Renewal {
            request: subscriber.register_request(String::new()),
            interval: options.lease / 3,
            subscriber: Arc::downgrade(&subscriber),
        };
        client.spawn_attached(|background| renewal.run(background, ended));
        Ok(Deliveries {
            subscriber,
            codec,
            watch,
            synced_connection,
            synced_requests: 0,
            not_before: Instant::MIN,
            _renewed: renewed,
            messages: PhantomData,
        })
    }

    /// Returns the id of the subscriber. With this id, another process can continue as this
    /// subscriber.
    pub fn subscriber(&self) -> &str {
        std::str::from_utf8(&self.subscriber.id).unwrap_or_default()
    }

    /// Returns the next item; `None` when the client is shut down.
    ///
    /// While the maximum number of messages is unacknowledged, it waits until one is acknowledged.
    /// After [`SubscriptionError::Unavailable`] and [`Refused`](SubscriptionError::Refused) the
    /// next call retries, after a pause of `poll_interval`.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, no item is lost: the next call returns it.
    pub async fn next(&mut self) -> Option<Result<Delivery<T>, SubscriptionError>> {
        let (subscriber, client) = (Arc::clone(&self.subscriber), self.subscriber.client().clone());
        let clock = client.clock().clone();
        loop {
            tokio::select! {
                biased;
                () = client.closing() => return None,
                () = clock.sleep_until(self.not_before) => {}
            }
            match self.sync_and_read().await {
                Ok(true) => return Some(Err(SubscriptionError::Gap(Gap::Interrupted))),
                Ok(false) => {}
                Err(_) if client.is_shut_down() => return None,
                Err(error) => {
                    self.not_before = clock.now() + subscriber.options.poll_interval;
                    return Some(Err(error.into()));
                }
            }
            let now = clock.now();
            let next = subscriber.window().next(now);
            let due = match next {
                Ok(ready) => return Some(Ok(self.delivery(ready))),
                Err(due) => due,
            };
            tokio::select! {
                biased;
                () = client.closing() => return None,
                () = subscriber.changed.notified() => {}
                _ = self.watch.wake() => {}
                () = clock.sleep_until(due.min(now + subscriber.options.poll_interval)) => {}
            }
        }
    }

    /// Converts the deliveries to a `Stream`.
    pub fn into_stream(self) -> impl Stream<Item = Result<Delivery<T>, SubscriptionError>> {
        unfold(self, async |mut deliveries| deliveries.next().await.map(|next| (next, deliveries)))
    }

    /// Removes the subscriber: messages are not kept for it any more.
    ///
    /// After that, acknowledging existing deliveries has no effect.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] states what failed and whether anything may have changed. The subscriber is
    /// removed at the latest when its lease ends.
    ///
    /// # Cancel safety
    ///
    /// A request that was already sent is executed even if the future is dropped. The subscriber is
    /// removed at the latest when its lease ends.
    #[doc(alias = "removeListener")]
    pub async fn leave(self) -> Result<(), ObjectError> {
        let request = LEAVE.with(self.subscriber.keys.clone()).arg(self.subscriber.id.clone()).idempotent();
        let Deliveries { subscriber, .. } = self;
        subscriber.object_ref.change::<bool>(request).await.map(drop)
    }

    /// Resyncs if necessary. Reads messages if there is capacity and no message to deliver.
    ///
    /// Returns whether undelivered messages may have been removed on the server.
    async fn sync_and_read(&mut self) -> Result<bool, ObjectError> {
        let subscriber = Arc::clone(&self.subscriber);
        let connection = subscriber.client().epoch_of(&subscriber.keys[0]);
        let requests = subscriber.resync_requests.load(Ordering::Acquire);
        if (connection.is_some() && connection != self.synced_connection) || requests != self.synced_requests {
            self.resync().await?;
            (self.synced_connection, self.synced_requests) = (connection, requests);
            if subscriber.gap_pending.swap(false, Ordering::AcqRel) {
                return Ok(true);
            }
        }
        let (from, capacity) = {
            let window = subscriber.window();
            let now = subscriber.client().clock().now();
            let capacity = window.capacity(subscriber.options.max_unacknowledged);
            if capacity == 0 || window.has_ready(now) {
                return Ok(false);
            }
            (window.read_up_to(), capacity)
        };
        let request = READ.with(subscriber.keys.clone()).arg(subscriber.id.clone()).arg(from.to_string());
        let request = request.int(i64::try_from(capacity).unwrap_or(i64::MAX));
        let mut reply: Vec<Reply> = subscriber.object_ref.read_primary(request).await?;
        let name = subscriber.object_ref.name_and_key()?.0;
        let unexpected = |source| ObjectError::of(name, source);
        if reply.len() < 2 {
            // The subscriber was evicted, or this primary never had it: the resync registers it
            // again.
            subscriber.request_resync();
            return Ok(false);
        }
        let messages = reply.swap_remove(1).into_typed::<Vec<(String, Vec<Bytes>)>>().map_err(unexpected)?;
        let mut window = subscriber.window();
        // Another resync has restarted reading meanwhile.
        if window.read_up_to() != from {
            return Ok(false);
        }
        for (id, fields) in messages {
            let payload = fields.chunks(2).find(|field| field[0] == "m").and_then(|field| field.get(1)).cloned();
            window.insert(MessageId::parse(&id).map_err(unexpected)?, payload);
        }
        // Stream entries that are not messages of the topic were skipped: the resync acknowledges
        // them.
        let has_advanced = window.advance().is_some();
        drop(window);
        if has_advanced {
            subscriber.request_resync();
        }
        Ok(false)
    }

    /// Reconciles the position on the server with the local window.
    ///
    /// The future may be dropped, and the call may be repeated.
    async fn resync(&self) -> Result<(), ObjectError> {
        let subscriber = &*self.subscriber;
        let name = subscriber.object_ref.name_and_key()?.0;
        let acknowledged_up_to = subscriber.window().acknowledged_up_to();
        let register = async |from: String| {
            let reply = subscriber.object_ref.read_primary(subscriber.register_request(from)).await?;
            parse_position(reply).map_err(|source| ObjectError::of(name, source))
        };
        // The first request does not create the subscriber. Only one reply reports that a
        // subscriber is new, and that reply may be lost.
        let mut position = register(String::new()).await?;
        if let ServerPosition::Missing = position {
            subscriber.gap_pending.store(true, Ordering::Release);
            position = register(acknowledged_up_to.to_string()).await?;
        }
        let last = match position {
            ServerPosition::Existing(last) | ServerPosition::New(last) => last,
            ServerPosition::Missing => return Ok(()),
        };
        // Acknowledgements that did not arrive are repeated. If a new primary lacks the message up
        // to which is acknowledged, the acknowledged messages are delivered again.
        let is_acknowledged = last >= acknowledged_up_to
            || subscriber.object_ref.read_primary::<bool>(subscriber.acknowledge_request(acknowledged_up_to)).await?;
        let redeliver_acknowledged = !is_acknowledged || subscriber.gap_pending.load(Ordering::Acquire);
        let after = if is_acknowledged { last.max(acknowledged_up_to) } else { last };
        subscriber.window().restart(after, redeliver_acknowledged);
        Ok(())
    }

    fn delivery(&self, ready: Ready) -> Delivery<T> {
        let Ready { id, payload, redelivered } = ready;
        topic_messages(self.subscriber.options.family, Direction::Received, 1);
        let message = self.subscriber.object_ref.decoded(&self.codec, &payload, || Some(id.to_string()));
        Delivery::new(id, redelivered, message, Arc::clone(&self.subscriber))
    }
}

impl From<ObjectError> for SubscriptionError {
    fn from(error: ObjectError) -> Self {
        match error {
            ObjectError::Failed(Failure::Refused { .. }) => SubscriptionError::Refused(error),
            error => SubscriptionError::Unavailable(error),
        }
    }
}

impl<T, C> fmt::Debug for Deliveries<T, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("Deliveries");
        let Subscriber { object_ref, options, .. } = &*self.subscriber;
        debug.field("name", &object_ref.name()).field("options", options).finish_non_exhaustive()
    }
}
