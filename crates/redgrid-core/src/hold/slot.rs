//! One name in this process: what we have of it, who waits for it, what is under way.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use bytes::Bytes;
use tokio::sync::{Notify, oneshot};

use super::flight::Flight;
use super::grant::Grant;
use super::kind::{HoldKind, Target};
use super::leaving::one_has_left;
use super::place::Place;
use super::state::Hold;
use super::tenure::Tenure;
use super::terms::Wish;
use super::turn::Turn;
use crate::clock::Instant;
use crate::connection::{Client, CommitError, Progress};
use crate::error::ServerError;

/// A kind and a key; and which of several grants, where a key has more than one at a time. The first is 0.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(super) struct SlotKey(pub(super) &'static str, pub(super) Bytes, pub(super) u64);

impl SlotKey {
    pub(super) fn of(kind: &dyn HoldKind, target: &Target) -> Self {
        SlotKey(kind.name(), target.key.clone(), 0)
    }
}

/// One name in this process.
pub(super) struct Slot {
    pub(super) kind: &'static dyn HoldKind,
    pub(super) target: Arc<Target>,
    pub(super) queue: VecDeque<Entry>,
    /// How many have left since those were taken out of it who had.
    pub(super) left: usize,
    /// What we have on the server under it, until its release has landed.
    pub(super) tenure: Option<Arc<Tenure>>,
    /// Who of us has it: one, or all who share it.
    pub(super) holds: Vec<Arc<Hold>>,
    /// The holder field under which it was asked for.
    pub(super) under: Option<Bytes>,
    /// Nobody may share it.
    pub(super) private: bool,
    /// Since when its requests wait, by the server's clock; zero when they do not.
    pub(super) waits_since: u64,
    /// The server was told that somebody of us waits.
    pub(super) announced: bool,
    /// Holds that ended without us and whose guards still live: their holders can not enter again.
    pub(super) lost: Vec<Weak<Hold>>,
    /// The exchanges in flight that their callers poll in place.
    pub(super) flights: Vec<Flight>,
    /// An attempt is under way.
    pub(super) asking: bool,
    /// What is under way for our tenure.
    pub(super) busy: Busy,
    /// The drive loop runs.
    pub(super) driven: bool,
    /// The drive loop waits for somebody elsewhere to let go.
    pub(super) contended: bool,
    /// Others go first.
    pub(super) turn: Option<Turn>,
    /// The next grant continues a stretch that ends then.
    pub(super) continued: Option<Instant>,
    pub(super) changed: Arc<Notify>,
    /// The last grant: its token, and when it was known here.
    pub(super) last: (u64, Instant),
    /// When a server last answered for this name.
    pub(super) contact: Instant,
}

/// What is under way to the server for what we have under one name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Busy {
    No,
    /// The tenure with this number is being fitted to the next one's wishes.
    Fitting(u64),
    /// The release of our tenure.
    Release {
        /// Its own number: what was adopted meanwhile is given back by another.
        id: u64,
        /// The tenure's number.
        tenure: u64,
        /// It has not left yet: a new request may still have what it would give back.
        queued: bool,
    },
}

/// One request in a queue.
pub(super) struct Entry {
    pub(super) id: u64,
    pub(super) wish: Wish,
    pub(super) client: Client,
    pub(super) answer: oneshot::Sender<Answer>,
    pub(super) seen: Arc<Seen>,
    /// When its wait ends.
    pub(super) until: Instant,
}

/// What a request in a queue is told: a grant, "busy", or how it failed.
pub(super) type Answer = Result<Option<Grant>, Failure>;

/// Answers with those who wait for them.
pub(super) type Answers = Vec<(oneshot::Sender<Answer>, Answer)>;

/// How a request failed, before it is told with its name.
#[derive(Debug, Clone)]
pub(super) enum Failure {
    Unavailable(ServerError),
    Unknown(ServerError),
    Refused(ServerError),
    /// Its holder was granted it by another request of its own, and does not enter twice.
    AlreadyHeld,
    /// Granted, not as durable as asked, and given back.
    NotDurable(CommitError),
    ShuttingDown,
}

