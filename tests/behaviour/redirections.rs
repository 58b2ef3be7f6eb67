//! Servers that send a request on, and what they are spared.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use redgrid_core::clock::Clock;
use redgrid_core::{Client, Code, Config, Request, Server, ServerError, Topology};
use redgrid_tests::made::Made;
use tokio::sync::watch;

/// A node that sends everybody on, and the one it sends them to.
struct Two {
    owner: Arc<Made>,
    target: Arc<Made>,
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
    let sends_on = |_: &Request| Err(ServerError::Refused { code: Code::Ask, message: "ASK 1 target:1".into() });
    let is_down = |_: &Request| Err(ServerError::NotSent { reason: "no connection".into() });
    let owner = Arc::new(Made::new("owner:1", sends_on));
    let target = Arc::new(Made::new("target:1", is_down).down());
    let two = Two { owner: Arc::clone(&owner), target, changes: watch::Sender::new(0) };
    let config = Config::single("owner").unwrap().timeout(Duration::from_millis(500)).retries(1);
    let client = Client::over(Arc::new(two), config, Clock::boot()).unwrap();
    let told = client.command("GET").key("a").unwrap().query::<Option<String>>().await;
    assert!(matches!(told, Err(ServerError::NotSent { .. })), "{told:?}");
    // A second, in pauses of 100 ms.
    let asked = owner.asked();
    assert!((2..40).contains(&asked), "{asked}");
}
