//! One name in this process: who waits for permits of it, what the process has, and what is to be given back.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::{Notify, oneshot};

use super::error::ReleaseError;
use super::exchange::{Asked, Source, Words};
use super::permit::Permit;
use super::pools::Pools;
use super::stock::{Leased, PermitId, Stock};
use crate::clock::{Clock, Instant};
use crate::config::Durability;
use crate::connection::{Client, CommitError, Core, Progress};
use crate::error::ServerError;
use crate::hold::{Flight, Lease, LostReason, Turn};

/// Requests that leave together at most, and permits with a lease in one exchange: a script of some milliseconds.
const MOST_REQUESTS: usize = 64;
pub(super) const MOST_IDS: usize = 500;

/// What is asked for.
#[derive(Debug, Clone)]
pub struct Ask {
    /// How many permits.
    pub permits: u64,
    /// With which lease, where they have one.
    pub lease: Option<Lease>,
    /// How many there are, where none were set yet.
    pub capacity: Option<u64>,
    /// Where none were set, it waits until some are.
    pub awaits_init: bool,
    /// One look: it does not wait.
    pub once: bool,
    /// How long it waits; unless set, as long as it takes.
    pub wait: Option<Duration>,
    /// How durable the grant is to be.
    pub durability: Durability,
}

/// How a request failed, before it is told with its name.
#[derive(Debug, Clone)]
pub(super) enum Failure {
    NotInitialised,
    Unknown(ServerError),
    Refused(ServerError),
    NotDurable(CommitError),
    ShuttingDown,
}

pub(super) type Answer = Result<Option<Permit>, Failure>;

/// What is known of a request when its time runs out.
#[derive(Default)]
pub(super) struct Seen {
    /// That of the exchange it was last part of.
    progress: Mutex<Option<Arc<Progress>>>,
}

impl Seen {
    pub(super) fn asked(&self, progress: Option<&Arc<Progress>>) {
        *self.progress.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) = progress.cloned();
    }

    /// Whether an exchange that has no answer yet may take permits for it.
    pub(super) fn is_sent(&self) -> bool {
        let progress = self.progress.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        progress.as_ref().is_some_and(|progress| progress.is_sent())
    }
}

/// One request in the queue.
pub(super) struct Entry {
    pub(super) id: u64,
    pub(super) ask: Ask,
    pub(super) client: Client,
    pub(super) until: Instant,
    pub(super) seen: Arc<Seen>,
    pub(super) answer: oneshot::Sender<Answer>,
    /// It may stand in the line.
    placed: bool,
}

impl Entry {
    fn is_live(&self, now: Instant) -> bool {
        !self.answer.is_closed() && self.until > now
    }
}

/// Permits on their way back, and who waits for that.
pub(super) struct Back {
    pub(super) stock: Stock,
    pub(super) audience: Option<oneshot::Sender<Result<(), ReleaseError>>>,
}

/// Who runs the loop from now on; to be seen to when the pool is not locked any more, as who polls it locks the pool.
#[derive(Default)]
#[must_use]
pub(super) struct Kick {
    /// The caller may poll it.
    mine: Option<Flight>,
    /// Another caller polls it, who may stop to: a task is to go on with it.
    theirs: Option<Flight>,
}

impl Kick {
    /// The caller polls it while nobody else needs it.
    pub(super) fn by_caller(self, pools: &Pools) -> Option<Flight> {
        self.theirs.and_then(|flight| flight.take()).into_iter().for_each(|work| pools.hand_over(work));
        self.mine
    }

    /// Nobody polls it here.
    pub(super) fn by_task(self, pools: &Pools) {
        let mine = self.by_caller(pools);
        mine.and_then(|flight| flight.take()).into_iter().for_each(|work| pools.hand_over(work));
    }
}

/// One name in this process.
pub(super) struct Pool {
    pub(super) core: Arc<Core>,
    pub(super) pools: Arc<Pools>,
    pub(super) source: Arc<Source>,
    pub(super) state: Mutex<State>,
    /// Wakes the loop.
    pub(super) wake: Arc<Notify>,
    /// A lease was lost.
    pub(super) lost: Notify,
}

