//! The state of a semaphore in this process. The next exchange is built from this state.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use redgrid_client::UNSUBSCRIBED_POLL;
use redgrid_client::internal::Progress;
use tokio::sync::oneshot;

use super::error::ReleaseError;
use super::exchange::{CLIENT_TTL, Exchange, LeaseCheck, RequestArgs, server_lease};
use super::local_semaphore::{LocalSemaphore, PermitRequest};
use super::permit::Permit;
use super::permit_set::{PermitId, PermitLease, PermitSet};
use super::waiter::Waiter;
use crate::clock::Instant;
use crate::config::Durability;
use crate::introspection::Tally;
use crate::label::Label;
use crate::lease::{LeaseMode, Schedule, deadline, retry_pause};
use crate::lock::{ExtendError, InlineTask, Phantom, YieldPlan};

/// Maximum number of requests in one exchange. With this limit and [`MAX_IDS`], the script of an
/// exchange runs for a few milliseconds at most.
const MAX_REQUESTS: usize = 64;
/// Maximum number of ids in one exchange. The limit applies separately to returns, checks and
/// requests.
pub(super) const MAX_IDS: usize = 500;

pub(super) type ReleaseSender = oneshot::Sender<Result<(), ReleaseError>>;

/// Permits to be returned to the server, and the sender for the outcome.
pub(super) struct PendingReturn {
    pub(super) permits: PermitSet,
    pub(super) result_sender: Option<ReleaseSender>,
}

/// An extension that a caller has requested, and the sender for its outcome.
pub(super) struct Extension {
    pub(super) leases: Vec<Arc<PermitLease>>,
    pub(super) lease: LeaseMode,
    pub(super) result_sender: oneshot::Sender<Result<(), ExtendError>>,
    pub(super) progress: Arc<Progress>,
}

/// The state of a semaphore in this process.
#[derive(Default)]
pub(super) struct SemaphoreState {
    pub(super) queue: VecDeque<Waiter>,
    /// No waiter times out before this time.
    pub(super) first_timeout: Instant,
    /// Whether try-only requests may be in the queue.
    has_tries: bool,
    /// Permits of this process that no guard holds.
    pub(super) idle_permits: PermitSet,
    /// Permits to be returned to the server.
    pub(super) returns: Vec<PendingReturn>,
    /// Positions of ended requests in the server queue, to be removed by an exchange.
    pub(super) cancelled_positions: Vec<Bytes>,
    /// Pending extensions, in the order in which they were requested. Each exchange carries at most
    /// one extension, and one exchange is in flight at a time. So the extensions are executed in
    /// this order, and the last extension of a lease decides its end.
    pub(super) extensions: VecDeque<Extension>,
    /// Number of permits that guards hold.
    pub(super) held: u64,
    /// Leases of this process: of guards, and of permits that no guard holds.
    pub(super) leases: Schedule<PermitLease>,
    /// Leases that the next exchanges renew or check.
    pub(super) due: Vec<Arc<PermitLease>>,
    /// Whether the loop runs: in a task, or polled by a caller.
    pub(super) loop_running: bool,
    /// The loop that a caller polls. It may have moved to a task meanwhile. `None` if the loop
    /// certainly runs in a task, or if no loop runs.
    pub(super) inline_loop: Option<InlineTask>,
    /// Whether the next exchange requests permits for the waiters.
    pub(super) should_request: bool,
    /// Number of available permits after the last reply; `i64::MAX` if unknown.
    pub(super) left: i64,
    /// When the hand-over window ends.
    pub(super) window_ends: Instant,
    /// Set while other processes go first. The instant is the end of the quiet period. From then
    /// on, this process requests permits again in any case.
    pub(super) yield_plan: Option<(YieldPlan, Instant)>,
    /// Number of available permits when the yield began.
    pub(super) left_at_yield: i64,
    /// Subscribers that never acquire permits.
    pub(super) phantom: Phantom,
    /// Set when a yield has ended: the number of subscribers, and how many of them published no
    /// message during the yield. A message shows that its sender had permits. The next reply to a
    /// request for permits decides whether the subscribers without a message may be phantoms.
    pub(super) quiet_yield: Option<(u64, u64)>,
    /// Whether the last reply left too few permits for a waiter.
    pub(super) contended: bool,
    /// When the loop polls next if no message arrives.
    pub(super) poll_at: Instant,
    /// When the first lease of any process ends.
    pub(super) next_lease_end: Instant,
    /// Progress of the exchange in flight.
    pub(super) underway: Option<Arc<Progress>>,
    /// When the server last answered.
    pub(super) last_contact: Instant,
    pub(super) is_subscribed: bool,
    /// Before this time, refused returns are not sent again. `refusals` counts the refusals in a
    /// row.
    pub(super) paused_until: Instant,
    pub(super) refusals: u32,
    /// Whether the server refused an exchange that combined requests with returns or checks. If so,
    /// the next exchange with returns or checks carries no requests.
    pub(super) send_separately: bool,
    pub(super) closed: bool,
    /// The time since which guards have held permits without leases.
    pub(super) held_since: Instant,
    /// The label of the held permits without leases, if all of them have the same label.
    pub(super) plain_label: Option<Label>,
    /// Statistics of how long tasks waited for permits; `None` before the first wait.
    pub(super) waits: Option<Box<Tally>>,
}

