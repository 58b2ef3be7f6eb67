//! The queue of a fair lock that our clients share with clients of Redisson.
//!
//! # What is modelled
//!
//! The model has the server's queue with its scores. A *place* is a position in this queue. A
//! client of ours requests a place; the request may arrive late, or its answer may be lost. The
//! client sends a keep-alive for its place in each tick. It tries to acquire when it is notified or
//! finds its place at the head. It may give up, or crash. A client of Redisson tries at any time,
//! and its clock is ahead. It removes any head whose score has passed, and it may crash.
//!
//! # Time
//!
//! Time passes in ticks. A keep-alive of ours is valid for one more tick. A place of ours adds
//! [`WAIT`] ticks to the score, one of Redisson's adds [`THEIRS`]. A living client keeps its place
//! alive, and renews its lock, before the next tick.
//!
//! # What is left out
//!
//! The model has no leases per task, no re-entry and no forced takeover, which are in
//! [`one_level`](crate::one_level). The answer of a grant is never lost, so a granted client always
//! has its grant.

mod steps;

use stateright::{Model, Property};

/// No client gets the lock while a living client is before it in the queue.
pub const ORDER: &str = "the first in the queue is served first";
/// Redisson's clients do not remove a place of ours that is kept alive.
pub const KEPT: &str = "living places are kept";
/// A client has at most one place.
pub const ONE: &str = "no client has two places";
/// A client that gave up has no place after its last request has arrived.
pub const CLEAN: &str = "a client that gives up leaves nothing";
/// When no action is possible, no living client waits.
pub const SERVED: &str = "every client is served";
/// A place of a dead client of ours was removed.
pub const DEAD_REMOVED: &str = "a dead place is removed";
/// Clients of both kinds have held the lock in one run.
pub const BOTH: &str = "both kinds are served";

/// Ticks that a place of ours adds to the score. The number covers the lead of Redisson's clock,
/// and the tick until the next keep-alive.
pub const WAIT: u8 = 3;
/// Ticks that a place of Redisson's adds to the score.
pub const THEIRS: u8 = 4;
/// Ticks by which Redisson's clock is ahead.
pub const AHEAD: u8 = 1;
/// Ticks of a lease.
const LEASE: u8 = 1;

/// The rules of our clients and scripts. In the design, all rules are on. "Off" describes the
/// behaviour without the rule.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    /// A client uses the field of its place for every request. Off: each request has a field of its
    /// own.
    pub one_field: bool,
    /// The server refuses late requests.
    pub not_after: bool,
    /// If a client gives up while a request is in flight, it sends a second removal once that
    /// request can only be refused.
    pub gives_up_twice: bool,
    /// Only the head acquires the lock. Off: any client that finds the lock free.
    pub only_the_head: bool,
    /// Our clients remove places of our dead clients.
    pub removes_the_dead: bool,
    /// Our clients remove a Redisson client at the head after its score has passed.
    pub removes_theirs: bool,
    /// The score of a living place is raised above those of the places before it.
    pub raises_scores: bool,
    /// A waiting client also checks without a message. Off: it tries only after a message.
    pub checks_by_itself: bool,
    /// A living client enqueues again after its place was removed.
    pub enqueues_again: bool,
}

impl Rules {
    /// The design: every rule on.
    pub const ALL: Self = Self {
        one_field: true,
        not_after: true,
        gives_up_twice: true,
        only_the_head: true,
        removes_the_dead: true,
        removes_theirs: true,
        raises_scores: true,
        checks_by_itself: true,
        enqueues_again: true,
    };
}

/// One configuration of the model.
#[derive(Clone, Copy, Debug)]
pub struct Fair {
    /// The rules of our clients.
    pub rules: Rules,
    /// Number of our clients.
    pub ours: u8,
    /// Number of Redisson's clients.
    pub theirs: u8,
    /// Answers and messages that may be lost.
    pub losses: u8,
    /// Clients that may crash.
    pub crashes: u8,
    /// Clients of ours that may give up.
    pub leaves: u8,
    /// Places of ours that may be removed on the server by a deletion.
    pub deletions: u8,
    /// No fault happens from this tick on.
    pub calm: u8,
    /// The last tick.
    pub ticks: u8,
}

/// State of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Phase {
    /// The client has not sent a request.
    Idle,
    /// A request is in flight, or its answer was lost.
    Requesting,
    /// The client has received the answer that it has a place.
    Waiting,
    /// The client holds the lock.
    Holding,
    /// The client has released the lock.
    Done,
    /// The client has given up.
    GaveUp,
    /// The client has crashed.
    Crashed,
}

