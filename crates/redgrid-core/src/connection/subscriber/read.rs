//! Classification of the messages of a connection with subscriptions.

use std::collections::HashSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use tokio::sync::{mpsc, watch};

use crate::connection::link::Connection;
use crate::connection::{ConnectionId, Push};

/// The purpose of a subscription connection.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(in crate::connection) enum Carries {
    /// Messages, and keyspace events.
    Messages,
    /// Keyevent events.
    Events,
    /// Messages of channels that match a pattern.
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
}

/// The patterns that a connection is subscribed to.
pub(super) type Carried = Arc<Mutex<HashSet<Bytes>>>;

/// Forwards messages, and reports a gap when the connection is lost and when it is new.
pub(super) async fn read(
    link: Arc<Connection>,
    (pushes, confirmed): (Arc<Mutex<mpsc::UnboundedSender<Push>>>, Arc<AtomicU64>),
    mut endings: mpsc::UnboundedReceiver<Vec<Bytes>>,
    mut commands: watch::Receiver<Option<ConnectionId>>,
    carries: Carries,
) {
    let push = |push| pushes.lock().unwrap_or_else(|p| p.into_inner()).send(push);
    let mut messages = link.messages();
    let mut epoch = link.epoch();
    // The connection may already be up.
    epoch.mark_changed();
    let mut told = 0;
    let closing = link.closing();
    tokio::pin!(closing);
    loop {
        tokio::select! {
            // Messages first: those of the old connection precede the gap.
            biased;
            Some(message) = messages.recv() => { let _ = push(message); }
            () = &mut closing => return,
            Some(channels) = endings.recv() => {
                // Messages that arrived before the end, in the same moment.
                while let Ok(message) = messages.try_recv() { let _ = push(message); }
                let _ = push(Push::Ended { channels });
            }
            changed = epoch.changed() => {
                if changed.is_err() { return }
                let connection = epoch.borrow_and_update().as_ref().map_or(0, |epoch| epoch.connection);
                // The connection is lost or new; in both cases no subscription is active. The
                // subscriber opens the connections for events and patterns itself and waits for
                // them. As long as nothing was subscribed on one, nothing was missed.
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
                    link.reconnect("requests go to another server process");
                }
            }
        }
    }
}

/// Returns whether two connections lead to different processes, as far as their run ids are known.
fn is_elsewhere(one: &str, other: &str) -> bool {
    !one.is_empty() && !other.is_empty() && one != other
}
