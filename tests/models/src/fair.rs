//! The queue of a fair lock that our clients share with clients of Redisson.
//!
//! # What is modelled
//!
//! The model has the server's queue with its scores. A client of ours requests a place; the request
//! may come late, or its answer may be lost. The client keeps its place alive at each tick, and
//! tries when it is notified or finds itself next. It may give up, or crash. A client of Redisson
//! tries at any time, by a clock that is ahead. It removes any head whose score has passed, and may
//! crash.
//!
//! # Time
//!
//! Time passes in ticks. A place of ours is kept alive for one more tick. A score is worth [`WAIT`]
//! ticks, one of Redisson's [`THEIRS`]. A living client keeps its place alive, and renews its lock,
//! before the next tick.
//!
//! # What is left out
//!
//! The model has no leases per task, no re-entry and no force: [`one_level`](crate::one_level) has
//! them. The answer of a grant is never lost: a granted client always knows it.

use stateright::{Model, Property};

/// No client gets the lock while a living client is before it in the queue.
pub const ORDER: &str = "whoever lined up first is in first";
/// Redisson's clients remove no living place of ours.
pub const KEPT: &str = "living places are kept";
/// A client has at most one place.
pub const ONE: &str = "nobody has two places";
/// A client that gave up has no place once none of its requests is in flight.
pub const CLEAN: &str = "who gives up leaves nothing";
/// When nothing more can happen, no living client waits.
pub const SERVED: &str = "everybody is served";
/// A place of a dead client of ours was removed.
pub const DEAD_OUT: &str = "a dead place goes";
/// Clients of both kinds have had the lock in one run.
pub const BOTH: &str = "both kinds are served";

/// Ticks that a place of ours is worth: more than Redisson's clock is ahead, plus the tick until
/// the next keep-alive.
pub const WAIT: u8 = 3;
/// Ticks that a place of Redisson's is worth.
pub const THEIRS: u8 = 4;
/// Ticks by which Redisson's clock is ahead.
pub const AHEAD: u8 = 1;
/// Ticks of a lease.
const LEASE: u8 = 1;

/// The rules of our clients and scripts. The design has all of them on.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    /// A client tries under the field of its place. Off: each request has a field of its own.
    pub one_field: bool,
    /// The server refuses late requests.
    pub not_after: bool,
    /// A client that gives up during a request gives up once more when that request can no longer
    /// be executed.
    pub gives_up_twice: bool,
    /// Only the head gets the lock. Off: any client that finds the lock free.
    pub only_the_head: bool,
    /// Clients of ours remove dead places of ours.
    pub throws_out_the_dead: bool,
    /// Clients of ours remove a head of Redisson's whose score has passed.
    pub throws_out_theirs: bool,
    /// The scores of living places outlast the places before them.
    pub lifts_scores: bool,
    /// A waiting client checks by itself. Off: it tries only after a message.
    pub looks_by_itself: bool,
    /// A client whose place was removed while it lives enqueues again.
    pub lines_up_again: bool,
}

impl Rules {
    /// The design: every rule on.
    pub const ALL: Self = Self {
        one_field: true,
        not_after: true,
        gives_up_twice: true,
        only_the_head: true,
        throws_out_the_dead: true,
        throws_out_theirs: true,
        lifts_scores: true,
        looks_by_itself: true,
        lines_up_again: true,
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
    /// Places of ours that may be lost at the server, as by a deletion.
    pub deletions: u8,
    /// No fault happens from this tick on.
    pub calm: u8,
    /// The last tick.
    pub ticks: u8,
}

/// State of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Phase {
    /// Has not sent a request.
    Idle,
    /// Has a request in flight, or its answer was lost.
    Asks,
    /// Knows that it has a place.
    Waits,
    /// Has the lock.
    Holds,
    /// Has had the lock.
    Done,
    /// Has given up.
    Gone,
    /// Has crashed.
    Dead,
}

/// A client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Client {
    /// Whether it is a client of Redisson.
    pub theirs: bool,
    /// Its state.
    pub phase: Phase,
    /// Whether it was notified, or has seen, that it is next.
    pub told: bool,
    /// Whether it knows that it has a place, and keeps it alive.
    pub inside: bool,
    /// Whether it has sent its keep-alive in this tick.
    pub beat: bool,
    /// The tick of its second giving up.
    pub again_at: Option<u8>,
    /// The field of its next request.
    pub field: u8,
    /// Whether it was granted the lock.
    pub served: bool,
}

/// A place on the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    /// Index of the client.
    pub who: u8,
    /// Field of the place.
    pub field: u8,
    /// Redisson's clients leave it until this tick.
    pub score: u8,
    /// Its client keeps it alive until this tick; `None` for Redisson's.
    pub kept: Option<u8>,
}

