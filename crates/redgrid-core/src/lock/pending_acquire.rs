//! A pending acquire, as its caller sees it.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::oneshot;

use super::attempt::failure_of;
use super::error::AcquireError;
use super::guard::HoldGuard;
use super::inline_task::InlineTask;
use super::lock_state::LockId;
use super::protocol::{LockKeys, LockProtocol};
use super::queue_position::QueuePositionView;
use super::table::Table;
use super::terms::AcquireRequest;
use super::waiter::{AcquireFailure, Answer, RequestStatus};
use crate::clock::Instant;
use crate::connection::{Client, Core, Progress};
use crate::error::ServerError;
use crate::failure::Failure;
use crate::name::Name;
use crate::observe::{OpContext, OpSpan};
/// How much later than the request its caller gives up: 20 ms.
pub(crate) const GRACE: Duration = Duration::from_millis(20);

/// Returns the failure of a request about `key` that timed out without a reply.
pub(super) fn no_answer(core: &Core, progress: &Progress, key: &[u8]) -> AcquireFailure {
    match progress.is_sent() {
        true => AcquireFailure::Unknown(ServerError::unknown("the time ran out before an answer came")),
        false => match core.no_contact(key) {
            refused @ ServerError::Unauthorized { .. } => AcquireFailure::Unauthorized(refused),
            other => AcquireFailure::Unavailable(other),
        },
    }
}

/// Converts a failed acquire of `name` into its error.
pub(super) fn into_acquire_error(core: &Core, failure: AcquireFailure, name: Name) -> AcquireError {
    of_failure(failure, name, || core.life.why())
}

/// Like `into_acquire_error`; `ended` returns why the client has shut down.
fn of_failure(failure: AcquireFailure, name: Name, ended: impl FnOnce() -> ServerError) -> AcquireError {
    let operation = AcquireError::operation(&name);
    AcquireError::Failed(match failure {
        AcquireFailure::AlreadyHeld | AcquireFailure::Reenters => return AcquireError::AlreadyHeld { name },
        AcquireFailure::NotDurable(source) => return AcquireError::NotDurable { name, source },
        AcquireFailure::Unavailable(source) => Failure::Unavailable { operation, source },
        AcquireFailure::Unknown(source) => Failure::OutcomeUnknown { operation, source },
        AcquireFailure::Refused(source) => Failure::Refused { operation, source: source.of_object() },
        AcquireFailure::Unauthorized(source) => Failure::Unauthorized { operation, source },
        AcquireFailure::ShuttingDown => match ended() {
            ServerError::ShuttingDown => Failure::ShuttingDown { operation },
            source => Failure::Unavailable { operation, source },
        },
    })
}

impl AcquireError {
    /// Converts a failed request about `name` into the error of its acquire.
    pub fn of_request(name: Name, error: ServerError) -> Self {
        of_failure(failure_of(error), name, || ServerError::ShuttingDown)
    }
}

/// A pending acquire. Dropping it cancels the request and releases what was granted meanwhile.
pub struct PendingAcquire {
    pub(super) table: Arc<Table>,
    /// Also keeps the client alive during the wait.
    pub(super) client: Client,
    pub(super) kind: &'static dyn LockProtocol,
    pub(super) request: Arc<AcquireRequest>,
    pub(super) keys: Arc<LockKeys>,
    pub(super) key: LockId,
    pub(super) id: u64,
    pub(super) entered: Instant,
    pub(super) until: Instant,
    pub(super) receiver: oneshot::Receiver<Answer>,
    pub(super) status: Arc<RequestStatus>,
    /// Holder field of the hold that the request converts from.
    pub(super) under: Option<Bytes>,
    pub(super) inline_task: Option<InlineTask>,
    pub(super) ready: Option<Answer>,
    /// Part of a multi-key acquire: the grant reaches the caller only when all members are granted.
    pub(super) is_member: bool,
    pub(super) done: bool,
}

