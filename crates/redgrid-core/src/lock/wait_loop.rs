//! The wait loop of a lock. It runs while requests of this process wait for each other or for
//! another process. It sends acquire requests only for the first waiter.
//!
//! The loop tries to acquire the lock. If the lock is taken, the loop subscribes to the channel and
//! tries again when the subscription is confirmed. After that it tries at every message, and
//! whenever messages may have been missed. It also tries when a poll finds the key gone, and when
//! the lease that the server reported has run out. After a hand-over window of this process, other
//! processes go first. The loop then tries again only when all of them have had the lock, or after
//! a quiet period without messages.
//!
//! For lock kinds without release messages, the loop subscribes to nothing and tries again after
//! growing pauses.

use std::sync::Arc;
use std::time::Duration;

use redgrid_client::Watch;
use redgrid_client::internal::SubscriptionManager;
use tokio::sync::Notify;

use super::attempt::Attempt;
use super::fairness::YieldPlan;
use super::shared::ReadWriteMode;
use super::table::{Busy, LockId, State, Table, send};
use crate::backoff::Backoff;
use crate::clock::Instant;

/// How long the loop waits for a message when a probe of the key has found the lock free: 1 ms.
/// After this pause, the loop tries to acquire the lock.
///
/// A probe can fall between a release and the next holder's acquire, while the message of the
/// release is in flight.
const STAYS_FREE: Duration = Duration::from_millis(1);

/// The subscription stays active for at most this time after the last waiter of a lock has left:
/// 500 ms. A new request can use the subscription during this time.
const IDLE: Duration = Duration::from_millis(500);

/// Stands for "no timeout": a message or a poll always ends the wait sooner.
const NO_TIMEOUT: Duration = Duration::from_secs(3600);

/// Every 16th quiet period lasts at least 20 ms.
///
/// So a slow subscriber, such as a process that gets little CPU time, gets the lock eventually. If
/// a subscriber never acquires the lock, the longer periods cost the others a tenth of a hand-over
/// window for each yield, on average.
const LONG_QUIET_PERIOD_EVERY: u32 = 16;
const LONG_QUIET_PERIOD: Duration = Duration::from_millis(20);

/// For lock kinds without release messages: after this number of tries, a waiter sets a flag on the
/// server. The reply to a release then shows that the lock has a waiter. These tries take some
/// milliseconds.
const FLAG_WAITER_AFTER: u32 = 3;

/// How often a waiter checks for expired holders of a shared lock: 1 s. A check costs two requests.
const EVICTION_INTERVAL: Duration = Duration::from_secs(1);

enum Step {
    /// No request waits any more.
    Done,
    /// This process holds the lock or has a request in flight, so the loop waits for a change.
    ///
    /// At `listen_at` the end of the hand-over window is near, so the loop subscribes to the
    /// channel.
    Local {
        listen_at: Instant,
    },
    Try(Box<Attempt>),
    /// Other processes go first.
    Yield,
}

struct WaitLoop {
    key: LockId,
    changed: Arc<Notify>,
    watch: Option<Watch>,
    yield_plan: Option<YieldPlan>,
    /// Interval of a waiter's announcements; `None` for lock kinds without announcements.
    announces: Option<Duration>,
    /// Number of consecutive yields that ended by their quiet period.
    quiet_yields: u32,
    /// When the next check for expired holders is due.
    next_eviction: Instant,
    /// The pauses of the loop, for lock kinds without release messages; `None` for all others.
    backoff: Option<Backoff>,
    /// Number of consecutive tries that found the lock taken.
    tries: u32,
}

impl WaitLoop {
    /// Starts the subscription, unless it exists.
    fn watch(&mut self, subscriptions: &Arc<SubscriptionManager>) {
        let keys = &self.key.keys;
        self.watch.get_or_insert_with(|| {
            subscriptions.watch_contended(keys.channel.clone(), keys.key.clone(), keys.poll_waiter_flag())
        });
    }

    /// Ends the yield. Returns the number of subscribers and the number of those that acquired
    /// nothing; `None` if there was no yield, or if these numbers are not known.
    fn end_yield(&mut self, message_count: Option<u64>) -> Option<(u64, u64)> {
        self.yield_plan.take()?.missing(message_count)
    }
}

