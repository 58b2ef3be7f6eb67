//! The loop of a semaphore: when it sends an exchange, and how it applies the reply.
//!
//! The loop requests permits when a request becomes the first one of the queue, when permits are
//! returned, and when a lease of any process has ended. It also requests permits when its
//! subscription is confirmed, and after that at each message, gap and poll. After a hand-over
//! window, this process yields: other processes go first. The loop then requests no permits until
//! all other subscribers have had permits, or until the quiet period ends.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join;
use redgrid_client::internal::{OwnSubscription, ReplicaSubscribers, RequestOutcome};
use redgrid_client::{ServerError, Watch};

use super::durability::{GrantedPermits, LeaseConfirmation};
use super::error::{AcquireError, ReleaseError};
use super::exchange::{Exchange, ExchangeReply, LeaseCheck, Refusal, RequestArgs};
use super::local_semaphore::{LocalSemaphore, PermitRequest};
use super::permit_set::{PermitLease, PermitSet};
use super::semaphore_handle::return_request;
use super::semaphore_state::{Extension, PendingReturn};
use crate::clock::Instant;
use crate::config::Durability;
use crate::exactly_once;
use crate::lease::{self, deadline};
use crate::lock::{ExtendError, LostReason, SubscriberCount, YieldPlan};

/// Pause before a refused return of permits is sent again: 100 ms at first, doubled each time, up
/// to 30 s.
const REFUSED_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// How long the loop of a semaphore without waiters keeps its subscription: 500 ms.
const IDLE: Duration = Duration::from_millis(500);

enum Step {
    Done,
    Exchange(Box<Exchange>),
    Wait { until: Instant, subscribe: bool },
}

/// The state of one run of the loop.
#[derive(Default)]
struct PermitLoop {
    watch: Option<Watch>,
    /// The time since which there have been no waiters.
    idle_since: Option<Instant>,
    /// Number of messages that had been received when the current quiet period began.
    message_count: Option<u64>,
}

impl LocalSemaphore {
    pub(super) async fn run_loop(self: Arc<Self>) {
        let mut permit_loop = PermitLoop::default();
        loop {
            match self.step(&mut permit_loop) {
                Step::Done => {
                    self.registry.remove_if_idle(&self);
                    return;
                }
                Step::Exchange(exchange) => self.exchange(*exchange).await,
                Step::Wait { until, subscribe } => {
                    if subscribe && permit_loop.watch.is_none() {
                        let (channel, wake) = (self.keys.channel.clone(), Arc::clone(&self.wake));
                        permit_loop.watch =
                            Some(self.core.subscriptions.watch_with_notify(channel, &self.keys.key, wake));
                    }
                    tokio::select! {
                        () = self.wake.notified() => {}
                        () = self.clock().sleep_until(until) => {}
                    }
                }
            }
        }
    }

    fn step(self: &Arc<Self>, permit_loop: &mut PermitLoop) -> Step {
        let now = self.clock().now();
        let woken = permit_loop.watch.as_mut().and_then(Watch::take);
        let message_count = self.core.subscriptions.message_count(&self.keys.channel);
        let mut guard = self.state();
        let state = &mut *guard;
        state.is_subscribed = permit_loop.watch.as_ref().is_some_and(Watch::is_active);
        state.prune(self, now);
        if let Some((plan, quiet_until)) = &mut state.yield_plan {
            if permit_loop.message_count != message_count {
                permit_loop.message_count = message_count;
                *quiet_until = now + plan.quiet_period(message_count) + self.handover_window();
            }
            if plan.is_over(message_count) || now >= *quiet_until {
                state.quiet_yield = plan.missing(message_count);
                state.yield_plan = None;
                state.should_request = true;
            }
        } else {
            state.should_request |= woken.is_some();
        }
        if now >= state.poll_at.min(state.next_lease_end) {
            state.poll_at = Instant::MAX;
            state.next_lease_end = Instant::MAX;
            state.should_request |= state.yield_plan.is_none();
        }
        state.serve_from_idle(self, now);
        state.reject_try_waiters(now);
        if let Some(exchange) = state.next_exchange(self, now) {
            permit_loop.idle_since = None;
            state.underway = Some(Arc::clone(&exchange.progress));
            return Step::Exchange(Box::new(exchange));
        }
        if state.queue.is_empty() && !state.returns.is_empty() {
            // The server has refused the returns. They are sent again after a pause.
            return Step::Wait { until: state.paused_until, subscribe: false };
        }
        if state.queue.is_empty() {
            let idle_since = *permit_loop.idle_since.get_or_insert(now);
            let stays_subscribed = permit_loop.watch.is_some() && now < idle_since + IDLE && !state.closed;
            if stays_subscribed {
                return Step::Wait { until: idle_since + IDLE, subscribe: true };
            }
            state.loop_running = false;
            state.inline_loop = None;
            state.yield_plan = None;
            state.contended = false;
            return Step::Done;
        }
        permit_loop.idle_since = None;
        let poll_at = state.next_poll(self, now);
        state.poll_at = state.poll_at.min(poll_at);
        let quiet_until = state.yield_plan.as_ref().map_or(Instant::MAX, |(_, quiet_until)| *quiet_until);
        let paused = if state.returns.is_empty() { Instant::MAX } else { state.paused_until };
        // `until` need not include the times of renewals: the renewal task wakes the loop when a
        // renewal is due.
        let until = state.poll_at.min(state.next_lease_end).min(quiet_until).min(state.first_timeout).min(paused);
        let window_ends_soon = || now + self.handover_window() / 2 >= state.window_ends;
        Step::Wait { until, subscribe: state.contended || state.yield_plan.is_some() || window_ends_soon() }
    }

