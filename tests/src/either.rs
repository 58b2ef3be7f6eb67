//! A semaphore with leased or plain permits, for tests that run with both.

use redgrid_core::Client;
use redgrid_semaphore::{Acquire, Failure, PlainSemaphore, Semaphore, TryAcquire};

/// A semaphore of either kind.
#[derive(Clone, Debug)]
pub enum EitherSemaphore {
    /// With leases.
    Leased(Semaphore),
    /// Without leases.
    Plain(PlainSemaphore),
}

/// Calls the method of the wrapped semaphore.
macro_rules! either {
    ($self:ident, $semaphore:ident => $call:expr) => {
        match $self {
            EitherSemaphore::Leased($semaphore) => $call,
            EitherSemaphore::Plain($semaphore) => $call,
        }
    };
}

impl EitherSemaphore {
    /// Creates a semaphore with this number of permits, with leases or without.
    ///
    /// # Panics
    ///
    /// If the number of plain permits cannot be set.
    pub async fn new(client: &Client, name: impl AsRef<str>, permits: u64, leases: bool) -> Self {
        if leases {
            return EitherSemaphore::Leased(Semaphore::new(client, name, permits));
        }
        let plain = Semaphore::plain(client, name);
        plain.try_set_permits(permits).await.expect("the number of permits is set");
        EitherSemaphore::Plain(plain)
    }

    /// Makes the semaphore grant permits in the order of the waiters' arrival.
    #[must_use]
    pub fn fair(self) -> Self {
        match self {
            EitherSemaphore::Leased(semaphore) => EitherSemaphore::Leased(semaphore.fair()),
            EitherSemaphore::Plain(semaphore) => EitherSemaphore::Plain(semaphore.fair()),
        }
    }

    /// Acquires one permit.
    pub fn acquire(&self) -> Acquire {
        either!(self, semaphore => semaphore.acquire())
    }

    /// Acquires several permits.
    pub fn acquire_many(&self, permits: u64) -> Acquire {
        either!(self, semaphore => semaphore.acquire_many(permits))
    }

    /// Acquires one permit if it is available.
    pub fn try_acquire(&self) -> TryAcquire {
        either!(self, semaphore => semaphore.try_acquire())
    }

    /// Acquires several permits if they are available.
    pub fn try_acquire_many(&self, permits: u64) -> TryAcquire {
        either!(self, semaphore => semaphore.try_acquire_many(permits))
    }

    /// Returns the number of available permits.
    ///
    /// # Errors
    ///
    /// As the semaphore's method.
    pub async fn available_permits(&self) -> Result<u64, Failure> {
        either!(self, semaphore => semaphore.available_permits().await)
    }

    /// Closes the handle.
    pub fn close(&self) {
        either!(self, semaphore => semaphore.close());
    }

    /// Returns whether the handle was closed.
    pub fn is_closed(&self) -> bool {
        either!(self, semaphore => semaphore.is_closed())
    }
}