impl Table {
    pub(super) async fn wait_loop(self: Arc<Self>, key: LockId) {
        let Some(mut wait_loop) = self.new_wait_loop(key) else { return };
        loop {
            match self.step(&mut wait_loop) {
                Step::Done => return,
                Step::Local { listen_at } => {
                    if wait_loop.watch.is_none() && self.now() >= listen_at {
                        wait_loop.watch(&self.core.subscriptions);
                    }
                    // While the loop is subscribed, it checks periodically whether a request still
                    // waits: the last waiter may have got the lock meanwhile.
                    let again = if wait_loop.watch.is_none() { listen_at } else { self.now() + IDLE };
                    tokio::select! {
                        () = wait_loop.changed.notified() => {}
                        () = self.core.clock.sleep_until(again) => {}
                    }
                }
                Step::Try(attempt) => {
                    if let Some(left) = Arc::clone(&self).try_for(*attempt).await {
                        self.until_worth_a_try(&mut wait_loop, left).await;
                    }
                }
                Step::Yield => self.until_worth_a_try(&mut wait_loop, Duration::MAX).await,
            }
        }
    }

    fn new_wait_loop(&self, key: LockId) -> Option<WaitLoop> {
        let mut state = self.state();
        let lock = state.locks.get_mut(&key)?;
        let changed = lock.changed();
        let announces = lock.protocol.read_write().and_then(ReadWriteMode::announces_every);
        let backoff = lock.queue.front().and_then(|first| first.request.options.backoff);
        Some(WaitLoop {
            key,
            changed,
            watch: None,
            yield_plan: None,
            announces,
            quiet_yields: 0,
            next_eviction: self.now() + EVICTION_INTERVAL,
            backoff,
            tries: 0,
        })
    }

    fn step(self: &Arc<Self>, wait_loop: &mut WaitLoop) -> Step {
        let mut state = self.state();
        let State { locks, phantoms, .. } = &mut *state;
        let Some(lock) = locks.get_mut(&wait_loop.key) else { return Step::Done };
        lock.contended = false;
        lock.queue.retain(|entry| !entry.answer.is_closed());
        if lock.queue.is_empty() {
            lock.loop_running = false;
            lock.shrink_if_idle();
            self.withdraw(lock);
            let plan = wait_loop.yield_plan.take().or(lock.yield_plan.take().map(|plan| *plan));
            if let Some(plan) = plan.filter(|_| lock.server_lease.is_none()) {
                // The next request inherits the yield of the cancelled requests.
                let now = self.now();
                self.remember_yield(&mut state, &wait_loop.key, plan.for_next_caller(), now);
            }
            state.remove_if_idle(&wait_loop.key);
            return Step::Done;
        }
        if let Some(server_lease) = &lock.server_lease {
            wait_loop.tries = 0;
            if let Some((listeners, missing)) = wait_loop.end_yield(self.message_count(&wait_loop.key)) {
                // The yield ended by its quiet period, and the lock was free. So the subscribers
                // that acquired nothing do not wait for the lock.
                phantoms.yield_ended(&wait_loop.key, listeners, missing, self.now());
            }
            let half = self.handover_window(lock.protocol, &wait_loop.key) / 2;
            let listens = wait_loop.backoff.is_none();
            return Step::Local { listen_at: if listens { server_lease.handover_ends - half } else { Instant::MAX } };
        }
        if lock.busy != Busy::No || lock.request_in_flight {
            return Step::Local { listen_at: Instant::MAX };
        }
        if let Some(plan) = lock.yield_plan.take() {
            wait_loop.yield_plan = Some(*plan);
            lock.contended = true;
            // Other processes go first, so try-only requests that arrived since the release are
            // answered as busy.
            let answers = lock.reject_try_waiters();
            drop(state);
            send(answers);
            return Step::Yield;
        }
        match self.attempt_of(&wait_loop.key, lock, self.now()) {
            Some(attempt) => {
                lock.request_in_flight = true;
                Step::Try(Box::new(attempt))
            }
            None => Step::Local { listen_at: Instant::MAX },
        }
    }