pub(super) struct State {
    pub(super) queue: VecDeque<Entry>,
    next: u64,
    /// What we have and nobody of us holds.
    pub(super) spare: Stock,
    /// What is to go back.
    pub(super) back: Vec<Back>,
    /// Places in the line that nobody wants any more.
    pub(super) gone: Vec<Bytes>,
    /// How many permits guards have.
    pub(super) out: u64,
    /// Leases that are ours: of guards, and of what nobody holds.
    pub(super) leased: HashMap<PermitId, Arc<Leased>>,
    /// When the first of them is renewed next.
    pub(super) renew_at: Instant,
    /// The loop runs; and, while its caller polls it, where.
    pub(super) driven: bool,
    pub(super) flight: Option<Flight>,
    /// There is reason to ask.
    pub(super) ask: bool,
    /// When our stretch ends.
    pub(super) stretch_ends: Instant,
    /// Others go first, and how long silence lasts until we ask all the same.
    pub(super) turn: Option<(Turn, Instant)>,
    /// The last look found too few.
    pub(super) contended: bool,
    /// When it is looked without being told.
    pub(super) look_at: Instant,
    /// When somebody's lease ends.
    pub(super) next_end: Instant,
    /// When a server last answered.
    pub(super) contact: Instant,
    pub(super) in_force: bool,
    pub(super) closed: bool,
}

/// What goes into one exchange.
pub(super) struct Call {
    pub(super) words: Words,
    pub(super) back: Vec<Back>,
    pub(super) progress: Arc<Progress>,
    pub(super) durability: Durability,
    /// Our stretch is over, and somebody of us still waits.
    pub(super) ends_stretch: bool,
}

impl Pool {
    pub(super) fn new(core: &Arc<Core>, pools: &Arc<Pools>, source: Arc<Source>) -> Arc<Pool> {
        let now = core.clock.now();
        let state = State {
            queue: VecDeque::new(),
            next: 0,
            spare: Stock::default(),
            back: Vec::new(),
            gone: Vec::new(),
            out: 0,
            leased: HashMap::new(),
            renew_at: Instant::NEVER,
            driven: false,
            flight: None,
            ask: false,
            stretch_ends: Instant::PAST,
            turn: None,
            contended: false,
            look_at: Instant::NEVER,
            next_end: Instant::NEVER,
            contact: now,
            in_force: false,
            closed: false,
        };
        let (core, pools) = (Arc::clone(core), Arc::clone(pools));
        Arc::new(Pool { core, pools, source, state: Mutex::new(state), wake: Arc::default(), lost: Notify::new() })
    }

