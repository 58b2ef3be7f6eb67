//! Turns at the end of a hand-over window. The model shows which process is next, if each process
//! always has waiting tasks, or releases and comes back.
//!
//! # What is modelled
//!
//! A release is published to every subscribed process, and its reply is the number n of these
//! processes. The process that released waits for n messages, including its own, before it tries
//! again. Every other process tries at its next message. After a period without events, called
//! *silence*, each waiting process tries once. Each process counts how often it was *passed over*:
//! the number of hand-over windows of other processes that began while it waited.
//!
//! # Time
//!
//! Only the order of events is modelled, not time. Messages arrive and tries are made within a
//! hand-over window, and before silence begins. With [`Bounds::slow`], a process may have this many
//! unread messages when the next hand-over window ends.
//!
//! # What is left out
//!
//! The model leaves out the number of requests at the end of a hand-over window, waiters that poll
//! without a subscription, and the tasks inside a process.

use stateright::{Model, Property};

/// No waiting process is passed over more often than the bound.
pub const BOUNDED: &str = "no process is passed over for long";
/// While the lock is free and a process waits, an event is due.
pub const PROGRESS: &str = "a free lock is taken";
/// Every process has held the lock, and waits or holds again.
pub const ALL_SERVED: &str = "every process is served";
/// A process tried because of silence.
pub const SILENCE: &str = "silence ends a turn";

/// The rules of processes. In the design, all rules are on. "Off" describes the behaviour without
/// the rule.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    /// A process that released yields to others. Off: it tries immediately.
    pub lets_others_go_first: bool,
    /// It waits for as many messages as there are subscribers. Off: only for its own message, and
    /// then it competes with the other processes.
    pub counts_the_subscribers: bool,
    /// Only silence ends a turn early. Off: a fixed time ends it, whatever happens meanwhile.
    pub only_silence_ends_a_turn: bool,
    /// Silence ends a turn. Off: only messages do.
    pub silence_ends_a_turn: bool,
    /// A process that releases without waiters keeps its turn for its next waiter. Off: its next
    /// waiter tries immediately.
    pub turn_outlives_the_queue: bool,
    /// A process without waiters keeps its turn until its messages have arrived. Off: only until no
    /// event is due, whether or not the lock is held; this time is shorter than a hand-over window.
    pub turn_outlives_a_window: bool,
}

impl Rules {
    /// The design: every rule on.
    pub const ALL: Self = Self {
        lets_others_go_first: true,
        counts_the_subscribers: true,
        only_silence_ends_a_turn: true,
        silence_ends_a_turn: true,
        turn_outlives_the_queue: true,
        turn_outlives_a_window: true,
    };
}

/// One configuration of the model.
#[derive(Clone, Copy, Debug)]
pub struct Turns {
    /// The rules of processes.
    pub rules: Rules,
    /// The limits of a run.
    pub bounds: Bounds,
}

/// The limits of one run.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Number of processes.
    pub processes: u8,
    /// Whether all processes wait from the start; otherwise they join one by one.
    pub all_wait: bool,
    /// Whether a process may release without waiters, and come back.
    pub leaves: bool,
    /// Maximum number of hand-over windows of other processes that may begin while a process waits.
    pub passed_over: u8,
    /// Messages that may be lost.
    pub losses: u8,
    /// Holders that may crash; their leases end without a message.
    pub crashes: u8,
    /// Messages that a process may have unread when a hand-over window ends.
    pub slow: u8,
}

/// One state. The processes are sorted.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct State {
    /// The processes.
    pub processes: Vec<Process>,
    /// Messages that may still be lost.
    pub losses: u8,
    /// Holders that may still crash.
    pub crashes: u8,
    /// Whether silence has ended a turn.
    pub silence: bool,
}

/// A process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Process {
    /// Whether the process holds the lock.
    pub holds: bool,
    /// Whether one of its tasks waits.
    pub waits: bool,
    /// Whether the process is subscribed to the messages.
    pub subscribed: bool,
    /// Whether the process is about to try.
    pub tries: bool,
    /// Number of messages for which the process waits before it tries.
    pub turn: u8,
    /// Number of unread messages.
    pub inbox: u8,
    /// Number of hand-over windows of other processes that began while this process waited.
    pub passed_over: u8,
    /// Whether the process has held the lock.
    pub served: bool,
    /// Whether the process has crashed.
    pub crashed: bool,
}

/// All possible steps. The number is the index of the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// A task begins to wait.
    Join(u8),
    /// A process tries to acquire the lock.
    Try(u8),
    /// A hand-over window ends, and tasks wait.
    Release(u8),
    /// A hand-over window ends, and no task waits.
    ReleaseAndLeave(u8),
    /// A message is read.
    ReadMessage(u8),
    /// A message is lost.
    LoseMessage(u8),
    /// A waiting process tries after silence.
    Silence(u8),
    /// A process without waiters gives up its turn.
    ForgetTurn(u8),
    /// The holder crashes, and its lease ends.
    Crash(u8),
}

