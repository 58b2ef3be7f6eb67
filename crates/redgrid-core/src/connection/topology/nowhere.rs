//! Placeholder server while the primary is unknown.

use std::sync::Mutex;

use async_trait::async_trait;
use bytes::Bytes;
use tokio::sync::{mpsc, watch};

use crate::connection::node::Node;
use crate::connection::pool::publish;
use crate::connection::{ChannelKind, ConnectionId, NodeId, Push, Refused, Reply, Request, Server, ServerClock};
use crate::error::ServerError;

/// Whether waiting can help while no node reports the topology.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Hope {
    Some,
    /// All nodes reject this client.
    Unauthorized,
    /// All nodes are wrong targets.
    None,
}

impl Hope {
    /// Combines the answers of all nodes. Without an answer there is hope.
    pub(super) fn of<'a>(answers: impl Iterator<Item = (&'a Node, &'a ServerError)>) -> Hope {
        let each = answers.map(|(node, error)| match (error, &*node.refusal().borrow()) {
            (ServerError::Unauthorized { .. }, _) | (_, Some(ServerError::Unauthorized { .. })) => Hope::Unauthorized,
            (_, Some(_)) => Hope::None,
            // The server does not know the command or its subject.
            (ServerError::Refused { code, .. }, _) if !code.is_passing() => Hope::None,
            _ => Hope::Some,
        });
        each.reduce(|one, other| match (one, other) {
            (Hope::Some, _) | (_, Hope::Some) => Hope::Some,
            (Hope::Unauthorized, Hope::Unauthorized) => Hope::Unauthorized,
            _ => Hope::None,
        })
        .unwrap_or(Hope::Some)
    }
}

/// Returns the error of a node with the node's address, without the general prefix.
pub(super) fn said_by(node: &Node, error: &ServerError) -> String {
    let text = match error {
        ServerError::NotSent { reason } => reason.clone().into_owned(),
        other => other.to_string(),
    };
    let id = node.id().to_string();
    if text.contains(&id) { text } else { format!("{text} (at {id})") }
}

/// A server that answers no request and reports the reason.
pub(super) struct Nowhere {
    id: NodeId,
    why: Mutex<String>,
    refusal: watch::Sender<Option<ServerError>>,
    epoch: watch::Sender<Option<ConnectionId>>,
    time: ServerClock,
}

impl Nowhere {
    pub(super) fn new(why: impl Into<String>) -> Self {
        Nowhere {
            id: NodeId("nowhere".into()),
            why: Mutex::new(why.into()),
            refusal: watch::Sender::new(None),
            epoch: watch::Sender::new(None),
            time: ServerClock::default(),
        }
    }

    /// Sets why no server is known, and whether waiting can help.
    pub(super) fn because(&self, why: String, hope: Hope) {
        let refusal = match hope {
            Hope::Some => None,
            Hope::Unauthorized => Some(ServerError::Unauthorized { message: why.clone() }),
            Hope::None => Some(ServerError::not_sent(why.clone())),
        };
        *self.why.lock().unwrap_or_else(|p| p.into_inner()) = why;
        publish(&self.refusal, refusal);
    }

    fn why(&self) -> String {
        self.why.lock().unwrap_or_else(|p| p.into_inner()).clone()
    }

    fn error(&self) -> ServerError {
        self.refusal.borrow().clone().unwrap_or_else(|| ServerError::not_sent(self.why()))
    }
}

#[async_trait]
impl Server for Nowhere {
    fn id(&self) -> &NodeId {
        &self.id
    }

    async fn call(&self, requests: Vec<Request>) -> Vec<Result<Reply, ServerError>> {
        requests.iter().map(|_| Err(self.error())).collect()
    }

    fn connection_id(&self) -> watch::Receiver<Option<ConnectionId>> {
        self.epoch.subscribe()
    }

    fn answers(&self) -> bool {
        false
    }

    fn trouble(&self) -> Option<String> {
        Some(self.why())
    }

    fn refusal(&self) -> watch::Receiver<Option<ServerError>> {
        self.refusal.subscribe()
    }

    fn unreached(&self) -> ServerError {
        self.error()
    }

    fn time(&self) -> &ServerClock {
        &self.time
    }

    async fn subscribe(&self, _: ChannelKind, _: Vec<Bytes>) -> Result<Refused, ServerError> {
        Err(self.error())
    }

    async fn unsubscribe(&self, _: ChannelKind, _: Vec<Bytes>) {}

    fn pushes(&self) -> mpsc::UnboundedReceiver<Push> {
        mpsc::unbounded_channel().1
    }

    async fn close(&self) {}
}
