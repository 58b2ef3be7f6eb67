//! One node with its connections, and the sending of requests to it.
//!
//! A node has one or several connections for requests, and one that carries only subscriptions.
//! Other connections are opened on demand: one per durability level, one for keyspace events, one
//! for patterns, and dedicated connections.

mod batch_queue;
mod batcher;
mod open;
mod resend;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::future::join_all;
use tokio::sync::{Semaphore, mpsc, watch};

use self::batch_queue::Batchers;
pub(crate) use self::open::Nodes;
use crate::clock::{Clock, Instant};
use crate::config::Durability;
use crate::connection::dedicated::DedicatedConnection;
use crate::connection::durability::DurabilityWaiter;
use crate::connection::endpoint::Connections;
use crate::connection::link::{Connection, WireCommand};
use crate::connection::pool::ConnectionPool;
use crate::connection::request::What;
use crate::connection::subscriber::Subscriptions;
use crate::connection::{
    Arg, ChannelKind, CommitError, ConnectionId, NodeId, Push, Refused, Reply, Request, ResponseFuture, Server,
    ServerClock,
};
use crate::error::{Code, ServerError};
use crate::inline_bytes::decimal;

/// The largest argument that a server accepts: 512 MiB, the default of `proto-max-bulk-len`.
///
/// If an argument is larger, the server closes the connection, and all requests in flight on it are
/// lost.
const LARGEST: usize = 512 << 20;

pub(crate) struct Node {
    id: NodeId,
    sharded: Arc<AtomicBool>,
    clock: Clock,
    time: Arc<ServerClock>,
    connections: Arc<Connections>,
    commands: Arc<ConnectionPool>,
    subscriptions: Subscriptions,
    commits: DurabilityWaiter,
    dedicated: Arc<DedicatedConnection>,
    batches: Arc<DedicatedConnection>,
    /// The [number](ConnectionId::connection) of the connection on which the server was found to
    /// lack EVALSHA_RO and EVAL_RO.
    without_read_only: AtomicU64,
    /// Set while this node is a replica that lags by more than allowed.
    behind: AtomicBool,
    /// Set while requests are refused because another server is about to replace this one.
    held_back: AtomicBool,
    batchers: Batchers,
    admission: Semaphore,
}

impl Node {
    /// Sends one request, by itself or batched with requests of other callers.
    fn start<'a>(&'a self, request: &'a Arc<Request>, limit: Option<Instant>) -> ResponseFuture<'a> {
        if let Some(error) = self.in_the_way(request.dedicated) {
            return ResponseFuture::inline(async || Err(error));
        }
        let (Some(batch), Some(until)) = (request.batch, limit) else {
            return ResponseFuture::inline(|| self.send(self.link_for(request), request, limit));
        };
        match self.batchers.enter(self, batch, request, until) {
            Ok(in_flight) => ResponseFuture::inline(|| async move {
                let _in_flight = in_flight;
                self.send(self.link_for(request), request, limit).await
            }),
            Err(reply) => ResponseFuture::queued(reply),
        }
    }

    /// Returns why a request cannot be sent now; `None` if it can.
    fn in_the_way(&self, is_dedicated: bool) -> Option<ServerError> {
        match () {
            // A dedicated request, such as SCRIPT KILL, must also reach a server that answers no
            // handshake because its script runs for too long.
            () if is_dedicated => None,
            () if !self.commands.is_up() => Some(self.commands.down()),
            () if self.held_back.load(Ordering::Acquire) => {
                Some(ServerError::not_sent(format!("a failover is about to replace {}", self.id)))
            }
            () => None,
        }
    }

    fn link_for(&self, request: &Request) -> &Arc<Connection> {
        self.commands.of(request.keys.first().map(|key| &key[..]))
    }

    /// Sends one request, which must not be executed after `limit`.
    async fn send(&self, link: &Connection, request: &Request, limit: Option<Instant>) -> Result<Reply, ServerError> {
        if request.dedicated || matches!(request.what, What::Together(_)) {
            return Box::pin(self.send_elsewhere(request, limit, false)).await;
        }
        match link.send(self.encode(request, limit, request.in_order)?).await {
            // The retry is boxed because it is rare: unboxed, it would enlarge the future of every
            // call.
            refused @ Err(ServerError::Refused { .. }) if resend::may_help(request, &refused) => {
                Box::pin(self.send_again(link, request, limit, false, refused)).await
            }
            answer => answer,
        }
    }

    /// Encodes a request. A script is encoded as its text if `whole` is set, and as its hash
    /// otherwise.
    fn encode(&self, request: &Request, limit: Option<Instant>, whole: bool) -> Result<WireCommand, ServerError> {
        let mut command = Vec::with_capacity(4 + request.keys.len() + request.args.len());
        let reading = request.read_only && !self.is_without_read_only();
        let key_count = || decimal(request.keys.len() as i64);
        match &request.what {
            What::Command(name) => command.push(name.clone()),
            What::Script(body) => {
                let (name, script) = match (whole, reading) {
                    (false, false) => ("EVALSHA", body.sha()),
                    (false, true) => ("EVALSHA_RO", body.sha()),
                    (true, false) => ("EVAL", body.bytes()),
                    (true, true) => ("EVAL_RO", body.bytes()),
                };
                command.extend([name.into(), script.clone(), key_count()]);
            }
            What::Function { name, .. } => {
                let function = if request.read_only { "FCALL_RO" } else { "FCALL" };
                command.extend([function.into(), name.clone(), key_count()]);
            }
            // This command is never sent; `at_once` sends the requests of the transaction.
            What::Together(_) => command.push("EXEC".into()),
        }
        command.extend(request.subcommand.map(Bytes::from));
        self.append(command, request.keys_in_front(), &request.args, limit)
    }

