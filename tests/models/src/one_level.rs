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
//! [`Rules`]; each rule can be switched off to show what it prevents.
//!
//! # Time
//!
//! Time passes in ticks, at any point of any schedule. No instant is stored: every instant is the
//! number of ticks until it ([`Timer`]). So a run may be of any length, clients may acquire and
//! release for ever, and there are still only finitely many states. A client's clock may fall
//! behind or run ahead of the server's a bounded number of times. The client's initial knowledge of
//! the clock difference may be off by `offset_gap` ticks.
//!
//! # What is bounded
//!
//! Bounded are the clients, the lost connections, the crashes, the errors of the clocks, the
//! requests in flight on one connection ([`Bounds`]), and the leases to choose from ([`Timing`]).
//! The number of attempts may be bounded too, where the model gets too large otherwise. A crashed
//! client does not come back, because another client behaves exactly like it. Renewals, extends,
//! ticks and expired leases are never bounded.
//!
//! # What is left out
//!
//! The model has no failover and no empty restart of the server (an acknowledged write is never
//! lost), and no server clock that is set back. It has no two requests for one name inside a client
//! and no time-outs on a connection that stays alive. Nothing about liveness is modelled: waiting,
//! waking and turns.

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
