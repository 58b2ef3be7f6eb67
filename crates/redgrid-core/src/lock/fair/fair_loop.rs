//! Loop of a lock whose waiters queue on the server.
//!
//! Each of the first waiters gets a position of its own there, in their order. From then on, one
//! keepalive every 250 ms covers all of these positions. A waiter tries when it is notified that it
//! is next, and when a keepalive finds it next. It also tries when the lease ends that was reported
//! to the head of the queue. No waiter sends requests in between.

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
/// A silent process counts as dead after four of them. The last live waiter of a queue therefore
/// has the lock within 1.5 s.
const KEEPALIVE_INTERVAL: Duration = Duration::from_millis(250);

/// Keepalive intervals, the next one included, after which the positions of a process count as
/// dead.
const MISSED_KEEPALIVES: u32 = 4;

/// Interval at which the scores of a whole queue are maintained: 1 s.
const ALL: Duration = Duration::from_secs(1);

/// Number of locks that one client keeps alive at that interval.
///
/// With more of them, each is refreshed less often and its positions live longer. At most 400
/// requests a second are sent.
const NAMES: u64 = 100;

enum Step {
    Done,
    /// Send a keepalive for the positions of these requests.
    Keep(Vec<(u64, u64)>),
    Sleep(Instant),
}

struct FairLoop {
    key: LockId,
    queue: &'static dyn ServerQueue,
    changed: Arc<Notify>,
    /// Channels on which positions are notified, by the number of the position.
    watches: HashMap<u64, Watch>,
    next_beat: Instant,
    /// When the scores of all positions are maintained again.
    next_all: Instant,
}

impl Table {
    fn keepalive_interval(&self) -> Duration {
        let times = self.attended.load(Ordering::Relaxed).div_ceil(NAMES).max(1);
        KEEPALIVE_INTERVAL * u32::try_from(times).unwrap_or(u32::MAX)
    }

    /// Returns how long the server keeps a position without another keepalive.
    pub(in crate::lock) fn position_ttl(&self) -> Duration {
        self.keepalive_interval() * MISSED_KEEPALIVES
    }

    pub(in crate::lock) async fn fair_loop(self: Arc<Self>, key: LockId) {
        let Some(mut line) = self.line(key) else { return };
        let _attended = ActiveFairKey::new(&self);
        loop {
            match self.look(&mut line) {
                Step::Done => return,
                Step::Keep(places) => self.keepalive(&mut line, &places).await,
                Step::Sleep(until) => {
                    tokio::select! {
                        () = line.changed.notified() => {}
                        () = self.core.clock.sleep_until(until) => {}
                    }
                }
            }
        }
    }

    fn line(&self, key: LockId) -> Option<FairLoop> {
        let mut state = self.state();
        let lock = state.locks.get_mut(&key)?;
        let (queue, changed, watches) = (lock.protocol.queue()?, lock.changed(), HashMap::new());
        Some(FairLoop { key, queue, changed, watches, next_beat: Instant::MAX, next_all: Instant::MIN })
    }

    fn look(self: &Arc<Self>, line: &mut FairLoop) -> Step {
        let now = self.now();
        let mut state = self.state();
        let Some(lock) = state.locks.get_mut(&line.key) else { return Step::Done };
        lock.queue.retain(|entry| !entry.answer.is_closed());
        if lock.queue.is_empty() {
            (lock.loop_running, lock.contended) = (false, false);
            lock.shrink_if_idle();
            state.remove_if_idle(&line.key);
            return Step::Done;
        }
        let mut answers = Answers::new();
        if !lock.asking && (lock.server_lease.is_some() || lock.queue.iter().any(|entry| !entry.request.once)) {
            // Other requests of this process go before those that do not wait.
            answers = lock.reject_try_waiters();
        }
        for entry in lock.queue.iter().filter(|entry| entry.until <= now) {
            // Its timeout has passed, and its future was not polled to report that. Other waiters
            // must not stand behind it.
            let place = &entry.status.position;
            if place.is_asked() && !place.is_asking() {
                self.release_position_of(lock, entry);
            }
        }
        self.listen(line, lock, now);
        let along = self.passes_locally(lock).is_some();
        if along {
            // Notifications from before this process acquired the lock are void. They are kept
            // while the server lease is busy: it may just be released.
            let calm = lock.busy == Busy::No;
            lock.queue.iter().filter(|_| calm).for_each(|entry| entry.status.position.clear_notification());
        } else if let Some(at) = self.next_to_ask(lock, now)
            && let Some(attempt) = self.attempt_for(&line.key, lock, at, now)
        {
            lock.asking = true;
            let table = Arc::clone(self);
            self.spawn_background(Box::pin(async move {
                table.try_for(attempt).await;
            }));
        }
        let inside = || lock.queue.iter().filter(|entry| entry.status.position.is_inside() && entry.until > now);
        let places: Vec<_> = inside().map(|entry| (entry.id, entry.status.position.number(entry.id))).collect();
        let due = inside().map(|entry| entry.status.position.due()).min().filter(|_| may_ask(lock));
        let over = inside().map(|entry| entry.until).min();
        if along {
            self.send_pass(&mut state, &line.key, false);
        }
        drop(state);
        send(answers);
        if places.is_empty() {
            return Step::Sleep(Instant::MAX);
        }
        line.next_beat = line.next_beat.min(now + self.keepalive_interval());
        match line.next_beat <= now {
            true => Step::Keep(places),
            false => Step::Sleep([due, over].into_iter().flatten().fold(line.next_beat, Instant::min)),
        }
    }