impl Failure {
    /// The same failure, where an earlier copy of the request may have been carried out.
    pub(super) fn unknown(self) -> Failure {
        match self {
            Failure::Unavailable(source) | Failure::Refused(source) => Failure::Unknown(source),
            other => other,
        }
    }
}

/// What a request has seen of its name, for the case that its time runs out.
#[derive(Default)]
pub(super) struct Seen {
    pub(super) progress: Progress,
    busy: AtomicBool,
    /// Until when an unanswered copy of its request may still take the name, in nanoseconds.
    unsure_until: AtomicU64,
    /// Its place in the server's queue, where the kind has one.
    pub(super) place: Place,
}

impl Seen {
    pub(super) fn set_busy(&self) {
        self.busy.store(true, Ordering::Relaxed);
    }

    pub(super) fn is_busy(&self) -> bool {
        self.busy.load(Ordering::Relaxed)
    }

    pub(super) fn set_unsure(&self, until: Instant) {
        self.unsure_until.fetch_max(until.as_nanos(), Ordering::Relaxed);
    }

    pub(super) fn is_unsure(&self, now: Instant) -> bool {
        now < self.unsure_until()
    }

    pub(super) fn unsure_until(&self) -> Instant {
        Instant::from_nanos(self.unsure_until.load(Ordering::Relaxed))
    }
}

impl Slot {
    pub(super) fn new(kind: &'static dyn HoldKind, target: Arc<Target>, now: Instant) -> Self {
        Slot {
            kind,
            target,
            queue: VecDeque::new(),
            left: 0,
            tenure: None,
            holds: Vec::new(),
            under: None,
            private: false,
            waits_since: 0,
            announced: false,
            lost: Vec::new(),
            flights: Vec::new(),
            asking: false,
            busy: Busy::No,
            driven: false,
            contended: false,
            turn: None,
            continued: None,
            changed: Arc::new(Notify::new()),
            last: (0, Instant::PAST),
            contact: now,
        }
    }

    /// The holds under this name that may be believed.
    pub(super) fn held(&self) -> impl Iterator<Item = &Arc<Hold>> {
        self.holds.iter().filter(|hold| hold.is_held())
    }

    /// Where a hold is among those who have it.
    pub(super) fn position(&self, hold: &Arc<Hold>) -> Option<usize> {
        let is_it = |held: &Arc<Hold>| Arc::ptr_eq(held, hold);
        // Many may share it: looked for only where it is not where it was put.
        let at = hold.place.load(Ordering::Relaxed);
        if self.holds.get(at).is_some_and(is_it) { Some(at) } else { self.holds.iter().position(is_it) }
    }

    /// One more has it.
    pub(super) fn add(&mut self, hold: Arc<Hold>) {
        hold.place.store(self.holds.len(), Ordering::Relaxed);
        self.holds.push(hold);
    }

    /// The one at `at` has it no more.
    pub(super) fn remove(&mut self, at: usize) {
        self.holds.swap_remove(at);
        if let Some(moved) = self.holds.get(at) {
            moved.place.store(at, Ordering::Relaxed);
        }
    }

    /// Whether those who have it have all left it to its lease.
    pub(super) fn is_forgotten(&self) -> bool {
        !self.holds.is_empty() && self.holds.iter().all(|hold| hold.guards.load(Ordering::Acquire) == 0)
    }

    /// Whether somebody else is known to have it: of this process, or elsewhere.
    pub(super) fn is_taken(&self) -> bool {
        let given_back = matches!(self.busy, Busy::Release { .. });
        self.contended || (!given_back && self.tenure.as_ref().is_some_and(|tenure| tenure.is_believed()))
    }

    /// The first of the queue that still wants it at `now`: one whose time is over need only be polled to be told so.
    pub(super) fn next(&mut self, now: Instant) -> Option<&Entry> {
        let at = self.next_at(now)?;
        self.queue.get(at)
    }

    /// Takes it out of the queue.
    pub(super) fn take_next(&mut self, now: Instant) -> Option<Entry> {
        let at = self.next_at(now)?;
        self.queue.remove(at)
    }

