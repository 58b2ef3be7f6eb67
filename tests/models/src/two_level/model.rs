//! The whole model: the state, its actions, and its transitions.

use stateright::{Model, Property};

use super::process::{Entry, Poll, Preempted, Process, Request};
use super::server::{Field, Order, Server};
use super::table::{Setup, Verdict};
use super::{AcquireOptions, Rules, Timer, Timing, properties};

/// One configuration of the model.
#[derive(Clone, Copy, Debug)]
pub struct TwoLevel {
    /// The rules of the tables.
    pub rules: Rules,
    /// The lengths of leases and windows.
    pub timing: Timing,
    /// The limits of a run.
    pub bounds: Bounds,
}

/// The limits of one run.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Number of processes.
    pub processes: u8,
    /// Tasks of one process that wait or have a guard.
    pub tasks: u8,
    /// The options that tasks may use.
    pub requests: &'static [AcquireOptions],
    /// Whether waiting tasks may cancel.
    pub cancels: bool,
    /// Whether owners may enter again.
    pub reentry: bool,
    /// Whether an unanswered acquire may be sent again, with the same field.
    pub repeats: bool,
    /// Limits of the counted events.
    pub mishaps: Mishaps,
}

/// How often each event may still occur.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Mishaps {
    /// Connections lost: each loses a request or a reply.
    pub losses: u8,
    /// Processes that crash.
    pub crashes: u8,
    /// Takeovers by force.
    pub takeovers: u8,
    /// Acquires by tasks (not a fault); [`u8::MAX`] means any number.
    pub acquires: u8,
}

/// One state. The processes are sorted, so that states that differ only in process numbers are
/// equal.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct State {
    /// The server.
    pub server: Server,
    /// The processes.
    pub processes: Vec<Process>,
    /// The events that may still occur.
    pub left: Mishaps,
    /// The server's time minus the highest token of any task.
    pub highest: i8,
    /// The end of an `at_least`. Until then, only tasks of preempted processes may enter.
    pub kept: Timer,
    /// The violations so far.
    pub flaws: Flaws,
}

/// Violations that are visible in an event and not in a state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Flaws {
    /// A task entered although its process had lost the key, in another way than by force.
    pub unheld: bool,
    /// A token was issued before the server's time had reached it.
    pub token_ahead: bool,
    /// A token was issued that is not higher than all earlier ones.
    pub token_not_above: bool,
    /// A preempted process issued a token that is not lower than those issued since the takeover.
    pub token_not_below: bool,
    /// A task entered before an earlier waiter of its process.
    pub overtook: bool,
    /// A server lease was handed over after the notice of a forced takeover.
    pub ignores_notice: bool,
    /// A task entered before an `at_least` had ended.
    pub too_early: bool,
    /// A server lease was released although the first waiter could have entered.
    pub thrown_away: bool,
}

/// All possible steps. The first number is the index of the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// A task acquires, with the options of this index.
    Acquire(u8, u8),
    /// A waiting task cancels.
    Cancel(u8, u8),
    /// The owner enters again.
    Reenter(u8),
    /// A guard is dropped.
    DropGuard(u8, u8),
    /// The table notices that the owner's deadline has passed.
    Enforce(u8),
    /// The table checks again a server lease that has no owner.
    Pass(u8),
    /// An attempt is sent.
    Attempt(u8),
    /// Another copy of an unanswered acquire is sent.
    AttemptAgain(u8, u8),
    /// An attempt by force is sent.
    TakeOver(u8),
    /// A queued release is sent.
    Release(u8),
    /// A deferred release is sent.
    SendDeferred(u8, u8),
    /// A message, an expiry, or a poll ends the wait for a key that another process holds.
    Wake(u8),
    /// The server executes the request in flight.
    Execute(u8),
    /// The server executes a request of a lost connection.
    ExecuteLate(u8, u8),
    /// A process reads the reply.
    ReadReply(u8),
    /// A process reads the notice that its key was taken by force.
    ReadNotice(u8),
    /// A process's connection is lost.
    Lose(u8),
    /// A process crashes.
    Crash(u8),
    /// Time passes.
    Tick,
}

impl Model for TwoLevel {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        vec![State {
            server: Server::default(),
            processes: vec![Process::default(); usize::from(self.bounds.processes)],
            left: self.bounds.mishaps,
            highest: if self.timing.tokens { self.timing.oldest() } else { 0 },
            kept: Timer::PAST,
            flaws: Flaws::default(),
        }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        for (at, process) in (0..).zip(&state.processes) {
            if !process.crashed {
                self.tasks(state, process, at, actions);
                self.table(state, process, at, actions);
            }
            let now = |request: &Request| self.may_run(state, at, request);
            let late = (0..).zip(&process.late).filter(|(_, request)| now(request));
            actions.extend(late.map(|(place, _)| Action::ExecuteLate(at, place)));
            if let Some(flight) = &process.flight {
                match flight.answer {
                    Some(_) => actions.push(Action::ReadReply(at)),
                    None if now(&flight.request) => actions.push(Action::Execute(at)),
                    None => {}
                }
            }
        }
        actions.push(Action::Tick);
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        let mut state = last.clone();
        self.apply(&mut state, action);
        Some(state.into_canonical(self))
    }

