//! The server of what is served by nobody, as far as is known.

use std::sync::Mutex;

use async_trait::async_trait;
use bytes::Bytes;
use tokio::sync::{mpsc, watch};

use crate::connection::node::Node;
use crate::connection::{ChannelKind, ConnectionId, NodeId, Push, Refused, Reply, Request, Server, ServerClock};
use crate::error::ServerError;

/// Whether waiting can help where no node tells which servers there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Hope {
    Some,
    /// All refuse this client.
    Unauthorized,
    /// All are the wrong ones.
    None,
}

impl Hope {
    /// The hope that the answers of all nodes leave. Without an answer there is some.
    pub(super) fn of<'a>(answers: impl Iterator<Item = (&'a Node, &'a ServerError)>) -> Hope {
        let each = answers.map(|(node, error)| match (error, &*node.refusal().borrow()) {
            (ServerError::Unauthorized { .. }, _) | (_, Some(ServerError::Unauthorized { .. })) => Hope::Unauthorized,
            (_, Some(_)) => Hope::None,
            // It does not know the question, or what it is about.
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

/// The error of one node, with the node, and without what is said anyway.
pub(super) fn said_by(node: &Node, error: &ServerError) -> String {
    let text = match error {
        ServerError::NotSent { reason } => reason.clone().into_owned(),
        other => other.to_string(),
    };
    let id = node.id().to_string();
    if text.contains(&id) { text } else { format!("{text} (at {id})") }
}

/// It answers nothing, and says why.
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

    /// Why no server is known, from now on; and whether waiting helps.
    pub(super) fn because(&self, why: String, hope: Hope) {
        let refusal = match hope {
            Hope::Some => None,
            Hope::Unauthorized => Some(ServerError::Unauthorized { message: why.clone() }),
            Hope::None => Some(ServerError::not_sent(why.clone())),
        };
        *self.why.lock().unwrap_or_else(|p| p.into_inner()) = why;
        self.refusal.send_if_modified(|known| {
            let changed = *known != refusal;
            *known = refusal;
            changed
        });
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
