//! What waits for the store: each key with its newest value, in the order in which they came.

use std::collections::{HashMap, VecDeque};
use std::error::Error;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use bytes::Bytes;
use redgrid_core::clock::{Clock, Instant};
use redgrid_core::{Client, Name};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, TryAcquireError, watch};

use super::behind::{Behind, Loss, WriteBehind};
use super::builder::{OnLoss, Terms};
use super::emptying::Emptying;
use super::store::{BackedError, Writer};

/// A client that was shut down before what waited was written.
#[derive(Debug, Clone, Copy, thiserror::Error)]
#[error("the client was shut down, and the store did not take it in time")]
pub(super) struct OutOfTime;

/// The queue of a map, and the task that empties it; it ends with its last handle, and with the client.
pub(super) struct Queue<K, V>(Arc<Waiting<K, V>>);

pub(super) struct Waiting<K, V> {
    pub(super) behind: WriteBehind,
    pub(super) clock: Clock,
    pub(super) lines: Mutex<Lines<K, V>>,
    /// One permit for each key that may wait.
    pub(super) room: Arc<Semaphore>,
    pub(super) nudge: Notify,
    /// How many of those that waited have been done with.
    pub(super) done: watch::Sender<u64>,
    pub(super) on_loss: Option<OnLoss<K>>,
}

pub(super) struct Lines<K, V> {
    pub(super) waiting: HashMap<Bytes, Entry<K, V>>,
    pub(super) order: VecDeque<Bytes>,
    /// What is just written: no value where it is removed.
    pub(super) under_way: HashMap<Bytes, (K, Option<V>)>,
    /// When the first of those that wait was changed.
    pub(super) since: Option<Instant>,
    /// How many have ever waited.
    pub(super) came: u64,
    /// So many are to go without a delay.
    pub(super) at_once: u64,
    pub(super) told: Behind,
    /// So many wait for room.
    pub(super) wanted: usize,
    /// Nobody uses it any more.
    pub(super) abandoned: bool,
    /// Nobody empties it any more.
    pub(super) over: bool,
}

pub(super) struct Entry<K, V> {
    pub(super) key: K,
    pub(super) value: Option<V>,
    _room: OwnedSemaphorePermit,
}

impl<K, V> Queue<K, V>
where
    K: Clone + Send + Sync + 'static,
    V: Clone + Send + Sync + 'static,
{
    pub(super) fn start(
        client: &Client,
        behind: WriteBehind,
        terms: Terms,
        writer: Arc<dyn Writer<K, V>>,
        on_loss: Option<OnLoss<K>>,
    ) -> Queue<K, V> {
        let waiting = Arc::new(Waiting {
            behind,
            clock: client.clock().clone(),
            lines: Mutex::new(Lines {
                waiting: HashMap::new(),
                order: VecDeque::new(),
                under_way: HashMap::new(),
                since: None,
                came: 0,
                at_once: 0,
                wanted: 0,
                told: Behind::default(),
                abandoned: false,
                over: false,
            }),
            room: Arc::new(Semaphore::new(behind.capacity)),
            nudge: Notify::new(),
            done: watch::Sender::new(0),
            on_loss,
        });
        let work = Emptying::new(Arc::clone(&waiting), terms, writer);
        client.spawn_attached(|attendant| work.run(attendant));
        Queue(waiting)
    }

    /// Room for so many more, which may not be more than there can be; whoever has none changes nothing.
    pub(super) async fn rooms(&self, name: &Name, count: usize) -> Result<Vec<OwnedSemaphorePermit>, BackedError> {
        let WriteBehind { capacity, room_within: waited, .. } = self.0.behind;
        let count = u32::try_from(count).unwrap_or(u32::MAX);
        let mut all = Arc::clone(&self.0.room).try_acquire_many_owned(count);
        if let Err(TryAcquireError::NoPermits) = all {
            // What waits goes now, also where a batch is larger than the queue and the delay not over.
            let _wants = Wants::room(&self.0);
            let free = Arc::clone(&self.0.room).acquire_many_owned(count);
            all = match tokio::time::timeout(waited, free).await {
                Ok(free) => free.map_err(|_| TryAcquireError::Closed),
                Err(_) => Err(TryAcquireError::NoPermits),
            };
        }
        let mut all = match all {
            Ok(all) => all,
            Err(TryAcquireError::Closed) => return Err(BackedError::Closed { name: name.clone() }),
            Err(TryAcquireError::NoPermits) => return Err(BackedError::Full { name: name.clone(), capacity, waited }),
        };
        Ok(std::iter::from_fn(|| all.split(1)).collect())
    }

    pub(super) fn capacity(&self) -> usize {
        self.0.behind.capacity
    }

    /// Has a change wait; one of the same key that waits is replaced, where it stands.
    pub(super) fn push(&self, field: Bytes, key: K, value: Option<V>, room: OwnedSemaphorePermit) {
        let mut lines = self.0.lines();
        if lines.over {
            drop(lines);
            return self.lose(vec![key], Arc::new(OutOfTime));
        }
        match lines.waiting.get_mut(&field) {
            // Its own room goes back.
            Some(entry) => entry.value = value,
            None => {
                lines.came += 1;
                lines.order.push_back(field.clone());
                lines.waiting.insert(field, Entry { key, value, _room: room });
                lines.since.get_or_insert_with(|| self.0.clock.now());
            }
        }
        drop(lines);
        self.0.nudge.notify_one();
    }

    /// Tells what is changed in the map, or may be, and will not be written.
    pub(super) fn lose(&self, keys: Vec<K>, error: Arc<dyn Error + Send + Sync>) {
        self.0.lines().told.lost += keys.len() as u64;
        self.0.tell(vec![Loss { keys, error }]);
    }

    /// What waits of a key, the newest: `None` in it where that is removed.
    pub(super) fn waits(&self, field: &Bytes) -> Option<Option<V>> {
        let lines = self.0.lines();
        lines
            .waiting
            .get(field)
            .map(|entry| &entry.value)
            .or_else(|| lines.under_way.get(field).map(|(_, value)| value))
            .cloned()
    }
}

