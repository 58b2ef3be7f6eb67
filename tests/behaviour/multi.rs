//! Several locks acquired as one.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use redgrid_core::Failure;
use redgrid_locks::{AcquireError, FencedLock, Holder, Lock, LostReason, MultiLock, SpinLock};
use redgrid_testkit::{Action, Observer, Proxy, wait_until};
use redgrid_tests::{NOTHING, SOON, client, client_with, listening, server};

pub(super) const MS: Duration = Duration::from_millis(1);
/// Returns how many rounds two tasks run in opposite order. The full test has
/// `REDGRID_MULTI_ROUNDS=10000`.
fn rounds() -> u64 {
    std::env::var("REDGRID_MULTI_ROUNDS").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(250)
}

pub(super) async fn held(observer: &Observer) -> Vec<String> {
    let mut keys = observer.keys("name:*").await.unwrap();
    keys.sort();
    keys
}

#[tokio::test(flavor = "multi_thread")]
async fn all_are_taken_or_none() {
    let server = server().await;
    let (one, two, observer) = (client(&server).await, client(&server).await, server.observer().await.unwrap());
    let in_the_way = Lock::new(&two, "name:2").acquire().await.unwrap();
    let three = MultiLock::new(&one, ["name:3", "name:1", "name:2", "name:1"]);
    assert!(three.try_acquire().await.unwrap().is_none());
    assert_eq!(held(&observer).await, ["name:2"]);
    in_the_way.release().await.unwrap();

    let guard = three.try_acquire().await.unwrap().expect("all are free");
    assert!(guard.is_held());
    assert_eq!(held(&observer).await, ["name:1", "name:2", "name:3"]);
    let tokens: Vec<_> = guard.tokens().map(|(name, _)| name.as_str().to_owned()).collect();
    assert_eq!(tokens, ["name:1", "name:2", "name:3"]);
    assert!(Lock::new(&two, "name:1").try_acquire().await.unwrap().is_none());
    assert!(Lock::new(&one, "name:3").try_acquire().await.unwrap().is_none());
    let former = guard.token("name:2").unwrap();
    guard.release().await.unwrap();
    assert!(held(&observer).await.is_empty());
    let next = Lock::new(&two, "name:2").acquire().await.unwrap();
    assert!(next.token() > former);
    next.release().await.unwrap();
    assert_eq!((one.stats(), two.stats()), (NOTHING, NOTHING));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hundred_names_are_acquired_and_released_by_one_script_each() {
    let server = server().await;
    let proxy = Proxy::to(&server).await.unwrap();
    let client = client_with(&server.url_via(proxy.addr()), |config| config).await;
    listening(&server, &client).await;
    let names = || (0..100).map(|n| format!("name:{n}"));
    MultiLock::new(&client, names()).acquire().await.unwrap().release().await.unwrap();
    let scripts = Arc::new(AtomicU64::new(0));
    let seen = Arc::clone(&scripts);
    proxy.on_request(move |command| {
        let looks_after = matches!(command[0].as_ref(), b"PING" | b"TIME");
        seen.fetch_add(u64::from(!looks_after), Ordering::Relaxed);
        Action::Forward
    });
    let guard = MultiLock::new(&client, names()).acquire().await.unwrap();
    assert_eq!(scripts.load(Ordering::Relaxed), 1);
    guard.release().await.unwrap();
    assert_eq!(scripts.load(Ordering::Relaxed), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_waiter_for_one_name_holds_none_and_is_woken_by_its_release() {
    let server = server().await;
    let patient = |config: redgrid_core::Config| config.poll_interval(2 * SOON);
    let (one, two) = (client(&server).await, client_with(&server.url(), patient).await);
    let observer = server.observer().await.unwrap();
    let in_the_way = Lock::new(&one, "name:2").acquire().await.unwrap();
    let waiter = tokio::spawn(MultiLock::new(&two, ["name:1", "name:2"]).acquire().timeout(SOON).into_future());
    wait_until(SOON, async || !observer.pubsub_channels("redisson_lock__channel:*").await.unwrap().is_empty()).await;
    assert_eq!(held(&observer).await, ["name:2"]);
    Lock::new(&one, "name:1").try_acquire().await.unwrap().expect("a free lock").release().await.unwrap();
    in_the_way.release().await.unwrap();
    let guard = waiter.await.unwrap().unwrap();
    assert_eq!(held(&observer).await, ["name:1", "name:2"]);
    guard.release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_expired_wait_and_a_dropped_one_leave_nothing() {
    let server = server().await;
    let (one, two, observer) = (client(&server).await, client(&server).await, server.observer().await.unwrap());
    let both = MultiLock::new(&two, ["name:1", "name:2"]);
    let in_the_way = Lock::new(&one, "name:2").acquire().await.unwrap();
    let waited = both.acquire().timeout(1000 * MS).await;
    assert!(matches!(&waited, Err(AcquireError::TimedOut { name, .. }) if name.as_str() == "name:2"), "{waited:?}");
    in_the_way.release().await.unwrap();
    for polls in 1..30 {
        let other = Lock::new(&one, "name:1").acquire().timeout(SOON).await.unwrap();
        redgrid_tests::cancel::at_most(polls % 5 + 1, both.acquire().timeout(20 * MS).into_future()).await;
        drop(other);
        redgrid_tests::cancel::at_most(polls % 7 + 1, both.acquire().timeout(20 * MS).into_future()).await;
    }
    let gone = async || one.stats() == NOTHING && two.stats() == NOTHING && held(&observer).await.is_empty();
    wait_until(SOON, gone).await;
    both.try_acquire().await.unwrap().expect("both are free").release().await.unwrap();
}

/// Locks of one name and of several names are acquired in one process and in two. Each name has one
/// holder at a time, and all acquires succeed.
#[tokio::test(flavor = "multi_thread")]
async fn single_and_multiple_locks_exclude_each_other_and_all_get_in() {
    let server = server().await;
    let clients = [client(&server).await, client(&server).await];
    let inside: Arc<[AtomicU64; 2]> = Arc::default();
    let mut tasks = Vec::new();
    for task in 0..10 {
        let (client, inside) = (clients[task % 2].clone(), Arc::clone(&inside));
        let names: &[usize] = [&[0][..], &[1], &[0, 1], &[1, 0], &[0, 1]][task / 2];
        tasks.push(tokio::spawn(async move {
            for _ in 0..30 {
                let locks = names.iter().map(|n| Lock::new(&client, format!("name:{n}")));
                let guard = MultiLock::of(locks).acquire().timeout(SOON).await.unwrap();
                names.iter().for_each(|n| assert_eq!(inside[*n].fetch_add(1, Ordering::SeqCst), 0));
                tokio::task::yield_now().await;
                names.iter().for_each(|n| assert_eq!(inside[*n].fetch_sub(1, Ordering::SeqCst), 1));
                guard.release().await.unwrap();
            }
        }));
    }
    for task in tasks {
        task.await.unwrap();
    }
    for client in &clients {
        wait_until(SOON, async || client.stats() == NOTHING).await;
    }
}

/// If an attempt releases a lock again, the lock is free immediately, without a minimum hold,
/// because it was never reported as held.
#[tokio::test(flavor = "multi_thread")]
async fn a_withdrawn_attempt_retains_no_name() {
    let server = server().await;
    let (one, two) = (client(&server).await, client(&server).await);
    let observer = server.observer().await.unwrap();
    let at_least = Duration::from_secs(600);
    let mut in_the_way = vec![Lock::new(&one, "name:1").acquire().await.unwrap()];
    in_the_way.push(Lock::new(&one, "name:2").acquire().await.unwrap());
    let both = MultiLock::new(&two, ["name:1", "name:2"]).acquire().hold_at_least(at_least).timeout(SOON);
    let waiter = tokio::spawn(both.into_future());
    wait_until(SOON, async || two.stats().waiting == 1).await;
    // The waiter gets the first lock, but not the second one. It releases the first, and waits for
    // the second.
    in_the_way.remove(0).release().await.unwrap();
    wait_until(SOON, async || two.stats().waiting == 1 && !observer.exists("name:1").await.unwrap()).await;
    let again = Lock::new(&one, "name:1").acquire().timeout(SOON).await.unwrap();
    again.release().await.unwrap();
    in_the_way.remove(0).release().await.unwrap();
    let guard = waiter.await.unwrap().unwrap();
    assert_eq!(held(&observer).await, ["name:1", "name:2"]);
    // After a hold, both locks stay taken for their minimum time, however early they are released.
    guard.release().await.unwrap();
    for name in ["name:1", "name:2"] {
        assert!(observer.time_to_live(name).await.unwrap() > Some(at_least / 2));
    }
}

/// Opposite orders cause no deadlock: two processes with two tasks each, then three that overlap in
/// a ring.
#[tokio::test(flavor = "multi_thread")]
async fn opposite_orders_cause_no_deadlock_and_leave_no_lock() {
    let server = server().await;
    let clients = [client(&server).await, client(&server).await];
    let observer = server.observer().await.unwrap();
    let orders: [&[u8]; 4] = [&[1, 2], &[2, 1], &[2, 3], &[3, 1]];
    let inside: Arc<[AtomicU64; 4]> = Arc::default();
    let tasks: Vec<_> = (0..6)
        .map(|task| {
            let (client, order, inside) = (clients[task % 2].clone(), orders[task % 4], Arc::clone(&inside));
            tokio::spawn(async move {
                let lock = MultiLock::new(&client, order.iter().map(|n| format!("name:{n}")));
                let mut longest = Duration::ZERO;
                for _ in 0..rounds() / 2 {
                    let asked = Instant::now();
                    let guard = lock.acquire().timeout(SOON).await.unwrap();
                    longest = longest.max(asked.elapsed());
                    order.iter().for_each(|n| assert_eq!(inside[usize::from(*n)].fetch_add(1, Ordering::SeqCst), 0));
                    order.iter().for_each(|n| assert_eq!(inside[usize::from(*n)].fetch_sub(1, Ordering::SeqCst), 1));
                    guard.release().await.unwrap();
                }
                longest
            })
        })
        .collect();
    let mut longest = Duration::ZERO;
    for task in tasks {
        longest = longest.max(task.await.unwrap());
    }
    println!("longest wait {longest:?}");
    assert!(held(&observer).await.is_empty());
    for client in &clients {
        wait_until(SOON, async || client.stats() == NOTHING).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_holder_enters_again_with_one_or_several() {
    let server = server().await;
    let (client, observer) = (client(&server).await, server.observer().await.unwrap());
    let me = Holder::new();
    let single = Lock::new(&client, "name:1").acquire().holder(&me).await.unwrap();
    let both = MultiLock::new(&client, ["name:1", "name:2"]).acquire().holder(&me).await.unwrap();
    assert_eq!(both.token("name:1"), Some(single.token()));
    let again = MultiLock::new(&client, ["name:2"]).acquire().holder(&me).await.unwrap();
    single.release().await.unwrap();
    both.release().await.unwrap();
    assert_eq!(held(&observer).await, ["name:2"]);
    again.release().await.unwrap();
    assert!(held(&observer).await.is_empty());
}

/// A single lock is granted to this holder, but not claimed yet. The holder acquires it together
/// with another name, and keeps it.
#[tokio::test(flavor = "multi_thread")]
async fn a_holder_reenters_names_of_its_own_pending_request() {
    let server = server().await;
    let (client, me) = (client(&server).await, Holder::new());
    let lock = Lock::new(&client, "name:1");
    let before = lock.acquire().await.unwrap();
    let mut parked = Box::pin(lock.acquire().holder(&me).timeout(SOON).into_future());
    assert!(futures_util::poll!(&mut parked).is_pending());
    before.release().await.unwrap();
    wait_until(SOON, async || client.stats().waiting == 0 && client.stats().holds == 1).await;
    let both = MultiLock::new(&client, ["name:1", "name:2"]).acquire().holder(&me).timeout(SOON).await.unwrap();
    let other = tokio::spawn(lock.acquire().timeout(Duration::from_secs(3)).into_future());
    // An unclaimed grant is withdrawn after a second.
    let none = other.await.unwrap();
    assert!(matches!(none, Err(AcquireError::TimedOut { .. })), "{none:?}");
    assert!(both.is_held());
    let single = parked.await.unwrap();
    assert_eq!(both.token("name:1"), Some(single.token()));
    both.release().await.unwrap();
    assert!(single.is_held());
    single.release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn locks_of_different_kinds_and_servers_are_one() {
    let (one, two) = (server().await, server().await);
    let (here, there, other) = (client(&one).await, client(&two).await, client(&two).await);
    let fenced = FencedLock::new(&there, "ledger");
    let locks = || {
        let spin = SpinLock::new(&here, "shelf");
        [Lock::new(&here, "a"), fenced.as_lock().clone(), spin.as_lock().clone(), Lock::new(&there, "a")]
    };
    let in_the_way = FencedLock::new(&other, "ledger").acquire().await.unwrap();
    assert!(MultiLock::of(locks()).try_acquire().await.unwrap().is_none());
    assert_eq!(one.observer().await.unwrap().keys("*").await.unwrap().len(), 0);
    let waiter = tokio::spawn(MultiLock::of(locks()).acquire().timeout(SOON).into_future());
    wait_until(SOON, async || there.stats().channels > 0).await;
    in_the_way.release().await.unwrap();
    let guard = waiter.await.unwrap().unwrap();
    assert_eq!(guard.tokens().count(), 4);
    assert_eq!(fenced.token().await.unwrap(), guard.token("ledger"));
    drop(guard);
    wait_until(SOON, async || here.stats() == NOTHING && there.stats() == NOTHING).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_combinations_are_rejected() {
    let server = server().await;
    let client = client(&server).await;
    let refused =
        async |lock: MultiLock| matches!(lock.acquire().await, Err(AcquireError::Failed(Failure::InvalidName(_))));
    assert!(refused(MultiLock::new(&client, [""; 0])).await);
    assert!(refused(MultiLock::new(&client, ["a", ""])).await);
    assert!(refused(MultiLock::new(&client, (0..10_001).map(|n| n.to_string()))).await);
    let two_kinds = [Lock::new(&client, "a"), SpinLock::new(&client, "a").as_lock().clone()];
    assert!(refused(MultiLock::of(two_kinds)).await);
    // If one name has a wrong type, no name is held.
    let observer = server.observer().await.unwrap();
    observer.cmd(&["SET", "name:2", "not a lock"]).await.unwrap();
    let wrong = MultiLock::new(&client, ["name:1", "name:2", "name:3"]).acquire().await;
    assert!(
        matches!(&wrong, Err(AcquireError::Failed(Failure::Refused { operation, .. })) if operation.object() == Some("name:2")),
        "{wrong:?}"
    );
    assert_eq!(held(&observer).await, ["name:2"]);
    assert_eq!(client.stats(), NOTHING);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shutdown_gives_all_of_them_back() {
    let server = server().await;
    let (one, observer) = (client(&server).await, server.observer().await.unwrap());
    let guard = MultiLock::new(&one, (0..600).map(|n| format!("name:{n}"))).acquire().await.unwrap();
    one.shutdown(SOON).await.unwrap();
    assert_eq!(guard.lost().await.reason, LostReason::ShutDown);
    assert!(held(&observer).await.is_empty());
}

/// Ten thousand names in one slot take a tenth of a second (`cargo bench -p redgrid-locks --bench
/// multi`), because only few requests are sent.
#[tokio::test(flavor = "multi_thread")]
async fn ten_thousand_names_of_a_slot_are_few_scripts() {
    let server = server().await;
    let observer = server.observer().await.unwrap();
    // The lease and the timeout are long, so that the test has no renewals, and no repeated request
    // on a slow machine.
    let patient = |config: redgrid_core::Config| config.watchdog_lease(10 * SOON).response_timeout(SOON);
    let client = client_with(&server.url(), patient).await;
    let lock = MultiLock::new(&client, (0..10_000).map(|n| format!("name:{n}")));
    let before = crate::together::calls(&observer).await;
    let guard = lock.acquire().await.unwrap();
    let taken = crate::together::calls(&observer).await - before;
    guard.release().await.unwrap();
    let released = crate::together::calls(&observer).await - before - taken;
    assert!(taken <= 20 && released <= 20, "{taken} scripts to take them, {released} to release them");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_last_user_of_a_client_releases_all_its_names() {
    let server = server().await;
    let observer = server.observer().await.unwrap();
    for _ in 0..100 {
        // The release of each of the three names may be the last use of the client.
        let guard = MultiLock::new(&client(&server).await, ["a", "b", "c"]).acquire().await.unwrap();
        guard.release().await.unwrap();
        assert!(observer.keys("*").await.unwrap().is_empty());
    }
}
