//! Acquires several locks together: all of them, or none.

use std::collections::HashSet;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use redgrid_core::author::{ClientExt, LockExt, MultiKeyProtocol};
use redgrid_core::clock::Instant;
use redgrid_core::lock::{AcquireRequest, HoldArgs, HoldGuard, MultiGrant, MultiOutcome, PendingAcquire};
use redgrid_core::{BulkScript, Client, InvalidName, Name, Request};

use crate::AcquireError;
use crate::acquire::AcquireOptions;
use crate::drive::drive;
use crate::lock::Lock;
use crate::many::{Acquirable, AcquireMany, TryAcquireMany, sealed};
use crate::multi_guard::MultiGuard;
use crate::scripts::{ExclusiveLock, millis};

static ACQUIRE_MANY: BulkScript = BulkScript::new("lock/acquire-many", include_str!("scripts/acquire_many.lua"));

/// Maximum number of names in one lock: 10,000.
///
/// One script acquires the names of a slot. It keeps the server busy for some 3 µs for each name.
const MAX_NAMES: usize = 10_000;

/// Longest pause before the wait for a busy lock is repeated: 64 ms.
///
/// Two requests that obstruct each other get out of step after shorter pauses already.
const LONGEST_PAUSE: Duration = Duration::from_millis(64);

/// Longest wait for the release of a failed attempt's grants: 1 s.
///
/// After that the release goes on in the background.
const RELEASE_TIMEOUT: Duration = Duration::from_secs(1);

/// Several locks that are acquired and released together.
///
/// On the wire each is a lock of its own. It excludes a [`Lock`] of one of the names, and
/// Redisson's `RLock` and `RMultiLock`, and is excluded by them.
///
/// One script acquires the names of one hash slot, all or none. Without a cluster, one script
/// acquires all names. Slots are acquired one after the other, in order. If a name is busy, all
/// acquired names are released at once. Only then does the request wait for the busy name, in its
/// queue. So no request waits while it holds a lock, whatever the order of other requests.
///
/// A name that is *always* taken when the others are free is never acquired together with them:
/// guard contended data by a single name.
///
/// It is cheap to clone. Creating one sends no request.
///
/// ```no_run
/// # async fn demo(client: &redgrid_locks::Client) -> Result<(), Box<dyn std::error::Error>> {
/// use redgrid_locks::MultiLock;
///
/// let both = MultiLock::new(client, ["account:1", "account:2"]);
/// let guard = both.acquire().await?;
/// // … move the money …
/// guard.release().await?;
/// # Ok(()) }
/// ```
#[doc(alias = "RMultiLock")]
#[doc(alias = "RedissonMultiLock")]
#[doc(alias = "getMultiLock")]
#[derive(Clone, Debug)]
pub struct MultiLock {
    members: Result<Arc<Members>, InvalidName>,
}

/// The locks in the order in which they are acquired.
#[derive(Debug)]
struct Members {
    locks: Vec<Lock>,
    /// Ranges of the locks that one script acquires.
    groups: Vec<Range<usize>>,
}

impl MultiLock {
    /// Combines the locks with these names, at most 10,000. Duplicate names count once.
    pub fn new<N: AsRef<str>>(client: &Client, names: impl IntoIterator<Item = N>) -> Self {
        MultiLock::of(names.into_iter().map(|name| Lock::new(client, name)))
    }

    /// Combines these locks, which may have different kinds and clients.
    ///
    /// [`FencedLock::as_lock`](crate::FencedLock::as_lock) and
    /// [`SpinLock::as_lock`](crate::SpinLock::as_lock) return locks of other kinds. A name may have
    /// only one kind per client: two kinds would exclude each other.
    ///
    /// Do not combine locks of one name from two clients of the same servers: these locks exclude
    /// each other, so they are never acquired together. This is not checked.
    pub fn of(locks: impl IntoIterator<Item = Lock>) -> Self {
        MultiLock { members: Members::of(locks.into_iter().collect()).map(Arc::new) }
    }

    /// Acquires all locks. The wait is unlimited unless [`AcquireMany::timeout`] is set.
    ///
    /// Leases and other options apply to each lock.
    ///
    /// # Errors
    ///
    /// [`AcquireError`], with the name that failed. None of the locks is held then.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future releases the locks acquired so far, in the background.
    pub fn acquire(&self) -> AcquireMany<MultiLock> {
        AcquireMany::new(self)
    }