/// A request for a place, in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Copy {
    who: u8,
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
    copies: Vec<Copy>,
    losses: u8,
    crashes: u8,
    leaves: u8,
    deletions: u8,
    overtaken: bool,
    thrown_out: bool,
    dead_out: bool,
}

/// Everything that can happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// A client of ours requests a place or the lock.
    Ask(u8),
    /// A request arrives; its answer may be lost.
    Arrive(Copy, bool),
    /// A client of ours keeps its place alive and checks the lock.
    Beat(u8),
    /// A client of Redisson tries.
    Try(u8),
    /// The holder releases; its message may be lost.
    Release(u8, bool),
    /// A client of ours gives up; its message to the next may be lost.
    Leave(u8, bool),
    /// A client of ours gives up once more.
    LeaveAgain(u8),
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
            told: false,
            inside: false,
            beat: false,
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
            copies: Vec::new(),
            losses,
            crashes,
            leaves,
            deletions,
            overtaken: false,
            thrown_out: false,
            dead_out: false,
        }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        let calm = state.now >= self.calm;
        let outcomes: &[bool] = if state.losses > 0 && !calm { &[false, true] } else { &[false] };
        for copy in &state.copies {
            actions.extend(outcomes.iter().map(|lost| Action::Arrive(*copy, *lost)));
        }
        for (who, client) in (0..).zip(&state.clients) {
            let waits = matches!(client.phase, Phase::Asks | Phase::Waits);
            let lives = client.phase != Phase::Dead;
            let asks = state.copies.iter().any(|copy| copy.who == who);
            let mut may = |action, when: bool| actions.extend(when.then_some(action));
            if client.theirs {
                let useful = client.phase == Phase::Idle && !calm || waits;
                may(Action::Try(who), useful && self.tried(state, who) != *state);
            } else {
                let tries = client.phase == Phase::Waits && client.told || client.phase == Phase::Asks;
                may(Action::Ask(who), !asks && (client.phase == Phase::Idle && !calm || tries));
                // It may run more than once in a tick, if it would find the lock free.
                let head = state.queue.first().is_some_and(|head| head.who == who);
                let sees = state.lock.is_none() && head && !client.told && self.rules.looks_by_itself;
                may(Action::Beat(who), waits && client.inside && (!client.beat || sees));
                for lost in outcomes {
                    may(Action::Leave(who, *lost), waits && state.leaves > 0 && !calm);
                }
                may(Action::LeaveAgain(who), client.again_at.is_some_and(|at| state.now >= at));
                let place = state.queue.iter().any(|place| place.who == who);
                may(Action::Delete(who), state.deletions > 0 && place && waits && !calm);
            }
            for lost in outcomes {
                may(Action::Release(who, *lost), client.phase == Phase::Holds);
            }
            let works = lives && (waits || client.phase == Phase::Holds);
            may(Action::Crash(who), works && state.crashes > 0 && !calm);
        }
        // A living client has sent its keep-alive.
        let waits = |client: &Client| matches!(client.phase, Phase::Asks | Phase::Waits);
        let kept = |client: &Client| !waits(client) || !client.inside || client.beat;
        let again = |client: &Client| client.again_at.is_some_and(|at| state.now >= at);
        let in_time = state.clients.iter().all(|client| kept(client) && !again(client));
        // It has also tried where it may. A request is at most one tick late.
        let prompt = (0..).zip(&state.clients).all(|(who, client)| match client.phase {
            Phase::Waits if client.theirs => self.tried(state, who).lock == state.lock,
            Phase::Waits => !client.told,
            Phase::Asks => state.copies.iter().any(|copy| copy.who == who),
            _ => true,
        });
        let on_time = state.copies.iter().all(|copy| copy.not_after + 1 >= state.now);
        if state.now < self.ticks && in_time && prompt && on_time {
            actions.push(Action::Tick);
        }
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        let mut state = last.clone();
        match action {
            Action::Ask(who) => {
                let now = state.now;
                let client = state.client(who);
                (client.phase, client.told) = (Phase::Asks, false);
                if !self.rules.one_field {
                    client.field += 1;
                }
                let field = client.field;
                state.copies.push(Copy { who, field, not_after: now + 1 });
                state.copies.sort_unstable();
            }
            Action::Arrive(copy, lost) => {
                state.losses -= u8::from(lost);
                state.copies.retain(|other| *other != copy);
                self.enter(&mut state, copy, lost);
            }
            Action::Beat(who) => self.beat(&mut state, who),
            Action::Try(who) => state = self.tried(&state, who),
            Action::Release(who, lost) => {
                state.losses -= u8::from(lost);
                state.lock = None;
                let client = state.client(who);
                (client.phase, client.served) = (Phase::Done, true);
                state.tell_head(lost);
            }
            Action::Leave(who, lost) => {
                state.losses -= u8::from(lost);
                state.leaves -= 1;
                let limit = state.now + 2;
                let client = state.client(who);
                let unsure = client.phase == Phase::Asks;
                client.phase = Phase::Gone;
                client.again_at = (unsure && self.rules.gives_up_twice).then_some(limit);
                self.give_up(&mut state, who, lost);
            }
            Action::LeaveAgain(who) => {
                state.client(who).again_at = None;
                self.give_up(&mut state, who, false);
            }
            Action::Crash(who) => {
                state.crashes -= 1;
                *state.client(who) = Client { phase: Phase::Dead, told: false, again_at: None, ..*state.client(who) };
            }
            Action::Delete(who) => {
                state.deletions -= 1;
                state.queue.retain(|place| place.who != who);
            }
            Action::Tick => self.tick(&mut state),
        }
        Some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(ORDER, |_: &Fair, state: &State| !state.overtaken),
            Property::always(KEPT, |_: &Fair, state: &State| !state.thrown_out),
            Property::always(ONE, |_: &Fair, state: &State| {
                let places = |who| state.queue.iter().filter(|place| place.who == who).count();
                (0..).zip(&state.clients).all(|(who, _)| places(who) <= 1)
            }),
            Property::always(CLEAN, |_: &Fair, state: &State| {
                (0..).zip(&state.clients).filter(|(_, client)| client.phase == Phase::Gone).all(|(who, client)| {
                    let under_way = client.again_at.is_some() || state.copies.iter().any(|copy| copy.who == who);
                    let held = state.lock.is_some_and(|(holder, _)| holder == who);
                    under_way || !held && !state.queue.iter().any(|place| place.who == who)
                })
            }),
            Property::always(SERVED, |model: &Fair, state: &State| {
                let mut actions = Vec::new();
                model.actions(state, &mut actions);
                let waits = |client: &Client| matches!(client.phase, Phase::Asks | Phase::Waits);
                !actions.is_empty() || !state.clients.iter().any(waits)
            }),
            Property::sometimes(DEAD_OUT, |_: &Fair, state: &State| state.dead_out),
            Property::sometimes(BOTH, |_: &Fair, state: &State| {
                [false, true].iter().all(|theirs| state.clients.iter().any(|one| one.theirs == *theirs && one.served))
            }),
        ]
    }
}

