//! Asking for a lock, or several as one: options, then await.

use std::future::IntoFuture;
use std::pin::Pin;
use std::time::Duration;

use redgrid_core::config::{Durability, LONGEST_LEASE, SHORTEST_LEASE};
use redgrid_core::hold::{Grant, Lease, Wish};
use redgrid_core::{Holder, Name, Token};

use crate::guard::{LockGuard, LockLost};
use crate::lock::Lock;
use crate::{AcquireError, ReleaseError};

/// Acquires a lock when awaited; made by [`Lock::acquire`] and its like.
#[must_use = "nothing is asked of the server until this is awaited"]
#[derive(Clone, Debug)]
pub struct Acquire<L = Lock>(Options<L>);

/// Tries to acquire a lock when awaited; made by [`Lock::try_acquire`] and its like.
#[must_use = "nothing is asked of the server until this is awaited"]
#[derive(Clone, Debug)]
pub struct TryAcquire<L = Lock>(Options<L>);

/// What is acquired with options: a [`Lock`], or several as one. Of this crate only.
pub trait Acquirable: sealed::Sealed + Clone + Send + Sync + 'static {
    /// The proof that it is held.
    type Guard: Send;

    /// The first of its names.
    #[doc(hidden)]
    fn first(&self) -> Result<&Name, AcquireError>;

    /// Asks for it: `None` where others have it.
    #[doc(hidden)]
    fn ask(
        options: Options<Self>,
        once: bool,
    ) -> impl Future<Output = Result<Option<Self::Guard>, AcquireError>> + Send;
}

pub(crate) mod sealed {
    pub trait Sealed {}
}

/// What was said of an acquire before it was awaited.
#[derive(Clone, Debug)]
pub struct Options<L> {
    pub(crate) lock: L,
    pub(crate) wait: Option<Duration>,
    lease: Option<Duration>,
    watchdog: Option<Duration>,
    holder: Option<Holder>,
    at_least: Duration,
    max_hold: Option<Duration>,
    durability: Option<Durability>,
}

impl<L: Acquirable> Options<L> {
    fn new(lock: L) -> Self {
        Options {
            lock,
            wait: None,
            lease: None,
            watchdog: None,
            holder: None,
            at_least: Duration::ZERO,
            max_hold: None,
            durability: None,
        }
    }

    /// What is wished of a lock, once its values are found to be possible.
    pub(crate) fn wish(&self, lock: &Lock, once: bool) -> Result<Wish, AcquireError> {
        let target = lock.target()?;
        let refuse = |option, expected, got| {
            Err(AcquireError::InvalidArgument { name: target.name.clone(), option, expected, got })
        };
        let in_range = |lease: &Duration| (SHORTEST_LEASE..=LONGEST_LEASE).contains(lease);
        for (option, lease) in [("lease", self.lease), ("watchdog", self.watchdog)] {
            if let Some(lease) = lease.filter(|lease| !in_range(lease)) {
                return refuse(option, "100 ms to 30 days", lease);
            }
        }
        if self.at_least > LONGEST_LEASE {
            return refuse("at_least", "at most 30 days", self.at_least);
        }
        if let (Some(longest), true) = (self.max_hold, self.max_hold.is_some_and(|longest| longest < SHORTEST_LEASE)) {
            return refuse("max_hold", "at least 100 ms", longest);
        }
        let lease = match self.lease {
            Some(lease) => Lease::Fixed(lease),
            None => Lease::Renewed(self.watchdog.unwrap_or(lock.client().watchdog_lease())),
        };
        let holder = self.holder.clone().or_else(Holder::current).map(|holder| holder.id());
        let durability = self.durability.unwrap_or(lock.client().durability());
        let (at_least, max_hold, wait) = (self.at_least, self.max_hold, self.wait);
        let (reenters, backoff) = (lock.reenters(), lock.backoff());
        Ok(Wish { lease, holder, at_least, max_hold, once, wait, durability, reenters, backoff })
    }
}

impl sealed::Sealed for Lock {}

impl Acquirable for Lock {
    type Guard = LockGuard;

    fn first(&self) -> Result<&Name, AcquireError> {
        Ok(&self.target()?.name)
    }

    async fn ask(options: Options<Self>, once: bool) -> Result<Option<LockGuard>, AcquireError> {
        let lock = &options.lock;
        let wish = options.wish(lock, once)?;
        let grant: Option<Grant> = lock.client().enter(lock.kind(), lock.target()?, wish)?.outcome().await?;
        Ok(grant.map(LockGuard::new))
    }
}

