//! The loop of a fair lock, whose waiters queue on the server.
//!
//! The first waiters of this process get positions in the server's queue, in their local order. One
//! keepalive every 250 ms covers all of these positions. A waiter with a position sends its acquire
//! request again when
//!
//! - a message says that this waiter is next,
//! - the reply to a keepalive shows its position at the head of the queue, and the lock as free, or
//! - its position is the head, and the lease of the holder ends.
//!
//! At other times, a waiter with a position sends no acquire request.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use redgrid_client::Watch;
use redgrid_client::internal::once;
use tokio::sync::Notify;

use super::ServerQueue;
use crate::clock::Instant;
use crate::lock::table::{Answers, Busy, LockId, LockState, Table, send};
use crate::observe::count;

/// Interval of the keepalive: 250 ms.
///
/// If a process sends no keepalives, its positions expire after four intervals. So if the waiters
/// at the head of the queue are dead, the next live waiter gets the lock within 1.5 s.
const KEEPALIVE_INTERVAL: Duration = Duration::from_millis(250);

/// How many keepalive intervals a position lives after its last keepalive: 4.
const MISSED_KEEPALIVES: u32 = 4;

/// Interval at which a keepalive also checks the scores of all positions: 1 s.
///
/// A score is the time after which Redisson removes a position.
const SCORES_INTERVAL: Duration = Duration::from_secs(1);

/// Largest number of fair locks for which one client sends keepalives every `KEEPALIVE_INTERVAL`:
/// 100.
///
/// With more locks, the interval of their keepalives is longer, and the server keeps the positions
/// for longer. So one client sends at most 400 keepalives a second.
const MAX_FREQUENT: u64 = 100;

enum Step {
    Done,
    /// Send a keepalive for these positions. Each is a pair: the id of its request, and the number
    /// in its holder field.
    Keepalive(Vec<(u64, u64)>),
    Sleep(Instant),
}

struct FairLoop {
    key: LockId,
    queue: &'static dyn ServerQueue,
    changed: Arc<Notify>,
    /// Subscriptions to the channels on which positions are notified, by the number of the
    /// position.
    watches: HashMap<u64, Watch>,
    next_keepalive: Instant,
    /// When a keepalive checks the scores of all positions again.
    next_scores: Instant,
}

impl Table {
    fn keepalive_interval(&self) -> Duration {
        let times = self.attended.load(Ordering::Relaxed).div_ceil(MAX_FREQUENT).max(1);
        KEEPALIVE_INTERVAL * u32::try_from(times).unwrap_or(u32::MAX)
    }

    /// Returns how long the server keeps a position after its last keepalive.
    pub(in crate::lock) fn position_ttl(&self) -> Duration {
        self.keepalive_interval() * MISSED_KEEPALIVES
    }

    pub(in crate::lock) async fn fair_loop(self: Arc<Self>, key: LockId) {
        let Some(mut fair_loop) = self.new_fair_loop(key) else { return };
        self.attended.fetch_add(1, Ordering::Relaxed);
        loop {
            match self.fair_step(&mut fair_loop) {
                Step::Done => break,
                Step::Keepalive(positions) => self.keepalive(&mut fair_loop, &positions).await,
                Step::Sleep(until) => {
                    tokio::select! {
                        () = fair_loop.changed.notified() => {}
                        () = self.core.clock.sleep_until(until) => {}
                    }
                }
            }
        }
        self.attended.fetch_sub(1, Ordering::Relaxed);
    }

    fn new_fair_loop(&self, key: LockId) -> Option<FairLoop> {
        let mut state = self.state();
        let lock = state.locks.get_mut(&key)?;
        let (queue, changed, watches) = (lock.protocol.queue()?, lock.changed(), HashMap::new());
        Some(FairLoop { key, queue, changed, watches, next_keepalive: Instant::MAX, next_scores: Instant::MIN })
    }

