//! Lost replies, and requests that arrive late.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures_util::future::join_all;
use redgrid_core::Failure;
use redgrid_locks::{AcquireError, Client, ExtendError, Lock};
use redgrid_testkit::{Action, Observer, Proxy, RedisServer, ServerBinary, wait_until};
use redgrid_tests::{SOON, client, client_with, script, server};

struct Harness {
    server: RedisServer,
    proxy: Proxy,
    observer: Observer,
    client: Client,
}

/// A client behind a proxy, with this response timeout; every script is loaded on the server.
async fn harness(timeout: Duration) -> Harness {
    harness_on(server().await, timeout).await
}

async fn harness_on(server: RedisServer, timeout: Duration) -> Harness {
    let proxy = Proxy::to(&server).await.unwrap();
    let observer = server.observer().await.unwrap();
    let client = client_with(&server.url_via(proxy.addr()), |config| config.response_timeout(timeout)).await;
    let warm = Lock::new(&client, "warm");
    let guard = warm.acquire().lease(Duration::from_secs(10)).await.unwrap();
    guard.extend(Duration::from_secs(20)).await.unwrap();
    guard.extend(Duration::from_secs(5)).await.unwrap();
    guard.release().await.unwrap();
    drop(warm.steal().await.unwrap());
    warm.acquire().hold_at_least(Duration::from_millis(200)).await.unwrap().release().await.unwrap();
    wait_until(SOON, async || !observer.exists("warm").await.unwrap()).await;
    Harness { server, proxy, observer, client }
}

const QUICK: Duration = Duration::from_millis(600);

impl Harness {
    fn swallow(&self, sha: &str) {
        self.proxy.next(1, sha, Action::SwallowReply);
    }

    fn swallowed(&self) -> u64 {
        self.proxy.counts().swallowed
    }

