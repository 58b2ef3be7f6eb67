//! The foundation of redgrid: one client for all objects.
//!
//! Most applications use the facade `redgrid`, or the crate of one object (`redgrid-locks`). These
//! re-export the necessary parts of this crate. Use this crate alone to build your own objects on
//! the same basis. It has a connection that sends each request once, scripts, names and their keys,
//! holds with leases and fencing tokens, and notifications.
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
//! It requires the Tokio runtime.

#![cfg_attr(docsrs, feature(doc_cfg))]

mod arg;
pub mod author;
mod backoff;
mod batching;
pub mod clock;
pub mod config;
mod connection;
mod error;
mod exactly_once;
mod failure;
pub mod fence;
mod inline_bytes;
mod lease;
mod lifetime;
pub mod lock;
pub mod name;
pub mod object;
pub mod observe;
mod participant;
mod pattern;
pub mod permits;
mod pinned;
mod pubsub;
mod script;
mod shrink;
mod sync;
mod token;
mod unpolled;
pub mod wait_queue;

pub use arg::IntoArg;
pub use config::{Config, ConfigError};
#[cfg(feature = "testing")]
pub use connection::server;
pub use connection::{
    Arg, BackgroundClient, Batched, ChannelKind, Client, ClientStats, Command, CommitError, ConnectError,
    ConnectionEvent, ConnectionEvents, ConnectionId, Deployment, DeploymentKind, FromReply, Health, HealthCheck,
    NodeHealth, NodeId, NodePart, NotClosed, NotReady, Pairs, Primary, Push, Refused, Reply, Request, ResponseFuture,
    ServerClock, Shard, ShardServers, TopologyHint, WeakClient,
};
pub use error::{Code, ServerError};
pub use exactly_once::{IdempotentBulkScript, IdempotentRequest, IdempotentScript};
pub use failure::{Failure, Operation};
pub use lifetime::{LIFETIMES, LIFETIMES_EXPECTED, TIMES_EXPECTED, describe_time, unix_millis};
pub use lock::Holder;
pub use name::{InvalidName, Name};
pub use participant::Participant;
pub use pubsub::{
    ChannelEvent, ChannelSelector, DrainingSubscription, Generation, OrderedSubscription, PubSubEvent, PubSubStream,
    Wake, Watch,
};
pub use script::{BatchPhase, BatchScript, BulkScript, OwnedScript, Script};
pub use token::Token;
pub use unpolled::Offer;
