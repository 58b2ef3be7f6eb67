//! Connections: the [`Server`] trait for one node, the [`Topology`] trait for the mapping of keys
//! to nodes, and the [`Client`] that users create.
//!
//! - `client`: the client with its tasks, lifecycle and health, and the state that all its objects
//!   share.
//! - `request`: requests and replies; retries, redirects and batches.
//! - `net`: one node and its connections.
//! - `durability`: group commit by WAIT and WAITAOF.
//! - `topology`: the kinds of deployments.
//! - `traits`: the traits [`Server`] and [`Topology`].

mod client;
mod durability;
mod net;
mod request;
mod topology;
mod traits;

use self::client::{command, core, deployment, driver, events, given_back, health, lifecycle, service, shared, views};
use self::net::{
    dedicated, dial, encryption, endpoint, link, login, node, pool, server_clock, socks, subscriber, trouble,
};
use self::request::{batch, primary, progress, reply, response, retry, route, send, slot};

pub use self::core::Core;
pub use batch::Batched;
pub(crate) use client::refused;
pub use client::{Client, ClientStats, ConnectError, Inner, NotClosed, NotReady, WeakClient, inner};
pub use command::Command;
pub use deployment::{Deployment, DeploymentKind, Shard};
pub use durability::CommitError;
pub(crate) use events::Events;
pub use events::{ConnectionEvent, ConnectionEvents};
pub use given_back::GivenBack;
pub use health::{Health, HealthCheck, NodeHealth, NodePart};
pub use lifecycle::Lifecycle;
pub use primary::{ByNode, Primary};
pub use progress::Progress;
pub use reply::{FromReply, Pairs, Reply};
pub use request::{Arg, Request, append};
pub use response::ResponseFuture;
pub use retry::{RetryPolicy, jittered, may_execute_until};
pub use send::{Answer, RequestOutcome, once, unless_replaced};
pub use server_clock::ServerClock;
pub use service::{BackgroundTask, Service, ServiceSlot};
pub use shared::{Kept, Shared};
pub(crate) use slot::{hash_tag, slot as slot_of};
pub use traits::is_same;
pub use traits::{ChannelKind, ConnectionId, NodeId, Push, Refused, Server, ShardServers, Topology, TopologyHint};

/// Opens real connections to the servers of a configuration, and returns the primary of the empty
/// key. Only tests of [`Server`] itself use this function.
#[cfg(feature = "testing")]
pub fn server(config: &crate::Config) -> Result<std::sync::Arc<dyn Server>, ConnectError> {
    Ok(topology::open(config, &crate::clock::Clock::boot())?.primary(b""))
}
