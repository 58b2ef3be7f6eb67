//! Many locks as one: all of them, or none.

use std::collections::HashSet;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use redgrid_core::clock::Instant;
use redgrid_core::lock::{AcquireRequest, HoldGuard, MultiGrant, MultiOutcome};
use redgrid_core::{Client, InvalidName, Name};

use crate::AcquireError;
use crate::acquire::Said;
use crate::driven::driven;
use crate::lock::Lock;
use crate::many::{Acquirable, AcquireMany, TryAcquireMany, sealed};
use crate::multi_guard::MultiGuard;

/// Names in one lock: 10,000. One script takes those of a slot, and the server does nothing else meanwhile: some 3 µs a name.
const MOST: usize = 10_000;

/// The longest pause before what was busy is waited for again: 64 ms. Two that are in each other's way part sooner.
const LONGEST_PAUSE: Duration = Duration::from_millis(64);

/// How long it is waited for that what a round had taken is given back: 1 s. It goes on in the background.
const GIVEN_BACK: Duration = Duration::from_secs(1);

/// Several locks as one, which is held when all of them are. On the wire each is a lock of its own: a [`Lock`] of one of the
/// names, and Redisson's `RLock` and `RMultiLock`, are kept out and keep out.
///
/// Those of one slot of the server (all of them, where it is no cluster) are taken by one script, all or none. Slots follow
/// each other in order; where one is busy everything taken goes back at once, and only then the busy name is waited for, in
/// its queue. So nobody waits while it holds, whatever the order in which others ask. A name that is *always* taken by
/// somebody when the others are free is waited for in vain: what is hot belongs under one name.
///
/// Cheap to clone; making one asks nobody.
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

/// The locks in the order in which they are taken.
#[derive(Debug)]
struct Members {
    locks: Vec<Lock>,
    /// Those that one script takes.
    groups: Vec<Range<usize>>,
}

impl MultiLock {
    /// The locks with these names, 10,000 at most. A name that is given twice counts once.
    pub fn new<N: AsRef<str>>(client: &Client, names: impl IntoIterator<Item = N>) -> Self {
        MultiLock::of(names.into_iter().map(|name| Lock::new(client, name)))
    }

    /// These locks, also of different kinds and clients: [`FencedLock::as_lock`](crate::FencedLock::as_lock) and
    /// [`SpinLock::as_lock`](crate::SpinLock::as_lock) give those of other kinds. A name is there once for each client:
    /// two kinds of it would keep each other out.
    ///
    /// Clients of the same servers are not known to be that: the same name through two of them is never free for both.
    pub fn of(locks: impl IntoIterator<Item = Lock>) -> Self {
        MultiLock { members: Members::of(locks.into_iter().collect()).map(Arc::new) }
    }

    /// Acquires all of them, waiting as long as it takes or as [`AcquireMany::timeout`] says. Leases and other options hold for each.
    ///
    /// # Errors
    ///
    /// [`AcquireError`] says what is true then, with the name that was in the way; none is held.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future gives back in the background what was taken so far.
    pub fn acquire(&self) -> AcquireMany<MultiLock> {
        AcquireMany::new(self)
    }

    /// Acquires all of them if all are free: `None` when others hold one.
    ///
    /// # Errors
    ///
    /// [`AcquireError`] says what is true then.
    ///
    /// # Cancel safety
    ///
    /// As [`MultiLock::acquire`].
    pub fn try_acquire(&self) -> TryAcquireMany<MultiLock> {
        TryAcquireMany::new(self)
    }

    fn members(&self) -> Result<&Arc<Members>, AcquireError> {
        self.members.as_ref().map_err(|invalid| AcquireError::InvalidName(invalid.clone()))
    }
}

impl Members {
    fn of(locks: Vec<Lock>) -> Result<Members, InvalidName> {
        let refuse = |name: &Name, rule| InvalidName { name: name.as_str().chars().take(64).collect(), rule };
        let mut clients = Vec::new();
        let mut placed = Vec::with_capacity(locks.len());
        for lock in locks {
            let key = lock.sure_target()?.key.clone();
            let id = lock.client().id();
            let client = clients.iter().position(|known| known == id).unwrap_or(clients.len());
            if client == clients.len() {
                clients.push(id.to_owned());
            }
            let slot = lock.client().slot(&key);
            placed.push(((client, slot, lock.kind().name(), lock.reenters(), key), lock));
        }
        placed.sort_by(|(one, _), (other, _)| one.cmp(other));
        placed.dedup_by(|(one, _), (other, _)| one == other);
        let mut seen = HashSet::new();
        for ((client, _, _, _, key), lock) in &placed {
            if !seen.insert((*client, key.clone())) {
                return Err(refuse(&lock.sure_target()?.name, "several locks as one have a name of one kind only"));
            }
        }
        if placed.is_empty() || placed.len() > MOST {
            let name = String::new();
            return Err(InvalidName { name, rule: "several locks as one are at least one and at most 10,000" });
        }
        let mut groups: Vec<Range<usize>> = Vec::new();
        for at in 0..placed.len() {
            let together = |before: &(_, Lock), it: &(_, Lock)| it.1.kind().multi_key().is_some() && same(before, it);
            match groups.last_mut() {
                Some(group) if together(&placed[at - 1], &placed[at]) => group.end = at + 1,
                _ => groups.push(at..at + 1),
            }
        }
        Ok(Members { locks: placed.into_iter().map(|(_, lock)| lock).collect(), groups })
    }
}

