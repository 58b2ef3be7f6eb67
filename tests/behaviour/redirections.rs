//! Redirections, and replies of servers that were replaced.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use redgrid_core::author::{ClientExt, Server, Topology};
use redgrid_core::clock::Clock;
use redgrid_core::config::Address;
use redgrid_core::{Client, Code, Config, ConnectionEvent, Reply, Request, ServerError};
use redgrid_locks::{Lock, LostReason};
use redgrid_testkit::wait_until;
use redgrid_tests::SOON;
use redgrid_tests::fake_server::{FakeServer, granted, granting};
use tokio::sync::watch;

/// A node that redirects every request, and the target of the redirections.
struct Two {
    owner: Arc<FakeServer>,
    target: Arc<FakeServer>,
    /// The number of changes; from the first one on, the target is the owner.
    changes: watch::Sender<u64>,
}

#[async_trait]
impl Topology for Two {
    fn primary(&self, _: &[u8]) -> Arc<dyn Server> {
        let owner = if *self.changes.borrow() == 0 { &self.owner } else { &self.target };
        Arc::clone(owner) as Arc<dyn Server>
    }

    fn primaries(&self) -> Vec<Arc<dyn Server>> {
        vec![self.primary(b"")]
    }

    fn at(&self, _: &Address) -> Option<Arc<dyn Server>> {
        Some(Arc::clone(&self.target) as Arc<dyn Server>)
    }

    fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    async fn close(&self) {}
}

#[tokio::test]
async fn a_moving_slot_at_a_dead_node_is_retried_with_pauses() {
    let sends_on = |_: &Request| Err(ServerError::Refused { code: Code::Ask, message: "ASK 1 target:1".into() });
    let is_down = |_: &Request| Err(ServerError::NotSent { reason: "no connection".into() });
    let owner = Arc::new(FakeServer::new("owner:1", sends_on));
    let target = Arc::new(FakeServer::new("target:1", is_down).down());
    let two = Two { owner: Arc::clone(&owner), target, changes: watch::Sender::new(0) };
    let config = Config::single("owner").unwrap().response_timeout(Duration::from_millis(500)).retries(1);
    let client = Client::over(Arc::new(two), config, Clock::boot()).unwrap();
    let told = client.command("GET").key("a").unwrap().query::<Option<String>>().await;
    assert!(matches!(told, Err(ServerError::NotSent { .. })), "{told:?}");
    // The request is retried for one second, with pauses of 100 ms.
    let asked = owner.asked();
    assert!((2..40).contains(&asked), "{asked}");
}

#[tokio::test]
async fn a_grant_of_a_replaced_primary_is_not_valid() {
    let owner = Arc::new(FakeServer::new("owner:1", granting("1700000000000000")).stuck_at("lock/acquire"));
    let target = Arc::new(FakeServer::new("target:1", granting("1700000000000001")));
    let two = Arc::new(Two { owner: Arc::clone(&owner), target, changes: watch::Sender::new(0) });
    let config = Config::single("owner").unwrap();
    let client = Client::over(Arc::clone(&two) as Arc<dyn Topology>, config, Clock::boot()).unwrap();
    let acquiring = tokio::spawn(Lock::new(&client, "a").acquire().into_future());
    wait_until(SOON, async || owner.asked() > 0).await;
    // The owner stalls and is replaced. When it continues, it has no information about its
    // replacement yet.
    two.changes.send_modify(|count| *count += 1);
    owner.confirm();
    let guard = acquiring.await.unwrap().unwrap();
    assert_eq!(guard.token().get(), 1_700_000_000_000_001);
}

/// A reply of a replaced primary does not count for a renewal either: the hold ends with its last
/// lease.
#[tokio::test(start_paused = true)]
async fn a_renewal_of_a_replaced_primary_moves_no_deadline() {
    let renews = |request: &Request| match request.label() {
        "lock/acquire" => Ok(granted("1700000000000000")),
        _ => Ok(Reply::Array(vec![Reply::Int(1)])),
    };
    let is_down = |_: &Request| Err(ServerError::NotSent { reason: "no connection".into() });
    let owner = Arc::new(FakeServer::new("owner:1", renews).stuck_at("lock/renew"));
    let target = Arc::new(FakeServer::new("target:1", is_down));
    let two = Arc::new(Two { owner: Arc::clone(&owner), target, changes: watch::Sender::new(0) });
    let lease = Duration::from_secs(6);
    let config = Config::single("owner").unwrap().watchdog_lease(lease);
    let client = Client::over(Arc::clone(&two) as Arc<dyn Topology>, config, Clock::runtime()).unwrap();
    let begin = tokio::time::Instant::now();
    let guard = Lock::new(&client, "a").acquire().await.unwrap();
    wait_until(SOON, async || owner.asked() > 1).await;
    two.changes.send_modify(|count| *count += 1);
    owner.confirm();
    assert_eq!(guard.lost().await, LostReason::Expired);
    assert!(begin.elapsed() < lease, "{:?}", begin.elapsed());
}

