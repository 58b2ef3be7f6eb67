//! All semaphores of a client in this process.
//!
//! The registry finds semaphores by name, renews their leases, and returns their permits when the
//! client shuts down.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use redgrid_client::internal::{Core, is_same};
use redgrid_client::{Client, ClientStats, Server};

use super::exchange::{SemaphoreId, SemaphoreKeys};
use super::local_semaphore::{DriverHandoff, LocalSemaphore};
use super::permit::Permit;
use super::permit_set::PermitSet;
use super::waiter::Waiter;
use crate::clock::Instant;
use crate::introspection::{Contention, EventLog};
use crate::lease::Wakeup;
use crate::lock::LostReason;
use crate::unpolled::UnpolledRegistry;

/// All semaphores of a client in this process.
pub(crate) struct SemaphoreRegistry {
    pub(super) core: Arc<Core>,
    pub(super) unpolled: Arc<UnpolledRegistry>,
    pub(super) events: Arc<EventLog>,
    state: Mutex<RegistryState>,
    /// The next number to assign. For an exchange, the number is its sequence number; for a request
    /// for permits, its id.
    next_number: AtomicU64,
    /// The next wake-up of the renewal loop.
    pub(super) alarm: Wakeup,
}

#[derive(Default)]
pub(super) struct RegistryState {
    pub(super) semaphores: HashMap<SemaphoreId, Arc<LocalSemaphore>>,
    /// Statistics of the waits for semaphores that are no longer in use.
    pub(super) contention: Contention,
    closed: bool,
}

impl SemaphoreRegistry {
    pub(crate) fn new(core: Arc<Core>, unpolled: Arc<UnpolledRegistry>, events: Arc<EventLog>) -> Arc<Self> {
        Arc::new(SemaphoreRegistry {
            core,
            unpolled,
            events,
            state: Mutex::default(),
            next_number: AtomicU64::new(1),
            alarm: Wakeup::default(),
        })
    }

    pub(super) fn state(&self) -> MutexGuard<'_, RegistryState> {
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    fn semaphores(&self) -> Vec<Arc<LocalSemaphore>> {
        self.state().semaphores.values().cloned().collect()
    }

    pub(super) fn next_number(&self) -> u64 {
        self.next_number.fetch_add(1, Ordering::Relaxed)
    }

    /// Adds a request to the queue of a semaphore.
    pub(super) fn enqueue(
        self: &Arc<Self>,
        keys: &Arc<SemaphoreKeys>,
        waiter: Waiter,
    ) -> (Arc<LocalSemaphore>, DriverHandoff) {
        // The mutex stays locked until the request is queued. Otherwise the semaphore could be
        // removed as idle before that.
        let mut state = self.state();
        let new = || LocalSemaphore::new(self, Arc::clone(keys));
        let semaphore = match state.closed {
            true => {
                let semaphore = new();
                semaphore.state().closed = true;
                semaphore
            }
            false => Arc::clone(state.semaphores.entry(keys.id()).or_insert_with(new)),
        };
        let handoff = semaphore.enqueue(waiter);
        (semaphore, handoff)
    }

    /// Returns a guard without permits, or `None` if the client is shut down.
    pub(super) fn empty_permit(self: &Arc<Self>, client: &Client, keys: &Arc<SemaphoreKeys>) -> Option<Permit> {
        let state = self.state();
        if state.closed {
            return None;
        }
        let semaphore = state.semaphores.get(&keys.id()).cloned();
        let semaphore = semaphore.unwrap_or_else(|| LocalSemaphore::new(self, Arc::clone(keys)));
        Some(Permit::new(client.clone(), semaphore, PermitSet::default()))
    }

    /// Removes a semaphore if it is not in use.
    pub(super) fn remove_if_idle(&self, semaphore: &Arc<LocalSemaphore>) {
        let id = semaphore.keys.id();
        let mut state = self.state();
        if semaphore.is_idle() && state.semaphores.get(&id).is_some_and(|registered| Arc::ptr_eq(registered, semaphore))
        {
            state.semaphores.remove(&id);
            if let Some(tally) = semaphore.state().waits.take() {
                state.contention.merge(semaphore.keys.kind(), &semaphore.keys.name, *tally);
            }
        }
    }

