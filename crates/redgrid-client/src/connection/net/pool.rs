//! The connections for requests to one node: one, or several that the rest of the client treats as
//! one.
//!
//! All requests for one name use the same connection, which keeps their order. The pool has one
//! connection id. The id exists while all connections are up and lead to the same process, and
//! changes when any of them is set up again. After a change all grants are verified, as if all
//! connections were new. So some verifications are superfluous, but none is missing.

use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::sync::watch;

use crate::connection::ConnectionId;
use crate::connection::endpoint::Connections;
use crate::connection::link::{Connection, Handshake};
use crate::connection::slot::slot;
use crate::error::ServerError;
use crate::sync::Mutex;

pub(crate) struct ConnectionPool {
    links: Vec<Arc<Connection>>,
    together: Arc<PoolState>,
}

impl ConnectionPool {
    pub(crate) fn open(connections: &Connections, count: u32, greeting: impl Fn() -> Handshake) -> Arc<ConnectionPool> {
        let count = usize::try_from(count).unwrap_or(1).max(1);
        let together = Arc::new(PoolState {
            members: Mutex::new(Members { ids: vec![None; count], ..Members::default() }),
            epoch: watch::Sender::new(None),
            refusal: watch::Sender::new(None),
        });
        let mut links = Vec::with_capacity(count);
        for at in 0..count {
            let member = PoolMember { at, together: Arc::clone(&together) };
            let link = connections.open_member(greeting(), member);
            together.members.lock().links.push(Arc::downgrade(&link));
            links.push(link);
        }
        Arc::new(ConnectionPool { links, together })
    }

    /// Returns the connection for requests with this key. All keys of one name have the same
    /// connection. Requests without a key use the first connection.
    pub(crate) fn of(&self, key: Option<&[u8]>) -> &Arc<Connection> {
        &self.links[key.map_or(0, |key| usize::from(self.shard_of(key)))]
    }

    pub(crate) fn shard_of(&self, key: &[u8]) -> u16 {
        let count = u16::try_from(self.links.len()).unwrap_or(u16::MAX);
        if count > 1 { slot(key) % count } else { 0 }
    }

    pub(crate) fn epoch(&self) -> watch::Receiver<Option<ConnectionId>> {
        self.together.epoch.subscribe()
    }

    pub(crate) fn current_epoch(&self) -> Option<ConnectionId> {
        self.together.epoch.borrow().clone()
    }

    pub(crate) fn is_up(&self) -> bool {
        self.together.epoch.borrow().is_some()
    }

    /// Returns whether [`Connection::answers`] is true for all connections.
    pub(crate) fn answers(&self) -> bool {
        self.is_up() && self.links.iter().all(|link| link.answers())
    }

    /// Returns for how long the server has sent nothing on a connection with an outstanding reply.
    ///
    /// If there are several such connections, the longest of their times is returned.
    pub(crate) fn silent_for(&self) -> Duration {
        self.links.iter().map(|link| link.silent_for()).max().unwrap_or_default()
    }

    /// Watches the error that makes waiting for the server useless, as reported by any of the
    /// connections.
    pub(crate) fn refusal(&self) -> watch::Receiver<Option<ServerError>> {
        self.together.refusal.subscribe()
    }

    /// Returns the id of the server's replication history, as the last handshake read it; see
    /// [`Connection::history`].
    pub(crate) fn history(&self) -> Arc<str> {
        Arc::clone(&self.together.members.lock().history)
    }

    pub(crate) fn down(&self) -> ServerError {
        self.missing().down()
    }

    /// Returns why one of the connections is down. If all are up, returns why the first was down
    /// before.
    pub(crate) fn trouble(&self) -> String {
        self.missing().trouble()
    }

    fn missing(&self) -> &Arc<Connection> {
        self.links.iter().find(|link| !link.is_up()).unwrap_or(&self.links[0])
    }

    pub(crate) fn suspect(&self) {
        self.links.iter().for_each(|link| link.suspect());
    }

