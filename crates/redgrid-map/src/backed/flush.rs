//! The flush task of a write-behind queue.
//!
//! The task writes a batch to the store when the batch is full or its delay has passed. It writes a
//! batch at once when a flush or a change without capacity waits for it, when the last handle is
//! dropped, and when the client is shut down.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use redgrid_core::BackgroundClient;
use redgrid_core::clock::Instant;

use super::builder::StoreOptions;
use super::queue::{PendingChange, SharedQueue};
use super::store::{Storable, Writer};
use super::store_call::StoreWrite;
use super::write_behind::{Loss, WriteBehind};

/// The keys of a batch, encoded, and their changes.
struct Batch<K, V> {
    fields: Vec<Bytes>,
    changes: Vec<PendingChange<K, V>>,
}

/// The task that writes the changes of a queue.
pub(super) struct FlushTask<K, V> {
    queue: Arc<SharedQueue<K, V>>,
    store_options: StoreOptions,
    writer: Arc<dyn Writer<K, V>>,
    /// Whether the client is being shut down.
    closing: bool,
}

/// During a shutdown, the interval of checks for changes that are still being made in the map.
const SHUTDOWN_CHECK_INTERVAL: Duration = Duration::from_millis(10);

impl<K: Storable, V: Storable> FlushTask<K, V> {
    pub(super) fn new(
        queue: Arc<SharedQueue<K, V>>,
        store_options: StoreOptions,
        writer: Arc<dyn Writer<K, V>>,
    ) -> Self {
        FlushTask { queue, store_options, writer, closing: false }
    }

    pub(super) async fn run(mut self, background: BackgroundClient) {
        let mut shutdown_ended = std::pin::pin!(background.nearly_closed(self.queue.write_behind.flush_timeout));
        loop {
            if background.is_closing() && !self.closing {
                self.queue.permits.close();
                self.closing = true;
            }
            if let Some(batch) = self.take_due_batch() {
                tokio::select! {
                    biased;
                    lost = self.write(&batch) => {
                        // Dropping the changes frees their capacity before the batch is reported as
                        // completed.
                        drop(batch.changes);
                        self.queue.complete(&batch.fields, lost);
                    }
                    () = &mut shutdown_ended => return,
                }
                continue;
            }
            if self.closing && self.queue.close_if_drained() {
                return;
            }
            let (due_at, handles_dropped) = {
                let state = self.queue.state();
                (state.pending_since.map(|since| since + self.queue.write_behind.delay), state.handles_dropped)
            };
            if handles_dropped && due_at.is_none() {
                return;
            }
            tokio::select! {
                () = self.queue.wake.notified() => {}
                () = background.closing(), if !self.closing => {}
                () = self.sleep_until(due_at), if due_at.is_some() => {}
                () = tokio::time::sleep(SHUTDOWN_CHECK_INTERVAL), if self.closing => {}
                () = &mut shutdown_ended => return,
            }
        }
    }

    async fn sleep_until(&self, due_at: Option<Instant>) {
        if let Some(due_at) = due_at {
            self.queue.clock.sleep_until(due_at).await;
        }
    }

    /// Takes the next batch if it is due: it is full, its delay has passed, or it is to be written
    /// at once.
    fn take_due_batch(&self) -> Option<Batch<K, V>> {
        let WriteBehind { batch, delay, .. } = self.queue.write_behind;
        let mut state = self.queue.state();
        let now = self.queue.clock.now();
        let taken = state.enqueued - state.order.len() as u64;
        let due = self.closing
            || state.handles_dropped
            || state.capacity_waiters > 0
            || state.order.len() >= batch
            || taken < state.flush_up_to
            || state.pending_since.is_some_and(|since| now >= since + delay);
        let count = state.order.len().min(batch);
        if !due || count == 0 {
            return None;
        }
        let fields: Vec<Bytes> = state.order.drain(..count).collect();
        let changes: Vec<_> = fields.iter().filter_map(|field| state.pending.remove(field)).collect();
        let in_flight = changes.iter().map(|change| (change.key.clone(), change.value.clone()));
        state.in_flight = fields.iter().cloned().zip(in_flight).collect();
        // The remaining keys were enqueued later. The times are not stored, so their delay starts
        // now.
        state.pending_since = (!state.order.is_empty()).then_some(now);
        Some(Batch { fields, changes })
    }

    /// Writes a batch, with all attempts. Returns the changes that the store rejected.
    async fn write(&self, batch: &Batch<K, V>) -> Vec<Loss<K>> {
        let written = batch.changes.iter().filter_map(|change| Some((change.key.clone(), change.value.clone()?)));
        let removed = batch.changes.iter().filter(|change| change.value.is_none()).map(|change| change.key.clone());
        let (written, removed): (Vec<_>, Vec<_>) = (written.collect(), removed.collect());
        let mut lost = Vec::new();
        if !written.is_empty() {
            let keys = || written.iter().map(|(key, _)| key.clone()).collect();
            let write = StoreWrite::Write(Arc::new(written.clone()));
            let result = write.run(&self.store_options, &self.writer).await;
            lost.extend(result.err().map(|error| Loss { keys: keys(), error }));
        }
        if !removed.is_empty() {
            let write = StoreWrite::Delete(Arc::new(removed.clone()));
            let result = write.run(&self.store_options, &self.writer).await;
            lost.extend(result.err().map(|error| Loss { keys: removed, error }));
        }
        lost
    }
}

/// Reports the remaining changes as lost however the task ends, even if it is dropped during a
/// write.
impl<K, V> Drop for FlushTask<K, V> {
    fn drop(&mut self) {
        self.queue.give_up();
    }
}