impl<K, V> Queue<K, V> {
    pub(super) fn behind(&self) -> Behind {
        let lines = self.0.lines();
        Behind { waiting: lines.waiting.len() + lines.under_way.len(), ..lines.told }
    }

    pub(super) async fn flush(&self, within: Duration) -> bool {
        let all = {
            let mut lines = self.0.lines();
            lines.at_once = lines.came;
            lines.came
        };
        self.0.nudge.notify_one();
        let mut done = self.0.done.subscribe();
        let written = done.wait_for(|done| *done >= all);
        tokio::time::timeout(within, written).await.is_ok_and(|seen| seen.is_ok())
    }
}

impl<K, V> Drop for Queue<K, V> {
    fn drop(&mut self) {
        self.0.lines().abandoned = true;
        self.0.nudge.notify_one();
    }
}

impl<K, V> Waiting<K, V> {
    pub(super) fn lines(&self) -> MutexGuard<'_, Lines<K, V>> {
        self.lines.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// A part is done with.
    pub(super) fn done(&self, fields: &[Bytes], lost: Vec<Loss<K>>) {
        let missing: u64 = lost.iter().map(|loss| loss.keys.len() as u64).sum();
        {
            let mut lines = self.lines();
            lines.under_way.clear();
            lines.told.lost += missing;
            lines.told.written += fields.len() as u64 - missing;
        }
        self.tell(lost);
        self.done.send_modify(|done| *done += fields.len() as u64);
    }

    fn tell(&self, lost: Vec<Loss<K>>) {
        let Some(on_loss) = &self.on_loss else { return };
        for loss in lost {
            // A panic of the caller's words is not to end the work.
            let _ = catch_unwind(AssertUnwindSafe(|| on_loss(loss)));
        }
    }

    /// Whether everything that came, or was to come, has been done with: then nothing more may come.
    pub(super) fn is_over(&self) -> bool {
        let mut lines = self.lines();
        let over = lines.order.is_empty() && self.room.available_permits() == self.behind.capacity;
        lines.over |= over;
        over
    }

    /// Nothing more may come, and all that waits or is just written is told as lost.
    pub(super) fn give_up(&self) {
        self.room.close();
        let (fields, keys) = {
            let mut lines = self.lines();
            lines.over = true;
            let (mut fields, mut keys): (Vec<Bytes>, Vec<K>) =
                lines.under_way.drain().map(|(field, (key, _))| (field, key)).unzip();
            fields.extend(lines.order.drain(..));
            keys.extend(lines.waiting.drain().map(|(_, entry)| entry.key));
            (fields, keys)
        };
        if !keys.is_empty() {
            self.done(&fields, vec![Loss { keys, error: Arc::new(OutOfTime) }]);
        }
    }
}

/// Somebody who waits for room: what waits goes on at once meanwhile.
struct Wants<'a, K, V>(&'a Waiting<K, V>);

impl<'a, K, V> Wants<'a, K, V> {
    fn room(waiting: &'a Waiting<K, V>) -> Self {
        waiting.lines().wanted += 1;
        waiting.nudge.notify_one();
        Wants(waiting)
    }
}

impl<K, V> Drop for Wants<'_, K, V> {
    fn drop(&mut self) {
        self.0.lines().wanted -= 1;
    }
}
