//! All semaphores of a client in this process.
//!
//! The registry finds them by name, renews their leases, and returns their permits when the client
//! shuts down.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use tokio::sync::{Notify, mpsc, oneshot};

use super::exchange::{SemaphoreId, SemaphoreKeys};
use super::local_semaphore::{AcquireFailure, AcquireResult, LocalSemaphore, PermitRequest};
use super::permit::Permit;
use super::permit_set::PermitSet;
use super::semaphore_state::{PendingReturn, RequestStatus};
use crate::clock::Instant;
use crate::connection::{Client, Core, Server, is_same};
use crate::lock::{BackgroundTask, InlineTask, LostReason};

/// All semaphores of a client in this process.
pub(crate) struct SemaphoreRegistry {
    core: Arc<Core>,
    background: mpsc::UnboundedSender<BackgroundTask>,
    state: Mutex<RegistryState>,
    /// The sequence number of the next exchange, and the id of the next request.
    next_sequence: AtomicU64,
    next_id: AtomicU64,
    /// When the renewal task wakes by itself, in nanoseconds, and what wakes it earlier.
    renewals_wake_at: AtomicU64,
    renewals_changed: Notify,
    renewals_running: AtomicBool,
}

#[derive(Default)]
struct RegistryState {
    semaphores: HashMap<SemaphoreId, Arc<LocalSemaphore>>,
    closed: bool,
}

impl SemaphoreRegistry {
    pub(crate) fn new(core: &Arc<Core>, background: mpsc::UnboundedSender<BackgroundTask>) -> Arc<SemaphoreRegistry> {
        Arc::new(SemaphoreRegistry {
            core: Arc::clone(core),
            background,
            state: Mutex::default(),
            next_sequence: AtomicU64::new(1),
            next_id: AtomicU64::new(1),
            renewals_wake_at: AtomicU64::new(Instant::MAX.as_nanos()),
            renewals_changed: Notify::new(),
            renewals_running: AtomicBool::new(false),
        })
    }

    fn state(&self) -> MutexGuard<'_, RegistryState> {
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    pub(super) fn next_sequence(&self) -> u64 {
        self.next_sequence.fetch_add(1, Ordering::Relaxed)
    }

    pub(super) fn next_id(&self) -> u64 {
        self.next_id.fetch_add(1, Ordering::Relaxed)
    }

    /// Runs `work` in a task of the client.
    pub(super) fn spawn_background(&self, work: BackgroundTask) {
        let _ = self.background.send(work);
    }

    /// Adds a request to the queue of a semaphore.
    pub(super) fn enqueue(
        self: &Arc<Self>,
        client: &Client,
        keys: &Arc<SemaphoreKeys>,
        request: PermitRequest,
        until: Instant,
        status: &Arc<RequestStatus>,
    ) -> (Arc<LocalSemaphore>, oneshot::Receiver<AcquireResult>, u64, Option<InlineTask>) {
        // Held until the request is queued: idle semaphores are removed under the same lock.
        let mut state = self.state();
        let new = || LocalSemaphore::new(&self.core, self, Arc::clone(keys));
        let semaphore = match state.closed {
            true => {
                let semaphore = new();
                semaphore.state().closed = true;
                semaphore
            }
            false => Arc::clone(state.semaphores.entry(keys.id()).or_insert_with(new)),
        };
        let (receiver, waiter_id, handoff) = semaphore.enqueue(client, request, until, status);
        // Unlocked first: polling an inline loop may take this lock.
        drop(state);
        (semaphore, receiver, waiter_id, handoff.into_inline(self))
    }

    /// Returns a guard without permits, or `None` if the client is shut down.
    pub(super) fn empty_permit(self: &Arc<Self>, client: &Client, keys: &Arc<SemaphoreKeys>) -> Option<Permit> {
        let state = self.state();
        if state.closed {
            return None;
        }
        let semaphore = state.semaphores.get(&keys.id()).cloned();
        let semaphore = semaphore.unwrap_or_else(|| LocalSemaphore::new(&self.core, self, Arc::clone(keys)));
        Some(Permit::new(client.clone(), semaphore, PermitSet::default()))
    }

    /// Removes a semaphore that is not in use.
    pub(super) fn remove_if_idle(&self, semaphore: &Arc<LocalSemaphore>) {
        let id = semaphore.keys.id();
        let mut state = self.state();
        if semaphore.is_idle() && state.semaphores.get(&id).is_some_and(|registered| Arc::ptr_eq(registered, semaphore))
        {
            state.semaphores.remove(&id);
        }
    }

    /// Returns the names of semaphores with permits that are held or on their way back.
    ///
    /// Semaphores whose state is locked at the moment are left out.
    pub(crate) fn held_names(&self) -> Vec<String> {
        let Ok(state) = self.state.try_lock() else { return Vec::new() };
        let semaphores: Vec<_> = state.semaphores.values().cloned().collect();
        drop(state);
        let holds = |semaphore: &Arc<LocalSemaphore>| semaphore.holds();
        semaphores
            .iter()
            .filter(|semaphore| holds(semaphore))
            .map(|semaphore| semaphore.keys.name.to_string())
            .collect()
    }

    /// Counts semaphores, held permits and waiting requests, for tests and diagnosis.
    pub(crate) fn stats(&self) -> (usize, usize, usize) {
        let semaphores: Vec<_> = self.state().semaphores.values().cloned().collect();
        semaphores.iter().fold((0, 0, 0), |(names, held, waiting), semaphore| {
            let state = semaphore.state();
            let live = state.queue.iter().filter(|waiter| !waiter.result_sender.is_closed()).count();
            (names + 1, held + usize::try_from(state.held).unwrap_or(usize::MAX), waiting + live)
        })
    }