macro_rules! options {
    ($builder:ident) => {
        impl<L: Acquirable> $builder<L> {
            pub(crate) fn new(lock: L) -> Self {
                $builder(Options::new(lock))
            }

            /// Waits at most this long for others to release; zero looks once. Without it, an acquire waits as long as it
            /// takes (but not without any contact to the server), and a try does not wait.
            pub fn wait(mut self, wait: Duration) -> Self {
                self.0.wait = Some(wait);
                self
            }

            /// Holds the lock for this long at most, renewed by nobody: 100 ms to 30 days. A short lease frees the lock
            /// soon after a crash; a lease that runs out during the work loses the lock. Without it the lease is renewed
            /// while the guard lives. [`LockGuard::extend`] lengthens by hand.
            pub fn lease(mut self, lease: Duration) -> Self {
                self.0.lease = Some(lease);
                self
            }

            /// Renews the lease, as by default, but with leases of this length: 100 ms to 30 days, 30 s unless set here or
            /// in the configuration. Short ones free the lock sooner after a crash; long ones survive longer pauses.
            pub fn watchdog(mut self, lease: Duration) -> Self {
                self.0.lease = None;
                self.0.watchdog = Some(lease);
                self
            }

            /// Acquires for this holder, who gets in again without waiting where it already is.
            pub fn by(mut self, holder: &Holder) -> Self {
                self.0.holder = Some(holder.clone());
                self
            }

            /// Keeps the name taken for at least this long, also when the guard is released or the process dies before:
            /// for a job that must run once per interval. Nothing unless set.
            pub fn at_least(mut self, keep: Duration) -> Self {
                self.0.at_least = keep;
                self
            }

            /// Has the grant and each renewal of it count only once they are so durable; as the configuration says unless set.
            /// An acquire that falls short is given back and ends [`AcquireError::NotDurable`]; a renewal that does is
            /// tried again until the hold's deadline. Who enters again as a holder has what the first one asked for.
            pub fn durability(mut self, durability: Durability) -> Self {
                self.0.durability = Some(durability);
                self
            }

            /// Ends renewal after this long, so that a holder that hangs loses the lock one lease later. Unlimited unless
            /// set.
            pub fn max_hold(mut self, longest: Duration) -> Self {
                self.0.max_hold = Some(longest);
                self
            }
        }
    };
}

options!(Acquire);
options!(TryAcquire);

impl Acquire {
    /// Acquires, runs `work` with the fencing token, releases. The work is dropped when the lock is lost.
    ///
    /// # Errors
    ///
    /// [`WithError`]: not acquired, or lost before the work was done.
    ///
    /// # Cancel safety
    ///
    /// Dropping it drops the work and gives the lock back in the background.
    pub async fn with<F, Fut>(self, work: F) -> Result<Fut::Output, WithError>
    where
        F: FnOnce(Token) -> Fut + Send,
        Fut: Future + Send,
    {
        let guard = self.await?;
        let done = guard.run(work(guard.token())).await?;
        match guard.release().await {
            // Done under a lease that held; only its end was not confirmed, and the lease ends it.
            Ok(()) | Err(ReleaseError::OutcomeUnknown { .. } | ReleaseError::Refused { .. }) => Ok(done),
            Err(ReleaseError::Lost { name, reason }) => Err(WithError::Lost(LockLost { name, reason })),
            Err(_) => Ok(done),
        }
    }
}

impl<L: Acquirable> IntoFuture for Acquire<L> {
    type Output = Result<L::Guard, AcquireError>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            // A wait of zero is one look.
            let once = self.0.wait.is_some_and(|wait| wait.is_zero());
            let name = self.0.lock.first()?.clone();
            let mut options = self.0;
            options.wait = options.wait.filter(|wait| !wait.is_zero());
            let guard = L::ask(options, once).await?;
            guard.ok_or(AcquireError::TimedOut { name, waited: Duration::ZERO })
        })
    }
}

impl<L: Acquirable> IntoFuture for TryAcquire<L> {
    type Output = Result<Option<L::Guard>, AcquireError>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let mut options = self.0;
            options.wait = options.wait.filter(|wait| !wait.is_zero());
            let once = options.wait.is_none();
            match L::ask(options, once).await {
                Err(AcquireError::TimedOut { .. }) => Ok(None),
                outcome => outcome,
            }
        })
    }
}

/// Why work under a lock was not done, or not done to its end.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum WithError {
    /// The lock was not acquired; the work was not begun.
    #[error(transparent)]
    Acquire(#[from] AcquireError),
    /// The lock was lost; the work was dropped, or had just been done.
    #[error(transparent)]
    Lost(#[from] LockLost),
}
