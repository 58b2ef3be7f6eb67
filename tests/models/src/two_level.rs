//! Two levels: the tasks of a process share one grant of the server, the server lease, and hand it
//! over among themselves.
//!
//! # What is modelled
//!
//! The model has a server ([`server`]) and processes. A process has a lock table ([`table`]), which
//! also handles replies and lost connections (`replies`), and the guards of its tasks. A task
//! *believes* that it holds the lock while its guard is valid.
//!
//! A process has at most one server lease and one request in flight. Its tasks acquire, wait in
//! order, enter, enter again, cancel and drop guards at any moment. A server lease without an owner
//! is handed over, lengthened first, kept waiting, or queued for release. A new task may take back
//! a queued release until it is sent.
//!
//! A lost connection loses its reply, and its request is executed later or never. A process may
//! take the key by force; the notice to the former holder may come at any time or never. Each of
//! the [`Rules`] can be switched off to show what it prevents.
//!
//! # Time and tokens
//!
//! As in [`one_level`](crate::one_level) no instant is stored, only the ticks until it, and tasks
//! may acquire for ever. Where tokens are compared ([`Timing::tokens`]), a tick is their unit: no
//! two granting scripts read the same time.
//!
//! A preempted process lost its key to a forced takeover. It may believe until it reads the notice,
//! and tokens guard against that. Its tokens may rise until the taker has its token; from then on
//! they must stay below the taker's.
//!
//! # What is bounded
//!
//! Bounded are the processes, their tasks, the lost connections, the crashes and the takeovers
//! ([`Bounds`]). Where the model gets too large otherwise, the number of acquires is bounded too.
//!
//! # What is left out
//!
//! The model leaves out what `one_level` shows for each server lease: clock errors, margins,
//! renewals, shortenings, reports of a release. It also leaves out shared holds, failover,
//! hand-over windows of different length, and turns among processes ([`turns`](crate::turns)).

mod canonical;
pub mod model;
pub mod process;
pub mod properties;
mod replies;
pub mod rules;
pub mod server;
pub mod table;

pub use crate::one_level::Timer;
pub use model::{Action, Bounds, Mishaps, State, TwoLevel};
pub use rules::Rules;

/// The options of an acquire.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AcquireOptions {
    /// Its own lease in ticks; without one, the task believes as long as the server lease.
    pub lease: Option<u8>,
    /// The name stays taken at least this long, however early it is released.
    pub at_least: u8,
    /// Whether the holder of the process acquires; a process has one such holder.
    pub by_holder: bool,
}

/// Lengths of time of a configuration, in ticks.
#[derive(Clone, Copy, Debug)]
pub struct Timing {
    /// Lease of a task without a lease of its own.
    pub lease: u8,
    /// How long a server lease may be handed over.
    pub handover_window: u8,
    /// How long a copy of an acquire is valid.
    pub window: u8,
    /// Whether a tick is the unit of tokens, which are then compared. Otherwise a tick is much
    /// longer, and tokens are left out.
    pub tokens: bool,
}

impl Timing {
    /// Returns the lease of a task.
    pub fn lease_of(&self, options: AcquireOptions) -> u8 {
        options.lease.unwrap_or(self.lease)
    }

    /// Returns how much of the key's lease must be left when this task enters.
    pub fn need(&self, rules: &Rules, options: AcquireOptions) -> u8 {
        let at_least = if rules.at_least_is_in_the_lease { options.at_least } else { 0 };
        self.lease_of(options).max(at_least)
    }

    /// Tokens of at least this age are all alike: no server lease lasts so long where tokens are
    /// compared, since no lease is lengthened there.
    pub fn oldest(&self) -> i8 {
        i8::try_from(self.lease + self.handover_window + 2).expect("a handful of ticks")
    }

    /// Returns the lease to request for this task: it outlives the last hand-over.
    pub fn key_lease(&self, rules: &Rules, options: AcquireOptions) -> u8 {
        self.need(rules, options) + self.handover_window
    }
}