    fn next_at(&mut self, now: Instant) -> Option<usize> {
        self.pass_over_the_left();
        self.queue.iter().position(|entry| !entry.answer.is_closed() && entry.until > now)
    }

    /// The request with this number waits no more, and its answer can not reach it any more. Tells whether that is to be looked at by
    /// the loop of the name: nobody waits then, or a place on the server is free.
    pub(super) fn leave(&mut self, id: u64) -> bool {
        let waited = self.queue.len();
        if self.kind.queue().is_none() && !self.kind.shares() {
            one_has_left(&mut self.queue, &mut self.left, |entry| entry.answer.is_closed());
            return waited > 0 && self.queue.is_empty();
        }
        // Others are counted by their places, on the server or among those who share.
        if let Some(at) = self.place_of(id) {
            self.queue.remove(at);
        }
        waited > self.queue.len() && (self.queue.is_empty() || self.kind.queue().is_some())
    }

    /// Takes out those at the head who have left: where nobody waits, the queue is empty then.
    pub(super) fn pass_over_the_left(&mut self) {
        while self.queue.front().is_some_and(|entry| entry.answer.is_closed()) {
            self.queue.pop_front();
        }
    }

    /// Where a request stands. They mostly stand in the order of their numbers; not where one was brought forward.
    fn place_of(&self, id: u64) -> Option<usize> {
        let in_order = self.queue.binary_search_by_key(&id, |entry: &Entry| entry.id).ok();
        in_order.or_else(|| self.queue.iter().position(|entry| entry.id == id))
    }

    /// Has the request with this number be the next of the queue; false when nobody waits for it any more.
    pub(super) fn bring_forward(&mut self, id: u64, now: Instant) -> bool {
        let wants = |entry: &Entry| entry.id == id && !entry.answer.is_closed() && entry.until > now;
        let Some(entry) = self.queue.iter().position(wants).and_then(|at| self.queue.remove(at)) else { return false };
        self.queue.push_front(entry);
        true
    }

    /// Makes an exchange visible to whoever may need it to go on without its caller.
    pub(super) fn fly(&mut self, flight: &Flight) {
        self.flights.retain(|flight| !flight.is_over());
        self.flights.push(flight.clone());
    }

    /// Whether what is said of `tenure` concerns this name now.
    pub(super) fn has(&self, tenure: &Arc<Tenure>) -> bool {
        self.tenure.as_ref().is_some_and(|ours| Arc::ptr_eq(ours, tenure))
    }

    pub(super) fn is_idle(&mut self) -> bool {
        self.lost.retain(|hold| hold.upgrade().is_some_and(|hold| hold.guards.load(Ordering::Acquire) > 0));
        self.pass_over_the_left();
        let nothing_under_way = self.busy == Busy::No && !self.asking && !self.driven;
        self.queue.is_empty() && self.tenure.is_none() && self.lost.is_empty() && nothing_under_way
    }

    /// Whether a new request may have what is about to be given back.
    pub(super) fn is_adoptable(&self, now: Instant) -> bool {
        let Some(tenure) = self.tenure.as_ref().filter(|_| self.holds.is_empty()) else { return false };
        let queued = matches!(self.busy, Busy::Release { tenure: of, queued: true, .. } if of == tenure.id);
        queued && tenure.is_believed() && tenure.passes_on(now)
    }

    /// Tells those who only look that somebody else has the name.
    pub(super) fn tell_lookers(&mut self) -> Answers {
        let mut answers = Answers::new();
        if self.queue.iter().any(|entry| entry.wish.once) {
            for entry in std::mem::take(&mut self.queue) {
                match entry.wish.once {
                    true => answers.push((entry.answer, Ok(None))),
                    false => self.queue.push_back(entry),
                }
            }
        }
        answers
    }
}

/// Tells those who waited. Not under the table's lock: a grant that nobody takes is given back where it is dropped.
pub(super) fn send(answers: Answers) {
    for (sender, answer) in answers {
        let _ = sender.send(answer);
    }
}