    /// Removes cancelled waiters, and starts an acquire or pass request if one is due.
    ///
    /// Returns the loop's next step.
    fn fair_step(self: &Arc<Self>, fair_loop: &mut FairLoop) -> Step {
        let now = self.now();
        let mut state = self.state();
        let Some(lock) = state.locks.get_mut(&fair_loop.key) else { return Step::Done };
        lock.queue.retain(|entry| !entry.answer.is_closed());
        if lock.queue.is_empty() {
            (lock.loop_running, lock.contended) = (false, false);
            lock.shrink_if_idle();
            state.remove_if_idle(&fair_loop.key);
            return Step::Done;
        }
        let mut answers = Answers::new();
        if !lock.request_in_flight
            && (lock.server_lease.is_some() || lock.queue.iter().any(|entry| !entry.request.options.once))
        {
            // A task of this process has the lock, or waits for it. A try-only request does not
            // wait for such a task.
            answers = lock.reject_try_waiters();
        }
        for entry in lock.queue.iter().filter(|entry| entry.request.until <= now) {
            // The waiter's timeout has passed, but its caller has not polled for the error yet. The
            // position is released now, because it would delay the waiters behind it.
            let place = entry.request.position.get();
            if place.was_requested && !place.has_request_in_flight {
                self.release_position_of(lock, &entry.request);
            }
        }
        self.listen(fair_loop, lock, now);
        let passes_locally = self.passes_locally(lock).is_some();
        if passes_locally {
            // Notifications from before this process acquired the lock are stale. But while an
            // operation is in flight, notifications are kept: the operation may be the release, and
            // notifications that follow a release are not stale.
            let is_idle = lock.busy == Busy::No;
            lock.queue.iter().filter(|_| is_idle).for_each(|entry| entry.request.position.clear_notification());
        } else if let Some(at) = self.next_to_request(lock, now)
            && let Some(attempt) = self.attempt_for(&fair_loop.key, lock, at, now)
        {
            lock.request_in_flight = true;
            let table = Arc::clone(self);
            self.core.spawn_background(Box::pin(async move {
                table.try_for(attempt).await;
            }));
        }
        let queued =
            || lock.queue.iter().filter(|entry| entry.request.position.get().is_queued && entry.request.until > now);
        let positions: Vec<_> = queued().map(|entry| (entry.request.id, entry.request.position.get().number)).collect();
        let next_attempt = queued().map(|entry| entry.request.position.due()).min().filter(|_| may_request(lock));
        let next_timeout = queued().map(|entry| entry.request.until).min();
        if passes_locally {
            self.send_pass(&mut state, &fair_loop.key, false);
        }
        drop(state);
        send(answers);
        if positions.is_empty() {
            return Step::Sleep(Instant::MAX);
        }
        fair_loop.next_keepalive = fair_loop.next_keepalive.min(now + self.keepalive_interval());
        match fair_loop.next_keepalive <= now {
            true => Step::Keepalive(positions),
            false => {
                let others = [next_attempt, next_timeout].into_iter().flatten();
                Step::Sleep(others.fold(fair_loop.next_keepalive, Instant::min))
            }
        }
    }

    /// For each of the first waiters, subscribes to the channel of its position. Also processes the
    /// notifications that were received.
    fn listen(&self, fair_loop: &mut FairLoop, lock: &LockState, now: Instant) {
        let depth = usize::try_from(self.core.settings.fair_depth).unwrap_or(usize::MAX);
        let mut watches = HashMap::new();
        // While this process holds the lock, the server notifies no position. A waiter that is
        // enqueued meanwhile subscribes when the lock is released.
        let passes_locally = self.passes_locally(lock).is_some();
        let waits = lock.queue.iter().filter(|entry| !entry.request.options.once && entry.request.until > now);
        for (at, entry) in waits.enumerate() {
            let position = &entry.request.position;
            if at >= depth && !position.get().was_requested {
                continue;
            }
            let number = position.get().number;
            if passes_locally && !fair_loop.watches.contains_key(&number) {
                continue;
            }
            let mut watch = fair_loop.watches.remove(&number).unwrap_or_else(|| {
                let channel = fair_loop.queue.channel(&fair_loop.key.keys, &self.core.field(number));
                self.core.subscriptions.watch_with_notify(channel, fair_loop.key.key(), Arc::clone(&fair_loop.changed))
            });
            if let Some(wake) = watch.take() {
                if wake.messages > 0 {
                    position.notify();
                } else if position.get().was_requested {
                    // A notification may have been missed before the subscription was active: check
                    // now.
                    fair_loop.next_keepalive = now;
                }
            }
            watches.insert(number, watch);
        }
        fair_loop.watches = watches;
    }

