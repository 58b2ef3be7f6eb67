//! A pending request for permits, as its caller sees it.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::sync::oneshot;

use super::error::AcquireError;
use super::exchange::SemaphoreKeys;
use super::local_semaphore::{AcquireFailure, AcquireOutcome, AcquireResult, LocalSemaphore, PermitRequest};
use super::permit::Permit;
use super::semaphore_state::RequestStatus;
use crate::author::ClientExt;
use crate::clock::Instant;
use crate::connection::Client;
use crate::error::ServerError;
use crate::failure::Failure;
use crate::lock::{GRACE, InlineTask};
use crate::observe::{OpContext, OpSpan};

/// A pending request for permits.
///
/// Dropping it cancels the request and returns what was granted meanwhile.
pub struct PendingPermit {
    client: Client,
    semaphore: Arc<LocalSemaphore>,
    request: PermitRequest,
    id: u64,
    entered: Instant,
    until: Instant,
    status: Arc<RequestStatus>,
    receiver: oneshot::Receiver<AcquireResult>,
    inline_loop: Option<InlineTask>,
    done: bool,
}

impl PendingPermit {
    /// See [`ClientExt::permits`].
    pub(crate) fn new(client: &Client, keys: &Arc<SemaphoreKeys>, request: PermitRequest) -> PendingPermit {
        let entered = client.clock().now();
        let until = request.wait.map_or(Instant::MAX, |wait| entered + wait);
        let status = Arc::default();
        let (semaphore, receiver, id, inline_loop) =
            client.semaphores().enqueue(client, keys, request.clone(), until, &status);
        PendingPermit {
            client: client.clone(),
            semaphore,
            request,
            id,
            entered,
            until,
            status,
            receiver,
            inline_loop,
            done: false,
        }
    }

    /// Waits for the permits. Returns `None` if the request was try-only and there were too few.
    ///
    /// # Errors
    ///
    /// [`AcquireError`] says what is true on the server then.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future gives up the position in the queue. Permits that the server had granted
    /// are returned in the background.
    pub fn outcome(self) -> impl Future<Output = Result<Option<Permit>, AcquireError>> + Send + use<> {
        let keys = Arc::clone(&self.semaphore.keys);
        let context = OpContext { kind: keys.kind(), name: &keys.name };
        let span = OpSpan::acquire(context, self.client.clock(), self.entered);
        span.instrument(self.wait())
    }

    async fn wait(mut self) -> Result<Option<Permit>, AcquireError> {
        let contact_timeout = match self.request.wait {
            // With a timeout, it waits until then, even without contact.
            Some(_) => Duration::MAX,
            None => self.client.patience() + self.request.durability.timeout() + GRACE,
        };
        // A try-only request waits less for an unreachable server.
        let mut gives_up_early = self.request.try_only && !self.client.core().is_connected(&self.semaphore.keys.key);
        let early_timeout = self.client.response_timeout() + GRACE;
        let mut contact = self.entered;
        let result = loop {
            let contact_timeout = if gives_up_early { contact_timeout.min(early_timeout) } else { contact_timeout };
            let wake = self.until.min(contact + contact_timeout);
            let clock = self.client.clock().clone();
            tokio::select! {
                biased;
                result = poll_fn(|cx| self.poll_result(cx)) => break result,
                () = clock.wait_until(wake) => {
                    if let Ok(result) = self.receiver.try_recv() {
                        break Some(result);
                    }
                    let now = clock.now();
                    contact = contact.max(self.contact());
                    if gives_up_early && self.status.sent_since().is_some() {
                        gives_up_early = false;
                        continue;
                    }
                    if now >= self.until || now >= contact + contact_timeout {
                        return Err(self.timeout_error(now));
                    }
                }
            }
        };
        self.done = true;
        match self.convert_result(result) {
            Some(outcome) => outcome,
            None => Box::pin(self.retry()).await,
        }
    }

    /// Requests again: the permits were not taken in time and went to others.
    async fn retry(&self) -> Result<Option<Permit>, AcquireError> {
        let now = self.client.clock().now();
        if now >= self.until {
            return Err(self.timeout_error(now));
        }
        let wait = self.request.wait.map(|_| self.until.since(now));
        let mut again = self.client.permits(&self.semaphore.keys, PermitRequest { wait, ..self.request.clone() });
        again.entered = self.entered;
        again.wait().await
    }

