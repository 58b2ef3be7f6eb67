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
use redgrid_core::{Client, Holder, Label, Name};

use crate::AcquireError;
use crate::fair_lock::QueuePosition;
use crate::lock::{Lock, LockGuard};
use crate::options::option_methods;

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
    /// Length of a renewed lease; `None` for that of the configuration.
    pub(crate) renewed_lease: Option<Duration>,
    pub(crate) holder: Option<Holder>,
    pub(crate) at_least: Duration,
    pub(crate) max_hold: Option<Duration>,
    pub(crate) durability: Option<Durability>,
    pub(crate) label: Option<Label>,
}

impl AcquireOptions {
    /// Sets the holder to that of the current scope, unless the options name one.
    ///
    /// A task that continues the acquire runs outside of that scope.
    pub(crate) fn in_scope(mut self) -> Self {
        self.holder = self.holder.or_else(Holder::current);
        self
    }
}

/// An acquire of one lock: the lock and the options.
#[derive(Clone)]
pub(crate) struct AcquireBuilder {
    pub(crate) client: Client,
    pub(crate) target: Result<Arc<LockKeys>, InvalidName>,
    pub(crate) kind: &'static dyn LockProtocol,
    pub(crate) reenters: bool,
    pub(crate) backoff: Option<Backoff>,
    position: Option<QueuePosition>,
    /// The fair lock that the request acquires first, if the lock has one.
    pub(crate) entry_gate: Option<Arc<LockKeys>>,
    options: AcquireOptions,
}

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

    // Takes the builder by reference: it is large, and otherwise each of these futures would hold a
    // copy.
    async fn attempt(&mut self, try_only: bool) -> Result<Option<HoldGuard>, AcquireError> {
        match &self.entry_gate {
            None => self.attempt_directly(try_only).await,
            // Boxed: few locks have a gate, and the future of every acquire would reserve its size.
            Some(entry_gate) => Box::pin(self.attempt_through_gate(entry_gate, try_only)).await,
        }
    }

    /// See [`AcquireOptions::in_scope`].
    pub(crate) fn in_scope(self) -> Self {
        AcquireBuilder { options: self.options.in_scope(), ..self }
    }

    pub(crate) async fn attempt_directly(&self, try_only: bool) -> Result<Option<HoldGuard>, AcquireError> {
        self.enter(try_only)?.outcome().await
    }

    // Separate from the wait for the outcome: in one function, the future would reserve the size of
    // the pending acquire twice.
    pub(crate) fn enter(&self, try_only: bool) -> Result<PendingAcquire, AcquireError> {
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
        if let Some(label) = &self.label {
            label.check(&target.name)?;
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
            label: self.label.clone(),
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
