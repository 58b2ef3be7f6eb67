//! The queue of one lock in this process: the next waiter, and cancelled and rejected waiters.

use std::collections::VecDeque;
use std::sync::{Arc, MutexGuard};

use tokio::sync::oneshot;

use super::acquire::LocalRequest;
use super::hold::Hold;
use super::protocol::HolderId;
use super::release::Release;
use super::table::{Answer, Answers, Busy, LockId, LockState, State, Table, Waiter, send};
use crate::clock::Instant;

impl LockState {
    /// Returns the holds that are locally valid and have a guard.
    pub(super) fn held(&self) -> impl Iterator<Item = &Arc<Hold>> {
        self.holds.iter().filter(|hold| hold.is_guarded() && hold.is_held())
    }

    /// Returns whether there are holds and all of them were forgotten: they have no guard, and end
    /// with their leases.
    pub(super) fn is_forgotten(&self) -> bool {
        !self.holds.is_empty() && self.holds.iter().all(|hold| !hold.is_guarded())
    }

    /// Remembers a lost hold until its last guard is dropped.
    pub(super) fn remember_lost(&mut self, hold: &Arc<Hold>) {
        self.lost.get_or_insert_default().push(Arc::downgrade(hold));
    }

    /// Returns the first waiter that is live at `now`.
    pub(super) fn next(&mut self, now: Instant) -> Option<&Waiter> {
        let at = self.next_at(now)?;
        self.queue.get(at)
    }

    /// Returns the index of the first waiter that is live at `now`.
    pub(super) fn next_at(&mut self, now: Instant) -> Option<usize> {
        self.drop_cancelled_head();
        self.queue.iter().position(|waiter| waiter.is_live(now))
    }

    /// Removes the cancelled waiters at the head of the queue. If all waiters were cancelled, the
    /// queue is empty afterwards.
    pub(super) fn drop_cancelled_head(&mut self) {
        while self.queue.front().is_some_and(|waiter| waiter.answer.is_closed()) {
            self.queue.pop_front();
        }
    }

    /// Removes a request that was cancelled and can no longer receive an answer.
    ///
    /// Returns whether the wait loop must be notified: the queue has become empty, or the request
    /// may have a position in a server queue.
    fn cancel(&mut self, id: u64) -> bool {
        let waited = self.queue.len();
        if self.protocol.queue().is_none() && !self.protocol.is_shared() {
            mark_cancelled(&mut self.queue, &mut self.cancelled, |waiter| waiter.answer.is_closed());
            return waited > 0 && self.queue.is_empty();
        }
        // Fair and shared lock kinds need a queue without cancelled waiters. Fair kinds enqueue the
        // first few waiters on the server, and shared kinds compare a new request with all waiters.
        // So a cancelled waiter is removed at once. Waiters are sorted by id, except those that a
        // local pass has moved to the front.
        let in_order = self.queue.binary_search_by_key(&id, |waiter| waiter.request.id).ok();
        if let Some(at) = in_order.or_else(|| self.queue.iter().position(|waiter| waiter.request.id == id)) {
            self.queue.remove(at);
        }
        waited > self.queue.len() && (self.queue.is_empty() || self.protocol.queue().is_some())
    }

    pub(super) fn take_all_of(&mut self, holder: Option<HolderId>) -> Vec<Waiter> {
        if self.queue.iter().all(|waiter| waiter.request.options.holder != holder) {
            return Vec::new();
        }
        let (same, others) =
            self.queue.drain(..).partition::<Vec<_>, _>(|waiter| waiter.request.options.holder == holder);
        self.queue = others.into();
        same
    }

    /// Replaces each waiter by the result of `keep`, in the order of the queue. `None` removes the
    /// waiter.
    pub(super) fn retain_map(&mut self, mut keep: impl FnMut(Waiter) -> Option<Waiter>) {
        for _ in 0..self.queue.len() {
            let kept = self.queue.pop_front().and_then(&mut keep);
            self.queue.extend(kept);
        }
    }

    /// Answers "busy" to all try-only waiters.
    pub(super) fn reject_try_waiters(&mut self) -> Answers {
        self.reject_try_waiters_unless(|_| false)
    }

    fn reject_try_waiters_unless(&mut self, is_admitted: impl Fn(&Waiter) -> bool) -> Answers {
        let mut answers = Answers::new();
        let is_rejected = |waiter: &Waiter| waiter.request.options.once && !is_admitted(waiter);
        if self.queue.iter().any(is_rejected) {
            self.retain_map(|waiter| match is_rejected(&waiter) {
                true => {
                    answers.push((waiter.answer, Ok(None)));
                    None
                }
                false => Some(waiter),
            });
        }
        answers
    }

    /// Answers "busy" to those try-only waiters that do not get the grant. Records for all
    /// remaining waiters that the lock is taken.
    ///
    /// The grant is for `first` (if there is none, for the next waiter) and for other waiters of
    /// the same holder. A shared grant is for all waiters.
    pub(super) fn reject_others(&mut self, first: Option<&Waiter>, now: Instant) -> Answers {
        let first = first.map(|waiter| (waiter.request.id, waiter.request.options.holder));
        let first = first.or_else(|| self.next(now).map(|waiter| (waiter.request.id, waiter.request.options.holder)));
        let is_shared = self.protocol.is_shared();
        let is_one = |waiter: &Waiter, (id, holder): (u64, Option<HolderId>)| {
            waiter.request.id == id || (holder.is_some() && waiter.request.options.holder == holder)
        };
        let answers = self.reject_try_waiters_unless(|waiter| is_shared || first.is_some_and(|of| is_one(waiter, of)));
        self.queue.iter().for_each(|waiter| waiter.request.set_busy());
        answers
    }

