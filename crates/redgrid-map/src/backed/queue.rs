//! The write-behind queue: each key with its newest value, in order of arrival.

use std::collections::{HashMap, VecDeque};
use std::error::Error;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use bytes::Bytes;
use redgrid_core::author::ClientExt;
use redgrid_core::clock::{Clock, Instant};
use redgrid_core::{Client, Name};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, TryAcquireError, watch};

use super::builder::{OnLoss, StoreOptions};
use super::flush::FlushTask;
use super::store::{BackedError, Storable, Writer};
use super::write_behind::{Loss, WriteBehind, WriteBehindStats};

/// The client was shut down before the pending changes were written.
#[derive(Debug, Clone, Copy, thiserror::Error)]
#[error("the client was shut down before the store accepted the change")]
pub(super) struct NotWrittenInTime;

/// The queue of a map and its flush task, which ends with the last handle and with the client.
pub(super) struct Queue<K, V>(Arc<SharedQueue<K, V>>);

/// The part of a queue that its handles and its flush task share.
pub(super) struct SharedQueue<K, V> {
    pub(super) write_behind: WriteBehind,
    pub(super) clock: Clock,
    pub(super) state: Mutex<QueueState<K, V>>,
    /// One permit for each key that may be pending or in flight.
    pub(super) permits: Arc<Semaphore>,
    /// Wakes the flush task.
    pub(super) wake: Notify,
    /// The total number of keys that were written or lost.
    pub(super) completed: watch::Sender<u64>,
    pub(super) on_loss: Option<OnLoss<K>>,
}

pub(super) struct QueueState<K, V> {
    pub(super) pending: HashMap<Bytes, PendingChange<K, V>>,
    pub(super) order: VecDeque<Bytes>,
    /// The keys of the write in flight; no value if the key is removed.
    pub(super) in_flight: HashMap<Bytes, (K, Option<V>)>,
    /// The start of the delay of the first pending key.
    pub(super) pending_since: Option<Instant>,
    /// The total number of keys that were ever enqueued.
    pub(super) enqueued: u64,
    /// Keys up to this number are written without a delay. They are numbered in the order in which
    /// they were enqueued.
    pub(super) flush_up_to: u64,
    pub(super) totals: WriteBehindStats,
    /// The number of changes that wait for capacity.
    pub(super) capacity_waiters: usize,
    /// Whether no handle is left.
    pub(super) handles_dropped: bool,
    /// Whether the flush task has ended or accepts no more changes.
    pub(super) closed: bool,
}

pub(super) struct PendingChange<K, V> {
    pub(super) key: K,
    pub(super) value: Option<V>,
    _permit: OwnedSemaphorePermit,
}

impl<K: Storable, V: Storable> Queue<K, V> {
    pub(super) fn start(
        client: &Client,
        write_behind: WriteBehind,
        store_options: StoreOptions,
        writer: Arc<dyn Writer<K, V>>,
        on_loss: Option<OnLoss<K>>,
    ) -> Queue<K, V> {
        let shared = Arc::new(SharedQueue {
            write_behind,
            clock: client.clock().clone(),
            state: Mutex::new(QueueState {
                pending: HashMap::new(),
                order: VecDeque::new(),
                in_flight: HashMap::new(),
                pending_since: None,
                enqueued: 0,
                flush_up_to: 0,
                capacity_waiters: 0,
                totals: WriteBehindStats::default(),
                handles_dropped: false,
                closed: false,
            }),
            permits: Arc::new(Semaphore::new(write_behind.capacity)),
            wake: Notify::new(),
            completed: watch::Sender::new(0),
            on_loss,
        });
        let task = FlushTask::new(Arc::clone(&shared), store_options, writer);
        client.spawn_attached(|background| task.run(background));
        Queue(shared)
    }

    /// Reserves capacity for `count` keys, which must not exceed the total capacity.
    ///
    /// The caller may change the map only if it receives the permits.
    pub(super) async fn reserve(&self, name: &Name, count: usize) -> Result<Vec<OwnedSemaphorePermit>, BackedError> {
        let WriteBehind { capacity, capacity_timeout: waited, .. } = self.0.write_behind;
        let count = u32::try_from(count).unwrap_or(u32::MAX);
        let mut permits = Arc::clone(&self.0.permits).try_acquire_many_owned(count);
        if let Err(TryAcquireError::NoPermits) = permits {
            // Pending changes are written now, even if the queue is smaller than a batch and the
            // delay is not over.
            let _waiter = CapacityWaiter::new(&self.0);
            let acquire = Arc::clone(&self.0.permits).acquire_many_owned(count);
            permits = match tokio::time::timeout(waited, acquire).await {
                Ok(acquired) => acquired.map_err(|_| TryAcquireError::Closed),
                Err(_) => Err(TryAcquireError::NoPermits),
            };
        }
        let mut permits = match permits {
            Ok(permits) => permits,
            Err(TryAcquireError::Closed) => return Err(BackedError::Closed { name: name.clone() }),
            Err(TryAcquireError::NoPermits) => return Err(BackedError::Full { name: name.clone(), capacity, waited }),
        };
        Ok(std::iter::from_fn(|| permits.split(1)).collect())
    }

