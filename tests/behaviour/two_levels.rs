//! Tasks of one process pass a lock on without a request.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use redgrid_core::Client;
use redgrid_locks::{Holder, Lock, LockGuard};
use redgrid_testkit::{Action, Proxy, RedisServer, wait_until};
use redgrid_tests::{NOTHING, SOON, client, client_with, listening, script, server};

/// How long a process may hand the lock over locally before other processes get a turn.
const WINDOW: Duration = Duration::from_millis(10);

/// The scripts of locks that went through a proxy, in their order.
fn scripts(proxy: &Proxy) -> Arc<Mutex<Vec<&'static str>>> {
    let known = [
        (script!("acquire"), "acquire"),
        (script!("release"), "release"),
        (script!("release_yielding"), "give way"),
        (script!("extend"), "extend"),
        (script!("renew"), "renew"),
        (script!("retain"), "linger"),
    ];
    let seen = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&seen);
    proxy.on_request(move |command| {
        let named = command.get(1).and_then(|sha| known.iter().find(|(known, _)| known.as_bytes() == &sha[..]));
        log.lock().unwrap().extend(named.map(|(_, name)| *name));
        Action::Forward
    });
    seen
}

async fn through(proxy: &Proxy, server: &RedisServer) -> Client {
    let client = client_with(&server.url_via(proxy.addr()), |config| config).await;
    listening(server, &client).await;
    client
}

/// Many tasks take turns; returns the holders in order.
async fn crowd(client: &Client, tasks: usize, rounds: usize, lease: Option<Duration>) -> Vec<usize> {
    let order = Arc::new(Mutex::new(Vec::new()));
    let working = (0..tasks).map(|task| {
        let (lock, order) = (Lock::new(client, "a"), Arc::clone(&order));
        tokio::spawn(async move {
            while order.lock().unwrap().len() < rounds {
                let ask = lock.acquire();
                let ask = if let Some(lease) = lease { ask.lease(lease) } else { ask };
                let guard = ask.await.unwrap();
                order.lock().unwrap().push(task);
                guard.release().await.unwrap();
            }
        })
    });
    for done in futures_util::future::join_all(working).await {
        done.unwrap();
    }
    std::mem::take(&mut *order.lock().unwrap())
}

/// How often each task entered after all tasks had entered once. On a busy machine, the first tasks
/// have entered many times by then.
fn shares(order: &[usize], tasks: usize) -> Vec<usize> {
    let first = |task: usize| order.iter().position(|entered| *entered == task).unwrap_or_default();
    let all_there = (0..tasks).map(first).max().unwrap_or_default();
    (0..tasks).map(|task| order[all_there..].iter().filter(|entered| **entered == task).count()).collect()
}

