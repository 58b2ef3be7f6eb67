//! An exchange that its caller polls in place while nobody else needs it.
//!
//! Alone, a caller drives its own request: no task is spawned for it. As soon as a second one waits for the same name, or
//! the caller is dropped, the exchange moves to a task. It delivers its result itself, so it does not matter who polls.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, TryLockError};
use std::task::{Context, Waker};

/// Work that ends by itself and tells its result where it is waited for.
pub(crate) type Work = Pin<Box<dyn Future<Output = ()> + Send>>;

#[derive(Clone)]
pub(crate) struct Flight(Arc<Mutex<Aboard>>);

struct Aboard {
    work: Option<Work>,
    /// The caller that polls it. Its result wakes nobody while it is here: whoever polls looks himself.
    caller: Option<Waker>,
}

impl Flight {
    pub(crate) fn new(work: Work) -> Self {
        Flight(Arc::new(Mutex::new(Aboard { work: Some(work), caller: None })))
    }

    /// Polls the work if it is still here. True when it goes on here: then nothing else need be waited for.
    pub(crate) fn poll(&self, cx: &mut Context<'_>) -> bool {
        let mut aboard = self.aboard();
        // Out of it meanwhile: work that panics is not here any more, and nobody polls it again.
        let Some(mut work) = aboard.work.take() else { return false };
        if work.as_mut().poll(cx).is_ready() {
            aboard.caller = None;
            return false;
        }
        aboard.work = Some(work);
        match &mut aboard.caller {
            Some(caller) => caller.clone_from(cx.waker()),
            none => *none = Some(cx.waker().clone()),
        }
        true
    }

    /// Whether it has landed or was taken away. While it is being polled, it is not.
    pub(crate) fn is_over(&self) -> bool {
        match self.0.try_lock() {
            Ok(aboard) => aboard.work.is_none(),
            Err(TryLockError::Poisoned(panicked)) => panicked.into_inner().work.is_none(),
            Err(TryLockError::WouldBlock) => false,
        }
    }

    /// Takes the work away, to be driven by a task. Its caller is woken, to wait for the result from now on.
    pub(crate) fn take(&self) -> Option<Work> {
        let Aboard { work, caller } = std::mem::replace(&mut *self.aboard(), Aboard { work: None, caller: None });
        if let Some(caller) = caller {
            caller.wake();
        }
        work
    }

    fn aboard(&self) -> MutexGuard<'_, Aboard> {
        self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::*;

    #[test]
    fn work_that_panics_is_not_left_for_a_task() {
        let flight = Flight::new(Box::pin(async { panic!("it does") }));
        let poll = || flight.poll(&mut Context::from_waker(Waker::noop()));
        assert!(catch_unwind(AssertUnwindSafe(poll)).is_err());
        assert!(flight.is_over() && flight.take().is_none());
    }
}
