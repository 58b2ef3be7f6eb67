//! Common parts of deployments with several servers.

use std::{net::SocketAddr, time::Duration};

use redis::{FromRedisValue, RedisError};
use tokio::{
    task::JoinSet,
    time::{Instant, sleep, timeout},
};

use crate::{builder::ServerBuilder, server::RedisServer, start_error::StartError};

/// A deployment of several servers did not reach the requested state.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TopologyError {
    /// A request failed. Either a server rejected it, and nothing changed; or the connection was
    /// lost, and the outcome is unknown.
    #[error("a request to a server of the deployment failed: {0}")]
    Server(#[from] RedisError),
    /// The requested state was not reached in time. The deployment may still reach it later.
    #[error("not reached within {waited:?}: {missing}")]
    TimedOut {
        /// The time limit.
        waited: Duration,
        /// The part that was missing at the last check.
        missing: String,
    },
    /// The primary has no running replica, so no failover is possible. Nothing changes.
    #[error("{primary} has no running replica")]
    NoReplica {
        /// The address of the primary.
        primary: SocketAddr,
    },
    /// The slot is not on its way to another node.
    #[error("slot {slot} is not migrating")]
    NotMigrating {
        /// The slot.
        slot: u16,
    },
}

/// Starts servers concurrently, and returns them in the same order.
pub(crate) async fn start_all(builders: Vec<ServerBuilder>) -> Result<Vec<RedisServer>, StartError> {
    let mut starting = JoinSet::new();
    for (place, builder) in builders.into_iter().enumerate() {
        starting.spawn(async move { builder.start().await.map(|server| (place, server)) });
    }
    let mut servers = Vec::new();
    while let Some(started) = starting.join_next().await {
        servers.push(started.map_err(std::io::Error::other)??);
    }
    servers.sort_by_key(|(place, _)| *place);
    Ok(servers.into_iter().map(|(_, server)| server).collect())
}

/// Options of every member of a deployment, in addition to the user's.
pub(crate) fn member(options: &ServerBuilder) -> ServerBuilder {
    // Replicas synchronize from memory and immediately, instead of after the default delay of 5 s.
    let member = options.clone().config("repl-diskless-sync yes").config("repl-diskless-sync-delay 0");
    match &options.password {
        Some(password) => member.config(format!("masterauth {password:?}")),
        None => member,
    }
}

/// Returns the server that listens on `addr`, plain or for TLS.
pub(crate) fn at(servers: &[RedisServer], addr: SocketAddr) -> Option<&RedisServer> {
    servers.iter().find(|server| server.addr() == addr || server.announced() == addr)
}

/// Returns the running servers.
pub(crate) fn running(servers: &[RedisServer]) -> Vec<&RedisServer> {
    servers.iter().filter(|server| server.is_running()).collect()
}

/// Returns the URL of a deployment of the given kind, with the credentials of one of its servers.
pub(crate) fn url(kind: &str, credentials: &RedisServer, servers: &[RedisServer]) -> String {
    let Some((first, others)) = servers.split_first() else { return format!("redis-{kind}://") };
    let scheme = if first.announced() == first.addr() { "redis" } else { "rediss" };
    let mut url = credentials.url_via(first.announced()).replacen("redis", &format!("{scheme}-{kind}"), 1);
    for server in others {
        url.push_str(&format!(",{}", server.announced()));
    }
    url
}

/// Calls `check` repeatedly until it succeeds. Its error names the missing part.
pub(crate) async fn until<T, L: Future<Output = Result<T, String>>>(
    within: Duration,
    // Not `AsyncFnMut`: its future cannot be sent to another thread.
    mut check: impl FnMut() -> L,
) -> Result<T, TopologyError> {
    let deadline = Instant::now() + within;
    loop {
        match check().await {
            Ok(found) => return Ok(found),
            Err(missing) if Instant::now() > deadline => {
                return Err(TopologyError::TimedOut { waited: within, missing });
            }
            Err(_) => sleep(POLL).await,
        }
    }
}

/// Queries one server. The error is a text, for checks that are repeated until they succeed.
pub(crate) async fn ask<T: FromRedisValue>(server: &RedisServer, command: &[&str]) -> Result<T, String> {
    in_time(server, async { server.observer().await?.query(command).await }).await
}

async fn in_time<T>(server: &RedisServer, request: impl Future<Output = Result<T, RedisError>>) -> Result<T, String> {
    match timeout(ANSWER_WITHIN, request).await {
        Ok(answer) => answer.map_err(|error| format!("{} answered {error}", server.addr())),
        Err(_) => Err(format!("{} does not answer", server.addr())),
    }
}

/// Checks that `replica` follows `primary` and has caught up.
pub(crate) async fn follows(replica: &RedisServer, primary: &RedisServer) -> Result<(), String> {
    let primary = primary.announced();
    let info: String = ask(replica, &["INFO", "replication"]).await?;
    let wanted = [
        "role:slave".to_owned(),
        format!("master_host:{}", primary.ip()),
        format!("master_port:{}", primary.port()),
        "master_link_status:up".to_owned(),
    ];
    match wanted.iter().find(|wanted| !info.lines().any(|line| line == *wanted)) {
        None => Ok(()),
        Some(missing) => Err(format!("replica {} does not report {missing}", replica.addr())),
    }
}

/// Checks that this number of replicas of `primary` acknowledges new writes.
pub(crate) async fn acknowledged(primary: &RedisServer, replicas: usize) -> Result<(), String> {
    let request = async {
        let observer = primary.observer().await?;
        // The message is replicated like a write, but does not change data.
        observer.cmd(&["PUBLISH", "redgrid-testkit:acknowledged", ""]).await?;
        observer.query::<usize>(&["WAIT", &replicas.to_string(), WAIT_MILLIS]).await
    };
    match in_time(primary, request).await? {
        count if count >= replicas => Ok(()),
        count => Err(format!("{count} of {replicas} replicas of {} acknowledge its writes", primary.addr())),
    }
}

/// How long a primary waits for acknowledgements: less than the response timeout.
const WAIT_MILLIS: &str = "500";

/// Timeout of forming or changing a deployment: 4 minutes. It usually takes seconds. On a machine
/// with eight times its usual load, elections fail repeatedly.
pub(crate) const SETTLED_WITHIN: Duration = Duration::from_secs(240);

/// Poll interval: 40 ms. Each poll queries all servers over new connections, so frequent polling
/// would cost more than the servers' own work.
const POLL: Duration = Duration::from_millis(40);

/// Timeout of one server's reply: 5 s, so that a hanging server does not delay the check of the
/// others. Paused servers are not queried.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);
