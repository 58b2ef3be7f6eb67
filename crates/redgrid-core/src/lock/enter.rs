//! Entering the queue of a lock.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::oneshot;

use super::error::AcquireError;
use super::guard::HoldGuard;
use super::handover::HandoverReason;
use super::hold::{Hold, Phase};
use super::holder::{Holder, HolderId};
use super::inline_task::{BackgroundTask, InlineTask};
use super::lock_state::{Busy, InlineTasks, LockId, LockState};
use super::pending_acquire::{PendingAcquire, into_acquire_error};
use super::protocol::{LockKeys, LockProtocol};
use super::shared::Placement;
use super::table::{State, Table};
use super::terms::AcquireRequest;
use super::waiter::{AcquireFailure, Answers, RequestStatus, Waiter, send};
use crate::clock::Instant;
use crate::connection::Client;
use crate::observe::{Outcome, count};

impl PendingAcquire {
    /// Starts an acquire of a hold, or rejects it at once. All lock-like objects use this.
    pub fn start(
        client: &Client,
        kind: &'static dyn LockProtocol,
        target: &Arc<LockKeys>,
        request: AcquireRequest,
    ) -> Result<PendingAcquire, AcquireError> {
        let entered = client.table().enter_from(client, kind, target, request, None);
        // Borrowed, not moved: `PendingAcquire` is large, and each acquire has one.
        if let Err(error) = &entered {
            count::refused(kind.name(), error.outcome(), Duration::ZERO);
        }
        entered
    }
}

impl Table {
    /// Requests `target`, and converts the hold with the holder field `under` if there is one.
    ///
    /// The table owns the request; the returned future waits for its outcome.
    pub(super) fn enter_from(
        self: &Arc<Self>,
        client: &Client,
        kind: &'static dyn LockProtocol,
        target: &Arc<LockKeys>,
        wanted: AcquireRequest,
        under: Option<Bytes>,
    ) -> Result<PendingAcquire, AcquireError> {
        let now = self.now();
        let key = LockId::of(kind, target);
        let until = wanted.wait.map_or(Instant::MAX, |wait| now + wait);
        let (answer, receiver) = oneshot::channel();
        let request_status = Arc::new(RequestStatus::default());
        let id = self.number();
        // Dropping it locks the table, so it is declared before the guard and dropped after it.
        let mut ticket;
        let mut state = self.state();
        let wanted = state.shared(&wanted);
        ticket = PendingAcquire {
            table: Arc::clone(self),
            client: client.clone(),
            kind,
            request: Arc::clone(&wanted),
            keys: Arc::clone(target),
            key: key.clone(),
            id,
            entered: now,
            until,
            receiver,
            status: Arc::clone(&request_status),
            under: under.clone(),
            inline_task: None,
            ready: None,
            is_member: false,
            done: false,
        };
        if state.closed {
            return Err(into_acquire_error(&self.core, AcquireFailure::ShuttingDown, target.name.clone()));
        }
        // A request without a holder cannot re-enter: skip the search.
        let known = match wanted.holder.is_some() || Holder::current().is_some() {
            true => state.grants_of(key.0, target).find_map(|key| reenter(state.locks.get(&key)?, &wanted, target)),
            false => None,
        };
        let hold = match (known, under) {
            // An exclusive hold is re-entered, even if the request converts from another hold of
            // its holder.
            (Some(known), under) if under.is_none() || !kind.is_shared() => Err(known?),
            (_, under) => {
                let under = if under.is_none() { state.held_in_paired_mode(kind, target, &wanted)? } else { under };
                Ok(self.place(&mut state, kind, target, (&wanted, &under)))
            }
        };
        let key = match hold {
            Ok(Placement::Queue(key)) => key,
            Ok(Placement::Shared(hold)) => {
                ticket.ready = Some(Ok(Some(HoldGuard::first(client.clone(), hold))));
                return Ok(ticket);
            }
            Err(known) => {
                ticket.ready = Some(Ok(Some(HoldGuard::further(client.clone(), known))));
                return Ok(ticket);
            }
        };
        ticket.key = key.clone();
        let State { locks, recent, .. } = &mut *state;
        let lock = locks.entry(key.clone()).or_insert_with(|| Box::new(LockState::new(kind, Arc::clone(target), now)));
        if lock.is_taken() {
            request_status.set_busy();
            if wanted.once {
                ticket.ready = Some(Ok(None));
                return Ok(ticket);
            }
        }
        let (alone, once) = (lock.is_idle(), wanted.once);
        let before = if alone { recent.take(&key, now) } else { None };
        // A try-only request sent while others are being notified would always overtake them.
        let after = before.filter(|_| once).and_then(|before| Some((before, before.yields_until(now)?)));
        if let Some((before, _)) = after {
            recent.insert(key.clone(), before, now);
            if before.plan.is_wanted() {
                locks.remove(&key);
                ticket.ready = Some(Ok(None));
                return Ok(ticket);
            }
        }
        lock.enqueue(Waiter { id, request: wanted, client: client.clone(), answer, status: request_status, until });
        let mut to_tasks = InlineTasks::new();
        let mut answers = Answers::new();
        if lock.is_reclaimable(now) {
            // The server lease is about to be released: reclaim it instead of sending a request.
            lock.busy = Busy::No;
            answers = self.hand_over_next(&mut state, &key, HandoverReason::HandOver, self.now());
            self.go_on(&mut state, &key);
        } else if alone {
            let continued = before.as_ref().map(|before| before.handover_ends).filter(|ends| *ends > now);
            lock.continued = continued.unwrap_or(Instant::MIN);
            if continued.is_none() {
                lock.yield_plan = before.filter(|_| !once).map(|before| Box::new(before.plan));
            }
            if lock.yield_plan.is_some() {
                self.start_loop(&key, lock);
            } else {
                lock.asking = true;
                let attempt = self.attempt(&key, lock, now);
                let inline_task = InlineTask::observed(
                    &self.core.unpolled,
                    match after {
                        Some((_, at)) => self.begin_at(at, attempt),
                        None => attempt,
                    },
                );
                lock.register(id, &inline_task);
                ticket.inline_task = Some(inline_task);
            }
        } else {
            // A second waiter now depends on the in-flight request, which must not depend on its
            // caller polling.
            to_tasks = std::mem::take(&mut lock.inline_tasks);
            // The loop needs no notification for each new waiter, unless it waits for nothing else.
            // In a server queue each waiter needs its position at once.
            let lines_up = lock.protocol.queue().is_some();
            if lines_up || !lock.loop_running || (lock.server_lease.is_none() && lock.busy == Busy::No && !lock.asking)
            {
                self.start_loop(&key, lock);
            }
        }
        drop(state);
        send(answers);
        for work in to_tasks.into_iter().filter_map(|(_, inline_task)| inline_task.take()) {
            self.spawn_background(work);
        }
        Ok(ticket)
    }