    /// Returns the hand-over window: how long permits pass from task to task without a request.
    fn handover_window(&self) -> Duration {
        if self.keys.fair {
            return Duration::ZERO;
        }
        lease::handover_window(self.core.settings.handover_window, self.core.home(&self.keys.key).time().round_trip())
    }

    async fn exchange(self: &Arc<Self>, exchange: Exchange) {
        let request = exchange.encode(&self.core, &self.keys, self.registry.next_number());
        // The request may be sent several times, and the first transmission may be the one that is
        // executed. So leases count from before the first transmission.
        let sent = self.clock().now();
        let sending = exactly_once::send_until_answered(&self.core, &request, &exchange.progress);
        let sending = self.count_unanswered(&exchange.checks, sent, sending);
        // The exchange publishes a message that may arrive before the reply, so messages are
        // counted from here on.
        let own = self.core.subscriptions.own_subscription(&self.keys.channel);
        // The reply does not include subscribers that are connected to a replica. Only the replica
        // can count them, so the replica is queried while the exchange is in flight.
        let channel = (&self.keys.channel, &self.keys.key);
        let counting =
            if exchange.ends_window { self.core.subscriptions.replica_subscribers(&[channel]) } else { None };
        let (((reply, outcome), are_counted), replica_subscribers) = match counting {
            None => (sending.await, None),
            Some(counting) => {
                let (answered, counts) = join(sending, counting).await;
                (answered, counts.first().copied())
            }
        };
        let own = own.counted_until(self.core.subscriptions.own_subscription(&self.keys.channel));
        match reply.and_then(ExchangeReply::parse) {
            Ok(reply) => self.apply_reply(exchange, reply, (sent, &Arc::new(outcome)), (own, replica_subscribers)),
            Err(error) => {
                if !are_counted {
                    exchange.checks.iter().for_each(|check| self.count_failed_renewal(&check.lease));
                }
                self.apply_error(exchange, error);
            }
        }
    }

