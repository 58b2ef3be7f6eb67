//! A lock over several independent servers, which is held while a majority grants it.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use redgrid_core::author::{ClientExt, LockProtocol};
use redgrid_core::clock::Instant;
use redgrid_core::lock::{AcquireRequest, HoldGuard, LockKeys, PendingAcquire};
use redgrid_core::name::companion;
use redgrid_core::{Client, Failure, Name, Script, ServerError, Token, Watch};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use crate::AcquireError;
use crate::acquire::AcquireOptions;
use crate::drive::drive;
use crate::lock::Lock;
use crate::many::{Acquirable, AcquireMany, TryAcquireMany, sealed};
use crate::quorum_guard::QuorumGuard;
use crate::quorum_servers::{Quorum, incarnation_key};
use crate::scripts::{VOTE, VOTE_COUNTED};

static RAISE_TOKEN: Script<1> = Script::new("lock/raise_token", include_str!("scripts/raise_token.lua"));

/// Longest pause between two rounds: 128 ms. A message about a release can end it earlier.
const LONGEST_PAUSE: Duration = Duration::from_millis(128);

/// Maximum number of attempts to write a token back: 3.
///
/// Another attempt is needed only if another holder got a higher token meanwhile.
const WRITE_BACKS: usize = 3;

/// A lock over several independent servers, held while a majority of them grants it.
///
/// It is RedLock with its gaps closed. All servers are requested at the same time. Each grant is
/// valid from the moment before its request was sent. It ends a twentieth of the lease early, to
/// allow for the drift of clocks. The lock is held while a majority of the grants is valid. All
/// grants are renewed, also those beyond a majority.
///
/// It is not compatible with Redisson, whose RedissonRedLock has no incarnation marks.
#[doc(alias = "RedLock")]
#[doc(alias = "RedissonRedLock")]
#[derive(Clone, Debug)]
pub struct QuorumLock {
    quorum: Quorum,
    locks: Arc<[Lock]>,
    /// Whether fencing tokens are counted.
    counts_tokens: bool,
}

impl QuorumLock {
    pub(crate) fn of(quorum: &Quorum, name: impl AsRef<str>, counts_tokens: bool) -> Self {
        let kind: &'static dyn LockProtocol = if counts_tokens { &VOTE_COUNTED } else { &VOTE };
        let lock_at = |client: &Client| {
            let incarnation = incarnation_key(client);
            Lock::of_kind(client, &name, kind, |key| {
                if counts_tokens {
                    [incarnation, companion("redgrid_quorum_token", key)].into()
                } else {
                    [incarnation].into()
                }
            })
        };
        QuorumLock { quorum: quorum.clone(), locks: quorum.clients.iter().map(lock_at).collect(), counts_tokens }
    }

    /// Returns the same lock with fencing tokens.
    ///
    /// Tokens are counted at each server, and written back to a majority before the guard is
    /// returned. So any majority that grants the next holder its lock includes a server with this
    /// token. This costs one more round trip for each acquire.
    #[must_use]
    pub fn fenced(self) -> Self {
        let target = self.locks[0].checked_target();
        let (name, family) = target.map(|target| (target.name.as_str().to_owned(), target.family)).unwrap_or_default();
        QuorumLock::of(&self.quorum, name, true).family(family)
    }

    /// Returns the same lock with the label `family` in metrics and spans, as [`Lock::family`].
    #[must_use]
    pub fn family(self, family: &'static str) -> Self {
        let locks = self.locks.iter().map(|lock| lock.clone().family(family)).collect();
        QuorumLock { locks, ..self }
    }

    /// Acquires the lock at a majority of the servers.
    ///
    /// The wait is unlimited unless [`AcquireMany::timeout`] is set.
    ///
    /// # Errors
    ///
    /// [`AcquireError`] describes the state of the lock for each error. Leases that exceed the
    /// longest lease, and `hold_at_least`, are refused.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future releases the grants of single servers in the background.
    pub fn acquire(&self) -> AcquireMany<QuorumLock> {
        AcquireMany::new(self)
    }

    /// Acquires the lock if a majority grants it at once, or returns `None`.
    ///
    /// `None` means that other holders have it, or that too many servers abstain.
    ///
    /// # Errors
    ///
    /// [`AcquireError`] describes the state of the lock for each error.
    ///
    /// # Cancel safety
    ///
    /// That of [`QuorumLock::acquire`].
    pub fn try_acquire(&self) -> TryAcquireMany<QuorumLock> {
        TryAcquireMany::new(self)
    }

    pub(crate) fn majority(&self) -> usize {
        self.quorum.majority()
    }

    pub(crate) fn servers(&self) -> usize {
        self.locks.len()
    }

