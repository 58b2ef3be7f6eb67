//! A request that its caller polls in place while no other task needs it.
//!
//! A caller without competitors drives its own request, so that no task is spawned for it. The
//! request moves to a task when a second request for the same lock arrives, and when the caller is
//! dropped. It also moves after a while if it is [observed](InlineTask::observed): the caller may
//! have stopped polling. The request delivers its result itself, so any task may poll it.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, TryLockError};
use std::task::{Context, Waker};

use crate::unpolled::{Unpolled, UnpolledRegistry};

/// Work that ends by itself and delivers its own result.
pub(crate) type BackgroundTask = Pin<Box<dyn Future<Output = ()> + Send>>;

#[derive(Clone)]
pub(crate) struct InlineTask(Arc<Mutex<Inner>>);

struct Inner {
    work: Option<BackgroundTask>,
    /// The caller that polls the work. While the work is here, its result wakes no task: the caller
    /// checks for it after each poll.
    caller: Option<Waker>,
}

impl InlineTask {
    /// Creates work that acquires nothing for its caller alone.
    ///
    /// It may lie unpolled until the next request takes it.
    pub(crate) fn new(work: BackgroundTask) -> Self {
        InlineTask(Arc::new(Mutex::new(Inner { work: Some(work), caller: None })))
    }

    /// Creates work that may acquire or release something.
    ///
    /// A task takes it over if it is still here after a quarter to half a second.
    pub(crate) fn observed(unpolled: &UnpolledRegistry, work: BackgroundTask) -> Self {
        let inline_task = InlineTask::new(work);
        unpolled.register_inline(&inline_task.0);
        inline_task
    }

    /// Polls the work if it is still here.
    ///
    /// Returns true when it stays here: its caller need not wait for anything else then.
    pub(crate) fn poll(&self, cx: &mut Context<'_>) -> bool {
        let mut inner = self.inner();
        // Out of it meanwhile: work that panics is gone, and is not polled again.
        let Some(mut work) = inner.work.take() else { return false };
        if work.as_mut().poll(cx).is_ready() {
            inner.caller = None;
            return false;
        }
        inner.work = Some(work);
        match &mut inner.caller {
            Some(caller) => caller.clone_from(cx.waker()),
            none => *none = Some(cx.waker().clone()),
        }
        true
    }

    /// Returns whether the work has completed or was taken away. While it is polled, it is neither.
    pub(crate) fn is_over(&self) -> bool {
        match self.0.try_lock() {
            Ok(inner) => inner.work.is_none(),
            Err(TryLockError::Poisoned(panicked)) => panicked.into_inner().work.is_none(),
            Err(TryLockError::WouldBlock) => false,
        }
    }

    /// Takes the work away, to be driven by a task.
    ///
    /// Its caller is woken, to wait for the result from now on.
    pub(crate) fn take(&self) -> Option<BackgroundTask> {
        take(&self.0)
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        lock(&self.0)
    }
}

impl Unpolled for Mutex<Inner> {
    fn give_up(self: Arc<Self>) -> Option<BackgroundTask> {
        take(&self)
    }
}

fn take(inline_task: &Mutex<Inner>) -> Option<BackgroundTask> {
    let Inner { work, caller } = std::mem::replace(&mut *lock(inline_task), Inner { work: None, caller: None });
    if let Some(caller) = caller {
        caller.wake();
    }
    work
}

fn lock(inline_task: &Mutex<Inner>) -> MutexGuard<'_, Inner> {
    inline_task.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::*;

    #[test]
    fn work_that_panics_is_not_left_for_a_task() {
        let inline_task = InlineTask::new(Box::pin(async { panic!("it does") }));
        let poll = || inline_task.poll(&mut Context::from_waker(Waker::noop()));
        assert!(catch_unwind(AssertUnwindSafe(poll)).is_err());
        assert!(inline_task.is_over() && inline_task.take().is_none());
    }
}
