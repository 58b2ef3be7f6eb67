//! Effects of unanswered retransmissions: their grants are released, and no uncertain result is
//! reported.

use std::time::Duration;

use redgrid_core::{Client, Failure};
use redgrid_locks::{AcquireError, Lock};
use redgrid_testkit::{Action, Direction, Fault, Observer, Proxy, RedisServer, wait_until};
use redgrid_tests::{NOTHING, SOON, client, client_with, listening, script, server};

const TIMEOUT: Duration = Duration::from_secs(2);

struct Harness {
    server: RedisServer,
    proxy: Proxy,
    observer: Observer,
    client: Client,
    elsewhere: Client,
}

async fn harness() -> Harness {
    let server = server().await;
    let proxy = Proxy::to(&server).await.unwrap();
    let observer = server.observer().await.unwrap();
    let client = client_with(&server.url_via(proxy.addr()), |config| config.response_timeout(TIMEOUT)).await;
    listening(&server, &client).await;
    let elsewhere = redgrid_tests::client(&server).await;
    // The server has cached all scripts, so a held or lost request is an EVALSHA.
    Lock::new(&client, "warm").acquire().await.unwrap().release().await.unwrap();
    Harness { server, proxy, observer, client, elsewhere }
}

impl Harness {
    /// Waits for a request to be held back, and closes its connection.
    async fn cut_off(&self) {
        wait_until(SOON, async || self.proxy.counts().held == 1).await;
        self.proxy.cut_all();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn not_held_is_never_reported_while_a_copy_may_still_acquire() {
    let harness = harness().await;
    let held = Lock::new(&harness.elsewhere, "a").acquire().await.unwrap();
    harness.proxy.next(1, script!("acquire"), Action::Hold);
    let asking =
        tokio::spawn(Lock::new(&harness.client, "a").acquire().timeout(Duration::from_millis(800)).into_future());
    harness.cut_off().await;
    let told = asking.await.unwrap();
    held.release().await.unwrap();
    assert_eq!(harness.proxy.release_held().await, 1);
    // The late copy acquired the lock, or was refused as too late. In the first case the reported
    // error must not exclude that the lock is held.
    if harness.observer.exists("a").await.unwrap() {
        assert!(matches!(told, Err(AcquireError::Failed(Failure::OutcomeUnknown { .. }))), "{told:?}");
    }
    // In this case the client releases the lock long before its lease of 30 s ends.
    wait_until(TIMEOUT * 2, async || !harness.observer.exists("a").await.unwrap()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_grant_of_a_late_copy_after_a_busy_reply_is_released() {
    let harness = harness().await;
    let held = Lock::new(&harness.elsewhere, "a").acquire().await.unwrap();
    harness.proxy.next(1, script!("acquire"), Action::Hold);
    let trying = tokio::spawn(Lock::new(&harness.client, "a").try_acquire().into_future());
    harness.cut_off().await;
    // The second copy gets the reply "busy". The effect of the first copy is unknown, so the result
    // must not be "held by others".
    let told = trying.await.unwrap();
    assert!(matches!(told, Err(AcquireError::Failed(Failure::OutcomeUnknown { .. }))), "{told:?}");
    held.release().await.unwrap();
    assert_eq!(harness.proxy.release_held().await, 1);
    wait_until(TIMEOUT * 2, async || !harness.observer.exists("a").await.unwrap()).await;
    wait_until(SOON, async || harness.client.stats() == NOTHING).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unanswered_grant_is_released_at_once() {
    let server = server().await;
    let proxy = Proxy::to(&server).await.unwrap();
    let observer = server.observer().await.unwrap();
    // With this timeout, a release that waits until no copy can arrive would take 10 s.
    let timeout = Duration::from_secs(10);
    let client = client_with(&server.url_via(proxy.addr()), |config| config.response_timeout(timeout).retries(0)).await;
    Lock::new(&client, "warm").acquire().await.unwrap().release().await.unwrap();
    proxy.next(1, script!("acquire"), Action::SwallowReply);
    let asking = tokio::spawn(Lock::new(&client, "a").acquire().into_future());
    wait_until(SOON, async || observer.exists("a").await.unwrap()).await;
    proxy.cut_all();
    let told = asking.await.unwrap();
    assert!(matches!(told, Err(AcquireError::Failed(Failure::OutcomeUnknown { .. }))), "{told:?}");
    wait_until(timeout / 2, async || !observer.exists("a").await.unwrap()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_grant_that_arrives_during_a_shutdown_goes_back() {
    let harness = harness().await;
    for n in 0..5 {
        let client = client_with(&harness.server.url_via(harness.proxy.addr()), |config| config).await;
        let name = format!("a{n}");
        Lock::new(&client, "warm").acquire().await.unwrap().release().await.unwrap();
        harness.proxy.set(Direction::ToClient, Fault::Stall);
        let asking = tokio::spawn(Lock::new(&client, &name).acquire().into_future());
        wait_until(SOON, async || harness.observer.exists(&name).await.unwrap()).await;
        let (down, ()) = tokio::join!(client.shutdown(SOON), async {
            wait_until(SOON, async || asking.is_finished()).await;
            harness.proxy.set(Direction::ToClient, Fault::Pass);
        });
        down.unwrap();
        assert!(matches!(asking.await.unwrap(), Err(AcquireError::Failed(Failure::ShuttingDown { .. }))));
        assert!(!harness.observer.exists(&name).await.unwrap(), "shut down, and still there");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_grant_that_was_taken_over_before_it_was_known_is_invalid() {
    let harness = harness().await;
    for n in 0..5 {
        let name = format!("a{n}");
        // The reply of the grant is stalled. The notice of the takeover is on another connection,
        // and arrives together with the reply or before it.
        harness.proxy.set(Direction::ToClient, Fault::Stall);
        let ask = Lock::new(&harness.client, &name).acquire().lease(SOON);
        let asking = tokio::spawn(ask.into_future());
        wait_until(SOON, async || harness.observer.exists(&name).await.unwrap()).await;
        let thief = Lock::new(&harness.elsewhere, &name).steal().await.unwrap();
        harness.proxy.set(Direction::ToClient, Fault::Pass);
        // The request either waits because the lock is taken, or has held the lock for a moment.
        let late = async {
            wait_until(SOON, async || asking.is_finished() || harness.client.stats().channels == 1).await;
        };
        late.await;
        if asking.is_finished() {
            let guard = asking.await.unwrap().unwrap();
            wait_until(Duration::from_secs(1), async || !guard.is_held()).await;
            thief.release().await.unwrap();
        } else {
            thief.release().await.unwrap();
            asking.await.unwrap().unwrap().release().await.unwrap();
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_once_lock_with_a_late_copy_stays_taken_as_required() {
    let harness = harness().await;
    let keep = Duration::from_secs(6);
    harness.proxy.next(1, script!("acquire"), Action::Hold);
    let ask = Lock::new(&harness.client, "job").try_acquire().hold_at_least(keep);
    let asking = tokio::spawn(ask.into_future());
    harness.cut_off().await;
    let began = tokio::time::Instant::now();
    let guard = asking.await.unwrap().unwrap().unwrap();
    guard.release().await.unwrap();
    // The client releases the lock a second time when all copies can only be refused. Until then
    // the lock must stay taken.
    let limit = TIMEOUT + Duration::from_millis(500);
    while began.elapsed() < limit {
        assert!(harness.observer.exists("job").await.unwrap(), "free after {:?}", began.elapsed());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert!(harness.observer.time_to_live("job").await.unwrap().unwrap() > Duration::from_secs(1));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_acquire_that_is_carried_out_twice_does_not_shorten_its_lease() {
    let server = server().await;
    let observer = server.observer().await.unwrap();
    let text = include_str!("../../crates/redgrid-locks/src/scripts/acquire.lua");
    let far = "99999999999999999";
    for lease in ["60000", "1000"] {
        let granted_at: u64 = observer.query(&["EVAL", text, "1", "a", "holder:1", lease, far]).await.unwrap();
        assert!(granted_at > 0);
    }
    assert!(observer.time_to_live("a").await.unwrap().unwrap() > Duration::from_secs(50));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_denied_channel_costs_one_connection_not_one_for_each_wait() {
    let server = server().await;
    let observer = server.observer().await.unwrap();
    let rules = ["on", ">secret", "~*", "resetchannels", "&redgrid_client:*", "+@all"];
    server.set_user("half", &rules).await.unwrap();
    let holder = client(&server).await;
    let denied = client_with(&server.url_for("half", "secret"), |config| config).await;
    listening(&server, &denied).await;
    let _held = Lock::new(&holder, "a").acquire().await.unwrap();
    let connections = async || {
        let info: String = observer.query(&["INFO", "stats"]).await.unwrap();
        let made = info.lines().find_map(|line| line.strip_prefix("total_connections_received:"));
        made.unwrap().trim().parse::<u64>().unwrap()
    };
    let before = connections().await;
    for _ in 0..12 {
        let wait = Duration::from_millis(150);
        let told = Lock::new(&denied, "a").acquire().timeout(wait).await;
        assert!(matches!(told, Err(AcquireError::TimedOut { .. })), "{told:?}");
    }
    let made = connections().await - before;
    assert!(made <= 3, "{made} connections for 12 waits");
}