    /// Returns whether a new request can reclaim the server lease, because the release of that
    /// lease was not sent yet.
    pub(super) fn is_reclaimable(&self, now: Instant) -> bool {
        let Some(server_lease) = self.server_lease.as_ref().filter(|_| self.holds.is_empty()) else { return false };
        let is_queued = matches!(self.busy, Busy::Release { queued: true, .. });
        is_queued && server_lease.is_valid_locally() && server_lease.may_hand_over(now)
    }
}

impl Table {
    /// Continues after a waiter has joined the queue of a lock in use: reclaims the server lease,
    /// or starts the loop.
    pub(super) fn join_queue(self: &Arc<Self>, mut state: MutexGuard<'_, State>, key: &LockId, now: Instant) {
        let Some(lock) = state.locks.get_mut(key) else { return };
        let (mut answers, mut inline_task) = (Answers::new(), None);
        if lock.is_reclaimable(now) {
            // The release of the server lease was not sent yet: reclaim the server lease instead of
            // sending a request.
            lock.busy = Busy::No;
            answers = self.hand_over_next(&mut state, key, None, self.now());
            self.go_on(&mut state, key);
        } else {
            // A second waiter now depends on the in-flight request. Therefore the request must go
            // on even if its caller does not poll it.
            inline_task = lock.inline_task.take();
            // A running loop needs no notification while an operation is in flight or the lock is
            // held, because the loop examines the queue afterwards. But if the lock kind has a
            // server queue, each waiter must be enqueued there at once.
            let is_free = lock.server_lease.is_none() && lock.busy == Busy::No && !lock.request_in_flight;
            if is_free || !lock.loop_running || lock.protocol.queue().is_some() {
                self.start_loop(key, lock);
            }
        }
        drop(state);
        send(answers);
        if let Some(work) = inline_task.and_then(|(_, inline_task)| inline_task.take()) {
            self.core.spawn_background(work);
        }
    }

    /// Marks a release as begun; the caller sends it next.
    ///
    /// Returns whether requests of this process wait, or `None` if the server lease was reclaimed.
    pub(super) fn begin_release(&self, release: &Release) -> Option<bool> {
        let Release { id: Some(id), server_lease, .. } = release else { return Some(false) };
        let mut state = self.state();
        let lock = state.locks.get_mut(&server_lease.lock_id())?;
        match &mut lock.busy {
            Busy::Release { id: current, queued } if current == id => *queued = false,
            _ => return None,
        }
        // Most locks have no waiter. For them the clock is not read.
        let is_waited_for = !lock.queue.is_empty() && lock.next(self.now()).is_some();
        state.schedule.remove(server_lease.id);
        Some(is_waited_for)
    }

    /// Removes a cancelled request from its queue.
    ///
    /// Afterwards the request is no longer a waiter. If a grant was already sent to the receiver,
    /// the grant is released when the receiver is dropped.
    pub(super) fn cancel(&self, key: &LockId, request: &LocalRequest, receiver: &mut oneshot::Receiver<Answer>) {
        let mut state = self.state();
        // Close the receiver under the table's lock: code that reads the queue twice under that
        // lock must see the same waiters both times.
        receiver.close();
        let Some(lock) = state.locks.get_mut(key) else { return };
        self.wait_ended(lock, request, || self.now());
        if lock.cancel(request.id) {
            lock.notify_loop();
        }
        state.remove_if_idle(key);
    }
}

/// Records that one entry of a queue was cancelled.
///
/// Code that reads the queue skips cancelled entries. Cancelled entries at both ends are removed at
/// once. The others are removed together, when cancelled entries could be more than half of the
/// queue. So a queue in which all entries were cancelled is empty. Cancelling n entries in any
/// order costs O(n), not O(n²).
fn mark_cancelled<T>(queue: &mut VecDeque<T>, left: &mut u32, has_left: impl Fn(&T) -> bool) {
    *left += 1;
    while queue.front().is_some_and(&has_left) {
        queue.pop_front();
    }
    while queue.back().is_some_and(&has_left) {
        queue.pop_back();
    }
    if *left as usize * 2 > queue.len() {
        queue.retain(|entry| !has_left(entry));
        *left = 0;
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    /// Returns how often queue entries are checked when `count` entries are cancelled in the given
    /// order.
    fn checks(count: usize, order: impl Fn(usize) -> usize) -> usize {
        let all: Vec<Cell<bool>> = vec![Cell::new(false); count];
        let (mut queue, mut left): (VecDeque<usize>, u32) = ((0..count).collect(), 0);
        let checks = Cell::new(0);
        for number in 0..count {
            all[order(number)].set(true);
            mark_cancelled(&mut queue, &mut left, |at| {
                checks.set(checks.get() + 1);
                all[*at].get()
            });
            let waiting = count - number - 1;
            assert!(queue.len() >= waiting && queue.len() <= 2 * waiting, "{waiting} wait, {} entries", queue.len());
        }
        checks.get()
    }

    #[test]
    fn the_cost_of_leaving_is_independent_of_the_number_of_waiters() {
        const MANY: usize = 100_000;
        // The orders: as the waiters arrived, in reverse, from both ends to the middle, and
        // scattered.
        type Order = fn(usize) -> usize;
        let orders: [(&str, Order); 4] = [
            ("first come", |number| number),
            ("last come", |number| MANY - 1 - number),
            ("alternating", |number| if number % 2 == 0 { number / 2 } else { MANY - 1 - number / 2 }),
            ("anyhow", |number| number * 7919 % MANY),
        ];
        for (name, order) in orders {
            let checks = checks(MANY, order);
            assert!(checks <= 12 * MANY, "{name}: {checks} checks");
        }
    }
}
