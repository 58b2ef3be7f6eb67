//! What a pool knows: who waits, what the process has, and what is to be said to the server next.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::oneshot;

use super::error::ReleaseError;
use super::exchange::{ALIVE, Asked, Looked, Source, Words, on_server};
use super::permit::Permit;
use super::pool::{Answer, Ask, Granted, Pool};
use super::stock::{Leased, PermitId, Stock};
use crate::clock::Instant;
use crate::config::Durability;
use crate::connection::{Client, Progress};
use crate::lock::{ExtendError, InlineTask, LeaseMode, Phantom, YieldPlan, deadline};
use crate::unpolled::AgeQueue;

/// Requests that leave together at most, and permits with a lease in one exchange: a script of some milliseconds.
const MOST_REQUESTS: usize = 64;
pub(super) const MOST_IDS: usize = 500;

/// How often who waits looks while it gets no messages: 100 ms, as for other names.
const UNSUBSCRIBED_LOOK: Duration = Duration::from_millis(100);

/// What a request and its caller share.
#[derive(Default)]
pub(super) struct Seen {
    /// Permits that were granted and that the caller has not taken yet.
    offer: Mutex<Option<Permit>>,
    /// The exchange it was last part of, and since when.
    asked: Mutex<Option<(Arc<Progress>, Instant)>>,
}

impl Seen {
    pub(super) fn asked(&self, asked: Option<(&Arc<Progress>, Instant)>) {
        let asked = asked.map(|(progress, since)| (Arc::clone(progress), since));
        *self.asked.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) = asked;
    }

    /// Since when an exchange that has no answer yet may take permits for it, if one may.
    pub(super) fn sent_since(&self) -> Option<Instant> {
        let asked = self.asked.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        asked.as_ref().filter(|(progress, _)| progress.is_sent()).map(|(_, since)| *since)
    }

    fn offer(&self, permit: Permit) {
        *self.offer.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) = Some(permit);
    }

    /// Takes the permits that were granted. `None` if they were given up, as nobody came for them.
    pub(super) fn take(&self) -> Option<Permit> {
        self.offer.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).take()
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
    pub(super) placed: bool,
}

impl Entry {
    pub(super) fn is_live(&self, now: Instant) -> bool {
        !self.answer.is_closed() && self.until > now
    }

    /// Has its place in the line given up, where it has one; those behind it are next then.
    fn leave_line(&self, pool: &Pool, gone: &mut Vec<Bytes>, ask: &mut bool) {
        if self.placed {
            gone.push(place(&pool.source, &pool.core.id, self));
            *ask = true;
        }
    }
}

/// Permits on their way back, and who waits for that.
pub(super) struct Back {
    pub(super) stock: Stock,
    pub(super) audience: Option<oneshot::Sender<Result<(), ReleaseError>>>,
}

/// Leases that are to be of another length, and who waits for that.
pub(super) struct Extension {
    pub(super) leased: Vec<Arc<Leased>>,
    pub(super) lease: LeaseMode,
    pub(super) audience: oneshot::Sender<Result<(), ExtendError>>,
    pub(super) progress: Arc<Progress>,
}

