//! A condition: waiting under a lock for what others change under it.

use std::sync::Arc;
use std::time::Duration;

use redgrid_core::lock::{
    AcquireError, AcquireRequest, FromHoldGuard, HoldGuard, LockKeys, LockProtocol, ReleaseError,
};
use redgrid_core::name::InvalidName;
use redgrid_core::object::{Object, layouts};
use redgrid_core::{Client, Name};

use crate::error::{AskError, WaitError};
use crate::line::{self, Stand, Stores};
use crate::place::{Place, object};

/// What tasks of all processes wait for while they do not hold the lock: as `std`'s `Condvar`, with a lock of this toolkit in place of
/// a mutex.
///
/// [`wait`](Condition::wait) gives the lock back, waits, and acquires it again. Whoever changes something does so under the same lock,
/// and notifies: no notification falls between the look at the state and the wait, since who waits stands in line before the lock is
/// free. It may come back without a reason (after a failover, say), so look again in a loop.
///
/// ```no_run
/// # async fn demo(client: &redgrid_barrier::Client) -> Result<(), Box<dyn std::error::Error>> {
/// # async fn is_empty() -> bool { false }
/// use redgrid_barrier::Condition;
/// use redgrid_locks::Lock;
///
/// let (lock, not_empty) = (Lock::new(client, "queue"), Condition::new(client, "queue:not-empty"));
/// let mut guard = lock.acquire().await?;
/// while is_empty().await {
///     guard = not_empty.wait(guard).await?; // others may hold the lock meanwhile
/// }
/// // … take something, under the lock …
/// guard.release().await?;
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct Condition {
    place: Result<Place, InvalidName>,
}

impl Condition {
    /// The condition with this name. Nothing is asked of the server. It may be used with one lock, the same everywhere.
    pub fn new(client: &Client, name: impl AsRef<str>) -> Self {
        Condition { place: Place::new(client, "condition", name) }
    }

    /// What every object has: whether it is there, its lifetime, other names, its events; with all that belongs to it.
    ///
    /// Who takes part is not asked: behind a deletion those who wait line up anew at their next look. Behind a rename the same is true of the old name.
    pub fn object(&self) -> Object {
        object(&self.place, layouts::condition)
    }

    /// Gives the lock back, waits to be notified, and acquires the lock again as it was acquired before, without its bound.
    ///
    /// # Errors
    ///
    /// [`ConditionError`]; the lock is not held then, and what it may have been notified of goes to the next.
    ///
    /// # Cancel safety
    ///
    /// Dropping it gives the lock back in the background, if it was held, and leaves the line; what it was notified of goes to the next.
    #[doc(alias = "await")]
    pub async fn wait<G: FromHoldGuard>(&self, guard: G) -> Result<G, ConditionError> {
        let (guard, _) = self.wait_at_most(guard, None).await?;
        Ok(guard)
    }

    /// Waits to be notified, for `within` at most. True if it was notified, or woke without a reason; false if the time was
    /// over. Acquiring the lock again is not bounded by `within`.
    ///
    /// # Errors
    ///
    /// As [`Condition::wait`].
    ///
    /// # Cancel safety
    ///
    /// As [`Condition::wait`].
    pub async fn wait_within<G: FromHoldGuard>(&self, guard: G, within: Duration) -> Result<(G, bool), ConditionError> {
        self.wait_at_most(guard, Some(within)).await
    }

    async fn wait_at_most<G: FromHoldGuard>(
        &self,
        guard: G,
        within: Option<Duration>,
    ) -> Result<(G, bool), ConditionError> {
        let grant = guard.into_hold_guard();
        let place = self.place.as_ref().map_err(Clone::clone).map_err(AskError::from)?;
        if !grant.is_last() {
            return Err(ConditionError::Reentered { lock: grant.name().clone() });
        }
        let lock = Lock::of(&grant);
        let mut grant = Some(grant);
        // The first run waits. A later one acquires the lock that the first run was granted and did not take in time, and
        // counts as a wake-up without a reason.
        let driven = place.client.drive_acquire(None, |_| {
            let (place, lock, grant) = (place.clone(), lock.clone(), grant.take());
            async move {
                match grant {
                    Some(grant) => wait(place, lock, grant, within).await,
                    None => Ok(Waited { grant: lock.acquire().await?, notified: true, stand: None }),
                }
            }
        });
        let waited = driven.await.unwrap_or_else(|_| {
            // It has no bound of its own, so only the end of the client ends it.
            Err(ConditionError::Failed(AskError::ShuttingDown { name: place.name.clone() }))
        })?;
        waited.grant.accept_member();
        if let Some(stand) = waited.stand {
            stand.took();
        }
        Ok((G::from_hold_guard(waited.grant), waited.notified))
    }

    /// Notifies the one who has waited longest; true if somebody waited. Nothing is kept for who comes later. Best done while the lock is
    /// held. Exactly once, although answers are lost.
    ///
    /// # Errors
    ///
    /// [`AskError`] says whether it may have been done.
    ///
    /// # Cancel safety
    ///
    /// Dropped early, it may or may not be done.
    #[doc(alias = "signal")]
    pub async fn notify_one(&self) -> Result<bool, AskError> {
        line::one(self.place.as_ref().map_err(Clone::clone)?, Stores::No).await
    }

