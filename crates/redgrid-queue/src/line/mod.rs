//! All who wait for elements of one source through one client: one task takes for them, and listens.
//!
//! An element is somebody's once his call has returned it. Until then it is the line's: what was taken for a caller who has left goes to the
//! next who waits, and where nobody does it is put back where it was, in order.

mod attend;

use std::collections::BTreeMap;
use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll};

use bytes::Bytes;
use redgrid_core::clock::Instant;
use redgrid_core::{Client, OnceRequest, ServerError};
use tokio::sync::{Notify, oneshot};

use attend::{Attendance, attend};

/// Where elements are taken from.
pub(crate) trait Source: Send + Sync + 'static {
    /// In whose slot it is.
    fn key(&self) -> &Bytes;

    /// Where it is told that there is something to take.
    fn channels(&self) -> Vec<Bytes>;

    /// Takes so many at most; answered by them, and by what may be known of the next: see [`Taken`].
    fn take(&self, most: usize) -> OnceRequest;

    /// Puts some back that were taken, in their order. `unique` is a key in the slot that no other request has.
    fn put_back(&self, unique: Bytes, items: &[Bytes]) -> OnceRequest;
}

/// Elements, and 0 where there are more, in how many milliseconds the next is due, or -1 where nothing is known of one.
pub(crate) type Taken = (Vec<Bytes>, i64);

/// How many bytes, about.
pub(crate) const BYTES_AT_ONCE: i64 = 1 << 20;

/// Why a wait is over.
#[derive(Debug)]
pub(crate) enum Left {
    /// An element, and its number among those taken.
    Item(u64, Bytes),
    /// There was none for one who only looks.
    Nothing,
    Failed(ServerError),
    ShuttingDown,
}

/// Those who wait for one source through one client.
pub(crate) struct Line<S: Source> {
    client: Client,
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
    spare: BTreeMap<u64, Bytes>,
    taken: u64,
    attended: bool,
}

struct Waiting {
    answer: oneshot::Sender<Left>,
    /// Leaves when there is nothing.
    looks: bool,
}

/// One who waits. Dropped, it has left, and what it was given is the line's again.
pub(crate) struct Place<S: Source> {
    line: Arc<Line<S>>,
    number: u64,
    answer: oneshot::Receiver<Left>,
}

impl<S: Source> Line<S> {
    /// That of a source, by a name of its own among those of its type.
    pub(crate) fn of(client: &Client, by: &Bytes, source: impl FnOnce() -> S) -> Arc<Line<S>> {
        client.shared(by, || Line {
            client: client.clone(),
            source: source(),
            state: Mutex::default(),
            changed: Notify::new(),
        })
    }

    pub(crate) fn client(&self) -> &Client {
        &self.client
    }

    /// Comes to wait; who only looks leaves when there is nothing.
    pub(crate) fn enter(self: &Arc<Self>, looks: bool) -> Place<S> {
        let (sender, answer) = oneshot::channel();
        let number = {
            let mut state = self.state();
            state.next += 1;
            let number = state.next - 1;
            state.waiting.insert(number, Waiting { answer: sender, looks });
            number
        };
        self.attended();
        Place { line: Arc::clone(self), number, answer }
    }

    /// Has somebody attend to it.
    fn attended(self: &Arc<Self>) {
        match std::mem::replace(&mut self.state().attended, true) {
            true => self.changed.notify_one(),
            false => {
                let attendance = Attendance { line: Arc::clone(self), is_over: false };
                self.client.attend(|on| attend(attendance, on));
            }
        }
    }

    /// Gives what nobody has to those who wait.
    fn hand_out(&self) {
        let mut guard = self.state();
        let state = &mut *guard;
        while !state.spare.is_empty() {
            let Some((_, first)) = state.waiting.pop_first() else { return };
            let Some((number, item)) = state.spare.pop_first() else { return };
            // Who has left in between gives it back.
            if let Err(Left::Item(number, item)) = first.answer.send(Left::Item(number, item)) {
                state.spare.insert(number, item);
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
            let _ = waiting.answer.send(left());
        }
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

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl<S: Source> Place<S> {
    /// Completes when the wait is over.
    pub(crate) fn poll_left(&mut self, cx: &mut Context<'_>) -> Poll<Left> {
        // Without an answer, what attends to the line has ended with the client.
        Pin::new(&mut self.answer).poll(cx).map(|left| left.unwrap_or(Left::ShuttingDown))
    }

    /// Whether a request has found nothing since this one came, and none is overdue.
    pub(crate) fn has_contact(&self) -> bool {
        let (now, state) = (self.line.client.clock().now(), self.line.state());
        self.number < state.seen && now <= state.fresh_until
    }

    /// From here on it leaves when the next request finds nothing.
    pub(crate) fn looks(&self) {
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
        self.answer.close();
        let given = self.answer.try_recv();
        let mut state = self.line.state();
        state.waiting.remove(&self.number);
        if let Ok(Left::Item(number, item)) = given {
            state.spare.insert(number, item);
            drop(state);
            return self.line.attended();
        }
        let is_last = state.waiting.is_empty();
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
