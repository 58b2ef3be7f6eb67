//! Local pass: hand-over along the server's queue inside one process.
//!
//! The positions at the head of the queue may belong to this process. As long as they do, a task
//! that releases the lock hands it to the next of them without a request.
//!
//! One reply of the server lists the positions of this process at the head, up to the first of
//! another process: a *run*. No waiter gets between two of them, since new waiters enqueue at the
//! end. So the lock passes along the run under the holder field that has it. One pass request
//! reports all waiters that were served meanwhile, enqueues all that arrived meanwhile, and learns
//! the run anew. A run is valid as long as a hand-over window may last: a forced takeover waits for
//! that.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use super::cleanup::DeferredRelease;
use super::error::LostReason;
use super::handover::HandoverReason;
use super::handover_window::LONGEST;
use super::lock_state::{Busy, LockId, LockState};
use super::pass_request::{New, PassReply, PassRequest};
use super::protocol::{PassArgs, ReleaseAfterPass, ServerQueue};
use super::release::{Released, released};
use super::server_lease::ServerLease;
use super::table::{State, Table};
use super::waiter::{Answers, Waiter, send};
use crate::clock::Instant;
use crate::connection::{Progress, RequestOutcome, RetryPolicy};
/// What is known of this process's positions at the head of the server's queue while it has the
/// lock.
#[derive(Default)]
pub(super) struct LocalPass {
    /// Numbers of the next positions, in their order. Some may have left since the reply.
    next: VecDeque<u64>,
    /// When the pass request left whose reply listed them.
    told: Option<Instant>,
    /// Numbers of the served positions, which stay in the server's queue until that is reported.
    served: Vec<u64>,
    /// A pass request is in flight.
    asking: bool,
    /// Served positions that it reports.
    saying: Vec<u64>,
    /// Server lease whose hand-over is suspended until the pass request completes, and the reason
    /// to resume it with.
    waits: Option<(u64, HandoverReason)>,
    /// Server lease that is no longer passed along: a pass request was not answered, or a
    /// retransmission of one may still release it.
    ended: Option<u64>,
}

impl LocalPass {
    pub(super) fn is_asking(&self) -> bool {
        self.asking
    }

    /// Removes a position that is not at the head any more.
    pub(super) fn lost(&mut self, number: u64) {
        self.next.retain(|next| *next != number);
    }
}

impl LockState {
    /// Moves the next waiter of the run to the front of the local queue; false where none is known.
    fn promote_next_of_pass(&mut self, now: Instant) -> bool {
        let Some(run) = self.local_pass.as_mut().filter(|run| run.told.is_some_and(|told| now < told + LONGEST)) else {
            return false;
        };
        while let Some(number) = run.next.front() {
            let is_it = |entry: &Waiter| {
                let place = &entry.status.position;
                place.is_inside() && place.number(entry.id) == *number && !entry.answer.is_closed() && entry.until > now
            };
            if let Some(entry) = self.queue.iter().position(is_it).and_then(|at| self.queue.remove(at)) {
                self.queue.push_front(entry);
                return true;
            }
            run.next.pop_front();
        }
        false
    }

    /// Forgets the run, for a new server lease.
    pub(super) fn begin_local_pass(&mut self) {
        if let Some(run) = &mut self.local_pass {
            (run.next, run.told, run.ended) = (VecDeque::new(), None, None);
        }
    }
}