    fn apply_reply(
        self: &Arc<Self>,
        exchange: Exchange,
        reply: ExchangeReply,
        (sent, outcome): (Instant, &Arc<RequestOutcome>),
        (own, replica_subscribers): (OwnSubscription, Option<ReplicaSubscribers>),
    ) {
        let now = self.clock().now();
        let mut guard = self.state();
        let state = &mut *guard;
        state.underway = None;
        state.last_contact = now;
        state.paused_until = Instant::MIN;
        state.refusals = 0;
        state.left = reply.left;
        self.remember_returns(&exchange, outcome);
        let returned = exchange.returned_plain() + reply.returned_found.iter().filter(|found| **found).count() as u64;
        let Exchange { returns, checks, requests, ends_window, durability, extension, .. } = exchange;
        report_returns(self, returns, &reply.returned_found);

        let mut leases = Vec::new();
        let mut losses = 0;
        for (LeaseCheck { lease, duration, .. }, held) in checks.iter().zip(&reply.still_held) {
            if !held {
                lease.mark_lost(&self.keys.name, LostReason::Gone);
                state.leases.remove(lease.id);
                losses += 1;
            } else if !duration.is_zero() {
                leases.push((Arc::clone(lease), deadline(sent, *duration)));
            }
        }

        let name = || self.keys.name.clone();
        let refusal = reply.granted.as_ref().err().copied();
        let requested = requests.len();
        let granted = reply.granted.unwrap_or_default();
        let mut grants = Vec::new();
        for (nth, permit_request) in requests.into_iter().enumerate() {
            let at = state.queue.iter().position(|waiter| waiter.request.id == permit_request.request.id);
            if granted.get(nth).copied().unwrap_or(false) {
                let waiter = at.and_then(|at| state.queue.remove(at));
                grants.push(GrantedPermits { waiter, permits: self.permits_of(permit_request, durability, sent) });
            } else if let Some(at) = at {
                let waiter = &mut state.queue[at];
                waiter.request.set_exchange(None);
                waiter.has_waited = true;
                let result = match refusal {
                    Some(Refusal::NotInitialised) if !waiter.request.options.awaits_init => {
                        Some(Err(AcquireError::NotInitialised { name: name() }))
                    }
                    Some(Refusal::PermitsDiffer(found)) => {
                        let expected = self.keys.capacity.unwrap_or_default();
                        Some(Err(AcquireError::PermitsDiffer { name: name(), expected, found }))
                    }
                    _ if waiter.request.options.try_only => Some(Ok(false)),
                    _ => None,
                };
                if let Some(result) = result
                    && let Some(waiter) = state.remove(at, self)
                {
                    waiter.end(result);
                }
            }
        }
        // The exchange requested no permits for the waiters behind the rejected ones. These waiters
        // need another exchange; otherwise they would wait until a message arrives.
        state.should_request |= matches!(refusal, Some(Refusal::PermitsDiffer(_)));
        if let Some((listeners, missing)) = state.quiet_yield.take_if(|_| requested > 0) {
            let granted: u64 = grants.iter().map(|grant| grant.permits.count).sum();
            // Taking permits publishes no message. If fewer permits are available than when the
            // yield began, a subscriber that sent no message may have taken the difference. Then
            // this yield does not show that the subscriber never acquires permits.
            let is_untouched =
                reply.left.saturating_add_unsigned(granted) == state.left_at_yield.saturating_add_unsigned(returned);
            if missing == 0 || granted > 0 && is_untouched {
                state.phantom.yield_ended(listeners, missing, now);
            }
        }
        if !grants.is_empty() && now >= state.window_ends {
            state.window_ends = sent + self.handover_window();
        }
        let confirmation = LeaseConfirmation { sent, leases, extension };
        self.apply_grants(state, (grants, durability), confirmation, outcome);
        for LeaseCheck { lease, .. } in checks {
            state.leases.reschedule(lease.id, lease.next_renewal(sent));
        }
        state.update_contention(self.keys.fair);
        state.next_lease_end = reply.next_lease_end.map_or(Instant::MAX, |end| now + end + Duration::from_millis(1));
        if let Some((plan, _)) = &mut state.yield_plan
            && reply.receivers.is_some()
        {
            // This exchange has published a message although this process yields. A message of this
            // process does not show that another process had permits, so `plan` has to wait for one
            // more message.
            plan.let_pass();
            state.left_at_yield = state.left_at_yield.saturating_add_unsigned(returned);
        }
        if ends_window {
            let listeners = reply.receivers.unwrap_or(0);
            let unannounced = reply.publish_refused.then_some(self.core.settings.poll_interval);
            let subscribers =
                SubscriberCount { listeners, unannounced, own, ..SubscriberCount::default() }.with(replica_subscribers);
            let subscribers = state.phantom.without(subscribers, now);
            let round_trip = outcome.received.since(outcome.sent);
            match YieldPlan::after(subscribers, round_trip) {
                Some(plan) => {
                    // Another process sends no message during its own hand-over window. So the
                    // length of the window is added to the quiet period.
                    let quiet_until = now + plan.quiet_period(own.message_count) + self.handover_window();
                    state.yield_plan = Some((plan, quiet_until));
                    state.left_at_yield = reply.left;
                }
                None => state.should_request = true,
            }
        }
        if state.yield_plan.is_some() {
            // While this process yields, the available permits are left to other processes.
            state.left = 0;
        }
        self.wake_renewal(state);
        drop(guard);
        if losses > 0 {
            self.note_lost(losses, LostReason::Gone);
            self.lost.notify_waiters();
        }
    }

