//! A hold is handed over to another process: one process detaches it, another one attaches it.
//!
//! # What is modelled
//!
//! One process acquires the lock, renews it and detaches the hold. From then on, all other
//! processes have the description of the detached hold, and may attach it at any later time, each
//! with a holder field of its own. A process *believes* while it acts as the holder. It may release
//! the lock. A stranger, an unrelated client, takes the lock when it is free. Requests and answers
//! may be lost, reordered and delayed. An unanswered request may be sent once more.
//!
//! # Time
//!
//! Time passes in ticks, which are the same for all. A process believes for one tick less than the
//! server keeps the lock.
//!
//! # What is left out
//!
//! The model leaves out leases without renewal, clocks that differ, the tasks inside a process, and
//! forced takeover.

use stateright::{Model, Property};

/// At most one process believes.
pub const ONE_BELIEVES: &str = "one believes at a time";
/// If a process believes, the server's key holds its field.
pub const IS_HELD: &str = "a believing process has the lock";
/// At most one process attaches the detached hold.
pub const ONCE: &str = "it is attached once";
/// A process attached the hold and released it.
pub const DETACHED: &str = "it is attached and released";
/// A stranger acquired the lock after the release.
pub const FREE_AGAIN: &str = "a stranger has it afterwards";

/// The rules of processes and scripts. In the design, all rules are on. "Off" describes the
/// behaviour without the rule.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    /// A process stops believing before it publishes the detached hold. Off: it believes until its
    /// lease ends.
    pub stops_believing: bool,
    /// A hold is detached only when every copy of its acquire is answered or refused. Off: while a
    /// copy may still be executed.
    pub waits_for_late_copies: bool,
    /// The server refuses late requests.
    pub refuses_late: bool,
    /// An attach takes the lock only if the key holds the detached field. Off: whichever field it
    /// holds.
    pub compares_the_field: bool,
    /// A lease counts from before its request was sent. Off: from the arrival of the answer.
    pub counts_from_sending: bool,
}

impl Rules {
    /// The design: every rule on.
    pub const ALL: Self = Self {
        stops_believing: true,
        waits_for_late_copies: true,
        refuses_late: true,
        compares_the_field: true,
        counts_from_sending: true,
    };
}

/// One configuration of the model.
#[derive(Clone, Copy, Debug)]
pub struct Detach {
    /// The rules of processes and scripts.
    pub rules: Rules,
    /// Number of ticks.
    pub ticks: u8,
    /// Number of processes that attach.
    pub others: usize,
    /// Number of messages that may be lost.
    pub losses: u8,
}

/// How long the server keeps the lock, in ticks.
const LEASE: u8 = 4;
/// Ticks after sending during which a request may be executed.
const WINDOW: u8 = 1;
/// Highest number of copies of a request.
const COPIES: u8 = 2;
/// The field of the process that detaches; the others have 1, 2, …
const FIRST: u8 = 0;
const STRANGER: u8 = u8::MAX;

/// One state.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct State {
    now: u8,
    /// The field that the server's key holds, and the tick at which its lease ends.
    server: Option<(u8, u8)>,
    detached: bool,
    /// The ticks at which copies of the first acquire were sent. Only unanswered copies that may
    /// still be executed are listed.
    unanswered: Vec<u8>,
    /// The process that detaches, then the processes that attach.
    processes: Vec<Process>,
    /// The tick until which the stranger believes.
    stranger: u8,
    in_flight: Vec<Message>,
    losses: u8,
}

/// A process.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Process {
    /// Number of copies of the process's request that were sent.
    copies: u8,
    /// The tick until which the process believes.
    until: u8,
    /// Whether the process was granted the lock.
    granted: bool,
    /// Whether the process has requested a renewal.
    renewed: bool,
    released: bool,
}

/// A request in flight, or its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Message {
    script: Script,
    field: u8,
    sent: u8,
    /// Whether the request was granted.
    answer: Option<bool>,
}