    /// Returns the index of the waiter that sends the next acquire request.
    ///
    /// That is the first waiter whose position is due, if any. Otherwise it is the first waiter
    /// without a position, provided that this waiter is among the first `fair_depth` waiters.
    ///
    /// A pass request in flight may enqueue a waiter. Until the pass request is answered, neither
    /// that waiter nor any waiter behind it sends an enqueue request.
    fn next_to_request(&self, lock: &LockState, now: Instant) -> Option<usize> {
        if !may_request(lock) {
            return None;
        }
        let depth = usize::try_from(self.core.settings.fair_depth).unwrap_or(usize::MAX);
        let holds = lock.server_lease.is_some() && lock.busy == Busy::No;
        let mut not_queued = None;
        let waits = lock.queue.iter().enumerate().filter(|(_, entry)| entry.request.until > now);
        for (nth, (at, entry)) in waits.enumerate() {
            let position = &entry.request.position;
            if !position.get().is_queued {
                let may = nth < depth && (!holds || !entry.request.options.once);
                not_queued = not_queued.or(may.then_some((at, position.get().has_request_in_flight)));
            } else if holds {
                // A notification of this position is stale: it came before this process acquired
                // the lock.
                position.clear_notification();
            } else if position.due() <= now {
                return Some(at);
            }
        }
        not_queued.filter(|(_, in_flight)| !in_flight).map(|(at, _)| at)
    }

    async fn keepalive(self: &Arc<Self>, fair_loop: &mut FairLoop, positions: &[(u64, u64)]) {
        let sent = self.now();
        fair_loop.next_keepalive = sent + self.keepalive_interval();
        let fields: Vec<Bytes> = positions.iter().map(|(_, number)| self.core.field(*number)).collect();
        let all = sent >= fair_loop.next_scores;
        if all {
            fair_loop.next_scores = sent + SCORES_INTERVAL - KEEPALIVE_INTERVAL / 2;
        }
        let request = fair_loop.queue.keep(&fair_loop.key.keys, &fields, self.position_ttl(), all);
        // Even if the reply is slow, the next keepalive must be sent before the server drops the
        // positions.
        let limit = sent + self.core.settings.response_timeout.min(self.position_ttl());
        let answer = once(&*self.core.topology, request, limit).await;
        let received = self.now();
        let mut state = self.state();
        let Some(lock) = state.locks.get_mut(&fair_loop.key) else { return };
        let parts = match answer.result.and_then(|reply| reply.into_typed::<Vec<i64>>()) {
            Ok(parts) if parts.len() == positions.len() + 3 => parts,
            other => {
                // After a keepalive without a valid reply, a live connection alone does not count
                // as contact with the server.
                lock.contended = false;
                let error = other.err().map_or("wrong number of values".to_owned(), |error| error.to_string());
                tracing::debug!(name = %fair_loop.key.keys.name, error, "a keepalive got no valid reply");
                return;
            }
        };
        lock.contact = received;
        lock.contended = lock.server_lease.is_none() && !lock.queue.is_empty();
        // `left` is the PTTL of the lock, or -2 if the lock is free. `first` says which of
        // `positions` is the head of the queue, counted from 1; 0 if none of them is.
        let (left, first) = (parts[1], parts[2]);
        let mut lost = Vec::new();
        for (nth, ((request, number), kept)) in (1..).zip(positions.iter().zip(&parts[3..])) {
            let entry = lock.queue.iter().find(|entry| entry.request.id == *request);
            let Some(entry) = entry.filter(|entry| entry.request.position.get().number == *number) else { continue };
            let position = &entry.request.position;
            let place = position.get();
            if *kept == 0 && place.is_queued && !place.has_request_in_flight {
                position.left();
                lost.push(*number);
                count::position_lost(fair_loop.key.labels());
                tracing::warn!(name = %fair_loop.key.keys.name, "a live queue position was lost; it is enqueued again");
            } else if first == nth {
                match u64::try_from(left) {
                    Ok(left) => position.is_next_until(received, Duration::from_millis(left.max(1))),
                    Err(_) if left == -2 => position.notify(),
                    Err(_) => {}
                }
            }
        }
        for number in lost {
            lock.local_pass.iter_mut().for_each(|pass| pass.lost(number));
        }
    }
}

/// Returns whether an acquire request can be sent: no operation in flight conflicts with it.
fn may_request(lock: &LockState) -> bool {
    !lock.request_in_flight && !matches!(lock.busy, Busy::AdjustingLease(_))
}
