//! Group commit: waits until answered writes are as durable as requested. It uses connections of
//! its own.
//!
//! WAIT blocks its connection, and covers only writes of that connection. So a caller does not send
//! a WAIT of its own. Instead, the callers that wait, the *waiters*, form groups. The waiters of a
//! group share one tiny write and one WAIT after it. Replication is one stream: if a replica has
//! acknowledged the tiny write, it also has all earlier writes of all connections. The next group
//! of waiters forms while one group is in flight; there is no timer.
//!
//! # One connection for each level
//!
//! WAITs of one connection cannot overlap. A group that waits for a dead replica must not delay
//! waiters that need fewer replicas. So each *level* in use ([`Level`]: a number of replicas, or
//! the disk) has a connection and a queue. Nearly always only one level is in use. The connection
//! of a level is opened at the first commit of that level. Its name is `<client name>:commit`.
//!
//! The groups of one level are processed one after the other. This order delays no group, because a
//! replica always acknowledges the write of an earlier group before the write of a later group.
//!
//! Rejected alternative: one connection for all levels, on which the groups of the levels take
//! turns, each with a short WAIT. A WAIT waits for the last write of its connection. On a shared
//! connection, the write of each group would also raise the replication offset for which the other
//! groups wait. If the lag of a replica exceeds the duration of one WAIT, the replica would never
//! be counted.
//!
//! # What counts as proof
//!
//! The caller has the reply to its write. A commit must prove that this write is in the stream that
//! the replicas have acknowledged. It succeeds only if all of the following are shown:
//!
//! - The server process is still the same: the commit connection has read the same `run_id` as the
//!   connection on which the reply arrived. The write of the group and the WAIT used one
//!   connection. (On a connection without a write, a WAIT counts replicas but proves nothing.)
//! - The data of the process is still the same, and the server is a primary. The `master_replid`,
//!   read in the handshake and again after the WAIT, is unchanged. It changes with every promotion.
//!   So a changed value exposes a primary that was demoted, copied the data of another server, and
//!   was promoted again. After that, the `run_id` and the connections can still be the same. (The
//!   `master_replid` also changes when the first replica joins, and after an hour without any
//!   replica. Commits in flight at that moment fail needlessly, once.)
//! - The connection on which the reply arrived is still the node's current connection. This is
//!   checked before the write of the group, and again after the WAIT.

mod group_commit;
mod wait_command;

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::{mpsc, oneshot};

use self::group_commit::{GroupCommit, Member};
use super::ConnectionId;
use super::endpoint::{Connections, Target};
use super::link::Handshake;
use super::pool::ConnectionPool;
use crate::config::{Durability, Settings};
use crate::error::{Code, ServerError};
use crate::sync::Mutex;

/// Why the requested durability of an answered write is not confirmed.
///
/// This error does not undo the write. The write remains on the primary until something else undoes
/// it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CommitError {
    /// The timeout passed before enough replicas had acknowledged the write, or before it was on
    /// disk.
    #[error("{}", shortfall(.asked, *.acknowledged))]
    Shortfall {
        /// The requested durability.
        asked: Durability,
        /// Number of replicas that are known to have acknowledged the write.
        ///
        /// The number is 0 for [`Durability::Disk`]. It is also 0 if the commit was still queued
        /// behind an earlier commit that lacked acknowledgements.
        acknowledged: u32,
    },
    /// The server cannot provide this durability, however long the caller waits.
    #[error("the server does not support this durability: {missing}")]
    Unsupported {
        /// What is missing. The error message ends with this text.
        missing: Cow<'static, str>,
    },
    /// The server process, its data or the connection may have changed since the write was
    /// answered.
    #[error("cannot confirm the durability: {reason}")]
    Unproven {
        /// What has changed. The error message ends with this text.
        reason: Cow<'static, str>,
    },
    /// The request that should confirm the durability was not sent, was refused, or was not
    /// answered.
    #[error("cannot confirm the durability: {0}")]
    Asking(#[from] ServerError),
}