impl SemaphoreState {
    pub(super) fn new() -> SemaphoreState {
        let never = Instant::MAX;
        let (first_timeout, poll_at, next_lease_end) = (never, never, never);
        SemaphoreState { first_timeout, poll_at, next_lease_end, left: i64::MAX, ..SemaphoreState::default() }
    }

    /// Queues permits to be returned to the server.
    pub(super) fn give_back(&mut self, permits: PermitSet, result_sender: Option<ReleaseSender>) {
        self.forget(&permits);
        self.returns.push(PendingReturn { permits, result_sender });
    }

    /// Stops the renewal of permits.
    pub(super) fn forget(&mut self, permits: &PermitSet) {
        for lease in &permits.leases {
            self.leases.remove(lease.id);
        }
    }

    /// Schedules another attempt after a failed renewal or check of a lease.
    pub(super) fn retry_renewal(&mut self, lease: &PermitLease, now: Instant) {
        self.leases.reschedule(lease.id, now + retry_pause(lease.mode.duration()));
    }

    pub(super) fn push(&mut self, mut waiter: Waiter) {
        waiter.has_waited = self.contended;
        self.first_timeout = self.first_timeout.min(waiter.request.until);
        self.has_tries |= waiter.request.options.try_only;
        self.queue.push_back(waiter);
    }

    /// Removes a waiter that gets no grant. The next exchange cancels its position in the server
    /// queue.
    pub(super) fn remove(&mut self, at: usize, semaphore: &LocalSemaphore) -> Option<Waiter> {
        let waiter = self.queue.remove(at)?;
        waiter.cancel_position(semaphore, &mut self.cancelled_positions, &mut self.should_request);
        Some(waiter)
    }

    /// Removes waiters that have timed out. (If a caller is dropped, its waiter is removed at
    /// once.)
    pub(super) fn prune(&mut self, semaphore: &LocalSemaphore, now: Instant) {
        if now < self.first_timeout {
            return;
        }
        let SemaphoreState { queue, cancelled_positions, should_request, waits, .. } = self;
        queue.retain(|waiter| {
            let live = waiter.is_live(now);
            if !live {
                semaphore.wait_ended(waits, waiter, || now);
                waiter.cancel_position(semaphore, cancelled_positions, should_request);
            }
            live
        });
        self.first_timeout = self.queue.iter().map(|waiter| waiter.request.until).min().unwrap_or(Instant::MAX);
    }

    /// Returns whether try-only requests fail because other requests go first, in this process or
    /// elsewhere.
    pub(super) fn others_go_first(&self, now: Instant) -> bool {
        let is_waiting = |waiter: &Waiter| !waiter.request.options.try_only && waiter.is_live(now);
        self.yield_plan.is_some() || self.contended && self.queue.iter().any(is_waiting)
    }

    /// Rejects try-only requests if other requests go first.
    pub(super) fn reject_try_waiters(&mut self, now: Instant) {
        if !self.has_tries || !self.others_go_first(now) {
            return;
        }
        self.has_tries = false;
        for at in (0..self.queue.len()).rev() {
            if self.queue[at].request.options.try_only
                && let Some(waiter) = self.queue.remove(at)
            {
                waiter.end(Ok(false));
            }
        }
    }