    /// Waits until every late copy can only be refused. Then there must be no key, the client must
    /// be idle, and the lock must be free.
    async fn all_clear(&self, timeout: Duration) {
        wait_until(timeout + Duration::from_secs(1), async || {
            self.client.stats().names == 0 && !self.observer.exists("a").await.unwrap()
        })
        .await;
        let other = client(&self.server).await;
        Lock::new(&other, "a").try_acquire().await.unwrap().unwrap().release().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_grant_is_found_again_and_one_release_frees_it() {
    let harness = harness(QUICK).await;
    harness.swallow(&script!("acquire"));
    let guard = Lock::new(&harness.client, "a").acquire().timeout(SOON).await.unwrap();
    assert_eq!(harness.swallowed(), 1);
    let fields: Vec<(String, i64)> = harness.observer.query(&["HGETALL", "a"]).await.unwrap();
    assert_eq!((fields.len(), fields[0].1), (1, 1), "held exactly once");
    guard.release().await.unwrap();
    assert!(!harness.observer.exists("a").await.unwrap());
    harness.all_clear(QUICK).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_answer_to_a_release_is_still_a_release() {
    let harness = harness(QUICK).await;
    let guard = Lock::new(&harness.client, "a").acquire().await.unwrap();
    harness.swallow(&script!("release"));
    guard.release().await.unwrap();
    assert_eq!(harness.swallowed(), 1);
    harness.all_clear(QUICK).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_answer_to_a_renewal_costs_nothing() {
    let harness = harness(QUICK).await;
    let guard = Lock::new(&harness.client, "a").acquire().auto_renew(Duration::from_secs(3)).await.unwrap();
    harness.swallow(&script!("renew"));
    wait_until(SOON, async || harness.swallowed() == 1).await;
    let until = tokio::time::Instant::now() + Duration::from_secs(4);
    tokio::time::sleep_until(until).await;
    assert!(guard.is_held());
    guard.release().await.unwrap();
    harness.all_clear(QUICK).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn lost_replies_to_reads_are_retried() {
    let harness = harness(QUICK).await;
    let elsewhere = client(&harness.server).await;
    let held = Lock::new(&elsewhere, "a").acquire().await.unwrap();
    let lock = Lock::new(&harness.client, "a");
    assert!(lock.is_locked().await.unwrap());
    harness.swallow(&script!("inspect"));
    assert!(lock.is_locked().await.unwrap());
    // The connection is lost with the reply to a waiter's poll, and the waiter still acquires the
    // lock.
    let waiter = tokio::spawn(lock.acquire().timeout(SOON).into_future());
    harness.swallow(&redgrid_tests::sha(include_str!("../../crates/redgrid-client/src/pubsub/ttl.lua")));
    wait_until(SOON, async || harness.swallowed() == 2).await;
    held.release().await.unwrap();
    waiter.await.unwrap().unwrap().release().await.unwrap();
    harness.all_clear(QUICK).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_reply_to_a_takeover_leaves_one_holder() {
    let harness = harness(QUICK).await;
    let victim = client(&harness.server).await;
    let held = Lock::new(&victim, "a").acquire().await.unwrap();
    harness.swallow(&script!("takeover"));
    let thief = Lock::new(&harness.client, "a").steal().await.unwrap();
    assert_eq!(harness.swallowed(), 1);
    assert!(thief.token() > held.token() && thief.is_held());
    let fields: Vec<(String, i64)> = harness.observer.query(&["HGETALL", "a"]).await.unwrap();
    assert_eq!(fields.len(), 1);
    thief.release().await.unwrap();
    assert!(held.release().await.is_err());
    harness.all_clear(QUICK).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn lost_replies_at_a_retained_release_and_a_shutdown_do_no_harm() {
    let harness = harness(QUICK).await;
    let keep = Duration::from_secs(3);
    let turn = Lock::new(&harness.client, "a").acquire().hold_at_least(keep).await.unwrap();
    harness.swallow(&script!("retain"));
    turn.release().await.unwrap();
    assert_eq!(harness.swallowed(), 1);
    let left = harness.observer.time_to_live("a").await.unwrap().unwrap();
    assert!(left <= keep + Duration::from_millis(50), "{left:?}");
    wait_until(SOON, async || !harness.observer.exists("a").await.unwrap()).await;

    let held = Lock::new(&harness.client, "a").acquire().await.unwrap();
    // The server caches this script at its first use.
    let other = client(&harness.server).await;
    let warm = Lock::new(&other, "warm").acquire().await.unwrap();
    other.shutdown(SOON).await.unwrap();
    drop(warm);
    harness.swallow(&script!("release_many"));
    harness.client.shutdown(SOON).await.unwrap();
    assert_eq!(harness.swallowed(), 2);
    drop(held);
    assert!(harness.observer.keys("*").await.unwrap().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_reply_to_an_extension_is_reported_or_repaired() {
    let harness = harness(QUICK).await;
    let guard = Lock::new(&harness.client, "a").acquire().lease(Duration::from_secs(10)).await.unwrap();
    // A repeated lengthening has no further effect.
    harness.swallow(&script!("renew"));
    guard.extend(Duration::from_secs(30)).await.unwrap();
    assert!(guard.remaining() > Duration::from_secs(25));
    // A shortening is never repeated; the earlier end applies.
    harness.swallow(&script!("extend"));
    let unknown = guard.extend(Duration::from_secs(8)).await;
    assert!(matches!(unknown, Err(ExtendError::OutcomeUnknown { .. })), "{unknown:?}");
    assert_eq!(harness.swallowed(), 2);
    assert!(guard.remaining() <= Duration::from_secs(8) && guard.is_held());
    guard.release().await.unwrap();
    harness.all_clear(QUICK).await;
}

/// Holds back the first copy of an acquire, lets the second copy be granted and released, and then
/// lets the first copy arrive.
async fn a_late_copy(server: RedisServer, arrives_in_time: bool) {
    let timeout = Duration::from_secs(2);
    let harness = harness_on(server, timeout).await;
    harness.proxy.next(1, script!("acquire"), Action::Hold);
    let asking = tokio::spawn({
        let lock = Lock::new(&harness.client, "a");
        async move { lock.acquire().timeout(SOON).await }
    });
    wait_until(SOON, async || harness.proxy.counts().held == 1).await;
    let limit = tokio::time::Instant::now() + timeout;
    harness.proxy.cut_all();
    asking.await.unwrap().unwrap().release().await.unwrap();
    assert!(!harness.observer.exists("a").await.unwrap());
    if !arrives_in_time {
        tokio::time::sleep_until(limit).await;
    }
    assert_eq!(harness.proxy.release_held().await, 1);
    // A copy that arrives in time is executed, and acquires the lock for an attempt that has ended.
    // A late copy is refused.
    assert_eq!(harness.observer.exists("a").await.unwrap(), arrives_in_time);
    harness.all_clear(timeout).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_late_copy_of_an_acquire_that_arrives_in_time_leaves_nothing() {
    a_late_copy(server().await, true).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_late_copy_of_an_acquire_that_arrives_too_late_is_not_carried_out() {
    a_late_copy(server().await, false).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn late_copies_leave_nothing_on_the_newest_server_either() {
    let test = "late_copies_leave_nothing_on_the_newest_server_either";
    let Some(newest) = ServerBinary::newest_or_skip(test) else { return };
    let start = || async { RedisServer::builder().binary(newest.clone()).start().await.unwrap() };
    a_late_copy(start().await, true).await;
    a_late_copy(start().await, false).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_late_retransmission_of_a_cancelled_caller_leaves_nothing() {
    let timeout = Duration::from_secs(2);
    let harness = harness(timeout).await;
    harness.proxy.next(1, script!("acquire"), Action::Hold);
    let lock = Lock::new(&harness.client, "a");
    let gave_up = lock.acquire().timeout(Duration::from_millis(300)).await;
    assert!(matches!(gave_up, Err(AcquireError::Failed(Failure::OutcomeUnknown { .. }))), "{gave_up:?}");
    harness.proxy.cut_all();
    assert_eq!(harness.proxy.release_held().await, 1);
    harness.all_clear(timeout).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_late_shortening_never_frees_a_lock_that_counts_as_held() {
    let timeout = Duration::from_secs(2);
    let harness = harness(timeout).await;
    let guard = Lock::new(&harness.client, "a").acquire().lease(Duration::from_secs(10)).await.unwrap();
    harness.proxy.next(1, script!("extend"), Action::Hold);
    let shorter = Duration::from_millis(1500);
    let (unknown, ()) = tokio::join!(guard.extend(shorter), async {
        wait_until(SOON, async || harness.proxy.counts().held == 1).await;
        assert!(guard.remaining() < shorter, "the shorter lease counts from the request on");
        harness.proxy.cut_all();
    });
    assert!(matches!(unknown, Err(ExtendError::OutcomeUnknown { .. })), "{unknown:?}");
    // The lease is lengthened while the shortening may still arrive, so the longer lease does not
    // apply.
    harness.client.wait_ready(SOON).await.unwrap();
    let longer = guard.extend(Duration::from_secs(30)).await;
    assert!(matches!(longer, Err(ExtendError::OutcomeUnknown { .. })), "{longer:?}");
    assert_eq!(harness.proxy.release_held().await, 1);
    let left = harness.observer.time_to_live("a").await.unwrap().unwrap();
    // With the safety margin of a nineteenth.
    assert!(left <= shorter + shorter / 10, "the late copy did shorten: {left:?}");
    while harness.observer.exists("a").await.unwrap() {
        tokio::task::yield_now().await;
    }
    assert!(!guard.is_held());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_renewal_delayed_past_its_release_changes_nothing() {
    let harness = harness(Duration::from_secs(2)).await;
    let guard = Lock::new(&harness.client, "a").acquire().auto_renew(Duration::from_secs(3)).await.unwrap();
    harness.proxy.next(1, script!("renew"), Action::Hold);
    wait_until(SOON, async || harness.proxy.counts().held == 1).await;
    harness.proxy.cut_all();
    guard.release().await.unwrap();
    let next = client(&harness.server).await;
    let taken = Lock::new(&next, "a").acquire().lease(Duration::from_secs(5)).await.unwrap();
    assert_eq!(harness.proxy.release_held().await, 1);
    let left = harness.observer.time_to_live("a").await.unwrap().unwrap();
    assert!(left > Duration::from_secs(4), "{left:?}");
    let fields: Vec<(String, i64)> = harness.observer.query(&["HGETALL", "a"]).await.unwrap();
    assert_eq!(fields.len(), 1);
    taken.release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn no_renewal_is_started_after_the_release_was_called() {
    let harness = harness(QUICK).await;
    let renew = script!("renew");
    let name = |n: u64| format!("name:{n}");
    let renewals: Arc<Vec<AtomicU64>> = Arc::new((0..50).map(|_| AtomicU64::new(0)).collect());
    let seen = Arc::clone(&renewals);
    harness.proxy.on_request(move |command| {
        if command.iter().any(|part| *part == renew) {
            let names = (0..).map(name).zip(seen.iter());
            names.filter(|(name, _)| command.iter().any(|part| *part == *name)).for_each(|(_, seen)| {
                seen.fetch_add(1, Ordering::Relaxed);
            });
        }
        Action::Forward
    });
    join_all((0..50).map(async |n| {
        let renewed = || renewals[n as usize].load(Ordering::Relaxed);
        let lock = Lock::new(&harness.client, name(n));
        let guard = lock.acquire().auto_renew(Duration::from_millis(900)).await.unwrap();
        // Near the first renewal, and sometimes after it.
        tokio::time::sleep_until(tokio::time::Instant::now() + Duration::from_millis(295 + n % 10)).await;
        let release = guard.release();
        let before = renewed();
        release.await.unwrap();
        // A renewal that was in flight when the release was called may be executed after it. No
        // further renewal is sent, although there is time for two.
        tokio::time::sleep_until(tokio::time::Instant::now() + Duration::from_millis(650)).await;
        assert!(renewed() - before <= 1);
    }))
    .await;
    assert!(renewals.iter().any(|renewals| renewals.load(Ordering::Relaxed) > 0), "some releases are near a renewal");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_forced_release_that_is_sent_again_late_takes_nothing_from_a_later_holder() {
    let harness = harness(Duration::from_secs(2)).await;
    let (wedged, next) = (client(&harness.server).await, client(&harness.server).await);
    let held = Lock::new(&wedged, "a").acquire().await.unwrap();
    harness.proxy.next(1, script!("takeover"), Action::CutAfterForward);
    harness.proxy.refuse_connections().await.unwrap();
    let forcing = tokio::spawn({
        let lock = Lock::new(&harness.client, "a");
        async move { lock.force_release().await }
    });
    tokio::time::timeout(SOON, held.lost()).await.unwrap();
    // The field of the forced acquire has a lifetime; the next acquire succeeds when it ends.
    let innocent = Lock::new(&next, "a").acquire().timeout(SOON).await.unwrap();
    harness.proxy.accept_connections().await.unwrap();
    let told = forcing.await.unwrap();
    assert!(matches!(told, Err(AcquireError::Failed(Failure::OutcomeUnknown { .. }))), "{told:?}");
    assert!(innocent.is_held());
    innocent.release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_acquire_that_runs_after_its_time_does_nothing() {
    let server = server().await;
    let observer = server.observer().await.unwrap();
    let script = include_str!("../../crates/redgrid-locks/src/scripts/acquire.lua");
    let request =
        |not_after: u64| ["EVAL", script, "1", "a", "holder:1", "1000", &not_after.to_string()].map(str::to_owned);
    let now = observer.server_time_micros().await.unwrap();
    let (status, _, _): (i64, u64, i64) = observer.query(&request(now)).await.unwrap();
    assert_eq!((status, observer.exists("a").await.unwrap()), (2, false));
    let granted_at: u64 = observer.query(&request(now + 60_000_000)).await.unwrap();
    assert_eq!((granted_at >= now, observer.exists("a").await.unwrap()), (true, true));
}
