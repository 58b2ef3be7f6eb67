//! Builders for acquires of several locks together, or of one lock at several servers.

use std::future::IntoFuture;
use std::pin::Pin;

use redgrid_core::Name;
use redgrid_core::author::LockExt;
use redgrid_core::lock::HoldGuard;

use crate::AcquireError;
use crate::acquire::{AcquireBuilder, AcquireOptions, busy};
use crate::options::option_methods;

/// Acquires several locks when awaited; made by [`MultiLock::acquire`](crate::MultiLock::acquire).
#[must_use = "does nothing until awaited"]
#[derive(Clone, Debug)]
pub struct AcquireMany<L>(AcquireOptions, L);

/// Tries to acquire several locks when awaited; made by
/// [`MultiLock::try_acquire`](crate::MultiLock::try_acquire).
#[must_use = "does nothing until awaited"]
#[derive(Clone, Debug)]
pub struct TryAcquireMany<L>(AcquireOptions, L);

/// A lock that consists of several locks. Only this crate implements it.
pub trait Acquirable: sealed::Sealed + Clone + Send + Sync + 'static {
    /// The guard of the acquired locks.
    type Guard: Send;

    /// Returns the first of its names.
    #[doc(hidden)]
    fn first(&self) -> Result<&Name, AcquireError>;

    /// Returns whether this client itself holds one of the locks.
    #[doc(hidden)]
    fn is_held_here(&self) -> bool;

    /// Acquires all locks; `None` if one is taken and the request does not wait.
    #[doc(hidden)]
    fn ask(
        &self,
        options: AcquireOptions,
        try_only: bool,
    ) -> impl Future<Output = Result<Option<Self::Guard>, AcquireError>> + Send;
}

#[expect(unnameable_types, reason = "seals `Acquirable`")]
pub(crate) mod sealed {
    pub trait Sealed {}
}

option_methods!(AcquireMany, L: Acquirable);
option_methods!(TryAcquireMany, L: Acquirable);

impl<L: Acquirable> AcquireMany<L> {
    pub(crate) fn new(lock: &L) -> Self {
        AcquireMany(AcquireOptions::default(), lock.clone())
    }
}

impl<L: Acquirable> TryAcquireMany<L> {
    pub(crate) fn new(lock: &L) -> Self {
        TryAcquireMany(AcquireOptions::default(), lock.clone())
    }
}

impl<L: Acquirable> IntoFuture for AcquireMany<L> {
    type Output = Result<L::Guard, AcquireError>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        let AcquireMany(options, lock) = self;
        Box::pin(async move {
            // A timeout of zero means one attempt.
            let try_only = options.wait.is_some_and(|wait| wait.is_zero());
            let name = lock.first()?.clone();
            let wait = options.wait.filter(|wait| !wait.is_zero());
            let guard = lock.ask(AcquireOptions { wait, ..options }, try_only).await?;
            guard.ok_or_else(|| busy(name, lock.is_held_here()))
        })
    }
}

impl<L: Acquirable> IntoFuture for TryAcquireMany<L> {
    type Output = Result<Option<L::Guard>, AcquireError>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        let TryAcquireMany(options, lock) = self;
        Box::pin(async move {
            let wait = options.wait.filter(|wait| !wait.is_zero());
            match lock.ask(AcquireOptions { wait, ..options }, wait.is_none()).await {
                Err(AcquireError::TimedOut { .. }) => Ok(None),
                outcome => outcome,
            }
        })
    }
}

impl AcquireBuilder {
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
}