    fn append<'a>(
        &self,
        mut command: WireCommand,
        keys: impl IntoIterator<Item = &'a Bytes>,
        args: impl IntoIterator<Item = &'a Arg>,
        limit: Option<Instant>,
    ) -> Result<WireCommand, ServerError> {
        keys.into_iter().try_for_each(|key| fitting(key).map(|key| command.push(key)))?;
        args.into_iter().try_for_each(|arg| {
            let is_sharded = || self.sharded.load(Ordering::Relaxed);
            command.push(match arg {
                Arg::Bytes(bytes) | Arg::Key(bytes) => fitting(bytes)?,
                Arg::NotAfter => self.not_after(limit)?,
                Arg::Publish | Arg::Sharded if is_sharded() => "SPUBLISH".into(),
                Arg::Sharded => return Ok(()),
                Arg::Publish => "PUBLISH".into(),
            });
            Ok(())
        })?;
        Ok(command)
    }

    /// Returns the limit in microseconds since 1970 on the server's clock, as text.
    fn not_after(&self, limit: Option<Instant>) -> Result<Bytes, ServerError> {
        let limit = limit.ok_or_else(|| ServerError::not_sent("the request has no time limit"))?;
        let at = self.time.at(limit, self.clock.now());
        let micros = at.ok_or_else(|| ServerError::not_sent("the server's clock is not known yet"))?;
        Ok(decimal(i64::try_from(micros).unwrap_or(i64::MAX)))
    }
}

/// Returns one argument, or an error if the argument is too large for servers.
fn fitting(arg: &Bytes) -> Result<Bytes, ServerError> {
    if arg.len() > LARGEST {
        let message = format!("not sent: an argument has {} bytes, and servers accept {LARGEST} at most", arg.len());
        return Err(ServerError::Refused { code: Code::TooLarge, message });
    }
    Ok(arg.clone())
}

#[async_trait]
impl Server for Node {
    fn id(&self) -> &NodeId {
        &self.id
    }

    async fn call(&self, requests: Vec<Request>) -> Vec<Result<Reply, ServerError>> {
        if let Some(error) = self.in_the_way(requests.iter().all(|request| request.dedicated)) {
            return requests.iter().map(|_| Err(error.clone())).collect();
        }
        match <[Request; 1]>::try_from(requests) {
            Ok([request]) => {
                let limit = request.limit();
                vec![self.start(&Arc::new(request), limit).await]
            }
            // `join_all` polls the futures in order. When a future is polled for the first time, it
            // hands the bytes of its request to the connection. So the requests are sent in order.
            Err(requests) => {
                // Requests that must stay in order use one connection.
                let link = requests.iter().all(|it| it.in_order).then(|| Arc::clone(self.link_for(&requests[0])));
                let one = async |request: Request| {
                    let link = link.as_ref().unwrap_or_else(|| self.link_for(&request));
                    self.send(link, &request, request.limit()).await
                };
                Box::pin(join_all(requests.into_iter().map(one))).await
            }
        }
    }

    fn ask<'a>(&'a self, request: &'a Arc<Request>, limit: Instant) -> ResponseFuture<'a> {
        self.start(request, Some(limit))
    }

    async fn call_asking(&self, request: Request) -> Result<Reply, ServerError> {
        match self.in_the_way(false) {
            Some(error) => Err(error),
            None => self.send_asking(&request).await,
        }
    }

    async fn commit(&self, since: ConnectionId, durability: Durability, tag: &[u8]) -> Result<(), CommitError> {
        self.commits.commit(since, durability, tag).await
    }

    fn connection_id(&self) -> watch::Receiver<Option<ConnectionId>> {
        self.commands.epoch()
    }

    fn current_connection_id(&self) -> Option<ConnectionId> {
        self.commands.current_epoch()
    }

    fn answers(&self) -> bool {
        self.commands.answers()
    }

    fn in_flight_limit(&self) -> Option<&Semaphore> {
        Some(&self.admission)
    }

    fn silent_for(&self) -> Duration {
        self.commands.silent_for()
    }

    fn trouble(&self) -> Option<String> {
        Some(self.commands.trouble())
    }

    fn refusal(&self) -> watch::Receiver<Option<ServerError>> {
        self.commands.refusal()
    }

    fn without_resp3(&self) -> Option<String> {
        self.connections.target.without_resp3.get().cloned()
    }

    fn is_lagging(&self) -> bool {
        self.behind.load(Ordering::Acquire)
    }

    fn time(&self) -> &ServerClock {
        &self.time
    }

    async fn subscribe(&self, kind: ChannelKind, channels: Vec<Bytes>) -> Result<Refused, ServerError> {
        self.subscriptions.subscribe(kind, channels).await
    }

    async fn unsubscribe(&self, kind: ChannelKind, channels: Vec<Bytes>) {
        self.subscriptions.unsubscribe(kind, channels).await;
    }

    fn pushes(&self) -> mpsc::UnboundedReceiver<Push> {
        self.subscriptions.pushes()
    }

    async fn close(&self) {
        self.connections.close().await;
    }
}

impl Drop for Node {
    /// Closes the connections, in case the node is dropped without a call of [`Server::close`].
    fn drop(&mut self) {
        self.connections.stop();
    }
}
