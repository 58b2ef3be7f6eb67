//! One channel, those who watch it, and what they see of it.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use bytes::Bytes;
use tokio::sync::{Notify, mpsc};

use super::hub::Hub;
use super::tap::Tap;
use crate::clock::Instant;
use crate::connection::{ChannelKind, NodeId};
use crate::error::{Code, ServerError};

pub(super) struct Channel {
    /// What decides where it is subscribed.
    pub(super) key: Bytes,
    /// Where it is, or is to be, subscribed: the primary, or a replica of it.
    pub(super) home: NodeId,
    /// Who decides for the key, and is polled.
    pub(super) primary: NodeId,
    /// How it is published, and who may pass it on.
    pub(super) reach: Reach,
    pub(super) kind: ChannelKind,
    pub(super) watchers: HashMap<u64, Sink>,
    pub(super) force: Force,
    /// It was sent to its home to be subscribed, at whatever connection.
    pub(super) asked: bool,
    /// It was confirmed there once, or what became of it was not told: then it may be subscribed, although it was asked for again
    /// and refused.
    pub(super) known: bool,
    /// What to look at when polling.
    pub(super) poll: Option<Poll>,
    /// Messages heard on it.
    pub(super) heard: u64,
}

/// How messages of a channel are published, and where they may be heard.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Reach {
    /// Plainly, from whatever node; heard at the primary.
    Everywhere,
    /// In the slot of its key; heard where waiters of that listen.
    Slot,
    /// By SPUBLISH wherever servers have that, for whoever wants it so; heard at the primary of its slot.
    Sharded,
    /// Plainly, to every channel of a pattern, from whatever node; heard at the primary.
    Patterns,
    /// In the slot of its key, by who counts who hears it: heard at the primary.
    Counted,
    /// At the node whose id is the key, and at no other.
    Node,
}

/// What a poll looks at for a channel.
pub(super) struct Poll {
    pub(super) key: Bytes,
    /// The key by which those are told of us whose messages we do not get.
    pub(super) mark: Option<Bytes>,
    pub(super) due: Instant,
}

pub(super) enum Sink {
    Signal(Arc<Signal>),
    Stream(mpsc::UnboundedSender<Option<Bytes>>),
    /// One of the channels of a [`Hearing`], by its place among them.
    Hearing {
        place: usize,
        sender: mpsc::UnboundedSender<Heard>,
        /// A poll finds out what this one misses.
        polled: bool,
        term: Term,
    },
    /// Of a reader who hears several, by the number it has for this one.
    Tap {
        tap: Arc<Tap>,
        seat: u64,
    },
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Force {
    /// Not subscribed on the present connection.
    Wanted,
    /// Subscribed, and confirmed by the server.
    Confirmed,
    Denied,
    /// Refused by a server that does not have its slot, or for another reason that passes: it is tried again soon.
    Postponed,
}

/// A refusal that is remembered.
pub(super) struct Denial {
    pub(super) until: Instant,
    pub(super) why: ServerError,
}

impl Denial {
    pub(super) fn force(&self) -> Force {
        if self.why.code().is_some_and(Code::is_passing) { Force::Postponed } else { Force::Denied }
    }

    /// Whoever reads what is heard is told why it is not.
    pub(super) fn tell(&self, sink: &Sink) {
        if let (Sink::Tap { tap, .. }, Force::Denied) = (sink, self.force()) {
            tap.denied(&self.why);
        }
    }
}

/// Whether a channel is in force, and since when: a number that grows whenever that changes, and is odd while it is. Read without a lock.
#[derive(Clone, Default, Debug)]
pub struct Term(Arc<AtomicU64>);

impl Term {
    /// The present time of being in force. All that is published while two calls give the same is heard, in order.
    pub fn now(&self) -> Option<u64> {
        Some(self.0.load(Ordering::Acquire)).filter(|term| term % 2 == 1)
    }

