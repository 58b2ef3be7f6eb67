//! Connections: the [`Server`] trait for one node, the [`Topology`] trait for the mapping of keys
//! to nodes, and the [`Client`] that users hold.
//!
//! - `background`: background tasks of objects, which live as long as the client.
//! - `batch`: many requests at once, sent to each node in one go.
//! - `client`: the client, and what it owns.
//! - `command`: a builder for any command.
//! - `core`: the state that all objects of a client share.
//! - `dedicated`: a connection for one purpose, such as MULTI/EXEC or SCRIPT KILL.
//! - `deployment`: the topology as a value for users.
//! - `dial`: opening a byte stream to an address.
//! - `driver`: the tasks of a client.
//! - `durability`: group commit by WAIT and WAITAOF.
//! - `encryption`: TLS.
//! - `endpoint`: address, credentials and encryption of a server.
//! - `events`: connection events for users.
//! - `given_back`: repeating recent releases after a failover.
//! - `health`: the health check of a client and its servers.
//! - `lifecycle`: whether a client is open, closing or over.
//! - `link`: one supervised connection; its `pipeline` carries requests in order, and messages.
//! - `login`: passwords that change.
//! - `node`: one node with all its connections.
//! - `pool`: the connections for requests of one node.
//! - `primary`: requests to one particular primary, or to all of them.
//! - `reply`: replies, and their conversion to Rust values.
//! - `request`: requests, and how each may be treated.
//! - `response`: the future of a reply.
//! - `retry`: the retry loop.
//! - `route`: one transmission of a request, including redirects.
//! - `server_clock`: a lower bound of the server's clock.
//! - `shared`: values that objects of a client share by key.
//! - `slot`: the cluster slot of a key.
//! - `socks`: connections through a SOCKS5 proxy.
//! - `subscriber`: a connection that carries subscriptions.
//! - `topology`: the kinds of deployments.
//! - `traits`: the traits [`Server`] and [`Topology`].
//! - `trouble`: why a connection failed, in words for users.

mod background;
mod batch;
mod client;
mod command;
mod core;
mod dedicated;
mod deployment;
mod dial;
mod driver;
mod durability;
mod encryption;
mod endpoint;
mod events;
mod given_back;
mod health;
mod lifecycle;
mod link;
mod login;
mod node;
mod pool;
mod primary;
mod reply;
mod request;
mod response;
mod retry;
mod route;
mod server_clock;
mod shared;
mod slot;
mod socks;
mod subscriber;
mod topology;
mod traits;
mod trouble;

pub(crate) use self::core::Core;
pub use background::BackgroundClient;
pub use batch::Batched;
pub(crate) use client::refused;
pub use client::{Client, ClientStats, ConnectError, NotClosed, NotDriven, NotReady, WeakClient};
pub use command::Command;
pub use deployment::{Deployment, DeploymentKind, Shard};
pub use durability::CommitError;
pub(crate) use events::Events;
pub use events::{ConnectionEvent, ConnectionEvents};
pub use health::{Health, HealthCheck, NodeHealth, NodePart};
pub use primary::{ByNode, Primary};
pub use reply::{FromReply, Pairs, Reply};
pub use request::{Arg, Request};
pub use response::ResponseFuture;
pub(crate) use retry::{Progress, RequestOutcome, RetryPolicy, jittered, may_execute_until, unless_replaced};
pub(crate) use route::once;
pub use server_clock::ServerClock;
pub(crate) use slot::{hash_tag, slot as slot_of};
pub(crate) use traits::is_same;
pub use traits::{ChannelKind, ConnectionId, NodeId, Push, Refused, Server, ShardServers, Topology, TopologyHint};

/// Returns the first server of a configuration, on real connections, for tests of [`Server`]
/// itself.
#[cfg(feature = "testing")]
pub fn server(config: &crate::Config) -> Result<std::sync::Arc<dyn Server>, ConnectError> {
    Ok(topology::open(config, &crate::clock::Clock::boot())?.primary(b""))
}
