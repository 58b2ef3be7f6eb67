//! What a subscriber gets.
//!
//! Its group on the server is behind what is acknowledged without a gap; nothing is marked as delivered there, so that reading changes
//! nothing and may be repeated, dropped and answered to nobody, and no neighbour drops what is not acknowledged.

use std::fmt;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::time::Duration;

use bytes::Bytes;
use futures_util::Stream;
use futures_util::stream::unfold;
use redgrid_codecs::{Codec, Decode};
use redgrid_core::clock::Instant;
use redgrid_core::object::events::Gap;
use redgrid_core::object::{ObjectError, Place};
use redgrid_core::{BackgroundClient, Client, ConnectionId, Reply, Request, ServerError, Watch};
use tokio::sync::{Notify, oneshot};

use super::delivery::Delivery;
use super::window::{Ready, Window};
use super::{ACKNOWLEDGE, ENTER, LEAVE, MessageId, READ, channel, keys};
use crate::message::SubscriptionError;

/// How a subscriber is one.
#[derive(Debug, Clone, Copy)]
pub(super) struct Terms {
    pub(super) lease: Duration,
    pub(super) most: usize,
    pub(super) look: Duration,
    pub(super) again: Duration,
}

/// What deliveries and their subscriber have in common.
pub(super) struct Desk {
    place: Place,
    keys: [Bytes; 2],
    subscriber: Bytes,
    terms: Terms,
    window: Mutex<Window>,
    /// Somebody has made room, or given something back.
    changed: Notify,
    /// Counts the reasons to ask what the server has of this subscriber.
    doubts: AtomicU64,
    /// It was none for a while, and nobody was told.
    was_out: AtomicBool,
}

/// The messages of a [`ReliableTopic`](super::ReliableTopic) as they come to one subscriber, in their order but for those that come again.
///
/// Dropped, the subscriber stays for its lease, and messages are kept for it: [`leave`](Deliveries::leave) ends it at once. It keeps the client.
pub struct Deliveries<T, C> {
    desk: Arc<Desk>,
    codec: C,
    watch: Watch,
    /// The connection on which the server was asked what it has of this subscriber.
    epoch: Option<ConnectionId>,
    /// As many doubts as there were then.
    settled: u64,
    /// Nobody is asked before, behind an error.
    not_before: Instant,
    /// Ends the renewals when it is dropped.
    _renewed: oneshot::Sender<()>,
    messages: PhantomData<fn() -> T>,
}

/// What the server has of a subscriber.
enum Stand {
    Was(MessageId),
    New(MessageId),
    None,
}

impl Desk {
    fn client(&self) -> &Client {
        self.place.client()
    }

    fn window(&self) -> MutexGuard<'_, Window> {
        self.window.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    fn enter(&self, from: String) -> Request {
        let lease = i64::try_from(self.terms.lease.as_millis()).unwrap_or(i64::MAX);
        ENTER.with(self.keys.clone()).arg(self.subscriber.clone()).int(lease).arg(from).idempotent()
    }

    fn behind(&self, id: MessageId) -> Request {
        ACKNOWLEDGE.with(self.keys.clone()).arg(self.subscriber.clone()).arg(id.to_string()).idempotent()
    }

    pub(super) async fn acknowledge(&self, id: MessageId) -> Result<(), ObjectError> {
        let behind = self.window().acknowledge(id);
        self.changed.notify_one();
        let Some(behind) = behind else { return Ok(()) };
        // Also where this is dropped.
        let doubt = Doubt(self);
        let told = self.place.change::<bool>(self.behind(behind)).await?;
        if told {
            std::mem::forget(doubt);
        }
        Ok(())
    }

    pub(super) fn give_back(&self, id: MessageId) {
        let now = self.client().clock().now();
        self.window().give_back(id, now, self.terms.again);
        self.changed.notify_one();
    }

    fn doubt(&self) {
        self.doubts.fetch_add(1, Ordering::AcqRel);
        self.changed.notify_one();
    }
}

/// Dropped, what the server has is to be asked.
struct Doubt<'a>(&'a Desk);

impl Drop for Doubt<'_> {
    fn drop(&mut self) {
        self.0.doubt();
    }
}

fn stand((state, last): (i64, String)) -> Result<Stand, ServerError> {
    let last = MessageId::read(&last)?;
    Ok(match state {
        0 => Stand::Was(last),
        1 => Stand::New(last),
        _ => Stand::None,
    })
}

