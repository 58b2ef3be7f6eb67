//! One lock over several servers that know nothing of each other: held where a majority grants it.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use redgrid_core::clock::Instant;
use redgrid_core::lock::{AcquireRequest, HoldGuard, LockKeys, LockProtocol};
use redgrid_core::name::companion;
use redgrid_core::{Client, DeploymentKind, Name, Script, ServerError, Token, Watch};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use crate::AcquireError;
use crate::acquire::Said;
use crate::driven::driven;
use crate::lock::Lock;
use crate::many::{Acquirable, AcquireMany, TryAcquireMany, sealed};
use crate::quorum_guard::QuorumGuard;
use crate::scripts::{VOTE, VOTE_COUNTED};

static BIRTH: Script<1> = Script::new("lock/birth", include_str!("scripts/birth.lua"));
static RAISE: Script<1> = Script::new("lock/raise", include_str!("scripts/raise.lua"));

/// The longest lease unless set: a minute. A server that was born anew abstains for so long.
const LONGEST: Duration = Duration::from_secs(60);

/// What each server has for its answer unless set: 100 ms, some round trips within a region.
const SHARE: Duration = Duration::from_millis(100);

/// How often a server is asked for its mark at most: every 100 ms, in nanoseconds.
const REMINDED_NANOS: u64 = 100_000_000;

/// The longest pause between two rounds: 128 ms. A release is told by a message meanwhile.
const LONGEST_PAUSE: Duration = Duration::from_millis(128);

/// How often a token is written back before it is given up: three times. Each finds a higher one only where somebody was in meanwhile.
const WRITES: usize = 3;

/// How long a majority may be out of reach before a call that waits without a bound gives up: 15 s.
const PATIENCE: Duration = Duration::from_secs(15);

/// Several independent servers, of which a majority decides: each a deployment of its own, with a client of its own.
///
/// Each carries a *birth mark*, the process behind it and when it begins to vote. A server whose mark is missing, or that of
/// another process, may have forgotten who holds: it abstains until the longest lease that it could have granted is over.
/// [`bootstrap`](Quorum::bootstrap) sets the marks once, when the servers are new.
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
    clients: Arc<[Client]>,
    longest: Duration,
    share: Duration,
    /// When each server was last asked for its mark, in nanoseconds.
    reminded: Arc<[AtomicU64]>,
}

impl Quorum {
    /// The servers behind these clients, three at least. A cluster is none: its nodes forget one by one.
    ///
    /// # Errors
    ///
    /// [`InvalidQuorum`] when they can not decide together.
    pub fn new(clients: impl IntoIterator<Item = Client>) -> Result<Quorum, InvalidQuorum> {
        let clients: Arc<[Client]> = clients.into_iter().collect();
        if clients.len() < 3 {
            return Err(InvalidQuorum::TooFew { servers: clients.len() });
        }
        if let Some(at) = clients.iter().position(|client| client.topology().kind == DeploymentKind::Cluster) {
            return Err(InvalidQuorum::Cluster { at });
        }
        let reminded = clients.iter().map(|_| AtomicU64::new(0)).collect();
        Ok(Quorum { clients, longest: LONGEST, share: SHARE, reminded })
    }

    /// The longest lease that is granted: a minute unless set, and the same for all who use these servers. A server that was
    /// born anew abstains for a tenth longer. Longer leases are refused.
    #[must_use]
    pub fn longest_lease(self, longest: Duration) -> Self {
        Quorum { longest, ..self }
    }

    /// What each server has for its answer: 100 ms unless set. A server that is out of reach costs this only where it is
    /// needed for a majority.
    #[must_use]
    pub fn share(self, share: Duration) -> Self {
        Quorum { share, ..self }
    }

    /// Lets servers that are new vote at once. Where a server has a mark it changes nothing, and tells so.
    ///
    /// Only for the first installation: on a server that has lost its memory it would end the protection that the mark is for.
    ///
    /// # Errors
    ///
    /// [`ServerError`] when one of the servers could not be asked; those before it are marked.
    ///
    /// # Cancel safety
    ///
    /// Dropped early, some servers are marked; calling it again marks the rest.
    pub async fn bootstrap(&self) -> Result<bool, ServerError> {
        let mut new = true;
        for client in self.clients.iter() {
            new &= mark(client, Duration::ZERO, true).await? == 1;
        }
        Ok(new)
    }

    /// The lock with this name on these servers.
    pub fn lock(&self, name: impl AsRef<str>) -> QuorumLock {
        QuorumLock::of(self, name, false)
    }

