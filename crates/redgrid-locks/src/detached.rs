//! A hold on its way from one process to another.

use std::fmt;
use std::time::Duration;

use redgrid_core::config::{LONGEST_LEASE, SHORTEST_LEASE};
use redgrid_core::lock::{AttachError, DetachError, DetachedHold, LeaseMode, LockProtocol};
use redgrid_core::{Name, Token};
use serde::{Deserialize, Serialize};

use crate::AcquireError;
use crate::guard::LockGuard;
use crate::lock::Lock;

/// A lock that its process has let go of without giving it back: for another process, which takes it over by
/// [`Lock::attach`]. Made by [`LockGuard::detach`]; goes over any wire by `serde`.
///
/// On the server the lock is still held, and its lease runs: what nobody attaches ends with it. It is no secret, and no proof:
/// whoever reads it can take the lock over, once.
#[must_use = "a detached lock that nobody attaches stays taken until its lease ends"]
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
            // Rounded up: kept rather a little longer.
            at_least_ms: millis(hold.at_least + Duration::from_micros(999)),
            max_hold_ms: hold.max_hold.map(millis),
        }
    }

    /// The name of the lock.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The fencing token, which whoever attaches keeps.
    pub fn token(&self) -> Token {
        Token::new(self.token)
    }

    /// Within which time of its being detached it has to be attached: a margin less than the server keeps it.
    pub fn left(&self) -> Duration {
        Duration::from_millis(self.left_ms)
    }

    fn hold(&self) -> DetachedHold {
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
    /// Lets go of the lock without giving it back, for another process to go on with it.
    ///
    /// A renewed lease is renewed once more first, so that there is a whole one for the way. When this returns, nobody in this
    /// process believes in the lock, and it is renewed by nobody until it is attached. Tasks of this process that wait for it go
    /// on waiting.
    ///
    /// ```no_run
    /// # async fn demo(guard: redgrid_locks::LockGuard, lock: redgrid_locks::Lock) -> Result<(), Box<dyn std::error::Error>> {
    /// let detached = guard.detach().await?;                       // in one process
    /// // … as JSON, or however else, to another one …
    /// let guard = lock.attach(&detached).await?;                  // there
    /// assert_eq!(guard.token(), detached.token());
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// [`NotDetached`], with the guard: it holds as before, unless it was lost.
    ///
    /// # Cancel safety
    ///
    /// Dropped early, the lock is given back in the background.
    pub async fn detach(self) -> Result<Detached, NotDetached> {
        let (kind, name) = (self.grant().protocol(), self.name().clone());
        match self.into_grant().detach().await {
            Ok(hold) => Ok(Detached::new(kind, &name, hold)),
            Err((why, grant)) => Err(NotDetached { guard: LockGuard::new(grant), why }),
        }
    }
}

impl Lock {
    /// Takes over a lock that another process has detached, with its token and its lease: a renewed one is renewed from here
    /// on, a fixed one ends when it would have ended there. What is left of `hold_at_least` and `hold_at_most` goes with it; durability
    /// is that of this client.
    ///
    /// The server decides: of two that attach the same, one gets it. It finds the lock by its name under this client's
    /// namespace.
    ///
    /// What was detached as a [`FencedLock`](crate::FencedLock) or [`SpinLock`](crate::SpinLock) is attached as one.
    ///
    /// # Errors
    ///
    /// [`AttachError::OtherLock`] for another name or kind; [`AttachError::Gone`] when it was attached before, taken by force, or is at the end of its lease.
    ///
    /// # Cancel safety
    ///
    /// Dropped early, the lock may be taken over and is given back in the background.
    pub async fn attach(&self, detached: &Detached) -> Result<LockGuard, AttachError> {
        let target = self.target()?;
        let name = target.name.clone();
        if (detached.kind.as_str(), detached.name.as_str()) != (self.kind().name(), name.as_str()) {
            let detached = format!("{} {}", detached.kind, detached.name);
            return Err(AttachError::OtherLock { name, detached });
        }
        let hold = detached.hold();
        let lease = hold.lease.duration();
        if !(SHORTEST_LEASE..=LONGEST_LEASE).contains(&lease) {
            let (option, expected) = ("lease", "100 ms to 30 days");
            return Err(AcquireError::InvalidArgument { name, option, expected, got: lease }.into());
        }
        self.client().attach(self.kind(), target, hold).await.map(LockGuard::new)
    }
}

/// A lock that was not detached, and the guard that still has it.
#[derive(Debug, thiserror::Error)]
#[error("the lock was not handed over")]
pub struct NotDetached {
    /// The guard.
    pub guard: LockGuard,
    /// Why.
    #[source]
    pub why: DetachError,
}

impl fmt::Display for Detached {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}`, detached by {} with token {}", self.name, self.holder, self.token)
    }
}