/// A script.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Script {
    /// Takes the lock if it is free.
    Acquire,
    /// Lengthens the lease.
    Renew,
    /// Takes over the detached hold.
    Attach,
    /// Frees the lock.
    Release,
}

/// Everything that can happen. A number is the index of a process or a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Time goes on.
    Tick,
    /// A process requests the lock, possibly once more; all processes except the first attach the
    /// detached hold.
    Request(usize),
    /// The first process renews its lease.
    Renew,
    /// The first process detaches the hold.
    Detach,
    /// A process that attached the hold releases it.
    Release(usize),
    /// A request is executed, or an answer arrives.
    Arrive(usize),
    /// A message is lost.
    Lose(usize),
    /// A stranger takes a free lock.
    Stranger,
}

impl Model for Detach {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let processes = vec![Process::default(); 1 + self.others];
        let (server, in_flight) = (None, Vec::new());
        vec![State {
            now: 0,
            server,
            detached: false,
            unanswered: Vec::new(),
            processes,
            stranger: 0,
            in_flight,
            losses: self.losses,
        }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        if state.now < self.ticks {
            actions.push(Action::Tick);
        }
        let (first, now) = (&state.processes[0], state.now);
        for (at, process) in state.processes.iter().enumerate() {
            let may_request = if at == 0 { !state.detached } else { state.detached };
            if may_request && process.copies < COPIES && !process.granted && !process.released {
                actions.push(Action::Request(at));
            }
            if at > 0 && process.until > now {
                actions.push(Action::Release(at));
            }
        }
        if first.until > now && !state.detached {
            if !first.renewed {
                actions.push(Action::Renew);
            }
            if state.unanswered.is_empty() || !self.rules.waits_for_late_copies {
                actions.push(Action::Detach);
            }
        }
        for at in 0..state.in_flight.len() {
            actions.push(Action::Arrive(at));
            if state.losses > 0 {
                actions.push(Action::Lose(at));
            }
        }
        if state.server.is_none() && state.detached && state.stranger == 0 {
            actions.push(Action::Stranger);
        }
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        let mut state = last.clone();
        match action {
            Action::Tick => state.tick(),
            Action::Request(at) => state.request(at),
            Action::Renew => {
                state.processes[0].renewed = true;
                state.send(Script::Renew, FIRST);
            }
            Action::Detach => {
                state.detached = true;
                if self.rules.stops_believing {
                    state.processes[0].until = 0;
                }
            }
            Action::Release(at) => {
                let process = &mut state.processes[at];
                (process.until, process.released) = (0, true);
                state.send(Script::Release, field(at));
            }
            Action::Arrive(at) => {
                let message = state.in_flight.remove(at);
                match message.answer {
                    None => self.execute(&mut state, message),
                    Some(granted) => self.read_answer(&mut state, message, granted),
                }
            }
            Action::Lose(at) => {
                state.losses -= 1;
                state.in_flight.remove(at);
            }
            Action::Stranger => {
                state.server = Some((STRANGER, state.now + LEASE));
                state.stranger = state.now + LEASE - 1;
            }
        }
        self.forget(&mut state);
        state.in_flight.sort_unstable();
        Some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(ONE_BELIEVES, |_: &Detach, state: &State| state.believers().count() <= 1),
            Property::always(IS_HELD, |_: &Detach, state: &State| {
                state.believers().all(|field| state.server.is_some_and(|(holder, _)| holder == field))
            }),
            Property::always(ONCE, |_: &Detach, state: &State| {
                state.processes[1..].iter().filter(|process| process.granted).count() <= 1
            }),
            Property::sometimes(DETACHED, |_: &Detach, state: &State| {
                state.server.is_none() && state.processes[1..].iter().any(|process| process.granted && process.released)
            }),
            Property::sometimes(FREE_AGAIN, |_: &Detach, state: &State| {
                state.stranger > state.now && state.processes[1..].iter().any(|process| process.granted)
            }),
        ]
    }
}

