//! Connections: one server behind the [`Server`] seam, which server is asked behind [`Topology`], and the [`Client`]
//! that users hold.
//!
//! `link/pipeline` carries one connection: requests in their order, and messages. All else is above it: `link` keeps
//! a connection up, `exchange` retries, `route` follows redirections.

mod background;
mod batch;
mod client;
mod command;
mod core;
mod dedicated;
mod deployment;
mod dial;
mod durability;
mod encryption;
mod ended;
mod endpoint;
mod events;
mod given_back;
mod health;
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
mod unauthorized;

pub(crate) use self::core::{Core, refused};
pub use background::BackgroundClient;
pub use batch::Batched;
pub use client::{Client, ConnectError, InHand, NotClosed, NotDriven, NotReady, WeakClient};
pub use command::Command;
pub use deployment::{Deployment, DeploymentKind, Shard};
pub use durability::CommitError;
pub(crate) use ended::Ended;
pub(crate) use events::Events;
pub use events::{Event, EventReceiver};
pub use health::{Health, HealthCheck, NodeHealth, NodePart};
pub use primary::Primary;
pub use reply::{FromReply, Pairs, Reply};
pub use request::{Arg, Request};
pub use response::ResponseFuture;
pub(crate) use retry::{Progress, RequestOutcome, RetryPolicy, jittered, may_execute_until, unless_replaced};
pub(crate) use route::once;
pub use server_clock::ServerClock;
pub(crate) use slot::{hash_tag, slot as slot_of};
pub(crate) use traits::is_same;
pub use traits::{ChannelKind, ConnectionId, NodeId, Push, Refused, Server, ShardServers, Topology, TopologyHint};

/// The first server of a configuration on real connections, for tests of the seam itself.
#[cfg(feature = "testing")]
pub fn server(config: &crate::Config) -> Result<std::sync::Arc<dyn Server>, ConnectError> {
    Ok(topology::open(config, &crate::clock::Clock::boot())?.primary(b""))
}