    /// Returns whether an exchange might grant permits to the first waiters.
    ///
    /// The result is true in three cases. In any semaphore: a try-only request is among the first
    /// waiters. In a fair semaphore: the request of one of the first waiters was not sent yet. In
    /// any other semaphore: the last reply left enough permits for the first waiter.
    fn has_unrequested(&self, fair: bool) -> bool {
        let may_be_granted =
            |waiter: &Waiter| i64::try_from(waiter.request.options.permits).is_ok_and(|permits| permits <= self.left);
        if !fair && self.queue.front().is_some_and(may_be_granted) {
            return true;
        }
        let is_unrequested = |waiter: &Waiter| waiter.request.options.try_only || fair && !waiter.may_be_queued;
        (fair || self.has_tries) && self.queue.iter().take(self.batch_len()).any(is_unrequested)
    }

    /// Returns the number of waiters for which the next exchange requests permits.
    ///
    /// The waiters are at the front of the queue, request the same durability, and together need at
    /// most [`MAX_IDS`] ids. If the first waiter alone needs more ids, it is the only one.
    fn batch_len(&self) -> usize {
        let durability = self.queue.front().map(|first| first.request.options.durability);
        let mut ids = 0;
        let fits = |(nth, waiter): &(usize, &Waiter)| {
            ids += if waiter.request.options.lease.is_some() { waiter.request.options.permits } else { 0 };
            Some(waiter.request.options.durability) == durability && (*nth == 0 || ids <= MAX_IDS as u64)
        };
        self.queue.iter().take(MAX_REQUESTS).enumerate().take_while(fits).count()
    }

    /// Updates `contended`: whether too few permits are left for a waiter.
    pub(super) fn update_contention(&mut self, fair: bool) {
        let first = self.queue.iter().find(|waiter| !waiter.request.options.try_only);
        self.contended = first.is_some_and(|waiter| match fair {
            true => waiter.may_be_queued,
            false => i64::try_from(waiter.request.options.permits).is_ok_and(|permits| permits > self.left),
        });
    }

    /// Serves the first waiters from permits that no guard holds.
    pub(super) fn serve_from_idle(&mut self, semaphore: &Arc<LocalSemaphore>, now: Instant) {
        if self.yield_plan.is_some() || now >= self.window_ends {
            return;
        }
        while let Some(first) = self.queue.front() {
            let (count, mode) = (first.request.options.permits, first.request.options.lease);
            if count > self.idle_permits.count
                || !self.idle_permits.satisfies(mode, first.request.options.durability, now)
            {
                return;
            }
            let Some(waiter) = self.queue.pop_front() else { return };
            let permits = self.idle_permits.split(count);
            permits.leases.iter().for_each(|lease| *lease.owner.lock() = (now, waiter.request.options.label.clone()));
            self.grant(semaphore, waiter, permits, now);
        }
    }

    /// Grants permits of this process to a waiter. The waiting caller has one second to take them.
    ///
    /// If the caller was dropped meanwhile, the permits become idle again.
    pub(super) fn grant(&mut self, semaphore: &Arc<LocalSemaphore>, waiter: Waiter, permits: PermitSet, now: Instant) {
        if waiter.result_sender.is_closed() {
            self.idle_permits.merge(permits);
            return;
        }
        semaphore.wait_ended(&mut self.waits, &waiter, || now);
        self.note_plain(&permits, &waiter.request.options, now);
        self.held += permits.count;
        waiter.request.offer(Permit::new(waiter.client, Arc::clone(semaphore), permits));
        semaphore.registry.unpolled.register_unclaimed(&waiter.request);
        // The caller drops its own `status` only after it has locked this state, or after it has
        // taken the permits. So no permits are dropped here, where the drop would deadlock.
        if waiter.result_sender.send(Ok(true)).is_err()
            && let Some(permit) = waiter.request.take()
        {
            let permits = permit.disarm();
            self.held -= permits.count;
            self.idle_permits.merge(permits);
        }
    }

