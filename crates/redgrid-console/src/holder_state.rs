//! Whether the holder of a lock works.

use std::collections::BTreeMap;

use crate::snapshot::{Living, Process, Reading};

/// Whether a holder works.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum State {
    /// Its client is connected.
    Alive,
    /// Its client is connected, and does not answer questions.
    Silent,
    /// Its client is not connected: the hold ends with its lease.
    Gone,
    /// It is no client of this library, such as one of Redisson.
    Foreign,
    /// The connected clients cannot be listed, or not yet.
    Unknown,
}

impl State {
    pub(crate) const ALL: [State; 5] = [State::Alive, State::Silent, State::Gone, State::Foreign, State::Unknown];

    /// Returns its name in addresses and style classes.
    pub(crate) fn id(self) -> &'static str {
        match self {
            State::Alive => "alive",
            State::Silent => "silent",
            State::Gone => "gone",
            State::Foreign => "foreign",
            State::Unknown => "unknown",
        }
    }

    /// Returns its name for people.
    pub(crate) fn label(self) -> &'static str {
        match self {
            State::Alive => "alive",
            State::Silent => "silent",
            State::Gone => "gone",
            State::Foreign => "not redgrid",
            State::Unknown => "unknown",
        }
    }

    /// Returns an explanation.
    pub(crate) fn meaning(self) -> &'static str {
        match self {
            State::Alive => "The client of the holder is connected.",
            State::Silent => "The client is connected, and does not answer. Its process is stopped or blocked.",
            State::Gone => "The client is not connected. The lock is free when its lease ends.",
            State::Foreign => "The holder is no client of redgrid, for example one of Redisson.",
            State::Unknown => "It is not known which clients are connected.",
        }
    }
}

/// Returns the state of a client that was first seen at this time.
pub(crate) fn state_of(
    client: &str,
    seen_at: u64,
    living: &Reading<Living>,
    processes: &BTreeMap<String, Process>,
) -> State {
    let Some(clients) = living.get() else { return State::Unknown };
    if clients.has(client) {
        let is_silent = processes.get(client).is_some_and(|process| process.silent_since.is_some());
        return if is_silent { State::Silent } else { State::Alive };
    }
    // An older list cannot contain a client that was seen later.
    let is_listed_since = clients.is_complete && living.read_at().is_some_and(|read_at| read_at > seen_at);
    match is_listed_since {
        true if is_own_id(client) => State::Gone,
        true => State::Foreign,
        false => State::Unknown,
    }
}

/// Returns whether a client's id is one of redgrid: a UUID of version 8. The ids of
/// Redisson have version 4.
fn is_own_id(client: &str) -> bool {
    client.len() == 36 && client.as_bytes()[14] == b'8'
}
