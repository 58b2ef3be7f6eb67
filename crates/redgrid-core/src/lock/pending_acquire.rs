//! A request under way, as its caller sees it.

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
use super::lock_state::{AcquireFailure, Answer, LockId, RequestStatus};
use super::protocol::{LockKeys, LockProtocol};
use super::queue_position::QueuePositionView;
use super::table::Table;
use super::terms::AcquireRequest;
use crate::clock::Instant;
use crate::connection::{Client, Core, Progress};
use crate::error::ServerError;
use crate::name::Name;
use crate::observe::{About, Observed};

/// How much later than an attempt its caller gives up: 20 ms.
pub(crate) const GRACE: Duration = Duration::from_millis(20);

/// The failure of a request about `key` whose time is over without an answer.
pub(super) fn no_answer(core: &Core, progress: &Progress, key: &[u8]) -> AcquireFailure {
    match progress.is_sent() {
        true => AcquireFailure::Unknown(ServerError::unknown("the time ran out before an answer came")),
        false => match core.no_contact(key) {
            refused @ ServerError::Unauthorized { .. } => AcquireFailure::Unauthorized(refused),
            other => AcquireFailure::Unavailable(other),
        },
    }
}

/// The error of an acquire of `name` that failed.
pub(super) fn into_acquire_error(core: &Core, failure: AcquireFailure, name: Name) -> AcquireError {
    of_failure(failure, name, || core.ended.why())
}

/// The same; `ended` says why the client has ended.
fn of_failure(failure: AcquireFailure, name: Name, ended: impl FnOnce() -> ServerError) -> AcquireError {
    match failure {
        AcquireFailure::Unavailable(source) => AcquireError::Unavailable { name, source },
        AcquireFailure::Unknown(source) => AcquireError::OutcomeUnknown { name, source },
        AcquireFailure::Refused(source) => AcquireError::Refused { name, source: source.of_object() },
        AcquireFailure::AlreadyHeld | AcquireFailure::Reenters => AcquireError::AlreadyHeld { name },
        AcquireFailure::NotDurable(source) => AcquireError::NotDurable { name, source },
        AcquireFailure::Unauthorized(source) => AcquireError::Unauthorized { name, source },
        AcquireFailure::ShuttingDown => match ended() {
            ServerError::ShuttingDown => AcquireError::ShuttingDown { name },
            source => AcquireError::Unavailable { name, source },
        },
    }
}

impl AcquireError {
    /// What a failed request about a name means for its caller.
    pub fn of_request(name: Name, error: ServerError) -> Self {
        of_failure(failure_of(error), name, || ServerError::ShuttingDown)
    }
}

/// A request under way. Dropping it leaves the queue; what was granted meanwhile is given back.
pub struct PendingAcquire {
    pub(super) table: Arc<Table>,
    /// Also keeps the client alive while somebody waits.
    pub(super) client: Client,
    pub(super) kind: &'static dyn LockProtocol,
    pub(super) wish: Arc<AcquireRequest>,
    pub(super) target: Arc<LockKeys>,
    pub(super) key: LockId,
    pub(super) id: u64,
    pub(super) entered: Instant,
    pub(super) until: Instant,
    pub(super) receiver: oneshot::Receiver<Answer>,
    pub(super) seen: Arc<RequestStatus>,
    /// The holder field under which it asks.
    pub(super) under: Option<Bytes>,
    pub(super) flight: Option<InlineTask>,
    pub(super) ready: Option<Answer>,
    /// Asked for as one of several: what is granted is given to nobody before all of them are there.
    pub(super) is_member: bool,
    pub(super) done: bool,
}

impl PendingAcquire {
    /// Waits for the outcome: a grant, or `None` where the request was for one look and the name is taken.
    ///
    /// # Errors
    ///
    /// [`AcquireError`] says what is true then.
    ///
    /// # Cancel safety
    ///
    /// Dropping it gives up the place in the queue; what the server had granted goes back in the background.
    pub fn outcome(self) -> impl Future<Output = Result<Option<HoldGuard>, AcquireError>> + Send + use<> {
        let about = About { kind: self.kind.name(), name: &self.target.name };
        let observed = Observed::acquire(about, &self.table.core.clock, self.entered);
        observed.around(self.wait())
    }

    /// The same for one of several that are wanted together: it is given to nobody before [`Bundle::give`], and goes back
    /// as if it had not been had until then.
    ///
    /// # Errors
    ///
    /// As [`Ticket::outcome`].
    ///
    /// # Cancel safety
    ///
    /// As [`Ticket::outcome`].
    ///
    /// [`Bundle::give`]: super::Bundle::give
    pub fn member(mut self) -> impl Future<Output = Result<Option<HoldGuard>, AcquireError>> + Send + use<> {
        self.is_member = true;
        self.outcome()
    }

    /// Its place in the server's queue, for kinds that have one.
    pub fn queue_position(&self) -> QueuePositionView {
        QueuePositionView::new(self.table.core.id.clone(), self.id, &self.seen)
    }

