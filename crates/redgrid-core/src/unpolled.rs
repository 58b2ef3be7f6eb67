//! Futures that their callers neither poll nor drop.
//!
//! Examples: the futures of `select!` branches that were not chosen, futures in a struct, and
//! futures of tasks that hang.
//!
//! A caller can poll its own request in place, that is, without a task for the request. A grant can
//! arrive before the caller polls again. If the caller stops polling, neither the request nor the
//! grant may delay other waiters. A request that is still in place after [`INLINE_TICKS`] moves to
//! a task of the client. A grant that is not taken within [`UNCLAIMED_TICKS`] is given up. Requests
//! and grants are registered here. One task of the client checks all of them. This task sleeps
//! while nothing is registered.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::{self, Arc, MutexGuard, TryLockError, Weak};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use redgrid_client::Client;
pub(crate) use redgrid_client::internal::BackgroundTask;
use redgrid_client::internal::{Core, Mutex};
use tokio::sync::{Notify, oneshot};

use crate::service::ClientParts;

/// Interval of the checks while something is registered.
const TICK: Duration = Duration::from_millis(250);

/// Number of checks after which a request moves to a task: 2. The request moves a quarter to half a
/// second after its registration.
///
/// Most requests end earlier, so few are moved.
const INLINE_TICKS: u64 = 2;

/// Number of checks after which a grant is given up: 4. The grant is given up 750 ms to 1 s after
/// its registration.
///
/// If a caller stops polling, its request first moves to a task, and later its grant is given up.
/// Other waiters wait for both limits, [`INLINE_TICKS`] and this one: at most 1.5 s.
const UNCLAIMED_TICKS: u64 = 4;

/// Minimum length at which a queue is searched for dropped entries.
const MIN_COMPACT_LEN: usize = 64;

/// A request that its caller has to poll, or a grant that its caller has to take.
pub(crate) trait Unpolled: Send + Sync {
    /// Takes the request or grant away from a caller that has not polled in time. A grant is
    /// dropped. An unfinished request is returned, and a task must then continue it.
    fn give_up(self: Arc<Self>) -> Option<BackgroundTask>;
}

/// Registry of one client's requests and grants. They wait until their callers poll.
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
    /// Whether the client's task checks the entries at intervals. Otherwise the task sleeps.
    checking: bool,
}

/// Entries in the order of their registration, each with the tick at which it was registered. Most
/// entries are dropped by their owners soon.
#[derive(Default)]
struct AgeQueue {
    entries: VecDeque<(u64, Weak<dyn Unpolled>)>,
    /// Queue length at which dropped entries are searched for and removed.
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

    /// Removes the entries that were registered at `tick` or earlier, and appends them to `due`.
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
        let mut state = self.state.lock();
        push(&mut state, entry);
        if !std::mem::replace(&mut state.checking, true) {
            self.registered.notify_one();
        }
    }

    /// Advances the tick. Returns the entries to be given up, and whether other entries are still
    /// registered.
    fn tick(&self) -> (Vec<Arc<dyn Unpolled>>, bool) {
        let mut due = Vec::new();
        let mut state = self.state.lock();
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

    /// Runs the client's task that checks the registered requests and grants. If a caller has not
    /// polled its request in time, the request becomes a background task.
    pub(crate) async fn watch(&self, core: &Core) {
        loop {
            self.registered.notified().await;
            loop {
                tokio::time::sleep(TICK).await;
                let (due, goes_on) = self.tick();
                for taken_over in due.into_iter().filter_map(Unpolled::give_up) {
                    core.spawn_background(taken_over);
                }
                if !goes_on {
                    break;
                }
            }
        }
    }
}

/// A grant on its way to its caller. If the caller does not take the grant within a second, the
/// grant is dropped.
pub struct Offer<T>(Arc<Mutex<Option<T>>>);

impl<T: Send + 'static> Offer<T> {
    pub(crate) fn new(registry: &UnpolledRegistry, value: T) -> Self {
        let cell = Arc::new(Mutex::new(Some(value)));
        registry.register_unclaimed(&cell);
        Offer(cell)
    }

    /// Takes the grant. Returns `None` if the caller was too late and the grant was given up.
    pub fn take(self) -> Option<T> {
        self.0.lock().take()
    }
}

impl<T: Send> Unpolled for Mutex<Option<T>> {
    fn give_up(self: Arc<Self>) -> Option<BackgroundTask> {
        // The mutex is unlocked before the grant is dropped, because the drop can run any code.
        let grant = self.lock().take();
        drop(grant);
        None
    }
}

crate::debug_fields!([T] Offer<T>, |_it|);

