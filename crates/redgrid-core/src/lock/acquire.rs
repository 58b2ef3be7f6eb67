//! Acquires a lock: a request enters the queue of its lock, and its caller waits for the answer.

use std::future::{Future, poll_fn};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::OptionFuture;
use redgrid_client::Client;
use redgrid_client::internal::pinned;
use tokio::sync::oneshot;

use super::error::{AcquireError, AcquireFailure};
use super::hold::Hold;
use super::holder_lookup::HolderRead;
pub(super) use super::local_request::LocalRequest;
use super::protocol::{AcquireRequest, Holder, LockKeys, LockProtocol};
use super::table::{Answer, LockId, LockState, State, Table, Waiter};
use crate::clock::Instant;
use crate::observe::{OpContext, OpSpan, Outcome, count};
use crate::service::ClientParts;
use crate::unpolled::{BackgroundTask, InPlace, InlineTask};

/// How long a caller waits for the error of its request after the request's timeout: 20 ms.
pub(crate) const GRACE: Duration = Duration::from_millis(20);

impl Table {
    /// Requests the lock with these keys. If `under` is set, the request converts an existing hold
    /// into a hold of this lock; `under` is the id of the server lease of the existing hold.
    ///
    /// The table owns the request; the returned [`PendingAcquire`] waits for the outcome.
    pub(super) fn enter_from(
        self: &Arc<Self>,
        client: &Client,
        kind: &'static dyn LockProtocol,
        keys: &Arc<LockKeys>,
        options: &AcquireRequest,
        under: Option<u64>,
    ) -> Result<PendingAcquire, AcquireError> {
        let (now, id) = (self.now(), self.number());
        let (answer, receiver) = oneshot::channel();
        // `pending` must be dropped after `state`, because dropping `pending` locks the table.
        let mut pending;
        let mut state = self.state();
        let request = LocalRequest::new(id, state.shared(options), now);
        pending = PendingAcquire {
            kind,
            request: Arc::clone(&request),
            key: LockId::of(kind, keys),
            answer: InPlace { client: client.clone(), receiver, task: None },
            under,
            ready: None,
            is_member: false,
            is_traced: false,
            done: false,
        };
        if state.closed {
            return Err(AcquireFailure::ShuttingDown.into_error(&self.core, &keys.name));
        }
        // A request without a holder and outside of any scope cannot re-enter: skip the search for
        // a hold of the same holder.
        let may_reenter = options.holder.is_some() || Holder::current().is_some();
        if (may_reenter || kind.read_write().is_some())
            && let Some(guard) = self.share_held(&mut state, &mut pending)?
        {
            pending.ready = Some(Ok(Some(guard)));
            return Ok(pending);
        }
        let key = pending.key.clone();
        let State { locks, recent, .. } = &mut *state;
        let lock = locks.entry(key.clone()).or_insert_with(|| Box::new(LockState::new(kind, Arc::clone(keys), now)));
        if lock.is_taken() {
            request.set_busy();
            if options.once {
                pending.ready = Some(Ok(None));
                return Ok(pending);
            }
        }
        let is_alone = lock.is_idle();
        let mut not_before = Instant::MIN;
        if is_alone {
            (lock.continued, lock.yield_plan) = (Instant::MIN, None);
            if !recent.names.is_empty()
                && let Some(last) = recent.take(&key, now)
            {
                if last.handover_ends > now {
                    lock.continued = last.handover_ends;
                } else if !options.once {
                    lock.yield_plan = Some(Box::new(last.plan));
                } else if let Some(yields_until) = last.yields_until(now) {
                    // This process has just released the lock, and other processes are still being
                    // notified. A try-only request that is sent now would always overtake them, so
                    // it is not sent yet.
                    recent.insert(key.clone(), last, now);
                    not_before = yields_until;
                    if last.plan.is_wanted() {
                        locks.remove(&key);
                        pending.ready = Some(Ok(None));
                        return Ok(pending);
                    }
                }
            }
        }
        lock.enqueue(Waiter { request, client: client.clone(), answer });
        if !is_alone {
            self.join_queue(state, &key, now);
        } else if lock.yield_plan.is_some() {
            self.start_loop(&key, lock);
        } else if let Some(attempt) = self.attempt_of(&key, lock, now) {
            lock.request_in_flight = true;
            let table = Arc::clone(self);
            let mut work: BackgroundTask = pinned(|| table.try_for(attempt).map(drop));
            if not_before > now {
                work = self.begin_at(not_before, work);
            }
            let inline_task = InlineTask::observed(&self.unpolled, work);
            lock.inline_task = Some((id, inline_task.clone()));
            pending.answer.task = Some(inline_task);
        }
        Ok(pending)
    }