    pub(super) fn capacity(&self) -> usize {
        self.0.write_behind.capacity
    }

    /// Enqueues a change. It replaces a pending change of the same key, at its position.
    pub(super) fn push(&self, field: Bytes, key: K, value: Option<V>, permit: OwnedSemaphorePermit) {
        let mut state = self.0.state();
        if state.closed {
            drop(state);
            return self.report_lost(vec![key], Arc::new(NotWrittenInTime));
        }
        match state.pending.get_mut(&field) {
            // The new permit is returned; the pending change keeps its own.
            Some(change) => change.value = value,
            None => {
                state.enqueued += 1;
                state.order.push_back(field.clone());
                state.pending.insert(field, PendingChange { key, value, _permit: permit });
                state.pending_since.get_or_insert_with(|| self.0.clock.now());
            }
        }
        drop(state);
        self.0.wake.notify_one();
    }

    /// Reports keys that are, or may be, changed in the map and will not be written.
    pub(super) fn report_lost(&self, keys: Vec<K>, error: Arc<dyn Error + Send + Sync>) {
        self.0.state().totals.lost += keys.len() as u64;
        self.0.call_on_loss(vec![Loss { keys, error }]);
    }

    /// Returns the newest value of a key that is pending or in flight; `Some(None)` if the key is
    /// to be removed.
    pub(super) fn pending_value(&self, field: &Bytes) -> Option<Option<V>> {
        let state = self.0.state();
        state
            .pending
            .get(field)
            .map(|change| &change.value)
            .or_else(|| state.in_flight.get(field).map(|(_, value)| value))
            .cloned()
    }
}

impl<K, V> Queue<K, V> {
    pub(super) fn stats(&self) -> WriteBehindStats {
        let state = self.0.state();
        WriteBehindStats { waiting: state.pending.len() + state.in_flight.len(), ..state.totals }
    }

    pub(super) async fn flush(&self, within: Duration) -> bool {
        let target = {
            let mut state = self.0.state();
            state.flush_up_to = state.enqueued;
            state.enqueued
        };
        self.0.wake.notify_one();
        let mut completed = self.0.completed.subscribe();
        let flushed = completed.wait_for(|completed| *completed >= target);
        tokio::time::timeout(within, flushed).await.is_ok_and(|reached| reached.is_ok())
    }
}

impl<K, V> Drop for Queue<K, V> {
    fn drop(&mut self) {
        self.0.state().handles_dropped = true;
        self.0.wake.notify_one();
    }
}

impl<K, V> SharedQueue<K, V> {
    pub(super) fn state(&self) -> MutexGuard<'_, QueueState<K, V>> {
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Records the end of the write in flight, and reports its lost keys.
    pub(super) fn complete(&self, fields: &[Bytes], lost: Vec<Loss<K>>) {
        let lost_count: u64 = lost.iter().map(|loss| loss.keys.len() as u64).sum();
        {
            let mut state = self.state();
            state.in_flight.clear();
            state.totals.lost += lost_count;
            state.totals.written += fields.len() as u64 - lost_count;
        }
        self.call_on_loss(lost);
        self.completed.send_modify(|completed| *completed += fields.len() as u64);
    }

    fn call_on_loss(&self, lost: Vec<Loss<K>>) {
        let Some(on_loss) = &self.on_loss else { return };
        for loss in lost {
            // A panic of the callback does not end the task.
            let _ = catch_unwind(AssertUnwindSafe(|| on_loss(loss)));
        }
    }

    /// Returns whether no change is pending, in flight or about to be enqueued. If so, the queue is
    /// closed.
    pub(super) fn close_if_drained(&self) -> bool {
        let mut state = self.state();
        let drained = state.order.is_empty() && self.permits.available_permits() == self.write_behind.capacity;
        state.closed |= drained;
        drained
    }

    /// Closes the queue, and reports all pending and in-flight keys as lost.
    pub(super) fn give_up(&self) {
        self.permits.close();
        let (fields, keys) = {
            let mut state = self.state();
            state.closed = true;
            let (mut fields, mut keys): (Vec<Bytes>, Vec<K>) =
                state.in_flight.drain().map(|(field, (key, _))| (field, key)).unzip();
            fields.extend(state.order.drain(..));
            keys.extend(state.pending.drain().map(|(_, change)| change.key));
            (fields, keys)
        };
        if !keys.is_empty() {
            self.complete(&fields, vec![Loss { keys, error: Arc::new(NotWrittenInTime) }]);
        }
    }
}

/// A change that waits for capacity. While it exists, pending changes are written without a delay.
struct CapacityWaiter<'a, K, V>(&'a SharedQueue<K, V>);

impl<'a, K, V> CapacityWaiter<'a, K, V> {
    fn new(shared: &'a SharedQueue<K, V>) -> Self {
        shared.state().capacity_waiters += 1;
        shared.wake.notify_one();
        CapacityWaiter(shared)
    }
}

impl<K, V> Drop for CapacityWaiter<'_, K, V> {
    fn drop(&mut self) {
        self.0.state().capacity_waiters -= 1;
    }
}