/// Tasks take turns in their order. The test has one thread, because a busy machine may stop one of
/// several threads, together with its tasks.
#[tokio::test]
async fn tasks_of_one_process_take_turns_in_order_with_few_requests() {
    let server = server().await;
    let proxy = Proxy::to(&server).await.unwrap();
    let client = client_with(&server.url_via(proxy.addr()), |config| config.local_handover_window(WINDOW)).await;
    listening(&server, &client).await;
    let seen = scripts(&proxy);
    for lease in [None, Some(Duration::from_secs(10))] {
        seen.lock().unwrap().clear();
        let began = Instant::now();
        let order = crowd(&client, 64, 4_000, lease).await;
        let shares = shares(&order, 64);
        let (least, most) = (shares.iter().min().unwrap(), shares.iter().max().unwrap());
        // The count may end in the middle of a round, so some tasks may have one entry more.
        assert!(*most as f64 <= *least as f64 * 1.1 + 1.0, "{lease:?}: {shares:?}");
        let asked = std::mem::take(&mut *seen.lock().unwrap());
        // Two scripts for each window, however many tasks enter in it.
        let windows = began.elapsed().as_micros() / WINDOW.as_micros();
        assert!(asked.len() as u128 <= 2 * windows + 4, "{lease:?}: {} scripts in {windows} windows", asked.len());
        // One task of the process sends requests at a time: each acquire is followed by the release
        // of its grant.
        for pair in asked.chunks(2) {
            assert!(matches!(pair, ["acquire", "give way" | "release"] | ["acquire"]), "{lease:?}: {asked:?}");
        }
    }
    wait_until(SOON, async || client.stats() == NOTHING).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_just_dropped_lock_is_reacquired_without_a_request() {
    let server = server().await;
    let proxy = Proxy::to(&server).await.unwrap();
    let client = through(&proxy, &server).await;
    let lock = Lock::new(&client, "a");
    let seen = scripts(&proxy);
    // The test has one thread, so the task that would send the release cannot start in between.
    let local = tokio::task::spawn_blocking(move || {
        let runtime = tokio::runtime::Handle::current();
        runtime.block_on(async move {
            let mut adopted = 0;
            for _ in 0..200 {
                let first = lock.acquire().await.unwrap();
                let token = first.token();
                drop(first);
                let second = lock.acquire().await.unwrap();
                assert!(second.token() > token);
                // A token of the same server grant is the previous one plus one. The first token of
                // a new grant comes from the server's clock.
                adopted += usize::from(second.token().get() - token.get() == 1);
                second.release().await.unwrap();
            }
            adopted
        })
    });
    let adopted = local.await.unwrap();
    assert!(adopted > 0);
    let asked = seen.lock().unwrap().iter().filter(|name| **name == "acquire").count();
    assert!(asked <= 400 - adopted, "{asked} asked, {adopted} adopted");
    wait_until(SOON, async || client.stats() == NOTHING).await;
    assert!(!server.observer().await.unwrap().exists("a").await.unwrap());
}

#[tokio::test(flavor = "multi_thread")]
async fn tokens_rise_over_hand_overs_and_are_never_ahead_of_the_servers_clock() {
    for server in servers().await {
        // Two processes, so that local and remote grants alternate. The server's clock is that of
        // this machine.
        let (one, two) = (client(&server).await, client(&server).await);
        let tokens = Arc::new(Mutex::new(Vec::new()));
        let working = (0..16).map(|task| {
            let lock = Lock::new(if task % 2 == 0 { &one } else { &two }, "a");
            let tokens = Arc::clone(&tokens);
            tokio::spawn(async move {
                for _ in 0..1000 {
                    let guard = lock.acquire().await.unwrap();
                    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_micros() as u64;
                    let token = guard.token().get();
                    assert!(token <= now, "{token} at {now}");
                    tokens.lock().unwrap().push(token);
                    drop(guard);
                }
            })
        });
        for done in futures_util::future::join_all(working).await {
            done.unwrap();
        }
        let tokens = tokens.lock().unwrap();
        assert_eq!(tokens.len(), 16_000);
        assert!(tokens.windows(2).all(|pair| pair[0] < pair[1]));
        let handed_over = tokens.windows(2).filter(|pair| pair[1] == pair[0] + 1).count();
        assert!(handed_over > 1000, "{handed_over} hand-overs");
    }
}

async fn servers() -> Vec<RedisServer> {
    let mut servers = vec![server().await];
    if let Some(newest) = redgrid_testkit::ServerBinary::newest_or_skip("two_levels") {
        servers.push(RedisServer::builder().binary(newest).start().await.unwrap());
    }
    servers
}

/// Passes a lock from the first owner to the second. Returns the scripts sent meanwhile, and the
/// second owner's remaining lease on the server and in the client.
async fn passed(first: impl AsyncFnOnce(&Lock) -> LockGuard, second: impl AsyncFnOnce(&Lock) -> LockGuard) -> Passed {
    let server = server().await;
    let proxy = Proxy::to(&server).await.unwrap();
    // The window is long, so that it does not end before the hand-over on a slow machine.
    let set = |config: redgrid_core::Config| config.local_handover_window(Duration::from_millis(500));
    let client = client_with(&server.url_via(proxy.addr()), set).await;
    let lock = Lock::new(&client, "a");
    listening(&server, &client).await;
    Lock::new(&client, "warm").acquire().await.unwrap().release().await.unwrap();
    let owner = first(&lock).await;
    let seen = scripts(&proxy);
    let (second, ()) = tokio::join!(second(&lock), async {
        wait_until(SOON, async || client.stats().waiting == 1).await;
        owner.release().await.unwrap();
    });
    // The scripts are read before the observer connects, because the client sends a verification
    // after half of a fixed lease.
    let asked = std::mem::take(&mut *seen.lock().unwrap());
    let left = server.observer().await.unwrap().time_to_live("a").await.unwrap().unwrap();
    let remaining = second.remaining();
    second.release().await.unwrap();
    Passed { asked, left, remaining }
}

struct Passed {
    asked: Vec<&'static str>,
    left: Duration,
    remaining: Duration,
}

#[tokio::test(flavor = "multi_thread")]
async fn a_handover_gives_each_task_its_requested_lease() {
    let secs = Duration::from_secs;
    let fixed = |lease: u64| async move |lock: &Lock| lock.acquire().lease(secs(lease)).await.unwrap();
    let renewed = |lease: u64| async move |lock: &Lock| lock.acquire().auto_renew(secs(lease)).await.unwrap();
    let job = |keep: u64| async move |lock: &Lock| lock.acquire().hold_at_least(secs(keep)).await.unwrap();
    let check = |what: &str, got: Passed, asked: &[&str], remaining: u64, left: std::ops::RangeInclusive<u64>| {
        assert_eq!(got.asked, asked, "{what}");
        let (least, most) = (secs(remaining) * 9 / 10, secs(remaining));
        assert!(got.remaining >= least && got.remaining <= most, "{what}: {:?}", got.remaining);
        let (least, most) = (secs(*left.start()), secs(*left.end()));
        assert!(got.left >= least && got.left <= most, "{what}: {:?} left", got.left);
    };
    check("the same", passed(fixed(10), fixed(10)).await, &[], 10, 10..=12);
    check("watchdog again", passed(renewed(30), renewed(30)).await, &[], 30, 28..=30);
    check("short to long", passed(fixed(10), fixed(60)).await, &["renew"], 60, 60..=65);
    check("long to a little shorter", passed(fixed(10), fixed(8)).await, &[], 8, 9..=12);
    check("long to short", passed(fixed(600), fixed(10)).await, &["extend"], 10, 9..=12);
    check("watchdog to explicit", passed(renewed(30), fixed(20)).await, &["extend"], 20, 18..=23);
    check("explicit to watchdog", passed(fixed(10), renewed(30)).await, &["renew"], 30, 28..=30);
    check("shorter to longer watchdog", passed(renewed(10), renewed(30)).await, &["renew"], 30, 28..=30);
    check("a job that must run once", passed(renewed(30), job(100)).await, &["renew"], 100, 100..=110);
}

#[tokio::test(flavor = "multi_thread")]
async fn each_owners_explicit_lease_is_enforced_while_others_wait() {
    let server = server().await;
    let client = client(&server).await;
    let lock = Lock::new(&client, "a");
    let lease = Duration::from_millis(400);
    let mut owner = lock.acquire().lease(lease).await.unwrap();
    // No owner releases the lock: each one enters when the previous lease has ended.
    for _ in 0..3 {
        let watch = owner.watch();
        let next = lock.acquire().lease(lease).timeout(SOON).await.unwrap();
        assert!(!watch.is_held() && !owner.is_held(), "the loss is known before the next one enters");
        assert!(next.token() > owner.token());
        assert!(owner.release().await.is_err());
        assert!(next.is_held(), "a former owner changes nothing");
        owner = next;
    }
    owner.release().await.unwrap();
    wait_until(SOON, async || client.stats() == NOTHING).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reentry_does_not_wait() {
    let server = server().await;
    let client = client(&server).await;
    let lock = Lock::new(&client, "a");
    let me = Holder::new();
    let outer = lock.acquire().holder(&me).await.unwrap();
    let waiting: Vec<_> = (0..8)
        .map(|_| {
            let lock = lock.clone();
            tokio::spawn(async move { lock.acquire().timeout(SOON).await.unwrap().release().await.unwrap() })
        })
        .collect();
    wait_until(SOON, async || client.stats().waiting == 8).await;
    let inner = lock.acquire().holder(&me).await.unwrap();
    assert_eq!(inner.token(), outer.token());
    outer.release().await.unwrap();
    assert_eq!(client.stats().waiting, 8, "still held by its second guard");
    inner.release().await.unwrap();
    for waiting in waiting {
        waiting.await.unwrap();
    }
    wait_until(SOON, async || client.stats() == NOTHING).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_lease_is_not_handed_over() {
    let server = server().await;
    let client = client_with(&server.url(), |config| config.watchdog_lease(Duration::from_millis(900))).await;
    let lock = Lock::new(&client, "a");
    let owner = lock.acquire().await.unwrap();
    let next = tokio::spawn(lock.acquire().timeout(SOON).into_future());
    wait_until(SOON, async || client.stats().waiting == 1).await;
    server.delete_key("a").await.unwrap();
    owner.lost().await;
    let next = next.await.unwrap().unwrap();
    assert!(next.is_held() && server.observer().await.unwrap().exists("a").await.unwrap());
    assert!(owner.release().await.is_err());
    assert!(next.is_held() && server.observer().await.unwrap().exists("a").await.unwrap());
    next.release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_window_every_task_sends_a_request() {
    let server = server().await;
    let proxy = Proxy::to(&server).await.unwrap();
    let client =
        client_with(&server.url_via(proxy.addr()), |config| config.local_handover_window(Duration::ZERO)).await;
    let seen = scripts(&proxy);
    let acquisitions = crowd(&client, 4, 200, None).await.len();
    let asked = seen.lock().unwrap().iter().filter(|name| **name == "acquire").count();
    assert_eq!(asked, acquisitions);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_last_of_a_queue_holds_without_a_subscription() {
    let server = server().await;
    let client = client_with(&server.url(), |config| config.local_handover_window(Duration::from_millis(500))).await;
    let lock = Lock::new(&client, "a");
    let first = lock.acquire().await.unwrap();
    let last = tokio::spawn(lock.acquire().timeout(SOON).into_future());
    // The waiter subscribes in the middle of the window. The lock is handed over before the window
    // ends.
    wait_until(SOON, async || client.stats().channels == 1).await;
    first.release().await.unwrap();
    let last = last.await.unwrap().unwrap();
    wait_until(SOON, async || client.stats().channels == 0).await;
    assert!(last.is_held());
}