    #[expect(clippy::manual_async_fn, reason = "that one would have room for the ticket twice")]
    fn wait(mut self) -> impl Future<Output = Result<Option<HoldGuard>, AcquireError>> + Send {
        async move {
            let patience = match self.wish.wait {
                // Who set a bound waits up to it, without contact too.
                Some(_) => Duration::MAX,
                // A little more than an attempt has, so that its own words come first.
                None => self.table.core.settings.patience() + self.wish.durability.timeout() + GRACE,
            };
            let mut contact = self.entered;
            // Who asks by himself, for as long as it takes, is woken by his exchange before his patience is over: most have their answer
            // by then, and need no timer of their own.
            let mut asks_himself = self.flight.is_some() && self.wish.wait.is_none();
            // One look is not worth waiting for a server as long as a call may. Where the
            // connection is up, the request has left.
            let mut looks = self.wish.once && !self.table.core.is_connected(&self.target.key);
            asks_himself &= !looks;
            let shortest = self.table.core.settings.timeout + GRACE;
            let answer = loop {
                if asks_himself {
                    let mut polled = false;
                    let woken = poll_fn(|cx| match self.poll_answer(cx) {
                        Poll::Ready(answer) => Poll::Ready(Some(answer)),
                        // In the hands of a task, an answer that is none for him wakes nobody here.
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
                        if looks && self.seen.progress.is_sent() {
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

    /// Takes what was granted; `None` if it is to be asked for anew: nobody polled for so long that it was given to others, or
    /// its holder has it by another request.
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

    /// Asks once more.
    async fn retry(&mut self) -> Result<Option<HoldGuard>, AcquireError> {
        let now = self.table.now();
        if now >= self.until {
            return Err(self.timeout_error(now, self.contact(self.entered)));
        }
        let wait = self.wish.wait.map(|_| self.until.since(now));
        let wish = AcquireRequest { wait, ..AcquireRequest::clone(&self.wish) };
        let mut again = self.table.enter_from(&self.client, self.kind, &self.target, wish, self.under.clone())?;
        again.is_member = self.is_member;
        again.wait().await
    }

    /// Whether its own exchange is not, or no longer, in its hands.
    fn is_driven(&self) -> bool {
        self.flight.as_ref().is_none_or(InlineTask::is_over)
    }

    fn poll_answer(&mut self, cx: &mut Context<'_>) -> Poll<Answer> {
        if let Some(answer) = self.ready.take() {
            return Poll::Ready(answer);
        }
        if let Some(flight) = &self.flight
            && flight.poll(cx)
        {
            // Not registered with the receiver: an answer from its own exchange would wake the task that just polls it.
            return match self.receiver.try_recv() {
                Ok(answer) => Poll::Ready(answer),
                Err(oneshot::error::TryRecvError::Empty) => Poll::Pending,
                Err(oneshot::error::TryRecvError::Closed) => Poll::Ready(Err(AcquireFailure::ShuttingDown)),
            };
        }
        Pin::new(&mut self.receiver).poll(cx).map(|answer| answer.unwrap_or(Err(AcquireFailure::ShuttingDown)))
    }

    /// The last contact with the server about this name, no earlier than `known`.
    fn contact(&self, known: Instant) -> Instant {
        self.table.contact(&self.key).map_or(known, |contact| contact.max(known))
    }

    /// The error at the end of the wait. That others hold the name is known only while the server
    /// answers: after a loss of contact that is longer than the response timeout, the server counts
    /// as unavailable.
    fn timeout_error(&self, now: Instant, contact: Instant) -> AcquireError {
        let name = self.target.name.clone();
        let is_current = now.since(contact) <= self.table.core.settings.timeout;
        if self.seen.may_be_executed(now) {
            let source = ServerError::unknown("a request without an answer may still be carried out");
            AcquireError::OutcomeUnknown { name, source }
        } else if self.seen.is_busy() && now >= self.until && is_current {
            let by_this_client = self.table.holds_key(self.kind, &self.target);
            AcquireError::TimedOut { name, waited: now.since(self.entered), by_this_client }
        } else {
            let core = &self.table.core;
            into_acquire_error(core, no_answer(core, &self.seen.progress, &self.target.key), name)
        }
    }

    fn error(&self, failure: AcquireFailure) -> AcquireError {
        into_acquire_error(&self.table.core, failure, self.target.name.clone())
    }
}

impl Drop for PendingAcquire {
    fn drop(&mut self) {
        if !self.done {
            self.table.cancel(&self.key, self.id, &mut self.receiver);
            if self.kind.queue().is_some() {
                self.table.release_position(self.kind, &self.target, (self.id, &self.seen), &self.wish);
            }
        }
        // Answered by others (a shutdown), its own exchange may still be under way.
        if let Some(work) = self.flight.take().and_then(|flight| flight.take()) {
            self.table.spawn_background(work);
        }
    }
}
