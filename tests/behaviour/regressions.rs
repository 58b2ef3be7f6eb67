//! Faults that were found by reading and trying, each kept from coming back.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use redgrid_atomic_long::{AtomicError, AtomicLong};
use redgrid_core::clock::Clock;
use redgrid_core::{Client, Config, InHand, Reply, Request, Server, ServerError};
use redgrid_locks::{Acquire, AcquireError, Holder, Lock, LockGuard};
use redgrid_testkit::{Direction, Fault, Proxy, wait_until};
use redgrid_tests::made::{Made, granted, granting};
use redgrid_tests::{NOTHING, SOON, client, client_with, server};

/// Of what a server grants that is made up.
const TOKEN: &str = "1700000000000000";

#[tokio::test(flavor = "multi_thread")]
async fn waiting_longer_than_the_patience_without_contact_is_still_waiting() {
    let server = server().await;
    let holder = client(&server).await;
    let quick = |config: redgrid_core::Config| config.timeout(Duration::from_millis(200)).retries(1);
    let waiter = client_with(&server.url(), quick).await;
    let held = Lock::new(&holder, "a").acquire().await.unwrap();
    let bounded = Lock::new(&waiter, "a").acquire().wait(Duration::from_secs(2)).await;
    assert!(matches!(bounded, Err(AcquireError::TimedOut { .. })), "{bounded:?}");
    let waiting = tokio::spawn(Lock::new(&waiter, "a").acquire().into_future());
    // Five times the patience of 400 ms.
    tokio::time::sleep_until(tokio::time::Instant::now() + Duration::from_secs(2)).await;
    assert!(!waiting.is_finished());
    held.release().await.unwrap();
    waiting.await.unwrap().unwrap().release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_forgotten_lock_survives_a_shutdown() {
    let server = server().await;
    let observer = server.observer().await.unwrap();
    let client = client(&server).await;
    Lock::new(&client, "a").acquire().lease(SOON * 3).await.unwrap().forget();
    client.shutdown(SOON).await.unwrap();
    assert!(observer.exists("a").await.unwrap());
}

/// By a clock that nobody holds up: until its lease is over it is known, and then it is not.
#[tokio::test(start_paused = true)]
async fn a_forgotten_lock_leaves_no_name_behind() {
    let server = Arc::new(Made::new("one:1", granting(TOKEN)));
    let client = Client::over_one(server, Config::single("one").unwrap(), Clock::runtime()).unwrap();
    let (lock, lease) = (Lock::new(&client, "a"), Duration::from_secs(2));
    lock.acquire().lease(lease).await.unwrap().forget();
    tokio::time::sleep(lease / 2).await;
    assert_eq!(client.in_hand(), InHand { names: 1, holds: 1, ..NOTHING });
    wait_until(SOON, async || client.in_hand() == NOTHING).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_acquire_in_flight_at_shutdown_leaves_no_key() {
    let server = server().await;
    let proxy = Proxy::to(&server).await.unwrap();
    let observer = server.observer().await.unwrap();
    let client = client_with(&server.url_via(proxy.addr()), |config| config).await;
    Lock::new(&client, "warm").acquire().await.unwrap().release().await.unwrap();
    proxy.set(Direction::ToClient, Fault::Delay(Duration::from_millis(300)));
    let asking = tokio::spawn(Lock::new(&client, "a").acquire().into_future());
    wait_until(SOON, async || observer.exists("a").await.unwrap()).await;
    client.shutdown(SOON).await.unwrap();
    assert!(matches!(asking.await.unwrap(), Err(AcquireError::ShuttingDown { .. })));
    assert!(!observer.exists("a").await.unwrap());
    // After it, a call fails at once.
    let late = tokio::time::timeout(Duration::from_secs(2), Lock::new(&client, "a").is_locked()).await;
    assert!(late.unwrap().is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shorter_lease_does_not_cut_the_time_a_job_keeps_its_name() {
    let server = server().await;
    let (client, other) = (client(&server).await, redgrid_tests::client(&server).await);
    let lock = Lock::new(&client, "a");
    let turn = lock.acquire().lease(Duration::from_secs(10)).at_least(Duration::from_secs(5)).await.unwrap();
    turn.extend(Duration::from_millis(300)).await.unwrap();
    turn.lost().await;
    let expired = tokio::time::Instant::now() + Duration::from_millis(500);
    tokio::time::sleep_until(expired).await;
    assert!(Lock::new(&other, "a").try_acquire().await.unwrap().is_none());
    // Nor is it asked for in silence by one who enters again.
    let me = Holder::new();
    let outer = Lock::new(&client, "b").acquire().by(&me).await.unwrap();
    let inner = Lock::new(&client, "b").acquire().by(&me).at_least(Duration::from_secs(5)).await;
    assert!(matches!(inner, Err(AcquireError::InvalidArgument { option: "at_least", .. })), "{inner:?}");
    outer.release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_those_who_take_a_lock_at_once_in_one_process_the_highest_token_holds_it() {
    let server = server().await;
    let observer = server.observer().await.unwrap();
    let client = client(&server).await;
    let round = async |n: usize| {
        let lock = Lock::new(&client, format!("name:{n}"));
        let steal = |lock: Lock| tokio::spawn(async move { lock.steal().await.unwrap() });
        let trying = tokio::spawn(lock.try_acquire().into_future());
        let (one, two) = (steal(lock.clone()), steal(lock.clone()));
        let mut guards: Vec<LockGuard> = vec![one.await.unwrap(), two.await.unwrap()];
        guards.extend(trying.await.unwrap().unwrap());
        let highest = guards.iter().map(LockGuard::token).max().unwrap();
        for guard in &guards {
            assert!(!guard.is_held() || guard.token() == highest, "{n}: {guards:?}");
        }
    };
    futures_util::future::join_all((0..300).map(round)).await;
    wait_until(SOON, async || client.in_hand() == NOTHING && observer.keys("*").await.unwrap().is_empty()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_contact_nobody_is_told_that_others_hold_the_lock() {
    let server = server().await;
    let client = client(&server).await;
    server.kill().await.unwrap();
    let first = tokio::spawn(Lock::new(&client, "a").acquire().into_future());
    wait_until(SOON, async || client.in_hand().names == 1).await;
    let bound = Duration::from_millis(200);
    let tried = Lock::new(&client, "a").try_acquire().wait(bound).await;
    assert!(tried.is_err(), "{tried:?}");
    let waited = Lock::new(&client, "a").acquire().wait(bound).await;
    assert!(!matches!(waited, Err(AcquireError::TimedOut { .. })), "{waited:?}");
    first.abort();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_next_of_the_queue_enters_when_a_guard_outlives_its_lease() {
    let server = server().await;
    let client = client(&server).await;
    let lock = Lock::new(&client, "a");
    let overdue = lock.acquire().lease(Duration::from_millis(500)).await.unwrap();
    let next = lock.acquire().wait(SOON).await.unwrap();
    assert!(!overdue.is_held() && next.token() > overdue.token());
    assert!(overdue.release().await.is_err());
    assert!(next.is_held());
    next.release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_extension_without_contact_ends_when_its_patience_is_over() {
    let server = server().await;
    let proxy = Proxy::to(&server).await.unwrap();
    let quick = |config: redgrid_core::Config| config.timeout(Duration::from_millis(200)).retries(1);
    let client = client_with(&server.url_via(proxy.addr()), quick).await;
    let guard = Lock::new(&client, "a").acquire().lease(Duration::from_secs(60)).await.unwrap();
    proxy.set_both(Fault::BlackHole);
    let began = std::time::Instant::now();
    assert!(guard.extend(Duration::from_secs(120)).await.is_err());
    assert!(began.elapsed() < Duration::from_secs(3), "{:?}", began.elapsed());
    guard.forget();
}

/// What several ask at the same time leaves as one request; of those who have left by then nothing does.
#[tokio::test]
async fn what_is_asked_by_nobody_any_more_does_not_leave() {
    for kept in [false, true] {
        let added = Arc::new(Mutex::new(None::<Vec<String>>));
        let answer = {
            let added = Arc::clone(&added);
            move |request: &Request| {
                let mut added = added.lock().unwrap();
                let Some(added) = added.as_mut() else {
                    return Err(ServerError::NotSent { reason: "it is down".into() });
                };
                added.extend((request.label() == "INCRBY").then(|| format!("{:?}", request.arguments())));
                Ok(Reply::Int(1))
            }
        };
        let server = Arc::new(Made::new("one:1", answer).down());
        let config = Config::single("one").unwrap();
        let client = Client::over_one(Arc::clone(&server) as Arc<dyn Server>, config, Clock::boot()).unwrap();
        let number = AtomicLong::new(&client, "n");
        let mut calls: Vec<_> = (0..3).map(|_| Box::pin(number.add(5).into_future())).collect();
        for call in &mut calls {
            assert!(futures_util::poll!(call).is_pending());
        }
        let first = calls.swap_remove(0);
        drop(calls);
        let stays = kept.then(|| tokio::spawn(first));
        // Those who were dropped have gone from the queue before there is contact.
        for _ in 0..10 {
            tokio::task::yield_now().await;
        }
        *added.lock().unwrap() = Some(Vec::new());
        server.up();
        match stays {
            Some(stays) => assert_eq!(stays.await.unwrap().unwrap(), 1),
            None => assert_eq!(number.increment().await.unwrap(), 1),
        }
        let added = added.lock().unwrap().take().unwrap();
        assert_eq!(added.len(), 1, "{kept}: {added:?}");
    }
}

/// Those who stand behind a request are told when the client ends, and not when their time is over.
#[tokio::test]
async fn who_stands_behind_a_request_is_told_of_a_shutdown_at_once() {
    let server = Arc::new(Made::new("one:1", |_| Ok(Reply::Int(1))).stuck_at("INCRBY"));
    let config = Config::single("one").unwrap().timeout(SOON * 10);
    let client = Client::over_one(Arc::clone(&server) as Arc<dyn Server>, config, Clock::boot()).unwrap();
    let number = AtomicLong::new(&client, "n");
    let calls: Vec<_> = (0..5).map(|_| tokio::spawn(number.add(1).into_future())).collect();
    wait_until(SOON, async || server.asked() > 0).await;
    let _ = client.shutdown(Duration::from_millis(50)).await;
    let mut unavailable = 0;
    for call in calls {
        match tokio::time::timeout(SOON, call).await.expect("it waits for nothing").unwrap() {
            Err(AtomicError::Unavailable { .. }) => unavailable += 1,
            told => assert!(matches!(told, Err(AtomicError::OutcomeUnknown { .. })), "{told:?}"),
        }
    }
    assert!(unavailable >= 3, "{unavailable} stood behind the first");
    let late = tokio::time::timeout(SOON, number.increment()).await.expect("it waits for nothing");
    assert!(matches!(late, Err(AtomicError::Unavailable { .. })), "{late:?}");
}

/// A thief looks once more for what it took, when whoever it robbed can not hand it on any more. By then it may be robbed itself, and
/// the server may have lost all: what it finds free it takes, and nobody of it would have had it.
#[tokio::test(flavor = "multi_thread")]
async fn a_robbed_thief_leaves_nothing_on_a_server_that_has_forgotten_both() {
    let server = server().await;
    let (one, two, observer) = (client(&server).await, client(&server).await, server.observer().await.unwrap());
    observer.cmd(&["HSET", "a", "other:1", "1"]).await.unwrap();
    observer.cmd(&["PEXPIRE", "a", "60000"]).await.unwrap();
    let holders = async || observer.query::<Vec<String>>(&["HKEYS", "a"]).await.unwrap();
    let steal = |client: &Client| {
        let lock = Lock::new(client, "a");
        tokio::spawn(async move { lock.steal().await })
    };
    let first = steal(&one);
    wait_until(SOON, async || holders().await != ["other:1"]).await;
    let robbed = holders().await;
    let second = steal(&two);
    wait_until(SOON, async || holders().await != robbed).await;
    observer.cmd(&["DEL", "a"]).await.unwrap();
    drop((first.await.unwrap(), second.await.unwrap()));
    wait_until(SOON, async || !observer.exists("a").await.unwrap()).await;
}

/// A server of one lock that answers nothing for so long, from the first request of that kind on; and how often what it granted first was
/// given back.
fn silent_from(label: &'static str, silence: Duration) -> (Made, Arc<AtomicUsize>) {
    let released = Arc::new(AtomicUsize::new(0));
    let (counted, begun, holder) = (Arc::clone(&released), Mutex::new(None), Mutex::new(None));
    let server = Made::new("one:1", move |request: &Request| {
        let (now, mut begun) = (tokio::time::Instant::now(), begun.lock().unwrap());
        if request.label() == label {
            begun.get_or_insert(now);
        }
        let named = request.arguments().first().cloned();
        match (request.label(), *begun) {
            (_, Some(at)) if now < at + silence => return Err(ServerError::Unknown { reason: "no answer".into() }),
            ("lock/acquire", _) => {
                holder.lock().unwrap().get_or_insert(named.expect("a holder"));
                return Ok(granted(TOKEN));
            }
            // Of what was granted first, and not of what the next may have got.
            ("lock/release" | "lock/give-way", _) if *holder.lock().unwrap() == named => {
                counted.fetch_add(1, Ordering::Relaxed)
            }
            _ => 0,
        };
        Ok(Reply::Int(1))
    });
    (server, released)
}

/// A lock of that server, and its client.
fn lock_on(server: Made) -> (Lock, Client) {
    let config = Config::single("one").unwrap().stretch(Duration::from_millis(500)).retries(1);
    let client = Client::over_one(Arc::new(server), config, Clock::runtime()).unwrap();
    (Lock::new(&client, "a"), client)
}

/// Sets a lease without an answer, and gives the lock back.
async fn set_in_vain(held: LockGuard, lease: Duration) {
    assert!(held.extend(lease).await.is_err());
    let told = held.release().await;
    assert!(told.is_ok(), "{told:?}");
}

/// Gives a lock back while another of the process waits for it, for whom its lease is set without an answer.
async fn passed_on_in_vain(client: &Client, held: LockGuard, next: Acquire, released: &AtomicUsize) {
    let next = tokio::spawn(next.into_future());
    wait_until(SOON, async || client.in_hand().waiting == 1).await;
    held.release().await.unwrap();
    let told = next.await.unwrap();
    assert!(told.is_err() && released.load(Ordering::Relaxed) == 0, "{told:?}");
}

/// A longer lease is written, for the next of the process or by its owner, but nobody here hears of it, nor of anything else until the
/// shorter one is over: what gives the lock back then does not believe that the server has done so by itself.
#[tokio::test(start_paused = true)]
async fn a_lengthening_without_an_answer_is_known_to_what_gives_the_lock_back() {
    for by_its_owner in [false, true] {
        let (server, released) = silent_from("lock/renew", Duration::from_secs(10));
        let (lock, client) = lock_on(server);
        let first = lock.acquire().lease(Duration::from_secs(2)).await.unwrap();
        if by_its_owner {
            set_in_vain(first, Duration::from_secs(30)).await;
        } else {
            passed_on_in_vain(&client, first, lock.acquire().wait(Duration::from_secs(6)), &released).await;
        }
        wait_until(SOON, async || released.load(Ordering::Relaxed) == 1).await;
    }
}

/// The same of a shorter lease, which does not come to the server: it has the longer one.
#[tokio::test(start_paused = true)]
async fn a_shortening_without_an_answer_is_known_to_what_gives_the_lock_back() {
    let short = Duration::from_millis(200);
    for by_its_owner in [false, true] {
        let (server, released) = silent_from("lock/extend", Duration::from_secs(5));
        let (lock, client) = lock_on(server);
        if by_its_owner {
            set_in_vain(lock.acquire().lease(Duration::from_secs(30)).await.unwrap(), short).await;
        } else {
            let (first, next) =
                (lock.acquire().await.unwrap(), lock.acquire().lease(short).wait(Duration::from_secs(3)));
            passed_on_in_vain(&client, first, next, &released).await;
        }
        wait_until(SOON, async || released.load(Ordering::Relaxed) == 1).await;
    }
}

/// Whoever sets a lease does not wait for the answer: which of the two the server has is not known to what gives the lock back either.
#[tokio::test(start_paused = true)]
async fn a_lease_that_is_set_for_nobody_is_known_to_what_gives_the_lock_back() {
    let (short, long) = (Duration::from_secs(2), Duration::from_secs(30));
    for (label, lease, other) in [("lock/renew", short, long), ("lock/extend", long, short)] {
        let (server, released) = silent_from("lock/release", Duration::from_secs(10));
        let (lock, _client) = lock_on(server.stuck_at(label));
        let held = lock.acquire().lease(lease).await.unwrap();
        let left = tokio::time::timeout(Duration::from_millis(500), held.extend(other)).await;
        assert!(left.is_err(), "{label}: {left:?}");
        let told = held.release().await;
        assert!(told.is_ok() && released.load(Ordering::Relaxed) == 1, "{label}: {told:?}");
    }
}

/// Renewals are written, but nobody here hears of it, nor of anything else until the lease before them is over: what gives the locks
/// back does not believe that the server has done so by itself, whether it begins when they are lost or while a renewal is on its way.
#[tokio::test(start_paused = true)]
async fn a_renewal_without_an_answer_is_known_to_what_gives_the_lock_back() {
    let lease = Duration::from_secs(6);
    for (on_its_way, names) in [(false, &["a", "b"][..]), (true, &["a"])] {
        let (released, silent) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
        let (counted, silenced, begun) = (Arc::clone(&released), Arc::clone(&silent), tokio::time::Instant::now());
        let server = Made::new("one:1", move |request: &Request| {
            let is_renewal = request.label() == "lock/renew";
            if silenced.fetch_or(is_renewal, Ordering::Relaxed) | is_renewal && begun.elapsed() < lease + lease / 6 {
                return Err(ServerError::Unknown { reason: "no answer".into() });
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
