//! A read-write lock: readers of a process share a read, a writer that waits has new readers step
//! back, a writer may read and become a reader, the only reader may become a writer.
//!
//! Scripts are one step each: Redis runs them so. What is sent may be lost on its way back and sent
//! again, and a copy may come late. Time is reduced to its order: a client stops to believe before
//! the server lets go, a lock's key lives as long as the longest lease in it, a dead writer's word
//! ends. Messages reach who listens, as losing one costs time and no safety.
//!
//! Not in here: how a hold is renewed and settled (`one_level`), and turns of writers (`turns`).

mod canonical;
mod client;
mod server;

use stateright::{Model, Property};

pub use client::Process;
pub use server::Server;

/// Who reads and who writes exclude each other.
pub const EXCLUSIVE: &str = "a writer is alone, but for what it reads itself";
/// Readers that came after a writer that waits do not enter before it.
pub const STEPS_BACK: &str = "no reader is granted past a writer that waited before it came";
/// Who sleeps could not enter.
pub const TOLD: &str = "who could enter is told";
/// What is on the server has an owner.
pub const OWNED: &str = "what is on the server is somebody's";
/// Sharing happens.
pub const SHARED: &str = "two tasks share a read";
/// An upgrade happens.
pub const CONVERTED: &str = "a reader became a writer";
/// A downgrade happens.
pub const DOWNGRADED: &str = "a writer became a reader";

/// The rules of the protocol, each to be switched off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    /// A write under which its holder reads, or asks to, goes back to the server and to no other
    /// task.
    pub keeps_what_is_read_under: bool,
    /// Who shares a read with others does not ask to write.
    pub asks_alone: bool,
    /// A read under which somebody asks to write is shared with nobody new.
    pub shares_no_more: bool,
    /// The server lets a reader write only if it is the only one.
    pub only_reader_writes: bool,
    /// New readers step back for a writer that waits.
    pub steps_back: bool,
    /// Readers that waited before the writer came go first.
    pub first_come: bool,
    /// A writer that becomes a reader wakes readers.
    pub downgrade_tells: bool,
    /// Who no longer waits to write wakes readers.
    pub leaving_tells: bool,
    /// A release leaves the key's lifetime to those that are in.
    pub keeps_the_longest: bool,
    /// A client stops to believe before the server lets go.
    pub stops_in_time: bool,
    /// A copy that comes when nobody waits for it any more is refused.
    pub refuses_late: bool,
}

impl Rules {
    /// All on: the design.
    pub const ALL: Rules = Rules {
        keeps_what_is_read_under: true,
        asks_alone: true,
        shares_no_more: true,
        only_reader_writes: true,
        steps_back: true,
        first_come: true,
        downgrade_tells: true,
        leaving_tells: true,
        keeps_the_longest: true,
        stops_in_time: true,
        refuses_late: true,
    };
}

/// How much may happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Clients.
    pub processes: u8,
    /// Requests in all.
    pub asks: u8,
    /// Answers that are lost.
    pub losses: u8,
    /// Processes that die.
    pub crashes: u8,
    /// Leases that run out.
    pub expiries: u8,
}

/// The model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadWrite {
    /// What is kept to.
    pub rules: Rules,
    /// How far it goes.
    pub bounds: Bounds,
}

/// The server, its clients, and what is under way.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct State {
    pub(crate) server: Server,
    pub(crate) processes: Vec<Process>,
    /// Copies that are still under way, of these processes.
    pub(crate) copies: Vec<(u8, Request)>,
    pub(crate) left: Left,
    /// Numbers requests, and orders what happens.
    pub(crate) clock: u8,
    /// A reader was granted past a writer that waited before it came.
    pub(crate) overtaken: bool,
    pub(crate) seen: Seen,
}

/// What may still happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Left {
    pub(crate) asks: u8,
    pub(crate) losses: u8,
    pub(crate) crashes: u8,
    pub(crate) expiries: u8,
}

/// What has happened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Seen {
    pub(crate) converted: bool,
    pub(crate) downgraded: bool,
}

/// What is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// With others.
    Read,
    /// Alone.
    Write,
}

/// A request for the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Request {
    pub(crate) kind: Kind,
    /// Its field, new for each.
    pub(crate) field: u8,
    /// Who asks: those that are equal may be in together.
    pub(crate) holder: u8,
    pub(crate) under: Option<u8>,
    /// When it came.
    pub(crate) came: u8,
    /// When it was first refused.
    pub(crate) since: Option<u8>,
    pub(crate) waits: bool,
}

/// What may happen next, to the process with this number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// A task asks to read.
    Read(u8),
    /// A task shares the read of its process.
    Join(u8),
    /// A task asks to write.
    Write(u8),
    /// The writer asks to read, too.
    ReadUnder(u8),
    /// A reader asks to write.
    Upgrade(u8),
    /// The script runs, and its answer arrives.
    Deliver(u8),
    /// Carried out, and its answer lost: it is sent again, and a copy may be under way still.
    LoseAnswer(u8),
    /// A copy arrives after all.
    LateCopy,
    /// It never does.
    DropCopy,
    /// Who asked leaves.
    GiveUp(u8),
    /// Who sleeps was told, and tries again.
    Wake(u8),
    /// A reader leaves.
    EndRead(u8),
    /// The writer leaves.
    EndWrite(u8),
    /// The write goes to the next task of its process.
    HandOver(u8),
    /// The process is gone, and what it had stays.
    Crash(u8),
    /// The client's deadline passes for all it has.
    Lapse(u8),
    /// The leases of a process end on the server.
    LeasesEnd(u8),
    /// The lifetime of the lock is over.
    KeyExpires,
    /// A dead writer's word ends.
    WordEnds(u8),
}

impl Model for ReadWrite {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let Bounds { asks, losses, crashes, expiries, processes } = self.bounds;
        vec![State {
            server: Server::default(),
            processes: vec![Process::default(); usize::from(processes)],
            copies: Vec::new(),
            left: Left { asks, losses, crashes, expiries },
            clock: 0,
            overtaken: false,
            seen: Seen::default(),
        }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        for (at, process) in (0..).zip(&state.processes) {
            self.actions_of(state, at, process, actions);
        }
        if !state.copies.is_empty() {
            actions.extend([Action::LateCopy, Action::DropCopy]);
        }
        if state.server.may_expire() {
            actions.push(Action::KeyExpires);
        }
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        let mut state = last.clone();
        self.apply(&mut state, action);
        Some(state.canonical())
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(EXCLUSIVE, |_: &ReadWrite, state: &State| state.is_exclusive()),
            Property::always(STEPS_BACK, |_: &ReadWrite, state: &State| !state.overtaken),
            Property::always(TOLD, |_: &ReadWrite, state: &State| {
                state.processes.iter().all(|process| {
                    let asleep = process.request.filter(|_| process.asleep && !process.woken);
                    asleep.is_none_or(|request| !state.server.admits(&Rules::ALL, &request))
                })
            }),
            Property::always(OWNED, |_: &ReadWrite, state: &State| {
                let owned = |field: u8| state.processes.iter().any(|process| process.knows(field));
                state.server.holders.iter().all(|holder| !holder.live || owned(holder.field))
            }),
            Property::sometimes(SHARED, |_: &ReadWrite, state: &State| {
                state.processes.iter().any(|process| process.read.is_some_and(|read| read.guards > 1))
            }),
            Property::sometimes(CONVERTED, |_: &ReadWrite, state: &State| state.seen.converted),
            Property::sometimes(DOWNGRADED, |_: &ReadWrite, state: &State| state.seen.downgraded),
        ]
    }
}
