//! A release takes into account every lease that the server may have, even if the client no longer
//! uses it.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use redgrid_core::author::Server;
use redgrid_core::clock::Clock;
use redgrid_core::config::Durability;
use redgrid_core::{Arg, Client, Code, Config, Failure, Reply, Request, ServerError};
use redgrid_locks::{Acquire, AcquireError, ExtendError, Lock, LockGuard, ReleaseError};
use redgrid_testkit::wait_until;
use redgrid_tests::fake_server::{FakeServer, granted};
use redgrid_tests::{NOTHING, SOON};

/// The token of each grant of the fake server.
const TOKEN: &str = "1700000000000000";

const REPLICA: Durability = Durability::Replicas { at_least: 1, timeout: Duration::from_secs(600) };

/// A fake server of one lock that stops replying for `silence`, beginning with the first request
/// with this label. That request may still get `answer`. The counter counts releases of the first
/// grant.
fn silent_from(label: &'static str, answer: Option<Reply>, silence: Duration) -> (FakeServer, Arc<AtomicUsize>) {
    let released = Arc::new(AtomicUsize::new(0));
    let (counted, begun, holder) = (Arc::clone(&released), Mutex::new(None), Mutex::new(None));
    let server = FakeServer::new("one:1", move |request: &Request| {
        let (now, mut begun) = (tokio::time::Instant::now(), begun.lock().unwrap());
        if request.label() == label && begun.is_none() {
            *begun = Some(now);
            return answer.clone().ok_or_else(no_answer);
        }
        let named = request.arguments().first().cloned();
        match (request.label(), *begun) {
            (_, Some(at)) if now < at + silence => return Err(no_answer()),
            ("lock/acquire", _) => {
                holder.lock().unwrap().get_or_insert(named.expect("a holder"));
                return Ok(granted(TOKEN));
            }
            ("lock/extend", _) => return Ok(Reply::Array(vec![Reply::Int(1), Reply::Int(0)])),
            // Only releases of the first grant are counted.
            ("lock/release" | "lock/release-yielding", _) if *holder.lock().unwrap() == named => {
                counted.fetch_add(1, Ordering::Relaxed)
            }
            _ => 0,
        };
        Ok(Reply::Int(1))
    });
    (server, released)
}

fn no_answer() -> ServerError {
    ServerError::Unknown { reason: "no answer".into() }
}

/// The reply to the renewal of one lock.
fn renewed() -> Reply {
    Reply::Array(vec![Reply::Int(1)])
}

/// Returns a lock of that server, and its client.
fn lock_on(server: FakeServer) -> (Lock, Client) {
    let config = Config::single("one").unwrap().local_handover_window(Duration::from_millis(500)).retries(1);
    lock_by(Arc::new(server), config)
}

fn lock_by(server: Arc<FakeServer>, config: Config) -> (Lock, Client) {
    let client = Client::over_one(server, config, Clock::runtime()).unwrap();
    (Lock::new(&client, "a"), client)
}

/// Sets a lease without getting a reply, and releases the lock.
async fn set_without_reply(held: LockGuard, lease: Duration) {
    assert!(held.extend(lease).await.is_err());
    release_at_last(held).await;
}

/// Releases a lock whose server may be silent: the caller waits at most for the response timeout.
/// The release continues in the background.
async fn release_at_last(held: LockGuard) {
    let released = held.release().await;
    assert!(matches!(released, Ok(()) | Err(ReleaseError::OutcomeUnknown { .. })), "{released:?}");
}

/// Releases a lock that another task of the process waits for. The lease of that task is set
/// without a reply.
async fn hand_over_without_reply(client: &Client, held: LockGuard, next: Acquire, released: &AtomicUsize) {
    let next = tokio::spawn(next.into_future());
    wait_until(SOON, async || client.stats().waiting == 1).await;
    held.release().await.unwrap();
    let told = next.await.unwrap();
    assert!(told.is_err() && released.load(Ordering::Relaxed) == 0, "{told:?}");
}

/// A longer lease is written, but its reply is lost, and so is every reply until the shorter lease
/// ends. The release does not assume that the lock expired on the server.
#[tokio::test(start_paused = true)]
async fn a_release_waits_for_an_unanswered_lengthening() {
    for by_its_owner in [false, true] {
        let (server, released) = silent_from("lock/renew", None, Duration::from_secs(10));
        let (lock, client) = lock_on(server);
        let first = lock.acquire().lease(Duration::from_secs(2)).await.unwrap();
        if by_its_owner {
            set_without_reply(first, Duration::from_secs(30)).await;
        } else {
            hand_over_without_reply(&client, first, lock.acquire().timeout(Duration::from_secs(6)), &released).await;
        }
        wait_until(SOON, async || released.load(Ordering::Relaxed) == 1).await;
    }
}

