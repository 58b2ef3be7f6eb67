//! Acquire builders: options first, then `.await`.

use std::future::IntoFuture;
use std::ops::{Deref, DerefMut};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use redgrid_core::author::{Backoff, ClientExt, LockExt, LockProtocol};
use redgrid_core::config::{Durability, LONGEST_LEASE, SHORTEST_LEASE};
use redgrid_core::lock::{AcquireRequest, HoldGuard, LeaseMode, LockKeys, PendingAcquire};
use redgrid_core::name::InvalidName;
use redgrid_core::{Client, Holder, Name, Token};

use crate::drive::drive;
use crate::fair::FAIR;
use crate::fair_lock::QueuePosition;
use crate::guard::{LockGuard, LockLost};
use crate::lock::Lock;
use crate::{AcquireError, ReleaseError};

/// Acquires a lock when awaited; made by [`Lock::acquire`].
#[must_use = "does nothing until awaited"]
#[derive(Clone, Debug)]
pub struct Acquire(AcquireBuilder);

/// Tries to acquire a lock when awaited; made by [`Lock::try_acquire`].
#[must_use = "does nothing until awaited"]
#[derive(Clone, Debug)]
pub struct TryAcquire(AcquireBuilder);

/// The options of an acquire, which are the same for all kinds of locks.
#[derive(Clone, Debug, Default)]
#[expect(unnameable_types, reason = "only the sealed `Acquirable` uses it")]
pub struct AcquireOptions {
    pub(crate) wait: Option<Duration>,
    pub(crate) lease: Option<Duration>,
    /// The length of a renewed lease, if it is not that of the configuration.
    pub(crate) renewed_lease: Option<Duration>,
    pub(crate) holder: Option<Holder>,
    pub(crate) at_least: Duration,
    pub(crate) max_hold: Option<Duration>,
    pub(crate) durability: Option<Durability>,
}

impl AcquireOptions {
    /// Sets the holder to that of the current scope, unless the options name one.
    ///
    /// A task that continues the acquire is outside of that scope.
    pub(crate) fn in_scope(mut self) -> Self {
        self.holder = self.holder.or_else(Holder::current);
        self
    }
}

/// An acquire of one lock: the lock and the options.
#[derive(Clone)]
pub(crate) struct AcquireBuilder {
    client: Client,
    target: Result<Arc<LockKeys>, InvalidName>,
    kind: &'static dyn LockProtocol,
    pub(crate) reenters: bool,
    pub(crate) backoff: Option<Backoff>,
    position: Option<QueuePosition>,
    /// The fair lock that the request acquires first, if the lock has one.
    entry_gate: Option<Arc<LockKeys>>,
    options: AcquireOptions,
}

/// The longest lease of an entry gate: 5 s, or the configured lease if that is shorter.
///
/// If the process that holds the gate dies, the gate stays closed for this long.
const ENTRY_GATE_LEASE: Duration = Duration::from_secs(5);

/// Lets `option_methods!` set the same fields for one lock and for several.
impl Deref for AcquireBuilder {
    type Target = AcquireOptions;

    fn deref(&self) -> &AcquireOptions {
        &self.options
    }
}

impl DerefMut for AcquireBuilder {
    fn deref_mut(&mut self) -> &mut AcquireOptions {
        &mut self.options
    }
}

impl AcquireBuilder {
    pub(crate) fn new(
        client: &Client,
        target: &Result<Arc<LockKeys>, InvalidName>,
        kind: &'static dyn LockProtocol,
    ) -> Self {
        AcquireBuilder {
            client: client.clone(),
            target: target.clone(),
            kind,
            reenters: true,
            backoff: None,
            position: None,
            entry_gate: None,
            options: AcquireOptions::default(),
        }
    }

    /// Returns the name of the lock.
    pub(crate) fn name(&self) -> Result<Name, AcquireError> {
        Ok(self.target.as_ref().map_err(Clone::clone)?.name.clone())
    }

    pub(crate) fn client(&self) -> &Client {
        &self.client
    }

    /// Replaces the options.
    pub(crate) fn with_options(self, options: &AcquireOptions) -> Self {
        AcquireBuilder { options: options.clone(), ..self }
    }