impl<T, C: Codec + Decode<T>> Deliveries<T, C> {
    pub(super) async fn begin(
        place: Place,
        codec: C,
        subscriber: String,
        beginning: bool,
        terms: Terms,
    ) -> Result<Self, ObjectError> {
        let keys = keys(&place)?;
        let client = place.client().clone();
        // Before it is a subscriber: no message falls in between.
        let watch = client.watch_unpolled(channel(&keys), &keys[0]);
        let desk = Desk {
            place,
            keys,
            subscriber: subscriber.into(),
            terms,
            window: Mutex::default(),
            changed: Notify::new(),
            doubts: AtomicU64::new(0),
            was_out: AtomicBool::new(false),
        };
        let epoch = client.epoch_of(&desk.keys[0]);
        let from = if beginning { "0-0" } else { "$" };
        let name = desk.place.named()?.0;
        let told = desk.place.change(desk.enter(from.to_owned())).await?;
        match stand(told).map_err(|source| ObjectError::of(name, source))? {
            Stand::Was(last) | Stand::New(last) => desk.window().begin(last, true),
            Stand::None => desk.doubt(),
        }
        let desk = Arc::new(desk);
        let (renewed, ended) = oneshot::channel();
        let renewal = Renewal { enter: desk.enter(String::new()), every: terms.lease / 3, desk: Arc::downgrade(&desk) };
        client.spawn_attached(|on| renewal.run(on, ended));
        let messages = PhantomData;
        Ok(Deliveries { desk, codec, watch, epoch, settled: 0, not_before: Instant::MIN, _renewed: renewed, messages })
    }

    /// The id of the subscriber, by which another process can go on as it.
    pub fn subscriber(&self) -> &str {
        std::str::from_utf8(&self.desk.subscriber).unwrap_or_default()
    }

    /// What comes next; `None` when the client is shut down. While as many messages are out as may be, it waits until one is acknowledged.
    ///
    /// After [`SubscriptionError::Unavailable`] and [`Refused`](SubscriptionError::Refused) the next call tries again, a `look_every`
    /// later.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost: what was not returned is returned by the next call.
    pub async fn next(&mut self) -> Option<Result<Delivery<T>, SubscriptionError>> {
        let (desk, client) = (Arc::clone(&self.desk), self.desk.client().clone());
        let clock = client.clock().clone();
        loop {
            tokio::select! {
                biased;
                () = client.closing() => return None,
                () = clock.sleep_until(self.not_before) => {}
            }
            match self.ask().await {
                Ok(true) => return Some(Err(SubscriptionError::Gap(Gap::Interrupted))),
                Ok(false) => {}
                Err(_) if client.is_shut_down() => return None,
                Err(error) => {
                    self.not_before = clock.now() + desk.terms.look;
                    return Some(Err(error.into()));
                }
            }
            let now = clock.now();
            let next = desk.window().next(now);
            let due = match next {
                Ok(ready) => return Some(Ok(self.delivery(ready))),
                Err(due) => due,
            };
            tokio::select! {
                biased;
                () = client.closing() => return None,
                () = desk.changed.notified() => {}
                _ = self.watch.wake() => {}
                () = clock.sleep_until(due.min(now + desk.terms.look)) => {}
            }
        }
    }

    /// The same as a `Stream`.
    pub fn into_stream(self) -> impl Stream<Item = Result<Delivery<T>, SubscriptionError>> {
        unfold(self, async |mut deliveries| deliveries.next().await.map(|next| (next, deliveries)))
    }

    /// Is no subscriber any more: nothing is kept for it. Deliveries that are out change nothing any more.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] says what is true then; the lease ends it at the latest.
    ///
    /// # Cancel safety
    ///
    /// What has left is carried out although nobody waits for it; the lease ends it at the latest.
    #[doc(alias = "removeListener")]
    pub async fn leave(self) -> Result<(), ObjectError> {
        let request = LEAVE.with(self.desk.keys.clone()).arg(self.desk.subscriber.clone()).idempotent();
        let Deliveries { desk, .. } = self;
        desk.place.change::<bool>(request).await.map(drop)
    }