/// A shorter lease does not reach the server, and its reply is missing. The release assumes that
/// the server has the longer one.
#[tokio::test(start_paused = true)]
async fn a_release_waits_for_an_unanswered_shortening() {
    let short = Duration::from_millis(200);
    for by_its_owner in [false, true] {
        let (server, released) = silent_from("lock/extend", None, Duration::from_secs(5));
        let (lock, client) = lock_on(server);
        if by_its_owner {
            set_without_reply(lock.acquire().lease(Duration::from_secs(30)).await.unwrap(), short).await;
        } else {
            let (first, next) =
                (lock.acquire().await.unwrap(), lock.acquire().lease(short).timeout(Duration::from_secs(3)));
            hand_over_without_reply(&client, first, next, &released).await;
        }
        wait_until(SOON, async || released.load(Ordering::Relaxed) == 1).await;
    }
}

/// A caller sets a lease and stops waiting for the reply. The release must assume that the server
/// may have either of the two leases.
#[tokio::test(start_paused = true)]
async fn a_release_knows_a_lease_set_for_no_holder() {
    let (short, long) = (Duration::from_secs(2), Duration::from_secs(30));
    for (label, lease, other) in [("lock/renew", short, long), ("lock/extend", long, short)] {
        let (server, released) = silent_from("lock/release", None, Duration::from_secs(10));
        let (lock, _client) = lock_on(server.stuck_at(label));
        let held = lock.acquire().lease(lease).await.unwrap();
        let left = tokio::time::timeout(Duration::from_millis(500), held.extend(other)).await;
        assert!(left.is_err(), "{label}: {left:?}");
        release_at_last(held).await;
        wait_until(SOON, async || released.load(Ordering::Relaxed) == 1).await;
    }
}

/// Renewals are written, but their replies are lost, and so is every reply until the previous lease
/// ends. The release does not assume that the locks expired on the server, whether it starts when
/// they are lost or during a renewal.
#[tokio::test(start_paused = true)]
async fn a_release_waits_for_an_unanswered_renewal() {
    let lease = Duration::from_secs(6);
    for (on_its_way, names) in [(false, &["a", "b"][..]), (true, &["a"])] {
        let (released, silent) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
        let (counted, silenced, begun) = (Arc::clone(&released), Arc::clone(&silent), tokio::time::Instant::now());
        let server = FakeServer::new("one:1", move |request: &Request| {
            let is_renewal = request.label() == "lock/renew";
            if silenced.fetch_or(is_renewal, Ordering::Relaxed) | is_renewal && begun.elapsed() < lease + lease / 6 {
                return Err(no_answer());
            }
            match request.label() {
                "lock/acquire" => return Ok(granted(TOKEN)),
                "lock/release" => counted.fetch_add(1, Ordering::Relaxed),
                _ => 0,
            };
            Ok(Reply::Int(1))
        });
        let server = Arc::new(if on_its_way { server.stuck_at("lock/renew") } else { server });
        let config = Config::single("one").unwrap().watchdog_lease(lease);
        let client = Client::over_one(Arc::clone(&server) as Arc<dyn Server>, config, Clock::runtime()).unwrap();
        let mut held = Vec::new();
        for name in names {
            held.push(Lock::new(&client, *name).acquire().await.unwrap());
        }
        if on_its_way {
            wait_until(SOON, async || server.asked() > names.len()).await;
            silent.store(true, Ordering::Relaxed);
        } else {
            for guard in &held {
                guard.lost().await;
            }
        }
        drop(held);
        wait_until(SOON, async || released.load(Ordering::Relaxed) == names.len()).await;
    }
}

/// A release waits for an unconfirmed renewal. The primary has executed it, but its replication is
/// not confirmed, so the client does not rely on it. The previous lease ends while the connection
/// is down.
#[tokio::test(start_paused = true)]
async fn a_release_waits_for_an_unconfirmed_renewal() {
    let (server, released) = silent_from("lock/renew", Some(renewed()), Duration::from_millis(4500));
    let server = Arc::new(server.proving_once().stuck_at("commit"));
    let (lease, config) = (Duration::from_secs(6), Config::single("one").unwrap());
    let (lock, client) = lock_by(Arc::clone(&server), config.watchdog_lease(lease));
    let held = lock.acquire().durability(REPLICA).await.unwrap();
    let asked = server.asked();
    wait_until(SOON, async || server.asked() > asked).await;
    drop(held);
    wait_until(SOON, async || released.load(Ordering::Relaxed) == 1 && client.stats() == NOTHING).await;
}