    /// Acquires all locks if all are free, or returns `None`.
    ///
    /// # Errors
    ///
    /// [`AcquireError`] describes the state of the locks for each error.
    ///
    /// # Cancel safety
    ///
    /// That of [`MultiLock::acquire`].
    pub fn try_acquire(&self) -> TryAcquireMany<MultiLock> {
        TryAcquireMany::new(self)
    }

    fn members(&self) -> Result<&Arc<Members>, AcquireError> {
        self.members.as_ref().map_err(|invalid| AcquireError::from(invalid.clone()))
    }
}

impl Members {
    fn of(locks: Vec<Lock>) -> Result<Members, InvalidName> {
        let refuse = |name: &Name, rule| InvalidName { name: name.as_str().chars().take(64).collect(), rule };
        let mut clients = Vec::new();
        let mut ordered = Vec::with_capacity(locks.len());
        for lock in locks {
            let key = lock.checked_target()?.key.clone();
            let id = lock.client().id();
            let client = clients.iter().position(|known| known == id).unwrap_or(clients.len());
            if client == clients.len() {
                clients.push(id.to_owned());
            }
            let slot = lock.client().slot(&key);
            ordered.push(((client, slot, lock.kind().name(), lock.reenters(), key), lock));
        }
        ordered.sort_by(|(a, _), (b, _)| a.cmp(b));
        ordered.dedup_by(|(a, _), (b, _)| a == b);
        let mut keys = HashSet::new();
        for ((client, _, _, _, key), lock) in &ordered {
            if !keys.insert((*client, key.clone())) {
                return Err(refuse(&lock.checked_target()?.name, "several locks as one have a name of one kind only"));
            }
        }
        if ordered.is_empty() || ordered.len() > MAX_NAMES {
            let name = String::new();
            return Err(InvalidName { name, rule: "several locks as one are at least one and at most 10,000" });
        }
        let mut groups: Vec<Range<usize>> = Vec::new();
        for at in 0..ordered.len() {
            let share_script = |previous: &(_, Lock), current: &(_, Lock)| {
                current.1.kind().multi_key().is_some() && in_same_group(previous, current)
            };
            match groups.last_mut() {
                Some(group) if share_script(&ordered[at - 1], &ordered[at]) => group.end = at + 1,
                _ => groups.push(at..at + 1),
            }
        }
        Ok(Members { locks: ordered.into_iter().map(|(_, lock)| lock).collect(), groups })
    }
}