    /// Reads where there is room and nothing to deliver; tells whether messages may have been dropped that did not come.
    async fn ask(&mut self) -> Result<bool, ObjectError> {
        let desk = Arc::clone(&self.desk);
        let epoch = desk.client().epoch_of(&desk.keys[0]);
        let doubts = desk.doubts.load(Ordering::Acquire);
        if (epoch.is_some() && epoch != self.epoch) || doubts != self.settled {
            self.settle().await?;
            (self.epoch, self.settled) = (epoch, doubts);
            if desk.was_out.swap(false, Ordering::AcqRel) {
                return Ok(true);
            }
        }
        let (from, room) = {
            let window = desk.window();
            let now = desk.client().clock().now();
            let room = window.room(desk.terms.most);
            if room == 0 || window.has_ready(now) {
                return Ok(false);
            }
            (window.read(), room)
        };
        let request = READ.with(desk.keys.clone()).arg(desk.subscriber.clone()).arg(from.to_string());
        let request = request.int(i64::try_from(room).unwrap_or(i64::MAX));
        let mut told: Vec<Reply> = desk.place.ask(request).await?;
        let name = desk.place.named()?.0;
        let unexpected = |source| ObjectError::of(name, source);
        if told.len() < 2 {
            // Taken out, or never known to this primary: it becomes one again.
            desk.doubt();
            return Ok(false);
        }
        let messages = told.swap_remove(1).into_typed::<Vec<(String, Vec<Bytes>)>>().map_err(unexpected)?;
        let mut window = desk.window();
        // Somebody has begun anew meanwhile.
        if window.read() != from {
            return Ok(false);
        }
        for (id, fields) in messages {
            let payload = fields.chunks(2).find(|field| field[0] == "m").and_then(|field| field.get(1)).cloned();
            window.take(MessageId::read(&id).map_err(unexpected)?, payload);
        }
        // What is none of the topic is behind it: the server is told.
        let passed = window.advance().is_some();
        drop(window);
        if passed {
            desk.doubt();
        }
        Ok(false)
    }

    /// Has the server and this side agree where the subscriber is. May be dropped, and done again.
    async fn settle(&self) -> Result<(), ObjectError> {
        let desk = &*self.desk;
        let name = desk.place.named()?.0;
        let behind = desk.window().behind();
        let enter = async |from: String| {
            let told = desk.place.ask(desk.enter(from)).await?;
            stand(told).map_err(|source| ObjectError::of(name, source))
        };
        // First what changes nothing: an answer that tells of a new one is told once, and may be lost.
        let mut stand = enter(String::new()).await?;
        if let Stand::None = stand {
            desk.was_out.store(true, Ordering::Release);
            stand = enter(behind.to_string()).await?;
        }
        let last = match stand {
            Stand::Was(last) | Stand::New(last) => last,
            Stand::None => return Ok(()),
        };
        // What was acknowledged did not arrive, or is not on a primary that has taken over: then it comes again.
        let known = last >= behind || desk.place.ask::<bool>(desk.behind(behind)).await?;
        let anew = !known || desk.was_out.load(Ordering::Acquire);
        desk.window().begin(if known { last.max(behind) } else { last }, anew);
        Ok(())
    }

    fn delivery(&self, ready: Ready) -> Delivery<T> {
        let Ready { id, payload, again } = ready;
        let message = self.desk.place.decoded(&self.codec, &payload, || Some(id.to_string()));
        Delivery::new(id, again, message, Arc::clone(&self.desk))
    }
}

impl From<ObjectError> for SubscriptionError {
    fn from(error: ObjectError) -> Self {
        match error {
            ObjectError::Refused { .. } => SubscriptionError::Refused(error),
            error => SubscriptionError::Unavailable(error),
        }
    }
}

/// Has the server know that the subscriber lives.
struct Renewal {
    enter: Request,
    every: Duration,
    desk: Weak<Desk>,
}

impl Renewal {
    async fn run(self, on: BackgroundClient, mut ended: oneshot::Receiver<()>) {
        let mut due = on.clock().now() + self.every;
        loop {
            tokio::select! {
                biased;
                () = on.closing() => return,
                _ = &mut ended => return,
                () = on.clock().sleep_until(due) => {}
            }
            let sent = on.clock().now();
            let until = sent + self.every;
            tokio::select! {
                biased;
                () = on.closing() => return,
                _ = &mut ended => return,
                renewed = on.run_until::<(i64, String)>(self.enter.clone(), until) => match renewed {
                    Ok((state, _)) if state < 0 => {
                        if let Some(desk) = self.desk.upgrade() {
                            desk.doubt();
                        }
                    }
                    Ok(_) => {}
                    Err(error) => tracing::debug!(%error, "a subscriber was not renewed"),
                },
            }
            due = sent + self.every;
        }
    }
}

impl<T, C> fmt::Debug for Deliveries<T, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("Deliveries");
        debug.field("name", &self.desk.place.name()).field("terms", &self.desk.terms).finish_non_exhaustive()
    }
}
