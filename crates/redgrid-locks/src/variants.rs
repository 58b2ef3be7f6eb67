//! Variants of [`Lock`]: with a stored token counter, and without release messages.

use std::time::Duration;

use redgrid_core::author::Backoff;
use redgrid_core::lock::AttachError;
use redgrid_core::name::companion;
use redgrid_core::object::Object;
use redgrid_core::{Client, Request, ServerError, Token};

use crate::AcquireError;
use crate::acquire::{Acquire, TryAcquire};
use crate::detached::Detached;
use crate::inspect::{LockHolder, LockState};
use crate::lock::Lock;
use crate::lock::LockGuard;
use crate::scripts::{FENCED, SPIN};
use crate::takeover::ForcedRelease;
use crate::with::WithError;

/// A lock whose fencing tokens are counted in a key of their own. On the wire it is Redisson's
/// `RFencedLock`.
///
/// The guard's [`token`](LockGuard::token) is one more than the last token of any holder, including
/// Java services. It is also at least the server's time in microseconds. So if the counter is lost,
/// new tokens are still higher than earlier ones. The counter, `redisson_lock_token:{name}`, has no
/// lifetime.
///
/// Re-entry with a [`Holder`](crate::Holder) keeps the token. Redisson increments it, so that a
/// holder can fence out itself. Each hold is granted by the server: the lock is not handed over
/// between the tasks of a process. If no stored counter is needed, a [`Lock`] has tokens too, and
/// is faster.
///
/// ```no_run
/// # async fn demo(client: &redgrid_locks::Client) -> Result<(), Box<dyn std::error::Error>> {
/// let lock = redgrid_locks::FencedLock::new(client, "ledger");
/// let guard = lock.acquire().await?;
/// assert_eq!(lock.token().await?, Some(guard.token()));
/// # Ok(()) }
/// ```
#[doc(alias = "RFencedLock")]
#[derive(Clone, Debug)]
pub struct FencedLock(Lock);

impl FencedLock {
    /// Returns the lock with this name.
    pub fn new(client: &Client, name: impl AsRef<str>) -> Self {
        FencedLock(Lock::of_kind(client, name, &FENCED, |key| [companion("redisson_lock_token", key)].into()))
    }

    /// Returns the last token of any holder; `None` before the first.
    ///
    /// # Errors
    ///
    /// [`ServerError`] when the request failed, or the counter is not a number.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    #[doc(alias = "getToken")]
    pub async fn token(&self) -> Result<Option<Token>, ServerError> {
        let key = self.0.query_target()?.more[0].clone();
        let last: Option<u64> = self.0.client().run(Request::command("GET").key(key).idempotent()).await?;
        Ok(last.map(Token::new))
    }
}

/// A lock without messages: releases are not published, and waiters retry. On the wire it is
/// Redisson's `RSpinLock`.
///
/// It is for very many locks with little contention, and for servers where channels are not
/// available. Tasks of one process queue, and hand the lock over as those of a [`Lock`] do. Between
/// processes there is no order. At the end of a hand-over window, the process leaves the lock to
/// other processes for the time of the longest pause.
///
/// A [`Lock`] of the same name excludes this one and is excluded by it. Its waiters are not
/// notified of the releases of a spin lock.
///
/// ```no_run
/// # use std::time::Duration;
/// # async fn demo(client: &redgrid_locks::Client) -> Result<(), Box<dyn std::error::Error>> {
/// let lock = redgrid_locks::SpinLock::new(client, "shelf:7");
/// let lock = lock.backoff(Duration::from_millis(2), Duration::from_millis(50));
/// let guard = lock.acquire().timeout(Duration::from_secs(1)).await?;
/// # Ok(()) }
/// ```
#[doc(alias = "RSpinLock")]
#[derive(Clone, Debug)]
pub struct SpinLock(Lock);

impl SpinLock {
    /// Returns the lock with this name. The pauses between tries grow from 1 ms to 128 ms, as with
    /// Redisson.
    pub fn new(client: &Client, name: impl AsRef<str>) -> Self {
        SpinLock(Lock::of_kind(client, name, &SPIN, |_| Box::default())).backoff(FIRST_PAUSE, LONGEST_PAUSE)
    }

    /// Sets the pauses between two tries.
    ///
    /// They begin with `first` and double up to `longest`. Each pause is at least a millisecond,
    /// and is then shortened at random by up to half. Short pauses find a release sooner and send
    /// more requests. Of all waiters in a process, the pauses of the first one apply.
    #[must_use]
    pub fn backoff(self, first: Duration, longest: Duration) -> Self {
        let first = first.max(SHORTEST_PAUSE);
        SpinLock(self.0.with_backoff(Backoff { first, longest: longest.max(first) }))
    }
}

/// Redisson's defaults.
const FIRST_PAUSE: Duration = Duration::from_millis(1);
const LONGEST_PAUSE: Duration = Duration::from_millis(128);

