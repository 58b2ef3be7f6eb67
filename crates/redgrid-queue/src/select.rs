//! One call that waits for an element, of one queue or of several.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::select_all;
use redgrid_core::author::ClientExt;
use redgrid_core::clock::Instant;
use redgrid_core::object::ObjectError;
use redgrid_core::wait_queue::{WaitEnd, Waiter};
use redgrid_core::{Name, ServerError};

use crate::stock::TakeSource;
use crate::waiters::{TakeQueue, TakeRequest, TakeWaiters, Taken};

/// Reason in the error if no server answers.
const NO_REPLY: &str = "no reply in time; elements that were taken go to other callers or back to the queue";

/// A queue and its name.
pub(crate) type NamedQueue<S> = (Name, Arc<TakeQueue<S>>);

/// Returns an element and the index of its queue; `None` if there was none in time.
///
/// If several queues have elements, the element is taken from the first of these queues. Without a
/// timeout the call waits without limit; with a timeout of zero it polls once.
pub(crate) async fn take<S: TakeSource>(
    queues: &[NamedQueue<S>],
    timeout: Option<Duration>,
) -> Result<Option<(usize, Bytes)>, ObjectError> {
    let Some((_, queue)) = queues.first() else { return Ok(None) };
    let clock = queue.client().clock();
    let until = timeout.map_or(Instant::MAX, |timeout| clock.now() + timeout);
    let try_only = timeout.is_some_and(|timeout| timeout.is_zero());
    if queues.len() > 1 || try_only {
        for index in 0..queues.len() {
            let mut waits = vec![Wait::enter(queues, index, Instant::MAX, true)];
            if let Some(found) = first_element(&mut waits).await? {
                return Ok(Some(found));
            }
        }
    }
    if try_only {
        return Ok(None);
    }
    let mut waits: Vec<_> = (0..queues.len()).map(|index| Wait::enter(queues, index, until, false)).collect();
    first_element(&mut waits).await
}

/// The wait for one of the queues. Dropping it cancels it.
struct Wait<'a, S: TakeSource> {
    index: usize,
    queue: &'a NamedQueue<S>,
    request: Arc<TakeRequest>,
    until: Instant,
    waiter: Waiter<TakeWaiters<S>>,
}

impl<'a, S: TakeSource> Wait<'a, S> {
    fn enter(queues: &'a [NamedQueue<S>], index: usize, until: Instant, try_only: bool) -> Self {
        let (queue, request) = (&queues[index], TakeRequest::new(until, try_only));
        Wait { index, queue, until, waiter: queue.1.enter(Arc::clone(&request)), request }
    }

    /// Completes when the wait has ended; `None` if it has ended without an element.
    async fn ended(&mut self) -> Result<Option<Bytes>, ObjectError> {
        let (name, queue) = self.queue;
        loop {
            let source = match self.waiter.ended_by(self.until).await {
                WaitEnd::Completed(Taken::Element(claim)) => match claim.take() {
                    Some(element) => return Ok(Some(element)),
                    None => {
                        // This call did not claim the element in time, so another caller got it:
                        // wait again.
                        self.waiter = queue.enter(Arc::clone(&self.request));
                        continue;
                    }
                },
                WaitEnd::NoReply => {
                    // No poll since this call began was answered in time. Poll once more, and wait
                    // for its reply or until contact counts as lost.
                    self.until = Instant::MAX;
                    self.request.set_try_only();
                    queue.poll_soon();
                    continue;
                }
                WaitEnd::Completed(Taken::Nothing) | WaitEnd::TimedOut => return Ok(None),
                WaitEnd::Completed(Taken::NoReply) => ServerError::Unknown { reason: NO_REPLY.into() },
                WaitEnd::Failed(source) => source,
            };
            return Err(ObjectError::of(name, source));
        }
    }
}

/// Returns the first element; `None` if all waits end without one.
async fn first_element<S: TakeSource>(waits: &mut Vec<Wait<'_, S>>) -> Result<Option<(usize, Bytes)>, ObjectError> {
    while !waits.is_empty() {
        let (ended, at, _) = select_all(waits.iter_mut().map(|wait| Box::pin(wait.ended()))).await;
        let wait = waits.remove(at);
        if let Some(element) = ended? {
            return Ok(Some((wait.index, element)));
        }
    }
    Ok(None)
}
