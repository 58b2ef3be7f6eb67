//! Group commit: waiting, on connections of its own, until what a node has answered is as durable as asked.
//!
//! WAIT blocks its connection, and speaks only of what that connection has written. So everybody who waits shares one tiny
//! write and one WAIT behind it: replication is one stream, and whoever has acknowledged this write has all that the server
//! did before it, on any connection. The next group collects while one is under way; there is no timer.
//!
//! # One connection for each level
//!
//! WAITs of one connection can not overlap, and a group that waits for a dead replica must not hold up those who ask for
//! less. So each *level* in use ([`Level`]: so many replicas, or the disk) has a connection and a queue, nearly always one in
//! all, opened at the first commit of that level and named `<client name>:commit`. Inside a level nothing is held up by a
//! stuck group that could go faster: as long as too few have acknowledged the older write in front, too few have the newer
//! one. Refused: one connection for all with short WAITs in turn. Each group's write moves the goal for the others, and a
//! replica that is late by more than a slice would never be seen to arrive.
//!
//! # What is proof
//!
//! That the grant is in the stream the replicas acknowledged. Fail closed, every commit shows that
//! - the process is the same: the commit connection read the `run_id` of the epoch it answers for, and write and WAIT went over
//!   one connection (a WAIT alone on a fresh connection counts replicas for nothing);
//! - its data is the same: `master_replid`, read in the handshake of the epoch and again behind the WAIT, is unchanged, and the
//!   server is a primary. It changes with every promotion, so a primary that was demoted, copied the data of another and was
//!   promoted again is noticed, though its run id and its connections may live through that. (It also changes when the first
//!   replica joins and after an hour without any: the commits under way then fail for nothing, once.)
//! - the epoch is still the present one, before the write and after the WAIT.

mod lane;
mod question;

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

use self::lane::{Lane, Member};
use super::ConnectionId;
use super::endpoint::Target;
use super::link::{Connection, Handshake};
use super::pool::ConnectionPool;
use crate::clock::Clock;
use crate::config::{Durability, Settings};
use crate::error::{Code, ServerError};

/// Why it is not proven that what was answered is as durable as asked. On the primary it stands all the same, unless
/// something else took it back.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CommitError {
    /// The time was over, and too few had acknowledged.
    #[error("{}", shortfall(.asked, *.acknowledged))]
    Shortfall {
        /// What was asked.
        asked: Durability,
        /// How many replicas are known to have acknowledged; 0 for [`Durability::Disk`], and for who still stood behind an
        /// earlier write that too few had acknowledged.
        acknowledged: u32,
    },
    /// The server can not give this, however long one waits.
    #[error("the server can not do it: {missing}")]
    Unsupported {
        /// What is missing, in a clause.
        missing: Cow<'static, str>,
    },
    /// The process, its data or the connection is not known to be that of the answer any more.
    #[error("nothing is proven: {reason}")]
    Unproven {
        /// What has changed, in a clause.
        reason: Cow<'static, str>,
    },
    /// The question did not leave, was refused, or got no answer.
    #[error("the server could not be asked, or did not answer")]
    Asking(#[from] ServerError),
}

impl CommitError {
    /// Whether the same request may well be proven a little later, without anybody's changing it.
    pub(crate) fn is_passing(&self) -> bool {
        match self {
            CommitError::Unproven { .. } => true,
            CommitError::Asking(error) => error.code().is_some_and(Code::is_passing),
            CommitError::Shortfall { .. } | CommitError::Unsupported { .. } => false,
        }
    }

    fn unproven(reason: &'static str) -> Self {
        CommitError::Unproven { reason: reason.into() }
    }

    fn closed() -> Self {
        ServerError::not_sent("the client is shut down").into()
    }
}

fn shortfall(asked: &Durability, acknowledged: u32) -> String {
    match asked {
        Durability::Replicas { at_least, timeout } => {
            format!("{acknowledged} of {at_least} replicas acknowledged within {timeout:?}")
        }
        Durability::Disk { timeout } => format!("it was not synced to the server's disk within {timeout:?}"),
        Durability::Primary => "the primary did not have it".into(),
    }
}

/// The commits of one node.
pub(super) struct DurabilityWaiter {
    commands: Arc<ConnectionPool>,
    way: Target,
    settings: Settings,
    clock: Clock,
    name: String,
    /// `None` once closed.
    lanes: Mutex<Option<HashMap<Level, Open>>>,
}

struct Open {
    members: mpsc::UnboundedSender<Member>,
    link: Arc<Connection>,
    tasks: [JoinHandle<()>; 2],
}

impl DurabilityWaiter {
    /// Opens nothing yet. `commands` are the connections whose answers are to be proven.
    pub(super) fn new(commands: Arc<ConnectionPool>, way: Target, settings: &Settings, clock: Clock) -> Self {
        DurabilityWaiter {
            commands,
            way,
            name: format!("{}:commit", settings.client_name),
            settings: settings.clone(),
            clock,
            lanes: Mutex::new(Some(HashMap::new())),
        }
    }

    pub(super) async fn commit(&self, since: ConnectionId, asked: Durability, tag: &[u8]) -> Result<(), CommitError> {
        let Some((level, timeout)) = Level::of(asked) else { return Ok(()) };
        // Looked at here, too, so that no connection is opened for what can not be proven anyway.
        check_provable(&self.commands, &since)?;
        let (answer, answered) = oneshot::channel();
        let member = Member { since, asked, tag: Bytes::copy_from_slice(tag), by: self.clock.now() + timeout, answer };
        self.lane(level)?.send(member).map_err(|_| CommitError::closed())?;
        answered.await.unwrap_or_else(|_| Err(CommitError::closed()))
    }