    fn properties(&self) -> Vec<Property<Self>> {
        properties::all()
    }
}

impl TwoLevel {
    /// Returns the part of this configuration that tables use.
    pub fn setup(&self) -> Setup {
        Setup { rules: self.rules, timing: self.timing }
    }

    /// Adds the actions that the tasks of a process may take.
    fn tasks(&self, state: &State, process: &Process, at: u8, actions: &mut Vec<Action>) {
        let has_room = process.queue.len() + process.guards.len() < usize::from(self.bounds.tasks);
        if has_room && state.left.acquires > 0 {
            // If the process's holder owns the lease, it re-enters instead of waiting.
            let inside = process.owner.is_some_and(|owner| owner.options.by_holder);
            let requests = (0..).zip(self.bounds.requests).filter(|(_, options)| !(options.by_holder && inside));
            actions.extend(requests.map(|(options, _)| Action::Acquire(at, options)));
        }
        if has_room && self.bounds.reentry && process.may_reenter(&self.rules) {
            actions.push(Action::Reenter(at));
        }
        if self.bounds.cancels {
            actions.extend((0..process.queue.len()).map(|place| Action::Cancel(at, small(place))));
        }
        actions.extend((0..process.guards.len()).map(|guard| Action::DropGuard(at, small(guard))));
    }

    /// Adds the actions that the table of a process may take, and the faults that may affect it.
    fn table(&self, state: &State, process: &Process, at: u8, actions: &mut Vec<Action>) {
        if process.owner.is_some_and(|owner| !owner.deadline.is_ahead()) && self.rules.owner_has_a_deadline {
            actions.push(Action::Enforce(at));
        }
        if process.notice.is_some() {
            actions.push(Action::ReadNotice(at));
        }
        if state.left.crashes > 0 {
            actions.push(Action::Crash(at));
        }
        if process.poll == Poll::Watching {
            actions.push(Action::Wake(at));
        }
        if process.flight.is_some() {
            if state.left.losses > 0 {
                actions.push(Action::Lose(at));
            }
            return;
        }
        for (place, left) in (0..).zip(&process.deferred) {
            if process.owes_release(left) {
                actions.push(Action::SendDeferred(at, place));
            }
            let was_released =
                process.late.iter().any(|late| late.serial == left.serial && late.order == Order::Release);
            let again = self.bounds.repeats && !left.by_force && !left.answered && !was_released;
            if again && left.refused_from.is_ahead() && process.poll == Poll::Due && !process.queue.is_empty() {
                actions.push(Action::AttemptAgain(at, place));
            }
        }
        if let Some(server_lease) = &process.server_lease {
            let waits = || process.verdict(&self.setup()) == Some(Verdict::Wait);
            if server_lease.release_queued {
                actions.push(Action::Release(at));
            } else if server_lease.watched && process.owner.is_none() && !waits() {
                actions.push(Action::Pass(at));
            }
        } else if !process.queue.is_empty() && process.poll != Poll::Idle {
            if process.poll == Poll::Due {
                actions.push(Action::Attempt(at));
            }
            if state.left.takeovers > 0 {
                actions.push(Action::TakeOver(at));
            }
        }
    }

    fn apply(&self, state: &mut State, action: Action) {
        let setup = &self.setup();
        let entry = match action {
            Action::Acquire(at, options) => {
                if state.left.acquires != u8::MAX {
                    state.left.acquires -= 1;
                }
                (at, state.process(at).acquire(setup, self.bounds.requests[usize::from(options)]))
            }
            Action::Cancel(at, place) => (at, state.process(at).cancel(setup, place.into())),
            Action::Lose(at) => {
                state.left.losses -= 1;
                (at, state.process(at).lose_connection(setup))
            }
            Action::DropGuard(at, guard) => (at, state.process(at).drop_guard(setup, guard.into())),
            Action::Enforce(at) => (at, state.process(at).enforce(setup)),
            Action::Pass(at) => (at, state.process(at).advance(setup)),
            Action::ReadReply(at) => (at, state.process(at).read_reply(setup)),
            Action::ReadNotice(at) => (at, state.process(at).read_notice(setup)),
            other => return self.apply_quiet(state, other),
        };
        if let (at, Some(entry)) = entry {
            self.note(state, at, entry);
        }
    }

