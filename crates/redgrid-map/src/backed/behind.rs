//! Writing behind: changes wait in this process, each key with its newest value, and go to the store many at a time.

use std::collections::{HashMap, VecDeque};
use std::error::Error;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use bytes::Bytes;
use redgrid_core::clock::{Clock, Instant};
use redgrid_core::{Attendant, Client, Name};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, watch};

use super::builder::{OnLoss, Terms};
use super::store::{BackedError, Writer};
use super::turn::Batch;

/// How changes wait for the store.
///
/// ```
/// use std::time::Duration;
/// use redgrid_map::WriteBehind;
///
/// let behind = WriteBehind { delay: Duration::from_millis(200), ..WriteBehind::default() };
/// # assert_eq!(behind.batch, 50);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WriteBehind {
    /// So many keys are written at a time, 1 to 100,000. 50, as Redisson's `writeBehindBatchSize`.
    pub batch: usize,
    /// The first change waits for this long for others to go with it, up to an hour; a full batch goes at once. 1 s, as Redisson's
    /// `writeBehindDelay`. With a longer one more is lost when the process dies.
    pub delay: Duration,
    /// So many keys may wait, those that are just written included, 1 to 10,000,000: it bounds what is lost when the process dies.
    /// Beyond it a change waits for room, as long as [`WriteBehind::room_within`]. 10,000.
    pub capacity: usize,
    /// How long a change waits for room before it ends [`BackedError::Full`] and nothing is changed, up to an hour. 5 s.
    pub room_within: Duration,
    /// How long a shutdown of the client goes on writing what waits, up to an hour; what is left is told as lost. 10 s.
    pub flush_within: Duration,
}

impl Default for WriteBehind {
    fn default() -> Self {
        WriteBehind {
            batch: 50,
            delay: Duration::from_secs(1),
            capacity: 10_000,
            room_within: Duration::from_secs(5),
            flush_within: Duration::from_secs(10),
        }
    }
}

impl WriteBehind {
    /// The option that can not be, what it may be, and what it is.
    pub(super) fn unfit(&self) -> Option<(&'static str, &'static str, String)> {
        let hour = Duration::from_secs(3600);
        if !(1..=100_000).contains(&self.batch) {
            return Some(("batch", "1 to 100,000", self.batch.to_string()));
        }
        if !(1..=10_000_000).contains(&self.capacity) {
            return Some(("capacity", "1 to 10,000,000", self.capacity.to_string()));
        }
        let times = [("delay", self.delay), ("room_within", self.room_within), ("flush_within", self.flush_within)];
        let long = times.into_iter().find(|(_, time)| *time > hour);
        long.map(|(option, time)| (option, "up to an hour", format!("{time:?}")))
    }
}

/// What is to be written behind a map, and what became of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Behind {
    /// Keys that wait or are just written.
    pub waiting: usize,
    /// Keys that were written; one that was changed several times while it waited counts once.
    pub written: u64,
    /// Keys that were not, and will not be.
    pub lost: u64,
}

/// Keys whose changes are in the map and will not be written to the store.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Loss<K> {
    /// The keys.
    pub keys: Vec<K>,
    /// What the store said last, or that its time was over.
    pub error: Arc<dyn Error + Send + Sync>,
}

/// A client that was shut down before what waited was written.
#[derive(Debug, Clone, Copy, thiserror::Error)]
#[error("the client was shut down, and the store did not take it in time")]
struct OutOfTime;

/// The queue of a map, and the task that empties it; it ends with its last handle, and with the client.
pub(super) struct Queue<K, V>(Arc<Waiting<K, V>>);

struct Waiting<K, V> {
    behind: WriteBehind,
    clock: Clock,
    lines: Mutex<Lines<K, V>>,
    /// One permit for each key that may wait.
    room: Arc<Semaphore>,
    nudge: Notify,
    /// How many of those that waited have been done with.
    done: watch::Sender<u64>,
    on_loss: Option<OnLoss<K>>,
}

struct Lines<K, V> {
    waiting: HashMap<Bytes, Entry<K, V>>,
    order: VecDeque<Bytes>,
    /// What is just written: `None` where it is removed.
    under_way: HashMap<Bytes, Option<V>>,
    /// When the first of those that wait was changed.
    since: Option<Instant>,
    /// How many have ever waited.
    came: u64,
    /// So many are to go without a delay.
    at_once: u64,
    told: Behind,
    /// Nobody uses it any more.
    abandoned: bool,
    /// Nobody empties it any more.
    over: bool,
}

struct Entry<K, V> {
    key: K,
    value: Option<V>,
    _room: OwnedSemaphorePermit,
}

