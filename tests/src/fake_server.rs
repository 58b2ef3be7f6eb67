//! A fake server, for states that are impossible to set up with a real one.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use bytes::Bytes;
use redgrid_core::author::Server;
use redgrid_core::config::Durability;
use redgrid_core::{
    ChannelKind, Code, CommitError, ConnectionId, NodeId, Push, Refused, Reply, Request, ServerClock, ServerError,
};
use tokio::sync::{Notify, mpsc, watch};

type Answer = Result<Reply, ServerError>;

/// Answers requests with the result of a closure, and records subscriptions.
pub struct FakeServer {
    id: NodeId,
    epoch: watch::Sender<Option<ConnectionId>>,
    time: ServerClock,
    answer: Box<dyn Fn(&Request) -> Answer + Send + Sync>,
    restarts: AtomicUsize,
    asked: AtomicUsize,
    listened: Mutex<BTreeSet<Bytes>>,
    /// Channels that reject subscriptions; existing subscriptions stay.
    denied: Mutex<BTreeSet<Bytes>>,
    refused: AtomicUsize,
    /// A channel whose subscription is confirmed only by [`confirm`](Self::confirm).
    kept_back: Option<Bytes>,
    /// Requests with this label are answered only after [`confirm`](Self::confirm).
    stuck_at: Option<&'static str>,
    confirm: Notify,
    /// How many further times durability is confirmed.
    proofs: AtomicUsize,
    /// Whether the server ignores `close`.
    stays: bool,
    closing: Notify,
    pushes: Mutex<Option<mpsc::UnboundedSender<Push>>>,
}

impl FakeServer {
    /// Creates a connected node with this name.
    pub fn new(name: &str, answer: impl Fn(&Request) -> Answer + Send + Sync + 'static) -> FakeServer {
        FakeServer {
            id: NodeId(name.into()),
            epoch: watch::Sender::new(Some(ConnectionId { run_id: "one".into(), connection: 1 })),
            time: ServerClock::default(),
            answer: Box::new(answer),
            restarts: AtomicUsize::new(0),
            asked: AtomicUsize::new(0),
            listened: Mutex::default(),
            denied: Mutex::default(),
            refused: AtomicUsize::new(0),
            kept_back: None,
            stuck_at: None,
            confirm: Notify::new(),
            proofs: AtomicUsize::new(0),
            stays: false,
            closing: Notify::new(),
            pushes: Mutex::default(),
        }
    }

    /// Makes the server disconnected.
    pub fn down(self) -> FakeServer {
        self.epoch.send_replace(None);
        self
    }

    /// Connects the server.
    pub fn up(&self) {
        self.epoch.send_replace(Some(ConnectionId { run_id: "one".into(), connection: 2 }));
    }

    /// Disconnects the server.
    pub fn lost(&self) {
        self.epoch.send_replace(None);
    }

    /// Simulates a restart: the server is connected to a new process.
    pub fn restarted(&self) {
        let number = self.restarts.fetch_add(1, Ordering::Relaxed) as u64 + 3;
        self.epoch
            .send_replace(Some(ConnectionId { run_id: format!("restarted {number}").into(), connection: number }));
    }

    /// Makes the server withhold the confirmation of this channel's subscription.
    pub fn unconfirmed(self, channel: Bytes) -> FakeServer {
        FakeServer { kept_back: Some(channel), ..self }
    }

    /// Makes the server withhold the replies to requests with this label.
    pub fn stuck_at(self, label: &'static str) -> FakeServer {
        FakeServer { stuck_at: Some(label), ..self }
    }

    /// Makes the server confirm durability once. Such requests have the label `commit`.
    pub fn proving_once(self) -> FakeServer {
        FakeServer { proofs: AtomicUsize::new(1), ..self }
    }

    /// Makes the server ignore `close`.
    pub fn never_closed(self) -> FakeServer {
        FakeServer { stays: true, ..self }
    }

    /// Waits until the client closes the server.
    pub async fn closing(&self) {
        self.closing.notified().await;
    }

