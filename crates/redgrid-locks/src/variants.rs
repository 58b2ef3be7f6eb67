//! Locks that differ from [`Lock`] in a point: fenced by a counter that is stored, and waited for without messages.

use std::time::Duration;

use redgrid_core::lock::{AttachError, Backoff};
use redgrid_core::name::companion;
use redgrid_core::object::Object;
use redgrid_core::{Client, Request, ServerError, Token};

use crate::AcquireError;
use crate::acquire::{Acquire, TryAcquire, WithError};
use crate::detached::Detached;
use crate::guard::LockGuard;
use crate::inspect::{LockHolder, LockState};
use crate::lock::Lock;
use crate::scripts::{FENCED, SPIN};

/// A lock whose fencing tokens are counted in a key of their own, Redisson's `RFencedLock` on the wire.
///
/// The guard's [`token`](LockGuard::token) is one more than the last that anybody was given, Java services included, and at
/// least the server's time in microseconds: where the counter was lost, tokens go on above those that were given. The
/// counter, `redisson_lock_token:{name}`, has no lifetime.
///
/// Entering again as a [`Holder`](crate::Holder) keeps the token; Redisson counts there, so that a holder can fence out
/// itself. Each owner is granted by the server: tasks of one process do not pass it on among themselves. Where that is not
/// needed a [`Lock`] has tokens too, and is faster.
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
    /// The lock with this name.
    pub fn new(client: &Client, name: impl AsRef<str>) -> Self {
        FencedLock(Lock::of_kind(client, name, &FENCED, |key| [companion("redisson_lock_token", key)].into()))
    }

    /// The last token that was given, to whomever; `None` before the first.
    ///
    /// # Errors
    ///
    /// [`ServerError`] when it could not be asked, or the counter is not a number.
    ///
    /// # Cancel safety
    ///
    /// Dropping it changes nothing.
    #[doc(alias = "getToken")]
    pub async fn token(&self) -> Result<Option<Token>, ServerError> {
        let key = self.0.reachable()?.more[0].clone();
        let last: Option<u64> = self.0.client().run(Request::command("GET").key(key).idempotent()).await?;
        Ok(last.map(Token::new))
    }
}

/// A lock without messages, Redisson's `RSpinLock` on the wire: a release tells nobody, and who waits tries again and again.
///
/// For very many locks that are rarely waited for, and where channels are not to be had. Tasks of one process queue and pass
/// it on as those of a [`Lock`] do; between processes there is no order but that at the end of a stretch others get the time
/// of the longest pause. A [`Lock`] of the same name keeps out and is kept out, and is not told of this one's releases.
///
/// ```no_run
/// # use std::time::Duration;
/// # async fn demo(client: &redgrid_locks::Client) -> Result<(), Box<dyn std::error::Error>> {
/// let lock = redgrid_locks::SpinLock::new(client, "shelf:7").backoff(Duration::from_millis(2), Duration::from_millis(50));
/// let guard = lock.acquire().timeout(Duration::from_secs(1)).await?;
/// # Ok(()) }
/// ```
#[doc(alias = "RSpinLock")]
#[derive(Clone, Debug)]
pub struct SpinLock(Lock);

impl SpinLock {
    /// The lock with this name; tried again after 1 ms at first and 128 ms at last, as Redisson does.
    pub fn new(client: &Client, name: impl AsRef<str>) -> Self {
        SpinLock(Lock::of_kind(client, name, &SPIN, |_| Box::default())).backoff(FIRST_PAUSE, LONGEST_PAUSE)
    }

    /// The pauses between two tries: `first`, twice as long each time, at most `longest`, each shortened at random by up to
    /// half. At least a millisecond. Short ones find a release sooner and ask the server more often. Of all that wait in one
    /// process, those of the first count.
    #[must_use]
    pub fn backoff(self, first: Duration, longest: Duration) -> Self {
        let first = first.max(SHORTEST_PAUSE);
        SpinLock(self.0.backing_off(Backoff { first, longest: longest.max(first) }))
    }
}

/// Redisson's.
const FIRST_PAUSE: Duration = Duration::from_millis(1);
const LONGEST_PAUSE: Duration = Duration::from_millis(128);

