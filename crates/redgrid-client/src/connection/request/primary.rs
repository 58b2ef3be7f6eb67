//! Requests to one given primary, instead of to the primary of a key.
//!
//! Operations that concern every primary use such requests: counting keys, listing the names of
//! keys, or loading scripts.

use std::fmt;
use std::ops::RangeInclusive;
use std::sync::Arc;

use futures_util::future::join_all;

use crate::clock::Instant;
use crate::connection::route::is_doubtful;
use crate::connection::{
    ConnectionId, Core, FromReply, NodeId, Reply, Request, Server, TopologyHint, is_same, jittered,
};
use crate::count;
use crate::error::{ServerError, after_unanswered};

/// The result of a request at each node to which it was sent.
pub type ByNode<T> = Vec<(NodeId, Result<T, ServerError>)>;

/// A node that was a primary when the caller requested the list of primaries. A node that replaces
/// this node has a `Primary` of its own.
#[derive(Clone)]
pub struct Primary {
    server: Arc<dyn Server>,
    slots: Vec<RangeInclusive<u16>>,
}

impl Primary {
    /// Returns the id of the node.
    pub fn id(&self) -> &NodeId {
        self.server.id()
    }

    /// Returns the slots of the node in ascending order, as they were when the caller requested the
    /// list of primaries. Outside a cluster, the node serves every key, and the result is empty.
    pub fn slots(&self) -> &[RangeInclusive<u16>] {
        &self.slots
    }

    /// Returns the id of the current connection; `None` while the node is not connected.
    pub fn epoch(&self) -> Option<ConnectionId> {
        self.server.current_connection_id()
    }
}

impl fmt::Debug for Primary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Primary").field("id", self.id()).field("slots", &self.slots).finish()
    }
}

impl Core {
    /// Returns whether a node is still a primary.
    pub fn is_primary(&self, primary: &Primary) -> bool {
        self.decides(&primary.server)
    }

    /// Returns whether a server is a primary.
    pub(in crate::connection) fn decides(&self, server: &Arc<dyn Server>) -> bool {
        self.topology.primaries().iter().any(|primary| is_same(primary, server))
    }

    /// Returns the current primaries. If they are unknown, waits for them until `until`.
    pub async fn primaries_until(&self, until: Instant) -> Result<Vec<Primary>, ServerError> {
        let mut changes = self.topology.changes();
        loop {
            self.is_open()?;
            changes.mark_unchanged();
            let shards = self.topology.shards();
            if !shards.is_empty() {
                let primary =
                    |shard: crate::connection::ShardServers| Primary { server: shard.primary, slots: shard.slots };
                return Ok(shards.into_iter().map(primary).collect());
            }
            let unknown = || match self.topology.primary(b"").trouble() {
                Some(why) => ServerError::not_sent(why),
                None => ServerError::not_sent("the primaries are not known yet"),
            };
            let mut refusal = self.topology.primary(b"").refusal();
            tokio::select! {
                Ok(refused) = refusal.wait_for(Option::is_some) => {
                    return Err(refused.clone().unwrap_or_else(unknown));
                }
                changed = changes.changed() => if changed.is_err() { return Err(unknown()) },
                () = self.life.closing() => {}
                () = self.clock.sleep_until(until) => return Err(unknown()),
            }
        }
    }

    /// Sends a request to a primary, and retries it while the node is still a primary.
    pub async fn run_at(&self, primary: &Primary, request: Request, until: Instant) -> Result<Reply, ServerError> {
        self.is_open()?;
        self.send_to(&primary.server, request, until).await
    }

    /// Sends a request to every primary concurrently.
    pub async fn run_at_primaries<T: FromReply>(
        &self,
        request: Request,
        until: Instant,
    ) -> Result<ByNode<T>, ServerError> {
        let primaries = self.primaries_until(until).await?;
        let responses = primaries.iter().map(async |primary| {
            let answer = self.send_to(&primary.server, request.clone(), until).await.and_then(Reply::into_typed);
            (primary.id().clone(), answer)
        });
        Ok(join_all(responses).await)
    }