impl PendingAcquire {
    /// Waits for the grant, or returns `None` if the request is try-only and the lock is taken.
    ///
    /// # Errors
    ///
    /// [`AcquireError`] describes the state of the lock for each error.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future gives up the position in the queue. A grant of the server is released in
    /// the background.
    pub fn outcome(self) -> impl Future<Output = Result<Option<HoldGuard>, AcquireError>> + Send + use<> {
        let context = OpContext { kind: self.kind.name(), name: &self.keys.name };
        let op = OpSpan::acquire(context, &self.table.core.clock, self.entered);
        op.instrument(self.wait())
    }

    /// Waits like [`outcome`](PendingAcquire::outcome), for one member of a multi-key acquire.
    ///
    /// The grant is handed to the caller only by [`MultiGrant::commit`]. If it is released before,
    /// it counts as never held.
    ///
    /// # Errors
    ///
    /// The errors of [`PendingAcquire::outcome`].
    ///
    /// # Cancel safety
    ///
    /// That of [`PendingAcquire::outcome`].
    ///
    /// [`MultiGrant::commit`]: super::MultiGrant::commit
    pub fn member(mut self) -> impl Future<Output = Result<Option<HoldGuard>, AcquireError>> + Send + use<> {
        self.is_member = true;
        self.outcome()
    }

    /// Returns a view of the position in the server's queue, for lock kinds that have one.
    pub fn queue_position(&self) -> QueuePositionView {
        QueuePositionView::new(self.table.core.id.clone(), self.id, &self.status)
    }

    #[expect(clippy::manual_async_fn, reason = "that one would have room for the request twice")]
    fn wait(mut self) -> impl Future<Output = Result<Option<HoldGuard>, AcquireError>> + Send {
        async move {
            let patience = match self.request.wait {
                // A request with a timeout waits that long, even without contact to the server.
                Some(_) => Duration::MAX,
                // Slightly longer than the request itself, so that its own error arrives first.
                None => self.table.core.settings.patience() + self.request.durability.timeout() + GRACE,
            };
            let mut contact = self.entered;
            // An inline request without a timeout is woken by its own reply before `patience` ends.
            // Most are answered by then and need no timer.
            let mut asks_himself = self.inline_task.is_some() && self.request.wait.is_none();
            // A try-only request on a lost connection waits at most one response timeout. With a
            // live connection the request was sent.
            let mut looks = self.request.once && !self.table.core.is_connected(&self.keys.key);
            asks_himself &= !looks;
            let shortest = self.table.core.settings.response_timeout + GRACE;
            let answer = loop {
                if asks_himself {
                    let mut polled = false;
                    let woken = poll_fn(|cx| match self.poll_answer(cx) {
                        Poll::Ready(answer) => Poll::Ready(Some(answer)),
                        // Once the request runs in a background task, a reply that is not the
                        // answer does not wake this caller.
                        Poll::Pending if std::mem::replace(&mut polled, true) || self.is_driven() => Poll::Ready(None),
                        Poll::Pending => Poll::Pending,
                    });
                    if let Some(answer) = woken.await {
                        break answer;
                    }
                    asks_himself = false;
                }
                let clock = self.table.core.clock.clone();
                let patience = if looks { patience.min(shortest) } else { patience };
                let wake = self.until.min(contact + patience);
                tokio::select! {
                    biased;
                    answer = poll_fn(|cx| self.poll_answer(cx)) => break answer,
                    () = clock.wait_until(wake) => {
                        if let Ok(answer) = self.receiver.try_recv() {
                            break answer;
                        }
                        let now = clock.now();
                        contact = self.contact(contact);
                        if looks && self.status.progress.is_sent() {
                            looks = false;
                            continue;
                        }
                        if now >= self.until || now >= contact + patience {
                            return Err(self.timeout_error(now, contact));
                        }
                    }
                }
            };
            self.done = true;
            match self.answered(answer) {
                Some(outcome) => outcome,
                None => Box::pin(self.retry()).await,
            }
        }
    }

