//! One acquire request: it is sent, and its grant becomes a server lease with a first hold.
//!
//! Replies other than grants are handled in `not_granted`.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use redgrid_client::internal::{RequestOutcome, RetryPolicy};
use redgrid_client::{NodeId, ServerError};
use smallvec::smallvec;

use super::acquire::{HoldGuard, LocalRequest};
use super::error::{AcquireFailure, LostReason};
use super::fair::ServerQueue;
use super::hold::{Hold, ServerLease};
use super::protocol::{AcquireReply, AcquireRequest, HoldArgs, LockProtocol, parse_reply};
use super::shared::AcquireContext;
use super::table::{Answers, Busy, LockId, LockState, Schedule, State, Table, Waiter, send};
use crate::clock::Instant;
use crate::config::Durability;
use crate::lease::{deadline, next_renewal};

/// One acquire attempt: its waiter, and the parameters of its request.
pub(super) struct Attempt {
    pub(super) key: LockId,
    pub(super) protocol: &'static dyn LockProtocol,
    pub(super) request: Arc<LocalRequest>,
    pub(super) until: Instant,
    pub(super) lease: Duration,
    handover_window: Duration,
    /// End of the hand-over window that the grant continues; in the past if the grant begins a new
    /// window.
    continued: Instant,
    /// For readers and writers: the hold that the request converts, and since when the request
    /// waits.
    pub(super) context: Option<AcquireContext>,
}

impl Attempt {
    /// Returns the server queue for the attempt's position; `None` for try-only requests, and for
    /// lock kinds without a server queue.
    pub(super) fn queue(&self) -> Option<&'static dyn ServerQueue> {
        self.protocol.queue().filter(|_| !self.request.options.once)
    }
}

/// A grant of the server, before it becomes a server lease.
pub(super) struct GrantReply {
    pub(super) id: u64,
    /// The token of the grant. For most lock kinds it is the server's time of the grant, in
    /// microseconds.
    pub(super) token: u64,
    pub(super) sent: Instant,
    pub(super) received: Instant,
    pub(super) retransmission_ends: Option<Instant>,
    /// The lease on the server.
    pub(super) lease: Duration,
    pub(super) durability: Durability,
    /// Until when tasks of this process can hand the lock over without a request.
    pub(super) handover_ends: Instant,
    pub(super) node: NodeId,
}

impl GrantReply {
    pub(super) fn by(
        outcome: &RequestOutcome,
        id: u64,
        token: u64,
        (lease, durability): (Duration, Durability),
        handover_ends: Instant,
    ) -> GrantReply {
        let RequestOutcome { sent, received, retransmission_ends, .. } = *outcome;
        let node = outcome.by.id().clone();
        GrantReply { id, token, sent, received, retransmission_ends, lease, durability, handover_ends, node }
    }
}

/// Reason why a grant of the server was not installed.
pub(super) enum NotInstalled {
    /// Another client took the lock over before this process installed the grant.
    Superseded,
    /// The client is shut down.
    Closed,
}

impl Table {
    /// Builds the attempt of the first waiter that has a live future and has not timed out.
    pub(super) fn attempt_of(&self, key: &LockId, lock: &mut LockState, now: Instant) -> Option<Attempt> {
        let first = lock.queue.iter().position(|waiter| waiter.is_live(now))?;
        self.attempt_for(key, lock, first, now)
    }

    pub(super) fn attempt_for(&self, key: &LockId, lock: &mut LockState, at: usize, now: Instant) -> Option<Attempt> {
        let waiter = lock.queue.get(at)?;
        let spare = self.extra_lease(lock.protocol, key);
        // A request with a timeout waits until the timeout, even if there is no contact with the
        // server.
        let contact_timeout =
            if waiter.request.options.wait.is_some() { Duration::MAX } else { self.core.settings.patience() };
        Some(Attempt {
            key: key.clone(),
            protocol: lock.protocol,
            request: Arc::clone(&waiter.request),
            until: waiter.request.until.min(now + contact_timeout),
            lease: waiter.request.options.server_lease(spare),
            handover_window: if lock.protocol.hands_over_locally() { spare } else { Duration::ZERO },
            continued: std::mem::take(&mut lock.continued),
            context: lock
                .protocol
                .read_write()
                .map(|_| self.acquire_context(lock.shared.as_deref(), &waiter.request.options)),
        })
    }