impl Model for Turns {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let all = self.bounds.all_wait;
        let process = Process { waits: all, subscribed: all, tries: all, ..Process::default() };
        let processes = vec![process; usize::from(self.bounds.processes)];
        vec![State { processes, losses: self.bounds.losses, crashes: self.bounds.crashes, silence: false }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        let is_read = state.processes.iter().all(|process| process.inbox <= self.bounds.slow && !process.tries);
        let is_still = state.is_still();
        let is_free = state.is_free();
        for (at, process) in (0..).zip(&state.processes) {
            let mut may = |action: fn(u8) -> Action, when: bool| actions.extend(when.then(|| action(at)));
            may(Action::Join, !process.waits && !process.holds && !process.crashed);
            may(Action::Try, process.tries);
            may(Action::ReadMessage, process.inbox > 0);
            may(Action::LoseMessage, process.inbox > 0 && state.losses > 0);
            may(Action::Release, process.holds && is_read);
            may(Action::ReleaseAndLeave, process.holds && is_read && self.bounds.leaves);
            may(Action::Crash, process.holds && state.crashes > 0);
            may(Action::Silence, self.may_probe(process, is_still) && is_free);
            let forgets = !process.waits && process.turn > 0 && !self.rules.turn_outlives_a_window;
            may(Action::ForgetTurn, forgets && is_still);
        }
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        let mut state = last.clone();
        self.apply(&mut state, action);
        for process in &mut state.processes {
            if !process.waits && !process.holds && process.turn == 0 {
                (process.subscribed, process.inbox) = (false, 0);
            }
        }
        state.processes.sort_unstable();
        Some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(BOUNDED, |model: &Turns, state: &State| {
                state.processes.iter().all(|process| process.passed_over <= model.bounds.passed_over)
            }),
            Property::always(PROGRESS, |model: &Turns, state: &State| {
                let is_still = state.is_still();
                let waits = state.processes.iter().any(|process| process.waits);
                let probes = state.processes.iter().any(|process| model.may_probe(process, is_still));
                !state.is_free() || !waits || !is_still || probes
            }),
            Property::sometimes(ALL_SERVED, |_: &Turns, state: &State| {
                state.processes.iter().all(|process| process.served && (process.waits || process.holds))
            }),
            Property::sometimes(SILENCE, |_: &Turns, state: &State| state.silence),
        ]
    }
}

impl Turns {
    fn may_probe(&self, process: &Process, is_still: bool) -> bool {
        let silence = is_still && self.rules.silence_ends_a_turn;
        let time_is_up = process.turn > 0 && !self.rules.only_silence_ends_a_turn;
        process.waits && !process.tries && (silence || time_is_up)
    }

    fn apply(&self, state: &mut State, action: Action) {
        match action {
            Action::Join(at) => {
                let process = state.process(at);
                (process.waits, process.subscribed, process.passed_over) = (true, true, 0);
                process.tries = process.turn == 0;
            }
            Action::Try(at) => self.try_acquire(state, at),
            Action::Release(at) => self.release(state, at, true),
            Action::ReleaseAndLeave(at) => self.release(state, at, false),
            Action::ReadMessage(at) => {
                let process = state.process(at);
                process.inbox -= 1;
                process.turn = process.turn.saturating_sub(1);
                process.tries |= process.turn == 0 && process.waits;
            }
            Action::LoseMessage(at) => {
                state.losses -= 1;
                state.process(at).inbox -= 1;
            }
            Action::Silence(at) => {
                state.silence = true;
                let process = state.process(at);
                (process.tries, process.turn) = (true, 0);
            }
            Action::ForgetTurn(at) => state.process(at).turn = 0,
            Action::Crash(at) => {
                state.crashes -= 1;
                *state.process(at) = Process { crashed: true, served: true, ..Process::default() };
            }
        }
    }

    fn try_acquire(&self, state: &mut State, at: u8) {
        let is_free = state.is_free();
        let process = state.process(at);
        process.tries = false;
        if !is_free {
            return;
        }
        (process.holds, process.waits, process.served, process.passed_over) = (true, false, true, 0);
        let most = self.bounds.passed_over + 1;
        for process in state.processes.iter_mut().filter(|process| process.waits) {
            process.passed_over = (process.passed_over + 1).min(most);
        }
    }

    fn release(&self, state: &mut State, at: u8, waits: bool) {
        let mut reached = 0;
        for process in state.processes.iter_mut().filter(|process| process.subscribed) {
            process.inbox += 1;
            reached += 1;
        }
        let rules = &self.rules;
        let process = state.process(at);
        process.holds = false;
        process.waits = waits;
        process.turn = match reached {
            _ if !rules.lets_others_go_first || !waits && !rules.turn_outlives_the_queue => 0,
            1 => 0,
            _ if !rules.counts_the_subscribers => 1,
            reached => reached,
        };
        process.tries = waits && process.turn == 0;
    }
}

impl State {
    fn process(&mut self, at: u8) -> &mut Process {
        &mut self.processes[usize::from(at)]
    }

    fn is_free(&self) -> bool {
        !self.processes.iter().any(|process| process.holds)
    }

    /// Whether no event is due: no message is unread, and no process is about to try.
    fn is_still(&self) -> bool {
        self.processes.iter().all(|process| process.inbox == 0 && !process.tries)
    }
}