    /// Called under the hub's state only.
    pub(super) fn set(&self, in_force: bool) {
        if self.now().is_some() != in_force {
            self.0.fetch_add(1, Ordering::AcqRel);
        }
    }
}

#[derive(Default)]
pub(super) struct Signal {
    messages: AtomicU64,
    pub(super) recheck: AtomicBool,
    pub(super) in_force: AtomicBool,
    notify: Arc<Notify>,
}

/// What woke a waiter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wake {
    /// Messages since the last wake.
    pub messages: u64,
    /// Messages may have been missed, or the poll saw the key gone: look.
    pub recheck: bool,
}

impl Signal {
    /// One that wakes whoever waits for `notify`.
    pub(super) fn of(notify: Arc<Notify>) -> Signal {
        Signal { notify, ..Signal::default() }
    }
}

impl Sink {
    pub(super) fn tell(&self, name: &Bytes, payload: &Bytes) {
        match self {
            Sink::Signal(signal) => {
                signal.messages.fetch_add(1, Ordering::Release);
                signal.notify.notify_one();
            }
            Sink::Stream(sender) => {
                let _ = sender.send(Some(payload.clone()));
            }
            Sink::Hearing { place, sender, .. } => {
                let _ = sender.send(Heard::Message { channel: *place, payload: payload.clone() });
            }
            Sink::Tap { tap, .. } => tap.tell(name, payload),
        }
    }
}

impl Channel {
    pub(super) fn new(key: Bytes, home: NodeId, primary: NodeId, reach: Reach, kind: ChannelKind) -> Channel {
        let watchers = HashMap::new();
        Channel {
            key,
            home,
            primary,
            reach,
            kind,
            watchers,
            force: Force::Wanted,
            asked: false,
            known: false,
            poll: None,
            heard: 0,
        }
    }

    /// Whether it is wanted at a node, as this kind.
    pub(super) fn is_at(&self, node: &NodeId, kind: ChannelKind) -> bool {
        self.home == *node && self.kind == kind
    }

    /// Whether it may be subscribed at its home. What was confirmed by a connection that has gone, or not confirmed, may be
    /// so on the present one: a gap is told of a moment after it.
    pub(super) fn may_be_subscribed(&self) -> bool {
        self.asked && (self.known || !matches!(self.force, Force::Denied | Force::Postponed))
    }

    pub(super) fn tell(&mut self, name: &Bytes, payload: &Bytes) {
        self.heard += 1;
        for sink in self.watchers.values() {
            match sink {
                Sink::Tap { tap, seat } if self.force != Force::Confirmed => tap.tell_early(*seat, name, payload),
                sink => sink.tell(name, payload),
            }
        }
    }

    /// Whether somebody listens of whom no poll finds out what was missed.
    pub(super) fn has_no_poll(&self) -> bool {
        let polled = |sink: &Sink| matches!(sink, Sink::Hearing { polled: true, .. });
        self.poll.is_none() && !self.watchers.values().all(polled)
    }

    pub(super) fn recheck(&self) {
        for sink in self.watchers.values() {
            match sink {
                Sink::Signal(signal) => {
                    signal.recheck.store(true, Ordering::Release);
                    signal.notify.notify_one();
                }
                Sink::Stream(sender) => {
                    let _ = sender.send(None);
                }
                Sink::Hearing { sender, .. } => {
                    let _ = sender.send(Heard::Recheck);
                }
                Sink::Tap { tap, seat } => tap.in_force(*seat),
            }
        }
    }

    pub(super) fn set(&mut self, force: Force) {
        self.force = force;
        for sink in self.watchers.values() {
            match sink {
                Sink::Signal(signal) => signal.in_force.store(force == Force::Confirmed, Ordering::Release),
                Sink::Hearing { term, .. } => term.set(force == Force::Confirmed),
                Sink::Tap { tap, seat } if force != Force::Confirmed => tap.interrupted(*seat),
                _ => {}
            }
        }
    }

    /// Nothing of it is in force on the connection there is now, whatever is known of it.
    pub(super) fn interrupt(&self) {
        for sink in self.watchers.values() {
            if let Sink::Tap { tap, seat } = sink {
                tap.interrupted(*seat);
            }
        }
    }

    /// The server has refused it.
    pub(super) fn refuse(&mut self, denial: &Denial) {
        self.set(denial.force());
        for sink in self.watchers.values() {
            denial.tell(sink);
        }
    }
}

