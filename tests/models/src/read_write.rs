//! A read-write lock. The readers of a process share one read. New readers yield to a waiting
//! writer. A writer may also acquire a read, and become a reader; a reader that is the only one may
//! become a writer.
//!
//! Each script is one step, as in Redis. If an answer is lost, its request is sent again, and the
//! first copy may arrive late.
//!
//! Only the order of events is modelled, not time. A client stops believing before the server frees
//! the lock. A lock's key lives as long as the longest lease in it. The announcement of a dead
//! writer expires. Messages always arrive, because a lost message causes a delay but no violation.
//!
//! The renewal and the cleanup of a hold are modelled in `one_level`, and the turns of writers in
//! `turns`.

mod canonical;
mod client;
mod server;

use stateright::{Model, Property};

pub use client::Process;
pub use server::Server;

/// A writer excludes all other holders, except its own read.
pub const EXCLUSIVE: &str = "a writer excludes all but its own read";
/// If a writer waits when a reader arrives, the reader does not enter before that writer.
pub const STEPS_BACK: &str = "no reader is granted past a writer that waited before it came";
/// If a client sleeps, its request could not be granted.
pub const WOKEN: &str = "a waiter that could enter is woken";
/// Every holder on the server has a client that will release it.
pub const OWNED: &str = "every holder on the server is known";
/// Two tasks share a read.
pub const SHARED: &str = "two tasks share a read";
/// An upgrade happens.
pub const CONVERTED: &str = "a reader became a writer";
/// A downgrade happens.
pub const DOWNGRADED: &str = "a writer became a reader";

/// The rules of the protocol; each can be switched off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    /// If the holder of a write also reads, or requests a read, its write is released to the server
    /// and not handed over.
    pub keeps_a_write_with_a_read: bool,
    /// A task that shares its read with others does not request an upgrade.
    pub upgrades_alone: bool,
    /// A read whose upgrade is requested takes no further tasks.
    pub stops_sharing: bool,
    /// The server grants an upgrade only if the reader is the only one.
    pub only_reader_upgrades: bool,
    /// New readers yield to a waiting writer.
    pub steps_back: bool,
    /// Readers that waited before the writer enter first.
    pub first_come: bool,
    /// A downgrade wakes the readers.
    pub downgrade_wakes: bool,
    /// A writer that stops waiting wakes the waiting readers.
    pub leaving_wakes: bool,
    /// A release does not shorten the key's lifetime below the leases of the remaining holders.
    pub keeps_the_longest_lease: bool,
    /// A client stops believing before the server frees the lock.
    pub stops_in_time: bool,
    /// A copy is refused if its client does not wait for the answer.
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
    /// Late copies in flight, each with the index of its process.
    pub(crate) copies: Vec<(u8, Request)>,
    pub(crate) left: Left,
    /// The last number given to a request or an event; the numbers order them.
    pub(crate) clock: u8,
    /// Whether a reader was granted past a writer that waited when the reader arrived.
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

/// The events so far; they show which states were reached.
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
    /// The field of the request, new for each request.
    pub(crate) field: u8,
    /// The task that sends the request. Requests with the same holder do not exclude each other.
    pub(crate) holder: u8,
    pub(crate) held: Option<u8>,
    /// The position of the request in the order of arrival.
    pub(crate) came: u8,
    /// The position of its first refusal in the order of events.
    pub(crate) since: Option<u8>,
    pub(crate) waits: bool,
}

/// All possible steps; the number is the index of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// A task requests a read.
    Read(u8),
    /// A task shares the read of its process.
    Join(u8),
    /// A task requests a write.
    Write(u8),
    /// The writer also requests a read.
    ReadAsWriter(u8),
    /// A reader requests an upgrade to a write.
    Upgrade(u8),
    /// The script runs, and its answer arrives.
    Deliver(u8),
    /// The script runs, and its answer is lost. The request is sent again, and a copy may remain in
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
    /// The announcement of a dead writer expires.
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