    /// Remembers the returns of leased permits, so that they are repeated if another node becomes
    /// the primary.
    ///
    /// Returns of permits without leases are not repeated. Such permits are only a number on the
    /// server, so a second return would add permits that do not exist.
    fn remember_returns(&self, exchange: &Exchange, outcome: &RequestOutcome) {
        for id in exchange.returned_ids() {
            self.core.given_back.remember(&return_request(&self.keys, id), outcome);
        }
    }

    /// Returns the permits of a request that the server has granted, or may have granted.
    fn permits_of(&self, request: RequestArgs, durability: Durability, sent: Instant) -> PermitSet {
        let RequestArgs { request, ids, .. } = request;
        let PermitRequest { permits: count, lease, label, .. } = &request.options;
        let lease_of =
            |id| Some(PermitLease::new(id, ((*lease)?, durability), (sent, label.clone()), self.clock().clone()));
        PermitSet { count: *count, leases: ids.into_iter().filter_map(lease_of).collect(), durability }
    }

    fn apply_error(self: &Arc<Self>, exchange: Exchange, error: ServerError) {
        let now = self.clock().now();
        let name = || self.keys.name.clone();
        let mut guard = self.state();
        let state = &mut *guard;
        self.note_failed(&exchange, &error);
        let Exchange { returns, checks, cancelled_positions, requests, extension, .. } = exchange;
        state.underway = None;
        state.left = i64::MAX;
        if !state.closed {
            state.cancelled_positions.extend(cancelled_positions);
        }
        checks.iter().for_each(|check| state.retry_renewal(&check.lease, now));
        self.wake_renewal(state);
        let refused = matches!(error, ServerError::Refused { .. } | ServerError::Unauthorized { .. });
        if let Some(Extension { result_sender, .. }) = extension {
            let _ = result_sender.send(Err(ExtendError::of(name(), error.clone())));
        }
        if matches!(error, ServerError::NotSent { .. }) && !state.closed {
            // Nothing was executed, so everything is sent again. Waiters that time out leave the
            // queue.
            state.returns.splice(0..0, returns);
            state.should_request |= !requests.is_empty();
            return;
        }
        tracing::debug!(name = %self.keys.name, %error, "permits");
        let alone = requests.is_empty();
        state.send_separately |= refused && !alone && !(returns.is_empty() && checks.is_empty());
        if refused && alone && !returns.is_empty() {
            let pause = REFUSED_PAUSE.saturating_mul(1 << state.refusals.min(16)).min(LONGEST_PAUSE);
            state.paused_until = now + pause;
            state.refusals += 1;
        }
        for PendingReturn { permits, result_sender } in returns {
            let release_error = match refused {
                true => ReleaseError::Refused { name: name(), source: error.clone() },
                false => ReleaseError::OutcomeUnknown { name: name(), source: error.clone() },
            };
            result_sender.map(|result_sender| result_sender.send(Err(release_error)));
            // A refused return was not executed, so it is sent again. After an unknown outcome,
            // only the returns of leased permits are sent again: these permits have ids, so a
            // second return has no effect.
            if !state.closed && (refused || !permits.leases.is_empty()) {
                state.returns.push(PendingReturn { permits, result_sender: None });
            }
        }
        for permit_request in requests {
            let at = state.queue.iter().position(|waiter| waiter.request.id == permit_request.request.id);
            if let Some(waiter) = at.and_then(|at| state.remove(at, self)) {
                waiter.end(Err(AcquireError::of(&self.keys.name, error.clone())));
            }
            if permit_request.request.options.lease.is_some() && !error.is_not_done() {
                let permits = self.permits_of(permit_request, Durability::Primary, now);
                state.give_back(permits, None);
            }
        }
    }
}

/// Reports the outcome of returns to their callers.
fn report_returns(semaphore: &LocalSemaphore, returns: Vec<PendingReturn>, found: &[bool]) {
    let mut found = found.iter();
    for PendingReturn { permits, result_sender } in returns {
        let all_found =
            permits.leases.iter().fold(true, |all_found, _| found.next().copied().unwrap_or(false) && all_found);
        let lost = permits.lost().or((!all_found).then_some(LostReason::Gone));
        let result = lost.map_or(Ok(()), |reason| Err(semaphore.lost_error(reason)));
        result_sender.map(|result_sender| result_sender.send(result));
    }
}
