//! The tasks of one process that want permits of one limiter, in the order in which they came: one request at a time asks for the
//! first of them, and who waits is asked for again when the server said, or when something has changed.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use bytes::Bytes;
use redgrid_core::author::ClientExt;
use redgrid_core::clock::Instant;
use redgrid_core::{Client, Failure, Name, Offer, ServerError};
use tokio::sync::{Notify, oneshot};

use crate::attend::{Attendance, attend};
use crate::error::LimitError;
use crate::told::{Told, Wish};

/// How long before its time a permit may be taken, by who waits for it until then: 100 ms. So long an answer may take without a loss at
/// the limit; and so long who waits is deaf to changes.
pub(crate) const AHEAD: Duration = Duration::from_millis(100);

/// How many are asked for together.
const MOST: usize = 256;

/// How long a request is under way at most, 30 s: so long it is sent again. Or for the client's patience, where that is longer.
const LONGEST: Duration = Duration::from_secs(30);

/// A request that is under way for longer is overdue: 1 s, far above a round trip. Whose time is over then is not told that the
/// limit was reached.
const OVERDUE: Duration = Duration::from_secs(1);

/// A limit that is kept on the server.
pub(crate) trait Limit: Send + Sync + 'static {
    /// By what permits that were taken can be given back.
    type Entry: Send + 'static;
    /// All who change it tell it.
    const IS_TOLD: bool;

    fn name(&self) -> &Name;
    /// The key by which it is found, and where changes are told.
    fn place(&self) -> (&Bytes, &Bytes);
    /// Asks for all of them; an entry for each who is told [`Verdict::Taken`]. None where no rate is set.
    fn ask(
        &self,
        client: &Client,
        wishes: &[Wish],
        until: Instant,
    ) -> impl Future<Output = Result<Option<Told>, ServerError>> + Send;
    /// None where nothing can be given back.
    fn entry(&self, told: &Told, entry: usize) -> Option<Self::Entry>;
    /// Has what nobody uses go back.
    fn give_back(&self, client: &Client, entry: Self::Entry, permits: u64) -> impl Future<Output = ()> + Send;
}

pub(crate) struct Queue<L: Limit> {
    pub(crate) client: Client,
    pub(crate) limit: L,
    state: Mutex<State<L>>,
    /// Who was the first has left, or permits went back.
    pub(crate) changed: Notify,
}

pub(crate) struct State<L: Limit> {
    pub(crate) waiting: BTreeMap<u64, Waiting<L>>,
    /// The number of whoever comes next.
    pub(crate) next: u64,
    pub(crate) attended: bool,
    /// The first who waits was told to.
    pub(crate) full: bool,
    /// Since when a request is under way, and for those below which number.
    pub(crate) asking: Option<(Instant, u64)>,
    /// For those below a request was answered, or for one in front of them, who waits.
    pub(crate) seen: u64,
}

pub(crate) struct Waiting<L: Limit> {
    permits: u64,
    pub(crate) waits: bool,
    until: Instant,
    answer: oneshot::Sender<Answer<L>>,
}

pub(crate) type Answer<L> = Result<Option<Offered<L>>, LimitError>;

/// Permits on their way to their caller, and when they may be used.
pub(crate) struct Offered<L: Limit> {
    at: Instant,
    granted: Offer<Granted<L>>,
}

/// Permits that were taken. Dropped, they go back, unless they are [kept](Granted::keep).
pub(crate) struct Granted<L: Limit> {
    queue: Arc<Queue<L>>,
    permits: u64,
    entry: Option<L::Entry>,
}

impl<L: Limit> Offered<L> {
    pub(crate) fn new(queue: &Arc<Queue<L>>, at: Instant, permits: u64, entry: Option<L::Entry>) -> Self {
        let granted = Granted { queue: Arc::clone(queue), permits, entry };
        Offered { at, granted: queue.client.offer(granted) }
    }
}

impl<L: Limit> Granted<L> {
    pub(crate) fn keep(mut self) -> Option<L::Entry> {
        self.entry.take()
    }
}

