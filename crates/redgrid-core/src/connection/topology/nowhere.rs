//! The server of what is served by nobody, as far as is known.

use std::sync::Mutex;

use async_trait::async_trait;
use bytes::Bytes;
use tokio::sync::{mpsc, watch};

use crate::connection::{ChannelKind, Epoch, NodeId, Push, Refused, Reply, Request, Server, ServerClock};
use crate::error::ServerError;

/// It answers nothing, and says why.
pub(super) struct Nowhere {
    id: NodeId,
    why: Mutex<String>,
    refusal: watch::Sender<Option<ServerError>>,
    epoch: watch::Sender<Option<Epoch>>,
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

    /// Why nobody is known, from now on; and whether all who could tell refuse this client.
    pub(super) fn because(&self, why: String, refused: bool) {
        let refusal = refused.then(|| ServerError::Unauthorized { message: why.clone() });
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

    fn epoch(&self) -> watch::Receiver<Option<Epoch>> {
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