/// A renewal arrives after the shorter lease of the next holder in this process, which applies. The
/// second case is a renewal that is less durable than that holder requires.
#[tokio::test(start_paused = true)]
async fn a_release_knows_a_renewal_after_a_shorter_lease() {
    let (lease, short) = (Duration::from_millis(1400), Duration::from_millis(200));
    for wanted in [Durability::Primary, REPLICA] {
        let (server, released) = silent_from("lock/renew", Some(renewed()), Duration::from_secs(1));
        let server = Arc::new(server.proving_once().stuck_at("lock/renew"));
        let config =
            Config::single("one").unwrap().watchdog_lease(lease).local_handover_window(Duration::from_millis(500));
        let (lock, client) = lock_by(Arc::clone(&server), config);
        let first = lock.acquire().await.unwrap();
        let asked = server.asked();
        wait_until(SOON, async || server.asked() > asked).await;
        let next = tokio::spawn(lock.acquire().lease(short).durability(wanted).into_future());
        wait_until(SOON, async || client.stats().waiting == 1).await;
        first.release().await.unwrap();
        let next = next.await.unwrap().unwrap();
        server.confirm();
        // On this clock only sleep takes time, so the reply has been received then.
        tokio::time::sleep(Duration::from_millis(1)).await;
        drop(next);
        wait_until(SOON, async || released.load(Ordering::Relaxed) == 1 && client.stats() == NOTHING).await;
    }
}

/// A longer lease reaches no replica: its caller gets an error, and the shorter lease applies.
#[tokio::test(start_paused = true)]
async fn a_release_knows_an_undurable_lengthening() {
    let (short, long) = (Duration::from_secs(2), Duration::from_secs(30));
    let (server, released) = silent_from("lock/renew", Some(renewed()), Duration::from_secs(10));
    let (lock, _client) = lock_on(server.proving_once());
    let held = lock.acquire().lease(short).durability(REPLICA).await.unwrap();
    let told = held.extend(long).await;
    assert!(matches!(told, Err(ExtendError::NotDurable { .. })) && held.remaining() <= short, "{told:?} {held:?}");
    release_at_last(held).await;
    wait_until(SOON, async || released.load(Ordering::Relaxed) == 1).await;
}

/// A retained release sends the time that is left when it reaches the server, in milliseconds.
#[tokio::test(start_paused = true)]
async fn a_retained_lease_is_recomputed_while_its_release_fails() {
    let silence = Duration::from_secs(10);
    for (at_least, most) in [(Duration::from_secs(20), Some(13_000)), (Duration::from_secs(5), None)] {
        let (told, begun) = (Arc::new(Mutex::new(Vec::new())), Mutex::new(None));
        let tells = Arc::clone(&told);
        let server = FakeServer::new("one:1", move |request: &Request| {
            if request.label() == "lock/acquire" {
                return Ok(granted(TOKEN));
            }
            if begun.lock().unwrap().get_or_insert_with(tokio::time::Instant::now).elapsed() < silence {
                return Err(no_answer());
            }
            tells.lock().unwrap().push((request.label().to_owned(), request.arguments().get(1).cloned()));
            Ok(Reply::Int(1))
        });
        let (lock, _client) = lock_on(server);
        let held = lock.acquire().lease(SOON * 3).hold_at_least(at_least).await.unwrap();
        release_at_last(held).await;
        wait_until(SOON, async || !told.lock().unwrap().is_empty()).await;
        let told = told.lock().unwrap().first().cloned().unwrap();
        match (most, &told) {
            // At most the remaining time, and the time that a reply may take.
            (Some(most), (label, Some(Arg::Bytes(keep)))) if label == "lock/retain" => {
                let keep: u64 = std::str::from_utf8(keep).unwrap().parse().unwrap();
                assert!(keep <= most, "{keep} {most}");
            }
            _ => assert!(most.is_none() && told.0 == "lock/release", "{told:?}"),
        }
    }
}

/// A release that is rejected permanently is not repeated, although there is time for it.
#[tokio::test(start_paused = true)]
async fn a_lock_that_must_not_stay_taken_is_requested_once() {
    let asked = AtomicUsize::new(0);
    let (lock, _client) = lock_on(FakeServer::new("one:1", move |request: &Request| match request.label() {
        "lock/acquire" => Ok(granted(TOKEN)),
        _ => {
            assert_eq!(asked.fetch_add(1, Ordering::Relaxed), 0, "a release after the rejection");
            Err(ServerError::Refused { code: Code::NoPermission, message: "NOPERM".into() })
        }
    }));
    let held = lock.acquire().lease(SOON * 3).hold_at_least(SOON).await.unwrap();
    let told = held.release().await;
    assert!(matches!(told, Err(ReleaseError::Refused { .. })), "{told:?}");
}

