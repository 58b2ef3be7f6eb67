//! One lock in Redis and its clients: acquire, renew, extend, release, over a network that loses
//! messages.
//!
//! # What is modelled
//!
//! The server runs one script at a time ([`server`]). Each client has one connection at a time,
//! which keeps the order of requests. When a connection is lost, its unanswered requests have an
//! unknown outcome. Their bytes may still arrive at any later moment or never, while the next
//! connection is already in use ([`network`]). A lost connection loses a request or its reply.
//!
//! A client *believes* while it acts as the holder of the lock ([`client`]). It follows the
//! [`Rules`]. Each rule can be switched off, to show which violation it prevents.
//!
//! # Time
//!
//! Time passes in ticks, at any point of any schedule. The model stores no absolute times: every
//! instant is the number of ticks until it ([`Timer`]). A run may therefore be of any length, and
//! clients may acquire and release for ever, but the number of states is finite. A client's clock
//! may fall behind or run ahead of the server's a bounded number of times. The client's initial
//! estimate of the clock difference may be wrong by `offset_gap` ticks.
//!
//! # What is bounded
//!
//! These numbers are bounded: clients, lost connections, crashes, clock errors, requests in flight
//! on one connection ([`Bounds`]), and the leases to choose from ([`Timing`]). The number of
//! attempts may be bounded too, if the model is too large otherwise. A crashed client does not come
//! back, because a new client behaves in the same way. Renewals, extends, ticks and expired leases
//! are never bounded.
//!
//! # What is left out
//!
//! The model has no failover and no restart of the server without data (an acknowledged write is
//! never lost), and no server clock that is set back. A client has one request for the lock at a
//! time, and requests on a living connection do not time out. Liveness (waiting, waking, turns) is
//! not modelled.

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
