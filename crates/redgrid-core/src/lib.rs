//! The common basis of all redgrid objects, such as locks and semaphores.
//!
//! Most applications use the facade `redgrid`, or the crate of one object, such as `redgrid-locks`.
//! Those crates re-export the necessary parts of this crate. Use this crate directly to build your
//! own objects on the same basis. This crate has holds with leases and fencing tokens, wait queues,
//! and scripts that are executed exactly once. It re-exports `redgrid-client`, which has
//! connections, requests, scripts, names with their keys, and notifications.
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
//! The crate requires the Tokio runtime.

#![cfg_attr(docsrs, feature(doc_cfg))]

pub mod author;
mod background;
mod backoff;
mod batching;
mod exactly_once;
mod failure;
pub mod fence;
mod introspection;
mod label;
mod lease;
mod lifetime;
pub mod lock;
pub mod object;
pub mod observe;
mod pattern;
pub mod permits;
mod service;
mod token;
mod unpolled;
pub mod wait_queue;

pub use background::BackgroundClient;
pub use exactly_once::{IdempotentBulkScript, IdempotentRequest, IdempotentScript};
pub use failure::{Failure, Operation};
pub use label::Label;
pub use lifetime::{LIFETIMES, LIFETIMES_EXPECTED, TIMES_EXPECTED, describe_time, unix_millis};
pub use lock::Holder;
#[cfg(feature = "testing")]
pub use redgrid_client::server;
pub use redgrid_client::{
    Arg, BatchPhase, BatchScript, Batched, BulkScript, ChannelEvent, ChannelKind, ChannelSelector, Client, ClientStats,
    Code, Command, CommitError, Config, ConfigError, ConnectError, ConnectionEvent, ConnectionEvents, ConnectionId,
    Deployment, DeploymentKind, DrainingSubscription, FromReply, Generation, Health, HealthCheck, IntoArg, InvalidName,
    Name, NodeHealth, NodeId, NodePart, NotClosed, NotReady, OrderedSubscription, OwnedScript, Pairs, Participant,
    Primary, PubSubEvent, PubSubStream, Push, Refused, Reply, Request, ResponseFuture, Script, ServerClock,
    ServerError, Shard, ShardServers, TopologyHint, Wake, Watch, WeakClient, clock, config, name, report,
};
pub use token::Token;
pub use unpolled::Offer;
