//! A primary and its replicas.

use std::net::SocketAddr;

use crate::{
    builder::ServerBuilder,
    server::RedisServer,
    start_error::StartError,
    topology::{SETTLED_WITHIN, TopologyError, acknowledged, follows, member, running, start_all, until},
};

/// A primary with replicas, without automatic failover.
///
/// Each server is a [`RedisServer`] with all its faults. A restarted server keeps its role.
///
/// # Examples
///
/// ```no_run
/// # async fn demo() -> Result<(), Box<dyn std::error::Error>> {
/// use redgrid_testkit::Replicated;
///
/// let deployment = Replicated::start(2).await?;
/// deployment.replicas()[0].pause().await?;
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct Replicated {
    /// The primary first.
    servers: Vec<RedisServer>,
}

impl Replicated {
    /// Starts a primary and replicas. Returns once every replica has caught up, and the primary has
    /// their acknowledgements.
    ///
    /// # Errors
    ///
    /// As for [`start_with`](Self::start_with).
    pub async fn start(replicas: usize) -> Result<Self, StartError> {
        Self::start_with(replicas, RedisServer::builder()).await
    }

    /// Like [`start`](Self::start), with options for every server. Replicas use the same password
    /// to log in.
    ///
    /// # Errors
    ///
    /// [`StartError`]; no process is left running.
    pub async fn start_with(replicas: usize, options: ServerBuilder) -> Result<Self, StartError> {
        let options = member(&options).among_themselves()?;
        let primary = options.clone().start().await?;
        let following = format!("replicaof {} {}", primary.announced().ip(), primary.announced().port());
        let mut servers = vec![primary];
        servers.extend(start_all(vec![options.config(following); replicas]).await?);
        let started = Self { servers };
        started.wait_until_ok().await?;
        Ok(started)
    }

    /// Returns the primary.
    pub fn primary(&self) -> &RedisServer {
        &self.servers[0]
    }

    /// Returns the replicas.
    pub fn replicas(&self) -> &[RedisServer] {
        &self.servers[1..]
    }

    /// Returns all servers, the primary first.
    pub fn servers(&self) -> &[RedisServer] {
        &self.servers
    }

    /// Returns the announced addresses of all servers, the primary's first.
    pub fn addrs(&self) -> Vec<SocketAddr> {
        self.servers.iter().map(RedisServer::announced).collect()
    }

    /// Waits until every running replica has caught up with the primary and acknowledges writes.
    /// After a full synchronization, a replica acknowledges no writes for up to a second.
    ///
    /// # Errors
    ///
    /// [`TopologyError::TimedOut`] after four minutes.
    pub async fn wait_until_ok(&self) -> Result<(), TopologyError> {
        until(SETTLED_WITHIN, || async {
            let replicas = running(self.replicas());
            for replica in &replicas {
                follows(replica, self.primary()).await?;
            }
            acknowledged(self.primary(), replicas.len()).await
        })
        .await
    }
}