    /// Sends the request and delivers the result to all waiters that the result concerns.
    ///
    /// The request is sent a second time if the server rejected the first one as too late. The
    /// request is also repeated after a grant whose durability was not confirmed because of a
    /// temporary error. If others hold the lock, returns how much longer the lock stays taken.
    #[expect(clippy::manual_async_fn, reason = "that one would have room for the attempt twice")]
    pub(super) fn try_for(self: Arc<Self>, attempt: Attempt) -> impl Future<Output = Option<Duration>> + Send {
        async move {
            let mut was_late = false;
            loop {
                let (id, outcome) = self.send(&attempt).await;
                let token = match parse_reply(&outcome) {
                    AcquireReply::Granted { token, .. } => token,
                    reply => match self.not_granted(&attempt, id, &outcome, reply, &mut was_late) {
                        ControlFlow::Break(left) => return left,
                        ControlFlow::Continue(()) => continue,
                    },
                };
                let durability = attempt.request.options.durability;
                if let Err(error) = self.core.commit(&outcome, durability, attempt.key.key()).await {
                    if Box::pin(self.not_durable(&attempt, id, &outcome, error)).await {
                        continue;
                    }
                    return None;
                }
                return self.granted(&attempt, id, token, &outcome);
            }
        }
    }

    /// Sends the request. Returns the number in the request's holder field, and the reply.
    async fn send(&self, attempt: &Attempt) -> (u64, RequestOutcome) {
        let queue = attempt.queue();
        let id = queue.map_or_else(|| self.number(), |_| attempt.request.position.get().number);
        let field = self.core.field(id);
        let claim = HoldArgs { target: &attempt.key.keys, field: &field, lease: attempt.lease };
        let request = match (queue, attempt.protocol.read_write().zip(attempt.context.as_ref())) {
            (None, None) => attempt.protocol.acquire(claim),
            (None, Some((mode, context))) => mode.enter(claim, context),
            (Some(queue), _) => {
                attempt.request.position.mark_requested();
                queue.enter(claim, self.position_ttl())
            }
        };
        (id, self.core.exchange(request, attempt.until, RetryPolicy::Retries, &attempt.request.progress).await)
    }

