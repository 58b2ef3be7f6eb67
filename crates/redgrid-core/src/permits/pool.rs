//! One name in this process: who waits for permits of it, what the process has, and what is to be given back.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use tokio::sync::{Notify, oneshot};

use super::error::ReleaseError;
use super::exchange::Source;
use super::pools::Pools;
use super::queue::{Back, Entry, Extension, Seen, State};
use super::stock::Stock;
use crate::clock::{Clock, Instant};
use crate::config::Durability;
use crate::connection::{Client, CommitError, Core};
use crate::error::ServerError;
use crate::lock::{BackgroundTask, InlineTask, LeaseMode, LostReason};
use crate::unpolled::{UNCLAIMED_AGE, Unpolled};

/// What is asked for.
#[derive(Debug, Clone)]
pub struct Ask {
    /// How many permits.
    pub permits: u64,
    /// With which lease, where they have one.
    pub lease: Option<LeaseMode>,
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
    /// The server does not accept this client.
    Unauthorized(ServerError),
    ShuttingDown,
}

/// What became of a request.
pub(super) enum Granted {
    /// The permits are in [`Seen`]: the caller has a second to take them.
    Offered,
    /// It was for one look, and there were too few.
    Nothing,
}

pub(super) type Answer = Result<Granted, Failure>;

/// Who runs the loop from now on; to be seen to when the pool is not locked any more, as who polls it locks the pool.
#[derive(Default)]
#[must_use]
pub(super) struct Kick {
    /// The caller may poll it.
    mine: Option<InlineTask>,
    /// Another caller polls it, who may stop to: a task is to go on with it.
    theirs: Option<InlineTask>,
}

impl Kick {
    /// The caller polls it while nobody else needs it.
    pub(super) fn by_caller(self, pools: &Pools) -> Option<InlineTask> {
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

impl Pool {
    pub(super) fn new(core: &Arc<Core>, pools: &Arc<Pools>, source: Arc<Source>) -> Arc<Pool> {
        let (core, pools) = (Arc::clone(core), Arc::clone(pools));
        Arc::new(Pool {
            core,
            pools,
            source,
            state: Mutex::new(State::new()),
            wake: Arc::default(),
            lost: Notify::new(),
        })
    }

    pub(super) fn clock(&self) -> &Clock {
        &self.core.clock
    }

    /// Whether permits are held, or on their way back; false where somebody is at it at the moment.
    pub(super) fn holds(&self) -> bool {
        self.state.try_lock().is_ok_and(|state| state.out > 0 || !state.back.is_empty())
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// The last contact with the server. While the subscription is in force and the server does not
    /// hang, waiting is contact.
    pub(super) fn contact(&self, state: &State) -> Instant {
        let waits = if state.in_force { self.core.contact(&self.source.key) } else { None };
        state.contact.max(waits.unwrap_or(Instant::MIN))
    }

    /// Has the loop run: by whoever called, until somebody else needs it.
    pub(super) fn drive_if_needed(self: &Arc<Self>, state: &mut State) -> Kick {
        if state.driven {
            self.wake.notify_one();
            return Kick { mine: None, theirs: state.flight.take() };
        }
        state.driven = true;
        let flight = InlineTask::observed(&self.core.unpolled, Box::pin(Arc::clone(self).drive()));
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
            (state.turn, state.ask) = (None, true);
        }
        if ask.once && state.others_first(now) && now < self.contact(&state) + client.patience() {
            let _ = answer.send(Ok(Granted::Nothing));
            return (receiver, id, Kick::default());
        }
        // Who comes first asks; others are asked for with the first.
        state.ask |= !others && state.turn.is_none();
        let (client, seen) = (client.clone(), Arc::clone(seen));
        state.push(Entry { id, ask, client, until, seen, answer, placed: false });
        let kick = self.drive_if_needed(&mut state);
        (receiver, id, kick)
    }

    /// Whoever asked has left.
    pub(super) fn leave(self: &Arc<Self>, id: u64) {
        let mut state = self.state();
        let Some(at) = state.queue.iter().position(|entry| entry.id == id) else { return };
        state.remove(at, self);
        // Those behind it may be served by less.
        let kick = self.drive_if_needed(&mut state);
        drop(state);
        kick.by_task(&self.pools);
    }

    /// Has leases set to another length; tells what to ask about it later.
    pub(super) fn extend(self: &Arc<Self>, extension: Extension) -> Kick {
        let mut state = self.state();
        if state.closed {
            return Kick::default();
        }
        state.extensions.push_back(extension);
        self.drive_if_needed(&mut state)
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

    /// Registers permits that a caller has not taken yet.
    pub(super) fn note_offer(self: &Arc<Self>, state: &mut State, seen: &Arc<Seen>, now: Instant) {
        state.offered.push(now, Arc::downgrade(seen));
        if !std::mem::replace(&mut state.watched, true) {
            self.core.unpolled.register_for_next_check(self);
        }
    }

    /// Whether nothing is known of it that matters.
    pub(super) fn is_idle(&self) -> bool {
        let state = self.state();
        let nothing =
            state.queue.is_empty() && state.spare.is_empty() && state.back.is_empty() && state.gone.is_empty();
        let nothing = nothing && state.extensions.is_empty();
        nothing && !state.driven && state.out == 0 && state.leased.is_empty()
    }
}

impl Unpolled for Pool {
    fn give_up(self: Arc<Self>) -> Option<BackgroundTask> {
        let mut due = Vec::new();
        let mut state = self.state();
        state.offered.take_due(self.clock().now() - UNCLAIMED_AGE, &mut due);
        state.watched = !state.offered.is_empty();
        if state.watched {
            self.core.unpolled.register_for_next_check(&self);
        }
        drop(state);
        // They give themselves back, for which the pool must not be locked.
        due.iter().for_each(|seen| drop(seen.take()));
        None
    }
}
