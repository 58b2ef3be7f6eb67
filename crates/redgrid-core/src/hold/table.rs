//! Names, their queues, entering and leaving.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::{Notify, mpsc, oneshot};

use super::error::AcquireError;
use super::flight::{Flight, Work};
use super::grant::Grant;
use super::holder::{Holder, HolderId};
use super::kind::{HoldKind, Target};
use super::schedule::Schedule;
use super::state::{Hold, Phase};
use super::stretch;
use super::succession::Basis;
use super::tenure::Tenure;
use super::terms::Wish;
use super::ticket::Ticket;
use super::turn::{self, Turn};
use crate::clock::Instant;
use crate::connection::{Client, Core, Progress, Server};
use crate::error::ServerError;
use crate::wait::Hub;

/// All that one client holds and waits for.
pub(crate) struct Table {
    pub(super) core: Arc<Core>,
    state: Mutex<State>,
    /// Work for tasks, so that `Drop` need not spawn.
    pub(super) work: mpsc::UnboundedSender<Work>,
    /// The engine has something to do earlier than it thinks.
    pub(super) engine: Notify,
    /// When the engine wakes by itself, in nanoseconds.
    pub(super) engine_wakes: AtomicU64,
    next: AtomicU64,
}

#[derive(Default)]
pub(super) struct State {
    pub(super) slots: HashMap<SlotKey, Slot>,
    pub(super) schedule: Schedule,
    /// Names that others wait for and that we have just let go of.
    recent: Recents,
    /// Tenures that were taken by force before their grant was known here, and when that was told.
    pub(super) forced: HashMap<u64, Instant>,
    pub(super) closed: bool,
}

/// A kind and a key.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(super) struct SlotKey(pub(super) &'static str, pub(super) Bytes);

/// Where a name's requests go, and who wakes its waiters.
#[derive(Clone)]
pub(crate) struct Place {
    pub(super) server: Arc<dyn Server>,
    pub(super) hub: Arc<Hub>,
}

/// One name in this process.
pub(super) struct Slot {
    pub(super) place: Place,
    pub(super) kind: &'static dyn HoldKind,
    pub(super) target: Arc<Target>,
    pub(super) queue: VecDeque<Entry>,
    /// What we have on the server under it, until its release has landed.
    pub(super) tenure: Option<Arc<Tenure>>,
    /// Who of us has it.
    pub(super) hold: Option<Arc<Hold>>,
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

/// Names that others wait for, for a moment after we let go of them.
#[derive(Default)]
struct Recents {
    names: HashMap<SlotKey, Recent>,
    prune_at: usize,
}

#[derive(Clone, Copy)]
struct Recent {
    /// What is to be waited for when the stretch has ended.
    turn: Turn,
    /// When the name was given back.
    since: Instant,
    until: Instant,
    stretch_ends: Instant,
}

impl Recent {
    /// Whether the stretch is over, and those who wait are just being told.
    fn is_others_turn(&self, now: Instant) -> bool {
        now >= self.stretch_ends && now.since(self.since) < self.turn.silence(None)
    }
}

impl Recents {
    fn insert(&mut self, key: SlotKey, recent: Recent, now: Instant) {
        if self.names.len() >= self.prune_at.max(64) {
            self.names.retain(|_, recent| recent.until > now);
            self.prune_at = self.names.len() * 2;
        }
        self.names.insert(key, recent);
    }

    fn take(&mut self, key: &SlotKey, now: Instant) -> Option<Recent> {
        if self.names.is_empty() {
            return None;
        }
        self.names.remove(key).filter(|recent| recent.until > now)
    }
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
        now.as_nanos() < self.unsure_until.load(Ordering::Relaxed)
    }
}

