//! Placeholder server while the primary is unknown.

use async_trait::async_trait;
use bytes::Bytes;
use tokio::sync::{mpsc, watch};

use crate::connection::node::Node;
use crate::connection::pool::publish;
use crate::connection::trouble::{Kind, Trouble};
use crate::connection::{ChannelKind, ConnectionId, NodeId, Push, Refused, Reply, Request, Server, ServerClock};
use crate::error::ServerError;
use crate::sync::Mutex;

/// Returns the kind of the trouble that the errors of all nodes have caused. The kind says whether
/// waiting can help. Without an error, waiting can help.
pub(super) fn kind_of<'a>(answers: impl Iterator<Item = (&'a Node, &'a ServerError)>) -> Kind {
    let each = answers.map(|(node, error)| match (error, &*node.refusal().borrow()) {
        (ServerError::Unauthorized { .. }, _) | (_, Some(ServerError::Unauthorized { .. })) => Kind::Unauthorized,
        (_, Some(_)) => Kind::Lasting,
        // The server does not have the command, or does not have the object that the command names.
        (ServerError::Refused { code, .. }, _) if !code.is_passing() => Kind::Lasting,
        _ => Kind::Passing,
    });
    let both = |one, other| match (one, other) {
        (Kind::Passing, _) | (_, Kind::Passing) => Kind::Passing,
        (Kind::Unauthorized, Kind::Unauthorized) => Kind::Unauthorized,
        _ => Kind::Lasting,
    };
    each.reduce(both).unwrap_or(Kind::Passing)
}

/// Returns the text of a node's error with the node's address. The prefix of
/// [`ServerError::NotSent`] is left out.
pub(super) fn text_of(node: &Node, error: &ServerError) -> String {
    let text = match error {
        ServerError::NotSent { reason } => reason.clone().into_owned(),
        other => other.to_string(),
    };
    let id = node.id().to_string();
    if text.contains(&id) { text } else { format!("{text} (at {id})") }
}

pub(super) struct UnknownPrimary {
    id: NodeId,
    why: Mutex<String>,
    refusal: watch::Sender<Option<ServerError>>,
    epoch: watch::Sender<Option<ConnectionId>>,
    time: ServerClock,
}

impl UnknownPrimary {
    pub(super) fn new(why: impl Into<String>) -> Self {
        UnknownPrimary {
            id: NodeId("nowhere".into()),
            why: Mutex::new(why.into()),
            refusal: watch::Sender::new(None),
            epoch: watch::Sender::new(None),
            time: ServerClock::default(),
        }
    }

    /// Sets why no primary is known, and whether waiting can help.
    pub(super) fn because(&self, Trouble { message, kind }: Trouble) {
        let refusal = match kind {
            Kind::Passing => None,
            Kind::Unauthorized => Some(ServerError::Unauthorized { message: message.clone() }),
            Kind::Lasting => Some(ServerError::not_sent(message.clone())),
        };
        *self.why.lock() = message;
        publish(&self.refusal, refusal);
    }

    fn why(&self) -> String {
        self.why.lock().clone()
    }

    fn error(&self) -> ServerError {
        self.refusal.borrow().clone().unwrap_or_else(|| ServerError::not_sent(self.why()))
    }
}

#[async_trait]
impl Server for UnknownPrimary {
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
