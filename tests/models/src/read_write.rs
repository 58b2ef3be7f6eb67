//! A read-write lock. The readers of a process share one read. New readers step back for a waiting
//! writer. A writer may also read and become a reader; the only reader may become a writer.
//!
//! Each script is one step, as in Redis. An answer may be lost and its request sent again, and a
//! copy may arrive late.
//!
//! Only the order of events is modelled, no time. A client stops believing before the server frees
//! the lock. A lock's key lives as long as the longest lease in it. The announcement of a dead
//! writer ends. Messages always arrive, since a lost one costs time and no safety.
//!
//! The renewal and the cleanup of a hold are in `one_level`, and turns of writers in `turns`.

mod canonical;
mod client;
mod server;

use stateright::{Model, Property};

pub use client::Process;
pub use server::Server;

/// Readers and writers exclude each other.
pub const EXCLUSIVE: &str = "a writer excludes all but its own read";
/// No reader that came after a waiting writer enters before it.
pub const STEPS_BACK: &str = "no reader is granted past a writer that waited before it came";
/// A sleeping client could not enter.
pub const WOKEN: &str = "a waiter that could enter is woken";
/// Every holder on the server has a client that will release it.
pub const OWNED: &str = "every holder on the server is known";
/// Two tasks share a read.
pub const SHARED: &str = "two tasks share a read";
/// An upgrade happens.
pub const CONVERTED: &str = "a reader became a writer";
/// A downgrade happens.
pub const DOWNGRADED: &str = "a writer became a reader";

/// The rules of the protocol, each to be switched off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    /// If the holder of a write also reads, or requests to, its write returns to the server and is
    /// not handed over.
    pub keeps_a_write_with_a_read: bool,
    /// A task that shares its read with others does not request an upgrade.
    pub upgrades_alone: bool,
    /// A read with a requested upgrade takes no further tasks.
    pub stops_sharing: bool,
    /// The server lets a reader write only if it is the only one.
    pub only_reader_upgrades: bool,
    /// New readers step back for a waiting writer.
    pub steps_back: bool,
    /// Readers that waited before the writer go first.
    pub first_come: bool,
    /// A downgrade wakes the readers.
    pub downgrade_wakes: bool,
    /// A writer that stops waiting wakes the readers.
    pub leaving_wakes: bool,
    /// A release keeps the key's lifetime for the remaining holders.
    pub keeps_the_longest_lease: bool,
    /// A client stops believing before the server frees the lock.
    pub stops_in_time: bool,
    /// A copy is refused when its client no longer waits for it.
    pub refuses_late: bool,
}

impl Rules {
    /// The design: every rule on.
    pub const ALL: Rules = Rules {
        keeps_a_write_with_a_read: true,
        upgrades_alone: true,
        stops_sharing: true,
        only_reader_upgrades: true,
        steps_back: true,
        first_come: true,
        downgrade_wakes: true,
        leaving_wakes: true,
        keeps_the_longest_lease: true,
        stops_in_time: true,
        refuses_late: true,
    };
}

/// How much may happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Number of clients.
    pub processes: u8,
    /// Number of requests by tasks.
    pub requests: u8,
    /// Answers that may be lost.
    pub losses: u8,
    /// Processes that may crash.
    pub crashes: u8,
    /// Leases that may expire.
    pub expiries: u8,
}

/// One configuration of the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadWrite {
    /// The rules of clients and scripts.
    pub rules: Rules,
    /// The limits of a run.
    pub bounds: Bounds,
}

/// The server, its clients, and the requests in flight.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct State {
    pub(crate) server: Server,
    pub(crate) processes: Vec<Process>,
    /// Late copies that are still in flight, each with its process.
    pub(crate) copies: Vec<(u8, Request)>,
    pub(crate) left: Left,
    /// The last number of a request or an event; orders them.
    pub(crate) clock: u8,
    /// A reader was granted past a writer that waited before it came.
    pub(crate) overtaken: bool,
    pub(crate) seen: Seen,
}

/// The events that may still happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Left {
    pub(crate) requests: u8,
    pub(crate) losses: u8,
    pub(crate) crashes: u8,
    pub(crate) expiries: u8,
}

/// The events so far; shows which states were reached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Seen {
    pub(crate) converted: bool,
    pub(crate) downgraded: bool,
}

/// The kind of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// Shared with other readers.
    Read,
    /// Exclusive.
    Write,
}

/// A request for the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Request {
    pub(crate) kind: Kind,
    /// Its field, new for each request.
    pub(crate) field: u8,
    /// The task that requests; requests with the same holder may be in together.
    pub(crate) holder: u8,
    pub(crate) held: Option<u8>,
    /// The order of its arrival.
    pub(crate) came: u8,
    /// The order of its first refusal.
    pub(crate) since: Option<u8>,
    pub(crate) waits: bool,
}

/// Everything that may happen next, with the index of the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// A task requests a read.
    Read(u8),
    /// A task shares the read of its process.
    Join(u8),
    /// A task requests a write.
    Write(u8),
    /// The writer requests a read as well.
    ReadAsWriter(u8),
    /// A reader requests a write.
    Upgrade(u8),
    /// The script runs, and its answer arrives.
    Deliver(u8),
    /// The script runs, and its answer is lost: the request is sent again, and a copy may remain in
    /// flight.
    LoseAnswer(u8),
    /// A late copy arrives.
    LateCopy,
    /// A late copy is lost.
    DropCopy,
    /// A task gives up its request.
    GiveUp(u8),
    /// A sleeping client was notified, and tries again.
    Wake(u8),
    /// A task ends its read.
    EndRead(u8),
    /// The writer ends its write.
    EndWrite(u8),
    /// The write is handed over to the next task of its process.
    HandOver(u8),
    /// The process crashes; its holds stay on the server.
    Crash(u8),
    /// The client's deadline passes for all its holds.
    DeadlinePasses(u8),
    /// The leases of a process end on the server.
    LeasesEnd(u8),
    /// The key of the lock expires.
    KeyExpires,
    /// The announcement of a dead writer ends.
    AnnouncementEnds(u8),
}

impl Model for ReadWrite {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let Bounds { requests, losses, crashes, expiries, processes } = self.bounds;
        vec![State {
            server: Server::default(),
            processes: vec![Process::default(); usize::from(processes)],
            copies: Vec::new(),
            left: Left { requests, losses, crashes, expiries },
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
            Property::always(WOKEN, |_: &ReadWrite, state: &State| {
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