    /// Requests one vote of each server, except those with an index in `except`.
    ///
    /// The replies arrive one by one.
    pub(crate) fn request_votes(&self, request: &AcquireRequest, except: &[usize]) -> Replies<Vote> {
        let votes = self.locks.iter().enumerate().filter(|(at, _)| !except.contains(at)).map(|(at, lock)| {
            let (lock, attempt_request, quorum) = (lock.clone(), request.clone(), self.quorum.clone());
            let timeout = self.quorum.reply_timeout;
            async move {
                let until = lock.client().clock().now() + timeout;
                let attempt = async {
                    let pending = PendingAcquire::start(lock.client(), lock.kind(), lock.target()?, attempt_request)?;
                    pending.outcome().await
                };
                let late =
                    || ServerError::NotSent { reason: "the server did not answer within its share of the time".into() };
                match within(lock.client(), until, attempt).await {
                    Some(vote) => {
                        if let Ok(None) = vote {
                            quorum.mark_in_background(at);
                        }
                        (at, vote)
                    }
                    None => (at, lock.target().and_then(|target| Err(unavailable(target, late())))),
                }
            }
        });
        spawn_each(votes)
    }

    /// Writes a token back to a majority, so that the next holder gets a higher one.
    ///
    /// Returns this token, or a higher one if servers have assigned higher tokens since their
    /// votes. `None` if no majority stored the token in time, or within [`WRITE_BACKS`] attempts.
    async fn write_token_back(&self, mut token: Token) -> Option<Token> {
        for _ in 0..WRITE_BACKS {
            let highest = self.raise_counters(token).await?;
            if highest <= token.get() {
                return Some(token);
            }
            token = Token::new(highest + 1);
        }
        None
    }

    /// Raises the token counters to at least `token`, and waits for a majority.
    ///
    /// Returns the highest counter of that majority; `None` without a majority in time.
    async fn raise_counters(&self, token: Token) -> Option<u64> {
        let key = |lock: &Lock| Some(lock.checked_target().ok()?.more.get(1)?.clone());
        let requests = self.locks.iter().filter_map(|lock| Some((lock.client().clone(), key(lock)?))).map(
            |(client, key)| async move {
                client.run::<u64>(RAISE_TOKEN.with([key]).arg(token.to_string()).idempotent()).await
            },
        );
        let mut replies = spawn_each(requests);
        let (mut written, mut highest) = (0, 0);
        let until = self.clock_now() + self.quorum.reply_timeout;
        while written < self.majority() {
            let reply = within(self.locks[0].client(), until, replies.recv()).await.flatten()?;
            if let Ok(counter) = reply {
                written += 1;
                highest = highest.max(counter);
            }
        }
        Some(highest)
    }

    pub(crate) fn longest_lease(&self) -> Duration {
        self.quorum.longest_lease
    }

    fn clock_now(&self) -> Instant {
        self.locks[0].client().clock().now()
    }
}

fn unavailable(target: &Arc<LockKeys>, source: ServerError) -> AcquireError {
    Failure::Unavailable { operation: AcquireError::operation(&target.name), source }.into()
}

/// Index of a server, and its reply.
pub(crate) type Vote = (usize, Result<Option<HoldGuard>, AcquireError>);

/// Replies in the order of their arrival.
///
/// A grant that arrives after the receiver was dropped is dropped, and thereby released.
pub(crate) type Replies<T> = UnboundedReceiver<T>;

/// Drives each future in a task of its own: one that hangs does not delay the others.
pub(crate) fn spawn_each<F>(futures: impl Iterator<Item = F>) -> Replies<F::Output>
where
    F: Future<Output: Send> + Send + 'static,
{
    let (sender, replies) = unbounded_channel();
    for future in futures {
        let sender = sender.clone();
        tokio::spawn(async move {
            let _ = sender.send(future.await);
        });
    }
    replies
}

/// Returns the output of `work`, or `None` if it does not complete by `until`.
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
        self.locks.iter().any(|lock| lock.acquire_builder().is_held_here())
    }

    async fn ask(&self, options: AcquireOptions, try_only: bool) -> Result<Option<QuorumGuard>, AcquireError> {
        let (lock, options) = (self, options.in_scope());
        drive(lock.locks[0].client(), lock.first()?, options.wait, |wait| {
            lock.clone().acquire_majority(AcquireOptions { wait, ..options.clone() }, try_only)
        })
        .await
    }
}