    /// Waits until another try may succeed, or until no request waits any more. `left` is how long
    /// the lock is expected to stay taken.
    ///
    /// While other processes go first, the loop checks at the end of the quiet period whether the
    /// lock is free.
    async fn until_worth_a_try(&self, wait_loop: &mut WaitLoop, left: Duration) {
        if let Some(backoff) = wait_loop.backoff {
            return self.back_off(wait_loop, backoff, left).await;
        }
        let mut until = self.now() + left.min(NO_TIMEOUT);
        let mut quiet_until = self.quiet_until(wait_loop);
        let mut found_free = false;
        // The acquire that found the lock taken has announced the waiter, so the next announcement
        // is due later. While other processes go first, nothing is announced.
        let mut announced = wait_loop.announces.filter(|_| wait_loop.yield_plan.is_none()).map(|_| self.now());
        wait_loop.watch(&self.core.subscriptions);
        self.evict_expired_holders(wait_loop).await;
        loop {
            let is_yielding = wait_loop.yield_plan.is_some();
            let message_count = if is_yielding { self.message_count(&wait_loop.key) } else { None };
            if wait_loop.yield_plan.as_mut().is_some_and(|plan| plan.is_over(message_count)) {
                // Every other waiting process has had the lock.
                if let Some((listeners, missing)) = wait_loop.end_yield(message_count) {
                    self.state().phantoms.yield_ended(&wait_loop.key, listeners, missing, self.now());
                }
                wait_loop.quiet_yields = 0;
                return;
            }
            let announce_at =
                announced.zip(wait_loop.announces).map_or(Instant::MAX, |(announced, every)| announced + every);
            let WaitLoop { watch, changed, yield_plan, key, .. } = &mut *wait_loop;
            let Some(watch) = watch else { return };
            tokio::select! {
                wake = watch.wake() => {
                    if yield_plan.is_none() {
                        return;
                    }
                    let anew = self.quiet_until(wait_loop);
                    if wake.messages > 0 {
                        (quiet_until, found_free) = (anew, false);
                    } else {
                        // A wake-up without a message does not restart the quiet period. If no
                        // quiet period runs, the wake-up starts one.
                        quiet_until = quiet_until.min(anew);
                    }
                }
                () = self.core.clock.wait_until(until) => return,
                () = self.core.clock.wait_until(quiet_until) => {
                    if found_free {
                        wait_loop.quiet_yields = wait_loop.quiet_yields.wrapping_add(1);
                        return;
                    }
                    match self.core.subscriptions.key_ttl(wait_loop.key.key()).await {
                        Some(left) => {
                            (until, quiet_until) = (self.now() + left.min(NO_TIMEOUT), Instant::MAX);
                            // The quiet period is over, and the lock is taken. Announce this waiter
                            // from here on, so that later readers wait behind it.
                            announced = announced.or(wait_loop.announces.map(|_| Instant::MIN));
                        }
                        None => (quiet_until, found_free) = (self.now() + STAYS_FREE, true),
                    }
                }
                () = self.core.clock.wait_until(announce_at) => {
                    announced = Some(self.now());
                    if let Some(every) = wait_loop.announces {
                        self.announce(&wait_loop.key, every).await;
                    }
                    self.evict_expired_holders(wait_loop).await;
                }
                () = changed.notified() => if self.has_no_waiters(key) { return },
            }
        }
    }

    /// Evicts expired holders, if the next eviction is due. Without evictions, expired holders
    /// would block others until the key's TTL ends.
    async fn evict_expired_holders(&self, wait_loop: &mut WaitLoop) {
        if let Some(timeout) = wait_loop.announces.filter(|_| self.now() >= wait_loop.next_eviction) {
            self.evict_expired(&wait_loop.key, timeout).await;
            wait_loop.next_eviction = self.now() + EVICTION_INTERVAL;
        }
    }

    /// Waits like `until_worth_a_try`, for lock kinds without release messages. The pause doubles
    /// with each try, up to a limit.
    ///
    /// If other processes go first, the longest pause of the backoff is added.
    async fn back_off(&self, wait_loop: &mut WaitLoop, backoff: Backoff, left: Duration) {
        let others = wait_loop.yield_plan.take().map_or(Duration::ZERO, |_| backoff.longest);
        let pause = backoff.after(wait_loop.tries).mul_f64(0.5 + fastrand::f64() / 2.0);
        let until = self.now() + others + pause.min(left);
        wait_loop.tries = wait_loop.tries.saturating_add(1);
        if wait_loop.tries > FLAG_WAITER_AFTER {
            self.core.subscriptions.set_waiter_flag(&wait_loop.key.keys.poll_waiter_flag()).await;
        }
        loop {
            tokio::select! {
                () = self.core.clock.sleep_until(until) => return,
                () = wait_loop.changed.notified() => if self.has_no_waiters(&wait_loop.key) { return },
            }
        }
    }

    /// Returns the end of the quiet period; `Instant::MAX` if no other processes go first.
    fn quiet_until(&self, wait_loop: &WaitLoop) -> Instant {
        let message_count = self.message_count(&wait_loop.key);
        // Every 16th quiet period is longer, for the sake of slow subscribers.
        let least = if wait_loop.quiet_yields % LONG_QUIET_PERIOD_EVERY == LONG_QUIET_PERIOD_EVERY - 1 {
            LONG_QUIET_PERIOD
        } else {
            Duration::ZERO
        };
        wait_loop
            .yield_plan
            .as_ref()
            .map_or(Instant::MAX, |plan| self.now() + plan.quiet_period(message_count).max(least))
    }

    fn message_count(&self, key: &LockId) -> Option<u64> {
        self.core.subscriptions.message_count(&key.keys.channel)
    }

    fn has_no_waiters(&self, key: &LockId) -> bool {
        let now = self.now();
        let state = self.state();
        state.locks.get(key).is_none_or(|lock| !lock.queue.iter().any(|waiter| waiter.is_live(now)))
    }
}
