//! Releases all holds when the client shuts down.

use std::sync::Arc;
use std::time::Duration;

use redgrid_client::ClientStats;
use redgrid_client::internal::RetryPolicy;

use super::cleanup::BULK;
use super::error::{AcquireFailure, LostReason};
use super::hold::{Hold, ServerLease};
use super::release::ReleaseMode;
use super::table::Table;
use crate::clock::Instant;
use crate::unpolled::BackgroundTask;

impl Table {
    /// Returns the numbers of locks that are held or waited for, of server leases that are renewed
    /// or verified, and of waiting requests.
    pub(crate) fn stats(&self) -> ClientStats {
        let state = self.state();
        let waiters = state.locks.values().flat_map(|lock| &lock.queue);
        let waiting = waiters.filter(|waiter| !waiter.answer.is_closed()).count();
        ClientStats { names: state.locks.len(), holds: state.schedule.len(), waiting, ..ClientStats::default() }
    }

    /// Returns the names of the locks with a server lease: those that are held, and those whose
    /// release was not answered yet. Locks with only forgotten holds are left out. Returns an empty
    /// list if the table is locked.
    pub(crate) fn held_names(&self) -> Vec<String> {
        // The drop of a client's last handle calls this method: it can happen while the table is
        // locked, and must not wait.
        let Ok(state) = self.state.try_lock() else { return Vec::new() };
        let held = state.locks.values().filter(|lock| lock.server_lease.is_some() && !lock.is_forgotten());
        held.map(|lock| lock.keys.name.to_string()).collect()
    }

    /// Shuts the table down: rejects new requests, wakes all waiters, ends all holds and releases
    /// them in bulk.
    ///
    /// Returns the background tasks that complete the shutdown.
    pub(crate) fn close(self: &Arc<Self>) -> Vec<BackgroundTask> {
        let mut state = self.state();
        state.closed = true;
        let mut waiting = Vec::new();
        let mut inline_tasks = Vec::new();
        for lock in state.locks.values_mut() {
            for waiter in std::mem::take(&mut lock.queue) {
                self.release_position_of(lock, &waiter.request);
                waiting.push(waiter.answer);
            }
            self.take_out_served(lock);
            lock.notify_loop();
            // Background tasks finish the inline tasks, because the callers may stop polling.
            inline_tasks.extend(lock.inline_task.take());
        }
        let server_leases = state.schedule.drain();
        let mut held = Vec::new();
        for server_lease in server_leases.into_iter().filter(|server_lease| server_lease.end()) {
            let key = server_lease.lock_id();
            let Some(lock) = state.locks.get_mut(&key).filter(|lock| lock.has(&server_lease)) else { continue };
            lock.server_lease = None;
            // A forgotten hold is not released: it ends with its lease.
            let forgotten = lock.is_forgotten();
            let keep_until = lock.holds.iter().map(|hold| retained_after_shutdown(hold)).max().unwrap_or(Instant::MIN);
            for hold in &lock.holds {
                hold.mark_ended(Some(LostReason::ShutDown));
            }
            for hold in lock.holds.drain(..) {
                hold.notify_ended();
            }
            if !forgotten {
                held.push((server_lease, keep_until));
            }
            state.remove_if_idle(&key);
        }
        drop(state);
        for answer in waiting {
            let _ = answer.send(Err(AcquireFailure::ShuttingDown));
        }
        let now = self.now();
        let mut work: Vec<BackgroundTask> =
            inline_tasks.iter().filter_map(|(_, inline_task)| inline_task.take()).collect();
        let (keeping, plain): (Vec<_>, Vec<_>) = held
            .into_iter()
            .partition(|(server_lease, keep_until)| *keep_until > now || server_lease.retransmission_ends().is_some());
        for (server_lease, keep_until) in keeping {
            let table = Arc::clone(self);
            work.push(Box::pin(async move {
                table.release(&server_lease, keep_until, false).await;
            }));
        }
        let mut plain: Vec<_> = plain.into_iter().map(|(server_lease, _)| server_lease).collect();
        let place = |server_lease: &Arc<ServerLease>| {
            (server_lease.protocol.name(), self.core.topology.slot(&server_lease.keys.key))
        };
        plain.sort_by_key(place);
        let together = |a: &Arc<ServerLease>, b: &Arc<ServerLease>| place(a) == place(b);
        for group in plain.chunk_by(together) {
            for part in group.chunks(BULK) {
                let (table, part) = (Arc::clone(self), part.to_vec());
                work.push(Box::pin(async move { table.release_many(&part).await }));
            }
        }
        work
    }

    async fn release_many(&self, server_leases: &[Arc<ServerLease>]) {
        let Some(first) = server_leases.first() else { return };
        let fields: Vec<_> = server_leases.iter().map(|server_lease| self.core.field(server_lease.id)).collect();
        let each = server_leases.iter().zip(&fields);
        let claims: Vec<_> = each.map(|(server_lease, field)| server_lease.claim(field, Duration::ZERO)).collect();
        let request = first.protocol.release_many(&claims);
        let until = self.now() + self.core.settings.patience();
        let outcome = self.core.give_back(request, until, RetryPolicy::Together).await;
        if outcome.result.is_err() && server_leases.len() > 1 {
            // The server may have rejected the whole request because of one invalid key or a slot
            // migration: release the locks one by one.
            for server_lease in server_leases {
                self.send_release(server_lease, ReleaseMode::Release, until).await;
            }
        }
    }
}

/// Returns the time until which a hold keeps its lock taken after a shutdown. For a forgotten hold,
/// that is the end of its lease.
fn retained_after_shutdown(hold: &Hold) -> Instant {
    let is_forgotten = !hold.is_guarded() && hold.ends() != Instant::MAX;
    hold.retained_until().max(if is_forgotten { hold.ends() } else { Instant::MIN })
}
