//! Reports about the semaphores of a client: permits, waiting tasks, contention, and events.

use std::sync::Arc;

use redgrid_client::ServerError;

use super::exchange::Exchange;
use super::local_semaphore::{LocalSemaphore, PermitRequest};
use super::permit_set::{PermitLease, PermitSet};
use super::registry::SemaphoreRegistry;
use super::semaphore_state::SemaphoreState;
use super::waiter::Waiter;
use crate::clock::Instant;
use crate::introspection::{Gathered, LOST, PART, RENEWAL_FAILED, Tally, UNKNOWN};
use crate::lock::LostReason;

/// A report examines at most this many waiters to find one with a waiting caller: 100.
const MAX_ENDED: usize = 100;

impl LocalSemaphore {
    /// Adds an ended wait to the statistics `waits`, if the request had to wait for permits.
    pub(super) fn wait_ended(&self, waits: &mut Option<Box<Tally>>, waiter: &Waiter, now: impl FnOnce() -> Instant) {
        if waiter.has_waited && self.registry.events.is_full_report() {
            let now = now();
            waits.get_or_insert_default().add(now.since(waiter.request.entered), now);
        }
    }
}

impl SemaphoreState {
    /// Records a grant of permits without leases. Call it before the permits count as held.
    pub(super) fn note_plain(&mut self, permits: &PermitSet, request: &PermitRequest, now: Instant) {
        if !permits.leases.is_empty() {
            return;
        }
        if self.held == 0 {
            (self.held_since, self.plain_label) = (now, request.label.clone());
        } else if self.plain_label != request.label {
            self.plain_label = None;
        }
    }
}

impl PermitLease {
    fn report(&self, (kind, semaphore): (&'static str, &LocalSemaphore), gathered: &mut Gathered) {
        let ((since, label), now) = (self.owner.lock().clone(), gathered.now);
        gathered.add_held((kind, &semaphore.keys.name), (since, 0), |report| {
            let first = self.id.as_bytes().first_chunk().copied().unwrap_or_default();
            report.number = u64::from_be_bytes(first);
            report.lease_left_ms = u64::try_from(self.deadline().since(now).as_millis()).ok();
            report.is_renewed = self.is_renewed();
            report.label = label.map(|label| label.as_str().to_owned());
            report.entries = 1;
        });
    }
}

impl LocalSemaphore {
    /// Adds the semaphore to a report. Lets other tasks run after every [`PART`] leases.
    async fn report(&self, gathered: &mut Gathered) {
        let kind = self.keys.kind();
        let mut begin = 0;
        loop {
            {
                let state = self.state();
                if begin == 0 {
                    self.report_state(&state, gathered);
                }
                let leases = if gathered.is_full { state.leases.len() } else { 0 };
                state.leases.iter().skip(begin).take(PART.min(leases)).for_each(|lease| {
                    lease.report((kind, self), gathered);
                });
                begin += PART;
                if begin >= leases {
                    return;
                }
            }
            tokio::task::yield_now().await;
        }
    }

    /// Adds the semaphore to a report, except its leases.
    fn report_state(&self, state: &SemaphoreState, gathered: &mut Gathered) {
        let (name, now) = (&self.keys.name, gathered.now);
        let of = (self.keys.kind(), name);
        gathered.holds += state.held;
        let mut first = state.queue.iter().take(MAX_ENDED).filter(|waiter| !waiter.result_sender.is_closed());
        let since = first.next().or(state.queue.front()).map_or(now, |first| first.request.entered);
        gathered.add_waits(of, state.queue.len(), since);
        if !gathered.is_full {
            return;
        }
        if state.held > 0 && !self.keys.leased {
            gathered.add_held(of, (state.held_since, 0), |report| {
                report.label = state.plain_label.as_ref().map(|label| label.as_str().to_owned());
                report.entries = state.held;
            });
        }
        if let Some(tally) = &state.waits {
            gathered.contention.merge(of.0, name, (**tally).clone());
        }
    }

    /// Records that permits were lost.
    pub(super) fn note_lost(&self, permits: usize, reason: LostReason) {
        match permits {
            1 => self.registry.events.record(LOST, &self.keys.name, reason),
            _ => self.registry.events.record(LOST, &self.keys.name, format_args!("{permits} permits: {reason}")),
        }
    }

    /// Records a failed exchange: as a failed renewal if it had checks of leases, and as an unknown
    /// outcome if it may have acquired or returned permits.
    pub(super) fn note_failed(&self, exchange: &Exchange, error: &ServerError) {
        let (events, name) = (&self.registry.events, &self.keys.name);
        if !exchange.checks.is_empty() {
            events.record(RENEWAL_FAILED, name, error);
        }
        let changes = !exchange.requests.is_empty() || !exchange.returns.is_empty();
        if changes && !error.is_not_done() {
            events.record(UNKNOWN, name, format_args!("acquire or return of permits: {error}"));
        }
    }
}

impl SemaphoreRegistry {
    /// Adds the semaphores of the client to a report. Lets other tasks run after every [`PART`]
    /// semaphores.
    pub(crate) async fn report(&self, gathered: &mut Gathered) {
        let mut begin = 0;
        loop {
            let part: Vec<Arc<LocalSemaphore>> = {
                let state = self.state();
                if begin == 0 {
                    gathered.contention.merge_all(&state.contention);
                }
                state.semaphores.values().skip(begin).take(PART).cloned().collect()
            };
            if part.is_empty() {
                return;
            }
            for semaphore in &part {
                semaphore.report(gathered).await;
            }
            begin += PART;
            tokio::task::yield_now().await;
        }
    }
}