impl<L: Limit> Drop for Granted<L> {
    fn drop(&mut self) {
        if let Some(entry) = self.entry.take() {
            let (queue, permits) = (Arc::clone(&self.queue), self.permits);
            self.queue.client.run_in_background(async move {
                queue.limit.give_back(&queue.client, entry, permits).await;
                queue.nudge();
            });
        }
    }
}

impl<L: Limit> Queue<L> {
    pub(crate) fn new(client: &Client, limit: L) -> Self {
        let state = State { waiting: BTreeMap::new(), next: 0, attended: false, full: false, asking: None, seen: 0 };
        Queue { client: client.clone(), limit, state: Mutex::new(state), changed: Notify::new() }
    }

    /// Takes permits as soon as they are available, or only if they are available now. Completes when they may be used.
    pub(crate) async fn take(self: &Arc<Self>, permits: u64, wait: Wait) -> Result<Option<Granted<L>>, LimitError> {
        let began = self.client.clock().now();
        let until = match wait {
            Wait::No => began + self.client.patience(),
            Wait::For(wait) => wait.map_or(Instant::MAX, |wait| began + wait),
        };
        loop {
            let Some(Offered { at, granted }) = self.ask(permits, wait, (began, until)).await? else { return Ok(None) };
            // Taken for a moment later.
            self.client.clock().sleep_until(at).await;
            // Permits that were not taken in time have gone back: ask again.
            if let Some(granted) = granted.take() {
                return Ok(Some(granted));
            }
        }
    }

    /// Asks for permits until `until`.
    async fn ask(self: &Arc<Self>, permits: u64, wait: Wait, (began, until): (Instant, Instant)) -> Answer<L> {
        let clock = self.client.clock();
        let name = || self.limit.name().clone();
        if self.client.is_shut_down() {
            return Err(LimitError::of(&self.client, &name(), self.client.ended()));
        }
        let Some(mut place) = self.enter(permits, wait != Wait::No, until) else { return Ok(None) };
        let ended = |_| Err(LimitError::of(&self.client, &name(), self.client.ended()));
        tokio::select! {
            biased;
            answer = &mut place.answer => return answer.unwrap_or_else(ended),
            () = clock.wait_until(until) => {}
        }
        match place.leave() {
            // Its answer is there.
            None => (&mut place.answer).await.unwrap_or_else(ended),
            Some(Left::Refused) if wait != Wait::No => {
                Err(LimitError::TimedOut { name: name(), waited: clock.now().since(began) })
            }
            Some(Left::UnderWay) => {
                let source = ServerError::Unknown { reason: "no reply arrived in time".into() };
                Err(Failure::OutcomeUnknown { operation: LimitError::operation(&name()), source }.into())
            }
            Some(_) => {
                let source = ServerError::NotSent { reason: "no server was reached in time".into() };
                Err(Failure::Unavailable { operation: LimitError::operation(&name()), source }.into())
            }
        }
    }

    /// Has the first who waits ask again.
    pub(crate) fn nudge(&self) {
        self.changed.notify_one();
    }

