//! The client of a [`Grid`](crate::Grid): commands and scripts of any kind, connection events,
//! health, and the types that they use.
//!
//! ```no_run
//! # async fn demo(grid: &redgrid::Grid) -> Result<(), redgrid::ServerError> {
//! let health = grid.client().health().await;
//! if health.is_ready() {
//!     let keys: u64 = grid.client().command("DBSIZE").query().await?;
//!     println!("{keys} keys");
//! }
//! # Ok(()) }
//! ```

pub use redgrid_core::{
    Client, ClientStats, Code, Command, CommitError, ConfigError, ConnectError, ConnectionEvent, ConnectionEvents,
    Deployment, DeploymentKind, Failure, FromReply, Health, HealthCheck, InvalidName, Name, NodeHealth, NodeId,
    NodePart, NotClosed, NotReady, Reply, Request, Script, ServerError, Shard, WeakClient, report,
};