    /// Makes the renewal task run at `at` if it would not run earlier. Starts the task if needed.
    pub(super) fn schedule_renewals(self: &Arc<Self>, at: Instant) {
        if at == Instant::MAX {
            return;
        }
        if !self.renewals_running.swap(true, Ordering::AcqRel) {
            self.spawn_background(Box::pin(Arc::clone(self).run_renewals()));
        }
        if at.as_nanos() < self.renewals_wake_at.load(Ordering::Acquire) {
            self.renewals_changed.notify_one();
        }
    }

    /// Renews leases as long as there are any.
    async fn run_renewals(self: Arc<Self>) {
        loop {
            // Until the next wake-up is known, every call of `schedule_renewals` wakes the task.
            self.renewals_wake_at.store(Instant::MAX.as_nanos(), Ordering::Release);
            let semaphores: Vec<_> = self.state().semaphores.values().cloned().collect();
            let next = semaphores.iter().map(LocalSemaphore::renew_due).min().unwrap_or(Instant::MAX);
            self.renewals_wake_at.store(next.as_nanos(), Ordering::Release);
            if next == Instant::MAX {
                self.renewals_running.store(false, Ordering::Release);
                // A lease that was added in between is found here, or has started another task.
                let none = self.state().semaphores.values().all(|semaphore| semaphore.state().renew_at == Instant::MAX);
                if none || self.renewals_running.swap(true, Ordering::AcqRel) {
                    return;
                }
                continue;
            }
            tokio::select! {
                () = self.renewals_changed.notified() => {}
                () = self.core.clock.sleep_until(next) => {}
            }
        }
    }

    /// Checks the leases of a node, because the server behind it may have lost them.
    pub(crate) fn verify_node(self: &Arc<Self>, server: &Arc<dyn Server>) {
        self.verify(|semaphore| is_same(&self.core.home(&semaphore.keys.key), server));
    }

    /// Checks all leases: their keys may have moved to another server.
    pub(crate) fn verify_all(self: &Arc<Self>) {
        self.verify(|_| true);
    }

    fn verify(self: &Arc<Self>, concerned: impl Fn(&LocalSemaphore) -> bool) {
        let now = self.core.clock.now();
        let semaphores: Vec<_> = self.state().semaphores.values().cloned().collect();
        for semaphore in semaphores.iter().filter(|semaphore| concerned(semaphore)) {
            let mut state = semaphore.state();
            if !state.leases.is_empty() {
                state.leases.values().for_each(|lease| lease.make_due());
                state.renew_at = state.renew_at.min(now);
                self.schedule_renewals(now);
            }
        }
    }

    /// Rejects new requests, ends the wait of all others, and returns all permits.
    pub(crate) fn close(self: &Arc<Self>) {
        let semaphores: Vec<_> = {
            let mut state = self.state();
            state.closed = true;
            state.semaphores.values().cloned().collect()
        };
        for semaphore in semaphores {
            semaphore.close();
        }
        // Wakes the renewal task even if the last semaphore was removed since it last ran.
        self.renewals_changed.notify_one();
    }
}

impl LocalSemaphore {
    /// Marks expired leases as lost and triggers the renewal of due ones.
    ///
    /// Returns when the next one is due.
    fn renew_due(self: &Arc<Self>) -> Instant {
        let now = self.clock().now();
        let mut state = self.state();
        if state.renew_at > now {
            return state.renew_at;
        }
        let expired: Vec<_> = state.leases.values().filter(|lease| now >= lease.deadline()).cloned().collect();
        for lease in &expired {
            lease.mark_lost(LostReason::Expired);
            state.leases.remove(&lease.id);
        }
        if state.next_due() <= now {
            let handoff = self.wake_or_start_loop(&mut state);
            let next = now + self.core.settings.retry_delay.max(std::time::Duration::from_millis(50));
            drop(state);
            handoff.into_background(&self.registry);
            self.notify_losses(&expired);
            return next;
        }
        self.schedule_renewal(&mut state, now);
        let next = state.renew_at;
        drop(state);
        self.notify_losses(&expired);
        next
    }

    fn notify_losses(self: &Arc<Self>, expired: &[Arc<super::permit_set::PermitLease>]) {
        if !expired.is_empty() {
            self.lost.notify_waiters();
            self.registry.remove_if_idle(self);
        }
    }

    fn close(self: &Arc<Self>) {
        let mut state = self.state();
        state.closed = true;
        while let Some(waiter) = state.remove(0, self) {
            let _ = waiter.result_sender.send(Err(AcquireFailure::ShuttingDown));
        }
        state.extensions.clear();
        let leases: Vec<_> = state.leases.drain().map(|(_, lease)| lease).collect();
        let plain = if self.keys.leased { 0 } else { state.held + state.idle_permits.count };
        state.held = 0;
        state.idle_permits = PermitSet::default();
        for lease in &leases {
            lease.mark_lost(LostReason::ShutDown);
        }
        state.renew_at = Instant::MAX;
        let permits = PermitSet { count: plain + leases.len() as u64, leases, ..PermitSet::default() };
        if !permits.is_empty() {
            state.returns.push(PendingReturn { permits, result_sender: None });
        }
        let handoff = self.wake_or_start_loop(&mut state);
        drop(state);
        handoff.into_background(&self.registry);
        self.lost.notify_waiters();
    }
}