/// A client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Client {
    /// Whether it is a client of Redisson.
    pub theirs: bool,
    /// The client's state.
    pub phase: Phase,
    /// Whether the client was notified, or has read, that its place is at the head.
    pub notified: bool,
    /// Whether the client has received its place, and keeps it alive.
    pub queued: bool,
    /// Whether the client has sent its keep-alive in this tick.
    pub kept_alive: bool,
    /// The tick at which the client gives up a second time.
    pub again_at: Option<u8>,
    /// The field of the client's next request.
    pub field: u8,
    /// Whether the client was granted the lock.
    pub served: bool,
}

/// A place on the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    /// Index of the client.
    pub id: u8,
    /// The field of the place.
    pub field: u8,
    /// The tick until which Redisson's clients do not remove the place.
    pub score: u8,
    /// The tick until which the client's last keep-alive is valid; `None` for Redisson's.
    pub kept: Option<u8>,
}

/// A request for a place, in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Request {
    id: u8,
    field: u8,
    not_after: u8,
}

/// One state.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct State {
    /// The server's clock.
    pub now: u8,
    /// The client that holds the lock, and the tick at which its lease ends.
    pub lock: Option<(u8, u8)>,
    /// The queue.
    pub queue: Vec<Place>,
    /// The clients.
    pub clients: Vec<Client>,
    requests: Vec<Request>,
    losses: u8,
    crashes: u8,
    leaves: u8,
    deletions: u8,
    overtaken: bool,
    removed_alive: bool,
    dead_removed: bool,
}

/// All possible steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// A client of ours requests a place or the lock.
    Acquire(u8),
    /// A request arrives at the server; its answer may be lost.
    Arrive(Request, bool),
    /// A client of ours keeps its place alive and checks the lock.
    KeepAlive(u8),
    /// A client of Redisson tries.
    Try(u8),
    /// The holder releases; the message to the head may be lost.
    Release(u8, bool),
    /// A client of ours gives up; its message to the head may be lost.
    GiveUp(u8, bool),
    /// A client of ours gives up a second time.
    GiveUpAgain(u8),
    /// A client crashes.
    Crash(u8),
    /// A place of ours is deleted.
    Delete(u8),
    /// Time passes.
    Tick,
}