    fn lane(&self, level: Level) -> Result<mpsc::UnboundedSender<Member>, CommitError> {
        let mut lanes = self.lanes.lock().unwrap_or_else(|p| p.into_inner());
        let lanes = lanes.as_mut().ok_or_else(CommitError::closed)?;
        if let Some(open) = lanes.get(&level) {
            return Ok(open.members.clone());
        }
        // One WAIT may take `timeout`. Three times that for a command leaves the connection alive meanwhile: it is given up
        // for silence after two thirds, and the PING that watches it may queue behind a WAIT.
        let slice = self.settings.timeout;
        let settings = Settings { timeout: slice * 3, ..self.settings.clone() };
        let (clock, name) = (self.clock.clone(), self.name.clone());
        let (link, watching) = Connection::open(&self.way, &settings, clock.clone(), name, Handshake::Identity, None)?;
        let (members, waiting) = mpsc::unbounded_channel();
        let lane = Lane::new(level, Arc::clone(&link), Arc::clone(&self.commands), clock, slice, waiting);
        let serving = tokio::spawn(lane.run());
        lanes.insert(level, Open { members: members.clone(), link, tasks: [watching, serving] });
        Ok(members)
    }

    /// Has the connections end.
    pub(super) fn stop(&self) {
        let lanes = self.lanes.lock().unwrap_or_else(|p| p.into_inner());
        lanes.iter().flat_map(HashMap::values).for_each(|open| open.link.close());
    }

    /// Ends the connections; who waits is told that the client is shut down.
    pub(super) async fn close(&self) {
        let lanes = self.lanes.lock().unwrap_or_else(|p| p.into_inner()).take().unwrap_or_default();
        for open in lanes.values() {
            open.link.close();
        }
        for task in lanes.into_values().flat_map(|open| open.tasks) {
            let _ = task.await;
        }
    }
}

/// What shares a connection: those whose WAIT is the same but for its time.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Level {
    Replicas(u32),
    Disk,
}

impl Level {
    /// `None` where there is nothing to wait for.
    fn of(asked: Durability) -> Option<(Level, Duration)> {
        match asked {
            Durability::Primary | Durability::Replicas { at_least: 0, .. } => None,
            Durability::Replicas { at_least, timeout } => Some((Level::Replicas(at_least), timeout)),
            Durability::Disk { timeout } => Some((Level::Disk, timeout)),
        }
    }

    /// How many acknowledgements make it.
    fn needs(self) -> u32 {
        match self {
            Level::Replicas(at_least) => at_least,
            Level::Disk => 1,
        }
    }

    /// What a refusal means.
    fn refused(self, error: ServerError) -> CommitError {
        match (self, &error) {
            (Level::Disk, ServerError::Refused { code: Code::Other, message })
                if message.contains("unknown command") =>
            {
                CommitError::Unsupported { missing: "WAITAOF needs Redis 7.2 or newer, or Valkey".into() }
            }
            (Level::Disk, ServerError::Refused { code: Code::Other, message }) if message.contains("appendonly") => {
                CommitError::Unsupported { missing: "it keeps no append-only file (`appendonly` is `no`)".into() }
            }
            _ => error.into(),
        }
    }
}

/// Whether anything can be proven of what was answered in the epoch `since`.
fn check_provable(commands: &ConnectionPool, since: &ConnectionId) -> Result<(), CommitError> {
    if since.run_id.is_empty() || commands.history().is_empty() {
        let missing =
            "the user may not read its `run_id` and `master_replid` (INFO), without which nothing can be proven";
        return Err(CommitError::Unsupported { missing: missing.into() });
    }
    match commands.epoch().borrow().as_ref() == Some(since) {
        true => Ok(()),
        false => Err(CommitError::unproven("the connection that answered is no longer the present one")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WITHIN: Duration = Duration::from_millis(40);

    #[test]
    fn a_level_is_shared_by_all_who_wait_for_the_same() {
        let replicas = |at_least, timeout| Level::of(Durability::Replicas { at_least, timeout });
        assert_eq!(Level::of(Durability::Primary), None);
        assert_eq!(replicas(0, WITHIN), None);
        assert_eq!(replicas(2, WITHIN), Some((Level::Replicas(2), WITHIN)));
        assert_eq!(replicas(2, 2 * WITHIN).map(|(level, _)| level), Some(Level::Replicas(2)));
        assert_eq!(Level::of(Durability::Disk { timeout: WITHIN }), Some((Level::Disk, WITHIN)));
    }

    #[test]
    fn a_server_without_the_means_is_told_from_one_that_refuses() {
        let refused = |message: &str| Level::Disk.refused(ServerError::refused(message));
        let old = refused("ERR unknown command 'WAITAOF', with args beginning with: '1' '0' '5' ");
        assert!(matches!(&old, CommitError::Unsupported { missing } if missing.contains("7.2")), "{old}");
        let off = refused("ERR WAITAOF cannot be used when numlocal is set but appendonly is disabled.");
        assert!(matches!(&off, CommitError::Unsupported { missing } if missing.contains("appendonly")), "{off}");
        let denied = refused("NOPERM this user has no permissions to run the 'waitaof' command");
        assert_eq!(
            denied,
            CommitError::Asking(ServerError::refused(
                "NOPERM this user has no permissions to run the 'waitaof' command"
            ))
        );
    }
}