    pub(super) fn clock(&self) -> &Clock {
        &self.core.clock
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Has the loop run: by whoever called, until somebody else needs it.
    pub(super) fn drive_if_needed(self: &Arc<Self>, state: &mut State) -> Kick {
        if state.driven {
            self.wake.notify_one();
            return Kick { mine: None, theirs: state.flight.take() };
        }
        state.driven = true;
        let flight = Flight::new(Box::pin(Arc::clone(self).drive()));
        state.flight = Some(flight.clone());
        Kick { mine: Some(flight), theirs: None }
    }

    /// Enters the queue. Returns the answer where it is clear at once.
    pub(super) fn enter(
        self: &Arc<Self>,
        client: &Client,
        ask: Ask,
        until: Instant,
        seen: &Arc<Seen>,
    ) -> (oneshot::Receiver<Answer>, u64, Kick) {
        let (answer, receiver) = oneshot::channel();
        let now = self.clock().now();
        let mut state = self.state();
        state.next += 1;
        let id = state.next;
        if state.closed {
            let _ = answer.send(Err(Failure::ShuttingDown));
            return (receiver, id, Kick::default());
        }
        let others = state.queue.iter().any(|entry| entry.is_live(now));
        if state.turn.as_ref().is_some_and(|(_, silence)| now >= *silence) {
            state.turn = None;
        }
        if ask.once && (others || state.turn.is_some()) {
            // Those go first.
            let _ = answer.send(Ok(None));
            return (receiver, id, Kick::default());
        }
        // Who comes first asks; others are asked for with the first.
        state.ask |= !others && state.turn.is_none();
        if !others {
            state.contact = state.contact.max(now);
        }
        let (client, seen) = (client.clone(), Arc::clone(seen));
        state.queue.push_back(Entry { id, ask, client, until, seen, answer, placed: false });
        let kick = self.drive_if_needed(&mut state);
        (receiver, id, kick)
    }

    /// Whoever asked has left.
    pub(super) fn leave(self: &Arc<Self>, id: u64) {
        let mut state = self.state();
        let Some(at) = state.queue.iter().position(|entry| entry.id == id) else { return };
        if let Some(entry) = state.queue.remove(at).filter(|entry| entry.placed) {
            state.gone.push(place(&self.source, &self.core.id, &entry));
        }
        // Those behind it may be served by less.
        state.ask |= at == 0 && state.turn.is_none() && !state.queue.is_empty();
        let kick = self.drive_if_needed(&mut state);
        drop(state);
        kick.by_task(&self.pools);
    }

    /// Takes permits back; whoever waits for the outcome is told.
    pub(super) fn give_back(
        self: &Arc<Self>,
        stock: Stock,
        audience: Option<oneshot::Sender<Result<(), ReleaseError>>>,
    ) -> Kick {
        let now = self.clock().now();
        let lost = stock.lost();
        let mut state = self.state();
        state.out = state.out.saturating_sub(stock.n);
        if state.closed {
            // They have gone back with everything.
            drop(state);
            let told = lost.map_or(Ok(()), |reason| Err(self.was_lost(reason)));
            audience.map(|audience| audience.send(told));
            return Kick::default();
        }
        let waits = state.queue.iter().any(|entry| entry.is_live(now));
        if waits && lost.is_none() && state.turn.is_none() && now < state.stretch_ends {
            state.spare.merge(stock);
            audience.map(|audience| audience.send(Ok(())));
        } else {
            for leased in &stock.leased {
                state.leased.remove(&leased.id);
            }
            state.back.push(Back { stock, audience });
        }
        self.drive_if_needed(&mut state)
    }

    pub(super) fn was_lost(&self, reason: LostReason) -> ReleaseError {
        ReleaseError::Lost { name: self.source.name.clone(), reason }
    }

    /// Leaves permits to their leases; those without one are lost to everybody.
    pub(super) fn forget(self: &Arc<Self>, stock: &Stock) {
        let mut state = self.state();
        state.out = state.out.saturating_sub(stock.n);
        for leased in &stock.leased {
            state.leased.remove(&leased.id);
        }
        drop(state);
        self.pools.sweep(self);
    }

    /// Whether nothing is known of it that matters.
    pub(super) fn is_idle(&self) -> bool {
        let state = self.state();
        let nothing =
            state.queue.is_empty() && state.spare.is_empty() && state.back.is_empty() && state.gone.is_empty();
        nothing && !state.driven && state.out == 0 && state.leased.is_empty()
    }
}

impl State {
    /// Takes those out who do not wait any more.
    pub(super) fn prune(&mut self, source: &Source, client: &str, now: Instant) {
        let State { queue, gone, .. } = self;
        queue.retain(|entry| {
            let live = entry.is_live(now);
            if !live && entry.placed {
                gone.push(place(source, client, entry));
            }
            live
        });
    }

    /// Serves the first of the queue from what nobody of us holds.
    pub(super) fn serve(&mut self, pool: &Arc<Pool>, now: Instant) {
        if self.turn.is_some() || now >= self.stretch_ends {
            return;
        }
        while let Some(first) = self.queue.front() {
            let (n, lease) = (first.ask.permits, first.ask.lease);
            if n > self.spare.n || !self.spare.serves(lease, now) {
                return;
            }
            let Some(entry) = self.queue.pop_front() else { return };
            let stock = self.spare.split(n);
            self.give(pool, entry, stock);
        }
    }

