//! A semaphore in this process: its waiters, the permits it holds, and the permits to be returned.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use redgrid_client::internal::Core;
use tokio::sync::Notify;

use super::error::{AcquireError, ReleaseError};
use super::exchange::SemaphoreKeys;
use super::permit_set::PermitSet;
use super::registry::SemaphoreRegistry;
use super::semaphore_state::{Extension, ReleaseSender, SemaphoreState};
use super::waiter::Waiter;
use crate::clock::{Clock, Instant};
use crate::config::Durability;
use crate::label::Label;
use crate::lease::LeaseMode;
use crate::lock::{InlineTask, LostReason};

/// A request for permits.
#[derive(Debug, Clone)]
// Not `#[non_exhaustive]`: only implementations of object types use it.
pub struct PermitRequest {
    /// The number of permits.
    pub permits: u64,
    /// The lease of each permit; `None` for permits without leases.
    pub lease: Option<LeaseMode>,
    /// Whether the request waits if the number of permits is not set yet. Otherwise it fails.
    pub awaits_init: bool,
    /// Whether the request is try-only: it fails if there are too few permits, instead of waiting.
    pub try_only: bool,
    /// How long the caller waits; `None` for no limit.
    pub wait: Option<Duration>,
    /// How durable the grant must be.
    pub durability: Durability,
    /// A text for reports about the client.
    pub label: Option<Label>,
}

/// Whether permits were granted. The caller must take them from the request's status within a
/// second. `false` if a try-only request found too few permits.
pub(super) type AcquireResult = Result<bool, AcquireError>;

/// Says which task runs the loop of a semaphore from now on.
///
/// Use it only after the state is unlocked, because polling the loop locks the state.
#[derive(Default)]
#[must_use]
pub(super) struct DriverHandoff {
    /// A new loop, which the caller can poll.
    inline: Option<InlineTask>,
    /// A loop that another caller polls. That caller may stop, so a task must continue the loop.
    to_background: Option<InlineTask>,
}

impl DriverHandoff {
    /// If another caller polls the loop, moves it to a task. If the loop is new, returns it, for
    /// this caller to poll.
    pub(super) fn into_inline(self, registry: &SemaphoreRegistry) -> Option<InlineTask> {
        self.to_background
            .and_then(|task| task.take())
            .into_iter()
            .for_each(|work| registry.core.spawn_background(work));
        self.inline
    }

    /// Moves the loop to a task: a new loop, or a loop that another caller polls.
    pub(super) fn into_background(self, registry: &SemaphoreRegistry) {
        let inline = self.into_inline(registry);
        inline.and_then(|task| task.take()).into_iter().for_each(|work| registry.core.spawn_background(work));
    }
}

/// A semaphore in this process.
pub(super) struct LocalSemaphore {
    pub(super) core: Arc<Core>,
    pub(super) registry: Arc<SemaphoreRegistry>,
    pub(super) keys: Arc<SemaphoreKeys>,
    pub(super) state: Mutex<SemaphoreState>,
    /// Wakes the loop.
    pub(super) wake: Arc<Notify>,
    /// Notified when a lease was lost.
    pub(super) lost: Notify,
}

impl LocalSemaphore {
    pub(super) fn new(registry: &Arc<SemaphoreRegistry>, keys: Arc<SemaphoreKeys>) -> Arc<LocalSemaphore> {
        Arc::new(LocalSemaphore {
            core: Arc::clone(&registry.core),
            registry: Arc::clone(registry),
            keys,
            state: Mutex::new(SemaphoreState::new()),
            wake: Arc::default(),
            lost: Notify::new(),
        })
    }

    pub(super) fn clock(&self) -> &Clock {
        &self.core.clock
    }

    /// Returns whether permits are held or being returned. Returns false while the state is locked.
    pub(super) fn holds(&self) -> bool {
        self.state.try_lock().is_ok_and(|state| state.held > 0 || !state.returns.is_empty())
    }

    pub(super) fn state(&self) -> MutexGuard<'_, SemaphoreState> {
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Returns the time of the last contact with the server.
    ///
    /// While the subscription is active, every contact with the server counts, not only replies
    /// about this semaphore.
    pub(super) fn contact(&self, state: &SemaphoreState) -> Instant {
        let subscribed = if state.is_subscribed { self.core.contact(&self.keys.key) } else { None };
        state.last_contact.max(subscribed.unwrap_or(Instant::MIN))
    }

    /// Wakes the loop if it runs, and starts it otherwise. The caller polls a new loop until
    /// another request needs the loop.
    pub(super) fn wake_or_start_loop(self: &Arc<Self>, state: &mut SemaphoreState) -> DriverHandoff {
        if state.loop_running {
            self.wake.notify_one();
            return DriverHandoff { inline: None, to_background: state.inline_loop.take() };
        }
        state.loop_running = true;
        let inline_loop = InlineTask::observed(&self.registry.unpolled, Box::pin(Arc::clone(self).run_loop()));
        state.inline_loop = Some(inline_loop.clone());
        DriverHandoff { inline: Some(inline_loop), to_background: None }
    }