    /// Builds the next exchange, or returns `None` if nothing is to be sent.
    pub(super) fn next_exchange(&mut self, semaphore: &LocalSemaphore, now: Instant) -> Option<Exchange> {
        let has_waiters = !self.queue.is_empty();
        let window_over = now >= self.window_ends;
        if !self.idle_permits.is_empty() {
            // No waiter could be served with the idle permits, so they are returned.
            let permits = std::mem::take(&mut self.idle_permits);
            self.give_back(permits, None);
        }
        let paused = now < self.paused_until && !self.closed;
        let mut exchange = Exchange::default();
        if !paused {
            exchange.returns = self.take_returns();
        }
        let has_returns = !exchange.returns.is_empty();
        exchange.ends_window =
            has_returns && has_waiters && window_over && !semaphore.keys.fair && self.yield_plan.is_none();
        let wanted = self.should_request || has_returns || self.has_unrequested(semaphore.keys.fair);
        let separately = self.send_separately && (has_returns || !self.due.is_empty());
        self.send_separately &= !separately;
        let requests_permits =
            has_waiters && self.yield_plan.is_none() && !exchange.ends_window && wanted && !separately;
        self.should_request |= separately && has_waiters;
        if requests_permits || !paused {
            exchange.cancelled_positions = std::mem::take(&mut self.cancelled_positions);
        }
        exchange.extension = self.next_extension();
        exchange.checks = self.take_checks(exchange.extension.as_ref());
        if let Some(Extension { leases, lease: mode, .. }) = &exchange.extension {
            let duration = server_lease(*mode);
            for lease in leases {
                // An exact end may shorten a lease. The lease of a renewed permit is never
                // shortened.
                let exact = !lease.is_renewed();
                if exact {
                    // From now on, the server may have the new end of the lease. If the new end is
                    // earlier than the old one, it applies locally at once.
                    lease.shorten(deadline(now, duration), now);
                    self.leases.moved(lease.id);
                    semaphore.lost.notify_waiters();
                }
                exchange.checks.push(LeaseCheck { lease: Arc::clone(lease), duration, exact });
            }
        }
        if requests_permits {
            self.should_request = false;
            exchange.durability =
                self.queue.front().map_or(Durability::Primary, |first| first.request.options.durability);
            let batch_len = self.batch_len();
            for waiter in self.queue.iter_mut().take(batch_len) {
                waiter.request.set_exchange(Some((&exchange.progress, now)));
                waiter.may_be_queued = semaphore.keys.fair && !waiter.request.options.try_only;
                let position = match waiter.may_be_queued {
                    true => waiter.queue_position(&semaphore.core.id),
                    false => Bytes::new(),
                };
                let PermitRequest { permits, lease, .. } = waiter.request.options;
                let ids = (0..if lease.is_some() { permits } else { 0 }).map(|_| PermitId::new()).collect();
                exchange.requests.push(RequestArgs { request: Arc::clone(&waiter.request), position, ids });
            }
        }
        (!exchange.is_empty()).then_some(exchange)
    }

    /// Takes the first extension whose caller still waits. Drops the extensions before it, whose
    /// callers have left.
    fn next_extension(&mut self) -> Option<Extension> {
        loop {
            let next = self.extensions.pop_front()?;
            if next.progress.begin() {
                return Some(next);
            }
        }
    }

    /// Takes as many leases out of `due` as one exchange can check, and returns their checks. All
    /// of these leases have the same durability. Leases with another durability stay in `due`.
    fn take_checks(&mut self, extension: Option<&Extension>) -> Vec<LeaseCheck> {
        let mut checks = Vec::new();
        let mut durability = None;
        for lease in std::mem::take(&mut self.due) {
            let is_extended = extension.is_some_and(|extension| extension.leases.iter().any(|it| it.id == lease.id));
            if is_extended || self.leases.get(lease.id).is_none() {
                continue;
            }
            if checks.len() == MAX_IDS || *durability.get_or_insert(lease.durability) != lease.durability {
                self.due.push(lease);
                continue;
            }
            let duration = if lease.is_renewed() { server_lease(lease.mode) } else { Duration::ZERO };
            checks.push(LeaseCheck { lease, duration, exact: false });
        }
        checks
    }

    /// Returns the time of the loop's next poll if no message arrives.
    ///
    /// A fair semaphore is polled often enough for this client to count as live in the server
    /// queue.
    pub(super) fn next_poll(&self, semaphore: &LocalSemaphore, now: Instant) -> Instant {
        let settings = &semaphore.core.settings;
        now + match (self.is_subscribed, semaphore.keys.fair) {
            (false, _) => UNSUBSCRIBED_POLL.min(settings.poll_interval),
            (true, false) => settings.poll_interval,
            (true, true) => settings.poll_interval.min(CLIENT_TTL / 3),
        }
    }

    /// Takes as many returns as fit into one exchange.
    fn take_returns(&mut self) -> Vec<PendingReturn> {
        let mut ids = 0;
        let end = self.returns.iter().position(|pending| {
            ids += pending.permits.leases.len();
            ids > MAX_IDS
        });
        let rest = self.returns.split_off(end.unwrap_or(self.returns.len()).max(1).min(self.returns.len()));
        std::mem::replace(&mut self.returns, rest)
    }
}