    /// Installs a grant. The grant goes to the waiter that requested it or, if that waiter has
    /// left, to the next waiter. If no waiter can use the grant, it is released.
    ///
    /// Returns `None` if the attempt is finished. Returns `Some(Duration::ZERO)` if another client
    /// took the lock over before this process installed the grant. `try_for` returns this value to
    /// the wait loop, which then tries again at once: it is not known how long the lock stays
    /// taken.
    fn granted(self: &Arc<Self>, attempt: &Attempt, id: u64, token: u64, outcome: &RequestOutcome) -> Option<Duration> {
        let (sent, key, in_queue) = (outcome.sent, &attempt.key, attempt.queue().is_some());
        let why = || AcquireFailure::Unknown(ServerError::unknown("the reply arrived after the end of the lease"));
        if self.now() >= deadline(sent, attempt.lease) {
            // The lease is over: a guard would hold nothing. So release the grant and report a
            // failure.
            self.schedule_cleanup_of_retransmissions(attempt, id, outcome, true);
            self.failed(attempt, why());
            return None;
        }
        let is_continued = attempt.continued > Instant::MIN;
        let handover_ends = if is_continued { attempt.continued } else { sent + attempt.handover_window };
        let mut granted =
            GrantReply::by(outcome, id, token, (attempt.lease, attempt.request.options.durability), handover_ends);
        if in_queue {
            // Besides retransmissions of this request, an earlier request for the same queue
            // position can execute late.
            let unsure = Some(attempt.request.may_execute_until()).filter(|until| *until > sent);
            granted.retransmission_ends = granted.retransmission_ends.max(unsure);
        }
        let server_lease = Arc::new(ServerLease::new(granted, key, attempt.protocol, self.core.clock.clone()));
        let mut state = self.state();
        let (lock, schedule) = match self.install_grant(&mut state, key, &server_lease, sent) {
            Ok(installed) => installed,
            Err(NotInstalled::Closed) => {
                state.locks.get_mut(key).into_iter().for_each(|lock| lock.request_in_flight = false);
                state.remove_if_idle(key);
                drop(state);
                self.leave_until(&server_lease, Instant::MIN);
                return None;
            }
            Err(NotInstalled::Superseded) => {
                drop(state);
                self.superseded(attempt, &server_lease);
                return Some(Duration::ZERO);
            }
        };
        let now = self.now();
        lock.request_in_flight = false;
        lock.completed(attempt.request.id);
        if in_queue {
            attempt.request.position.left();
        }
        // With the grant, the server has withdrawn this client's announcement of a waiting writer,
        // if there was one.
        lock.shared.iter_mut().for_each(|shared| shared.stops_waiting());
        let requester =
            lock.queue.iter().position(|waiter| waiter.request.id == attempt.request.id && waiter.is_live(now));
        let mut requester = requester.and_then(|at| lock.queue.remove(at));
        let mut answers = Answers::new();
        if now >= deadline(sent, attempt.request.options.lease.duration()) {
            // The lease that the waiter requested is over, so its request fails. The lease on the
            // server is not over: another waiter can use it.
            answers.extend(requester.take().map(|requester| (requester.answer, Err(why()))));
        }
        if !lock.queue.is_empty() {
            answers.extend(lock.reject_others(requester.as_ref(), now));
        }
        let passed_on = match requester {
            Some(requester) if attempt.protocol.is_shared() => {
                let others = std::mem::take(&mut lock.queue);
                self.share((schedule, lock), &server_lease, (sent, now), std::iter::once(requester).chain(others))
            }
            Some(requester) => self.admit((schedule, lock), &server_lease, (sent, now), requester),
            None if in_queue => {
                // The server granted the lock to the queue position of a waiter that has left. No
                // other waiter is allowed to use the grant.
                self.release_unclaimed_grant(lock, &server_lease, Instant::MIN);
                Answers::new()
            }
            None => self.hand_over_next(&mut state, key, None, now),
        };
        if answers.is_empty() {
            answers = passed_on;
        } else {
            answers.extend(passed_on);
        }
        self.go_on(&mut state, key);
        drop(state);
        send(answers);
        None
    }

