//! The deliveries of a subscriber.
//!
//! The position of its group on the server is the id up to which all messages are acknowledged.
//! Messages are not marked as delivered there. So reading changes nothing: a read may be repeated,
//! or dropped without its reply. Scripts of other subscribers do not remove unacknowledged
//! messages.

use std::fmt;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::time::Duration;

use bytes::Bytes;
use futures_util::Stream;
use futures_util::stream::unfold;
use redgrid_codecs::{Codec, Decode};
use redgrid_core::author::ClientExt;
use redgrid_core::clock::Instant;
use redgrid_core::object::events::Gap;
use redgrid_core::object::{ObjectError, ObjectRef};
use redgrid_core::{BackgroundClient, Client, ConnectionId, Failure, Reply, Request, ServerError, Watch};
use tokio::sync::{Notify, oneshot};

use super::delivery::Delivery;
use super::window::{Ready, Window};
use super::{ACKNOWLEDGE, LEAVE, MessageId, READ, REGISTER, channel, keys};
use crate::message::SubscriptionError;

/// The options of a subscriber.
#[derive(Debug, Clone, Copy)]
pub(super) struct Options {
    pub(super) lease: Duration,
    pub(super) max_unacknowledged: usize,
    pub(super) poll_interval: Duration,
    pub(super) redelivery_delay: Duration,
}

/// The state of a subscriber, shared by [`Deliveries`] and its [`Delivery`]s.
pub(super) struct Subscriber {
    object_ref: ObjectRef,
    keys: [Bytes; 2],
    id: Bytes,
    options: Options,
    window: Mutex<Window>,
    /// Notified when a message was acknowledged or dropped, and when a resync was requested.
    changed: Notify,
    /// The number of requests for a resync with the server.
    resync_requests: AtomicU64,
    /// The subscriber was missing on the server, and no gap has been reported yet.
    gap_pending: AtomicBool,
}

/// The messages of a [`ReliableTopic`](super::ReliableTopic) for one subscriber.
///
/// Messages arrive in their order, except for those that are redelivered.
///
/// If it is dropped, the subscriber exists until its lease ends, and messages are kept for it;
/// [`leave`](Deliveries::leave) removes the subscriber at once. Deliveries keep the client alive.
pub struct Deliveries<T, C> {
    subscriber: Arc<Subscriber>,
    codec: C,
    watch: Watch,
    /// The connection of the last resync.
    synced_connection: Option<ConnectionId>,
    /// The value of `resync_requests` at the last resync.
    synced_requests: u64,
    /// No request is sent before this time: the pause after an error.
    not_before: Instant,
    /// Ends the renewals when it is dropped.
    _renewed: oneshot::Sender<()>,
    messages: PhantomData<fn() -> T>,
}

/// The position of a subscriber on the server: the id up to which all messages are acknowledged.
enum ServerPosition {
    Existing(MessageId),
    New(MessageId),
    Missing,
}

impl Subscriber {
    fn client(&self) -> &Client {
        self.object_ref.client()
    }

    fn window(&self) -> MutexGuard<'_, Window> {
        self.window.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Returns the request that renews the lease, and registers a missing subscriber at `from`
    /// unless that is empty.
    fn register_request(&self, from: String) -> Request {
        let lease = i64::try_from(self.options.lease.as_millis()).unwrap_or(i64::MAX);
        REGISTER.with(self.keys.clone()).arg(self.id.clone()).int(lease).arg(from).idempotent()
    }

    /// Returns the request that acknowledges all messages up to `id`.
    fn acknowledge_request(&self, id: MessageId) -> Request {
        ACKNOWLEDGE.with(self.keys.clone()).arg(self.id.clone()).arg(id.to_string()).idempotent()
    }

    pub(super) async fn acknowledge(&self, id: MessageId) -> Result<(), ObjectError> {
        let acknowledged_up_to = self.window().acknowledge(id);
        self.changed.notify_one();
        let Some(acknowledged_up_to) = acknowledged_up_to else { return Ok(()) };
        // Requests a resync also if this future is dropped.
        let resync = ResyncGuard(self);
        let is_acknowledged = self.object_ref.change::<bool>(self.acknowledge_request(acknowledged_up_to)).await?;
        if is_acknowledged {
            std::mem::forget(resync);
        }
        Ok(())
    }

    pub(super) fn schedule_redelivery(&self, id: MessageId) {
        let now = self.client().clock().now();
        self.window().schedule_redelivery(id, now, self.options.redelivery_delay);
        self.changed.notify_one();
    }

    fn request_resync(&self) {
        self.resync_requests.fetch_add(1, Ordering::AcqRel);
        self.changed.notify_one();
    }
}