    /// Applies the actions after which a task cannot enter.
    fn apply_quiet(&self, state: &mut State, action: Action) {
        let setup = &self.setup();
        match action {
            Action::Reenter(at) => state.process(at).reenter(setup),
            Action::Attempt(at) => {
                let serial = state.unused_serial(at);
                state.process(at).send_attempt(setup, serial, None, false);
            }
            Action::AttemptAgain(at, place) => {
                let left = state.process(at).deferred.remove(place.into());
                state.process(at).send_attempt(setup, left.serial, Some(left.refused_from), false);
            }
            Action::TakeOver(at) => {
                state.left.takeovers -= 1;
                let serial = state.unused_serial(at);
                state.process(at).send_attempt(setup, serial, None, true);
            }
            Action::Release(at) => {
                let design = Setup { rules: Rules::ALL, ..*setup };
                state.flaws.thrown_away |= matches!(state.process(at).verdict(&design), Some(Verdict::Enter(_)));
                state.process(at).send_release();
            }
            Action::SendDeferred(at, place) => state.process(at).send_deferred(place.into()),
            Action::Wake(at) => state.process(at).poll = Poll::Due,
            Action::Execute(at) => {
                let request = state.process(at).flight.expect("offered only with a flight").request;
                let answer = self.execute(state, at, request);
                state.process(at).flight.as_mut().expect("the same").answer = Some(answer);
            }
            Action::ExecuteLate(at, place) => {
                let request = state.process(at).late.remove(place.into());
                self.execute(state, at, request);
            }
            Action::Crash(at) => {
                state.left.crashes -= 1;
                let process = state.process(at);
                let mut late = std::mem::take(&mut process.late);
                late.extend(process.flight.filter(|flight| flight.answer.is_none()).map(|flight| flight.request));
                *process = Process { crashed: true, late, ..Process::default() };
            }
            Action::Tick => {
                state.server.tick();
                state.kept.tick();
                let oldest = self.timing.oldest();
                state.highest = (state.highest + 1).min(oldest);
                state.processes.iter_mut().for_each(|process| process.tick(oldest));
            }
            _ => unreachable!("handled by `apply`"),
        }
    }

    /// Whether the request may be executed in this tick: no two scripts read the same time.
    fn may_run(&self, state: &State, at: u8, request: &Request) -> bool {
        let is_ours = state.server.holder() == Some(Field { process: at, serial: request.serial });
        let grants = match request.order {
            Order::Acquire { refused_from, by_force, .. } => {
                refused_from.is_ahead() && (by_force || is_ours || state.server.key.is_none())
            }
            Order::Confirm { .. } => is_ours,
            Order::Lengthen { .. } | Order::Release => false,
        };
        !(self.timing.tokens && grants && state.server.time_is_taken)
    }

    fn execute(&self, state: &mut State, at: u8, request: Request) -> super::server::Answer {
        let (answer, victim) = state.server.execute(Field { process: at, serial: request.serial }, request.order);
        state.server.time_is_taken |= matches!(answer, super::server::Answer::Granted { .. });
        if let Some(Field { process, serial }) = victim
            && !state.process(process).crashed
        {
            let process = state.process(process);
            process.notice = Some(serial);
            process.preempted.push(Preempted { serial, followed: false });
        }
        answer
    }

    /// Records the entry of a task, and the violations that it shows.
    fn note(&self, state: &mut State, at: u8, entry: Entry) {
        let field = Field { process: at, serial: entry.serial };
        let held = state.server.holder() == Some(field);
        let preempted = state.process(at).preempted.iter().find(|preempted| preempted.serial == entry.serial).copied();
        let flaws = &mut state.flaws;
        flaws.overtook |= entry.overtook;
        flaws.ignores_notice |= entry.ignores_notice;
        if self.timing.tokens {
            flaws.token_ahead |= entry.lag < 0;
            if preempted.is_some_and(|preempted| preempted.followed) {
                flaws.token_not_below |= entry.lag <= state.highest;
            } else {
                flaws.token_not_above |= entry.lag >= state.highest;
                state.highest = state.highest.min(entry.lag);
            }
        }
        if preempted.is_none() {
            flaws.unheld |= !held;
            flaws.too_early |= state.kept.is_ahead();
            state.kept = entry.keep;
            for preempted in state.processes.iter_mut().flat_map(|process| &mut process.preempted) {
                preempted.followed = true;
            }
        }
    }
}

impl State {
    fn process(&mut self, at: u8) -> &mut Process {
        &mut self.processes[usize::from(at)]
    }

    /// Returns a field number that this process does not use. It is equivalent to a new number.
    fn unused_serial(&self, at: u8) -> u8 {
        let process = &self.processes[usize::from(at)];
        let used = |serial| process.names(serial) || self.server.holder() == Some(Field { process: at, serial });
        (0..).find(|&serial| !used(serial)).expect("fewer are in use than a byte counts")
    }
}

fn small(number: usize) -> u8 {
    u8::try_from(number).expect("fits a byte")
}