    /// Sends a request to one node until the request is finally answered, the node stops being a
    /// primary, or `until` has passed.
    ///
    /// A refused login or the beginning of a shutdown ends the attempts at once. An error from
    /// [`Server::refusal`] also ends the attempts, provided that every transmission was answered
    /// and the request uses no dedicated connection.
    async fn send_to(&self, server: &Arc<dyn Server>, request: Request, until: Instant) -> Result<Reply, ServerError> {
        let request = Arc::new(request);
        // Number of transmissions without a reply. Each may have been executed, whatever the reply
        // to a later transmission says.
        let mut unanswered = 0;
        let result = loop {
            let replaced = || format!("{} is no longer a primary", server.id());
            if !self.decides(server) {
                break Err(ServerError::not_sent(replaced()));
            }
            let sent = self.clock.now();
            let error = match server.ask(&request, sent + self.settings.response_timeout).await {
                Ok(_) if !self.decides(server) => break Err(ServerError::unknown(replaced())),
                Ok(reply) => {
                    let received = self.clock.now();
                    server.time().observe_round_trip(sent, received);
                    count::answered(server.id(), received.since(sent));
                    break Ok(reply);
                }
                Err(error) => error,
            };
            if is_doubtful(&error) {
                self.topology.suspect(TopologyHint::Node(server.id().clone()));
            }
            // A refusal concerns the shared connections, not a dedicated one.
            let heeds_refusal = unanswered == 0 && !request.dedicated;
            let again = match &error {
                ServerError::NotSent { .. } => match server.refusal().borrow().clone() {
                    Some(lasting) if heeds_refusal => break Err(lasting),
                    _ => true,
                },
                ServerError::Refused { code, message } => code.is_passing() && request.is_servers_own(message),
                ServerError::Unknown { .. } => {
                    unanswered += 1;
                    request.is_idempotent() && unanswered <= self.settings.retries
                }
                ServerError::Unauthorized { .. } | ServerError::ShuttingDown | ServerError::Decode { .. } => false,
            };
            if !again || !pause(self, server, &request, until).await {
                let is_down = matches!(error, ServerError::NotSent { .. }) && server.current_connection_id().is_none();
                // The reason why the server is unreachable may be known by now.
                break Err(if is_down && !request.dedicated { server.unreached() } else { error });
            }
        };
        let result = result.map_err(|error| if unanswered > 0 { after_unanswered(error) } else { error });
        count::request_ended(&result);
        result
    }

    /// Returns an error once the client has begun to shut down.
    pub(crate) fn is_open(&self) -> Result<(), ServerError> {
        if self.life.closes_by().is_some() { Err(self.life.why()) } else { Ok(()) }
    }
}

/// Waits for the retry delay and then for a connection. The wait ends early if the topology
/// changes, or if the server begins to refuse this client.
///
/// Returns false if `until` has passed, or if the client shuts down.
async fn pause(core: &Core, server: &Arc<dyn Server>, request: &Request, until: Instant) -> bool {
    let (mut changes, mut epoch, mut refusal) = (core.topology.changes(), server.connection_id(), server.refusal());
    let up = async {
        tokio::time::sleep(jittered(core.settings.retry_delay)).await;
        // A dedicated connection is opened only when the request is sent, so none is awaited here.
        if !request.dedicated && epoch.wait_for(Option::is_some).await.is_err() {
            std::future::pending::<()>().await;
        }
    };
    let is_refused = refusal.borrow().is_some();
    tokio::select! {
        () = up => {}
        Ok(()) = changes.changed() => {}
        Ok(_) = refusal.wait_for(Option::is_some), if !is_refused => {}
        () = core.clock.sleep_until(until) => return false,
        () = core.life.closing() => return false,
    }
    core.clock.now() < until
}