/// A request that its caller polls in place until a task has to continue it.
///
/// A caller without competitors polls its own request, and no task is spawned for the request. The
/// request moves to a task when a second request for the same object arrives, or when the caller is
/// dropped. If the request is [observed](InlineTask::observed), it also moves after a while,
/// because the caller may have stopped polling. The request delivers its result itself, so any task
/// can poll it.
#[derive(Clone)]
pub(crate) struct InlineTask(Arc<sync::Mutex<Inner>>);

struct Inner {
    work: Option<BackgroundTask>,
    /// The waker of the caller that polls the work. This waker is used only when the work is taken
    /// away: otherwise, the caller finds the result after one of its own polls.
    caller: Option<Waker>,
}

impl InlineTask {
    /// Creates work that is not [observed](InlineTask::observed): it acquires nothing that others
    /// wait for, so its caller may stop polling.
    ///
    /// If the caller does not poll, the work stays unfinished until another request moves it to a
    /// task.
    pub(crate) fn new(work: BackgroundTask) -> Self {
        InlineTask(Arc::new(sync::Mutex::new(Inner { work: Some(work), caller: None })))
    }

    /// Creates work that can acquire or release something for which others wait.
    ///
    /// If the caller has not polled the work within 250 to 500 ms, the work moves to a task.
    pub(crate) fn observed(unpolled: &UnpolledRegistry, work: BackgroundTask) -> Self {
        let inline_task = InlineTask::new(work);
        unpolled.register_inline(&inline_task.0);
        inline_task
    }

    /// Polls the work if it is still in place.
    ///
    /// Returns true if the work is unfinished and stays in place. The caller then needs no other
    /// wake-up: it is woken when the work can continue, or when the work is taken away.
    pub(crate) fn poll(&self, cx: &mut Context<'_>) -> bool {
        let mut inner = self.inner();
        // The work is taken out while it is polled. So if the work panics, it is not polled again.
        let Some(mut work) = inner.work.take() else { return false };
        if work.as_mut().poll(cx).is_ready() {
            inner.caller = None;
            return false;
        }
        inner.work = Some(work);
        match &mut inner.caller {
            Some(caller) => caller.clone_from(cx.waker()),
            none => *none = Some(cx.waker().clone()),
        }
        true
    }

    /// Returns whether the work has completed or was taken away. Returns false while the work is
    /// being polled.
    pub(crate) fn is_over(&self) -> bool {
        match self.0.try_lock() {
            Ok(inner) => inner.work.is_none(),
            Err(TryLockError::Poisoned(panicked)) => panicked.into_inner().work.is_none(),
            Err(TryLockError::WouldBlock) => false,
        }
    }

    /// Takes the work away from the caller, so that a task can poll it instead.
    ///
    /// The caller is woken, because it cannot poll the work any longer and has to wait for the
    /// result.
    pub(crate) fn take(&self) -> Option<BackgroundTask> {
        let Inner { work, caller } = std::mem::replace(&mut *self.inner(), Inner { work: None, caller: None });
        if let Some(caller) = caller {
            caller.wake();
        }
        work
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

/// A future for a result that a task or an [`InlineTask`] sends. While the work is in place,
/// polling this future also polls the work.
///
/// If the future is dropped, a task of the client continues the work. The output is `None` if the
/// work ends without a result.
pub(crate) struct InPlace<T> {
    /// This handle also keeps the client alive during the wait.
    pub(crate) client: Client,
    pub(crate) receiver: oneshot::Receiver<T>,
    pub(crate) task: Option<InlineTask>,
}

impl<T> Future for InPlace<T> {
    type Output = Option<T>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<T>> {
        if self.task.as_ref().is_some_and(|task| task.poll(cx)) {
            // The receiver is not polled, because that would register this task to be woken when
            // the result is sent. This wake-up would be needless: the task itself polls the work
            // that sends the result.
            return match self.receiver.try_recv() {
                Err(oneshot::error::TryRecvError::Empty) => Poll::Pending,
                result => Poll::Ready(result.ok()),
            };
        }
        Pin::new(&mut self.receiver).poll(cx).map(Result::ok)
    }
}

impl<T> Drop for InPlace<T> {
    fn drop(&mut self) {
        if let Some(work) = self.task.take().and_then(|task| task.take()) {
            self.client.core().spawn_background(work);
        }
    }
}

impl Unpolled for sync::Mutex<Inner> {
    fn give_up(self: Arc<Self>) -> Option<BackgroundTask> {
        InlineTask(self).take()
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::*;

    #[test]
    fn work_that_panics_is_not_left_for_a_task() {
        let inline_task = InlineTask::new(Box::pin(async { panic!("it does") }));
        let poll = || inline_task.poll(&mut Context::from_waker(Waker::noop()));
        assert!(catch_unwind(AssertUnwindSafe(poll)).is_err());
        assert!(inline_task.is_over() && inline_task.take().is_none());
    }
}