    /// Gives what is ours to one of the queue. Who has left meanwhile gives it back by what is dropped then.
    pub(super) fn give(&mut self, pool: &Arc<Pool>, entry: Entry, stock: Stock) {
        if entry.answer.is_closed() {
            self.spare.merge(stock);
            return;
        }
        self.out += stock.n;
        let permit = Permit::new(entry.client, Arc::clone(pool), stock);
        if let Err(Ok(Some(permit))) = entry.answer.send(Ok(Some(permit))) {
            let stock = permit.disarm();
            self.out -= stock.n;
            self.spare.merge(stock);
        }
    }

    /// What is to be said to the server, if anything is.
    pub(super) fn call(&mut self, pool: &Pool, now: Instant) -> Option<Call> {
        let waits = !self.queue.is_empty();
        let over = now >= self.stretch_ends;
        if !self.spare.is_empty() {
            // It did not serve the first of the queue.
            let stock = std::mem::take(&mut self.spare);
            for leased in &stock.leased {
                self.leased.remove(&leased.id);
            }
            self.back.push(Back { stock, audience: None });
        }
        let back = self.some_back();
        let returns = !back.is_empty();
        let ends_stretch = returns && waits && over && !pool.source.fair && self.turn.is_none();
        let asks = waits && self.turn.is_none() && !ends_stretch && (self.ask || returns);
        let mut words = Words { gone: std::mem::take(&mut self.gone), ..Words::default() };
        if now >= self.renew_at {
            let renewed = self.leased.values().filter(|leased| leased.is_renewed() && leased.lost().is_none());
            let mut renewed: Vec<_> = renewed.cloned().collect();
            renewed.sort_by_key(|leased| leased.deadline());
            renewed.truncate(MOST_IDS);
            words.renewed = renewed;
        }
        let mut durability = Durability::Primary;
        let progress = Arc::new(Progress::default());
        if asks {
            self.ask = false;
            let mut ids = 0;
            durability = self.queue.front().map_or(durability, |first| first.ask.durability);
            for entry in self.queue.iter_mut().take(MOST_REQUESTS) {
                ids += if entry.ask.lease.is_some() {
                    usize::try_from(entry.ask.permits).unwrap_or(usize::MAX)
                } else {
                    0
                };
                if entry.ask.durability != durability || (ids > MOST_IDS && !words.asked.is_empty()) {
                    break;
                }
                entry.seen.asked(Some(&progress));
                entry.placed = pool.source.fair && !entry.ask.once;
                let place = if entry.placed { place(&pool.source, &pool.core.id, entry) } else { Bytes::new() };
                let named = if entry.ask.lease.is_some() { entry.ask.permits } else { 0 };
                let ids = (0..named).map(|_| PermitId::new()).collect();
                words.asked.push(Asked { id: entry.id, n: entry.ask.permits, place, lease: entry.ask.lease, ids });
                words.capacity = words.capacity.or(entry.ask.capacity);
            }
        }
        for part in &back {
            match part.stock.leased.is_empty() {
                true => words.returned += part.stock.n,
                false => words.back.extend(part.stock.leased.iter().map(|leased| leased.id)),
            }
        }
        let nothing = !returns && words.asked.is_empty() && words.renewed.is_empty() && words.gone.is_empty();
        (!nothing).then_some(Call { words, back, progress, durability, ends_stretch })
    }

    /// What goes back, as much of it as goes into one exchange.
    fn some_back(&mut self) -> Vec<Back> {
        let mut ids = 0;
        let most = self.back.iter().position(|back| {
            ids += back.stock.leased.len();
            ids > MOST_IDS
        });
        let rest = self.back.split_off(most.unwrap_or(self.back.len()).max(1).min(self.back.len()));
        std::mem::replace(&mut self.back, rest)
    }
}

/// The place of a request in the line: unique, and it says for how many permits.
fn place(source: &Source, client: &str, entry: &Entry) -> Bytes {
    debug_assert!(source.fair);
    format!("{client}:{}:{}", entry.ask.permits, entry.id).into()
}
