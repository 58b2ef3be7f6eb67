//! Servers that send a request on, and what they are spared.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use redgrid_core::clock::Clock;
use redgrid_core::{
    ChannelKind, Client, Config, Epoch, NodeId, Push, Reply, Request, Server, ServerClock, ServerError, Topology,
};
use tokio::sync::{mpsc, watch};

/// Sends everybody on to a node that is down; or is that node.
struct Owner {
    id: NodeId,
    epoch: watch::Sender<Option<Epoch>>,
    time: ServerClock,
    asked: AtomicUsize,
}

impl Owner {
    fn new(name: &str, epoch: Option<Epoch>) -> Arc<Self> {
        let (id, epoch) = (NodeId(name.into()), watch::Sender::new(epoch));
        Arc::new(Owner { id, epoch, time: ServerClock::default(), asked: AtomicUsize::new(0) })
    }
}

#[async_trait]
impl Server for Owner {
    fn id(&self) -> &NodeId {
        &self.id
    }

    async fn call(&self, requests: Vec<Request>) -> Vec<Result<Reply, ServerError>> {
        let is_up = self.epoch.borrow().is_some();
        self.asked.fetch_add(requests.len(), Ordering::Relaxed);
        // As a server does, after a moment.
        tokio::time::sleep(Duration::from_millis(1)).await;
        let answer = |_| match is_up {
            true => Err(ServerError::Refused { code: redgrid_core::Code::Ask, message: "ASK 1 target:1".into() }),
            false => Err(ServerError::NotSent { reason: "no connection".into() }),
        };
        requests.iter().map(answer).collect()
    }

    fn epoch(&self) -> watch::Receiver<Option<Epoch>> {
        self.epoch.subscribe()
    }

    fn time(&self) -> &ServerClock {
        &self.time
    }

    async fn subscribe(&self, _: ChannelKind, _: Vec<Bytes>) -> Result<(), ServerError> {
        Ok(())
    }

    async fn unsubscribe(&self, _: ChannelKind, _: Vec<Bytes>) {}

    fn pushes(&self) -> mpsc::UnboundedReceiver<Push> {
        mpsc::unbounded_channel().1
    }

    async fn close(&self) {}
}

struct Two {
    owner: Arc<Owner>,
    target: Arc<Owner>,
    changes: watch::Sender<u64>,
}

#[async_trait]
impl Topology for Two {
    fn primary(&self, _: &[u8]) -> Arc<dyn Server> {
        Arc::clone(&self.owner) as Arc<dyn Server>
    }

    fn primaries(&self) -> Vec<Arc<dyn Server>> {
        vec![self.primary(b"")]
    }

    fn at(&self, _: &str) -> Option<Arc<dyn Server>> {
        Some(Arc::clone(&self.target) as Arc<dyn Server>)
    }

    fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    async fn close(&self) {}
}

#[tokio::test]
async fn a_slot_on_its_way_to_a_node_that_is_down_is_asked_for_with_pauses() {
    let owner = Owner::new("owner:1", Some(Epoch { run_id: "one".into(), connection: 1 }));
    let two = Two { owner: Arc::clone(&owner), target: Owner::new("target:1", None), changes: watch::Sender::new(0) };
    let config = Config::single("owner").unwrap().timeout(Duration::from_millis(500)).retries(1);
    let client = Client::over(Arc::new(two), config, Clock::boot()).unwrap();
    let told = client.command("GET").key("a").unwrap().query::<Option<String>>().await;
    assert!(matches!(told, Err(ServerError::NotSent { .. })), "{told:?}");
    // A second, in pauses of 100 ms.
    let asked = owner.asked.load(Ordering::Relaxed);
    assert!((2..40).contains(&asked), "{asked}");
}
