//! A pending request for permits, as its caller sees it.

use std::sync::Arc;
use std::time::Duration;

use redgrid_client::{Client, ServerError};
use tokio::sync::oneshot;

use super::error::AcquireError;
use super::exchange::SemaphoreKeys;
use super::held::Held;
use super::local_semaphore::{AcquireResult, LocalSemaphore, PermitRequest};
use super::permit::Permit;
use super::waiter::{LocalRequest, Waiter};
use crate::author::ClientExt;
use crate::clock::Instant;
use crate::lock::GRACE;
use crate::observe::count::Labels;
use crate::observe::{OpContext, OpSpan};
use crate::service::ClientParts;
use crate::unpolled::InPlace;

/// A pending request for permits.
///
/// Dropping it cancels the request. Permits that were granted meanwhile are returned.
pub struct PendingPermit {
    semaphore: Arc<LocalSemaphore>,
    /// The family of the handle. The semaphore is shared with handles of other families.
    family: &'static str,
    request: Arc<LocalRequest>,
    entered: Instant,
    result: InPlace<AcquireResult>,
    done: bool,
}

impl PendingPermit {
    /// Requests permits, for any kind of semaphore.
    pub fn start(client: &Client, keys: &Arc<SemaphoreKeys>, request: PermitRequest) -> PendingPermit {
        let (entered, registry) = (client.clock().now(), client.semaphores());
        let request = LocalRequest::new(registry.next_number(), request, entered);
        let (result_sender, receiver) = oneshot::channel();
        let waiter = Waiter {
            request: Arc::clone(&request),
            client: client.clone(),
            result_sender,
            may_be_queued: false,
            has_waited: false,
        };
        let (semaphore, handoff) = registry.enqueue(keys, waiter);
        let result = InPlace { client: client.clone(), receiver, task: handoff.into_inline(registry) };
        PendingPermit { semaphore, family: keys.family, request, entered, result, done: false }
    }

    /// Waits for the permits. Returns `None` if the request was try-only and there were too few
    /// permits.
    ///
    /// # Errors
    ///
    /// [`AcquireError`] describes the state on the server after the failure.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future gives up the position in the queue. Permits that the server had granted
    /// are returned in the background.
    pub fn outcome(self) -> impl Future<Output = Result<Option<Permit>, AcquireError>> + Send + use<> {
        let keys = &self.semaphore.keys;
        let labels = Labels { kind: keys.kind(), family: self.family };
        let span = OpSpan::acquire(OpContext { labels, name: &keys.name }, self.result.client.clock(), self.entered);
        span.instrument(self.wait())
    }

    async fn wait(mut self) -> Result<Option<Permit>, AcquireError> {
        let contact_timeout = match self.request.options.wait {
            // If a timeout is set, a loss of contact does not end the wait earlier.
            Some(_) => Duration::MAX,
            None => self.result.client.patience() + self.request.options.durability.timeout() + GRACE,
        };
        // If the server is unreachable, a try-only request gives up earlier than other requests.
        let mut gives_up_early =
            self.request.options.try_only && !self.result.client.core().is_connected(&self.semaphore.keys.key);
        let early_timeout = self.result.client.response_timeout() + GRACE;
        let mut contact = self.entered;
        let result = loop {
            let contact_timeout = if gives_up_early { contact_timeout.min(early_timeout) } else { contact_timeout };
            let wake = self.request.until.min(contact + contact_timeout);
            let clock = self.result.client.clock().clone();
            tokio::select! {
                biased;
                result = &mut self.result => break result,
                () = clock.wait_until(wake) => {
                    if let Ok(result) = self.result.receiver.try_recv() {
                        break Some(result);
                    }
                    let now = clock.now();
                    contact = contact.max(self.contact());
                    if gives_up_early && self.request.sent_since().is_some() {
                        gives_up_early = false;
                        continue;
                    }
                    if now >= self.request.until || now >= contact + contact_timeout {
                        return Err(self.timeout_error(now));
                    }
                }
            }
        };
        self.done = true;
        let now = self.result.client.clock().now();
        match result {
            Some(Ok(true)) => match self.request.take() {
                Some(mut permit) => {
                    let labels = Labels { kind: self.semaphore.keys.kind(), family: self.family };
                    permit.begin_count(Held::new(labels, now));
                    Ok(Some(permit))
                }
                None => Box::pin(self.retry()).await,
            },
            Some(Ok(false)) => Ok(None),
            Some(Err(error)) => Err(error),
            // The waiter was removed from the queue because it had timed out.
            None if now >= self.request.until => Err(self.timeout_error(now)),
            None => Err(self.semaphore.ended()),
        }
    }

    /// Requests the permits again, because the caller did not take the offered permits in time and
    /// they were given up.
    async fn retry(&self) -> Result<Option<Permit>, AcquireError> {
        let now = self.result.client.clock().now();
        if now >= self.request.until {
            return Err(self.timeout_error(now));
        }
        let wait = self.request.options.wait.map(|_| self.request.until.since(now));
        let mut again = PendingPermit::start(
            &self.result.client,
            &self.semaphore.keys,
            PermitRequest { wait, ..self.request.options.clone() },
        );
        (again.entered, again.family) = (self.entered, self.family);
        again.wait().await
    }

    fn timeout_error(&self, now: Instant) -> AcquireError {
        let name = self.semaphore.keys.name.clone();
        let (contact, timeout) = (self.contact(), self.result.client.core().settings.response_timeout);
        // If there has been no contact for longer than the response timeout, the server counts as
        // unavailable.
        let has_contact = now >= self.request.until && contact > self.entered && now.since(contact) <= timeout;
        // An exchange in flight may still take permits for this request. When that exchange is
        // answered, these permits are returned. So the outcome counts as unknown only if there is
        // no contact, or if the exchange has been in flight for longer than the response timeout.
        let is_unknown = |since| !has_contact || now.since(since) > timeout;
        if self.request.sent_since().is_some_and(is_unknown) {
            let source = ServerError::unknown("the time ran out before an answer came");
            AcquireError::of(&name, source)
        } else if has_contact {
            AcquireError::TimedOut { name, waited: now.since(self.entered) }
        } else {
            let refusal = self.semaphore.state().underway.as_ref().and_then(|progress| progress.refusal());
            let no_contact = || self.result.client.core().no_contact(&self.semaphore.keys.key);
            AcquireError::of(&name, refusal.unwrap_or_else(no_contact))
        }
    }

    fn contact(&self) -> Instant {
        self.semaphore.contact(&self.semaphore.state())
    }
}

impl Drop for PendingPermit {
    fn drop(&mut self) {
        if !self.done {
            // If the grant arrives after this drop, it finds the receiver closed, and its permits
            // become idle. If the grant arrived before, it is dropped with the receiver, and the
            // drop releases its permits.
            self.result.receiver.close();
            self.semaphore.cancel(self.request.id);
        }
    }
}