impl Fair {
    /// Runs our script that takes the lock, or a place.
    fn enter(&self, state: &mut State, copy: Copy, lost: bool) {
        let Copy { who, field, not_after } = copy;
        if self.rules.not_after && state.now > not_after {
            return;
        }
        self.tidy(state);
        let mine = |place: &Place| place.who == who && place.field == field;
        let head = state.queue.first().is_none_or(mine);
        let is_free = state.lock.is_none();
        if is_free && (head || !self.rules.only_the_head) {
            if !head {
                let before = state.queue.iter().take_while(|place| !mine(place));
                state.overtaken |= before.filter(|place| state.lives(place)).count() > 0;
            }
            state.take_out(WAIT, mine);
            self.lift(state);
            state.lock = Some((who, state.now + LEASE));
            let client = state.client(who);
            match client.phase {
                // An unwanted grant is released; a dead client does not know of its grant.
                Phase::Gone if client.again_at.is_none() => {
                    state.lock = None;
                    state.tell_head(false);
                }
                Phase::Asks | Phase::Waits => (client.phase, client.told) = (Phase::Holds, false),
                _ => {}
            }
            return;
        }
        if !state.queue.iter().any(mine) {
            let last = state.queue.last().map_or(state.now, |place| place.score);
            let kept = Some(state.now + 1);
            state.queue.push(Place { who, field, score: last + WAIT, kept });
            self.lift(state);
        }
        let client = state.client(who);
        match client.phase {
            Phase::Asks if !lost => (client.phase, client.inside, client.beat) = (Phase::Waits, true, false),
            // Its answer finds no waiter: the client gives up on the arrival.
            Phase::Gone if client.again_at.is_none() && !lost && self.rules.gives_up_twice => {
                self.give_up(state, who, false);
            }
            _ => {}
        }
    }