impl Detach {
    /// Removes data without further effect, so that states that differ only in such data become
    /// one.
    fn forget(&self, state: &mut State) {
        let (now, holder) = (state.now, state.server.map(|(holder, _)| holder));
        let may_come = |message: &Message| now <= message.sent + WINDOW || !self.rules.refuses_late;
        let takes = |message: &Message| matches!(message.script, Script::Acquire | Script::Attach) && may_come(message);
        let taking: Vec<u8> = state.in_flight.iter().filter(|one| takes(one)).map(|one| one.field).collect();
        let counted = |message: &Message| message.field == FIRST && now <= message.sent + WINDOW;
        state.in_flight.retain(|message| match (message.answer, message.script) {
            (None, Script::Acquire | Script::Attach) => may_come(message),
            (None, Script::Renew | Script::Release) => holder == Some(message.field) || taking.contains(&message.field),
            (Some(true), _) => !self.rules.counts_from_sending || message.sent + LEASE > now + 1 || counted(message),
            (Some(false), _) => counted(message),
        });
        state.unanswered.retain(|sent| now <= sent + WINDOW);
        for process in &mut state.processes {
            if now >= process.until {
                process.until = 0;
            }
        }
    }

    fn execute(&self, state: &mut State, message: Message) {
        let Message { script, field, sent, .. } = message;
        let (now, ends) = (state.now, state.now + LEASE);
        let late = now > sent + WINDOW && self.rules.refuses_late;
        let holder = state.server.map(|(holder, _)| holder);
        let is_ours = holder == Some(field);
        let takes = match script {
            Script::Acquire => !late && (holder.is_none() || is_ours),
            Script::Attach => {
                !late && (is_ours || holder == Some(FIRST) || holder.is_some() && !self.rules.compares_the_field)
            }
            Script::Renew => is_ours,
            Script::Release => {
                if is_ours {
                    state.server = None;
                }
                return;
            }
        };
        if takes {
            let kept = state.server.map_or(ends, |(_, kept)| kept.max(ends));
            state.server = Some((field, kept));
        }
        state.in_flight.push(Message { answer: Some(takes), ..message });
    }

    fn read_answer(&self, state: &mut State, message: Message, granted: bool) {
        let now = state.now;
        let from = if self.rules.counts_from_sending { message.sent } else { now };
        let detached = state.detached;
        let process = &mut state.processes[usize::from(message.field)];
        if message.script == Script::Acquire
            && let Some(at) = state.unanswered.iter().position(|sent| *sent == message.sent)
        {
            state.unanswered.remove(at);
        }
        let until = from + LEASE - 1;
        // A belief that has ended does not begin again, and a released hold is not held again.
        let may = match message.script {
            Script::Renew => process.until > now,
            _ if message.field == FIRST => !detached && (!process.granted || process.until > now),
            _ => !process.released && (!process.granted || process.until > now),
        };
        if granted && may && until > now {
            process.granted = true;
            process.until = process.until.max(until);
        }
    }
}

impl State {
    fn tick(&mut self) {
        self.now += 1;
        self.server = self.server.filter(|(_, ends)| *ends > self.now);
    }

    fn request(&mut self, at: usize) {
        self.processes[at].copies += 1;
        if at == 0 {
            self.unanswered.push(self.now);
        }
        self.send(if at == 0 { Script::Acquire } else { Script::Attach }, field(at));
    }

    fn send(&mut self, script: Script, field: u8) {
        self.in_flight.push(Message { script, field, sent: self.now, answer: None });
    }

    /// Returns the fields of the processes that believe.
    fn believers(&self) -> impl Iterator<Item = u8> + '_ {
        let ours = self.processes.iter().enumerate().filter(|(_, process)| process.until > self.now);
        let stranger = (self.stranger > self.now).then_some(STRANGER);
        ours.map(|(at, _)| field(at)).chain(stranger)
    }
}

fn field(at: usize) -> u8 {
    u8::try_from(at).unwrap_or(STRANGER)
}
