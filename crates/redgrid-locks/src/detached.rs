//! Hands a hold from one process to another.

use std::fmt;
use std::time::Duration;

use redgrid_core::author::{LockExt, LockProtocol};
use redgrid_core::config::{LONGEST_LEASE, SHORTEST_LEASE};
use redgrid_core::lock::{AttachError, DetachError, DetachedHold, LeaseMode};
use redgrid_core::{Name, Token};
use serde::{Deserialize, Serialize};

use crate::AcquireError;
use crate::lock::Lock;
use crate::lock::LockGuard;

/// A hold that its process gave up without releasing it, for another process to attach.
///
/// It is made by [`LockGuard::detach`] and taken over by [`Lock::attach`]. It can be sent in any
/// format of `serde`.
///
/// On the server the lock is still held, and its lease runs. A hold that is not attached ends with
/// the lease. The value is neither a secret nor a proof: any process that reads it can take the
/// lock over, once.
#[must_use = "a detached lock that is not attached stays held until its lease ends"]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Detached {
    kind: String,
    name: String,
    holder: String,
    token: u64,
    renewed: bool,
    lease_ms: u64,
    left_ms: u64,
    #[serde(default, skip_serializing_if = "is_zero")]
    ends_us: u64,
    #[serde(default, skip_serializing_if = "is_zero")]
    at_least_ms: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    max_hold_ms: Option<u64>,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

impl Detached {
    fn new(kind: &dyn LockProtocol, name: &Name, hold: DetachedHold) -> Self {
        let lease = hold.lease.duration();
        Detached {
            kind: kind.name().to_owned(),
            name: name.as_str().to_owned(),
            holder: String::from_utf8_lossy(&hold.field).into_owned(),
            token: hold.token.get(),
            renewed: matches!(hold.lease, LeaseMode::Renewed(_)),
            lease_ms: millis(lease),
            left_ms: millis(hold.left),
            ends_us: hold.ends,
            // Rounded up: the lock stays taken slightly longer rather than shorter.
            at_least_ms: millis(hold.at_least + Duration::from_micros(999)),
            max_hold_ms: hold.max_hold.map(millis),
        }
    }

    /// Returns the name of the lock.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the fencing token. Attaching keeps it.
    pub fn token(&self) -> Token {
        Token::new(self.token)
    }

    /// Returns the time after the detach within which the hold must be attached.
    ///
    /// The server keeps the hold longer than that, by a margin.
    pub fn left(&self) -> Duration {
        Duration::from_millis(self.left_ms)
    }

    fn to_hold(&self) -> DetachedHold {
        let lease = Duration::from_millis(self.lease_ms);
        DetachedHold {
            field: self.holder.clone().into(),
            token: self.token(),
            lease: if self.renewed { LeaseMode::Renewed(lease) } else { LeaseMode::Fixed(lease) },
            left: self.left(),
            ends: self.ends_us,
            at_least: Duration::from_millis(self.at_least_ms).min(LONGEST_LEASE),
            max_hold: self.max_hold_ms.map(Duration::from_millis),
        }
    }
}

impl LockGuard {
    /// Detaches the hold from this process without releasing the lock, for another process to
    /// continue.
    ///
    /// A renewed lease is renewed once more first, so that a whole lease remains for the transfer.
    /// When this returns, the hold is no longer valid in this process. The lock is not renewed
    /// until it is attached. Waiting tasks of this process keep waiting.
    ///
    /// ```no_run
    /// # async fn demo(
    /// #     guard: redgrid_locks::LockGuard,
    /// #     lock: redgrid_locks::Lock,
    /// # ) -> Result<(), Box<dyn std::error::Error>> {
    /// let detached = guard.detach().await?;                       // in one process
    /// // … sent to another process, as JSON or in another format …
    /// let guard = lock.attach(&detached).await?;                  // there
    /// assert_eq!(guard.token(), detached.token());
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// [`NotDetached`], with the guard. The hold continues, unless it was lost.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped early, the lock is released in the background.
    pub async fn detach(self) -> Result<Detached, NotDetached> {
        let (kind, name) = (self.grant().protocol(), self.name().clone());
        match self.into_grant().detach().await {
            Ok(hold) => Ok(Detached::new(kind, &name, hold)),
            Err((why, grant)) => Err(NotDetached { guard: LockGuard::new(grant), why }),
        }
    }
}

impl Lock {
    /// Takes over a hold that another process detached, with its token and its lease.
    ///
    /// A renewed lease is renewed by this process from now on. A fixed one ends when it would have
    /// ended in the other process. The rest of `hold_at_least` and `hold_at_most` stays in force.
    /// The durability is that of this client.
    ///
    /// The server decides: of two processes that attach the same hold, one gets it. The lock is
    /// found by its name in this client's namespace.
    ///
    /// A hold of a [`FencedLock`](crate::FencedLock) or [`SpinLock`](crate::SpinLock) is attached
    /// to a lock of that kind.
    ///
    /// # Errors
    ///
    /// [`AttachError::OtherLock`] for another name or kind. [`AttachError::Gone`] when the hold was
    /// attached before, taken by force, or is at the end of its lease.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped early, the hold may have been taken over. It is then released in
    /// the background.
    pub async fn attach(&self, detached: &Detached) -> Result<LockGuard, AttachError> {
        let target = self.target()?;
        let name = target.name.clone();
        if (detached.kind.as_str(), detached.name.as_str()) != (self.kind().name(), name.as_str()) {
            let detached = format!("{} {}", detached.kind, detached.name);
            return Err(AttachError::OtherLock { name, detached });
        }
        let hold = detached.to_hold();
        let lease = hold.lease.duration();
        if !(SHORTEST_LEASE..=LONGEST_LEASE).contains(&lease) {
            let (option, expected) = ("lease", "100 ms to 30 days");
            return Err(AcquireError::invalid_argument(&name, option, expected, lease).into());
        }
        self.client().attach(self.kind(), target, hold).await.map(LockGuard::new)
    }
}

/// The error of a failed detach, with the guard.
#[derive(Debug, thiserror::Error)]
#[error("{why}")]
#[non_exhaustive]
pub struct NotDetached {
    /// The guard, which still has the lock unless it was lost.
    pub guard: LockGuard,
    /// The reason.
    #[source]
    pub why: DetachError,
}

impl fmt::Display for Detached {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}`, detached by {} with token {}", self.name, self.holder, self.token)
    }
}