/// The server's clock is set back by five seconds: a delayed copy of an acquire stays valid for
/// five seconds longer. Its possible grant is released once more after that.
#[tokio::test(start_paused = true)]
async fn a_grant_of_a_late_copy_is_released_despite_a_clock_set_back() {
    let releases = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&releases);
    let server = Arc::new(FakeServer::new("one:1", move |request: &Request| match request.label() {
        "lock/release" => {
            seen.lock().unwrap().push(tokio::time::Instant::now());
            Ok(Reply::Int(0))
        }
        _ => Err(no_answer()),
    }));
    let clock = Clock::runtime();
    let config = Config::single("one").unwrap().retries(0);
    let client = Client::over_one(Arc::clone(&server) as Arc<dyn Server>, config, clock.clone()).unwrap();
    let told = Lock::new(&client, "a").acquire().await;
    assert!(matches!(told, Err(AcquireError::Failed(Failure::OutcomeUnknown { .. }))), "{told:?}");
    let (begin, time, step) = (tokio::time::Instant::now(), 1_700_000_000_000_000, Duration::from_secs(5));
    for shown in [time, time - step.as_micros() as u64] {
        server.time().observe_exchange(shown, clock.now(), clock.now());
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    wait_until(SOON, async || releases.lock().unwrap().last().is_some_and(|at| *at >= begin + step)).await;
}

/// The reply to a grant is the time of the grant. Any other reply may still mean a grant, so the
/// lock is released.
#[tokio::test(start_paused = true)]
async fn an_invalid_time_grants_nothing_and_its_grant_is_released() {
    for answer in [1, 0, -1] {
        let released = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&released);
        let (lock, _client) = lock_on(FakeServer::new("one:1", move |request: &Request| {
            counted.fetch_add(usize::from(request.label() == "lock/release"), Ordering::Relaxed);
            Ok(Reply::Int(answer))
        }));
        let told = lock.acquire().await.map(|guard| guard.token());
        assert!(matches!(told, Err(AcquireError::Failed(Failure::OutcomeUnknown { .. }))), "{told:?}");
        wait_until(SOON, async || released.load(Ordering::Relaxed) == 1).await;
    }
    let (lock, _client) = lock_on(FakeServer::new("one:1", |request: &Request| {
        Ok(Reply::Int(if request.label() == "lock/acquire" { 1_700_000_000_000_000 } else { 1 }))
    }));
    assert_eq!(lock.acquire().await.unwrap().token().get(), 1_700_000_000_000_000);
}

/// The lease of an owner ends while the server lease is adjusted to the next owner. When that
/// owner's lease ends, its successor gets the lock in time, not only at the next check of the
/// server lease.
#[tokio::test(start_paused = true)]
async fn the_end_of_a_former_owner_does_not_hide_the_end_of_the_next() {
    let ms = Duration::from_millis;
    let server = FakeServer::new("one:1", |request: &Request| match request.label() {
        "lock/acquire" => Ok(granted(TOKEN)),
        "lock/renew" => Ok(renewed()),
        _ => Ok(Reply::Int(1)),
    });
    let server = Arc::new(server.proving_once().stuck_at("lock/renew"));
    let (lock, client) = lock_by(Arc::clone(&server), Config::single("one").unwrap().local_handover_window(ms(500)));
    let first = lock.acquire().lease(ms(300)).await.unwrap();
    tokio::time::sleep(ms(200)).await;
    let next = tokio::spawn(lock.acquire().lease(ms(250)).durability(REPLICA).into_future());
    // On this clock only sleep takes time.
    tokio::time::sleep(ms(1)).await;
    let (waiting, asked) = (client.stats().waiting, server.asked());
    first.release().await.unwrap();
    tokio::time::sleep(ms(150)).await;
    assert!(waiting == 1 && server.asked() > asked, "the lease is being adjusted");
    server.confirm();
    let next = next.await.unwrap().unwrap();
    let (remaining, begun) = (next.remaining(), tokio::time::Instant::now());
    assert!(remaining > ms(50), "{remaining:?}");
    let third = lock.acquire().lease(ms(250)).await.unwrap();
    assert!(
        begun.elapsed() >= remaining && begun.elapsed() < remaining + ms(50),
        "{remaining:?} {:?}",
        begun.elapsed()
    );
    drop((next, third));
}
