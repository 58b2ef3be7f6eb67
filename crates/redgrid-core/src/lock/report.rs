//! Reports of a client about its locks: holds, waiting tasks, contention, and events.

use std::fmt::Display;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use redgrid_client::report::HeldReport;

use super::acquire::LocalRequest;
use super::error::{LostReason, ReleaseError};
use super::hold::{Hold, ServerLease};
use super::table::{LockState, Table, Waiter};
use crate::clock::Instant;
use crate::introspection::{FORCED, Gathered, LOST, PART, RENEWAL_FAILED, UNKNOWN};
use crate::lease::LeaseMode;

/// A report examines at most this many waiters of a queue to find the first one that was not
/// cancelled: 100.
const MAX_CANCELLED: usize = 100;

/// Largest number of locks whose holds and waiters a report reads: about 200,000. If a client has
/// more locks, the report still counts all holds, and is marked as truncated.
const MAX_LOCKS: usize = 100 * PART;

impl LockState {
    fn report(&self, gathered: &mut Gathered) {
        let (kind, name) = (self.protocol.name(), &self.keys.name);
        // Cancelled waiters stay in the queue for a while: subtract them.
        let tasks = self.queue.len().saturating_sub(self.cancelled as usize);
        let mut first = self.queue.iter().take(MAX_CANCELLED).filter(|waiter| !waiter.answer.is_closed());
        let since = first.next().or(self.queue.front()).map_or(gathered.now, |first: &Waiter| first.request.entered);
        gathered.add_waits((kind, name), tasks, since);
        if gathered.is_full {
            let is_read = self.protocol.read_write().is_some_and(|mode| mode.is_shared());
            for hold in self.holds.iter().filter(|hold| hold.end.get().is_none()) {
                let now = gathered.now;
                gathered.add_held((kind, name), (hold.granted, hold.token), |report| {
                    hold.report(report, now);
                    report.token = (!is_read).then_some(hold.token);
                });
            }
            if let Some(tally) = &self.waits {
                gathered.contention.merge(kind, name, (**tally).clone());
            }
        }
    }
}

impl Hold {
    fn report(&self, report: &mut HeldReport, now: Instant) {
        report.number = self.server_lease.id;
        report.lease_left_ms = u64::try_from(self.deadline().since(now).as_millis()).ok();
        report.is_renewed = matches!(self.request.lease, LeaseMode::Renewed(_)) && self.server_lease.is_renewed_at(now);
        report.label = self.request.label.as_ref().map(|label| label.as_str().to_owned());
        report.entries = self.guards.load(Ordering::Acquire).into();
    }
}

impl Table {
    /// Counts an ended wait in the contention statistics, if the task has waited for a taken lock.
    pub(super) fn wait_ended(&self, lock: &mut LockState, request: &LocalRequest, now: impl FnOnce() -> Instant) {
        if request.count_wait() && self.events.is_full_report() {
            let now = now();
            lock.waits.get_or_insert_default().add(now.since(request.entered), now);
        }
    }

    /// Adds the locks of the client to a report, [`PART`] locks at a time. In between, the table is
    /// unlocked and other tasks can run.
    ///
    /// Each part of the report first skips the locks of all earlier parts. This takes longer with
    /// each part, so at most [`MAX_LOCKS`] locks are read.
    pub(crate) async fn report(&self, gathered: &mut Gathered) {
        let mut begin = 0;
        loop {
            {
                let state = self.state();
                if begin == 0 {
                    gathered.holds += state.schedule.len() as u64;
                    gathered.contention.merge_all(&state.contention);
                }
                if begin >= state.locks.len() {
                    return;
                }
                if begin >= MAX_LOCKS {
                    gathered.set_truncated();
                    return;
                }
                // Skipping is fast, because the states of skipped locks are not read.
                state.locks.values().skip(begin).take(PART).for_each(|lock| lock.report(gathered));
            }
            begin += PART;
            tokio::task::yield_now().await;
        }
    }

    /// Records in the event log that holds of a server lease were lost.
    pub(super) fn note_lost(&self, server_lease: &ServerLease, reason: LostReason, holds: usize) {
        if holds > 0 {
            let what = if reason == LostReason::Forced { FORCED } else { LOST };
            self.events.record(what, &server_lease.keys.name, reason);
        }
    }

    /// Records in the event log that a renewal of server leases has failed.
    pub(super) fn note_not_renewed(&self, server_leases: &[Arc<ServerLease>], error: &dyn Display) {
        if let [first, others @ ..] = server_leases {
            let name = &first.keys.name;
            match others.len() {
                0 => self.events.record(RENEWAL_FAILED, name, error),
                others => self.events.record(RENEWAL_FAILED, name, format_args!("and {others} other locks: {error}")),
            }
        }
    }

    /// Records a release in the event log, if its outcome is unknown.
    pub(super) fn note_released(&self, server_lease: &ServerLease, result: &Result<(), ReleaseError>) {
        if let Err(ReleaseError::OutcomeUnknown { source, .. }) = result {
            self.events.record(UNKNOWN, &server_lease.keys.name, format_args!("release: {source}"));
        }
    }
}