    /// Replaces the lock by one without an entry gate. The options stay.
    pub(crate) fn for_lock(self, target: &Arc<LockKeys>, kind: &'static dyn LockProtocol) -> Self {
        AcquireBuilder { target: Ok(Arc::clone(target)), kind, entry_gate: None, ..self }
    }

    /// Sets the fair lock that the request acquires before the lock itself.
    pub(crate) fn with_entry_gate(self, entry_gate: Option<Arc<LockKeys>>) -> Self {
        AcquireBuilder { entry_gate, ..self }
    }

    /// Returns whether this client itself holds the lock.
    pub(crate) fn is_held_here(&self) -> bool {
        self.target.as_ref().is_ok_and(|target| self.client.holds(self.kind, target))
    }

    /// Acquires the lock within the timeout. A timeout of zero means one attempt.
    pub(crate) async fn acquire(&mut self) -> Result<HoldGuard, AcquireError> {
        let try_only = self.wait.is_some_and(|wait| wait.is_zero());
        self.wait = self.wait.filter(|wait| !wait.is_zero());
        match self.attempt(try_only).await? {
            Some(guard) => Ok(guard),
            None => Err(busy(self.name()?, self.is_held_here())),
        }
    }

    /// Acquires the lock, or returns `None` if it is taken. Without a timeout it makes one attempt.
    pub(crate) async fn try_acquire(&mut self) -> Result<Option<HoldGuard>, AcquireError> {
        self.wait = self.wait.filter(|wait| !wait.is_zero());
        let try_only = self.wait.is_none();
        match self.attempt(try_only).await {
            Err(AcquireError::TimedOut { .. }) => Ok(None),
            outcome => outcome,
        }
    }

    // By reference: the builder is large, and each of these futures would hold a copy of it.
    async fn attempt(&mut self, try_only: bool) -> Result<Option<HoldGuard>, AcquireError> {
        match &self.entry_gate {
            None => self.attempt_directly(try_only).await,
            // Boxed: few locks have a gate, and the future of every acquire would reserve its size.
            Some(entry_gate) => Box::pin(self.attempt_through_gate(entry_gate, try_only)).await,
        }
    }

    /// Requests the lock while holding the entry gate.
    async fn attempt_through_gate(
        &self,
        entry_gate: &Arc<LockKeys>,
        try_only: bool,
    ) -> Result<Option<HoldGuard>, AcquireError> {
        let (request, target) = (self.request(try_only)?, self.target.as_ref().map_err(Clone::clone)?);
        if self.client.is_in(self.kind, target, request.holder) {
            // The holder re-enters: requests at the gate wait for it.
            return self.attempt_directly(try_only).await;
        }
        let granted = drive(&self.client, &target.name, self.wait, |remaining| {
            let (mut builder, entry_gate) = (self.clone().in_scope(), Arc::clone(entry_gate));
            builder.wait = remaining;
            async move { builder.pass_gate(entry_gate, try_only).await }
        });
        Ok(granted.await?.inspect(HoldGuard::accept_member))
    }

    /// Acquires the entry gate, requests the lock, and releases the gate.
    ///
    /// The grant is reserved: its caller does not have it yet.
    async fn pass_gate(mut self, entry_gate: Arc<LockKeys>, try_only: bool) -> Result<Option<HoldGuard>, AcquireError> {
        let began = self.client.clock().now();
        let gate_lease = ENTRY_GATE_LEASE.min(self.client.watchdog_lease());
        let options = AcquireOptions { wait: self.wait, renewed_lease: Some(gate_lease), ..AcquireOptions::default() };
        let gate = self.clone().with_options(&options).for_lock(&entry_gate, &FAIR);
        let Some(gate) = gate.attempt_directly(try_only).await? else { return Ok(None) };
        self.wait = self.wait.map(|wait| wait.saturating_sub(self.client.clock().now().since(began)));
        let outcome = self.enter(try_only)?.member().await;
        // Granted or given up: the next waiter at the gate may request the lock. The release of the
        // gate is not awaited.
        drop(gate);
        outcome
    }