    /// How many make a majority.
    pub(crate) fn majority(&self) -> usize {
        self.clients.len() / 2 + 1
    }

    /// One that did not grant may have no mark, or one of another process: it is marked, to vote when nobody it has forgotten can
    /// still hold. By a task of its own: nobody waits for it.
    fn remind(&self, at: usize) {
        let (client, after) = (self.clients[at].clone(), self.longest + self.longest / 10);
        let now = client.clock().now();
        let last = self.reminded[at].load(Ordering::Relaxed);
        let due = now.as_nanos() >= last.saturating_add(REMINDED_NANOS);
        if due && self.reminded[at].compare_exchange(last, now.as_nanos(), Ordering::Relaxed, Ordering::Relaxed).is_ok()
        {
            tokio::spawn(async move { mark(&client, after, false).await });
        }
    }
}

async fn mark(client: &Client, after: Duration, only_new: bool) -> Result<i64, ServerError> {
    let key = birth_key(client);
    let after = i64::try_from(after.as_micros()).unwrap_or(i64::MAX);
    let request = BIRTH.with([key]).int(after).int(i64::from(only_new)).idempotent();
    let (status, _): (i64, u64) = client.run(request).await?;
    Ok(status)
}

/// The key of a server's mark, behind the client's namespace.
fn birth_key(client: &Client) -> bytes::Bytes {
    Name::new("redgrid_birth").map(|name| client.key(&name)).unwrap_or_default()
}

/// Why several servers can not decide together.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidQuorum {
    /// Two servers outvote nobody.
    #[error("a quorum has three servers at least, not {servers}")]
    TooFew {
        /// How many were given.
        servers: usize,
    },
    /// One of them is a cluster.
    #[error("the client at place {at} is that of a cluster, whose nodes forget one by one")]
    Cluster {
        /// Which one, from 0.
        at: usize,
    },
}

/// A lock over several independent servers, held where a majority of them grants it: RedLock, with its gaps closed.
///
/// All are asked at the same time. Each grant is counted from before its own request left, less a twentieth of the lease for
/// clocks that drift; the lock is held while a majority of the grants may be believed. Renewals go to all of them, also to those
/// that are more than a majority.
///
/// Not on Redisson's wire: its RedissonRedLock knows no birth marks.
#[doc(alias = "RedLock")]
#[doc(alias = "RedissonRedLock")]
#[derive(Clone, Debug)]
pub struct QuorumLock {
    quorum: Quorum,
    locks: Arc<[Lock]>,
    counts: bool,
}

impl QuorumLock {
    fn of(quorum: &Quorum, name: impl AsRef<str>, counts: bool) -> Self {
        let kind: &'static dyn LockProtocol = if counts { &VOTE_COUNTED } else { &VOTE };
        let at = |client: &Client| {
            let birth = birth_key(client);
            Lock::of_kind(client, &name, kind, |key| match counts {
                true => [birth, companion("redgrid_quorum_token", key)].into(),
                false => [birth].into(),
            })
        };
        QuorumLock { quorum: quorum.clone(), locks: quorum.clients.iter().map(at).collect(), counts }
    }

    /// The same lock with fencing tokens. They are counted at each server and written back to a majority before the guard is
    /// given, so that the next holder's majority knows of them: one round trip more for each acquire.
    #[must_use]
    pub fn fenced(self) -> Self {
        let name = self.locks[0].sure_target().map(|target| target.name.as_str().to_owned()).unwrap_or_default();
        QuorumLock::of(&self.quorum, name, true)
    }

    /// Acquires it at a majority of the servers, waiting as long as it takes or as [`AcquireMany::timeout`] says.
    ///
    /// # Errors
    ///
    /// [`AcquireError`] says what is true then. Leases longer than the longest, and `hold_at_least`, are refused.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future gives back in the background what some servers have granted.
    pub fn acquire(&self) -> AcquireMany<QuorumLock> {
        AcquireMany::new(self)
    }

    /// Acquires it if a majority grants it at once: `None` when others hold it, or too many abstain.
    ///
    /// # Errors
    ///
    /// [`AcquireError`] says what is true then.
    ///
    /// # Cancel safety
    ///
    /// As [`QuorumLock::acquire`].
    pub fn try_acquire(&self) -> TryAcquireMany<QuorumLock> {
        TryAcquireMany::new(self)
    }

    pub(crate) fn majority(&self) -> usize {
        self.quorum.majority()
    }

    pub(crate) fn servers(&self) -> usize {
        self.locks.len()
    }