/// A place among those who hear a channel. Dropped, it is given up.
pub(crate) struct Registration {
    pub(super) hub: Arc<Hub>,
    pub(super) channel: Bytes,
    pub(super) id: u64,
}

impl Drop for Registration {
    fn drop(&mut self) {
        self.hub.remove(&self.channel, self.id);
    }
}

/// A watched channel. Dropping it ends the subscription when nobody else watches.
pub struct Watch {
    pub(super) registration: Registration,
    pub(super) signal: Arc<Signal>,
}

impl Watch {
    /// Completes at the next message or reason to look; what came before is kept until asked for.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost: a wake that was not returned is returned by the next call.
    pub async fn wake(&mut self) -> Wake {
        loop {
            if let Some(wake) = self.take() {
                return wake;
            }
            self.signal.notify.notified().await;
        }
    }

    /// What has come since the last call, if anything.
    pub fn take(&mut self) -> Option<Wake> {
        let messages = self.signal.messages.swap(0, Ordering::AcqRel);
        let recheck = self.signal.recheck.swap(false, Ordering::AcqRel);
        (messages > 0 || recheck).then_some(Wake { messages, recheck })
    }

    /// Whether the server has confirmed the subscription on the present connection.
    pub fn in_force(&self) -> bool {
        self.signal.in_force.load(Ordering::Acquire)
    }

    /// The channel.
    pub fn channel(&self) -> &Bytes {
        &self.registration.channel
    }
}

/// The messages of a channel.
pub(crate) struct Listener {
    pub(super) _registration: Registration,
    pub(super) receiver: mpsc::UnboundedReceiver<Option<Bytes>>,
}

impl Listener {
    /// The next message; `None` in it tells a gap. `None` when the hub has ended.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost.
    pub(crate) async fn next(&mut self) -> Option<Option<Bytes>> {
        self.receiver.recv().await
    }
}

/// The messages of several channels of one slot, in the order in which the server published them: what is heard behind
/// another message was published after it, whatever their channels. Dropping it ends the subscriptions when nobody else
/// has them.
pub struct Hearing {
    pub(super) registrations: Vec<Registration>,
    pub(super) receiver: mpsc::UnboundedReceiver<Heard>,
    /// Of the first channel.
    pub(super) term: Term,
}

/// What came of a [`Hearing`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Heard {
    /// A message, and the place of its channel among those that were asked for.
    Message {
        /// The place of its channel.
        channel: usize,
        /// What was published.
        payload: Bytes,
    },
    /// Messages may have been missed, or the poll saw the key gone: look.
    Recheck,
}

impl Hearing {
    /// What comes next. Completes never again when the client has ended.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost.
    pub async fn next(&mut self) -> Heard {
        match self.receiver.recv().await {
            Some(heard) => heard,
            None => std::future::pending().await,
        }
    }

    /// What has come and was not taken yet.
    pub fn take(&mut self) -> Option<Heard> {
        self.receiver.try_recv().ok()
    }

    /// Since when the first channel is in force, for who asks often.
    pub fn term(&self) -> Term {
        self.term.clone()
    }

    /// Ends it in order: what the server publishes until it has unsubscribed the channels is still heard.
    pub fn end(self) -> LastHeard {
        for Registration { hub, channel, id } in &self.registrations {
            hub.end(channel, *id);
        }
        LastHeard { receiver: self.receiver }
    }

    /// Whether the server has confirmed the first channel on the present connection.
    pub fn in_force(&self) -> bool {
        let first = self.registrations.first();
        first.is_some_and(|first| first.hub.heard(&first.channel).is_some())
    }
}

/// What comes of a [`Hearing`] after its end was asked for.
pub struct LastHeard {
    receiver: mpsc::UnboundedReceiver<Heard>,
}

impl LastHeard {
    /// What comes next; `None` when the server has unsubscribed the channels, others of this client hear them, or the connection has
    /// gone.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost.
    pub async fn next(&mut self) -> Option<Heard> {
        self.receiver.recv().await
    }
}