impl CommitError {
    /// Returns whether the same commit may succeed a little later, without intervention.
    #[doc(hidden)]
    pub fn is_passing(&self) -> bool {
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

fn shortfall(requested: &Durability, acknowledged: u32) -> String {
    match requested {
        Durability::Replicas { at_least, timeout } => {
            format!("{acknowledged} of {at_least} replicas acknowledged within {timeout:?}")
        }
        Durability::Disk { timeout } => format!("it was not synced to the server's disk within {timeout:?}"),
        Durability::Primary => "the primary did not have the write".into(),
    }
}

pub(super) struct DurabilityWaiter {
    commands: Arc<ConnectionPool>,
    connections: Arc<Connections>,
    levels: Mutex<HashMap<Level, mpsc::UnboundedSender<Member>>>,
}

impl DurabilityWaiter {
    /// Creates a `DurabilityWaiter` without connecting. It confirms writes that were answered on
    /// the connections in `commands`.
    pub(super) fn new(commands: Arc<ConnectionPool>, connections: Arc<Connections>) -> Self {
        DurabilityWaiter { commands, connections, levels: Mutex::default() }
    }

    pub(super) async fn commit(
        &self,
        since: ConnectionId,
        requested: Durability,
        tag: &[u8],
    ) -> Result<(), CommitError> {
        let Some((level, timeout)) = Level::of(requested) else { return Ok(()) };
        // The group repeats this check. It is made here, too, so that a commit that cannot be
        // proven opens no connection.
        check_provable(&self.commands, &since)?;
        let (answer, answered) = oneshot::channel();
        let by = self.connections.target.clock.now() + timeout;
        let member = Member { since, requested, tag: Bytes::copy_from_slice(tag), by, answer };
        self.members(level).send(member).map_err(|_| CommitError::closed())?;
        answered.await.unwrap_or_else(|_| Err(CommitError::closed()))
    }

    fn members(&self, level: Level) -> mpsc::UnboundedSender<Member> {
        let mut levels = self.levels.lock();
        if let Some(members) = levels.get(&level) {
            return members.clone();
        }
        // One WAIT can take as long as the client's `response_timeout`. Meanwhile the connection is
        // silent, because a keep-alive PING queues behind the WAIT. A connection is ended once it
        // is silent for two thirds of the `response_timeout` in its settings. So the settings of
        // this connection contain three times the client's `response_timeout`.
        let target = &self.connections.target;
        let slice = target.settings.response_timeout;
        let settings = Settings { response_timeout: slice * 3, ..target.settings.clone() };
        let commit_target = Arc::new(Target { settings, ..Target::clone(target) });
        let name = format!("{}:commit", target.settings.client_name);
        let link = self.connections.open_to(&commit_target, name, Handshake::Identity, None);
        let (members, waiting) = mpsc::unbounded_channel();
        let (commands, clock) = (Arc::clone(&self.commands), target.clock.clone());
        let group_commit = GroupCommit { level, link, commands, clock, slice, waiting, queue: Vec::new(), groups: 0 };
        // The task ends with its connection. The waiters then get the error that the client is shut
        // down.
        tokio::spawn(group_commit.run());
        levels.insert(level, members.clone());
        members
    }
}

/// A durability level. Its commits share a connection, because their WAIT commands differ only in
/// the timeout.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Level {
    Replicas(u32),
    Disk,
}

impl Level {
    /// Returns the level and the timeout; `None` if there is nothing to wait for.
    fn of(requested: Durability) -> Option<(Level, Duration)> {
        match requested {
            Durability::Primary | Durability::Replicas { at_least: 0, .. } => None,
            Durability::Replicas { at_least, timeout } => Some((Level::Replicas(at_least), timeout)),
            Durability::Disk { timeout } => Some((Level::Disk, timeout)),
        }
    }

    fn needs(self) -> u32 {
        match self {
            Level::Replicas(at_least) => at_least,
            Level::Disk => 1,
        }
    }

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

/// Checks whether the durability of a write can be proven. `since` is the connection on which the
/// write was answered.
fn check_provable(commands: &ConnectionPool, since: &ConnectionId) -> Result<(), CommitError> {
    if since.run_id.is_empty() || commands.history().is_empty() {
        let missing = "the user may not read the server's `run_id` and `master_replid` (INFO), which this needs";
        return Err(CommitError::Unsupported { missing: missing.into() });
    }
    match commands.epoch().borrow().as_ref() == Some(since) {
        true => Ok(()),
        false => Err(CommitError::unproven("the connection that answered was replaced")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMEOUT: Duration = Duration::from_millis(40);

    #[test]
    fn callers_with_equal_requirements_share_a_level() {
        let replicas = |at_least, timeout| Level::of(Durability::Replicas { at_least, timeout });
        assert_eq!(Level::of(Durability::Primary), None);
        assert_eq!(replicas(0, TIMEOUT), None);
        assert_eq!(replicas(2, TIMEOUT), Some((Level::Replicas(2), TIMEOUT)));
        assert_eq!(replicas(2, 2 * TIMEOUT).map(|(level, _)| level), Some(Level::Replicas(2)));
        assert_eq!(Level::of(Durability::Disk { timeout: TIMEOUT }), Some((Level::Disk, TIMEOUT)));
    }

    #[test]
    fn an_unsupported_command_is_distinguished_from_a_refused_one() {
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
