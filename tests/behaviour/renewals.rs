//! Renewal in bulk: many names per script, errors of single names, and no renewal after a release.

use std::time::Duration;

use redgrid_locks::{Lock, LockGuard, LostReason};
use redgrid_testkit::{Observer, wait_until};
use redgrid_tests::stopwatch::Stopwatch;
use redgrid_tests::{SOON, client_with, server};

/// The number of scripts that the server has run.
async fn script_calls(observer: &Observer) -> i64 {
    let info: String = observer.query(&["INFO", "commandstats"]).await.unwrap();
    let calls = |name: &str| {
        let line = info.lines().find_map(|line| line.strip_prefix(&format!("cmdstat_{name}:calls=")));
        line.and_then(|rest| rest.split(',').next()?.parse::<i64>().ok()).unwrap_or(0)
    };
    calls("evalsha") + calls("eval")
}

#[tokio::test(flavor = "multi_thread")]
async fn ten_thousand_locks_are_renewed_a_hundred_per_script_after_a_burst() {
    let server = server().await;
    let observer = server.observer().await.unwrap();
    let lease = Duration::from_secs(12);
    let client = client_with(&server.url(), |config| config.watchdog_lease(lease)).await;
    // Short locks in a burst; these must not be renewed after their release.
    for n in 0..2000 {
        Lock::new(&client, format!("burst:{n}")).acquire().await.unwrap().release().await.unwrap();
    }
    let mut guards: Vec<LockGuard> = Vec::new();
    for chunk in 0..100 {
        let locks: Vec<_> = (0..100).map(|n| Lock::new(&client, format!("held:{chunk}:{n}"))).collect();
        let got = futures_util::future::join_all(locks.iter().map(|lock| lock.acquire().into_future())).await;
        guards.extend(got.into_iter().map(Result::unwrap));
    }
    // Two rounds of renewals, counted over exactly two intervals of a third of the lease.
    let calls = script_calls(&observer).await;
    let began = tokio::time::Instant::now();
    let left = guards.iter().map(LockGuard::remaining).min().unwrap();
    tokio::time::sleep_until(began + 2 * lease / 3).await;
    let calls = script_calls(&observer).await - calls;
    assert!((100..=202).contains(&calls), "{calls} scripts for two rounds of 10,000 names; {left:?} were left");
    tokio::time::sleep_until(began + lease + Duration::from_secs(1)).await;
    assert!(guards.iter().all(LockGuard::is_held), "all are held after more than a lease");
    client.shutdown(SOON).await.unwrap();
    assert!(observer.keys("*").await.unwrap().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_type_and_a_denied_key_do_not_end_the_others() {
    let server = server().await;
    let observer = server.observer().await.unwrap();
    let everything = "on >secret ~* &* +@all";
    let rules: Vec<&str> = ["ACL", "SETUSER", "app"].into_iter().chain(everything.split(' ')).collect();
    observer.cmd(&rules).await.unwrap();
    let lease = Duration::from_secs(3);
    let client = client_with(&server.url_for("app", "secret"), |config| config.watchdog_lease(lease)).await;
    let mut guards = Vec::new();
    for n in 0..100 {
        guards.push(
            Lock::new(&client, format!("{}:{n}", if n == 17 { "denied" } else { "open" })).acquire().await.unwrap(),
        );
    }
    observer.cmd(&["SET", "open:42", "not a lock"]).await.unwrap();
    observer.cmd(&["ACL", "SETUSER", "app", "resetkeys", "~open:*"]).await.unwrap();
    // Waits longer than a lease, so a lock that is still held was renewed.
    let began = tokio::time::Instant::now();
    tokio::time::sleep_until(began + lease + Duration::from_millis(500)).await;
    let held: Vec<usize> = (0..100).filter(|n| guards[*n].is_held()).collect();
    assert_eq!(held.len(), 98, "{held:?}");
    assert!(!held.contains(&17) && !held.contains(&42));
    assert_eq!(guards[42].lost().await, LostReason::Expired);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deleted_lock_is_reported_within_one_renewal_interval() {
    let server = server().await;
    let observer = server.observer().await.unwrap();
    let client = client_with(&server.url(), |config| config.watchdog_lease(Duration::from_secs(9))).await;
    let deleted = Lock::new(&client, "deleted").acquire().await.unwrap();
    let taken = Lock::new(&client, "taken").acquire().await.unwrap();
    observer.cmd(&["DEL", "deleted"]).await.unwrap();
    observer.cmd(&["DEL", "taken"]).await.unwrap();
    observer.cmd(&["HSET", "taken", "6f1c7a52-3c2e-4a8f-9a63-5c1f0ad7b9aa:1", "1"]).await.unwrap();
    let watch = Stopwatch::start();
    let told = async { (deleted.lost().await, taken.lost().await) };
    let told = tokio::time::timeout(SOON, told).await.expect("both are reported");
    // The renewal interval is 3 s.
    watch.assert_within(Duration::from_millis(3500));
    assert_eq!(told, (LostReason::Gone, LostReason::Gone));
    drop((deleted, taken));
    // The release of a lost lock takes nothing from its present holder.
    wait_until(SOON, async || client.stats().names == 0).await;
    assert!(observer.exists("taken").await.unwrap());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_renewal_never_shortens_and_a_fixed_lease_is_not_renewed() {
    let server = server().await;
    let observer = server.observer().await.unwrap();
    let client = client_with(&server.url(), |config| config.watchdog_lease(Duration::from_millis(900))).await;
    let renewed = Lock::new(&client, "renewed").acquire().await.unwrap();
    renewed.extend(Duration::from_secs(60)).await.unwrap();
    let fixed = Lock::new(&client, "fixed").acquire().lease(Duration::from_millis(900)).await.unwrap();
    assert_eq!(fixed.lost().await, LostReason::Expired);
    wait_until(SOON, async || !observer.exists("fixed").await.unwrap()).await;
    let left = observer.time_to_live("renewed").await.unwrap().unwrap();
    assert!(left > Duration::from_secs(50) && renewed.remaining() > Duration::from_secs(50), "{left:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_longest_hold_ends_renewal() {
    let server = server().await;
    let client = client_with(&server.url(), |config| config.watchdog_lease(Duration::from_secs(2))).await;
    let (began, watch, longest) = (std::time::Instant::now(), Stopwatch::start(), Duration::from_secs(3));
    let guard = Lock::new(&client, "a").acquire().hold_at_most(longest).await.unwrap();
    assert_eq!(guard.lost().await, LostReason::Expired);
    assert!(began.elapsed() > longest, "{:?}", began.elapsed());
    // The hold ends at most one lease (2 s) after `longest`.
    watch.assert_within(longest + Duration::from_secs(3));
}

#[tokio::test(flavor = "multi_thread")]
async fn all_holds_are_verified_on_a_new_command_connection() {
    let server = server().await;
    let observer = server.observer().await.unwrap();
    let client = client_with(&server.url(), |config| config.watchdog_lease(10 * SOON)).await;
    let renewed = Lock::new(&client, "renewed").acquire().await.unwrap();
    let fixed = Lock::new(&client, "fixed").acquire().lease(10 * SOON).await.unwrap();
    observer.cmd(&["DEL", "renewed", "fixed"]).await.unwrap();
    // Only the command connection is killed, so the subscription does not notice.
    assert!(server.kill_connections_named("redgrid").await.unwrap() > 0);
    let told = async { (renewed.lost().await, fixed.lost().await) };
    let told = tokio::time::timeout(SOON, told).await.expect("long before a renewal is due");
    assert_eq!(told, (LostReason::Gone, LostReason::Gone));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deleted_lock_with_a_fixed_lease_is_reported_as_soon_as_a_renewed_one() {
    let server = server().await;
    let client = client_with(&server.url(), |config| config.watchdog_lease(Duration::from_millis(900))).await;
    let guard = Lock::new(&client, "a").acquire().lease(10 * SOON).await.unwrap();
    assert!(server.delete_key("a").await.unwrap());
    // The renewal interval is 300 ms; the lease would end in ten minutes.
    let told = tokio::time::timeout(SOON, guard.lost()).await;
    assert_eq!(told, Ok(LostReason::Gone));
}