    /// Returns the names of semaphores with permits that are held or being returned.
    ///
    /// Semaphores whose state is currently locked are left out.
    pub(crate) fn held_names(&self) -> Vec<String> {
        let Ok(state) = self.state.try_lock() else { return Vec::new() };
        let semaphores: Vec<_> = state.semaphores.values().cloned().collect();
        drop(state);
        let held = semaphores.iter().filter(|semaphore| semaphore.holds());
        held.map(|semaphore| semaphore.keys.name.to_string()).collect()
    }

    /// Counts semaphores, held permits and waiting requests, for tests and diagnosis.
    pub(crate) fn stats(&self) -> ClientStats {
        let mut stats = ClientStats::default();
        for semaphore in self.semaphores() {
            let state = semaphore.state();
            stats.names += 1;
            stats.holds += usize::try_from(state.held).unwrap_or(usize::MAX);
            stats.waiting += state.queue.iter().filter(|waiter| !waiter.result_sender.is_closed()).count();
        }
        stats
    }

    /// Runs the renewal loop; it ends when its task is aborted.
    pub(crate) async fn run_renewals(self: Arc<Self>) {
        loop {
            self.alarm.elapsed(&self.core.clock).await;
            self.alarm.set(Instant::MAX);
            self.semaphores().iter().for_each(LocalSemaphore::renew_due);
        }
    }

    /// Schedules a check of the leases on a node, because the server may have lost them.
    pub(crate) fn verify_node(&self, server: &Arc<dyn Server>) {
        self.verify(|semaphore| is_same(&self.core.home(&semaphore.keys.key), server));
    }

    /// Schedules a check of all leases, because their keys may have moved to another server.
    pub(crate) fn verify_all(&self) {
        self.verify(|_| true);
    }

    fn verify(&self, concerned: impl Fn(&LocalSemaphore) -> bool) {
        let now = self.core.clock.now();
        for semaphore in self.semaphores().iter().filter(|semaphore| concerned(semaphore)) {
            let mut state = semaphore.state();
            state.leases.reschedule_all(now, |_| true);
            semaphore.wake_renewal(&state);
        }
    }

    /// Rejects new requests, ends pending requests, and returns all permits.
    pub(crate) fn close(self: &Arc<Self>) {
        self.state().closed = true;
        self.semaphores().iter().for_each(LocalSemaphore::close);
    }
}

impl LocalSemaphore {
    /// Marks expired leases as lost, and starts the renewals and checks that are due.
    fn renew_due(self: &Arc<Self>) {
        let now = self.clock().now();
        // Renewals that are due soon are sent in the same exchange.
        let soon = now + self.core.settings.watchdog_lease / 6;
        let mut state = self.state();
        let expired = state.leases.ended(now, soon);
        for lease in &expired {
            lease.mark_lost(&self.keys.name, LostReason::Expired);
            state.leases.remove(lease.id);
        }
        let due = state.leases.take_due(now, soon, usize::MAX);
        let mut handoff = DriverHandoff::default();
        if !due.is_empty() {
            state.due.extend(due);
            handoff = self.wake_or_start_loop(&mut state);
        }
        self.wake_renewal(&state);
        drop(state);
        handoff.into_background(&self.registry);
        if !expired.is_empty() {
            self.note_lost(expired.len(), LostReason::Expired);
            self.lost.notify_waiters();
            self.registry.remove_if_idle(self);
        }
    }

    fn close(self: &Arc<Self>) {
        let mut state = self.state();
        state.closed = true;
        while let Some(waiter) = state.remove(0, self) {
            waiter.end(Err(self.ended()));
        }
        state.extensions.clear();
        let leases = state.leases.drain();
        let plain = if self.keys.leased { 0 } else { state.held + state.idle_permits.count };
        state.held = 0;
        state.idle_permits = PermitSet::default();
        for lease in &leases {
            lease.mark_lost(&self.keys.name, LostReason::ShutDown);
        }
        let permits = PermitSet { count: plain + leases.len() as u64, leases, ..PermitSet::default() };
        if !permits.is_empty() {
            state.give_back(permits, None);
        }
        let handoff = self.wake_or_start_loop(&mut state);
        drop(state);
        handoff.into_background(&self.registry);
        self.lost.notify_waiters();
    }
}
