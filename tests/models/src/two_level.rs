//! Two levels: the tasks of a process share one hold in Redis, the server lease, and pass it on among
//! themselves.
//!
//! # What is modelled
//!
//! The server ([`server`]) and, for each process, its hold table ([`table`]), what it makes of
//! replies and of their absence (`hear`), and the guards its tasks have in their hands, which is
//! what *believing* means here. A process has at most one server lease and one request under way; its
//! tasks ask, wait in order, enter, enter again, leave, and let go, at any moment. When nobody owns
//! the server lease the table hands it on, lengthens it first, waits, or queues its release, which a new
//! task may take back until it is sent. A connection may be lost: its request is carried out later
//! or never, its reply is gone. A process may take the key by force; the notice to who had it may
//! come at any time or never. Each of the [`Rules`] can be switched off to see what it is good for.
//!
//! # Time and tokens
//!
//! As in [`one_level`](crate::one_level) no instant is stored, only the ticks until it, and tasks
//! may ask for ever. Where tokens are compared ([`Timing::tokens`]) a tick is their unit: a script
//! that grants reads a time no other has read.
//!
//! Who was dispossessed by force may believe until it hears of it. That is what the token is for: until
//! the taker has its token, the dispossessed process's tokens go on rising; from then on they must stay
//! below the taker's.
//!
//! # What is bounded
//!
//! The processes, their tasks, the connections lost, the crashes, the thefts ([`Bounds`]), and
//! where the model gets too large otherwise the number of times that tasks ask.
//!
//! # What is left out
//!
//! What `one_level` has shown for each server lease: clocks that err, margins, renewals by the engine,
//! shortenings, reports of a release. Then shared holds, failover, hand-over windows of different length,
//! and whose turn it is ([`turns`](crate::turns)).

mod canonical;
mod hear;
pub mod model;
pub mod process;
pub mod properties;
pub mod rules;
pub mod server;
pub mod table;

pub use crate::one_level::Timer;
pub use model::{Action, Bounds, Mishaps, State, TwoLevel};
pub use rules::Rules;

/// What a task asks for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AcquireOptions {
    /// Its own lease in ticks; without one it believes as long as the server lease.
    pub lease: Option<u8>,
    /// The name stays taken that long, however soon it is released.
    pub at_least: u8,
    /// It asks by a holder, the same one in all such requests of a process.
    pub by_holder: bool,
}

/// The lengths of a configuration, in ticks.
#[derive(Clone, Copy, Debug)]
pub struct Timing {
    /// Lease of who has no lease of its own.
    pub lease: u8,
    /// How long a server lease is handed on.
    pub handover_window: u8,
    /// How long a copy of an acquire is good for.
    pub window: u8,
    /// A tick is the unit of tokens, and they are compared. Otherwise a tick is much longer, and
    /// tokens are left out.
    pub tokens: bool,
}

impl Timing {
    /// The lease this task counts on.
    pub fn lease_of(&self, options: AcquireOptions) -> u8 {
        options.lease.unwrap_or(self.lease)
    }

    /// What must be left of the key's lease when this task enters.
    pub fn need(&self, rules: &Rules, options: AcquireOptions) -> u8 {
        let at_least = if rules.at_least_is_in_the_lease { options.at_least } else { 0 };
        self.lease_of(options).max(at_least)
    }

    /// Tokens of this age and more are all alike: no server lease lasts so long where tokens are
    /// compared, since nothing is lengthened there.
    pub fn oldest(&self) -> i8 {
        i8::try_from(self.lease + self.handover_window + 2).expect("a handful of ticks")
    }

    /// The lease asked of the server for this task: it outlives the last hand-over.
    pub fn key_lease(&self, rules: &Rules, options: AcquireOptions) -> u8 {
        self.need(rules, options) + self.handover_window
    }
}