    fn poll_result(&mut self, cx: &mut Context<'_>) -> Poll<Option<AcquireResult>> {
        if let Some(inline_loop) = &self.inline_loop
            && inline_loop.poll(cx)
        {
            // Not registered with the receiver: a result from the inline loop would wake the task
            // that polls that loop just now.
            return match self.receiver.try_recv() {
                Ok(result) => Poll::Ready(Some(result)),
                Err(oneshot::error::TryRecvError::Empty) => Poll::Pending,
                Err(oneshot::error::TryRecvError::Closed) => Poll::Ready(None),
            };
        }
        Pin::new(&mut self.receiver).poll(cx).map(Result::ok)
    }

    /// Converts the result; `None` if the permits were not taken in time.
    fn convert_result(&self, result: Option<AcquireResult>) -> Option<Result<Option<Permit>, AcquireError>> {
        let name = || self.semaphore.keys.name.clone();
        let operation = || AcquireError::operation(&self.semaphore.keys.name);
        let failed = AcquireError::Failed;
        let now = self.client.clock().now();
        Some(match result {
            Some(Ok(AcquireOutcome::TooFew)) => Ok(None),
            Some(Ok(AcquireOutcome::Offered)) => Ok(Some(self.status.take()?)),
            // The waiter was removed from the queue because it had timed out.
            None if now >= self.until => Err(self.timeout_error(now)),
            None | Some(Err(AcquireFailure::ShuttingDown)) => Err(match self.client.ended() {
                ServerError::ShuttingDown => failed(Failure::ShuttingDown { operation: operation() }),
                source => failed(Failure::Unavailable { operation: operation(), source }),
            }),
            Some(Err(AcquireFailure::Unauthorized(source))) => {
                Err(failed(Failure::Unauthorized { operation: operation(), source }))
            }
            Some(Err(AcquireFailure::NotInitialised)) => Err(AcquireError::NotInitialised { name: name() }),
            Some(Err(AcquireFailure::PermitsDiffer { expected, found })) => {
                Err(AcquireError::PermitsDiffer { name: name(), expected, found })
            }
            Some(Err(AcquireFailure::Unknown(source))) => {
                Err(failed(Failure::OutcomeUnknown { operation: operation(), source }))
            }
            Some(Err(AcquireFailure::Refused(source))) => {
                Err(failed(Failure::Refused { operation: operation(), source: source.of_object() }))
            }
            Some(Err(AcquireFailure::NotDurable(source))) => Err(AcquireError::NotDurable { name: name(), source }),
        })
    }

    fn timeout_error(&self, now: Instant) -> AcquireError {
        let name = self.semaphore.keys.name.clone();
        let (contact, timeout) = (self.contact(), self.client.core().settings.response_timeout);
        // After a loss of contact that is longer than the response timeout, the server counts as
        // unavailable.
        let has_contact = now >= self.until && contact > self.entered && now.since(contact) <= timeout;
        // Permits that a pending exchange takes are returned. Only an exchange that was not
        // answered in time leaves the outcome unknown.
        let is_unknown = |since| !has_contact || now.since(since) > timeout;
        if self.status.sent_since().is_some_and(is_unknown) {
            let source = ServerError::unknown("the time ran out before an answer came");
            Failure::OutcomeUnknown { operation: AcquireError::operation(&name), source }.into()
        } else if has_contact {
            AcquireError::TimedOut { name, waited: now.since(self.entered) }
        } else {
            let operation = AcquireError::operation(&name);
            AcquireError::Failed(match self.client.core().no_contact(&self.semaphore.keys.key) {
                source @ ServerError::Unauthorized { .. } => Failure::Unauthorized { operation, source },
                source => Failure::Unavailable { operation, source },
            })
        }
    }

    fn contact(&self) -> Instant {
        self.semaphore.contact(&self.semaphore.state())
    }
}

impl Drop for PendingPermit {
    fn drop(&mut self) {
        if !self.done {
            // An offer from now on finds a closed receiver; an earlier one is returned here.
            self.receiver.close();
            drop(self.status.take());
            self.semaphore.cancel(self.id);
        }
        if let Some(work) = self.inline_loop.take().and_then(|task| task.take()) {
            self.semaphore.registry.spawn_background(work);
        }
    }
}
