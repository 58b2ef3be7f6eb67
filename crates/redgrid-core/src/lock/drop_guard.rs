//! Ends a hold when its last guard is dropped or released.

use std::sync::Arc;

use tokio::sync::oneshot;

use super::error::{LostReason, ReleaseError};
use super::handover::HandoverReason;
use super::hold::{Hold, Phase};
use super::inline_task::{BackgroundTask, InlineTask};
use super::lock_state::Busy;
use super::table::Table;
use super::waiter::send;
use crate::clock::Instant;
/// What dropping one guard of a hold leads to, before the release is built.
pub(super) enum DropStep {
    /// Other guards of the same holder are alive, or another task has the lock now.
    Done,
    /// The hold was lost before.
    Lost(LostReason),
    /// The last guard, without waiters in this process: release the server lease under this id.
    Release { id: u64, keep_until: Instant },
    /// The last guard; its release has begun and is polled inline.
    ReleasingInline(InlineTask, ReleaseReceiver),
}

/// What drives a release.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum ReleasedBy {
    /// A background task, later. Until then a new request may reclaim the server lease.
    Task,
    /// The caller, at once, unless a request of this process waits for the lock.
    Caller,
}

/// Receives the outcome of a release.
pub(super) type ReleaseReceiver = oneshot::Receiver<Result<(), ReleaseError>>;

/// What dropping one guard leads to.
pub(super) enum DropOutcome {
    /// Other guards of the same holder are alive, or another task has the lock now.
    Done,
    /// The hold was lost before.
    Lost(LostReason),
    /// The last guard, without waiters in this process: run this release in a task; the receiver
    /// gets its outcome.
    Release(BackgroundTask, ReleaseReceiver),
    /// The last guard; its release has begun and its caller polls it inline.
    Leaves(InlineTask, ReleaseReceiver),
}

impl Table {
    /// Drops one guard of a hold. The caller drives the release that this may return.
    pub(super) fn drop_guard(self: &Arc<Self>, hold: &Arc<Hold>, is_first: bool, by: ReleasedBy) -> DropOutcome {
        match self.drop_last_guard(hold, is_first, by) {
            DropStep::Done => DropOutcome::Done,
            DropStep::Lost(reason) => DropOutcome::Lost(reason),
            DropStep::ReleasingInline(inline_task, told) => DropOutcome::Leaves(inline_task, told),
            DropStep::Release { id, keep_until } => {
                let (tell, told) = oneshot::channel();
                DropOutcome::Release(
                    self.release_work(Some(id), Arc::clone(&hold.server_lease), keep_until, Some(tell)),
                    told,
                )
            }
        }
    }

    /// Drops one guard of a hold: its first one, or another.
    pub(super) fn drop_last_guard(self: &Arc<Self>, hold: &Arc<Hold>, is_first: bool, by: ReleasedBy) -> DropStep {
        let mut state = self.state();
        if hold.count_off(is_first) != Some(0) {
            return hold.lost().map_or(DropStep::Done, DropStep::Lost);
        }
        let now = self.now();
        let lost = hold.lost_by(now);
        hold.end(Phase::Released);
        let server_lease = &hold.server_lease;
        let (key, keep_until) = (server_lease.lock_id(), hold.retained_until());
        let lock = state.locks.get_mut(&key);
        let Some((lock, at)) = lock.and_then(|lock| lock.position(hold).map(|at| (lock, at))) else {
            Self::remove_if_idle(&mut state, &key);
            drop(state);
            if lost == Some(LostReason::Expired) && server_lease.is_over() {
                // The lease has ended by the local clock. The server's key may live on for the
                // margin: delete it.
                self.spawn_background(self.release_work(None, Arc::clone(server_lease), keep_until, None));
            }
            return DropStep::Lost(lost.unwrap_or(LostReason::Gone));
        };
        lock.remove(at);
        if !lock.holds.is_empty() {
            // Other tasks share the lease.
            if lock.holds.len() == 1 {
                server_lease.left_alone();
            }
            if lock.is_forgotten() {
                server_lease.stop_renewing();
            }
            return lost.map_or(DropStep::Done, DropStep::Lost);
        }
        let keep = keep_until > now;
        let passes_on = server_lease.may_hand_over(now) || self.passes_locally(lock).is_some();
        if !keep && server_lease.is_valid_locally_at(now) && passes_on && lock.next(now).is_some() {
            let answers = self.hand_over_next(&mut state, &key, HandoverReason::HandOver, now);
            drop(state);
            send(answers);
            return lost.map_or(DropStep::Done, DropStep::Lost);
        }
        let id = self.number();
        let leaves = by == ReleasedBy::Caller && lost.is_none() && lock.queue.is_empty() && !lock.loop_running;
        // A release that waits for a task may still be reclaimed by a new request, unless the hold
        // was lost.
        let queued = !leaves && !keep && lost.is_none();
        lock.busy = Busy::Release { id, server_lease: server_lease.id, queued };
        if leaves {
            // Registered as the lock's inline task: a new waiter moves it to a background task.
            let (tell, told) = oneshot::channel();
            let inline_task = InlineTask::observed(
                &self.core.unpolled,
                self.begun_release(id, Arc::clone(server_lease), (keep_until, false), tell),
            );
            lock.register(server_lease.id, &inline_task);
            state.schedule.remove(server_lease.id);
            return DropStep::ReleasingInline(inline_task, told);
        }
        state.schedule.remove(server_lease.id);
        drop(state);
        match lost {
            Some(reason) => {
                self.spawn_background(self.release_work(Some(id), Arc::clone(server_lease), keep_until, None));
                DropStep::Lost(reason)
            }
            None => DropStep::Release { id, keep_until },
        }
    }
}
