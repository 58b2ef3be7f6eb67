//! The handshake requests on a new connection, and the probes on a live connection.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::server_text::info_field;
use super::{Connection, wire};
use crate::connection::{ConnectionId, Reply, ServerClock};
use crate::count;
use crate::error::ServerError;

/// Number of connections that this process has established so far.
///
/// All nodes share the counter: if the user is not allowed to read the `run_id`, connection ids of
/// different nodes differ only by this number.
static CONNECTIONS: AtomicU64 = AtomicU64::new(0);

/// The expected role of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NodeRole {
    Any,
    /// A sentinel, which monitors other servers and has no data.
    Sentinel,
    /// A primary, which accepts writes.
    Primary,
    /// A replica that is connected to its primary.
    Replica,
    /// A replica in a cluster. Reads must be enabled on each connection to it (READONLY).
    ClusterReplica,
}

pub(crate) enum Handshake {
    /// Requests nothing except a name for the connection, and accepts a refusal of the name. This
    /// suits a server whose script runs for too long: such a server accepts only commands that end
    /// the script.
    Nothing,
    /// Requests a sign of life (PING).
    Life,
    /// Requests the id of the server process, and the replication history of its data.
    Identity,
    /// Requests everything that `Identity` requests, and the server's time. Checks that the server
    /// has the expected role.
    Data { time: Arc<ServerClock>, part: NodeRole },
}

impl Connection {
    pub(super) async fn handshake(&self) -> Result<ConnectionId, ServerError> {
        let named = self.send(vec!["CLIENT".into(), "SETNAME".into(), self.client_name.clone().into()]).await;
        match (&self.greeting, named) {
            // A server whose script runs for too long refuses SETNAME, too. The connection stays
            // unnamed.
            (Handshake::Nothing, Err(ServerError::Refused { .. })) => {}
            (_, named) => drop(tolerate_refusal(named)?),
        }
        let mut run_id = Arc::default();
        if let Handshake::Data { part, .. } = self.greeting {
            self.check(part).await?;
        }
        if let Handshake::Life = self.greeting {
            self.send(wire(["PING"])).await?;
        } else if !matches!(self.greeting, Handshake::Nothing) {
            let (server, replication) = tokio::join!(self.info("server"), self.info("replication"));
            run_id = info_field(&server?, "run_id").into();
            self.state.lock().history = info_field(&replication?, "master_replid").into();
        }
        if let Handshake::Data { time, .. } = &self.greeting {
            time.reset();
            self.ask_time(time).await?;
        }
        let connection = CONNECTIONS.fetch_add(1, Ordering::Relaxed) + 1;
        Ok(ConnectionId { run_id, connection })
    }

    /// Reads a section of INFO. Returns an empty text if the user is not allowed to read it.
    async fn info(&self, section: &'static str) -> Result<String, ServerError> {
        let info = tolerate_refusal(self.send(wire(["INFO", section])).await)?;
        Ok(info.and_then(|reply| reply.into_typed().ok()).unwrap_or_default())
    }

    pub(super) async fn probe(&self) -> Result<(), ServerError> {
        self.sign_of_life().await?;
        if let Handshake::Data { part, .. } = self.greeting {
            self.check(part).await?;
        }
        Ok(())
    }

    /// Checks that the server is alive.
    ///
    /// A data server is probed by TIME instead of PING. The reply also renews the estimate of the
    /// server's clock. Without new replies, this estimate loses accuracy with each minute.
    pub(super) async fn sign_of_life(&self) -> Result<(), ServerError> {
        match &self.greeting {
            Handshake::Data { time, .. } => self.ask_time(time).await,
            Handshake::Nothing | Handshake::Life | Handshake::Identity => self.send(wire(["PING"])).await.map(drop),
        }
    }

    async fn ask_time(&self, time: &ServerClock) -> Result<(), ServerError> {
        let sent = self.target.clock.now();
        let (seconds, micros) = self.send(wire(["TIME"])).await?.into_typed::<(u64, u64)>()?;
        let (at, received) = (seconds * 1_000_000 + micros, self.target.clock.now());
        time.observe_exchange(at, sent, received);
        count::clock_offset(&self.target.place, at, received.since(sent));
        Ok(())
    }

    /// Checks that the server has the expected role. Without permission for ROLE the check passes.
    async fn check(&self, part: NodeRole) -> Result<(), ServerError> {
        if part == NodeRole::ClusterReplica {
            self.send(wire(["READONLY"])).await?;
        }
        if matches!(part, NodeRole::Any | NodeRole::Sentinel) {
            return Ok(());
        }
        let Some(Reply::Array(role)) = tolerate_refusal(self.send(wire(["ROLE"])).await)? else {
            return Ok(());
        };
        let text = |at: usize| match role.get(at) {
            Some(Reply::Bytes(text)) => String::from_utf8_lossy(text).into_owned(),
            _ => String::new(),
        };
        match (part, text(0).as_str(), text(3).as_str()) {
            (NodeRole::Primary, "master", _) | (NodeRole::Replica | NodeRole::ClusterReplica, "slave", "connected") => {
                Ok(())
            }
            (NodeRole::Primary, role, _) => {
                Err(ServerError::not_sent(format!("{NOT_ITS_PART} a primary, it is a {role}")))
            }
            (_, role, state) => Err(ServerError::not_sent(format!(
                "{NOT_ITS_PART} a replica in touch with its primary: {role} {state}"
            ))),
        }
    }
}

const NOT_ITS_PART: &str = "the server is not";

pub(super) fn is_another_part(error: &ServerError) -> bool {
    matches!(error, ServerError::NotSent { reason } if reason.starts_with(NOT_ITS_PART))
}

fn tolerate_refusal(answer: Result<Reply, ServerError>) -> Result<Option<Reply>, ServerError> {
    match answer {
        Ok(reply) => Ok(Some(reply)),
        Err(ServerError::Refused { code, .. }) if !code.is_passing() => Ok(None),
        Err(error) => Err(error),
    }
}