    /// Subscribes for each of the first waiters, and processes the notifications received.
    fn listen(&self, line: &mut FairLoop, lock: &LockState, now: Instant) {
        let depth = usize::try_from(self.core.settings.fair_depth).unwrap_or(usize::MAX);
        let mut watches = HashMap::new();
        // While this process holds the lock, no position is notified. A waiter that is enqueued
        // meanwhile subscribes when the lock is released.
        let along = self.passes_locally(lock).is_some();
        let waits = lock.queue.iter().filter(|entry| !entry.request.once && entry.until > now);
        for (at, entry) in waits.enumerate() {
            let place = &entry.status.position;
            if at >= depth && !place.is_asked() {
                continue;
            }
            let number = place.number(entry.id);
            if along && !line.watches.contains_key(&number) {
                continue;
            }
            let mut watch = line.watches.remove(&number).unwrap_or_else(|| {
                let channel = line.queue.channel(&line.key.keys, &self.core.field(number));
                self.core.subscriptions.watch_with_notify(channel, line.key.key(), Arc::clone(&line.changed))
            });
            if let Some(wake) = watch.take() {
                if wake.messages > 0 {
                    place.notify();
                } else if place.is_asked() {
                    // A notification from before the subscription was active was missed: check now.
                    line.next_beat = now;
                }
            }
            watches.insert(number, watch);
        }
        line.watches = watches;
    }

    /// Returns the index of the waiter that sends the next acquire request.
    ///
    /// That is one whose position is next, or else the first waiter without a position, as far as
    /// `fair_depth` allows one.
    ///
    /// While a pass request that may enqueue a waiter is in flight, neither that waiter nor any
    /// behind it sends its own enqueue request.
    fn next_to_ask(&self, lock: &LockState, now: Instant) -> Option<usize> {
        if !may_ask(lock) {
            return None;
        }
        let depth = usize::try_from(self.core.settings.fair_depth).unwrap_or(usize::MAX);
        let holds = lock.server_lease.is_some() && lock.busy == Busy::No;
        let mut outside = None;
        let waits = lock.queue.iter().enumerate().filter(|(_, entry)| entry.until > now);
        for (nth, (at, entry)) in waits.enumerate() {
            let place = &entry.status.position;
            if !place.is_inside() {
                let may = nth < depth && (!holds || !entry.request.once);
                outside = outside.or(may.then_some((at, place.is_asking())));
            } else if holds {
                // The notification is from before this process acquired the lock.
                place.clear_notification();
            } else if place.due() <= now {
                return Some(at);
            }
        }
        outside.filter(|(_, asking)| !asking).map(|(at, _)| at)
    }

    async fn keepalive(self: &Arc<Self>, line: &mut FairLoop, places: &[(u64, u64)]) {
        let sent = self.now();
        line.next_beat = sent + self.keepalive_interval();
        let fields: Vec<Bytes> = places.iter().map(|(_, number)| self.core.field(*number)).collect();
        let all = sent >= line.next_all;
        if all {
            line.next_all = sent + ALL - KEEPALIVE_INTERVAL / 2;
        }
        let request = line.queue.keep(&line.key.keys, &fields, self.position_ttl(), all);
        // One slow reply must not delay the next keepalive.
        let limit = sent + self.core.settings.response_timeout.min(self.position_ttl());
        let answer = once(&*self.core.topology, request, limit).await;
        let received = self.now();
        let mut state = self.state();
        let Some(lock) = state.locks.get_mut(&line.key) else { return };
        let parts = match answer.result.and_then(|reply| reply.into_typed::<Vec<i64>>()) {
            Ok(parts) if parts.len() == places.len() + 3 => parts,
            other => {
                // Waiting without a reply counts as loss of contact.
                lock.contended = false;
                let error = other.err().map_or("another number of answers".to_owned(), |error| error.to_string());
                tracing::debug!(name = %line.key.keys.name, error, "places not kept");
                return;
            }
        };
        lock.contact = received;
        lock.contended = lock.server_lease.is_none() && !lock.queue.is_empty();
        let (left, first) = (parts[1], parts[2]);
        let mut lost = Vec::new();
        for (nth, ((request, number), kept)) in (1..).zip(places.iter().zip(&parts[3..])) {
            let entry = lock.queue.iter().find(|entry| entry.id == *request);
            let Some(entry) = entry.filter(|entry| entry.status.position.number(*request) == *number) else { continue };
            let place = &entry.status.position;
            if *kept == 0 && place.is_inside() && !place.is_asking() {
                place.left();
                lost.push(*number);
                count::position_lost(line.key.kind);
                tracing::warn!(name = %line.key.keys.name, "thrown out of the queue alive, and lining up again");
            } else if first == nth {
                match u64::try_from(left) {
                    Ok(left) => place.is_next_until(received, Duration::from_millis(left.max(1))),
                    Err(_) if left == -2 => place.notify(),
                    Err(_) => {}
                }
            }
        }
        for number in lost {
            lock.local_pass.iter_mut().for_each(|run| run.lost(number));
        }
    }
}

/// Returns whether no operation is in flight that an attempt would conflict with.
fn may_ask(lock: &LockState) -> bool {
    !lock.asking && !matches!(lock.busy, Busy::AdjustingLease(_))
}

/// Counts a lock for as long as its positions are kept alive.
struct ActiveFairKey(Arc<Table>);

impl ActiveFairKey {
    fn new(table: &Arc<Table>) -> Self {
        table.attended.fetch_add(1, Ordering::Relaxed);
        ActiveFairKey(Arc::clone(table))
    }
}

impl Drop for ActiveFairKey {
    fn drop(&mut self) {
        self.0.attended.fetch_sub(1, Ordering::Relaxed);
    }
}