    /// Accepts the grant. Returns `None` if the request must be sent again.
    ///
    /// That happens if the unpolled grant went to another waiter, or if the holder was granted the
    /// lock by another request.
    fn answered(&mut self, answer: Answer) -> Option<Result<Option<HoldGuard>, AcquireError>> {
        let granted = match answer {
            Ok(granted) => granted,
            Err(AcquireFailure::Reenters) => return None,
            Err(failure) => return Some(Err(self.error(failure))),
        };
        granted
            .as_ref()
            .is_none_or(if self.is_member { HoldGuard::reserve } else { HoldGuard::accept })
            .then_some(Ok(granted))
    }

    /// Sends the request again.
    async fn retry(&mut self) -> Result<Option<HoldGuard>, AcquireError> {
        let now = self.table.now();
        if now >= self.until {
            return Err(self.timeout_error(now, self.contact(self.entered)));
        }
        let wait = self.request.wait.map(|_| self.until.since(now));
        let request = AcquireRequest { wait, ..AcquireRequest::clone(&self.request) };
        let mut again = self.table.enter_from(&self.client, self.kind, &self.keys, request, self.under.clone())?;
        again.is_member = self.is_member;
        again.wait().await
    }

    /// Returns whether the request is not polled inline, or no longer.
    fn is_driven(&self) -> bool {
        self.inline_task.as_ref().is_none_or(InlineTask::is_over)
    }

    fn poll_answer(&mut self, cx: &mut Context<'_>) -> Poll<Answer> {
        if let Some(answer) = self.ready.take() {
            return Poll::Ready(answer);
        }
        if let Some(inline_task) = &self.inline_task
            && inline_task.poll(cx)
        {
            // Do not register with the receiver: an answer of the inline request would wake the
            // task that polls it.
            return match self.receiver.try_recv() {
                Ok(answer) => Poll::Ready(answer),
                Err(oneshot::error::TryRecvError::Empty) => Poll::Pending,
                Err(oneshot::error::TryRecvError::Closed) => Poll::Ready(Err(AcquireFailure::ShuttingDown)),
            };
        }
        Pin::new(&mut self.receiver).poll(cx).map(|answer| answer.unwrap_or(Err(AcquireFailure::ShuttingDown)))
    }

    /// Returns the last contact with the server about this key, no earlier than `known`.
    fn contact(&self, known: Instant) -> Instant {
        self.table.contact(&self.key).map_or(known, |contact| contact.max(known))
    }

    /// Returns the error at the end of the wait.
    ///
    /// That the lock is held elsewhere is known only while the server answers. If contact was lost
    /// for longer than the response timeout, the server counts as unavailable.
    fn timeout_error(&self, now: Instant, contact: Instant) -> AcquireError {
        let name = self.keys.name.clone();
        let is_current = now.since(contact) <= self.table.core.settings.response_timeout;
        if self.status.may_be_executed(now) {
            let source = ServerError::unknown("a request without a reply may still be executed");
            Failure::OutcomeUnknown { operation: AcquireError::operation(&name), source }.into()
        } else if self.status.is_busy() && now >= self.until && is_current {
            let by_this_client = self.table.holds_key(self.kind, &self.keys);
            AcquireError::TimedOut { name, waited: now.since(self.entered), by_this_client }
        } else {
            let core = &self.table.core;
            into_acquire_error(core, no_answer(core, &self.status.progress, &self.keys.key), name)
        }
    }

    fn error(&self, failure: AcquireFailure) -> AcquireError {
        into_acquire_error(&self.table.core, failure, self.keys.name.clone())
    }
}

impl Drop for PendingAcquire {
    fn drop(&mut self) {
        if !self.done {
            self.table.cancel(&self.key, self.id, &mut self.receiver);
            if self.kind.queue().is_some() {
                self.table.release_position(self.kind, &self.keys, (self.id, &self.status), &self.request);
            }
        }
        // If a shutdown answered, the inline request may still be in flight.
        if let Some(work) = self.inline_task.take().and_then(|inline_task| inline_task.take()) {
            self.table.spawn_background(work);
        }
    }
}