/// The state of one name in this process.
pub(super) struct State {
    pub(super) queue: VecDeque<Entry>,
    /// No request in the queue times out before this.
    pub(super) first_until: Instant,
    /// Requests for one look may be among them.
    has_lookers: bool,
    pub(super) next: u64,
    /// What we have and nobody of us holds.
    pub(super) spare: Stock,
    /// What is to go back.
    pub(super) back: Vec<Back>,
    /// Places in the line that nobody wants any more.
    pub(super) gone: Vec<Bytes>,
    /// Leases that are to be of another length: one at a time, as the last one counts.
    pub(super) extensions: VecDeque<Extension>,
    /// Permits that were granted and may not have been taken yet.
    pub(super) offered: AgeQueue<Instant, Seen>,
    /// The next check of the client looks at them.
    pub(super) watched: bool,
    /// How many permits guards have.
    pub(super) out: u64,
    /// Leases that are ours: of guards, and of what nobody holds.
    pub(super) leased: HashMap<PermitId, Arc<Leased>>,
    /// When the first of them is seen to next.
    pub(super) renew_at: Instant,
    /// The loop runs; and, while its caller polls it, where.
    pub(super) driven: bool,
    pub(super) flight: Option<InlineTask>,
    /// There is reason to ask.
    pub(super) ask: bool,
    /// How many permits the last answer left; as many as can be, where that is not known.
    pub(super) left: i64,
    /// When our stretch ends.
    pub(super) stretch_ends: Instant,
    /// Others go first, and how long silence lasts until we ask all the same.
    pub(super) turn: Option<(YieldPlan, Instant)>,
    /// Number of permits that were left when the turn began.
    pub(super) turn_left: i64,
    /// Listeners of this name that take no permits.
    pub(super) phantom: Phantom,
    /// The listeners of a turn that has ended, and the number of those without a turn. The next answer tells whether they
    /// count as phantoms.
    pub(super) silent_turn: Option<(u64, u64)>,
    /// The last look found too few for one who waits.
    pub(super) contended: bool,
    /// When it is looked without being told.
    pub(super) look_at: Instant,
    /// When somebody's lease ends.
    pub(super) next_end: Instant,
    /// When a server last answered.
    pub(super) contact: Instant,
    pub(super) in_force: bool,
    /// Until when nothing goes back that was refused, and how often in a row it was.
    pub(super) paused_until: Instant,
    pub(super) refusals: u32,
    /// What was refused together with what others asked for is said alone next.
    pub(super) apart: bool,
    pub(super) closed: bool,
}

/// What goes into one exchange.
pub(super) struct Call {
    pub(super) words: Words,
    pub(super) back: Vec<Back>,
    pub(super) progress: Arc<Progress>,
    /// Of what is asked for.
    pub(super) durability: Durability,
    /// The last of the leases that are looked at are those of this.
    pub(super) extension: Option<Extension>,
    /// Our stretch is over, and somebody of us still waits.
    pub(super) ends_stretch: bool,
}

impl State {
    pub(super) fn new() -> State {
        State {
            queue: VecDeque::new(),
            first_until: Instant::MAX,
            has_lookers: false,
            next: 0,
            spare: Stock::default(),
            back: Vec::new(),
            gone: Vec::new(),
            extensions: VecDeque::new(),
            offered: AgeQueue::default(),
            watched: false,
            out: 0,
            leased: HashMap::new(),
            renew_at: Instant::MAX,
            driven: false,
            flight: None,
            ask: false,
            left: i64::MAX,
            stretch_ends: Instant::MIN,
            turn: None,
            phantom: Phantom::default(),
            silent_turn: None,
            turn_left: 0,
            contended: false,
            look_at: Instant::MAX,
            next_end: Instant::MAX,
            contact: Instant::MIN,
            in_force: false,
            paused_until: Instant::MIN,
            refusals: 0,
            apart: false,
            closed: false,
        }
    }

    pub(super) fn push(&mut self, entry: Entry) {
        self.first_until = self.first_until.min(entry.until);
        self.has_lookers |= entry.ask.once;
        self.queue.push_back(entry);
    }

    /// Takes one out who was not granted anything; its place in the line goes with the next exchange.
    pub(super) fn remove(&mut self, at: usize, pool: &Pool) -> Option<Entry> {
        let entry = self.queue.remove(at)?;
        entry.leave_line(pool, &mut self.gone, &mut self.ask);
        Some(entry)
    }

    /// Removes requests whose time is over. A request that is dropped removes itself.
    pub(super) fn prune(&mut self, pool: &Pool, now: Instant) {
        if now < self.first_until {
            return;
        }
        let State { queue, gone, ask, .. } = self;
        queue.retain(|entry| {
            let live = entry.is_live(now);
            if !live {
                entry.leave_line(pool, gone, ask);
            }
            live
        });
        self.first_until = self.queue.iter().map(|entry| entry.until).min().unwrap_or(Instant::MAX);
    }