/// Requests a resync with the server when it is dropped.
struct ResyncGuard<'a>(&'a Subscriber);

impl Drop for ResyncGuard<'_> {
    fn drop(&mut self) {
        self.0.request_resync();
    }
}

fn parse_position((status, last): (i64, String)) -> Result<ServerPosition, ServerError> {
    let last = MessageId::parse(&last)?;
    Ok(match status {
        0 => ServerPosition::Existing(last),
        1 => ServerPosition::New(last),
        _ => ServerPosition::Missing,
    })
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
        // Before the registration, so that no message falls in between.
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

    /// Returns the id of the subscriber, with which another process can continue as this
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

    /// Removes the subscriber: no messages are kept for it any more.
    ///
    /// Acknowledging the deliveries that still exist has no effect then.
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

    /// Resyncs if necessary, and reads messages if there is capacity and nothing to deliver.
    ///
    /// Returns whether messages may have been removed that were not delivered.
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
            // Evicted, or never known to this primary: the resync registers it again.
            subscriber.request_resync();
            return Ok(false);
        }
        let messages = reply.swap_remove(1).into_typed::<Vec<(String, Vec<Bytes>)>>().map_err(unexpected)?;
        let mut window = subscriber.window();
        // Reading was restarted meanwhile.
        if window.read_up_to() != from {
            return Ok(false);
        }
        for (id, fields) in messages {
            let payload = fields.chunks(2).find(|field| field[0] == "m").and_then(|field| field.get(1)).cloned();
            window.insert(MessageId::parse(&id).map_err(unexpected)?, payload);
        }
        // Entries that are not messages of the topic were skipped: the resync acknowledges them.
        let has_advanced = window.advance().is_some();
        drop(window);
        if has_advanced {
            subscriber.request_resync();
        }
        Ok(false)
    }

    /// Reconciles the position on the server with the window here.
    ///
    /// It may be dropped, and repeated.
    async fn resync(&self) -> Result<(), ObjectError> {
        let subscriber = &*self.subscriber;
        let name = subscriber.object_ref.name_and_key()?.0;
        let acknowledged_up_to = subscriber.window().acknowledged_up_to();
        let register = async |from: String| {
            let reply = subscriber.object_ref.read_primary(subscriber.register_request(from)).await?;
            parse_position(reply).map_err(|source| ObjectError::of(name, source))
        };
        // First a request that does not create the subscriber: only one reply reports a new
        // subscriber, and it may be lost.
        let mut position = register(String::new()).await?;
        if let ServerPosition::Missing = position {
            subscriber.gap_pending.store(true, Ordering::Release);
            position = register(acknowledged_up_to.to_string()).await?;
        }
        let last = match position {
            ServerPosition::Existing(last) | ServerPosition::New(last) => last,
            ServerPosition::Missing => return Ok(()),
        };
        // If acknowledgements did not arrive they are repeated. If they are not on a primary that
        // has taken over, the messages are delivered again.
        let is_acknowledged = last >= acknowledged_up_to
            || subscriber.object_ref.read_primary::<bool>(subscriber.acknowledge_request(acknowledged_up_to)).await?;
        let redeliver_acknowledged = !is_acknowledged || subscriber.gap_pending.load(Ordering::Acquire);
        let after = if is_acknowledged { last.max(acknowledged_up_to) } else { last };
        subscriber.window().restart(after, redeliver_acknowledged);
        Ok(())
    }

    fn delivery(&self, ready: Ready) -> Delivery<T> {
        let Ready { id, payload, redelivered } = ready;
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

/// Renews the lease of a subscriber in the background.
struct Renewal {
    request: Request,
    interval: Duration,
    subscriber: Weak<Subscriber>,
}

impl Renewal {
    async fn run(self, background: BackgroundClient, mut ended: oneshot::Receiver<()>) {
        let mut due = background.clock().now() + self.interval;
        loop {
            tokio::select! {
                biased;
                () = background.closing() => return,
                _ = &mut ended => return,
                () = background.clock().sleep_until(due) => {}
            }
            let sent = background.clock().now();
            let until = sent + self.interval;
            tokio::select! {
                biased;
                () = background.closing() => return,
                _ = &mut ended => return,
                renewed = background.run_until::<(i64, String)>(self.request.clone(), until) => match renewed {
                    Ok((status, _)) if status < 0 => {
                        if let Some(subscriber) = self.subscriber.upgrade() {
                            subscriber.request_resync();
                        }
                    }
                    Ok(_) => {}
                    Err(error) => tracing::debug!(%error, "a subscriber was not renewed"),
                },
            }
            due = sent + self.interval;
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
