//! Futures that their callers keep without polling them.
//!
//! Examples are `select!` branches that lost, futures in a struct, and tasks that hang.
//!
//! A caller may poll its own request in place, and a grant may arrive before the caller polls
//! again. Neither may delay other waiters. A request that is still in place after [`INLINE_TICKS`]
//! moves to a task of the client. A grant that is not taken within [`UNCLAIMED_TICKS`] is given up.
//! Both are registered here and checked by one task of the client, which sleeps while nothing is
//! registered.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::time::Duration;

use tokio::sync::{Notify, mpsc};

use crate::lock::BackgroundTask;

/// Interval of the checks while something is registered.
const TICK: Duration = Duration::from_millis(250);

/// A request moves to a task after a quarter to half a second. Most requests end earlier, so few
/// are moved.
const INLINE_TICKS: u64 = 2;

/// A grant is given up after three quarters of a second to a second.
///
/// With [`INLINE_TICKS`] before it, another waiter is delayed by a second and a half at most.
const UNCLAIMED_TICKS: u64 = 4;

/// A queue below this length is not searched for dead entries.
const MIN_COMPACT_LEN: usize = 64;

/// Work or a grant that its caller must poll for.
pub(crate) trait Unpolled: Send + Sync {
    /// Called when its time is over. Gives up what the caller did not take, or returns the work for
    /// a task to continue.
    fn give_up(self: Arc<Self>) -> Option<BackgroundTask>;
}

/// All futures of one client that wait to be polled.
#[derive(Default)]
pub(crate) struct UnpolledRegistry {
    state: Mutex<RegistryState>,
    registered: Notify,
}

#[derive(Default)]
struct RegistryState {
    /// Number of checks so far.
    tick: u64,
    inline: AgeQueue,
    unclaimed: AgeQueue,
    /// Whether the task is awake.
    checking: bool,
}

/// Entries in the order of their registration, each with its tick. Most of them end soon.
#[derive(Default)]
struct AgeQueue {
    entries: VecDeque<(u64, Weak<dyn Unpolled>)>,
    /// Queue length at which dead entries are removed.
    compact_at: usize,
}

impl AgeQueue {
    fn push(&mut self, tick: u64, entry: Weak<dyn Unpolled>) {
        while self.entries.front().is_some_and(|(_, entry)| entry.strong_count() == 0) {
            self.entries.pop_front();
        }
        if self.entries.len() >= self.compact_at.max(MIN_COMPACT_LEN) {
            self.entries.retain(|(_, entry)| entry.strong_count() > 0);
            self.compact_at = 2 * self.entries.len();
        }
        self.entries.push_back((tick, entry));
    }

    /// Moves the entries that were registered by `tick` to `due`.
    fn take_due(&mut self, tick: u64, due: &mut Vec<Arc<dyn Unpolled>>) {
        while self.entries.front().is_some_and(|(registered_at, _)| *registered_at <= tick) {
            due.extend(self.entries.pop_front().and_then(|(_, entry)| entry.upgrade()));
        }
        if self.entries.is_empty() {
            self.entries.shrink_to(MIN_COMPACT_LEN);
        }
    }

    fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}

impl UnpolledRegistry {
    /// Registers a request that its caller polls in place.
    pub(crate) fn register_inline<T: Unpolled + 'static>(&self, entry: &Arc<T>) {
        self.register(entry, |state, entry| state.inline.push(state.tick, entry));
    }

    /// Registers a grant that its caller has not taken yet.
    pub(crate) fn register_unclaimed<T: Unpolled + 'static>(&self, entry: &Arc<T>) {
        self.register(entry, |state, entry| state.unclaimed.push(state.tick, entry));
    }

    fn register<T: Unpolled + 'static>(
        &self,
        entry: &Arc<T>,
        push: impl FnOnce(&mut RegistryState, Weak<dyn Unpolled>),
    ) {
        let entry: Weak<dyn Unpolled> = Arc::<T>::downgrade(entry);
        let mut state = self.state();
        push(&mut state, entry);
        if !std::mem::replace(&mut state.checking, true) {
            self.registered.notify_one();
        }
    }

    fn state(&self) -> MutexGuard<'_, RegistryState> {
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Advances the tick. Returns the due entries, and whether any are still registered.
    fn tick(&self) -> (Vec<Arc<dyn Unpolled>>, bool) {
        let mut due = Vec::new();
        let mut state = self.state();
        state.tick += 1;
        let tick = state.tick;
        if let Some(tick) = tick.checked_sub(INLINE_TICKS) {
            state.inline.take_due(tick, &mut due);
        }
        if let Some(tick) = tick.checked_sub(UNCLAIMED_TICKS) {
            state.unclaimed.take_due(tick, &mut due);
        }
        state.checking = !state.inline.is_empty() || !state.unclaimed.is_empty();
        (due, state.checking)
    }

    /// Runs the client's task. Requests that it takes over go to `work`.
    pub(crate) async fn watch(&self, work: mpsc::UnboundedSender<BackgroundTask>) {
        loop {
            self.registered.notified().await;
            loop {
                tokio::time::sleep(TICK).await;
                let (due, goes_on) = self.tick();
                for taken_over in due.into_iter().filter_map(Unpolled::give_up) {
                    let _ = work.send(taken_over);
                }
                if !goes_on {
                    break;
                }
            }
        }
    }
}

/// A grant on its way to its caller, which has a second to take it. A grant that is not taken is
/// dropped.
pub struct Offer<T>(Arc<Cell<T>>);

struct Cell<T>(Mutex<Option<T>>);

impl<T> Cell<T> {
    fn take(&self) -> Option<T> {
        self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).take()
    }
}

impl<T: Send + 'static> Offer<T> {
    pub(crate) fn new(registry: &UnpolledRegistry, value: T) -> Self {
        let cell = Arc::new(Cell(Mutex::new(Some(value))));
        registry.register_unclaimed(&cell);
        Offer(cell)
    }

    /// Takes the grant. `None` if the second was over.
    pub fn take(self) -> Option<T> {
        self.0.take()
    }
}

impl<T: Send> Unpolled for Cell<T> {
    fn give_up(self: Arc<Self>) -> Option<BackgroundTask> {
        // Dropped after the lock is released: dropping the grant may run any code.
        drop(self.take());
        None
    }
}

impl<T> std::fmt::Debug for Offer<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Offer").finish_non_exhaustive()
    }
}
