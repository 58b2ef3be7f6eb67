//! Real Redis servers, faults and checks, for tests of code with guarantees that must hold over a
//! network.
//!
//! A lock that works while everything else works proves little. This crate gives a test its own
//! server, and lets the test cause the faults of production: kill or pause the server, lose its
//! data, cut a connection after the request and before the reply, deliver a request long after its
//! client has timed out.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use redgrid_testkit::{Action, Observer, Proxy, RedisServer};
//!
//! let server = RedisServer::start().await?;
//! let proxy = Proxy::to(&server).await?;
//! let client = Observer::connect(&server.url_via(proxy.addr())).await?; // the code under test
//!
//! proxy.next(1, "INCR", Action::CutAfterForward);
//! assert!(client.cmd(&["INCR", "counter"]).await.is_err()); // an error for the client …
//! let counter = server.observer().await?.get::<u64>("counter").await?;
//! assert_eq!(counter, Some(1)); // … and yet it was executed
//! # Ok(()) }
//! ```
//!
//! # Contents
//!
//! - [`RedisServer`]: a server process on a free port. It ends with its guard or with the test
//!   process, even by `kill -9`. Its methods are the faults on the server's side:
//!   [`kill`](RedisServer::kill), [`restart_empty`](RedisServer::restart_empty),
//!   [`pause`](RedisServer::pause), [`kill_connections`](RedisServer::kill_connections),
//!   [`flush_scripts`](RedisServer::flush_scripts), [`deny`](RedisServer::deny),
//!   [`out_of_memory`](RedisServer::out_of_memory) and others. With [`tls`](ServerBuilder::tls) it
//!   has certificates and a second port.
//! - [`Replicated`], [`Sentinels`], [`Cluster`]: several servers that replicate, fail over and
//!   share keys, ready within seconds. Each of their servers has the same faults; they also fail
//!   over, and move slots, on request.
//! - [`Proxy`]: faults of the network, for all traffic or for single commands.
//! - [`Observer`]: inspects the server with another client than the code under test.
//! - [`Monitor`]: lists the commands that the server executed.
//! - `browser`, with the feature of this name: a headless Chromium, for tests of web pages.
//! - [`wait_until`]: waits for a condition, with a deadline.
//! - [`ServerBinary`]: finds the server program. Nothing is downloaded; `cargo xtask server` does
//!   that.
//!
//! # Requirements
//!
//! A Unix with `/bin/sh`, a Redis or Valkey of at least [`OLDEST`] (the same program is the
//! sentinel), and a Tokio runtime with I/O and time enabled.

#![cfg_attr(docsrs, feature(doc_cfg))]

#[cfg(feature = "browser")]
#[cfg_attr(docsrs, doc(cfg(feature = "browser")))]
pub mod browser;
mod builder;
mod cluster;
mod faults;
mod find;
mod monitor;
mod observer;
mod port;
mod proxy;
mod replicated;
mod resp;
mod sentinels;
mod server;
mod skip;
mod start_error;
mod supervisor;
mod tls;
mod topology;
mod wait;

pub use builder::ServerBuilder;
pub use cluster::{Cluster, ClusterBuilder};
pub use faults::{ClientInfo, Kind};
pub use find::{FindError, NEWEST_VARIABLE, OLDEST, SERVER_VARIABLE, ServerBinary, Version};
pub use monitor::{Monitor, MonitorError, SeenCommand};
pub use observer::Observer;
pub use proxy::{
    Proxy, ProxyCounts,
    action::{Action, Direction, Fault},
};
/// The client behind [`Observer`], for its types of values and errors.
pub use redis;
pub use replicated::Replicated;
pub use sentinels::{Sentinels, SentinelsBuilder};
pub use server::RedisServer;
pub use start_error::StartError;
pub use tls::Tls;
pub use topology::TopologyError;
pub use wait::wait_until;