    /// Sends the confirmation or the reply that was withheld.
    pub fn confirm(&self) {
        self.confirm.notify_one();
    }

    /// Returns the number of requests.
    pub fn asked(&self) -> usize {
        self.asked.load(Ordering::Relaxed)
    }

    /// Returns the subscribed channels.
    pub fn listened(&self) -> BTreeSet<Bytes> {
        self.listened.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).clone()
    }

    /// Returns the number of rejected subscriptions.
    pub fn refused(&self) -> usize {
        self.refused.load(Ordering::Relaxed)
    }

    /// Rejects new subscriptions of a channel; existing ones stay.
    pub fn deny(&self, channel: Bytes) {
        self.denied.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).insert(channel);
    }

    /// Pushes a frame to the client.
    pub fn push(&self, push: Push) {
        if let Some(pushes) = &*self.pushes.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) {
            let _ = pushes.send(push);
        }
    }
}

#[async_trait]
impl Server for FakeServer {
    fn id(&self) -> &NodeId {
        &self.id
    }

    async fn call(&self, requests: Vec<Request>) -> Vec<Answer> {
        self.asked.fetch_add(requests.len(), Ordering::Relaxed);
        tokio::task::yield_now().await;
        if requests.iter().any(|request| Some(request.label()) == self.stuck_at) {
            self.confirm.notified().await;
        }
        requests.iter().map(&self.answer).collect()
    }

    async fn commit(&self, _: ConnectionId, asked: Durability, _: &[u8]) -> Result<(), CommitError> {
        let proves = self.proofs.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |proofs| proofs.checked_sub(1));
        if asked == Durability::Primary || proves.is_ok() {
            return Ok(());
        }
        if self.stuck_at == Some("commit") {
            self.confirm.notified().await;
        }
        Err(CommitError::Unsupported { missing: "a proof".into() })
    }

    fn connection_id(&self) -> watch::Receiver<Option<ConnectionId>> {
        self.epoch.subscribe()
    }

    fn time(&self) -> &ServerClock {
        &self.time
    }

    async fn subscribe(&self, _: ChannelKind, channels: Vec<Bytes>) -> Result<Refused, ServerError> {
        let is_kept_back = self.kept_back.as_ref().is_some_and(|channel| channels.contains(channel));
        let denied = self.denied.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).clone();
        let (refused, subscribed): (Vec<_>, Vec<_>) =
            channels.into_iter().partition(|channel| denied.contains(channel));
        self.listened.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).extend(subscribed);
        if is_kept_back {
            self.confirm.notified().await;
        }
        self.refused.fetch_add(refused.len(), Ordering::Relaxed);
        let message = "NOPERM one of the channels is denied";
        let why = || ServerError::Refused { code: Code::of(message), message: message.to_owned() };
        Ok(refused.into_iter().map(|channel| (channel, why())).collect())
    }

    async fn unsubscribe(&self, _: ChannelKind, channels: Vec<Bytes>) {
        let mut listened = self.listened.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        channels.iter().for_each(|channel| {
            listened.remove(channel);
        });
    }

    fn pushes(&self) -> mpsc::UnboundedReceiver<Push> {
        let (sender, receiver) = mpsc::unbounded_channel();
        *self.pushes.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) = Some(sender);
        receiver
    }

    async fn close(&self) {
        self.closing.notify_one();
        if self.stays {
            std::future::pending::<()>().await;
        }
    }
}

/// Returns a closure that grants every lock with this token, and answers every other request with
/// 1.
pub fn granting(token: &'static str) -> impl Fn(&Request) -> Answer {
    move |request| Ok(if request.label() == "lock/acquire" { granted(token) } else { Reply::Int(1) })
}

/// Returns the reply that grants a lock with this token.
pub fn granted(token: &'static str) -> Reply {
    Reply::Array(vec![Reply::Int(1), Reply::Bytes(Bytes::from_static(token.as_bytes())), Reply::Int(0)])
}
