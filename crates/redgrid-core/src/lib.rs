//! The foundation of redgrid: one client for all objects.
//!
//! Most people want the facade `redgrid`, or the crate of one object (`redgrid-locks`), which re-export what they need from
//! here. This crate alone is for building objects of your own on the same footing: a connection that sends once, scripts,
//! names and their keys, holds with leases and fencing tokens, wake-ups.
//!
//! ```no_run
//! # async fn demo() -> Result<(), Box<dyn std::error::Error>> {
//! use redgrid_core::Client;
//!
//! let client = Client::connect("redis://127.0.0.1:6379").await?;
//! let answer: String = client.command("PING").query().await?;
//! # Ok(()) }
//! ```
//!
//! Tokio only.

pub mod clock;
mod combine;
pub mod config;
mod connection;
mod error;
pub mod fence;
mod lifetime;
pub mod lock;
pub mod name;
pub mod object;
pub mod observe;
mod once;
mod pattern;
pub mod permits;
mod pinned;
mod script;
mod seat;
mod short;
mod slack;
mod token;
mod unpolled;
mod wait;

pub use combine::{Combine, Combiner};
pub use config::{Config, ConfigError};
#[cfg(feature = "testing")]
pub use connection::server;
pub use connection::{
    Arg, BackgroundClient, Batched, ChannelKind, Client, Command, CommitError, ConnectError, ConnectionId, Deployment,
    DeploymentKind, Event, EventReceiver, FromReply, Health, HealthCheck, InHand, NodeHealth, NodeId, NodePart,
    NotClosed, NotDriven, NotReady, Pairs, Primary, Push, Refused, Reply, Request, ResponseFuture, Server, ServerClock,
    Shard, ShardServers, Topology, TopologyHint, WeakClient,
};
pub use error::{Code, ServerError};
pub use lifetime::{LIFETIMES, LIFETIMES_EXPECTED, MOMENTS_EXPECTED, millis_since_1970, show_moment};
pub use lock::Holder;
pub use name::{InvalidName, Name};
pub use once::{OnceBulkScript, OnceRequest, OnceScript};
pub use script::{BulkScript, Joint, OwnedScript, Script, Turn};
pub use seat::Seat;
pub use token::Token;
pub use unpolled::Offer;
pub use wait::{Channels, Fed, Feed, Heard, Hearing, LastHeard, Messages, Term, Told, Wake, Watch};