#[tokio::test]
async fn a_hanging_replaced_primary_is_not_waited_for() {
    let owner = Arc::new(FakeServer::new("owner:1", granting("1700000000000000")).stuck_at("lock/acquire"));
    let target = Arc::new(FakeServer::new("target:1", granting("1700000000000001")));
    let two = Arc::new(Two { owner: Arc::clone(&owner), target, changes: watch::Sender::new(0) });
    // The timeout is so long that the test would fail if the client waited for the reply.
    let config = Config::single("owner").unwrap().response_timeout(SOON * 10);
    let client = Client::over(Arc::clone(&two) as Arc<dyn Topology>, config, Clock::boot()).unwrap();
    let acquiring = tokio::spawn(Lock::new(&client, "a").acquire().into_future());
    wait_until(SOON, async || owner.asked() > 0).await;
    two.changes.send_modify(|count| *count += 1);
    let guard = tokio::time::timeout(SOON, acquiring).await.unwrap().unwrap().unwrap();
    assert_eq!(guard.token().get(), 1_700_000_000_000_001);
}

/// Another node may take over an address, for example when a node is dropped and connected again.
/// The interruption is reported even if a new watcher subscribes before the client has noticed the
/// change.
#[tokio::test]
async fn an_interruption_by_another_node_at_the_same_address_is_reported() {
    let node = || Arc::new(FakeServer::new("same:1", |_| Ok(Reply::Nil)));
    let two = Arc::new(Two { owner: node(), target: node(), changes: watch::Sender::new(0) });
    let config = Config::single("same").unwrap();
    let client = Client::over(Arc::clone(&two) as Arc<dyn Topology>, config, Clock::boot()).unwrap();
    let first = client.watch("first".into(), "first".into());
    wait_until(SOON, async || first.is_active()).await;
    let mut events = client.events();
    // The other node takes over the address, without a notification.
    two.changes.send_if_modified(|count| {
        *count += 1;
        false
    });
    let second = client.watch("second".into(), "second".into());
    let gap = async { while !matches!(events.recv().await.expect("the client lives"), ConnectionEvent::Gap { .. }) {} };
    tokio::time::timeout(SOON, gap).await.expect("a gap is reported");
    assert!(first.is_active() && second.is_active());
    assert_eq!(two.target.listened().len(), 3, "with the client's own");
}

#[tokio::test]
async fn a_change_answered_by_a_replaced_primary_is_unknown() {
    let owner = Arc::new(FakeServer::new("owner:1", |_| Ok(Reply::Int(1))).stuck_at("INCR"));
    let target = Arc::new(FakeServer::new("target:1", |_| Ok(Reply::Int(1))));
    let two = Arc::new(Two { owner: Arc::clone(&owner), target, changes: watch::Sender::new(0) });
    let config = Config::single("owner").unwrap();
    let client = Client::over(Arc::clone(&two) as Arc<dyn Topology>, config, Clock::boot()).unwrap();
    let adding = tokio::spawn(client.command("INCR").key("a").unwrap().query::<i64>());
    wait_until(SOON, async || owner.asked() > 0).await;
    two.changes.send_modify(|count| *count += 1);
    owner.confirm();
    let told = adding.await.unwrap();
    assert!(matches!(told, Err(ServerError::Unknown { .. })), "{told:?}");
}

#[tokio::test]
async fn a_redirected_change_is_waited_for_although_its_owner_was_replaced() {
    let sends_on = |_: &Request| Err(ServerError::Refused { code: Code::Moved, message: "MOVED 1 target:1".into() });
    let owner = Arc::new(FakeServer::new("owner:1", sends_on));
    let target = Arc::new(FakeServer::new("target:1", |_| Ok(Reply::Int(1))).stuck_at("INCR"));
    let two = Arc::new(Two { owner, target: Arc::clone(&target), changes: watch::Sender::new(0) });
    let config = Config::single("owner").unwrap();
    let client = Client::over(Arc::clone(&two) as Arc<dyn Topology>, config, Clock::boot()).unwrap();
    let mut adding = tokio::spawn(client.command("INCR").key("a").unwrap().query::<i64>());
    wait_until(SOON, async || target.asked() > 0).await;
    two.changes.send_modify(|count| *count += 1);
    // This is several times as long as the client waits for a replaced server.
    let early = tokio::time::timeout(Duration::from_millis(700), &mut adding).await;
    assert!(early.is_err(), "{early:?}");
    target.confirm();
    assert_eq!(adding.await.unwrap().unwrap(), 1);
}