    /// Notifies all who wait; says how many stood in line. Exactly once, although answers are lost.
    ///
    /// # Errors
    ///
    /// [`AskError`] says whether it may have been done.
    ///
    /// # Cancel safety
    ///
    /// Dropped early, it may or may not be done.
    #[doc(alias = "signalAll")]
    pub async fn notify_all(&self) -> Result<u64, AskError> {
        line::all(self.place.as_ref().map_err(Clone::clone)?).await
    }
}

/// The lock of a condition, and how it was acquired.
#[derive(Clone)]
struct Lock {
    client: Client,
    kind: &'static dyn LockProtocol,
    target: Arc<LockKeys>,
    request: AcquireRequest,
}

impl Lock {
    fn of(grant: &HoldGuard) -> Lock {
        let wanted = AcquireRequest { wait: None, once: false, ..grant.request().clone() };
        Lock {
            client: grant.client().clone(),
            kind: grant.protocol(),
            target: Arc::clone(grant.keys()),
            request: wanted,
        }
    }

    fn name(&self) -> Name {
        self.target.name.clone()
    }

    /// Acquires it again. The grant is reserved until [`Grant::give`].
    async fn acquire(self) -> Result<HoldGuard, ConditionError> {
        let lock = self.name();
        let acquire = async {
            let asked = self.client.enter(self.kind, &self.target, self.request)?.member().await?;
            asked.ok_or_else(|| AcquireError::ShuttingDown { name: lock.clone() })
        };
        acquire.await.map_err(|source| ConditionError::NotAcquired { lock, source })
    }
}

/// How a wait ended.
struct Waited {
    grant: HoldGuard,
    notified: bool,
    /// Dropping it passes the notification on to the next in line.
    stand: Option<Stand>,
}

/// Gives the lock back, waits, and acquires the lock again.
async fn wait(place: Place, lock: Lock, grant: HoldGuard, within: Option<Duration>) -> Result<Waited, ConditionError> {
    let bound = place.bound(within);
    let stand = Stand::new(&place, Stores::No);
    // Whatever comes of it, the lock is given back: others are to get a turn in each round.
    let early = tokio::select! {
        biased;
        early = stand.look_once(false) => Some(early.map_err(ConditionError::waiting)?),
        () = place.client.clock().sleep_until(bound.until()) => None,
    };
    match grant.release().await {
        // Its lease ends it at the latest; acquiring it again waits for that.
        Ok(()) | Err(ReleaseError::OutcomeUnknown { .. }) => {}
        Err(source) => return Err(ConditionError::NotReleased { lock: lock.name(), source }),
    }
    let is_bounded = bound.is_set();
    let notified = match early {
        Some(true) => Ok(()),
        Some(false) => stand.notified(bound.met(), false, true).await,
        None => Err(WaitError::TimedOut { name: place.name.clone(), waited: Duration::ZERO }),
    };
    let stand = match notified {
        Ok(()) => Some(stand),
        Err(WaitError::TimedOut { .. }) => {
            stand.leaves().await;
            None
        }
        // The time is over; acquiring the lock tells whether there is contact.
        Err(WaitError::Failed(error)) if is_bounded && error.is_passing() => None,
        Err(error) => return Err(ConditionError::waiting(error)),
    };
    let again = lock.acquire();
    let Some(stand) = stand else { return Ok(Waited { grant: again.await?, notified: false, stand: None }) };
    let grant = tokio::select! {
        biased;
        grant = again => grant?,
        // What it is notified of stays its own while it waits for the lock.
        error = keep(&stand, &place) => return Err(ConditionError::waiting(error)),
    };
    Ok(Waited { grant, notified: true, stand: Some(stand) })
}

/// Keeps what somebody is notified of, until it can not.
async fn keep(stand: &Stand, place: &Place) -> WaitError {
    let clock = place.client.clock();
    loop {
        clock.sleep_until(clock.now() + place.client.watchdog_lease() / 3).await;
        match stand.look_once(true).await {
            // Without an answer it may go to another, too: then both look.
            Ok(_) | Err(WaitError::Failed(AskError::Unavailable { .. } | AskError::OutcomeUnknown { .. })) => {}
            Err(error) => return error,
        }
    }
}

/// Why waiting for a condition ended. The lock is not held by who waited.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum ConditionError {
    /// It could not stand in line, or not go on to. The lock was given back, or is being given back.
    #[error(transparent)]
    Failed(#[from] AskError),
    /// The holder has entered more than once, and would hold the lock while it waits. This guard is gone, the others hold.
    #[error("`{lock}` is held by other guards of the same holder, too")]
    Reentered {
        /// The lock.
        lock: Name,
    },
    /// The lock had been lost before, or the server refused to release it. Nothing was waited for.
    #[error("`{lock}` could not be given back before waiting")]
    NotReleased {
        /// The lock.
        lock: Name,
        /// What is true of it.
        #[source]
        source: ReleaseError,
    },
    /// The lock was not acquired again.
    #[error("`{lock}` was not acquired again after waiting")]
    NotAcquired {
        /// The lock.
        lock: Name,
        /// What is true of it.
        #[source]
        source: AcquireError,
    },
}

impl ConditionError {
    fn waiting(error: WaitError) -> Self {
        match error {
            WaitError::Failed(error) => ConditionError::Failed(error),
            // A bound is looked at before; without one no time is over.
            WaitError::TimedOut { name, .. } => ConditionError::Failed(AskError::ShuttingDown { name }),
        }
    }
}