    /// Installs a grant of the server as the current server lease of its lock. The acquire request
    /// was sent at `sent`. Returns the state of the lock, with the new server lease.
    pub(super) fn install_grant<'a>(
        self: &Arc<Self>,
        state: &'a mut State,
        key: &LockId,
        server_lease: &Arc<ServerLease>,
        sent: Instant,
    ) -> Result<(&'a mut LockState, &'a mut Schedule), NotInstalled> {
        if state.closed {
            return Err(NotInstalled::Closed);
        }
        let State { locks, schedule, forced, .. } = state;
        let is_forced = !forced.is_empty() && forced.remove(&server_lease.id).is_some();
        let Some(lock) = locks.get_mut(key) else { return Err(NotInstalled::Closed) };
        // `lock.last` describes the grant that was installed before the new grant. If the new
        // grant's request was sent before that earlier grant arrived, the server may have executed
        // the two requests in either order. Only then does a lower token show that the new grant is
        // the older one on the server.
        let (token, known) = lock.last;
        if is_forced || (sent <= known && server_lease.token < token) {
            return Err(NotInstalled::Superseded);
        }
        lock.last = (server_lease.token, server_lease.granted);
        lock.contact = server_lease.granted;
        lock.contended = false;
        lock.yield_plan = None;
        if lock.local_pass.is_some() {
            self.begin_local_pass(lock);
        }
        // If an operation is in flight, it belongs to the former server lease: its outcome is
        // ignored.
        lock.busy = Busy::No;
        let former = lock.server_lease.replace(Arc::clone(server_lease));
        if let Some(former) = former.filter(|former| former.end()) {
            // The former server lease was not marked as ended until now: this process has not
            // noticed its loss, or has taken the lock over from itself.
            schedule.remove(former.id);
            let mut holds = std::mem::take(&mut lock.holds);
            holds.retain(|hold| hold.mark_ended(Some(LostReason::Forced)));
            self.note_lost(server_lease, LostReason::Forced, holds.len());
            for hold in &holds {
                hold.notify_ended();
                lock.remember_lost(hold);
            }
        }
        Ok((lock, schedule))
    }

    /// Gives a hold of the server lease to a waiter, which the caller has removed from the queue.
    ///
    /// Other requests of the same holder are also removed from the queue and answered.
    pub(super) fn admit(
        self: &Arc<Self>,
        (schedule, lock): (&mut Schedule, &mut LockState),
        server_lease: &Arc<ServerLease>,
        (from, now): (Instant, Instant),
        waiter: Waiter,
    ) -> Answers {
        let holder = waiter.request.options.holder;
        let same = if holder.is_some() { lock.take_all_of(holder) } else { Vec::new() };
        if lock.protocol.queue().is_some() {
            // Release unused queue positions: the waiter may have been admitted through the
            // position of another request. A position that was used has left the queue, and is
            // skipped.
            std::iter::once(&waiter).chain(&same).for_each(|waiter| self.release_position_of(lock, &waiter.request));
        }
        self.wait_ended(lock, &waiter.request, || now);
        let hold = self.create_hold((schedule, lock), server_lease, (from, now), Arc::clone(&waiter.request.options));
        lock.shrink_if_idle();
        let mut answers: Answers = smallvec![(waiter.answer, Ok(Some(HoldGuard::first(waiter.client, hold))))];
        // The holder's other requests are answered with an error. After `Reenters`, the caller's
        // next poll makes the request again, which then re-enters the hold. A request that must
        // not re-enter fails.
        let again = |waiter: Waiter| match waiter.request.options.reenters {
            true => (waiter.answer, Err(AcquireFailure::Reenters)),
            false => (waiter.answer, Err(AcquireFailure::AlreadyHeld)),
        };
        answers.extend(same.into_iter().map(again));
        answers
    }

    /// Creates a hold of a server lease for the owner that made `request`.
    ///
    /// The hold's own lease counts from `from`.
    pub(super) fn create_hold(
        &self,
        (schedule, lock): (&mut Schedule, &mut LockState),
        server_lease: &Arc<ServerLease>,
        (from, now): (Instant, Instant),
        request: Arc<AcquireRequest>,
    ) -> Arc<Hold> {
        let (lease, owner_due) = ((server_lease.has_renewed_lease(), server_lease.lease()), server_lease.owner_due());
        let hold = Arc::new(Hold::new(Arc::clone(server_lease), from, now, request));
        let (is_first, is_earlier) = (lock.holds.is_empty(), server_lease.owner_due() < owner_due);
        if !is_first {
            // Each hold has a lease of its own. The server lease is checked when the first of these
            // leases ends.
            server_lease.set_owner_due(owner_due.min(server_lease.owner_due()));
            if is_earlier {
                schedule.moved(server_lease.id);
            }
        }
        if schedule.get(server_lease.id).is_none() {
            // The server lease is new, or was reclaimed before its release was sent.
            schedule.insert(Arc::clone(server_lease), self.next_check(server_lease, server_lease.granted, now));
        } else if lease != (server_lease.has_renewed_lease(), server_lease.lease()) || (is_first && is_earlier) {
            schedule.reschedule(server_lease.id, self.next_check(server_lease, now, now));
        }
        self.wake_renewal(schedule);
        lock.add(Arc::clone(&hold));
        hold
    }

    /// Returns the time of the next check of a server lease that was confirmed at `from`.
    pub(super) fn next_check(&self, server_lease: &ServerLease, from: Instant, now: Instant) -> Instant {
        let (lease, watchdog) = (server_lease.lease(), self.core.settings.watchdog_lease);
        let lease = match server_lease.is_renewed_at(now) {
            // Another holder can shorten the lifetime of the common key to a watchdog lease. The
            // check must come before such a lifetime ends.
            true if server_lease.protocol.is_shared() => lease.min(watchdog),
            true => lease,
            // A fixed lease is verified as often as a watchdog lease is renewed.
            false => watchdog,
        };
        next_renewal(lease, server_lease.deadline(), from)
    }

    /// Wakes the renewal loop if a server lease is due before the next wake-up of the loop.
    pub(super) fn wake_renewal(&self, schedule: &Schedule) {
        self.alarm.bring_forward(schedule.next());
    }
}