    fn begin_at(&self, at: Instant, work: BackgroundTask) -> BackgroundTask {
        let clock = self.core.clock.clone();
        Box::pin(async move {
            clock.sleep_until(at).await;
            work.await;
        })
    }
}

/// A pending acquire. Dropping it cancels the request, and releases the grant if there is one
/// already.
pub struct PendingAcquire {
    pub(super) kind: &'static dyn LockProtocol,
    pub(super) request: Arc<LocalRequest>,
    pub(super) key: LockId,
    pub(super) answer: InPlace<Answer>,
    /// Id of the server lease whose hold the request converts; `None` if it converts no hold.
    pub(super) under: Option<u64>,
    ready: Option<Answer>,
    /// Whether the request is part of a multi-key acquire: its caller gets all grants together.
    is_member: bool,
    /// Whether a span records which client the request waits for.
    pub(super) is_traced: bool,
    done: bool,
}

impl PendingAcquire {
    /// Starts an acquire, or returns the error with which it fails at once. All lock-like objects
    /// use this function.
    pub fn start(
        client: &Client,
        kind: &'static dyn LockProtocol,
        keys: &Arc<LockKeys>,
        request: AcquireRequest,
    ) -> Result<PendingAcquire, AcquireError> {
        let entered = client.table().enter_from(client, kind, keys, &request, None);
        // Borrow `entered` instead of moving it: `PendingAcquire` is large, and every acquire
        // creates one.
        if let Err(error) = &entered {
            count::refused(LockId::of(kind, keys).labels(), error.outcome(), Duration::ZERO);
        }
        entered
    }

    /// Waits for the grant, or returns `None` if the request is try-only and the lock is taken.
    ///
    /// # Errors
    ///
    /// [`AcquireError`] describes the state of the lock for each error.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future gives up the position in the queue. If the server grants the request all
    /// the same, the grant is released in the background.
    pub fn outcome(mut self) -> impl Future<Output = Result<Option<HoldGuard>, AcquireError>> + Send + use<> {
        let context = OpContext { labels: self.key.labels(), name: &self.key.keys.name };
        let op = OpSpan::acquire(context, &self.table().core.clock, self.request.entered);
        self.is_traced = op.is_recorded();
        op.instrument(self.wait())
    }

    /// Waits like [`outcome`](PendingAcquire::outcome), for one member of a multi-key acquire.
    ///
    /// The caller has the hold only after [`HoldGuard::accept_member`]. If the guard is released
    /// before that call, the hold is treated as if no caller had ever had it.
    ///
    /// # Errors
    ///
    /// The errors of [`PendingAcquire::outcome`].
    ///
    /// # Cancel safety
    ///
    /// As for [`PendingAcquire::outcome`].
    pub fn member(mut self) -> impl Future<Output = Result<Option<HoldGuard>, AcquireError>> + Send + use<> {
        self.is_member = true;
        self.outcome()
    }

    pub(super) fn table(&self) -> &Arc<Table> {
        self.answer.client.table()
    }