/// Sort key of a lock: index of the client, hash slot, kind, re-entry and key.
type LockOrder = (usize, u16, &'static str, bool, bytes::Bytes);

/// Returns whether two locks have the same client, slot, kind and re-entry.
fn in_same_group((a, _): &(LockOrder, Lock), (b, _): &(LockOrder, Lock)) -> bool {
    (a.0, a.1, a.2, a.3) == (b.0, b.1, b.2, b.3)
}

impl sealed::Sealed for MultiLock {}

impl Acquirable for MultiLock {
    type Guard = MultiGuard;

    fn first(&self) -> Result<&Name, AcquireError> {
        Ok(&self.members()?.locks[0].target()?.name)
    }

    fn is_held_here(&self) -> bool {
        self.members().is_ok_and(|members| members.locks.iter().any(|lock| lock.acquire_builder().is_held_here()))
    }

    async fn ask(&self, options: AcquireOptions, try_only: bool) -> Result<Option<MultiGuard>, AcquireError> {
        let members = self.members()?;
        let options = options.in_scope();
        let acquired = drive(members.locks[0].client(), self.first()?, options.wait, |wait| {
            Arc::clone(members).acquire(AcquireOptions { wait, ..options.clone() }, try_only)
        });
        Ok(acquired.await?.map(MultiGuard::new))
    }
}

impl Members {
    /// Acquires all locks; `None` if one is taken and the request does not wait.
    ///
    /// The grants stay reserved until `MultiGrant::commit`.
    async fn acquire(
        self: Arc<Self>,
        options: AcquireOptions,
        try_only: bool,
    ) -> Result<Option<Vec<MultiGrant>>, AcquireError> {
        let members = self;
        let clock = members.locks[0].client().clock().clone();
        let began = clock.now();
        let until = options.wait.map_or(Instant::MAX, |wait| began + wait);
        let mut waited = None;
        let mut tries = 0;
        loop {
            let (acquired, busy) = attempt(&members, &options, try_only, until, waited.take()).await?;
            let Some(busy) = busy else { return Ok(Some(acquired)) };
            // Everything is released before the request waits. The wait for the releases is short,
            // in case a server does not answer.
            let releases: Vec<_> = acquired.into_iter().map(MultiGrant::release).collect();
            let all_released = async {
                for release in releases {
                    release.await;
                }
            };
            tokio::select! {
                () = all_released => {}
                () = clock.sleep_until(until.min(clock.now() + RELEASE_TIMEOUT)) => {}
            }
            if try_only {
                return Ok(None);
            }
            if tries > 0 {
                let longest = LONGEST_PAUSE.min(Duration::from_millis(1 << tries.min(6)));
                clock.sleep_until((clock.now() + longest.mul_f64(fastrand::f64())).min(until)).await;
            }
            tries += 1;
            let (lock, now) = (&members.locks[busy], clock.now());
            let name = lock.target()?.name.clone();
            let timed_out =
                |by_this_client| AcquireError::TimedOut { name, waited: clock.now().since(began), by_this_client };
            if now >= until {
                return Err(timed_out(false));
            }
            let wait = options.wait.map(|_| until.since(now));
            let request = AcquireRequest { wait, ..lock.acquire_builder().with_options(&options).request(false)? };
            match acquire_member(lock, request).await {
                Ok(grant) => waited = grant.map(|grant| (busy, grant)),
                Err(AcquireError::TimedOut { by_this_client, .. }) => return Err(timed_out(by_this_client)),
                Err(error) => return Err(error),
            }
        }
    }
}

/// Acquires one lock as a member of the multi-lock; `None` if it is taken.
async fn acquire_member(lock: &Lock, request: AcquireRequest) -> Result<Option<HoldGuard>, AcquireError> {
    PendingAcquire::start(lock.client(), lock.kind(), lock.target()?, request)?.member().await
}

/// Makes one attempt to acquire all locks. `waited` is the grant of the lock that was waited for.
///
/// Returns the grants, and the index of the first lock that is busy.
async fn attempt(
    members: &Members,
    options: &AcquireOptions,
    try_only: bool,
    until: Instant,
    waited: Option<(usize, HoldGuard)>,
) -> Result<(Vec<MultiGrant>, Option<usize>), AcquireError> {
    let mut held: Vec<usize> = waited.iter().map(|(at, _)| *at).collect();
    let mut acquired: Vec<MultiGrant> = waited.into_iter().map(|(_, grant)| MultiGrant::of(vec![grant])).collect();
    for group in &members.groups {
        let lock = &members.locks[group.start];
        loop {
            let missing: Vec<usize> = group.clone().filter(|at| !held.contains(at)).collect();
            if missing.is_empty() {
                break;
            }
            let targets =
                missing.iter().map(|at| members.locks[*at].target().cloned()).collect::<Result<Vec<_>, _>>()?;
            let request = lock.acquire_builder().with_options(options).request(try_only)?;
            match lock.client().take_all(lock.kind(), targets, request, until).await? {
                MultiOutcome::All(grant) => {
                    acquired.push(grant);
                    break;
                }
                MultiOutcome::Busy { at, theirs: true } => return Ok((acquired, Some(missing[at]))),
                // This process is acquiring or releasing the lock at the moment. When it has done
                // so, try once more, without waiting for other holders.
                MultiOutcome::Busy { at, theirs: false } => {
                    let at = missing[at];
                    let lock = &members.locks[at];
                    let retry =
                        AcquireRequest { wait: None, ..lock.acquire_builder().with_options(options).request(true)? };
                    let Some(grant) = acquire_member(lock, retry).await? else { return Ok((acquired, Some(at))) };
                    held.push(at);
                    acquired.push(MultiGrant::of(vec![grant]));
                }
            }
        }
    }
    Ok((acquired, None))
}

impl MultiKeyProtocol for ExclusiveLock {
    fn acquire_many(&self, claims: &[HoldArgs<'_>]) -> Request {
        let lease = claims.iter().map(|claim| claim.lease).max().unwrap_or_default();
        let request = ACQUIRE_MANY.with(claims.iter().map(|claim| claim.target.key.clone()));
        let request = request.int(millis(lease)).deadline_arg();
        claims.iter().fold(request, |request, claim| request.arg(claim.field.clone())).idempotent()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_script_states_its_contract() {
        for part in ["-- KEYS", "-- Returns", "-- Work:", "ent twice"] {
            assert!(ACQUIRE_MANY.body().text().contains(part), "{part}");
        }
    }
}
