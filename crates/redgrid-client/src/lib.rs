//! The client of redgrid: connections to Redis or Valkey, and everything that is sent on them.
//!
//! Most applications use the facade `redgrid`, or the crate of one object, such as `redgrid-locks`.
//! Both re-export the necessary parts of this crate. The [`Client`] works with one server, with
//! replicas, behind Sentinel and in a cluster. It sends a request again only if the request
//! certainly was not executed, or is idempotent. This crate has no objects: locks and all other
//! objects are in `redgrid-core` and the crates that depend on it.
//!
//! ```no_run
//! # async fn demo() -> Result<(), Box<dyn std::error::Error>> {
//! use redgrid_client::Client;
//!
//! let client = Client::connect("redis://127.0.0.1:6379").await?;
//! let answer: String = client.command("PING").query().await?;
//! # Ok(()) }
//! ```
//!
//! The client requires the Tokio runtime.

#![cfg_attr(docsrs, feature(doc_cfg))]

mod arg;
pub mod clock;
pub mod config;
mod connection;
mod count;
mod error;
mod inline_bytes;
#[doc(hidden)]
pub mod internal;
pub mod name;
mod participant;
mod pinned;
mod pubsub;
pub mod report;
mod script;
mod shrink;
mod sync;

pub use arg::IntoArg;
pub use config::{Config, ConfigError};
#[cfg(feature = "testing")]
pub use connection::server;
pub use connection::{
    Arg, Batched, ByNode, ChannelKind, Client, ClientStats, Command, CommitError, ConnectError, ConnectionEvent,
    ConnectionEvents, ConnectionId, Deployment, DeploymentKind, FromReply, Health, HealthCheck, NodeHealth, NodeId,
    NodePart, NotClosed, NotReady, Pairs, Primary, Push, Refused, Reply, Request, ResponseFuture, Server, ServerClock,
    Shard, ShardServers, Topology, TopologyHint, WeakClient,
};
pub use error::{Code, ServerError};
pub use name::{InvalidName, Name};
pub use participant::Participant;
pub use pubsub::{
    ChannelEvent, ChannelSelector, DrainingSubscription, Generation, OrderedSubscription, PubSubEvent, PubSubStream,
    UNSUBSCRIBED_POLL, Wake, Watch,
};
pub use script::{BatchPhase, BatchScript, BulkScript, OwnedScript, Script, ScriptText};