    /// One look at all servers but those that have it; their answers come one by one.
    pub(crate) fn ask_all(&self, request: &AcquireRequest, but: &[usize]) -> Answers<Vote> {
        let asking = self.locks.iter().enumerate().filter(|(at, _)| !but.contains(at)).map(|(at, lock)| {
            let (lock, wanted, quorum, share) = (lock.clone(), request.clone(), self.quorum.clone(), self.quorum.share);
            async move {
                let until = lock.client().clock().now() + share;
                let look = async { lock.client().enter(lock.kind(), lock.target()?, wanted)?.outcome().await };
                let late =
                    || ServerError::NotSent { reason: "the server did not answer within its share of the time".into() };
                match within(lock.client(), until, look).await {
                    Some(vote) => {
                        if let Ok(None) = vote {
                            quorum.remind(at);
                        }
                        (at, vote)
                    }
                    None => (at, lock.target().and_then(|target| Err(unavailable(target, late())))),
                }
            }
        });
        each(asking)
    }

    /// A token that a majority knows of, so that nobody gets a lower one next: this one, or a higher one, where servers whose votes
    /// are older have given some since.
    async fn written_back(&self, mut token: Token) -> Option<Token> {
        for _ in 0..WRITES {
            let highest = self.write_back(token).await?;
            if highest <= token.get() {
                return Some(token);
            }
            token = Token::new(highest + 1);
        }
        None
    }

    /// The highest that a majority has behind it.
    async fn write_back(&self, token: Token) -> Option<u64> {
        let key = |lock: &Lock| Some(lock.sure_target().ok()?.more.get(1)?.clone());
        let asking =
            self.locks.iter().filter_map(|lock| Some((lock.client().clone(), key(lock)?))).map(
                |(client, key)| async move {
                    client.run::<u64>(RAISE.with([key]).arg(token.to_string()).idempotent()).await
                },
            );
        let (mut answers, mut written, mut highest) = (each(asking), 0, 0);
        let until = self.clock_now() + self.quorum.share;
        while written < self.majority() {
            let answer = within(self.locks[0].client(), until, answers.recv()).await.flatten()?;
            if let Ok(is) = answer {
                written += 1;
                highest = highest.max(is);
            }
        }
        Some(highest)
    }

    pub(crate) fn longest(&self) -> Duration {
        self.quorum.longest
    }

    fn clock_now(&self) -> Instant {
        self.locks[0].client().clock().now()
    }
}

fn unavailable(target: &Arc<LockKeys>, source: ServerError) -> AcquireError {
    AcquireError::Unavailable { name: target.name.clone(), source }
}

/// What the server at a place said.
pub(crate) type Vote = (usize, Result<Option<HoldGuard>, AcquireError>);

/// Answers as they come. What comes when nobody receives any more is dropped, and so given back.
pub(crate) type Answers<T> = UnboundedReceiver<T>;

/// Drives each of them by a task of its own: one that hangs delays nobody.
pub(crate) fn each<F>(work: impl Iterator<Item = F>) -> Answers<F::Output>
where
    F: Future<Output: Send> + Send + 'static,
{
    let (sender, answers) = unbounded_channel();
    for one in work {
        let sender = sender.clone();
        tokio::spawn(async move {
            let _ = sender.send(one.await);
        });
    }
    answers
}

/// What comes by `until`.
pub(crate) async fn within<F: Future>(client: &Client, until: Instant, work: F) -> Option<F::Output> {
    tokio::select! {
        biased;
        done = work => Some(done),
        () = client.clock().sleep_until(until) => None,
    }
}

impl sealed::Sealed for QuorumLock {}

impl Acquirable for QuorumLock {
    type Guard = QuorumGuard;

    fn first(&self) -> Result<&Name, AcquireError> {
        Ok(&self.locks[0].target()?.name)
    }

    fn is_held_here(&self) -> bool {
        self.locks.iter().any(|lock| lock.options().is_held_here())
    }

    async fn ask(&self, said: Said, once: bool) -> Result<Option<QuorumGuard>, AcquireError> {
        let (lock, said) = (self, said.in_scope());
        driven(lock.locks[0].client(), lock.first()?, said.wait, |wait| {
            lock.clone().take(Said { wait, ..said.clone() }, once)
        })
        .await
    }
}