impl Slot {
    pub(super) fn new(place: Place, kind: &'static dyn HoldKind, target: Arc<Target>, now: Instant) -> Self {
        Slot {
            place,
            kind,
            target,
            queue: VecDeque::new(),
            tenure: None,
            hold: None,
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

    /// The hold under this name that may be believed.
    fn held(&self) -> Option<&Arc<Hold>> {
        self.hold.as_ref().filter(|hold| hold.is_held())
    }

    /// Whether somebody else is known to have it: of this process, or elsewhere.
    fn is_taken(&self) -> bool {
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
        while self.queue.front().is_some_and(|entry| entry.answer.is_closed()) {
            self.queue.pop_front();
        }
        self.queue.iter().position(|entry| !entry.answer.is_closed() && entry.until > now)
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

    fn is_idle(&mut self) -> bool {
        self.lost.retain(|hold| hold.upgrade().is_some_and(|hold| hold.guards.load(Ordering::Acquire) > 0));
        let nothing_under_way = self.busy == Busy::No && !self.asking && !self.driven;
        self.queue.is_empty() && self.tenure.is_none() && self.lost.is_empty() && nothing_under_way
    }

    /// Whether a new request may have what is about to be given back.
    fn is_adoptable(&self, now: Instant) -> bool {
        let Some(tenure) = self.tenure.as_ref().filter(|_| self.hold.is_none()) else { return false };
        let queued = matches!(self.busy, Busy::Release { tenure: of, queued: true, .. } if of == tenure.id);
        queued && tenure.is_believed() && now < tenure.stretch_ends
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

impl Table {
    pub(crate) fn new(core: Arc<Core>) -> (Arc<Table>, mpsc::UnboundedReceiver<Work>) {
        let (work, receiver) = mpsc::unbounded_channel();
        let table = Table {
            core,
            state: Mutex::default(),
            work,
            engine: Notify::new(),
            engine_wakes: AtomicU64::new(0),
            next: AtomicU64::new(1),
        };
        (Arc::new(table), receiver)
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    pub(super) fn now(&self) -> Instant {
        self.core.clock.now()
    }

    pub(super) fn number(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    /// Has `work` driven by a task. After the client has gone there is nobody, and leases end what is left.
    pub(super) fn hand_over(&self, work: Work) {
        let _ = self.work.send(work);
    }

    /// Whether the client is being shut down.
    pub(crate) fn is_closed(&self) -> bool {
        self.state().closed
    }

    /// How many names are in use, for tests and diagnosis.
    pub(crate) fn names(&self) -> usize {
        self.state().slots.len()
    }

    /// How many requests wait in queues.
    pub(crate) fn waiting(&self) -> usize {
        self.state()
            .slots
            .values()
            .map(|slot| slot.queue.iter().filter(|entry| !entry.answer.is_closed()).count())
            .sum()
    }

    /// Asks for `target`. The table owns the attempt from here on; the ticket waits for its outcome.
    pub(crate) fn enter(
        self: &Arc<Self>,
        client: &Client,
        kind: &'static dyn HoldKind,
        target: &Arc<Target>,
        wish: Wish,
    ) -> Result<Ticket, AcquireError> {
        let now = self.now();
        let key = SlotKey(kind.name(), target.key.clone());
        let until = wish.wait.map_or(Instant::NEVER, |wait| now + wait);
        let (answer, receiver) = oneshot::channel();
        let seen = Arc::new(Seen::default());
        let id = self.number();
        let mut ticket = Ticket {
            table: Arc::clone(self),
            client: client.clone(),
            kind,
            wish: wish.clone(),
            target: Arc::clone(target),
            key: key.clone(),
            id,
            entered: now,
            until,
            receiver,
            seen: Arc::clone(&seen),
            flight: None,
            ready: None,
            done: false,
        };
        let mut state = self.state();
        if state.closed {
            return Err(AcquireError::ShuttingDown { name: target.name.clone() });
        }
        let State { slots, recent, .. } = &mut *state;
        let slot = slots.entry(key.clone()).or_insert_with(|| {
            let server = self.core.topology.primary(&target.key);
            let hub = self.core.hub(&server);
            Slot::new(Place { server, hub }, kind, Arc::clone(target), now)
        });
        if let Some(known) = entered_again(slot, &wish, target) {
            let hold = known?;
            ticket.ready = Some(Ok(Some(Grant::new(client.clone(), hold))));
            return Ok(ticket);
        }
        if slot.is_taken() {
            seen.set_busy();
            if wish.once {
                ticket.ready = Some(Ok(None));
                return Ok(ticket);
            }
        }
        let (alone, once) = (slot.is_idle(), wish.once);
        let before = if alone { recent.take(&key, now) } else { None };
        if let Some(before) = before.as_ref().filter(|before| once && before.is_others_turn(now)) {
            // A look in the moment in which others are told would always come before theirs.
            recent.names.insert(key.clone(), *before);
            slots.remove(&key);
            ticket.ready = Some(Ok(None));
            return Ok(ticket);
        }
        slot.queue.push_back(Entry { id, wish, client: client.clone(), answer, seen, until });
        let mut to_tasks = Vec::new();
        let mut answers = Vec::new();
        if slot.is_adoptable(now) {
            // What is about to be given back need not be asked for again.
            slot.busy = Busy::No;
            answers = self.pass_on(&mut state, &key, Basis::HandOver);
            self.go_on(&mut state, &key);
        } else if alone {
            slot.continued = before.as_ref().map(|before| before.stretch_ends).filter(|ends| *ends > now);
            if slot.continued.is_none() {
                slot.turn = before.map(|before| before.turn).filter(|_| !once);
            }
            if slot.turn.is_some() {
                self.drive_if_needed(&key, slot);
            } else {
                slot.asking = true;
                let flight = Flight::new(self.attempt(&key, slot));
                slot.fly(&flight);
                ticket.flight = Some(flight);
            }
        } else {
            // Somebody else now waits for what is in flight: it must not depend on its caller's being polled.
            to_tasks = std::mem::take(&mut slot.flights);
            // The loop need not be told of each one that joins a queue, unless it has nothing else to wait for.
            if !slot.driven || (slot.tenure.is_none() && slot.busy == Busy::No && !slot.asking) {
                self.drive_if_needed(&key, slot);
            }
        }
        drop(state);
        send(answers);
        for work in to_tasks.into_iter().filter_map(|flight| flight.take()) {
            self.hand_over(work);
        }
        Ok(ticket)
    }

    /// Remembers that others go first: the next request of ours, if it comes soon, obeys the order although nobody of us
    /// waits now.
    pub(super) fn remember(&self, state: &mut State, key: &SlotKey, turn: Turn, stretch_ends: Instant) {
        let since = self.now();
        let Some(slot) = state.slots.get(key) else { return };
        let round_trip = slot.place.server.time().round_trip();
        let until = since + turn::remembered_for(self.stretch(&slot.place), round_trip);
        state.recent.insert(key.clone(), Recent { turn, since, until, stretch_ends }, since);
    }

    /// How long a name of this node may pass from task to task without asking.
    pub(super) fn stretch(&self, place: &Place) -> Duration {
        stretch::length(self.core.settings.stretch, place.server.time().round_trip())
    }

    /// Starts the drive loop of a name unless it runs.
    pub(super) fn drive_if_needed(self: &Arc<Self>, key: &SlotKey, slot: &mut Slot) {
        if slot.driven {
            slot.changed.notify_one();
        } else {
            slot.driven = true;
            self.hand_over(Box::pin(Arc::clone(self).drive(key.clone())));
        }
    }

    /// Forgets a name that nobody needs any more.
    pub(super) fn sweep(state: &mut State, key: &SlotKey) {
        if state.slots.get_mut(key).is_some_and(Slot::is_idle) {
            state.slots.remove(key);
        }
    }

    /// Takes a request out of its queue.
    pub(super) fn leave(&self, key: &SlotKey, id: u64) {
        let mut state = self.state();
        let Some(slot) = state.slots.get_mut(key) else { return };
        let before = slot.queue.len();
        slot.queue.retain(|entry| entry.id != id);
        if slot.queue.is_empty() && before > 0 {
            slot.changed.notify_one();
        }
        Self::sweep(&mut state, key);
    }

    /// When there was contact about this name: an answer, or a hold of ours that is being renewed.
    pub(super) fn contact(&self, key: &SlotKey) -> Option<Instant> {
        let state = self.state();
        let slot = state.slots.get(key)?;
        // Told that others have it, on a connection that is known to live: waiting is not being without contact.
        let waits = slot.contended && slot.place.server.epoch().borrow().is_some();
        // One of ours has it. What is being fitted or given back does not count: that takes an answer.
        let held = slot.hold.as_ref().is_some_and(|hold| hold.tenure.is_believed());
        Some(if waits || held { self.now() } else { slot.contact.max(slot.place.hub.contact()) })
    }
}

/// Tells those who waited. Not under the table's lock: a grant that nobody takes is given back where it is dropped.
pub(super) fn send(answers: Answers) {
    for (sender, answer) in answers {
        let _ = sender.send(answer);
    }
}

/// A holder that is already in gets in again, without asking anybody; one that lost its hold is told.
fn entered_again(slot: &mut Slot, wish: &Wish, target: &Target) -> Option<Result<Arc<Hold>, AcquireError>> {
    let name = || target.name.clone();
    if let Some(holder) = wish.holder {
        // What was forgotten is left to its lease, and nobody's any more.
        let guarded = |hold: &Arc<Hold>| hold.guards.load(Ordering::Acquire) > 0;
        if let Some(hold) = slot.held().filter(|hold| hold.holder == Some(holder) && guarded(hold)) {
            if wish.at_least > hold.wish.at_least {
                let (expected, got) = ("as set by the holder's first acquire", wish.at_least);
                return Some(Err(AcquireError::InvalidArgument { name: name(), option: "at_least", expected, got }));
            }
            return Some(Ok(Arc::clone(hold)));
        }
        // With its last guard a loss is over: the holder may ask anew.
        let lost_by =
            |hold: &Arc<Hold>| hold.holder == Some(holder) && hold.phase() != Phase::Released && guarded(hold);
        let current = slot.hold.iter().any(lost_by);
        if current || slot.lost.iter().filter_map(Weak::upgrade).any(|hold| lost_by(&hold)) {
            return Some(Err(AcquireError::Lost { name: name() }));
        }
    }
    let scope: Option<HolderId> = Holder::current().map(|holder| holder.id());
    let by_scope = slot.held().is_some_and(|hold| hold.holder.is_some() && hold.holder == scope);
    (by_scope && wish.wait.is_none() && !wish.once).then(|| Err(AcquireError::WouldDeadlock { name: name() }))
}