    /// Whether who only looks is told that there is nothing for it: there are others who wait, here or elsewhere.
    pub(super) fn others_first(&self, now: Instant) -> bool {
        let waits = |entry: &Entry| !entry.ask.once && entry.is_live(now);
        self.turn.is_some() || self.contended && self.queue.iter().any(waits)
    }

    /// Tells those who only look, if others go first.
    pub(super) fn dismiss_lookers(&mut self, now: Instant) {
        if !self.has_lookers || !self.others_first(now) {
            return;
        }
        self.has_lookers = false;
        for at in (0..self.queue.len()).rev() {
            if self.queue[at].ask.once
                && let Some(entry) = self.queue.remove(at)
            {
                let _ = entry.answer.send(Ok(Granted::Nothing));
            }
        }
    }

    /// Whether the first of the queue may be served, for all that is known: it was not asked for, or there was more left.
    fn is_unasked(&self, fair: bool) -> bool {
        let served = |entry: &Entry| i64::try_from(entry.ask.permits).is_ok_and(|permits| permits <= self.left);
        if !fair && self.queue.front().is_some_and(served) {
            return true;
        }
        let looks = |entry: &Entry| entry.ask.once || fair && !entry.placed;
        (fair || self.has_lookers) && self.queue.iter().take(self.batch()).any(looks)
    }

    /// How many of the first of the queue are asked for together: equally durable ones, and not too many ids.
    fn batch(&self) -> usize {
        let durability = self.queue.front().map(|first| first.ask.durability);
        let mut ids = 0;
        let fits = |(nth, entry): &(usize, &Entry)| {
            ids += if entry.ask.lease.is_some() { entry.ask.permits } else { 0 };
            Some(entry.ask.durability) == durability && (*nth == 0 || ids <= MOST_IDS as u64)
        };
        self.queue.iter().take(MOST_REQUESTS).enumerate().take_while(fits).count()
    }

    /// What is known after an answer: whether one who waits was told that there are too few.
    pub(super) fn note_contention(&mut self, fair: bool) {
        let first = self.queue.iter().find(|entry| !entry.ask.once);
        self.contended = first.is_some_and(|entry| match fair {
            true => entry.placed,
            false => i64::try_from(entry.ask.permits).is_ok_and(|permits| permits > self.left),
        });
    }

    /// Serves the first of the queue from what nobody of us holds.
    pub(super) fn serve(&mut self, pool: &Arc<Pool>, now: Instant) {
        if self.turn.is_some() || now >= self.stretch_ends {
            return;
        }
        while let Some(first) = self.queue.front() {
            let (n, lease) = (first.ask.permits, first.ask.lease);
            if n > self.spare.n || !self.spare.serves(lease, first.ask.durability, now) {
                return;
            }
            let Some(entry) = self.queue.pop_front() else { return };
            let stock = self.spare.split(n);
            self.give(pool, entry, stock, now);
        }
    }

