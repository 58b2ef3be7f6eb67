//! Connections: one server behind the [`Server`] seam, which server is asked behind [`Topology`], and the [`Client`]
//! that users hold.
//!
//! `link/pipeline` carries one connection: requests in their order, and messages. All else is above it: `link` keeps
//! a connection up, `exchange` retries, `route` follows redirections.

mod answering;
mod aside;
mod attendant;
mod batch;
mod client;
mod command;
mod commit;
mod core;
mod deployment;
mod dial;
mod encryption;
mod ended;
mod events;
mod exchange;
mod given_back;
mod health;
mod lines;
mod link;
mod login;
mod node;
mod offset;
mod primary;
mod reply;
mod request;
mod route;
mod seam;
mod shared;
mod slot;
mod socks;
mod subscriber;
mod topology;
mod trouble;
mod unauthorized;
mod way;

pub(crate) use self::core::{Core, refused};
pub use answering::ResponseFuture;
pub use attendant::BackgroundClient;
pub use batch::Batched;
pub use client::{Client, ConnectError, InHand, NotClosed, NotDriven, NotReady, WeakClient};
pub use command::Command;
pub use commit::CommitError;
pub use deployment::{Deployment, DeploymentKind, Shard};
pub(crate) use ended::Ended;
pub(crate) use events::Events;
pub use events::{Event, EventReceiver};
pub(crate) use exchange::{RequestOutcome, RetryPolicy, Progress, may_execute_until, jittered, unless_replaced};
pub use health::{Health, HealthCheck, NodeHealth, NodePart};
pub use offset::ServerClock;
pub use primary::Primary;
pub use reply::{FromReply, Pairs, Reply};
pub use request::{Arg, Request};
pub(crate) use route::once;
pub(crate) use seam::is_same;
pub use seam::{ChannelKind, TopologyHint, ConnectionId, NodeId, Push, Refused, Server, ShardServers, Topology};
pub(crate) use slot::{hash_tag, slot as slot_of};

/// The first server of a configuration on real connections, for tests of the seam itself.
#[cfg(feature = "testing")]
pub fn server(config: &crate::Config) -> Result<std::sync::Arc<dyn Server>, ConnectError> {
    Ok(topology::open(config, &crate::clock::Clock::boot())?.primary(b""))
}
