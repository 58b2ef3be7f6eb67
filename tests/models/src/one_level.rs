//! One lock in Redis and the clients that want it: acquire, renew, extend, release, over a network
//! that loses.
//!
//! # What is modelled
//!
//! The server runs one script at a time ([`server`]). Each client talks to it over one connection
//! at a time, in order; when that connection is lost its unanswered requests have an unknown
//! outcome, and their bytes may still arrive, at any later moment or never, while the next
//! connection is already in use ([`network`]). Losing a request and losing a reply are the two
//! things that can happen to a request of a lost connection. The client keeps what it believes
//! ([`client`]) by the [`Rules`], each of which can be switched off to see what it is good for.
//!
//! # Time
//!
//! Time passes in ticks, at any point of any schedule. No instant is stored: every instant is the
//! number of ticks until it ([`Timer`]), so that a run may be as long as it likes, clients may
//! acquire and release for ever, and still there are only finitely many states. A client's clock
//! may fall behind or run ahead of the server's a bounded number of times; what it knows of the
//! difference at the start may be off by `offset_gap` ticks.
//!
//! # What is bounded
//!
//! The clients, the connections lost, the crashes, the errors of the clocks, the requests under way
//! on one connection ([`Bounds`]), and the leases to choose from ([`Timing`]). The number of
//! attempts may be bounded too, where the model gets too large otherwise. A crashed client does not
//! come back: another client is as good as that. Renewals, extends, ticks and leases that end are
//! never bounded.
//!
//! # What is left out
//!
//! Failover and empty restarts of the server (an acknowledged write is never lost), a server's
//! clock that is set back, several requests for one name inside a client, time-outs on a connection
//! that goes on living, and everything about liveness: waiting, waking and turns.

mod canonical;
pub mod client;
pub mod hold;
pub mod model;
pub mod network;
pub mod properties;
pub mod rules;
pub mod server;
pub mod timer;

pub use model::{Action, Bounds, OneLevel, State};
pub use rules::Rules;
pub use timer::{Timer, Timing};