impl Model for Fair {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let client = |theirs| Client {
            theirs,
            phase: Phase::Idle,
            notified: false,
            queued: false,
            kept_alive: false,
            again_at: None,
            field: 0,
            served: false,
        };
        let clients = (0..self.ours).map(|_| client(false)).chain((0..self.theirs).map(|_| client(true))).collect();
        let Fair { losses, crashes, leaves, deletions, .. } = *self;
        vec![State {
            now: 0,
            lock: None,
            queue: Vec::new(),
            clients,
            requests: Vec::new(),
            losses,
            crashes,
            leaves,
            deletions,
            overtaken: false,
            removed_alive: false,
            dead_removed: false,
        }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        let calm = state.now >= self.calm;
        let outcomes: &[bool] = if state.losses > 0 && !calm { &[false, true] } else { &[false] };
        for request in &state.requests {
            actions.extend(outcomes.iter().map(|lost| Action::Arrive(*request, *lost)));
        }
        for (id, client) in (0..).zip(&state.clients) {
            let waits = matches!(client.phase, Phase::Requesting | Phase::Waiting);
            let lives = client.phase != Phase::Crashed;
            let requested = state.requests.iter().any(|request| request.id == id);
            let mut may = |action, when: bool| actions.extend(when.then_some(action));
            if client.theirs {
                let useful = client.phase == Phase::Idle && !calm || waits;
                may(Action::Try(id), useful && self.after_try(state, id) != *state);
            } else {
                let tries = client.phase == Phase::Waiting && client.notified || client.phase == Phase::Requesting;
                may(Action::Acquire(id), !requested && (client.phase == Phase::Idle && !calm || tries));
                // A keep-alive may run more than once in a tick, if it would find the lock free.
                let head = state.queue.first().is_some_and(|head| head.id == id);
                let sees = state.lock.is_none() && head && !client.notified && self.rules.checks_by_itself;
                may(Action::KeepAlive(id), waits && client.queued && (!client.kept_alive || sees));
                for lost in outcomes {
                    may(Action::GiveUp(id, *lost), waits && state.leaves > 0 && !calm);
                }
                may(Action::GiveUpAgain(id), client.again_at.is_some_and(|at| state.now >= at));
                let place = state.queue.iter().any(|place| place.id == id);
                may(Action::Delete(id), state.deletions > 0 && place && waits && !calm);
            }
            for lost in outcomes {
                may(Action::Release(id, *lost), client.phase == Phase::Holding);
            }
            let works = lives && (waits || client.phase == Phase::Holding);
            may(Action::Crash(id), works && state.crashes > 0 && !calm);
        }
        // Time passes only when every living client has sent its keep-alive.
        let waits = |client: &Client| matches!(client.phase, Phase::Requesting | Phase::Waiting);
        let kept = |client: &Client| !waits(client) || !client.queued || client.kept_alive;
        let again = |client: &Client| client.again_at.is_some_and(|at| state.now >= at);
        let in_time = state.clients.iter().all(|client| kept(client) && !again(client));
        // Every living client must also have tried if it may, and a request is at most one tick
        // late.
        let prompt = (0..).zip(&state.clients).all(|(id, client)| match client.phase {
            Phase::Waiting if client.theirs => self.after_try(state, id).lock == state.lock,
            Phase::Waiting => !client.notified,
            Phase::Requesting => state.requests.iter().any(|request| request.id == id),
            _ => true,
        });
        let on_time = state.requests.iter().all(|request| request.not_after + 1 >= state.now);
        if state.now < self.ticks && in_time && prompt && on_time {
            actions.push(Action::Tick);
        }
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        let mut state = last.clone();
        match action {
            Action::Acquire(id) => {
                let now = state.now;
                let client = state.client(id);
                (client.phase, client.notified) = (Phase::Requesting, false);
                if !self.rules.one_field {
                    client.field += 1;
                }
                let field = client.field;
                state.requests.push(Request { id, field, not_after: now + 1 });
                state.requests.sort_unstable();
            }
            Action::Arrive(request, lost) => {
                state.losses -= u8::from(lost);
                state.requests.retain(|other| *other != request);
                self.acquire(&mut state, request, lost);
            }
            Action::KeepAlive(id) => self.keep_alive(&mut state, id),
            Action::Try(id) => state = self.after_try(&state, id),
            Action::Release(id, lost) => {
                state.losses -= u8::from(lost);
                state.lock = None;
                let client = state.client(id);
                (client.phase, client.served) = (Phase::Done, true);
                state.notify_head(lost);
            }
            Action::GiveUp(id, lost) => {
                state.losses -= u8::from(lost);
                state.leaves -= 1;
                let limit = state.now + 2;
                let client = state.client(id);
                let unsure = client.phase == Phase::Requesting;
                client.phase = Phase::GaveUp;
                client.again_at = (unsure && self.rules.gives_up_twice).then_some(limit);
                self.give_up(&mut state, id, lost);
            }
            Action::GiveUpAgain(id) => {
                state.client(id).again_at = None;
                self.give_up(&mut state, id, false);
            }
            Action::Crash(id) => {
                state.crashes -= 1;
                *state.client(id) =
                    Client { phase: Phase::Crashed, notified: false, again_at: None, ..*state.client(id) };
            }
            Action::Delete(id) => {
                state.deletions -= 1;
                state.queue.retain(|place| place.id != id);
            }
            Action::Tick => self.tick(&mut state),
        }
        Some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(ORDER, |_: &Fair, state: &State| !state.overtaken),
            Property::always(KEPT, |_: &Fair, state: &State| !state.removed_alive),
            Property::always(ONE, |_: &Fair, state: &State| {
                let places = |id| state.queue.iter().filter(|place| place.id == id).count();
                (0..).zip(&state.clients).all(|(id, _)| places(id) <= 1)
            }),
            Property::always(CLEAN, |_: &Fair, state: &State| {
                (0..).zip(&state.clients).filter(|(_, client)| client.phase == Phase::GaveUp).all(|(id, client)| {
                    let in_flight = client.again_at.is_some() || state.requests.iter().any(|request| request.id == id);
                    let held = state.lock.is_some_and(|(holder, _)| holder == id);
                    in_flight || !held && !state.queue.iter().any(|place| place.id == id)
                })
            }),
            Property::always(SERVED, |model: &Fair, state: &State| {
                let mut actions = Vec::new();
                model.actions(state, &mut actions);
                let waits = |client: &Client| matches!(client.phase, Phase::Requesting | Phase::Waiting);
                !actions.is_empty() || !state.clients.iter().any(waits)
            }),
            Property::sometimes(DEAD_REMOVED, |_: &Fair, state: &State| state.dead_removed),
            Property::sometimes(BOTH, |_: &Fair, state: &State| {
                [false, true].iter().all(|theirs| state.clients.iter().any(|one| one.theirs == *theirs && one.served))
            }),
        ]
    }
}