    /// Handles the report of a connection outside the pool: the server has answered there that it
    /// accepts no writes. See [`Connection::report_read_only`].
    pub(crate) fn report_read_only(&self) {
        self.links.iter().for_each(|link| link.report_read_only());
    }

    pub(crate) fn reconnect(&self, why: &str) {
        self.links.iter().for_each(|link| link.reconnect(why));
    }

    pub(crate) fn repeat_handshake(&self, why: &str) {
        self.links.iter().for_each(|link| link.repeat_handshake(why));
    }
}

struct PoolState {
    members: Mutex<Members>,
    epoch: watch::Sender<Option<ConnectionId>>,
    refusal: watch::Sender<Option<ServerError>>,
}

#[derive(Default)]
struct Members {
    links: Vec<Weak<Connection>>,
    ids: Vec<Option<ConnectionId>>,
    history: Arc<str>,
}

/// Returns the id of the pool: the common process, and the highest connection number. Returns
/// `None` if a connection is down, or if the connections lead to different processes.
///
/// The id changes with each new connection, because the number of a new connection is higher than
/// all earlier numbers.
fn of_all(ids: &[Option<ConnectionId>]) -> Option<ConnectionId> {
    let ids = ids.iter().cloned().collect::<Option<Vec<_>>>()?;
    let is_one = ids.iter().all(|id| id.run_id == ids[0].run_id);
    ids.into_iter().max_by_key(|id| id.connection).filter(|_| is_one)
}

pub(crate) struct PoolMember {
    at: usize,
    together: Arc<PoolState>,
}

impl PoolMember {
    /// Sets or clears the error that makes waiting for the server useless, as seen by this
    /// connection.
    pub(crate) fn refuse(&self, refusal: Option<ServerError>) {
        publish(&self.together.refusal, refusal);
    }

    /// Reports the new id of this connection and the replication history from its handshake. `None`
    /// reports that the connection is down.
    pub(crate) fn report(&self, epoch: Option<(&ConnectionId, &Arc<str>)>) {
        let mut members = self.together.members.lock();
        let mut misrouted = Vec::new();
        match epoch {
            Some((epoch, history)) => {
                members.ids[self.at] = Some(epoch.clone());
                members.history = Arc::clone(history);
                // Other connections that lead to another process are reopened: the newest
                // connection shows which process the address leads to now.
                let elsewhere = |id: &Option<ConnectionId>| id.as_ref().is_some_and(|id| id.run_id != epoch.run_id);
                let links = members.links.iter().zip(&members.ids);
                misrouted.extend(links.filter(|(_, id)| elsewhere(id)).filter_map(|(link, _)| link.upgrade()));
            }
            None => members.ids[self.at] = None,
        }
        // The id is published under the lock, so that ids are published in the order of the
        // reports.
        publish(&self.together.epoch, of_all(&members.ids));
        drop(members);
        misrouted.iter().for_each(|link| link.reconnect("the connections lead to different server processes"));
    }
}

/// Sets a watched value, and notifies its watchers if the value has changed.
pub(crate) fn publish<T: PartialEq>(watched: &watch::Sender<T>, value: T) {
    watched.send_if_modified(|known| {
        let changed = *known != value;
        *known = value;
        changed
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(run_id: &str, connection: u64) -> Option<ConnectionId> {
        (!run_id.is_empty()).then(|| ConnectionId { run_id: run_id.into(), connection })
    }

    #[test]
    fn several_count_as_one_only_while_all_are_up_and_lead_to_the_same_process() {
        let epoch = id;
        assert_eq!(of_all(&[id("a", 1)]), epoch("a", 1));
        assert_eq!(of_all(&[id("a", 1), id("a", 2)]), epoch("a", 2));
        assert_eq!(of_all(&[id("a", 1), id("", 1)]), None);
        assert_eq!(of_all(&[id("a", 1), id("b", 2)]), None);
        // The number changes, whichever connection is new.
        assert_eq!(of_all(&[id("a", 3), id("a", 2)]), epoch("a", 3));
        assert_eq!(of_all(&[id("a", 3), id("a", 4)]), epoch("a", 4));
    }
}