/// The resolution of tokio's timers.
const SHORTEST_PAUSE: Duration = Duration::from_millis(1);

/// What a kind of lock shares with [`Lock`], by its words.
macro_rules! as_a_lock {
    ($kind:ident) => {
        impl $kind {
            /// Acquires it. As [`Lock::acquire`].
            ///
            /// # Errors
            ///
            /// [`AcquireError`] says what is true then.
            ///
            /// # Cancel safety
            ///
            /// As [`Lock::acquire`].
            pub fn acquire(&self) -> Acquire {
                self.0.acquire()
            }

            /// Acquires it if it is free. As [`Lock::try_acquire`].
            ///
            /// # Errors
            ///
            /// [`AcquireError`] says what is true then.
            ///
            /// # Cancel safety
            ///
            /// As [`Lock::acquire`].
            pub fn try_acquire(&self) -> TryAcquire {
                self.0.try_acquire()
            }

            /// Acquires it, runs `work` with its fencing token, and releases. As [`Lock::with`].
            ///
            /// # Errors
            ///
            /// [`WithError`]: not acquired, or lost before the work was done.
            ///
            /// # Cancel safety
            ///
            /// As [`Lock::with`].
            pub async fn with<F, Fut>(&self, work: F) -> Result<Fut::Output, WithError>
            where
                F: FnOnce(Token) -> Fut + Send,
                Fut: Future + Send,
            {
                self.0.with(work).await
            }

            /// The same lock, which nobody enters twice. As [`Lock::non_reentrant`].
            #[must_use]
            pub fn non_reentrant(self) -> Self {
                $kind(self.0.non_reentrant())
            }

            /// Whether anybody holds it. As [`Lock::is_locked`].
            ///
            /// # Errors
            ///
            /// [`ServerError`] when it could not be asked.
            ///
            /// # Cancel safety
            ///
            /// Dropping it changes nothing.
            pub async fn is_locked(&self) -> Result<bool, ServerError> {
                self.0.is_locked().await
            }

            /// Who holds it, and for how long. As [`Lock::inspect`].
            ///
            /// # Errors
            ///
            /// [`ServerError`] when it could not be asked.
            ///
            /// # Cancel safety
            ///
            /// Dropping it changes nothing.
            pub async fn inspect(&self) -> Result<Option<LockState>, ServerError> {
                self.0.inspect().await
            }

            /// Frees it whoever holds it. As [`Lock::force_release`].
            ///
            /// # Errors
            ///
            /// [`AcquireError`] when it could not be done.
            ///
            /// # Cancel safety
            ///
            /// As [`Lock::force_release`].
            pub async fn force_release(&self) -> Result<bool, AcquireError> {
                self.0.force_release().await
            }

            /// Frees it only while this holder has it. As [`Lock::force_release_if`].
            ///
            /// # Errors
            ///
            /// [`AcquireError`] when it could not be done.
            ///
            /// # Cancel safety
            ///
            /// As [`Lock::force_release`].
            pub async fn force_release_if(&self, holder: &LockHolder) -> Result<bool, AcquireError> {
                self.0.force_release_if(holder).await
            }

            /// Takes it whoever holds it. As [`Lock::steal`].
            ///
            /// # Errors
            ///
            /// [`AcquireError`] when it could not be done.
            ///
            /// # Cancel safety
            ///
            /// As [`Lock::steal`].
            pub async fn steal(&self) -> Result<LockGuard, AcquireError> {
                self.0.steal().await
            }

            /// Takes over one that another process has detached. As [`Lock::attach`].
            ///
            /// # Errors
            ///
            /// [`AttachError`] says what is true then.
            ///
            /// # Cancel safety
            ///
            /// As [`Lock::attach`].
            pub async fn attach(&self, detached: &Detached) -> Result<LockGuard, AttachError> {
                self.0.attach(detached).await
            }

            /// What every object has. As [`Lock::object`].
            pub fn object(&self) -> Object {
                self.0.object()
            }

            /// The lock beneath, to be one of several of different kinds.
            pub fn as_lock(&self) -> &Lock {
                &self.0
            }
        }
    };
}

as_a_lock!(FencedLock);
as_a_lock!(SpinLock);