/// Where a lock stands among the others.
type Place = (usize, u16, &'static str, bool, bytes::Bytes);

/// Whether two locks are of one client, slot and kind, and entered twice or not.
fn same((one, _): &(Place, Lock), (other, _): &(Place, Lock)) -> bool {
    (one.0, one.1, one.2, one.3) == (other.0, other.1, other.2, other.3)
}

impl sealed::Sealed for MultiLock {}

impl Acquirable for MultiLock {
    type Guard = MultiGuard;

    fn first(&self) -> Result<&Name, AcquireError> {
        Ok(&self.members()?.locks[0].target()?.name)
    }

    fn is_held_here(&self) -> bool {
        self.members().is_ok_and(|members| members.locks.iter().any(|lock| lock.options().is_held_here()))
    }

    async fn ask(&self, said: Said, once: bool) -> Result<Option<MultiGuard>, AcquireError> {
        let members = self.members()?;
        let said = said.in_scope();
        let taken = driven(members.locks[0].client(), self.first()?, said.wait, |wait| {
            Arc::clone(members).take(Said { wait, ..said.clone() }, once)
        });
        Ok(taken.await?.map(MultiGuard::new))
    }
}

impl Members {
    /// Takes all of them. `None` if another holder has one and the request does not wait. The grants are reserved.
    async fn take(self: Arc<Self>, said: Said, once: bool) -> Result<Option<Vec<MultiGrant>>, AcquireError> {
        let members = self;
        let clock = members.locks[0].client().clock().clone();
        let began = clock.now();
        let until = said.wait.map_or(Instant::MAX, |wait| began + wait);
        let mut waited = None;
        let mut tries = 0;
        loop {
            let (taken, busy) = round(&members, &said, once, until, waited.take()).await?;
            let Some(busy) = busy else { return Ok(Some(taken)) };
            // Everything goes back before anything is waited for; a server that does not answer is not waited for long.
            let backs: Vec<_> = taken.into_iter().map(MultiGrant::release).collect();
            let back = async {
                for back in backs {
                    back.await;
                }
            };
            tokio::select! {
                () = back => {}
                () = clock.sleep_until(until.min(clock.now() + GIVEN_BACK)) => {}
            }
            if once {
                return Ok(None);
            }
            if tries > 0 {
                let longest = LONGEST_PAUSE.min(Duration::from_millis(1 << tries.min(6)));
                clock.sleep_until((clock.now() + longest.mul_f64(fastrand::f64())).min(until)).await;
            }
            tries += 1;
            let (lock, now) = (&members.locks[busy], clock.now());
            let name = lock.target()?.name.clone();
            let out_of_time =
                |by_this_client| AcquireError::TimedOut { name, waited: clock.now().since(began), by_this_client };
            if now >= until {
                return Err(out_of_time(false));
            }
            let wait = said.wait.map(|_| until.since(now));
            let request = AcquireRequest { wait, ..lock.options().with(&said).request(false)? };
            match one(lock, request).await {
                Ok(grant) => waited = grant.map(|grant| (busy, grant)),
                Err(AcquireError::TimedOut { by_this_client, .. }) => return Err(out_of_time(by_this_client)),
                Err(error) => return Err(error),
            }
        }
    }
}

async fn one(lock: &Lock, request: AcquireRequest) -> Result<Option<HoldGuard>, AcquireError> {
    lock.client().enter(lock.kind(), lock.target()?, request)?.member().await
}

/// One look at all of them: what was taken, and which one was busy. What was waited for is there already.
async fn round(
    members: &Members,
    said: &Said,
    once: bool,
    until: Instant,
    waited: Option<(usize, HoldGuard)>,
) -> Result<(Vec<MultiGrant>, Option<usize>), AcquireError> {
    let mut have: Vec<usize> = waited.iter().map(|(at, _)| *at).collect();
    let mut taken: Vec<MultiGrant> = waited.into_iter().map(|(_, grant)| MultiGrant::of(vec![grant])).collect();
    for group in &members.groups {
        let lock = &members.locks[group.start];
        loop {
            let missing: Vec<usize> = group.clone().filter(|at| !have.contains(at)).collect();
            if missing.is_empty() {
                break;
            }
            let targets =
                missing.iter().map(|at| members.locks[*at].target().cloned()).collect::<Result<Vec<_>, _>>()?;
            let request = lock.options().with(said).request(once)?;
            match lock.client().take_all(lock.kind(), targets, request, until).await? {
                MultiOutcome::All(bundle) => {
                    taken.push(bundle);
                    break;
                }
                MultiOutcome::Busy { at, theirs: true } => return Ok((taken, Some(missing[at]))),
                // Just being asked for or given back here: one look behind that, which waits for nobody.
                MultiOutcome::Busy { at, theirs: false } => {
                    let at = missing[at];
                    let lock = &members.locks[at];
                    let wanted = AcquireRequest { wait: None, ..lock.options().with(said).request(true)? };
                    let Some(grant) = one(lock, wanted).await? else { return Ok((taken, Some(at))) };
                    have.push(at);
                    taken.push(MultiGrant::of(vec![grant]));
                }
            }
        }
    }
    Ok((taken, None))
}
