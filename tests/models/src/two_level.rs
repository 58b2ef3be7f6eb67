//! Two levels: the tasks of a process share one grant of the server, called the server lease, and
//! hand it over to each other.
//!
//! # What is modelled
//!
//! The model has a server ([`server`]) and processes. A process has a lock table ([`table`]), which
//! also handles replies and lost connections (`replies`), and the guards of its tasks. A task
//! *believes* that it holds the lock while its guard is valid.
//!
//! A process has at most one server lease and one request in flight. At any time, its tasks may
//! acquire, wait in order, enter, enter again, cancel and drop guards. A server lease without an
//! owner has one of these next steps: it is handed over, lengthened first, kept, or queued for
//! release. A new task may take back a queued release until it is sent.
//!
//! A lost connection loses its reply, and its request is executed later or never. A process may
//! take the key by force. The notice to the former holder may arrive at any time, or never. Each of
//! the [`Rules`] can be switched off, to show which violation it prevents.
//!
//! # Time and tokens
//!
//! As in [`one_level`](crate::one_level), the model stores only the number of ticks until an
//! instant, and tasks may acquire for ever. If tokens are compared ([`Timing::tokens`]), a tick is
//! their unit: no two granting scripts read the same time.
//!
//! A preempted process is one that lost its key to a forced takeover. It may believe until it reads
//! the notice; tokens protect against its late writes. Its tokens may rise until the new holder has
//! its token. From then on they must be lower than that token.
//!
//! # What is bounded
//!
//! These numbers are bounded: processes, their tasks, lost connections, crashes and takeovers
//! ([`Bounds`]). If the model is too large otherwise, the number of acquires is bounded too.
//!
//! # What is left out
//!
//! The model leaves out the parts that `one_level` covers for each server lease: clock errors,
//! margins, renewals, shortenings, reports of a release. It also leaves out shared holds, failover,
//! hand-over windows of different lengths, and turns among processes ([`turns`](crate::turns)).

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
    /// The task's lease in ticks; without one, the task believes as long as the server lease lasts.
    pub lease: Option<u8>,
    /// Minimum time for which the name stays taken, however early the task releases it.
    pub at_least: u8,
    /// Whether the acquire is made by the process's holder (each process has one, which may
    /// re-enter).
    pub by_holder: bool,
}

/// Lengths of time of a configuration, in ticks.
#[derive(Clone, Copy, Debug)]
pub struct Timing {
    /// Lease of a task that requests no lease.
    pub lease: u8,
    /// How long a server lease may be handed over.
    pub handover_window: u8,
    /// How long a copy of an acquire is valid.
    pub window: u8,
    /// Whether a tick is the unit of tokens, and tokens are compared. Otherwise a tick is much
    /// longer, and tokens are left out.
    pub tokens: bool,
}

impl Timing {
    /// Returns the lease of a task.
    pub fn lease_of(&self, options: AcquireOptions) -> u8 {
        options.lease.unwrap_or(self.lease)
    }

    /// Returns how much of the key's lease must remain when this task enters.
    pub fn need(&self, rules: &Rules, options: AcquireOptions) -> u8 {
        let at_least = if rules.at_least_is_in_the_lease { options.at_least } else { 0 };
        self.lease_of(options).max(at_least)
    }

    /// Returns the age from which tokens need not be distinguished. If tokens are compared, no
    /// lease is lengthened, so no server lease lasts that long.
    pub fn oldest(&self) -> i8 {
        i8::try_from(self.lease + self.handover_window + 2).expect("a handful of ticks")
    }

    /// Returns the lease to request for this task. It must outlast the last hand-over.
    pub fn key_lease(&self, rules: &Rules, options: AcquireOptions) -> u8 {
        self.need(rules, options) + self.handover_window
    }
}
