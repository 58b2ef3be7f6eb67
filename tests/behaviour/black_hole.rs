//! The network drops all data: every call ends at its timeout, or with an error about missing
//! contact.

use std::future::IntoFuture;
use std::sync::Arc;
use std::time::Duration;

use redgrid_core::clock::Clock;
use redgrid_core::{Config, Failure, Token};
use redgrid_locks::{AcquireError, Client, Detached, Election, Fence, Lock, MultiLock};
use redgrid_testkit::{Direction, Fault, Proxy, RedisServer};
use redgrid_tests::fake_server::{FakeServer, granting};
use redgrid_tests::stopwatch::Stopwatch;
use redgrid_tests::{SOON, client_unready, server};

const TIMEOUT: Duration = Duration::from_millis(300);
const PATIENCE: Duration = Duration::from_millis(600);
const BOUND: Duration = Duration::from_millis(250);
const SLACK: Duration = Duration::from_millis(100);

#[derive(Clone, Copy, Debug)]
enum Phase {
    /// No reply has ever arrived.
    BeforeConnecting,
    /// Requests are lost.
    Requests,
    /// Replies are lost.
    Answers,
    /// Requests and replies are lost while a lock is held.
    Both,
}

struct Harness {
    _server: RedisServer,
    proxy: Proxy,
    client: Client,
    phase: Phase,
}

async fn harness(phase: Phase) -> Harness {
    let server = server().await;
    let proxy = Proxy::to(&server).await.unwrap();
    if matches!(phase, Phase::BeforeConnecting) {
        proxy.set_both(Fault::BlackHole);
    }
    let client = client_unready(&server.url_via(proxy.addr()), |config| {
        config.response_timeout(TIMEOUT).connect_timeout(TIMEOUT).retries(1).retry_delay(Duration::from_millis(20))
    })
    .await;
    if !matches!(phase, Phase::BeforeConnecting) {
        client.wait_ready(Duration::from_secs(10)).await.unwrap();
    }
    Harness { _server: server, proxy, client, phase }
}

impl Harness {
    fn break_network(&self) {
        match self.phase {
            Phase::BeforeConnecting => {}
            Phase::Requests => self.proxy.set(Direction::ToServer, Fault::BlackHole),
            Phase::Answers => self.proxy.set(Direction::ToClient, Fault::BlackHole),
            Phase::Both => self.proxy.set_both(Fault::BlackHole),
        }
    }
}

/// Runs `call` in a broken network. It must end within `bound` plus the slack.
async fn ends<T>(what: &str, phase: Phase, bound: Duration, call: impl AsyncFn(&Client) -> T) {
    let harness = harness(phase).await;
    harness.break_network();
    let watch = Stopwatch::start();
    let _ = tokio::time::timeout(SOON, call(&harness.client))
        .await
        .unwrap_or_else(|_| panic!("{what}, {phase:?}: does not end"));
    println!("{what}, {phase:?}");
    watch.assert_within(bound + SLACK);
}

fn several(client: &Client) -> MultiLock {
    MultiLock::new(client, ["a", "b", "c"])
}

fn detached() -> Detached {
    let (holder, lease) = (format!("{}:1", "0f8fad5b-d9cb-469f-a165-70867728950e"), 30_000);
    let text = format!(
        r#"{{"kind":"lock","name":"a","holder":"{holder}","token":1,"renewed":true,"lease_ms":{lease},"left_ms":{lease}}}"#
    );
    serde_json::from_str(&text).expect("a detached lock")
}

