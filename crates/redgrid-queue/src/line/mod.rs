//! All who wait for elements of one source through one client: one task takes for them, and listens.
//!
//! An element is somebody's once his call has returned it. Until then it is the line's: what was taken for a caller who has left goes to the
//! next who waits, and where nobody does it is put back where it was, in order. So it is with what was given to a call that is not polled
//! within a second, or before the client ends.

mod attend;

use std::collections::BTreeMap;
use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use redgrid_core::author::ClientExt;
use redgrid_core::clock::{Clock, Instant};
use redgrid_core::{Client, IdempotentRequest, ServerError, WeakClient};
use tokio::sync::{Notify, oneshot};

use attend::{Attendance, attend};

/// Where elements are taken from.
pub(crate) trait Source: Send + Sync + 'static {
    /// In whose slot it is.
    fn key(&self) -> &Bytes;

    /// Where it is told that there is something to take.
    fn channels(&self) -> Vec<Bytes>;

    /// Takes so many at most; answered by them, and by what may be known of the next: see [`Taken`].
    fn take(&self, most: usize) -> IdempotentRequest;

    /// Puts some back that were taken, in their order. `unique` is a key in the slot that no other request has.
    fn put_back(&self, unique: Bytes, items: &[Bytes]) -> IdempotentRequest;
}

/// Elements, and 0 where there are more, in how many milliseconds the next is due, or -1 where nothing is known of one.
pub(crate) type Taken = (Vec<Bytes>, i64);

/// How many bytes, about.
pub(crate) const BYTES_AT_ONCE: i64 = 1 << 20;

/// Why a wait is over.
#[derive(Debug)]
pub(crate) enum Left {
    Item(Bytes),
    /// There was none for one who only looks.
    Nothing,
    Failed(ServerError),
    ShuttingDown,
}

/// Those who wait for one source through one client.
pub(crate) struct Line<S: Source> {
    /// What attends to it is to end with the client: those who wait keep that.
    client: WeakClient,
    clock: Clock,
    source: S,
    state: Mutex<State>,
    /// Somebody has come, or left.
    changed: Notify,
}

#[derive(Default)]
struct State {
    /// In the order in which they came.
    waiting: BTreeMap<u64, Waiting>,
    /// The number of whoever comes next.
    next: u64,
    /// For those below a request was answered.
    seen: u64,
    /// Until then it is as good as contact.
    fresh_until: Instant,
    /// Taken, and nobody's, in the order in which they were.
    spare: Items,
    /// The same, on their way back.
    returning: Items,
    /// Given to those who have not been polled since, by their numbers.
    given: BTreeMap<u64, Given>,
    taken: u64,
    attended: bool,
}

/// Elements by their numbers among those taken.
type Items = BTreeMap<u64, Bytes>;

/// How long an element waits for the call that it was given to: 1 s. Then it goes to the next caller, or back.
const UNCLAIMED: Duration = Duration::from_secs(1);

/// An element that its call has not taken yet.
struct Given {
    /// Its number among those taken.
    number: u64,
    item: Bytes,
    /// When it goes to another caller.
    until: Instant,
}

struct Waiting {
    answer: oneshot::Sender<Answer>,
    /// Leaves when there is nothing.
    looks: bool,
    /// When its time is over.
    until: Instant,
}

/// What one who waits is told.
enum Answer {
    /// Something was given to it: until it has come for that, it may be taken back.
    Given,
    Left(Left),
}

/// One who waits. Dropped, it has left, and what it was given is the line's again.
pub(crate) struct Place<S: Source> {
    line: Arc<Line<S>>,
    client: Client,
    number: u64,
    looks: bool,
    until: Instant,
    answer: oneshot::Receiver<Answer>,
}

impl<S: Source> Line<S> {
    /// That of a source, by a name of its own among those of its type.
    pub(crate) fn of(client: &Client, by: &Bytes, source: impl FnOnce() -> S) -> Arc<Line<S>> {
        client.shared(by, || Line {
            client: client.downgrade(),
            clock: client.clock().clone(),
            source: source(),
            state: Mutex::default(),
            changed: Notify::new(),
        })
    }

    /// Comes to wait until then; who only looks leaves when there is nothing.
    pub(crate) fn enter(self: &Arc<Self>, client: &Client, looks: bool, until: Instant) -> Place<S> {
        let (sender, answer) = oneshot::channel();
        let number = {
            let mut state = self.state();
            state.next += 1;
            let number = state.next - 1;
            state.waiting.insert(number, Waiting { answer: sender, looks, until });
            number
        };
        self.attended(client);
        Place { line: Arc::clone(self), client: client.clone(), number, looks, until, answer }
    }