    /// Gives what is ours to one of the queue. Who has left meanwhile gives it back by what is dropped then.
    pub(super) fn give(&mut self, pool: &Arc<Pool>, entry: Entry, stock: Stock, now: Instant) {
        if entry.answer.is_closed() {
            self.spare.merge(stock);
            return;
        }
        self.out += stock.n;
        let permit = Permit::new(entry.client, Arc::clone(pool), stock);
        // Before the answer: a caller who leaves looks whether something was offered.
        entry.seen.offer(permit);
        if entry.answer.send(Ok(Granted::Offered)).is_ok() {
            pool.note_offer(self, &entry.seen, now);
        } else if let Some(permit) = entry.seen.take() {
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
        let paused = now < self.paused_until && !self.closed;
        let back = if paused { Vec::new() } else { self.some_back() };
        let returns = !back.is_empty();
        let ends_stretch = returns && waits && over && !pool.source.fair && self.turn.is_none();
        let unasked = self.ask || returns || self.is_unasked(pool.source.fair);
        let apart = self.apart && (returns || now >= self.renew_at);
        self.apart &= !apart;
        let asks = waits && self.turn.is_none() && !ends_stretch && unasked && !apart;
        self.ask |= apart && waits;
        let mut words = Words::default();
        if asks || !paused {
            words.gone = std::mem::take(&mut self.gone);
        }
        let extension = self.next_extension();
        if now >= self.renew_at {
            words.looked = self.due(extension.as_ref(), now);
            self.renew_at = self.next_due();
        }
        if let Some(Extension { leased, lease, .. }) = &extension {
            for leased in leased {
                // What is renewed only gets longer.
                let exactly = !leased.is_renewed();
                if exactly {
                    // From now on the new one may be in force.
                    leased.shorten(deadline(now, on_server(*lease)));
                    pool.lost.notify_waiters();
                }
                let (leased, lease, shortened) = (Arc::clone(leased), on_server(*lease), leased.shortened());
                words.looked.push(Looked { leased, lease, exactly, shortened });
            }
        }
        let mut durability = Durability::Primary;
        let progress = Arc::new(Progress::default());
        if asks {
            self.ask = false;
            durability = self.queue.front().map_or(durability, |first| first.ask.durability);
            let batch = self.batch();
            for entry in self.queue.iter_mut().take(batch) {
                entry.seen.asked(Some((&progress, now)));
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
        let nothing = !returns && words.asked.is_empty() && words.looked.is_empty() && words.gone.is_empty();
        (!nothing).then_some(Call { words, back, progress, durability, extension, ends_stretch })
    }

    /// The next extension that somebody still waits for.
    fn next_extension(&mut self) -> Option<Extension> {
        loop {
            let next = self.extensions.pop_front()?;
            if next.progress.begin() {
                return Some(next);
            }
        }
    }

    /// The leases that are due, or nearly, and are equally durable; first those that end first.
    fn due(&self, extension: Option<&Extension>, now: Instant) -> Vec<Looked> {
        let soon = |leased: &Leased| match leased.lease {
            LeaseMode::Renewed(lease) => now + lease / 6,
            LeaseMode::Fixed(_) => now,
        };
        let is_due = |leased: &&Arc<Leased>| leased.lost().is_none() && leased.due() <= soon(leased);
        let mut due: Vec<_> = self.leased.values().filter(is_due).cloned().collect();
        if let Some(extension) = extension {
            due.retain(|leased| extension.leased.iter().all(|other| other.id != leased.id));
        }
        due.sort_by_key(|leased| leased.deadline());
        let durability = due.first().map(|leased| leased.durability);
        due.retain(|leased| Some(leased.durability) == durability);
        due.truncate(MOST_IDS);
        let look = |leased: Arc<Leased>| {
            leased.looked_at(now);
            let lease = if leased.is_renewed() { on_server(leased.lease) } else { Duration::ZERO };
            let shortened = leased.shortened();
            Looked { leased, lease, exactly: false, shortened }
        };
        due.into_iter().map(look).collect()
    }

    /// When the next of our leases is due.
    pub(super) fn next_due(&self) -> Instant {
        self.leased.values().map(|leased| leased.due()).min().unwrap_or(Instant::MAX)
    }

    /// When it is looked by itself: so often that others of a line believe that we live.
    pub(super) fn next_look(&self, pool: &Pool, now: Instant) -> Instant {
        let settings = &pool.core.settings;
        now + match (self.in_force, pool.source.fair) {
            (false, _) => UNSUBSCRIBED_LOOK.min(settings.poll_interval),
            (true, false) => settings.poll_interval,
            (true, true) => settings.poll_interval.min(ALIVE / 3),
        }
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