async fn every_call_ends(phase: Phase) {
    ends("acquire with a wait", phase, BOUND, async |c| Lock::new(c, "a").acquire().timeout(BOUND).await.map(drop))
        .await;
    ends("try with a wait", phase, BOUND, async |c| Lock::new(c, "a").try_acquire().timeout(BOUND).await.map(drop))
        .await;
    ends("several with a wait", phase, BOUND, async |c| several(c).acquire().timeout(BOUND).await.map(drop)).await;
    ends("try several with a wait", phase, BOUND, async |c| several(c).try_acquire().timeout(BOUND).await.map(drop))
        .await;
    ends("campaign with a wait", phase, BOUND, async |c| {
        Election::new(c, "a").campaign().timeout(BOUND).await.map(drop)
    })
    .await;
    ends("wait until free", phase, BOUND, async |c| Lock::new(c, "a").wait_until_free(Some(BOUND)).await).await;
    ends("wait ready", phase, BOUND, async |c| c.wait_ready(BOUND).await).await;
    ends("shutdown", phase, BOUND, async |c| c.shutdown(BOUND).await).await;
    ends("acquire", phase, PATIENCE, async |c| Lock::new(c, "a").acquire().await.map(drop)).await;
    ends("try", phase, PATIENCE, async |c| Lock::new(c, "a").try_acquire().await.map(drop)).await;
    ends("is locked", phase, PATIENCE, async |c| Lock::new(c, "a").is_locked().await).await;
    ends("force release", phase, PATIENCE, async |c| Lock::new(c, "a").force_release().await).await;
    ends("steal", phase, PATIENCE, async |c| Lock::new(c, "a").steal().await.map(drop)).await;
    ends("several", phase, PATIENCE, async |c| several(c).acquire().await.map(drop)).await;
    ends("try several", phase, PATIENCE, async |c| several(c).try_acquire().await.map(drop)).await;
    ends("campaign", phase, PATIENCE, async |c| Election::new(c, "a").campaign().await.map(drop)).await;
    ends("leader", phase, PATIENCE, async |c| Election::new(c, "a").leader().await.map(drop)).await;
    ends("fence", phase, PATIENCE, async |c| Fence::new(c, "a").check_and_set(Token::new(1)).await).await;
    ends("fenced write", phase, PATIENCE, async |c| Fence::new(c, "a").set("a", "x", Token::new(1)).await).await;
    ends("attach", phase, PATIENCE, async |c| Lock::new(c, "a").attach(&detached()).await.map(drop)).await;
    ends("command", phase, PATIENCE, async |c| c.command("PING").query::<String>().await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_call_ends_when_nothing_was_ever_answered() {
    every_call_ends(Phase::BeforeConnecting).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_call_ends_when_requests_vanish() {
    every_call_ends(Phase::Requests).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_call_ends_when_answers_vanish() {
    every_call_ends(Phase::Answers).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn held_locks_are_released_or_extended_within_their_lease() {
    let lease = Duration::from_secs(1);
    for extend in [false, true] {
        let harness = harness(Phase::Both).await;
        let watch = Stopwatch::start();
        let guard = Lock::new(&harness.client, "a").acquire().lease(lease).await.unwrap();
        harness.break_network();
        let failed =
            if extend { guard.extend(Duration::from_secs(5)).await.is_err() } else { guard.release().await.is_err() };
        assert!(failed);
        watch.assert_within(lease + SLACK);
    }
}

/// The timeout of a single caller applies. The clock is simulated, and the connection itself never
/// drops a request.
#[tokio::test(start_paused = true)]
async fn an_acquire_with_an_unanswered_request_ends_after_its_timeout() {
    let server = Arc::new(FakeServer::new("one:1", granting("1700000000000000")).stuck_at("lock/acquire"));
    let config = Config::single("one").unwrap().response_timeout(TIMEOUT).retries(1);
    let client = Client::over_one(server, config, Clock::runtime()).unwrap();
    let begun = tokio::time::Instant::now();
    let ended = tokio::time::timeout(10 * PATIENCE, Lock::new(&client, "a").acquire().into_future()).await;
    let took = begun.elapsed();
    assert!(matches!(ended, Ok(Err(AcquireError::Failed(Failure::OutcomeUnknown { .. })))), "{ended:?}");
    assert!(took >= PATIENCE && took < PATIENCE + SLACK, "{took:?}");
}
