//! A server that runs an event before or after its requests, to cause races.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use bytes::Bytes;
use redgrid_core::author::Server;
use redgrid_core::{ChannelKind, ConnectionId, NodeId, Push, Refused, Reply, Request, ServerClock, ServerError};
use tokio::sync::{mpsc, watch};

type Event = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A server that runs an event before (or after) each request with a label.
pub struct Before {
    server: Arc<dyn Server>,
    label: &'static str,
    events: Mutex<VecDeque<Event>>,
    /// Whether the event runs after the server's reply, before the caller receives it.
    behind: bool,
    /// Creates the event for requests that find no queued event.
    always: Option<Box<dyn Fn() -> Event + Send + Sync>>,
}

impl Before {
    /// Creates a server that runs the next queued event before each request with this label.
    pub fn new(server: Arc<dyn Server>, label: &'static str) -> Self {
        Before { server, label, behind: false, events: Mutex::default(), always: None }
    }

    /// Like [`new`](Self::new), but the event runs after the server's reply and before the caller
    /// receives it.
    pub fn behind(server: Arc<dyn Server>, label: &'static str) -> Self {
        Before { behind: true, ..Before::new(server, label) }
    }

    /// Sets an event for every request with the label that finds no queued event.
    pub fn always<F: Future<Output = ()> + Send + 'static>(
        mut self,
        event: impl Fn() -> F + Send + Sync + 'static,
    ) -> Self {
        self.always = Some(Box::new(move || Box::pin(event())));
        self
    }

    /// Queues an event for the next request with the label.
    pub fn next(&self, event: impl Future<Output = ()> + Send + 'static) {
        self.events.lock().unwrap_or_else(PoisonError::into_inner).push_back(Box::pin(event));
    }
}

#[async_trait]
impl Server for Before {
    fn id(&self) -> &NodeId {
        self.server.id()
    }

    async fn call(&self, requests: Vec<Request>) -> Vec<Result<Reply, ServerError>> {
        let is_it = requests.iter().any(|request| request.label() == self.label);
        let event = if is_it { self.events.lock().unwrap_or_else(PoisonError::into_inner).pop_front() } else { None };
        let event = event.or_else(|| self.always.as_ref().filter(|_| is_it).map(|event| event()));
        let Some(event) = event else { return self.server.call(requests).await };
        if self.behind {
            let answers = self.server.call(requests).await;
            event.await;
            return answers;
        }
        event.await;
        self.server.call(requests).await
    }

    fn connection_id(&self) -> watch::Receiver<Option<ConnectionId>> {
        self.server.connection_id()
    }

    fn time(&self) -> &ServerClock {
        self.server.time()
    }

    async fn subscribe(&self, kind: ChannelKind, channels: Vec<Bytes>) -> Result<Refused, ServerError> {
        self.server.subscribe(kind, channels).await
    }

    async fn unsubscribe(&self, kind: ChannelKind, channels: Vec<Bytes>) {
        self.server.unsubscribe(kind, channels).await;
    }

    fn pushes(&self) -> mpsc::UnboundedReceiver<Push> {
        self.server.pushes()
    }

    async fn close(&self) {
        self.server.close().await;
    }
}
