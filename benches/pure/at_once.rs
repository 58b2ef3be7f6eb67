//! A simulated server in this process that answers every request immediately. Measurements with it
//! show the client's own work.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{SystemTime, UNIX_EPOCH};

use async_trait::async_trait;
use bytes::Bytes;
use redgrid_core::author::Server;
use redgrid_core::clock::Clock;
use redgrid_core::{
    ChannelKind, Client, Code, Config, ConnectionId, NodeId, Push, Refused, Reply, Request, ServerClock, ServerError,
};
use tokio::sync::{mpsc, watch};

/// A simulated server that answers immediately.
pub(super) struct AtOnce {
    id: NodeId,
    epoch: watch::Sender<Option<ConnectionId>>,
    time: ServerClock,
    /// Sends messages to the client, once the client reads them.
    pushes: Mutex<Option<mpsc::UnboundedSender<Push>>>,
    is_held_by_others: AtomicBool,
}

impl AtOnce {
    /// Starts a server and a client connected to it. This function must be called inside a runtime.
    pub(super) fn start() -> (Arc<AtOnce>, Client) {
        let server = Arc::new(AtOnce {
            id: NodeId("at-once:1".into()),
            epoch: watch::Sender::new(Some(ConnectionId { run_id: "one".into(), connection: 1 })),
            time: ServerClock::default(),
            pushes: Mutex::default(),
            is_held_by_others: AtomicBool::new(false),
        });
        let config = Config::single("at-once").expect("an address");
        let client = Client::over_one(Arc::clone(&server) as Arc<dyn Server>, config, Clock::boot());
        (server, client.expect("a valid configuration"))
    }

    /// Sets whether other clients hold all locks from now on.
    pub(super) fn is_held_by_others(&self, is_it: bool) {
        self.is_held_by_others.store(is_it, Ordering::Relaxed);
    }

    /// Sends the client a message on a channel.
    pub(super) fn publish(&self, channel: &Bytes) {
        if let Some(pushes) = &*self.pushes() {
            let _ = pushes.send(Push::Message { channel: channel.clone(), payload: Bytes::from_static(b"0") });
        }
    }

    fn pushes(&self) -> MutexGuard<'_, Option<mpsc::UnboundedSender<Push>>> {
        self.pushes.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    fn answer(&self, request: &Request) -> Result<Reply, ServerError> {
        let each = || Reply::Array(vec![Reply::Int(1); request.all_keys().len()]);
        Ok(match request.label() {
            "lock/acquire" => {
                let micros = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_micros();
                let time = Reply::Int(micros as i64);
                let is_busy = self.is_held_by_others.load(Ordering::Relaxed);
                if is_busy { Reply::Array(vec![Reply::Int(0), time, Reply::Int(30_000)]) } else { time }
            }
            // The lock was held, and its channel has no subscribers.
            "lock/release" => Reply::Int(1),
            "lock/release-yielding" => Reply::Array(vec![Reply::Int(1), Reply::Int(0)]),
            "lock/renew" | "lock/release-many" => each(),
            "pubsub/ttl" => Reply::Int(30_000),
            "pubsub/set-waiting" => Reply::Int(1),
            other => {
                let message = format!("ERR this server does not know `{other}`");
                return Err(ServerError::Refused { code: Code::of(&message), message });
            }
        })
    }
}

#[async_trait]
impl Server for AtOnce {
    fn id(&self) -> &NodeId {
        &self.id
    }

    async fn call(&self, requests: Vec<Request>) -> Vec<Result<Reply, ServerError>> {
        requests.iter().map(|request| self.answer(request)).collect()
    }

    fn connection_id(&self) -> watch::Receiver<Option<ConnectionId>> {
        self.epoch.subscribe()
    }

    fn time(&self) -> &ServerClock {
        &self.time
    }

    async fn subscribe(&self, _: ChannelKind, _: Vec<Bytes>) -> Result<Refused, ServerError> {
        Ok(Refused::new())
    }

    async fn unsubscribe(&self, _: ChannelKind, _: Vec<Bytes>) {}

    fn pushes(&self) -> mpsc::UnboundedReceiver<Push> {
        let (sender, receiver) = mpsc::unbounded_channel();
        *self.pushes() = Some(sender);
        receiver
    }

    async fn close(&self) {}
}