/// The resolution of tokio's timers: 1 ms.
const SHORTEST_PAUSE: Duration = Duration::from_millis(1);

/// The methods that a variant shares with [`Lock`].
macro_rules! lock_methods {
    ($kind:ident) => {
        impl $kind {
            /// Acquires the lock, as [`Lock::acquire`].
            ///
            /// # Errors
            ///
            /// [`AcquireError`] describes the state of the lock for each error.
            ///
            /// # Cancel safety
            ///
            /// That of [`Lock::acquire`].
            pub fn acquire(&self) -> Acquire {
                self.0.acquire()
            }

            /// Acquires the lock if it is free, as [`Lock::try_acquire`].
            ///
            /// # Errors
            ///
            /// [`AcquireError`] describes the state of the lock for each error.
            ///
            /// # Cancel safety
            ///
            /// That of [`Lock::acquire`].
            pub fn try_acquire(&self) -> TryAcquire {
                self.0.try_acquire()
            }

            /// Acquires the lock, runs `work` with the fencing token, and releases the lock, as
            /// [`Lock::with`].
            ///
            /// # Errors
            ///
            /// [`WithError`] when the lock was not acquired, or was lost before the work was done.
            ///
            /// # Cancel safety
            ///
            /// That of [`Lock::with`].
            pub async fn with<F, Fut>(&self, work: F) -> Result<Fut::Output, WithError>
            where
                F: FnOnce(Token) -> Fut + Send,
                Fut: Future + Send,
            {
                self.0.with(work).await
            }

            /// Returns the same lock without re-entry, as [`Lock::non_reentrant`].
            #[must_use]
            pub fn non_reentrant(self) -> Self {
                $kind(self.0.non_reentrant())
            }

            /// Returns the same lock with the label `family` in metrics and spans, as
            /// [`Lock::family`].
            #[must_use]
            pub fn family(self, family: &'static str) -> Self {
                $kind(self.0.family(family))
            }

            /// Returns whether the lock has a holder, as [`Lock::is_locked`].
            ///
            /// # Errors
            ///
            /// [`ServerError`] when the request failed.
            ///
            /// # Cancel safety
            ///
            /// Dropping the future changes nothing.
            pub async fn is_locked(&self) -> Result<bool, ServerError> {
                self.0.is_locked().await
            }

            /// Returns the holder and the remaining lease, as [`Lock::inspect`].
            ///
            /// # Errors
            ///
            /// [`ServerError`] when the request failed.
            ///
            /// # Cancel safety
            ///
            /// Dropping the future changes nothing.
            pub async fn inspect(&self) -> Result<Option<LockState>, ServerError> {
                self.0.inspect().await
            }

            /// Frees the lock, whichever holder has it, as [`Lock::force_release`].
            ///
            /// # Errors
            ///
            /// [`AcquireError`] when the takeover failed.
            ///
            /// # Cancel safety
            ///
            /// That of [`Lock::force_release`].
            pub async fn force_release(&self) -> Result<bool, AcquireError> {
                self.0.force_release().await
            }

            /// Frees the lock only while this holder has it, as [`Lock::force_release_if`].
            ///
            /// # Errors
            ///
            /// [`AcquireError`] when the takeover failed.
            ///
            /// # Cancel safety
            ///
            /// That of [`Lock::force_release`].
            pub async fn force_release_if(&self, holder: &LockHolder) -> Result<ForcedRelease, AcquireError> {
                self.0.force_release_if(holder).await
            }

            /// Takes the lock over, whichever holder has it, as [`Lock::steal`].
            ///
            /// # Errors
            ///
            /// [`AcquireError`] when the takeover failed.
            ///
            /// # Cancel safety
            ///
            /// That of [`Lock::steal`].
            pub async fn steal(&self) -> Result<LockGuard, AcquireError> {
                self.0.steal().await
            }

            /// Takes over a hold that another process detached, as [`Lock::attach`].
            ///
            /// # Errors
            ///
            /// [`AttachError`] describes the state of the hold for each error.
            ///
            /// # Cancel safety
            ///
            /// That of [`Lock::attach`].
            pub async fn attach(&self, detached: &Detached) -> Result<LockGuard, AttachError> {
                self.0.attach(detached).await
            }

            /// Returns the operations that every object has, as [`Lock::object`].
            pub fn object(&self) -> Object {
                self.0.object()
            }

            /// Returns the underlying lock.
            ///
            /// It can be part of a [`MultiLock`](crate::MultiLock) of several kinds. It also has
            /// the methods that are missing here, such as [`Lock::follow`],
            /// [`Lock::wait_until_free`] and [`Lock::remaining_lease`].
            pub fn as_lock(&self) -> &Lock {
                &self.0
            }
        }
    };
}

lock_methods!(FencedLock);
lock_methods!(SpinLock);