impl Table {
    /// Returns the server queue along which the current server lease is passed, if it is.
    pub(super) fn passes_locally(&self, lock: &LockState) -> Option<&'static dyn ServerQueue> {
        let queue = lock.protocol.queue().filter(|_| self.core.settings.handover_window != Some(Duration::ZERO))?;
        let server_lease = lock.server_lease.as_ref().filter(|server_lease| server_lease.is_valid_locally())?;
        let ended = lock.local_pass.as_ref().is_some_and(|run| run.ended == Some(server_lease.id));
        (!ended && !matches!(lock.busy, Busy::Release { .. })).then_some(queue)
    }

    /// Returns whether the next waiter of the run is at the front and may have the server lease.
    ///
    /// Otherwise the server is asked which waiter is next, or the server lease is released.
    pub(super) fn is_next(
        self: &Arc<Self>,
        state: &mut State,
        key: &LockId,
        server_lease: &Arc<ServerLease>,
        basis: HandoverReason,
    ) -> bool {
        let now = self.now();
        let Some(lock) = state.locks.get_mut(key) else { return false };
        if lock.promote_next_of_pass(now) {
            return true;
        }
        lock.busy = Busy::AdjustingLease(server_lease.id);
        let asks = lock.local_pass.as_ref().is_some_and(|run| run.asking) || self.send_pass(state, key, true);
        let Some(lock) = state.locks.get_mut(key) else { return false };
        match lock.local_pass.as_mut().filter(|_| asks) {
            Some(run) => run.waits = Some((server_lease.id, basis)),
            None => self.release_unclaimed_grant(lock, server_lease, Instant::MIN),
        }
        false
    }

    /// Records that a request got the server lease by its position.
    pub(super) fn served(self: &Arc<Self>, lock: &mut LockState, entry: &Waiter, now: Instant) {
        let place = &entry.status.position;
        if !place.is_inside() {
            return;
        }
        let number = place.number(entry.id);
        place.left();
        let run = lock.local_pass.get_or_insert_default();
        run.lost(number);
        run.served.push(number);
        if entry.status.may_be_executed(now) {
            // An earlier request for this position may execute late, and create one that no waiter
            // wants.
            self.take_out(lock, number, (entry.status.may_execute_until(), false));
        }
    }

    /// Releases a server lease by a pass request that reports the served positions.
    ///
    /// Returns `None` if there are none to report, or if the server lease must be released like any
    /// other.
    pub(super) async fn release_and_pass(
        self: &Arc<Self>,
        server_lease: &ServerLease,
        until: Instant,
    ) -> Option<Released> {
        let queue = server_lease.protocol.queue()?;
        let served = {
            let mut state = self.state();
            let lock = state.locks.get_mut(&server_lease.lock_id()).filter(|lock| lock.has_id(server_lease.id))?;
            let run = lock.local_pass.as_mut().filter(|run| !(run.saying.is_empty() && run.served.is_empty()))?;
            // A pass request in flight may not have left yet: report its served positions here,
            // too.
            run.saying.iter().copied().chain(std::mem::take(&mut run.served)).collect::<Vec<_>>()
        };
        let (field, fields) = (server_lease.copied_field(), self.fields(served.iter().copied()));
        let along =
            PassArgs { served: &fields, new: &[], kept: self.position_ttl(), gives_back: ReleaseAfterPass::Yes };
        let request = queue.pass(server_lease.claim(&field, Duration::ZERO), &along);
        let asked = self.core.exchange(request, until, RetryPolicy::ToTheEnd, &Progress::default()).await;
        let told = asked.result.clone().and_then(PassReply::read);
        if told.is_err() {
            let mut state = self.state();
            let lock = state.locks.get_mut(&server_lease.lock_id())?;
            lock.local_pass.get_or_insert_default().served.extend(served);
            self.take_out_served(lock);
            // The server may refuse only this pass request.
            return None;
        }
        self.release_late_copies(server_lease, asked.sent, Instant::MIN);
        self.given_back_along(server_lease, &asked);
        let was_ours = told.map(|told| matches!(told, PassReply::GivenBack));
        Some(Released { result: released(server_lease, &asked, was_ours), subscribers: None })
    }

    /// Remembers a pass request that released the lock as the release of its server lease.
    fn given_back_along(&self, server_lease: &ServerLease, answered: &RequestOutcome) {
        let release = server_lease.protocol.release(server_lease.claim(&server_lease.copied_field(), Duration::ZERO));
        self.core.given_back.remember(&release, answered);
    }

    fn fields(&self, numbers: impl Iterator<Item = u64>) -> Vec<Bytes> {
        numbers.map(|number| self.core.field(number)).collect()
    }

    /// Removes served positions that were not reported from the server's queue, one by one.
    pub(super) fn take_out_served(self: &Arc<Self>, lock: &mut LockState) {
        let served = lock.local_pass.as_mut().map(|run| std::mem::take(&mut run.served)).unwrap_or_default();
        for number in served {
            self.take_out(lock, number, (Instant::MIN, true));
        }
    }

    /// Removes the served positions of a server lease that is released in another way.
    pub(super) fn take_out_served_of(self: &Arc<Self>, server_lease: &ServerLease) {
        let mut state = self.state();
        if let Some(lock) = state.locks.get_mut(&server_lease.lock_id()).filter(|lock| lock.has_id(server_lease.id)) {
            self.take_out_served(lock);
        }
    }

    fn take_out(self: &Arc<Self>, lock: &LockState, number: u64, (limit, at_once): (Instant, bool)) {
        let (kind, target, field) = (lock.protocol, Arc::clone(&lock.keys), self.core.field(number));
        let (keep_until, lease) = (Instant::MIN, self.core.settings.watchdog_lease);
        self.schedule_cleanup(DeferredRelease {
            protocol: kind,
            keys: target,
            field,
            limit,
            at_once,
            keep_until,
            lease,
        });
    }

    /// Sends a pass request, if there is something to report and none is in flight.
    ///
    /// The request reports the served positions, enqueues new waiters, and asks which positions are
    /// next. Returns whether it was sent.
    pub(super) fn send_pass(self: &Arc<Self>, state: &mut State, key: &LockId, frees: bool) -> bool {
        let now = self.now();
        let depth = usize::try_from(self.core.settings.fair_depth).unwrap_or(usize::MAX);
        let Some(lock) = state.locks.get_mut(key) else { return false };
        let Some((queue, server_lease)) = self.passes_locally(lock).zip(lock.server_lease.clone()) else {
            return false;
        };
        let run = lock.local_pass.get_or_insert_default();
        if run.asking {
            return false;
        }
        let waits =
            lock.queue.iter().filter(|entry| !entry.request.once && entry.until > now && !entry.answer.is_closed());
        let outside =
            waits.take(depth).filter(|entry| !entry.status.position.is_inside() && !entry.status.position.is_asking());
        let new: Vec<New> = outside.map(New::of).collect();
        if new.is_empty() && run.served.is_empty() && !frees {
            return false;
        }
        run.asking = true;
        let served = std::mem::take(&mut run.served);
        run.saying.clone_from(&served);
        self.spawn_background(Box::pin(
            Arc::clone(self).run_pass(key.clone(), PassRequest { server_lease, queue, served, new, frees }),
        ));
        true
    }

    async fn run_pass(self: Arc<Self>, key: LockId, word: PassRequest) {
        let field = word.server_lease.copied_field();
        let (served, new) =
            (self.fields(word.served.iter().copied()), self.fields(word.new.iter().map(|new| new.number)));
        let gives_back = if word.frees { ReleaseAfterPass::UnlessNext } else { ReleaseAfterPass::No };
        let along = PassArgs { served: &served, new: &new, kept: self.position_ttl(), gives_back };
        let request = word.queue.pass(word.server_lease.claim(&field, Duration::ZERO), &along);
        let until = (self.now() + self.core.settings.patience()).min(word.server_lease.deadline());
        let asked = self.core.exchange(request, until, RetryPolicy::Retries, &Progress::default()).await;
        self.passed(&key, word, &asked);
    }

    /// Processes the reply to a pass request.
    fn passed(self: &Arc<Self>, key: &LockId, word: PassRequest, asked: &RequestOutcome) {
        let told = asked.result.clone().and_then(PassReply::read);
        let PassRequest { server_lease, served, new, frees, .. } = word;
        let mut state = self.state();
        let mut answers = Answers::new();
        for new in &new {
            self.enqueued(&state, &server_lease, new, (asked, told.is_ok()));
        }
        let Some(lock) = state.locks.get_mut(key) else { return };
        let run = lock.local_pass.get_or_insert_default();
        run.asking = false;
        run.saying.clear();
        if told.is_ok() {
            lock.contact = asked.received;
        } else {
            run.served.extend(served);
        }
        // A server lease that is being adjusted to a request waits for something else.
        let waits = run.waits.take().filter(|(id, _)| lock.busy == Busy::AdjustingLease(*id)).map(|(_, basis)| basis);
        if waits.is_some() {
            lock.busy = Busy::No;
        }
        if !lock.has(&server_lease) {
            self.take_out_served(lock);
            // The current grant's hand-over was suspended on this request; resume it.
            if let Some(basis) = waits {
                answers = self.hand_over_next(&mut state, key, basis, self.now());
            }
            self.go_on(&mut state, key);
            drop(state);
            return send(answers);
        }
        let run = lock.local_pass.get_or_insert_default();
        match told {
            Ok(PassReply::Held(next)) => {
                (run.next, run.told) = (next, Some(asked.sent));
                // A late retransmission could release what another task has got meanwhile.
                let may_be_undone = frees && asked.was_retransmitted();
                if may_be_undone {
                    run.ended = Some(server_lease.id);
                }
                if let Some(basis) = waits {
                    match may_be_undone || (frees && !lock.promote_next_of_pass(asked.received)) {
                        true => self.release_unclaimed_grant(lock, &server_lease, Instant::MIN),
                        false => answers = self.hand_over_next(&mut state, key, basis, self.now()),
                    }
                }
                self.send_pass(&mut state, key, false);
                self.go_on(&mut state, key);
            }
            Ok(PassReply::NotOurs) if !frees => {
                self.mark_lost(&mut state, &server_lease, LostReason::Gone);
            }
            Ok(PassReply::GivenBack | PassReply::NotOurs) => {
                state.schedule.remove(server_lease.id);
                drop(state);
                self.release_late_copies(&server_lease, asked.sent, Instant::MIN);
                self.given_back_along(&server_lease, asked);
                return self.release_answered(None, &server_lease, None);
            }
            Err(error) => {
                tracing::debug!(name = %server_lease.keys.name, %error, "not passed along");
                run.ended = Some(server_lease.id);
                self.take_out_served(lock);
                if waits.is_some() {
                    self.release_unclaimed_grant(lock, &server_lease, Instant::MIN);
                }
                self.go_on(&mut state, key);
            }
        }
        drop(state);
        send(answers);
    }

    /// Records what the reply means for a waiter that was to be enqueued: it is queued, or that is
    /// unknown.
    fn enqueued(
        self: &Arc<Self>,
        state: &State,
        server_lease: &ServerLease,
        new: &New,
        (asked, is_known): (&RequestOutcome, bool),
    ) {
        let New { request, number, status: request_status, wanted } = new;
        let lock = state.locks.get(&server_lease.lock_id());
        let is_its_own = request_status.position.number(*request) == *number;
        let is_it = |entry: &Waiter| entry.id == *request && !entry.answer.is_closed();
        if is_its_own {
            asked.retransmission_ends.into_iter().for_each(|until| request_status.set_maybe_executed(until));
            if lock.is_some_and(|lock| lock.queue.iter().any(is_it)) {
                return request_status.position.landed(is_known);
            }
            request_status.position.left();
        }
        // The request does not wait any more, or is enqueued under another number. A server lease
        // of this process under this number is released with its hold.
        if lock.is_none_or(|lock| !lock.has_id(*number)) {
            let (kind, target, field) =
                (server_lease.protocol, Arc::clone(&server_lease.keys), self.core.field(*number));
            let (limit, lease) = (asked.retransmission_ends.unwrap_or(Instant::MIN), wanted.lease.duration());
            let limit = limit.max(request_status.may_execute_until());
            self.schedule_cleanup(DeferredRelease {
                protocol: kind,
                keys: target,
                field,
                limit,
                at_once: true,
                keep_until: Instant::MIN,
                lease,
            });
        }
    }
}
