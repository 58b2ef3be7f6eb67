//! Asking for a lock: options, then await.

use std::future::IntoFuture;
use std::ops::{Deref, DerefMut};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use redgrid_core::config::{Durability, LONGEST_LEASE, SHORTEST_LEASE};
use redgrid_core::lock::{AcquireRequest, Backoff, HoldGuard, LeaseMode, LockKeys, LockProtocol, PendingAcquire};
use redgrid_core::name::InvalidName;
use redgrid_core::{Client, Holder, Name, Token};

use crate::driven::driven;
use crate::fair::FAIR;
use crate::fair_lock::Place;
use crate::guard::{LockGuard, LockLost};
use crate::lock::Lock;
use crate::{AcquireError, ReleaseError};

/// Acquires a lock when awaited; made by [`Lock::acquire`].
#[must_use = "nothing is asked of the server until this is awaited"]
#[derive(Clone, Debug)]
pub struct Acquire(Options);

/// Tries to acquire a lock when awaited; made by [`Lock::try_acquire`].
#[must_use = "nothing is asked of the server until this is awaited"]
#[derive(Clone, Debug)]
pub struct TryAcquire(Options);

/// What was said of an acquire before it was awaited: of all kinds of locks.
#[derive(Clone, Debug, Default)]
pub struct Said {
    pub(crate) wait: Option<Duration>,
    pub(crate) lease: Option<Duration>,
    pub(crate) watchdog: Option<Duration>,
    pub(crate) holder: Option<Holder>,
    pub(crate) at_least: Duration,
    pub(crate) max_hold: Option<Duration>,
    pub(crate) durability: Option<Durability>,
}

impl Said {
    /// Names the holder of the current scope: a task that continues the acquire is outside of that scope.
    pub(crate) fn in_scope(mut self) -> Self {
        self.holder = self.holder.or_else(Holder::current);
        self
    }
}

/// What is asked for, and how.
#[derive(Clone)]
pub(crate) struct Options {
    client: Client,
    target: Result<Arc<LockKeys>, InvalidName>,
    kind: &'static dyn LockProtocol,
    pub(crate) reenters: bool,
    pub(crate) backoff: Option<Backoff>,
    place: Option<Place>,
    /// Where it lines up first, if it does.
    line: Option<Arc<LockKeys>>,
    said: Said,
}

/// How long who is at the front of a line keeps it when its process dies: 5 s, or the configured lease if that is shorter.
const FRONT: Duration = Duration::from_secs(5);

/// Builders of one lock and of several set the same.
impl Deref for Options {
    type Target = Said;

    fn deref(&self) -> &Said {
        &self.said
    }
}

impl DerefMut for Options {
    fn deref_mut(&mut self) -> &mut Said {
        &mut self.said
    }
}

impl Options {
    pub(crate) fn new(
        client: &Client,
        target: &Result<Arc<LockKeys>, InvalidName>,
        kind: &'static dyn LockProtocol,
    ) -> Self {
        Options {
            client: client.clone(),
            target: target.clone(),
            kind,
            reenters: true,
            backoff: None,
            place: None,
            line: None,
            said: Said::default(),
        }
    }

    /// The name of the lock.
    pub(crate) fn name(&self) -> Result<Name, AcquireError> {
        Ok(self.target.as_ref().map_err(Clone::clone)?.name.clone())
    }

    pub(crate) fn client(&self) -> &Client {
        &self.client
    }

    /// The same with what was said elsewhere.
    pub(crate) fn with(self, said: &Said) -> Self {
        Options { said: said.clone(), ..self }
    }

    /// The same of another thing, for which nobody lines up.
    pub(crate) fn of(self, target: &Arc<LockKeys>, kind: &'static dyn LockProtocol) -> Self {
        Options { target: Ok(Arc::clone(target)), kind, line: None, ..self }
    }

    /// The same behind all who stand in this line.
    pub(crate) fn in_line(self, line: Option<Arc<LockKeys>>) -> Self {
        Options { line, ..self }
    }

    /// Whether this client itself holds what is asked for.
    pub(crate) fn is_held_here(&self) -> bool {
        self.target.as_ref().is_ok_and(|target| self.client.holds(self.kind, target))
    }

    /// Asks until the wait is over; a wait of zero is one look.
    pub(crate) async fn must(&mut self) -> Result<HoldGuard, AcquireError> {
        let once = self.wait.is_some_and(|wait| wait.is_zero());
        self.wait = self.wait.filter(|wait| !wait.is_zero());
        match self.ask(once).await? {
            Some(guard) => Ok(guard),
            None => Err(busy(self.name()?, self.is_held_here())),
        }
    }

