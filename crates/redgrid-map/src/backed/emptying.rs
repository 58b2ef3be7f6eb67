//! Emptying the queue: batches go to the store when they are full, when their time has come, and when the client ends.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use redgrid_core::BackgroundClient;
use redgrid_core::clock::Instant;

use super::behind::{Loss, WriteBehind};
use super::builder::Terms;
use super::queue::{Entry, Waiting};
use super::store::Writer;
use super::turn::Batch;

/// The keys that go together, and what is made of them.
struct Part<K, V> {
    fields: Vec<Bytes>,
    entries: Vec<Entry<K, V>>,
}

/// What the task has that empties a queue.
pub(super) struct Emptying<K, V> {
    waiting: Arc<Waiting<K, V>>,
    terms: Terms,
    writer: Arc<dyn Writer<K, V>>,
    /// Whether the client is being shut down.
    closing: bool,
}

/// While a shutdown waits for changes that are just made in the map, it looks this often whether they have come.
const LOOK: Duration = Duration::from_millis(10);

impl<K, V> Emptying<K, V>
where
    K: Clone + Send + Sync + 'static,
    V: Clone + Send + Sync + 'static,
{
    pub(super) fn new(waiting: Arc<Waiting<K, V>>, terms: Terms, writer: Arc<dyn Writer<K, V>>) -> Self {
        Emptying { waiting, terms, writer, closing: false }
    }

    pub(super) async fn run(mut self, attendant: BackgroundClient) {
        let mut over = std::pin::pin!(attendant.nearly_closed(self.waiting.behind.flush_within));
        loop {
            if attendant.is_closing() && !self.closing {
                self.waiting.room.close();
                self.closing = true;
            }
            if let Some(part) = self.due() {
                tokio::select! {
                    biased;
                    lost = self.write(&part) => {
                        // Its room is free before it is told to be done with.
                        drop(part.entries);
                        self.waiting.done(&part.fields, lost);
                    }
                    () = &mut over => return,
                }
                continue;
            }
            if self.closing && self.waiting.is_over() {
                return;
            }
            let (at, abandoned) = {
                let lines = self.waiting.lines();
                (lines.since.map(|since| since + self.waiting.behind.delay), lines.abandoned)
            };
            if abandoned && at.is_none() {
                return;
            }
            tokio::select! {
                () = self.waiting.nudge.notified() => {}
                () = attendant.closing(), if !self.closing => {}
                () = self.until(at), if at.is_some() => {}
                () = tokio::time::sleep(LOOK), if self.closing => {}
                () = &mut over => return,
            }
        }
    }

    async fn until(&self, at: Option<Instant>) {
        if let Some(at) = at {
            self.waiting.clock.sleep_until(at).await;
        }
    }

    /// What goes now: a batch that is full, whose time has come, or that somebody waits for.
    fn due(&self) -> Option<Part<K, V>> {
        let WriteBehind { batch, delay, .. } = self.waiting.behind;
        let mut lines = self.waiting.lines();
        let now = self.waiting.clock.now();
        let gone = lines.came - lines.order.len() as u64;
        let due = self.closing
            || lines.abandoned
            || lines.wanted > 0
            || lines.order.len() >= batch
            || gone < lines.at_once
            || lines.since.is_some_and(|since| now >= since + delay);
        let count = lines.order.len().min(batch);
        if !due || count == 0 {
            return None;
        }
        let fields: Vec<Bytes> = lines.order.drain(..count).collect();
        let entries: Vec<_> = fields.iter().filter_map(|field| lines.waiting.remove(field)).collect();
        lines.under_way =
            fields.iter().cloned().zip(entries.iter().map(|entry| (entry.key.clone(), entry.value.clone()))).collect();
        // Those behind came later; their delay counts from now at the latest.
        lines.since = (!lines.order.is_empty()).then_some(now);
        Some(Part { fields, entries })
    }

    /// Writes a part with all its tries; what the store did not take is told.
    async fn write(&self, part: &Part<K, V>) -> Vec<Loss<K>> {
        let written = part.entries.iter().filter_map(|entry| Some((entry.key.clone(), entry.value.clone()?)));
        let removed = part.entries.iter().filter(|entry| entry.value.is_none()).map(|entry| entry.key.clone());
        let (written, removed): (Vec<_>, Vec<_>) = (written.collect(), removed.collect());
        let mut lost = Vec::new();
        if !written.is_empty() {
            let keys = || written.iter().map(|(key, _)| key.clone()).collect();
            let batch = Batch::Write(Arc::new(written.clone()));
            lost.extend(batch.stored(&self.terms, &self.writer).await.err().map(|error| Loss { keys: keys(), error }));
        }
        if !removed.is_empty() {
            let batch = Batch::Delete(Arc::new(removed.clone()));
            lost.extend(batch.stored(&self.terms, &self.writer).await.err().map(|error| Loss { keys: removed, error }));
        }
        lost
    }
}

/// However it ends, also when it is dropped in the midst of a write: what is left is told.
impl<K, V> Drop for Emptying<K, V> {
    fn drop(&mut self) {
        self.waiting.give_up();
    }
}