/// The keys that go together, and what is made of them.
struct Part<K, V> {
    fields: Vec<Bytes>,
    entries: Vec<Entry<K, V>>,
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
                told: Behind::default(),
                abandoned: false,
                over: false,
            }),
            room: Arc::new(Semaphore::new(behind.capacity)),
            nudge: Notify::new(),
            done: watch::Sender::new(0),
            on_loss,
        });
        let work = Emptying { waiting: Arc::clone(&waiting), terms, writer, end: None };
        client.attend(|attendant| work.run(attendant));
        Queue(waiting)
    }

    /// Room for so many more, which may not be more than there can be; whoever has none changes nothing.
    pub(super) async fn rooms(&self, name: &Name, count: usize) -> Result<Vec<OwnedSemaphorePermit>, BackedError> {
        let WriteBehind { capacity, room_within: waited, .. } = self.0.behind;
        let all = Arc::clone(&self.0.room).acquire_many_owned(u32::try_from(count).unwrap_or(u32::MAX));
        let mut all = match tokio::time::timeout(waited, all).await {
            Ok(Ok(all)) => all,
            Ok(Err(_)) => return Err(BackedError::Closed { name: name.clone() }),
            Err(_) => return Err(BackedError::Full { name: name.clone(), capacity, waited }),
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
            lines.told.lost += 1;
            drop(lines);
            return self.0.tell(vec![Loss { keys: vec![key], error: Arc::new(OutOfTime) }]);
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

    /// What waits of a key, the newest: `None` in it where that is removed.
    pub(super) fn waits(&self, field: &Bytes) -> Option<Option<V>> {
        let lines = self.0.lines();
        lines.waiting.get(field).map(|entry| &entry.value).or_else(|| lines.under_way.get(field)).cloned()
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

/// What the task has that empties a queue.
struct Emptying<K, V> {
    waiting: Arc<Waiting<K, V>>,
    terms: Terms,
    writer: Arc<dyn Writer<K, V>>,
    /// When a shutdown goes on no more.
    end: Option<Instant>,
}

/// While a shutdown waits for changes that are just made in the map, it looks this often whether they have come.
const LOOK: Duration = Duration::from_millis(10);

impl<K, V> Emptying<K, V>
where
    K: Clone + Send + Sync + 'static,
    V: Clone + Send + Sync + 'static,
{
    async fn run(mut self, attendant: Attendant) {
        loop {
            if attendant.is_closing() && self.end.is_none() {
                self.waiting.room.close();
                self.end = Some(self.waiting.clock.now() + self.waiting.behind.flush_within);
            }
            if let Some(part) = self.due() {
                tokio::select! {
                    biased;
                    lost = self.write(&part) => self.waiting.done(&part.fields, lost),
                    () = self.out_of_time(&attendant) => {
                        let keys = part.entries.into_iter().map(|entry| entry.key).collect();
                        self.waiting.done(&part.fields, vec![Loss { keys, error: Arc::new(OutOfTime) }]);
                        return self.waiting.give_up();
                    }
                }
                continue;
            }
            if self.end.is_some() && self.waiting.is_over() {
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
                () = attendant.closing(), if self.end.is_none() => {}
                () = self.until(at), if at.is_some() => {}
                () = tokio::time::sleep(LOOK), if self.end.is_some() => {}
                () = self.out_of_time(&attendant) => return self.waiting.give_up(),
            }
        }
    }

    async fn until(&self, at: Option<Instant>) {
        if let Some(at) = at {
            self.waiting.clock.sleep_until(at).await;
        }
    }

    /// Completes when a shutdown has lasted as long as it may.
    async fn out_of_time(&self, attendant: &Attendant) {
        let end = match self.end {
            Some(end) => end,
            None => {
                attendant.closing().await;
                self.waiting.clock.now() + self.waiting.behind.flush_within
            }
        };
        self.waiting.clock.sleep_until(end).await;
    }

    /// What goes now: a batch that is full, whose time has come, or that somebody waits for.
    fn due(&self) -> Option<Part<K, V>> {
        let WriteBehind { batch, delay, .. } = self.waiting.behind;
        let mut lines = self.waiting.lines();
        let now = self.waiting.clock.now();
        let gone = lines.came - lines.order.len() as u64;
        let due = self.end.is_some()
            || lines.abandoned
            || lines.order.len() >= batch
            || gone < lines.at_once
            || lines.since.is_some_and(|since| now >= since + delay);
        let count = lines.order.len().min(batch);
        if !due || count == 0 {
            return None;
        }
        let fields: Vec<Bytes> = lines.order.drain(..count).collect();
        let entries: Vec<_> = fields.iter().filter_map(|field| lines.waiting.remove(field)).collect();
        lines.under_way = fields.iter().cloned().zip(entries.iter().map(|entry| entry.value.clone())).collect();
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

impl<K, V> Waiting<K, V> {
    fn lines(&self) -> MutexGuard<'_, Lines<K, V>> {
        self.lines.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// A part is done with; its room is free when its entries are dropped.
    fn done(&self, fields: &[Bytes], lost: Vec<Loss<K>>) {
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
    fn is_over(&self) -> bool {
        let mut lines = self.lines();
        let over = lines.order.is_empty() && self.room.available_permits() == self.behind.capacity;
        lines.over |= over;
        over
    }

    /// Tells all that waits as lost.
    fn give_up(&self) {
        let (fields, keys) = {
            let mut lines = self.lines();
            lines.over = true;
            let fields: Vec<Bytes> = lines.order.drain(..).collect();
            (fields, lines.waiting.drain().map(|(_, entry)| entry.key).collect::<Vec<_>>())
        };
        if !keys.is_empty() {
            self.done(&fields, vec![Loss { keys, error: Arc::new(OutOfTime) }]);
        }
    }
}
