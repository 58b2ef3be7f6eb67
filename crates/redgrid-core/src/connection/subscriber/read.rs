//! What comes on a connection with subscriptions, told as what it is.

use std::collections::HashSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use fred::interfaces::EventInterface;
use fred::prelude::Value;
use fred::types::{KeyspaceEvent, Message, MessageKind};
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{mpsc, watch};

use crate::connection::link::Link;
use crate::connection::{Epoch, Push};
use crate::pattern::matches;

/// The key of an event and what happened to it are told on a channel of each: `__keyspace@0__:key` and `__keyevent@0__:del`. fred reads both
/// and does not say which it was, so that a connection has channels of one of the two.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(in crate::connection) enum Carries {
    /// Messages, and events by their keys.
    Messages,
    /// Events by what happened.
    Events,
    /// Messages of channels whose names are of a pattern. fred does not say of which: no two that one name may be of are on one.
    Patterns,
}

impl Carries {
    fn gap(self) -> Push {
        match self {
            Carries::Messages => Push::Gap,
            Carries::Events => Push::EventsGap,
            Carries::Patterns => Push::PatternsGap,
        }
    }

    /// The message of which fred made an event.
    fn message(self, event: KeyspaceEvent) -> Option<Push> {
        let KeyspaceEvent { db, operation, key } = event;
        match self {
            Carries::Messages => {
                let channel = [format!("__keyspace@{db}__:").as_bytes(), key.as_bytes()].concat().into();
                Some(Push::Message { channel, payload: operation.into() })
            }
            Carries::Events => {
                let channel = format!("__keyevent@{db}__:{operation}").into();
                Some(Push::Message { channel, payload: Bytes::copy_from_slice(key.as_bytes()) })
            }
            // Which of the two it was is not known: nobody is told.
            Carries::Patterns => None,
        }
    }
}

/// The patterns that a connection carries.
pub(super) type Carried = Arc<Mutex<HashSet<Bytes>>>;

/// What came, told as what it is.
fn pushed(message: Message, carried: &Carried) -> Option<Push> {
    let payload = match message.value {
        Value::Bytes(bytes) => bytes,
        Value::String(text) => text.into_inner(),
        Value::Integer(n) => n.to_string().into(),
        _ => return None,
    };
    let channel = message.channel.into_inner();
    match message.kind {
        MessageKind::Message => Some(Push::Message { channel, payload }),
        MessageKind::SMessage => Some(Push::ShardedMessage { channel, payload }),
        MessageKind::PMessage => {
            let carried = carried.lock().unwrap_or_else(|p| p.into_inner());
            let pattern = carried.iter().find(|pattern| matches(pattern, &channel))?.clone();
            Some(Push::PatternMessage { pattern, channel, payload })
        }
    }
}

/// Hands messages on, and tells a gap when the connection is lost, when it is new, and whenever some were missed.
pub(super) async fn read(
    link: Arc<Link>,
    (pushes, confirmed, carried): (Arc<Mutex<mpsc::UnboundedSender<Push>>>, Arc<AtomicU64>, Carried),
    mut endings: mpsc::UnboundedReceiver<Vec<Bytes>>,
    mut commands: watch::Receiver<Option<Epoch>>,
    carries: Carries,
) {
    let push = |push| pushes.lock().unwrap_or_else(|p| p.into_inner()).send(push);
    let mut freds = link.freds();
    let mut messages = freds.borrow_and_update().1.message_rx();
    let mut events = freds.borrow_and_update().1.keyspace_event_rx();
    let mut epoch = link.epoch();
    // It may have been connected before this was run.
    epoch.mark_changed();
    let mut told = 0;
    let closing = link.closing();
    tokio::pin!(closing);
    loop {
        tokio::select! {
            // Messages first: those of the old connection belong before the gap.
            biased;
            message = messages.recv() => match message {
                Ok(message) => {
                    link.heard();
                    if let Some(message) = pushed(message, &carried) {
                        let _ = push(message);
                    }
                }
                Err(RecvError::Lagged(_)) => { let _ = push(carries.gap()); }
                // Of a client of fred that was replaced: the next one has another.
                Err(RecvError::Closed) => messages = freds.borrow().1.message_rx(),
            },
            event = events.recv() => match event {
                Ok(event) => {
                    link.heard();
                    if let Some(message) = carries.message(event) {
                        let _ = push(message);
                    }
                }
                Err(RecvError::Lagged(_)) => { let _ = push(carries.gap()); }
                Err(RecvError::Closed) => events = freds.borrow().1.keyspace_event_rx(),
            },
            changed = freds.changed() => {
                if changed.is_err() { return }
                // Before the epoch of its connection is told: nothing is subscribed on it yet.
                let (_, fred) = &*freds.borrow_and_update();
                (messages, events) = (fred.message_rx(), fred.keyspace_event_rx());
            }
            () = &mut closing => return,
            Some(channels) = endings.recv() => { let _ = push(Push::Ended { channels }); }
            changed = epoch.changed() => {
                if changed.is_err() { return }
                let connection = epoch.borrow_and_update().as_ref().map_or(0, |epoch| epoch.connection);
                // Lost, or new: in both cases nothing is in force. That of events is opened by who subscribes, and waits for it: as long as
                // nothing was subscribed on it, it has lost nobody anything.
                if connection != told {
                    if ![0, connection].contains(&confirmed.load(Ordering::SeqCst)) || carries == Carries::Messages {
                        let _ = push(carries.gap());
                    }
                    told = connection;
                }
            }
            changed = commands.changed() => {
                if changed.is_err() { return }
                let (asked, heard) = (commands.borrow_and_update().clone(), epoch.borrow().clone());
                if asked.zip(heard).is_some_and(|(asked, heard)| is_elsewhere(&heard.run_id, &asked.run_id)) {
                    link.leave("requests go to another server process");
                }
            }
        }
    }
}

/// Whether two connections lead to different processes, as far as that may be asked.
fn is_elsewhere(one: &str, other: &str) -> bool {
    !one.is_empty() && !other.is_empty() && one != other
}