    /// Runs our script that keeps a place alive and checks the lock.
    fn beat(&self, state: &mut State, who: u8) {
        let now = state.now;
        state.client(who).beat = true;
        let Some(place) = state.queue.iter_mut().find(|place| place.who == who) else {
            if self.rules.lines_up_again {
                (state.client(who).phase, state.client(who).inside) = (Phase::Asks, false);
            }
            return;
        };
        place.kept = Some(now + 1);
        let before = state.queue.first().copied();
        self.tidy(state);
        self.lift(state);
        if state.lock.is_none() && self.rules.looks_by_itself {
            let head = state.queue.first().copied();
            if head.is_some_and(|head| head.who == who) {
                state.client(who).told = true;
            } else if head != before {
                state.tell_head(false);
            }
        }
    }

    /// Removes dead places of ours, and a head of Redisson's whose score has passed.
    fn tidy(&self, state: &mut State) {
        let now = state.now;
        let rules = self.rules;
        loop {
            let dead = |place: &Place| rules.throws_out_the_dead && place.kept.is_some_and(|kept| kept < now);
            let over = |at: usize, place: &Place| {
                at == 0 && rules.throws_out_theirs && place.kept.is_none() && place.score <= now
            };
            let Some(at) = state.queue.iter().enumerate().position(|(at, place)| dead(place) || over(at, place)) else {
                return;
            };
            let out = state.queue[at];
            state.dead_out |= out.kept.is_some() && !state.lives(&out);
            if out.kept.is_some() {
                state.take_out(WAIT, |place| *place == out);
            } else {
                state.queue.remove(at);
            }
        }
    }

    /// Raises the scores of our living places so that they outlast the places before them.
    fn lift(&self, state: &mut State) {
        if !self.rules.lifts_scores {
            return;
        }
        let (now, mut floor, mut before) = (state.now, state.now, None);
        for place in &mut state.queue {
            let was = place.score;
            if place.kept.is_some_and(|kept| kept >= now) {
                floor += WAIT;
                place.score = place.score.max(floor);
            } else if place.kept.is_none() {
                floor += before.map_or(THEIRS, |before| was.saturating_sub(before).min(THEIRS));
            }
            before = Some(was);
        }
    }

    fn give_up(&self, state: &mut State, who: u8, lost: bool) {
        if state.lock.is_some_and(|(holder, _)| holder == who) {
            state.lock = None;
        }
        state.take_out(WAIT, |place| place.who == who);
        self.tidy(state);
        self.lift(state);
        if state.lock.is_none() {
            state.tell_head(lost);
        }
    }

    /// Returns the state after a try of a Redisson client, by its clock.
    fn tried(&self, last: &State, who: u8) -> State {
        let mut state = last.clone();
        let now = state.now + AHEAD;
        while state.queue.first().is_some_and(|head| head.score <= now) {
            let out = state.queue.remove(0);
            state.thrown_out |= out.kept.is_some() && state.lives(&out) && state.clients[usize::from(out.who)].inside;
        }
        let head = state.queue.first().is_none_or(|head| head.who == who);
        if state.lock.is_none() && head {
            state.take_out(0, |place| place.who == who);
            for place in &mut state.queue {
                place.score = place.score.saturating_sub(THEIRS);
            }
            state.lock = Some((who, state.now + LEASE));
            state.client(who).phase = Phase::Holds;
        } else if !state.queue.iter().any(|place| place.who == who) {
            let left = state.lock.map_or(0, |(_, until)| until.saturating_sub(state.now));
            let score = state.queue.last().map_or(now + left, |last| last.score) + THEIRS;
            state.queue.push(Place { who, field: 0, score, kept: None });
            state.client(who).phase = Phase::Waits;
        }
        state
    }

    fn tick(&self, state: &mut State) {
        state.now += 1;
        let now = state.now;
        for client in &mut state.clients {
            client.beat = false;
        }
        if let Some((holder, until)) = state.lock {
            if state.client(holder).phase == Phase::Holds {
                state.lock = Some((holder, now + LEASE));
            } else if now > until {
                state.lock = None;
            }
        }
    }
}

impl State {
    fn client(&mut self, who: u8) -> &mut Client {
        &mut self.clients[usize::from(who)]
    }

    fn lives(&self, place: &Place) -> bool {
        matches!(self.clients[usize::from(place.who)].phase, Phase::Asks | Phase::Waits)
    }

    /// Removes a place, and lowers the scores behind it by what it was worth.
    fn take_out(&mut self, wait: u8, which: impl Fn(&Place) -> bool) {
        let Some(at) = self.queue.iter().position(which) else { return };
        self.queue.remove(at);
        for place in &mut self.queue[at..] {
            place.score = place.score.saturating_sub(wait);
        }
    }

    fn tell_head(&mut self, lost: bool) {
        if let (false, Some(head)) = (lost, self.queue.first().copied()) {
            let client = self.client(head.who);
            client.told |= client.phase == Phase::Waits && !client.theirs;
        }
    }
}
