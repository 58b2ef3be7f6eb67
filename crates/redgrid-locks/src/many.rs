//! Asking for several locks as one, or for one at several servers.

use std::future::IntoFuture;
use std::pin::Pin;

use redgrid_core::Name;

use crate::AcquireError;
use crate::acquire::{Said, busy, options};

/// Acquires several locks when awaited; made by [`MultiLock::acquire`](crate::MultiLock::acquire).
#[must_use = "nothing is asked of the server until this is awaited"]
#[derive(Clone, Debug)]
pub struct AcquireMany<L>(Said, L);

/// Tries to acquire several locks when awaited; made by [`MultiLock::try_acquire`](crate::MultiLock::try_acquire).
#[must_use = "nothing is asked of the server until this is awaited"]
#[derive(Clone, Debug)]
pub struct TryAcquireMany<L>(Said, L);

/// What is made of several locks: of this crate only.
pub trait Acquirable: sealed::Sealed + Clone + Send + Sync + 'static {
    /// The proof that it is held.
    type Guard: Send;

    /// The first of its names.
    #[doc(hidden)]
    fn first(&self) -> Result<&Name, AcquireError>;

    /// Whether this client itself holds one of them.
    #[doc(hidden)]
    fn is_held_here(&self) -> bool;

    /// Asks for it: `None` where others have it.
    #[doc(hidden)]
    fn ask(&self, said: Said, once: bool) -> impl Future<Output = Result<Option<Self::Guard>, AcquireError>> + Send;
}

pub(crate) mod sealed {
    pub trait Sealed {}
}

options!(AcquireMany, L: Acquirable);
options!(TryAcquireMany, L: Acquirable);

impl<L: Acquirable> AcquireMany<L> {
    pub(crate) fn new(lock: &L) -> Self {
        AcquireMany(Said::default(), lock.clone())
    }
}

impl<L: Acquirable> TryAcquireMany<L> {
    pub(crate) fn new(lock: &L) -> Self {
        TryAcquireMany(Said::default(), lock.clone())
    }
}

impl<L: Acquirable> IntoFuture for AcquireMany<L> {
    type Output = Result<L::Guard, AcquireError>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        let AcquireMany(said, lock) = self;
        Box::pin(async move {
            // A wait of zero is one look.
            let once = said.wait.is_some_and(|wait| wait.is_zero());
            let name = lock.first()?.clone();
            let wait = said.wait.filter(|wait| !wait.is_zero());
            let guard = lock.ask(Said { wait, ..said }, once).await?;
            guard.ok_or_else(|| busy(name, lock.is_held_here()))
        })
    }
}

impl<L: Acquirable> IntoFuture for TryAcquireMany<L> {
    type Output = Result<Option<L::Guard>, AcquireError>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        let TryAcquireMany(said, lock) = self;
        Box::pin(async move {
            let wait = said.wait.filter(|wait| !wait.is_zero());
            match lock.ask(Said { wait, ..said }, wait.is_none()).await {
                Err(AcquireError::TimedOut { .. }) => Ok(None),
                outcome => outcome,
            }
        })
    }
}