    /// The same where being busy is an answer; without a wait, one look.
    pub(crate) async fn may(&mut self) -> Result<Option<HoldGuard>, AcquireError> {
        self.wait = self.wait.filter(|wait| !wait.is_zero());
        let once = self.wait.is_none();
        match self.ask(once).await {
            Err(AcquireError::TimedOut { .. }) => Ok(None),
            outcome => outcome,
        }
    }

    // By reference, as what is asked for is large, and each of these futures would have a copy of it.
    async fn ask(&mut self, once: bool) -> Result<Option<HoldGuard>, AcquireError> {
        match &self.line {
            None => self.ask_now(once).await,
            // Boxed: few line up, and the future of every acquire would have room for it.
            Some(line) => Box::pin(self.ask_behind(line, once)).await,
        }
    }

    /// Asks at the front of a line.
    async fn ask_behind(&self, line: &Arc<LockKeys>, once: bool) -> Result<Option<HoldGuard>, AcquireError> {
        let (request, target) = (self.request(once)?, self.target.as_ref().map_err(Clone::clone)?);
        if self.client.is_in(self.kind, target, request.holder) {
            // Those in the line wait for this one.
            return self.ask_now(once).await;
        }
        let granted = driven(&self.client, &target.name, self.wait, |left| {
            let (mut asks, line) = (self.clone().in_scope(), Arc::clone(line));
            asks.wait = left;
            async move { asks.ask_at_the_front(line, once).await }
        });
        Ok(granted.await?.inspect(HoldGuard::accept_member))
    }

    /// Waits for the front of a line, asks there, and leaves the line. The grant is reserved: its caller does not have it yet.
    async fn ask_at_the_front(mut self, line: Arc<LockKeys>, once: bool) -> Result<Option<HoldGuard>, AcquireError> {
        let began = self.client.clock().now();
        let said = Said { wait: self.wait, watchdog: Some(FRONT.min(self.client.watchdog_lease())), ..Said::default() };
        let front = self.clone().with(&said).of(&line, &FAIR);
        let Some(front) = front.ask_now(once).await? else { return Ok(None) };
        self.wait = self.wait.map(|wait| wait.saturating_sub(self.client.clock().now().since(began)));
        let asked = self.enter(once)?.member().await;
        // In, or given up: the next of the line may ask. Nobody waits for that here.
        drop(front);
        asked
    }

    /// Acquires as one step of several. The grant is reserved until [`Grant::give`].
    pub(crate) async fn step(mut self) -> Result<HoldGuard, AcquireError> {
        let once = self.wait.is_some_and(|wait| wait.is_zero());
        let name = self.name()?;
        self.wait = self.wait.filter(|wait| !wait.is_zero());
        let (client, kind, target) = (self.client.clone(), self.kind, self.target.clone());
        let asked = match self.line.take() {
            None => self.enter(once)?.member().await?,
            Some(line) => Box::pin(self.ask_at_the_front(line, once)).await?,
        };
        asked.ok_or_else(|| busy(name, target.is_ok_and(|target| client.holds(kind, &target))))
    }

    /// See [`Said::in_scope`].
    pub(crate) fn in_scope(self) -> Self {
        Options { said: self.said.in_scope(), ..self }
    }

    async fn ask_now(&self, once: bool) -> Result<Option<HoldGuard>, AcquireError> {
        self.enter(once)?.outcome().await
    }

    // Apart from its outcome, which would have room for the ticket twice.
    fn enter(&self, once: bool) -> Result<PendingAcquire, AcquireError> {
        let ticket = self.client.enter(self.kind, self.target.as_ref().map_err(Clone::clone)?, self.request(once)?)?;
        if let Some(place) = &self.place {
            place.taken(ticket.queue_position());
        }
        Ok(ticket)
    }

    /// What is wished, once its values are found to be possible.
    pub(crate) fn request(&self, once: bool) -> Result<AcquireRequest, AcquireError> {
        let target = self.target.as_ref().map_err(Clone::clone)?;
        let refuse = |option, expected, got| {
            Err(AcquireError::InvalidArgument { name: target.name.clone(), option, expected, got })
        };
        let in_range = |lease: &Duration| (SHORTEST_LEASE..=LONGEST_LEASE).contains(lease);
        for (option, lease) in [("lease", self.lease), ("auto_renew", self.watchdog)] {
            if let Some(lease) = lease.filter(|lease| !in_range(lease)) {
                return refuse(option, "100 ms to 30 days", lease);
            }
        }
        if self.at_least > LONGEST_LEASE {
            return refuse("hold_at_least", "at most 30 days", self.at_least);
        }
        if let (Some(longest), true) = (self.max_hold, self.max_hold.is_some_and(|longest| longest < SHORTEST_LEASE)) {
            return refuse("hold_at_most", "at least 100 ms", longest);
        }
        let lease = match self.lease {
            Some(lease) => LeaseMode::Fixed(lease),
            None => LeaseMode::Renewed(self.watchdog.unwrap_or(self.client.watchdog_lease())),
        };
        let holder = self.holder.clone().or_else(Holder::current).map(|holder| holder.id());
        let durability = self.durability.unwrap_or(self.client.durability());
        let (at_least, max_hold, wait) = (self.at_least, self.max_hold, self.wait);
        let (reenters, backoff) = (self.reenters, self.backoff);
        Ok(AcquireRequest { lease, holder, at_least, max_hold, once, wait, durability, reenters, backoff })
    }
}