impl QuorumLock {
    /// Acquires the lock at a majority of the servers; `None` if it is taken and the request does
    /// not wait.
    async fn acquire_majority(
        self,
        options: AcquireOptions,
        try_only: bool,
    ) -> Result<Option<QuorumGuard>, AcquireError> {
        let lock = &self;
        let name = lock.first()?.clone();
        let request =
            AcquireRequest { wait: None, ..lock.locks[0].acquire_builder().with_options(&options).request(true)? };
        for (option, got, max) in [
            ("lease", request.lease.duration(), lock.quorum.longest_lease),
            ("hold_at_least", request.at_least, Duration::ZERO),
        ] {
            if got > max {
                let expected = "at most the longest lease of the quorum, and no `hold_at_least`";
                return Err(AcquireError::invalid_argument(&name, option, expected, got));
            }
        }
        let (client, began) = (lock.locks[0].client(), lock.clock_now());
        let until = options.wait.map_or(Instant::MAX, |wait| began + wait);
        // How long a majority may be unreachable before an acquire without a timeout gives up.
        let contact_timeout = if options.wait.is_some() { Duration::MAX } else { client.patience() };
        let (mut contact, mut tries) = (began, 0_u32);
        let mut watches: Vec<Watch> = Vec::new();
        loop {
            let (failed, voted) = match run_round(lock, &request).await {
                Round::Held(guard) => return Ok(Some(*guard)),
                Round::Busy { voted } => (None, voted),
                Round::Failed(error) => (Some(error), false),
            };
            let now = lock.clock_now();
            match failed {
                Some(error) if try_only || now >= contact + contact_timeout || now >= until => return Err(error),
                Some(_) => {}
                None if try_only => return Ok(None),
                None => contact = now,
            }
            if now >= until {
                return Err(AcquireError::TimedOut { name, waited: now.since(began), by_this_client: false });
            }
            if watches.is_empty() {
                // Releases wake this request from now on. One more round finds an earlier release.
                let targets = lock.locks.iter().filter_map(|lock| Some((lock, lock.checked_target().ok()?)));
                watches = targets
                    .map(|(lock, target)| lock.client().watch(target.channel.clone(), target.key.clone()))
                    .collect();
                continue;
            }
            let pause = LONGEST_PAUSE.min(Duration::from_millis(1 << tries.min(7)));
            tries = tries.saturating_add(1);
            let pause_ends = (now + pause.mul_f64(0.5 + fastrand::f64() / 2.0)).min(until);
            if voted {
                // The releases of this round also notify this client, and other clients that had
                // some votes. If these clients woke each other, they would retry forever and
                // obstruct each other.
                client.clock().sleep_until(pause_ends).await;
                for watch in &mut watches {
                    watch.take();
                }
                continue;
            }
            within(client, pause_ends, any_wake(&mut watches)).await;
            // Clients that were notified together do not all retry together.
            let jitter = Duration::from_micros(fastrand::u64(0..2_000));
            client.clock().sleep_until((lock.clock_now() + jitter).min(until)).await;
        }
    }
}

/// Completes when one of the watches wakes.
async fn any_wake(watches: &mut [Watch]) {
    let mut wakes: Vec<_> = watches.iter_mut().map(|watch| Box::pin(watch.wake())).collect();
    std::future::poll_fn(|cx: &mut Context<'_>| {
        let woken = wakes.iter_mut().any(|wake| Pin::new(wake).poll(cx).is_ready());
        if woken { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
}

/// The result of one attempt at all servers.
enum Round {
    Held(Box<QuorumGuard>),
    Busy {
        /// Whether some servers granted the lock, which was released again.
        voted: bool,
    },
    /// So many requests failed that the other servers are no majority.
    Failed(AcquireError),
}

/// Makes one attempt at all servers.
async fn run_round(lock: &QuorumLock, request: &AcquireRequest) -> Round {
    let (majority, servers) = (lock.majority(), lock.servers());
    let (mut votes, mut grants) = (lock.request_votes(request, &[]), Vec::new());
    let (mut busy, mut failures) = (0, Vec::new());
    while grants.len() < majority {
        match votes.recv().await {
            Some((at, Ok(Some(grant)))) => grants.push((at, grant)),
            Some((_, Ok(None))) => busy += 1,
            Some((_, Err(error))) => failures.push(error),
            None => return Round::Busy { voted: !grants.is_empty() },
        }
        if busy + failures.len() > servers - majority {
            // Dropping the grants releases them. Grants that are still to arrive have no receiver,
            // and are released as well.
            return match failures.pop() {
                Some(error) if failures.len() + 1 > servers - majority => Round::Failed(error),
                _ => Round::Busy { voted: !grants.is_empty() },
            };
        }
    }
    let mut token = lock.counts_tokens.then(|| grants.iter().map(|(_, grant)| grant.token()).max()).flatten();
    if let Some(highest) = token {
        token = lock.write_token_back(highest).await;
        if token.is_none() {
            return Round::Busy { voted: true };
        }
    }
    let guard = QuorumGuard::new(lock.clone(), request.clone(), grants, votes, token);
    // If the replies took too long, the majority is already invalid.
    if guard.is_held() { Round::Held(Box::new(guard)) } else { Round::Busy { voted: true } }
}
