//! An exchange that its caller polls in place while nobody else needs it.
//!
//! Alone, a caller drives its own request: no task is spawned for it. As soon as a second one waits for the same name, or
//! the caller is dropped, the exchange moves to a task. It delivers its result itself, so it does not matter who polls.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

/// Work that ends by itself and tells its result where it is waited for.
pub(crate) type Work = Pin<Box<dyn Future<Output = ()> + Send>>;

#[derive(Clone)]
pub(crate) struct Flight(Arc<Mutex<Option<Work>>>);

impl Flight {
    pub(crate) fn new(work: Work) -> Self {
        Flight(Arc::new(Mutex::new(Some(work))))
    }

    /// Polls the work if it is still here.
    pub(crate) fn poll(&self, cx: &mut Context<'_>) {
        let mut here = self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if let Some(work) = here.as_mut()
            && let Poll::Ready(()) = work.as_mut().poll(cx)
        {
            *here = None;
        }
    }

    /// Whether it has landed or was taken away. While it is being polled, it is not.
    pub(crate) fn is_over(&self) -> bool {
        self.0.try_lock().is_ok_and(|here| here.is_none())
    }

    /// Takes the work away, to be driven by a task.
    pub(crate) fn take(&self) -> Option<Work> {
        self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).take()
    }
}