    /// None for who will not wait where others do.
    fn enter(self: &Arc<Self>, permits: u64, waits: bool, until: Instant) -> Option<Place<L>> {
        let mut state = self.state();
        if state.full && !waits {
            return None;
        }
        let (sender, answer) = oneshot::channel();
        let number = state.next;
        state.next += 1;
        state.waiting.insert(number, Waiting { permits, waits, until, answer: sender });
        let begins = !std::mem::replace(&mut state.attended, true);
        drop(state);
        if begins {
            self.client.run_in_background(attend(Attendance::new(self)));
        }
        Some(Place { queue: Arc::clone(self), number, answer })
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State<L>> {
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Answers one who asked; dropped where he has left.
    pub(crate) fn answer(&self, number: u64, answer: Answer<L>) {
        let waiting = self.state().waiting.remove(&number);
        if let Some(waiting) = waiting {
            let _ = waiting.answer.send(answer);
        }
    }

    /// Tells those of these numbers whom it concerns.
    pub(crate) fn answer_each(
        &self,
        numbers: Range<u64>,
        concerns: impl Fn(&Waiting<L>) -> bool,
        answer: impl Fn() -> Answer<L>,
    ) {
        let mut told = Vec::new();
        let mut state = self.state();
        for (number, waiting) in state.waiting.range(numbers) {
            if concerns(waiting) {
                told.push(*number);
            }
        }
        let told: Vec<_> = told.into_iter().filter_map(|number| state.waiting.remove(&number)).collect();
        drop(state);
        for waiting in told {
            let _ = waiting.answer.send(answer());
        }
    }

    /// Those who are asked for next; nobody, where nobody waits.
    pub(crate) fn first(&self) -> Batch {
        let (now, patience, mut state) = (self.client.clock().now(), self.client.patience(), self.state());
        state.full = false;
        let first = state.waiting.iter().take(MOST);
        let wish = |one: &Waiting<L>| Wish {
            permits: one.permits,
            ahead: if one.waits { AHEAD.min(one.until.since(now)) } else { Duration::ZERO },
            waits: one.waits,
        };
        // Who waits without a bound is not without contact for longer than the client's patience.
        let bound = |one: &Waiting<L>| if one.until == Instant::MAX { now + patience } else { one.until };
        let until = first.clone().map(|(_, one)| bound(one)).max().unwrap_or(now);
        let asked: Vec<_> = first.map(|(number, one)| (*number, wish(one))).collect();
        state.asking = asked.last().map(|(number, _)| (now, number + 1));
        // Whose time is short leaves by himself, and what was taken for him goes back when it is told.
        let until = until.max(now + self.client.response_timeout()).min(now + patience.max(LONGEST));
        Batch { asked, until, here: state.next }
    }
}

/// Those who are asked for together.
pub(crate) struct Batch {
    pub(crate) asked: Vec<(u64, Wish)>,
    pub(crate) until: Instant,
    /// Those with a smaller number were here when they were asked for.
    pub(crate) here: u64,
}

impl Batch {
    /// The number behind the last of them.
    pub(crate) fn upto(&self) -> u64 {
        self.asked.last().map_or(0, |(number, _)| number + 1)
    }
}

impl<L: Limit> Waiting<L> {
    /// Whether it waits for no longer than until then, or not at all without contact.
    pub(crate) fn ends_by(&self, until: Instant) -> bool {
        self.until == Instant::MAX || self.until <= until
    }
}

/// Whether to wait, and for how long at most.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wait {
    No,
    For(Option<Duration>),
}

/// How it is with who leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Left {
    /// A request was answered since he came, for him or one in front of him, and none is overdue.
    Refused,
    /// He was asked for, and there is no answer. What is taken goes back when it comes.
    UnderWay,
    Waiting,
}

/// One who waits. Dropped, he has left.
struct Place<L: Limit> {
    queue: Arc<Queue<L>>,
    number: u64,
    answer: oneshot::Receiver<Answer<L>>,
}

impl<L: Limit> Place<L> {
    /// How it is with who leaves; none where he has his answer.
    fn leave(&self) -> Option<Left> {
        let (now, mut state) = (self.queue.client.clock().now(), self.queue.state());
        let was_first = state.waiting.first_key_value().is_some_and(|(first, _)| *first == self.number);
        let left = state.waiting.remove(&self.number)?;
        if was_first {
            // What was told to him is not true of whoever comes next.
            state.full = false;
        }
        let is_overdue = state.asking.is_some_and(|(since, _)| now.since(since) >= OVERDUE);
        let how = match self.number < state.seen && !is_overdue {
            true => Left::Refused,
            false if state.asking.is_some_and(|(_, below)| self.number < below) => Left::UnderWay,
            false => Left::Waiting,
        };
        drop(state);
        drop(left);
        if was_first {
            self.queue.nudge();
        }
        Some(how)
    }
}

impl<L: Limit> Drop for Place<L> {
    fn drop(&mut self) {
        self.leave();
    }
}

impl<L: Limit> std::fmt::Debug for Queue<L> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Queue").field("name", self.limit.name()).finish_non_exhaustive()
    }
}