    /// Adds a request to the queue. If the result is already known, sends the result instead.
    pub(super) fn enqueue(self: &Arc<Self>, waiter: Waiter) -> DriverHandoff {
        let now = self.clock().now();
        let mut state = self.state();
        if state.closed {
            waiter.end(Err(self.ended()));
            return DriverHandoff::default();
        }
        let has_waiters = state.queue.iter().any(|waiter| waiter.is_live(now));
        if state.yield_plan.as_ref().is_some_and(|(_, quiet_until)| now >= *quiet_until) {
            state.yield_plan = None;
            state.should_request = true;
        }
        let contact_timeout = self.core.settings.patience();
        if waiter.request.options.try_only && state.others_go_first(now) && now < self.contact(&state) + contact_timeout
        {
            waiter.end(Ok(false));
            return DriverHandoff::default();
        }
        // Only the first waiter triggers an exchange. The requests of later waiters are sent with
        // the first request or after it.
        state.should_request |= !has_waiters && state.yield_plan.is_none();
        state.push(waiter);
        self.wake_or_start_loop(&mut state)
    }

    /// Removes a request after its caller was dropped.
    pub(super) fn cancel(self: &Arc<Self>, id: u64) {
        let mut state = self.state();
        let Some(at) = state.queue.iter().position(|waiter| waiter.request.id == id) else { return };
        if let Some(waiter) = state.remove(at, self) {
            self.wait_ended(&mut state.waits, &waiter, || self.clock().now());
        }
        // The waiters behind the removed one may need fewer permits, so the loop checks whether
        // they can be served now.
        let handoff = self.wake_or_start_loop(&mut state);
        drop(state);
        handoff.into_background(&self.registry);
    }

    /// Queues an extension of leases. Each exchange carries at most one of the queued extensions.
    pub(super) fn extend(self: &Arc<Self>, extension: Extension) -> DriverHandoff {
        let mut state = self.state();
        if state.closed {
            return DriverHandoff::default();
        }
        state.extensions.push_back(extension);
        self.wake_or_start_loop(&mut state)
    }

    /// Passes released permits to a local waiter or to the server, and reports the outcome.
    pub(super) fn release(self: &Arc<Self>, permits: PermitSet, result_sender: Option<ReleaseSender>) -> DriverHandoff {
        let now = self.clock().now();
        let lost = permits.lost();
        let mut state = self.state();
        state.held = state.held.saturating_sub(permits.count);
        if state.closed {
            // `close` has returned these permits together with all others.
            drop(state);
            let result = lost.map_or(Ok(()), |reason| Err(self.lost_error(reason)));
            result_sender.map(|result_sender| result_sender.send(result));
            return DriverHandoff::default();
        }
        let has_waiters = state.queue.iter().any(|waiter| waiter.is_live(now));
        if has_waiters && lost.is_none() && state.yield_plan.is_none() && now < state.window_ends {
            state.idle_permits.merge(permits);
            result_sender.map(|result_sender| result_sender.send(Ok(())));
        } else {
            state.give_back(permits, result_sender);
        }
        self.wake_or_start_loop(&mut state)
    }

    /// Returns the error with which requests fail once the client is closing or has ended.
    pub(super) fn ended(&self) -> AcquireError {
        AcquireError::of(&self.keys.name, self.core.life.why())
    }

    /// Schedules the renewal task for the time at which the next lease of this process must be
    /// renewed, or ends.
    pub(super) fn wake_renewal(&self, state: &SemaphoreState) {
        self.registry.alarm.bring_forward(state.leases.next());
    }

    pub(super) fn lost_error(&self, reason: LostReason) -> ReleaseError {
        ReleaseError::Lost { name: self.keys.name.clone(), reason }
    }

    /// Gives permits up without returning them. Leased permits are available again when their lease
    /// ends. Permits without a lease are never available again.
    pub(super) fn forget(self: &Arc<Self>, permits: &PermitSet) {
        let mut state = self.state();
        state.held = state.held.saturating_sub(permits.count);
        state.forget(permits);
        drop(state);
        self.registry.remove_if_idle(self);
    }

    /// Returns whether the semaphore can be removed, because it has no state that is still needed.
    pub(super) fn is_idle(&self) -> bool {
        let state = self.state();
        let nothing = state.queue.is_empty()
            && state.idle_permits.is_empty()
            && state.returns.is_empty()
            && state.cancelled_positions.is_empty()
            && state.extensions.is_empty();
        nothing && !state.loop_running && state.held == 0 && state.leases.len() == 0
    }
}