    #[expect(clippy::manual_async_fn, reason = "that one would have room for the request twice")]
    fn wait(mut self) -> impl Future<Output = Result<Option<HoldGuard>, AcquireError>> + Send {
        async move {
            let core = Arc::clone(&self.table().core);
            let contact_timeout = match self.request.options.wait {
                // A request with a timeout has no other limit: it waits until the timeout, even
                // without contact to the server.
                Some(_) => Duration::MAX,
                // The caller waits slightly longer than the request, so that it receives the
                // request's own error.
                None => core.settings.patience() + self.request.options.durability.timeout() + GRACE,
            };
            // Without a connection, a try-only request waits no longer than one response timeout.
            // Once the request has been sent, the usual limit applies.
            let mut is_unsent_try = self.request.options.once && !core.is_connected(self.key.key());
            // An inline request without a timeout always wakes its caller before `contact_timeout`
            // has passed, usually with the answer. So the caller starts a timer only if it is woken
            // without an answer.
            let mut wakes_itself = self.answer.task.is_some() && self.request.options.wait.is_none() && !is_unsent_try;
            let mut contact = self.request.entered;
            let (mut lookup_at, mut lookup) = (self.lookup_at(self.request.entered), None::<HolderRead>);
            let answer = loop {
                if std::mem::take(&mut wakes_itself) {
                    let mut polled = false;
                    let woken = poll_fn(|cx| match self.poll_answer(cx) {
                        Poll::Ready(answer) => Poll::Ready(Some(answer)),
                        // A request that runs in a background task wakes this caller only with an
                        // answer. So the caller needs the timer in case no answer comes.
                        Poll::Pending if std::mem::replace(&mut polled, true) || self.is_driven() => Poll::Ready(None),
                        Poll::Pending => Poll::Pending,
                    });
                    if let Some(answer) = woken.await {
                        break answer;
                    }
                }
                let shortest = core.settings.response_timeout + GRACE;
                let contact_timeout = if is_unsent_try { contact_timeout.min(shortest) } else { contact_timeout };
                let wake = self.request.until.min(contact + contact_timeout).min(lookup_at);
                tokio::select! {
                    biased;
                    answer = poll_fn(|cx| self.poll_answer(cx)) => break answer,
                    Some(holder) = OptionFuture::from(lookup.as_mut()) => {
                        lookup = None;
                        match holder {
                            Some(holder) => OpSpan::record_holder(&holder),
                            None => lookup_at = self.lookup_at(core.clock.now()),
                        }
                    }
                    () = core.clock.wait_until(wake) => {
                        if let Ok(answer) = self.answer.receiver.try_recv() {
                            break answer;
                        }
                        let now = core.clock.now();
                        if now >= lookup_at {
                            lookup = self.holder_lookup(now);
                            lookup_at = if lookup.is_some() { Instant::MAX } else { self.lookup_at(now) };
                        }
                        contact = self.contact(contact);
                        if is_unsent_try && self.request.progress.is_sent() {
                            is_unsent_try = false;
                        } else if now >= self.request.until || now >= contact + contact_timeout {
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

    /// Accepts the grant. Returns `None` if the request must be made again.
    ///
    /// The request must be made again if the caller polled so late that another waiter got the
    /// grant, or if another request of the same holder was granted.
    fn answered(&mut self, answer: Answer) -> Option<Result<Option<HoldGuard>, AcquireError>> {
        let granted = match answer {
            Ok(granted) => granted,
            Err(AcquireFailure::Reenters) => return None,
            Err(failure) => return Some(Err(failure.into_error(&self.table().core, &self.key.keys.name))),
        };
        let accept = if self.is_member { HoldGuard::reserve } else { HoldGuard::accept };
        granted.as_ref().is_none_or(accept).then_some(Ok(granted))
    }

    async fn retry(&mut self) -> Result<Option<HoldGuard>, AcquireError> {
        let now = self.table().now();
        if now >= self.request.until {
            return Err(self.timeout_error(now, self.contact(self.request.entered)));
        }
        let wait = self.request.options.wait.map(|_| self.request.until.since(now));
        let request = AcquireRequest { wait, ..AcquireRequest::clone(&self.request.options) };
        let mut again =
            self.table().enter_from(&self.answer.client, self.kind, &self.key.keys, &request, self.under)?;
        (again.is_member, again.is_traced) = (self.is_member, self.is_traced);
        again.wait().await
    }

    /// Returns false while the caller polls the request inline, otherwise true.
    fn is_driven(&self) -> bool {
        self.answer.task.as_ref().is_none_or(InlineTask::is_over)
    }

    fn poll_answer(&mut self, cx: &mut Context<'_>) -> Poll<Answer> {
        match self.ready.take() {
            Some(answer) => Poll::Ready(answer),
            None => self.answer.poll_unpin(cx).map(|answer| answer.unwrap_or(Err(AcquireFailure::ShuttingDown))),
        }
    }
}

impl Drop for PendingAcquire {
    fn drop(&mut self) {
        if !self.done {
            let table = self.answer.client.table();
            table.cancel(&self.key, &self.request, &mut self.answer.receiver);
            table.release_position(self.kind, &self.key.keys, &self.request);
        }
    }
}

/// A guard of a hold. Dropping the last guard of a hold releases the hold in the background.
#[must_use = "dropping the guard releases the hold"]
pub struct HoldGuard {
    pub(super) client: Client,
    pub(super) hold: Arc<Hold>,
    /// Whether this is the first guard of its hold. If the caller does not poll in time to receive
    /// this guard, the hold is revoked.
    pub(super) is_first: bool,
    pub(super) armed: bool,
}

impl HoldGuard {
    /// Creates the first guard of a hold, for the caller that requested it.
    ///
    /// The mutex of the table must be locked: it protects the number of guards.
    pub(super) fn first(client: Client, hold: Arc<Hold>) -> Self {
        hold.guards.fetch_add(1, Ordering::AcqRel);
        HoldGuard { client, hold, is_first: true, armed: true }
    }

    /// Accepts the offered hold. Returns false if the offer was revoked meanwhile, so that another
    /// waiter could get the lock.
    pub(super) fn accept(&self) -> bool {
        if self.is_first {
            return self.hold.accept();
        }
        self.hold.set_given();
        true
    }

    /// Reserves the offered hold for a multi-key acquire. Returns false if the offer was revoked.
    pub(super) fn reserve(&self) -> bool {
        !self.is_first || self.hold.reserve()
    }

    pub(super) fn table(&self) -> &Arc<Table> {
        self.client.table()
    }
}
