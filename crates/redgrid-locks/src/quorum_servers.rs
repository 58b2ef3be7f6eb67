//! The servers of a quorum, and the marks of their incarnations.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use redgrid_core::author::ClientExt;
use redgrid_core::{Client, DeploymentKind, Name, Script, ServerError};

use crate::quorum::QuorumLock;

static MARK_INCARNATION: Script<1> =
    Script::new("lock/server_incarnation", include_str!("scripts/server_incarnation.lua"));

/// Default longest lease: a minute. A new process of a server abstains for a tenth longer.
const LONGEST_LEASE: Duration = Duration::from_secs(60);

/// Default time for the reply of each server: 100 ms, some round trips within a region.
const REPLY_TIMEOUT: Duration = Duration::from_millis(100);

/// Shortest interval between two mark requests to a server: 100 ms, in nanoseconds.
const MARK_INTERVAL_NANOS: u64 = 100_000_000;

/// Several independent servers, of which a majority decides.
///
/// Each server is a deployment of its own, with a client of its own.
///
/// Each server stores an *incarnation mark* (key `redgrid_birth`): the id of its process, and the
/// time from which that process votes. If the mark is missing or names another process, the server
/// may have lost its holders. It then abstains until the longest lease that it could have granted
/// has ended. [`bootstrap`](Quorum::bootstrap) sets the marks once, when the servers are new.
///
/// ```no_run
/// # async fn demo(clients: Vec<redgrid_locks::Client>) -> Result<(), Box<dyn std::error::Error>> {
/// use redgrid_locks::Quorum;
///
/// let quorum = Quorum::new(clients)?; // of five servers, say
/// quorum.bootstrap().await?;          // once, when they are installed
/// let guard = quorum.lock("ledger").acquire().await?;
/// guard.release().await?;
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct Quorum {
    pub(crate) clients: Arc<[Client]>,
    pub(crate) longest_lease: Duration,
    pub(crate) reply_timeout: Duration,
    /// When the incarnation of each server was last marked, in nanoseconds.
    last_marked: Arc<[AtomicU64]>,
}

impl Quorum {
    /// Creates a quorum of the servers of these clients, at least three.
    ///
    /// None of them may be a cluster: its nodes lose their memory one by one.
    ///
    /// # Errors
    ///
    /// [`InvalidQuorum`] when the servers cannot form a quorum.
    pub fn new(clients: impl IntoIterator<Item = Client>) -> Result<Quorum, InvalidQuorum> {
        let clients: Arc<[Client]> = clients.into_iter().collect();
        if clients.len() < 3 {
            return Err(InvalidQuorum::TooFew { servers: clients.len() });
        }
        if let Some(at) = clients.iter().position(|client| client.topology().kind == DeploymentKind::Cluster) {
            return Err(InvalidQuorum::Cluster { at });
        }
        let last_marked = clients.iter().map(|_| AtomicU64::new(0)).collect();
        Ok(Quorum { clients, longest_lease: LONGEST_LEASE, reply_timeout: REPLY_TIMEOUT, last_marked })
    }

    /// Sets the longest lease that is granted; a minute unless set. Longer leases are refused.
    ///
    /// It must be the same for all clients of these servers. A new incarnation of a server abstains
    /// for a tenth longer.
    #[must_use]
    pub fn longest_lease(self, longest: Duration) -> Self {
        Quorum { longest_lease: longest, ..self }
    }

    /// Sets the time for the reply of each server; 100 ms unless set.
    ///
    /// An unreachable server costs this time only if it is needed for a majority.
    #[must_use]
    pub fn share(self, share: Duration) -> Self {
        Quorum { reply_timeout: share, ..self }
    }

    /// Lets new servers vote at once.
    ///
    /// A server that already has a mark is not changed. Returns whether all servers were new.
    ///
    /// This is only for the first installation. On a server that lost its memory it would disable
    /// the protection by the mark.
    ///
    /// # Errors
    ///
    /// [`ServerError`] when the request to a server failed. The servers before it are marked.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped early, some servers are marked. Another call marks the rest.
    pub async fn bootstrap(&self) -> Result<bool, ServerError> {
        let mut all_new = true;
        for client in self.clients.iter() {
            all_new &= mark_incarnation(client, Duration::ZERO, true).await? == 1;
        }
        Ok(all_new)
    }

    /// Returns the lock with this name on these servers.
    pub fn lock(&self, name: impl AsRef<str>) -> QuorumLock {
        QuorumLock::of(self, name, false)
    }

    /// Returns the number of servers that form a majority.
    pub(crate) fn majority(&self) -> usize {
        self.clients.len() / 2 + 1
    }

    /// Marks the incarnation of a server that did not grant the lock, in a task of its own.
    ///
    /// The server may have no mark, or that of another process. Once marked, it votes again when no
    /// hold that it lost can still be valid.
    pub(crate) fn mark_in_background(&self, at: usize) {
        let (client, after) = (self.clients[at].clone(), self.longest_lease + self.longest_lease / 10);
        let now = client.clock().now();
        let last_marked = &self.last_marked[at];
        let last = last_marked.load(Ordering::Relaxed);
        let due = now.as_nanos() >= last.saturating_add(MARK_INTERVAL_NANOS);
        if due && last_marked.compare_exchange(last, now.as_nanos(), Ordering::Relaxed, Ordering::Relaxed).is_ok() {
            tokio::spawn(async move { mark_incarnation(&client, after, false).await });
        }
    }
}

/// Stores the incarnation mark of a server, which votes once `after` has passed. Returns the status
/// of the script.
async fn mark_incarnation(client: &Client, after: Duration, only_new: bool) -> Result<i64, ServerError> {
    let key = incarnation_key(client);
    let after_micros = i64::try_from(after.as_micros()).unwrap_or(i64::MAX);
    let request = MARK_INCARNATION.with([key]).int(after_micros).int(i64::from(only_new)).idempotent();
    let (status, _): (i64, u64) = client.run(request).await?;
    Ok(status)
}

/// Returns the key of a server's incarnation mark, in the client's namespace.
pub(crate) fn incarnation_key(client: &Client) -> Bytes {
    Name::new("redgrid_birth").map(|name| client.key(&name)).unwrap_or_default()
}

/// Reason why several servers cannot form a quorum.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidQuorum {
    /// There are fewer than three servers: no majority could outvote one that fails.
    #[error("a quorum needs at least three servers, got {servers}")]
    TooFew {
        /// Number of servers.
        servers: usize,
    },
    /// One of the servers is a cluster.
    #[error("the client at index {at} is connected to a cluster: a quorum needs single servers")]
    Cluster {
        /// Index of its client, from 0.
        at: usize,
    },
}