    fn begin_at(&self, at: Instant, work: BackgroundTask) -> BackgroundTask {
        let clock = self.core.clock.clone();
        Box::pin(async move {
            clock.sleep_until(at).await;
            work.await;
        })
    }
}

/// Re-enters the hold of the request's holder without a request; fails if that hold was lost.
pub(super) fn reenter(
    lock: &LockState,
    request: &AcquireRequest,
    target: &LockKeys,
) -> Option<Result<Arc<Hold>, AcquireError>> {
    let name = || target.name.clone();
    if let Some(holder) = request.holder {
        if let Some(hold) = lock.held().find(|hold| hold.holder() == Some(holder)) {
            if !request.reenters {
                return Some(Err(AcquireError::AlreadyHeld { name: name() }));
            }
            if request.at_least > hold.request.at_least {
                let expected = "as set by the holder's first acquire";
                let error = AcquireError::invalid_argument(&target.name, "hold_at_least", expected, request.at_least);
                return Some(Err(error));
            }
            return Some(Ok(Arc::clone(hold)));
        }
        // A loss ends with the last guard of its hold: then the holder may request again.
        let guarded = |hold: &Arc<Hold>| hold.guards.load(Ordering::Acquire) > 0;
        let lost_by =
            |hold: &Arc<Hold>| hold.holder() == Some(holder) && hold.phase() != Phase::Released && guarded(hold);
        let current = lock.holds.iter().any(lost_by);
        if current || lock.lost.iter().filter_map(Weak::upgrade).any(|hold| lost_by(&hold)) {
            return Some(Err(AcquireError::Lost { name: name() }));
        }
    }
    if lock.protocol.is_shared() || request.wait.is_some() || request.once {
        return None;
    }
    let scope: HolderId = Holder::current()?.id();
    let by_scope = lock.held().any(|hold| hold.holder() == Some(scope));
    by_scope.then(|| Err(AcquireError::WouldDeadlock { name: name() }))
}