    /// Acquires the lock as one member of a multi-step acquire.
    ///
    /// The grant is reserved until [`HoldGuard::accept_member`].
    pub(crate) async fn acquire_member(mut self) -> Result<HoldGuard, AcquireError> {
        let try_only = self.wait.is_some_and(|wait| wait.is_zero());
        let name = self.name()?;
        self.wait = self.wait.filter(|wait| !wait.is_zero());
        let (client, kind, target) = (self.client.clone(), self.kind, self.target.clone());
        let grant = match self.entry_gate.take() {
            None => self.enter(try_only)?.member().await?,
            Some(entry_gate) => Box::pin(self.pass_gate(entry_gate, try_only)).await?,
        };
        grant.ok_or_else(|| busy(name, target.is_ok_and(|target| client.holds(kind, &target))))
    }

    /// See [`AcquireOptions::in_scope`].
    pub(crate) fn in_scope(self) -> Self {
        AcquireBuilder { options: self.options.in_scope(), ..self }
    }

    async fn attempt_directly(&self, try_only: bool) -> Result<Option<HoldGuard>, AcquireError> {
        self.enter(try_only)?.outcome().await
    }

    // Separate from the wait for the outcome, whose future would reserve the size of the pending
    // acquire twice.
    fn enter(&self, try_only: bool) -> Result<PendingAcquire, AcquireError> {
        let target = self.target.as_ref().map_err(Clone::clone)?;
        let pending = PendingAcquire::start(&self.client, self.kind, target, self.request(try_only)?)?;
        if let Some(position) = &self.position {
            position.follow(pending.queue_position());
        }
        Ok(pending)
    }

    /// Validates the options and returns the request.
    pub(crate) fn request(&self, try_only: bool) -> Result<AcquireRequest, AcquireError> {
        let target = self.target.as_ref().map_err(Clone::clone)?;
        let refuse = |option, expected, got| Err(AcquireError::invalid_argument(&target.name, option, expected, got));
        let in_range = |lease: &Duration| (SHORTEST_LEASE..=LONGEST_LEASE).contains(lease);
        for (option, lease) in [("lease", self.lease), ("auto_renew", self.renewed_lease)] {
            if let Some(lease) = lease.filter(|lease| !in_range(lease)) {
                return refuse(option, "100 ms to 30 days", lease);
            }
        }
        if self.at_least > LONGEST_LEASE {
            return refuse("hold_at_least", "at most 30 days", self.at_least);
        }
        if let Some(longest) = self.max_hold.filter(|longest| *longest < SHORTEST_LEASE) {
            return refuse("hold_at_most", "at least 100 ms", longest);
        }
        let lease = match self.lease {
            Some(lease) => LeaseMode::Fixed(lease),
            None => LeaseMode::Renewed(self.renewed_lease.unwrap_or(self.client.watchdog_lease())),
        };
        let holder = self.holder.clone().or_else(Holder::current).map(|holder| holder.id());
        Ok(AcquireRequest {
            lease,
            holder,
            at_least: self.at_least,
            max_hold: self.max_hold,
            once: try_only,
            wait: self.wait,
            durability: self.durability.unwrap_or(self.client.durability()),
            reenters: self.reenters,
            backoff: self.backoff,
        })
    }
}

impl std::fmt::Debug for AcquireBuilder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AcquireBuilder")
            .field("kind", &self.kind.name())
            .field("target", &self.target)
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}