    /// Has somebody attend to it.
    fn attended(self: &Arc<Self>, client: &Client) {
        let attended = std::mem::replace(&mut self.state().attended, true);
        match attended {
            true => self.changed.notify_one(),
            false => {
                // Where the client has ended, it ends at once, and tells.
                let attendance = Attendance { line: Arc::clone(self), is_over: false };
                client.spawn_attached(|on| attend(attendance, on));
            }
        }
    }

    /// Gives what nobody has to those who wait.
    fn hand_out(&self) {
        let until = self.clock.now() + UNCLAIMED;
        let mut guard = self.state();
        let state = &mut *guard;
        while !state.spare.is_empty() {
            let Some((who, first)) = state.waiting.pop_first() else { return };
            // Who has left in between needs none.
            if first.answer.send(Answer::Given).is_ok() {
                let Some((number, item)) = state.spare.pop_first() else { return };
                state.given.insert(who, Given { number, item, until });
            }
        }
    }

    /// Lets go those below `number` of whom this is true.
    fn let_go(&self, number: u64, left: impl Fn() -> Left, is: impl Fn(&Waiting) -> bool) {
        let mut state = self.state();
        let (going, staying) =
            std::mem::take(&mut state.waiting).into_iter().partition(|(at, waiting)| *at < number && is(waiting));
        state.waiting = staying;
        drop(state);
        let going: BTreeMap<u64, Waiting> = going;
        for waiting in going.into_values() {
            // Who has left in between needs no answer.
            let _ = waiting.answer.send(Answer::Left(left()));
        }
    }

    /// Takes back the elements whose time was over by `until` and that their calls did not take.
    fn take_again(&self, until: Instant) {
        let mut state = self.state();
        let State { given, spare, .. } = &mut *state;
        given.retain(|_, given| {
            let is_kept = given.until > until;
            if !is_kept {
                spare.insert(given.number, given.item.clone());
            }
            is_kept
        });
    }

    /// When the first of them is taken back.
    fn unclaimed_until(&self) -> Instant {
        self.state().given.values().map(|given| given.until).min().unwrap_or(Instant::MAX)
    }

    /// What was taken is the line's.
    fn takes(&self, items: Vec<Bytes>) {
        let mut state = self.state();
        for item in items {
            let number = state.taken;
            state.taken += 1;
            state.spare.insert(number, item);
        }
    }

    /// What was given to one who waits, unless it was taken back.
    fn collected(&self, who: u64) -> Option<Bytes> {
        let mut state = self.state();
        let item = state.given.remove(&who).map(|given| given.item);
        let is_last = state.given.is_empty() && state.waiting.is_empty();
        drop(state);
        if is_last {
            self.changed.notify_one();
        }
        item
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl<S: Source> Place<S> {
    /// Completes when the wait is over.
    pub(crate) fn poll_left(&mut self, cx: &mut Context<'_>) -> Poll<Left> {
        loop {
            return match Pin::new(&mut self.answer).poll(cx) {
                Poll::Pending => Poll::Pending,
                Poll::Ready(Ok(Answer::Given)) => match self.line.collected(self.number) {
                    Some(item) => Poll::Ready(Left::Item(item)),
                    None => {
                        // Not taken in time, it went to another caller: wait again.
                        *self = self.line.enter(&self.client, self.looks, self.until);
                        continue;
                    }
                },
                Poll::Ready(Ok(Answer::Left(left))) => Poll::Ready(left),
                // What attends to the line has ended with the client.
                Poll::Ready(Err(_)) => Poll::Ready(Left::ShuttingDown),
            };
        }
    }

    /// Whether a request has found nothing since this one came, and none is overdue.
    pub(crate) fn has_contact(&self) -> bool {
        let (now, state) = (self.line.clock.now(), self.line.state());
        self.number < state.seen && now <= state.fresh_until
    }

    /// From here on it leaves when the next request finds nothing.
    pub(crate) fn looks(&mut self) {
        self.looks = true;
        let mut state = self.line.state();
        if let Some(waiting) = state.waiting.get_mut(&self.number) {
            waiting.looks = true;
        }
        // Seen by none.
        state.seen = state.seen.min(self.number);
        drop(state);
        self.line.changed.notify_one();
    }
}

impl<S: Source> Drop for Place<S> {
    fn drop(&mut self) {
        let mut state = self.line.state();
        let has_left = state.waiting.remove(&self.number).is_some();
        if let Some(given) = state.given.remove(&self.number) {
            state.spare.insert(given.number, given.item);
            drop(state);
            return self.line.attended(&self.client);
        }
        let is_last = has_left && state.waiting.is_empty();
        drop(state);
        if is_last {
            self.line.changed.notify_one();
        }
    }
}

impl<S: Source> fmt::Debug for Line<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Line").field("key", self.source.key()).finish_non_exhaustive()
    }
}