impl std::fmt::Debug for Options {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Options")
            .field("kind", &self.kind.name())
            .field("target", &self.target)
            .field("said", &self.said)
            .finish_non_exhaustive()
    }
}

/// The options of a builder around [`Options`].
macro_rules! options {
    ($builder:ident $(, $of:ident: $bound:path)?) => {
        impl$(<$of: $bound>)? $builder$(<$of>)? {
            /// Waits at most this long for others to release, and for a server that can not be reached; zero looks once.
            /// Without it, an acquire waits as long as it takes (but not without any contact to the server), and a try does
            /// not wait.
            pub fn timeout(mut self, wait: std::time::Duration) -> Self {
                self.0.wait = Some(wait);
                self
            }

            /// Holds the lock for this long at most, renewed by nobody: 100 ms to 30 days. A short lease frees the lock
            /// soon after a crash; a lease that runs out during the work loses the lock. Without it the lease is renewed
            /// while the guard lives. The guard's `extend` lengthens by hand.
            pub fn lease(mut self, lease: std::time::Duration) -> Self {
                self.0.lease = Some(lease);
                self
            }

            /// Renews the lease, as by default, but with leases of this length: 100 ms to 30 days, 30 s unless set here or
            /// in the configuration. Short ones free the lock sooner after a crash; long ones survive longer pauses.
            #[doc(alias = "watchdog")]
            pub fn auto_renew(mut self, lease: std::time::Duration) -> Self {
                self.0.lease = None;
                self.0.watchdog = Some(lease);
                self
            }

            /// Acquires for this holder, who gets in again without waiting where it already is.
            pub fn holder(mut self, holder: &crate::Holder) -> Self {
                self.0.holder = Some(holder.clone());
                self
            }

            /// Keeps the name taken for at least this long, also when the guard is released or the process dies before:
            /// for a job that must run once per interval. Nothing unless set.
            pub fn hold_at_least(mut self, keep: std::time::Duration) -> Self {
                self.0.at_least = keep;
                self
            }

            /// Has the grant and each renewal of it count only once they are so durable; as the configuration says unless set.
            /// An acquire that falls short is given back and ends [`AcquireError::NotDurable`](crate::AcquireError::NotDurable); a renewal that does is
            /// tried again until the hold's deadline. Who enters again as a holder has what the first one asked for.
            pub fn durability(mut self, durability: crate::Durability) -> Self {
                self.0.durability = Some(durability);
                self
            }

            /// Ends renewal after this long, so that a holder that hangs loses the lock one lease later. Unlimited unless
            /// set.
            pub fn hold_at_most(mut self, longest: std::time::Duration) -> Self {
                self.0.max_hold = Some(longest);
                self
            }
        }
    };
}

pub(crate) use options;

options!(Acquire);
options!(TryAcquire);

impl TryAcquire {
    pub(crate) fn new(lock: &Lock) -> Self {
        TryAcquire(lock.options())
    }

    /// Tells `place` where in the queue of a [`FairLock`](crate::FairLock) this request stands. Other locks have none.
    pub fn at(mut self, place: &Place) -> Self {
        self.0.place = Some(place.clone());
        self
    }
}

impl Acquire {
    pub(crate) fn new(lock: &Lock) -> Self {
        Acquire(lock.options())
    }

    /// Tells `place` where in the queue of a [`FairLock`](crate::FairLock) this request stands. Other locks have none.
    pub fn at(mut self, place: &Place) -> Self {
        self.0.place = Some(place.clone());
        self
    }

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

impl IntoFuture for Acquire {
    type Output = Result<LockGuard, AcquireError>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(mut self) -> Self::IntoFuture {
        Box::pin(async move { Ok(LockGuard::new(self.0.must().await?)) })
    }
}

impl IntoFuture for TryAcquire {
    type Output = Result<Option<LockGuard>, AcquireError>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(mut self) -> Self::IntoFuture {
        Box::pin(async move { Ok(self.0.may().await?.map(LockGuard::new)) })
    }
}

/// The error of an acquire that does not wait, where the lock is held.
pub(crate) fn busy(name: Name, by_this_client: bool) -> AcquireError {
    AcquireError::TimedOut { name, waited: Duration::ZERO, by_this_client }
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