impl QuorumLock {
    /// Takes it at a majority of the servers. `None` if another holder has it and the request does not wait.
    async fn take(self, said: Said, once: bool) -> Result<Option<QuorumGuard>, AcquireError> {
        let lock = &self;
        let name = lock.first()?.clone();
        let request = AcquireRequest { wait: None, ..lock.locks[0].options().with(&said).request(true)? };
        for (option, got, most) in [
            ("lease", request.lease.duration(), lock.quorum.longest),
            ("hold_at_least", request.at_least, Duration::ZERO),
        ] {
            if got > most {
                let expected = "at most the longest lease of the quorum, and no `hold_at_least`";
                return Err(AcquireError::InvalidArgument { name, option, expected, got });
            }
        }
        let (client, began) = (lock.locks[0].client(), lock.clock_now());
        let until = said.wait.map_or(Instant::MAX, |wait| began + wait);
        let (mut contact, mut tries) = (began, 0_u32);
        let mut watches: Vec<Watch> = Vec::new();
        loop {
            let (failed, voted) = match round(lock, &request).await {
                Round::Held(guard) => return Ok(Some(*guard)),
                Round::Busy { voted } => (None, voted),
                Round::Failed(error) => (Some(error), false),
            };
            let now = lock.clock_now();
            match failed {
                Some(error) if once || now >= contact + PATIENCE || now >= until => return Err(error),
                Some(_) => {}
                None if once => return Ok(None),
                None => contact = now,
            }
            if now >= until {
                return Err(AcquireError::TimedOut { name, waited: now.since(began), by_this_client: false });
            }
            if watches.is_empty() {
                // What is released from here on is told; what was before is looked for once more.
                let targets = lock.locks.iter().filter_map(|lock| Some((lock, lock.sure_target().ok()?)));
                watches = targets.map(|(lock, it)| lock.client().watch(it.channel.clone(), it.key.clone())).collect();
                continue;
            }
            let pause = LONGEST_PAUSE.min(Duration::from_millis(1 << tries.min(7)));
            tries = tries.saturating_add(1);
            let ends = (now + pause.mul_f64(0.5 + fastrand::f64() / 2.0)).min(until);
            if voted {
                // What goes back now is told here, too, and to others who had some: who were woken by that would ask for ever,
                // and get in each other's way.
                client.clock().sleep_until(ends).await;
                for watch in &mut watches {
                    watch.take();
                }
                continue;
            }
            within(client, ends, any_wakes(&mut watches)).await;
            // Those who were told together do not all ask together.
            let apart = Duration::from_micros(fastrand::u64(0..2_000));
            client.clock().sleep_until((lock.clock_now() + apart).min(until)).await;
        }
    }
}

async fn any_wakes(watches: &mut [Watch]) {
    let mut waking: Vec<_> = watches.iter_mut().map(|watch| Box::pin(watch.wake())).collect();
    std::future::poll_fn(|cx: &mut Context<'_>| {
        let woken = waking.iter_mut().any(|one| Pin::new(one).poll(cx).is_ready());
        if woken { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
}

/// What asking all of them once came to.
enum Round {
    Held(Box<QuorumGuard>),
    Busy {
        /// Some servers granted it, and got it back.
        voted: bool,
    },
    /// So many could not be asked that the rest is no majority.
    Failed(AcquireError),
}

async fn round(lock: &QuorumLock, request: &AcquireRequest) -> Round {
    let (majority, servers) = (lock.majority(), lock.servers());
    let (mut votes, mut grants) = (lock.ask_all(request, &[]), Vec::new());
    let (mut busy, mut failures) = (0, Vec::new());
    while grants.len() < majority {
        match votes.recv().await {
            Some((at, Ok(Some(grant)))) => grants.push((at, grant)),
            Some((_, Ok(None))) => busy += 1,
            Some((_, Err(error))) => failures.push(error),
            None => return Round::Busy { voted: !grants.is_empty() },
        }
        if busy + failures.len() > servers - majority {
            // What has been granted goes back as it is dropped here, what still comes as nobody receives it.
            return match failures.pop() {
                Some(error) if failures.len() + 1 > servers - majority => Round::Failed(error),
                _ => Round::Busy { voted: !grants.is_empty() },
            };
        }
    }
    let mut token = lock.counts.then(|| grants.iter().map(|(_, grant)| grant.token()).max()).flatten();
    if let Some(given) = token {
        token = lock.written_back(given).await;
        if token.is_none() {
            return Round::Busy { voted: true };
        }
    }
    let guard = QuorumGuard::new(lock.clone(), request.clone(), grants, votes, token);
    // A majority whose answers took too long holds nothing.
    if guard.is_held() { Round::Held(Box::new(guard)) } else { Round::Busy { voted: true } }
}