/// The option methods of a builder around [`AcquireBuilder`] or [`AcquireOptions`].
macro_rules! option_methods {
    ($builder:ident $(, $of:ident: $bound:path)?) => {
        impl$(<$of: $bound>)? $builder$(<$of>)? {
            /// Limits how long to wait, for other holders and for an unreachable server.
            ///
            /// Zero means one attempt. Without a timeout, an acquire waits as long as it takes, but
            /// not without any contact to the server. A try does not wait then.
            pub fn timeout(mut self, wait: std::time::Duration) -> Self {
                self.0.wait = Some(wait);
                self
            }

            /// Sets a fixed lease, which is not renewed: 100 ms to 30 days.
            ///
            /// A short lease frees the lock soon after a crash. If the lease runs out during the
            /// work, the lock is lost. Without this option the lease is renewed while the guard
            /// lives. The guard's `extend` extends it explicitly.
            pub fn lease(mut self, lease: std::time::Duration) -> Self {
                self.0.lease = Some(lease);
                self
            }

            /// Renews the lease, as by default, but with leases of this length.
            ///
            /// The length is 100 ms to 30 days; 30 s unless set here or in the configuration. Short
            /// leases free the lock sooner after a crash. Long ones survive longer pauses.
            #[doc(alias = "watchdog")]
            pub fn auto_renew(mut self, lease: std::time::Duration) -> Self {
                self.0.lease = None;
                self.0.renewed_lease = Some(lease);
                self
            }

            /// Acquires for this holder. Where it already holds the lock, it re-enters without
            /// waiting.
            pub fn holder(mut self, holder: &crate::Holder) -> Self {
                self.0.holder = Some(holder.clone());
                self
            }

            /// Keeps the lock taken for at least this long, for a job that must run once per
            /// interval.
            ///
            /// This holds even if the guard is released or the process dies earlier. The default is
            /// zero.
            pub fn hold_at_least(mut self, keep: std::time::Duration) -> Self {
                self.0.at_least = keep;
                self
            }

            /// Sets how durable the grant and each renewal must be before they are valid.
            ///
            /// The default is that of the configuration. An acquire that falls short is released
            /// and returns [`AcquireError::NotDurable`](crate::AcquireError::NotDurable). A renewal
            /// that falls short is retried until the deadline of the hold. A holder that re-enters
            /// has the durability of its first acquire.
            pub fn durability(mut self, durability: crate::Durability) -> Self {
                self.0.durability = Some(durability);
                self
            }

            /// Ends the renewal after this time. Unlimited unless set.
            ///
            /// A holder that hangs loses the lock one lease later.
            pub fn hold_at_most(mut self, longest: std::time::Duration) -> Self {
                self.0.max_hold = Some(longest);
                self
            }
        }
    };
}

pub(crate) use option_methods;

option_methods!(Acquire);
option_methods!(TryAcquire);

impl TryAcquire {
    pub(crate) fn new(lock: &Lock) -> Self {
        TryAcquire(lock.acquire_builder())
    }

    /// Makes `position` follow this request's position in the queue of a
    /// [`FairLock`](crate::FairLock).
    ///
    /// Other locks have no such queue.
    pub fn track(mut self, position: &QueuePosition) -> Self {
        self.0.position = Some(position.clone());
        self
    }
}

impl Acquire {
    pub(crate) fn new(lock: &Lock) -> Self {
        Acquire(lock.acquire_builder())
    }

    /// Makes `position` follow this request's position in the queue of a
    /// [`FairLock`](crate::FairLock).
    ///
    /// Other locks have no such queue.
    pub fn track(mut self, position: &QueuePosition) -> Self {
        self.0.position = Some(position.clone());
        self
    }

    /// Acquires the lock, runs `work` with the fencing token, and releases the lock.
    ///
    /// The work is dropped when the lock is lost.
    ///
    /// # Errors
    ///
    /// [`WithError`] when the lock was not acquired, or was lost before the work was done.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops the work and releases the lock in the background.
    pub async fn with<F, Fut>(self, work: F) -> Result<Fut::Output, WithError>
    where
        F: FnOnce(Token) -> Fut + Send,
        Fut: Future + Send,
    {
        let guard = self.await?;
        let done = guard.run(work(guard.token())).await?;
        match guard.release().await {
            // The work was done under a valid lease. Only the release is not confirmed; the hold
            // ends with its lease.
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
        Box::pin(async move { Ok(LockGuard::new(self.0.acquire().await?)) })
    }
}

impl IntoFuture for TryAcquire {
    type Output = Result<Option<LockGuard>, AcquireError>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(mut self) -> Self::IntoFuture {
        Box::pin(async move { Ok(self.0.try_acquire().await?.map(LockGuard::new)) })
    }
}

/// Returns the error of an acquire that does not wait and finds the lock taken.
pub(crate) fn busy(name: Name, by_this_client: bool) -> AcquireError {
    AcquireError::TimedOut { name, waited: Duration::ZERO, by_this_client }
}

/// Reason why work under a lock was not done, or not completed.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum WithError {
    /// The lock was not acquired. The work was not started.
    #[error(transparent)]
    Acquire(#[from] AcquireError),
    /// The lock was lost. The work was dropped, or had just completed.
    #[error(transparent)]
    Lost(#[from] LockLost),
}
