//! Permits under what is hard: lost and late answers, processes that die, other processes, futures that are dropped.

use std::collections::BTreeMap;
use std::process::Stdio;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use futures_util::future::join_all;
use redgrid_locks::Client;
use redgrid_permit_expirable_semaphore::{LostReason, PermitExpirableSemaphore, PermitId, Returned};
use redgrid_semaphore::{AcquireError, Permit, Semaphore};
use redgrid_testkit::{Action, Fault, Observer, Proxy, wait_until};
use redgrid_tests::cancel::at_most;
use redgrid_tests::{SOON, client, client_with, server};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::Command;

const MS: Duration = Duration::from_millis(1);

/// How often, from the environment.
fn times(variable: &str, unless_set: usize) -> usize {
    std::env::var(variable).ok().and_then(|text| text.parse().ok()).unwrap_or(unless_set)
}

async fn number(observer: &Observer, command: &[&str]) -> i64 {
    observer.query(command).await.unwrap()
}

fn is_idle(client: &Client) -> bool {
    let hand = client.in_hand();
    (hand.names, hand.holds, hand.waiting, hand.channels) == (0, 0, 0, 0)
}

/// What renews leases waits for the next that is due; where none is left it waits for nothing.
#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_has_given_all_its_permits_back_shuts_down_at_once() {
    let server = server().await;
    let client = client_with(&server.url(), |config| config.watchdog_lease(Duration::from_secs(3600))).await;
    let seats = PermitExpirableSemaphore::new(&client, "seats");
    assert!(seats.try_set_permits(1).await.unwrap());
    seats.acquire().await.unwrap().release().await.unwrap();
    wait_until(SOON, async || is_idle(&client)).await;
    client.shutdown(SOON).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn permits_are_known_by_their_ids_from_elsewhere() {
    let server = server().await;
    let (one, two) =
        (client_with(&server.url(), |config| config.watchdog_lease(600 * MS)).await, client(&server).await);
    let (mine, theirs) = (PermitExpirableSemaphore::new(&one, "seats"), PermitExpirableSemaphore::new(&two, "seats"));
    assert!(mine.try_set_permits(3).await.unwrap() && !theirs.try_set_permits(9).await.unwrap());
    let permit = mine.acquire_many(2).await.unwrap();
    let ids: Vec<PermitId> = permit.ids().collect();
    let counts = async || {
        let (available, acquired) =
            (theirs.available_permits().await.unwrap(), theirs.acquired_permits().await.unwrap());
        (available, acquired, theirs.permits().await.unwrap())
    };
    assert_eq!(counts().await, (1, 2, 3));
    let text = ids[0].to_string();
    assert_eq!((text.len(), PermitId::from_str(&text).unwrap()), (32, ids[0]));
    assert!(PermitId::from_str("x").is_err() && PermitId::from_str(&text[1..]).is_err());
    assert_eq!(theirs.try_release(ids[0]).await.unwrap(), Returned::Released);
    assert_eq!(theirs.try_release(ids[0]).await.unwrap(), Returned::Unknown);
    assert_eq!(counts().await, (2, 1, 3));
    assert_eq!(tokio::time::timeout(SOON, permit.lost()).await.unwrap(), LostReason::Gone);
    assert!(theirs.update_lease(ids[1], 5000 * MS).await.unwrap() && !theirs.update_lease(ids[0], SOON).await.unwrap());
    drop(permit);
    wait_until(SOON, async || counts().await == (3, 0, 3) && is_idle(&one)).await;

    // A lease that ended: nobody has taken it back yet, and reading does not.
    let fixed = mine.acquire().lease(100 * MS).await.unwrap();
    let id = fixed.ids().next().unwrap();
    fixed.forget();
    wait_until(SOON, async || counts().await == (3, 0, 3)).await;
    assert_eq!(theirs.try_release(id).await.unwrap(), Returned::Expired);
    assert_eq!(counts().await, (3, 0, 3));
    theirs.set_permits(5).await.unwrap();
    theirs.add_permits(-1).await.unwrap();
    assert_eq!(counts().await, (4, 0, 4));
    assert!(mine.delete().await.unwrap());
    assert!(matches!(mine.acquire().await.err(), Some(AcquireError::NotInitialised { .. })));
}

/// The leases once ended with the lifetime of a number that was set anew without one, and what was held came back to nobody.
#[tokio::test(flavor = "multi_thread")]
async fn a_new_number_has_the_leases_live_as_long_as_it_does() {
    let server = server().await;
    let (observer, client) = (server.observer().await.unwrap(), client(&server).await);
    let (mail, seats) = (Semaphore::new(&client, "seats").capacity(3), PermitExpirableSemaphore::new(&client, "seats"));
    let lifetimes = async || {
        let leases = observer.time_to_live("{seats}:timeout").await.unwrap();
        (observer.time_to_live("seats").await.unwrap().is_some(), leases.is_some())
    };
    assert!(mail.try_set_permits(3).expires_in(SOON).await.unwrap());
    let held = seats.acquire().await.unwrap();
    assert_eq!(lifetimes().await, (true, true));
    seats.set_permits(4).await.unwrap();
    assert_eq!(lifetimes().await, (false, false));
    assert!(mail.set_permits(3).expires_in(SOON).await.unwrap());
    assert_eq!(lifetimes().await, (true, true));
    // Somebody else ends the lifetime of the number alone: the next who takes a permit puts that right.
    assert!(observer.query::<bool>(&["PERSIST", "seats"]).await.unwrap());
    seats.acquire().await.unwrap().release().await.unwrap();
    assert_eq!(lifetimes().await, (false, false));
    held.release().await.unwrap();
    assert_eq!(number(&observer, &["GET", "seats"]).await, 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fixed_lease_is_lengthened_and_shortened_by_its_guard() {
    let server = server().await;
    let client = client(&server).await;
    let seats = PermitExpirableSemaphore::new(&client, "seats");
    seats.set_permits(1).await.unwrap();
    let permit = seats.acquire().lease(500 * MS).await.unwrap();
    permit.extend(20_000 * MS).await.unwrap();
    assert!(permit.remaining().unwrap() > 10_000 * MS);
    permit.extend(200 * MS).await.unwrap();
    assert!(permit.remaining().unwrap() <= 200 * MS);
    assert_eq!(tokio::time::timeout(SOON, permit.lost()).await.unwrap(), LostReason::Expired);
    // Its end wakes who waits, of every size.
    let next = seats.acquire().wait(SOON).await.unwrap();
    assert!(permit.extend(SOON).await.is_err());
    drop(permit);
    next.release().await.unwrap();
    wait_until(SOON, async || is_idle(&client)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn leases_that_end_wake_those_who_wait_for_many() {
    let server = server().await;
    let (one, two) = (client(&server).await, client(&server).await);
    let seats = PermitExpirableSemaphore::new(&one, "seats");
    seats.set_permits(4).await.unwrap();
    for lease in [200, 300, 400, 500] {
        seats.acquire().lease(lease * MS).await.unwrap().forget();
    }
    let all = PermitExpirableSemaphore::new(&two, "seats").acquire_many(4).wait(SOON).await.unwrap();
    all.release().await.unwrap();
    assert_eq!(seats.available_permits().await.unwrap(), 4);
    wait_until(SOON, async || is_idle(&one) && is_idle(&two)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_extended_lease_is_not_shortened_by_renewals() {
    let server = server().await;
    let observer = server.observer().await.unwrap();
    let client = client_with(&server.url(), |config| config.watchdog_lease(900 * MS)).await;
    let seats = PermitExpirableSemaphore::new(&client, "seats");
    seats.set_permits(2).await.unwrap();
    let (extended, renewed) = (seats.acquire().await.unwrap(), seats.acquire().await.unwrap());
    extended.extend(60_000 * MS).await.unwrap();
    let end_of = async |permit: &Permit| -> i64 {
        let id = permit.ids().next().unwrap();
        let ends: Vec<(Vec<u8>, i64)> =
            observer.query(&["ZRANGE", "{seats}:timeout", "0", "-1", "WITHSCORES"]).await.unwrap();
        ends.into_iter().find_map(|(had, end)| (had == id.as_bytes()).then_some(end)).unwrap()
    };
    let (before, first) = (end_of(&extended).await, end_of(&renewed).await);
    wait_until(SOON, async || end_of(&renewed).await > first + 600).await;
    assert_eq!(end_of(&extended).await, before);
    extended.release().await.unwrap();
    renewed.release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_is_next_in_the_line_of_a_fair_one_hears_of_what_is_left() {
    let server = server().await;
    let observer = server.observer().await.unwrap();
    let mut clients = Vec::new();
    for _ in 0..4 {
        clients.push(client_with(&server.url(), |config| config.poll_interval(10 * SOON)).await);
    }
    let semaphores: Vec<_> = clients.iter().map(|client| Semaphore::new(client, "mail").capacity(3).fair()).collect();
    for _ in 0..8 {
        let held = semaphores[0].acquire_many(3).wait(SOON).await.unwrap();
        let mut waiters = Vec::new();
        for (nth, semaphore) in semaphores[1..].iter().enumerate() {
            waiters.push(tokio::spawn(semaphore.acquire().wait(2 * SOON).into_future()));
            let line = ["ZCARD", "redgrid_semaphore_line:{mail}"];
            wait_until(SOON, async || number(&observer, &line).await == nth as i64 + 1).await;
        }
        held.release().await.unwrap();
        // All at a time: nobody is woken by another's release.
        let mut permits = Vec::new();
        for waiter in waiters {
            permits.push(tokio::time::timeout(SOON, waiter).await.expect("it is woken").unwrap().unwrap());
        }
        for permit in permits {
            permit.release().await.unwrap();
        }
    }
}

/// A semaphore of either kind, behind a proxy that loses one answer of so many to its exchanges.
async fn lossy(url: &str, proxy: &Proxy, leases: bool, every: u64) -> (Client, Semaphore) {
    let client = client_with(url, |config| config.timeout(150 * MS)).await;
    let mut semaphore = Semaphore::new(&client, "mail").capacity(4);
    if !leases {
        semaphore = semaphore.without_leases();
    }
    // The script is known to the server from here on.
    semaphore.acquire().wait(SOON).await.unwrap().release().await.unwrap();
    let seen = AtomicU64::new(0);
    proxy.on_request(move |request| {
        let ours = request.iter().any(|part| part.starts_with(b"redgrid_once:{mail}"));
        match ours && seen.fetch_add(1, Ordering::Relaxed) % every == every - 1 {
            true if fastrand::bool() => Action::SwallowReply,
            true => Action::Hold,
            false => Action::Forward,
        }
    });
    (client, semaphore)
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_that_are_lost_or_late_cost_no_permit() {
    let wanted = times("REDGRID_LOST_ANSWERS", 40);
    for leases in [false, true] {
        let server = server().await;
        let observer = server.observer().await.unwrap();
        let lost = Arc::new(AtomicU64::new(0));
        let mut rigs = Vec::new();
        for _ in 0..(wanted / 100).clamp(8, 32) {
            let proxy = Proxy::to(&server).await.unwrap();
            let (client, semaphore) = lossy(&server.url_via(proxy.addr()), &proxy, leases, 3).await;
            rigs.push((proxy, client, semaphore));
        }
        let runs = rigs.iter().map(|(proxy, client, semaphore)| {
            let lost = Arc::clone(&lost);
            async move {
                let mut before = 0;
                while lost.load(Ordering::Relaxed) < wanted as u64 {
                    // What is given up while it is under way is settled by the client itself.
                    let permits = fastrand::u64(1..=3);
                    match semaphore.acquire_many(permits).wait(fastrand::u32(1..400) * MS).await {
                        Ok(permit) if fastrand::bool() => drop(permit),
                        Ok(permit) => drop(permit.release().await),
                        Err(AcquireError::TimedOut { .. } | AcquireError::OutcomeUnknown { .. }) => {}
                        Err(other) => assert!(matches!(other, AcquireError::Unavailable { .. }), "{other:?}"),
                    }
                    proxy.release_held().await;
                    let counts = proxy.counts().swallowed;
                    lost.fetch_add(counts - before, Ordering::Relaxed);
                    before = counts;
                }
                proxy.heal();
                proxy.release_held().await;
                wait_until(SOON * 2, async || is_idle(client)).await;
            }
        });
        join_all(runs).await;
        let leased = number(&observer, &["ZCARD", "{mail}:timeout"]).await;
        assert_eq!((number(&observer, &["GET", "mail"]).await, leased), (4, 0), "leases: {leases}");
        println!("{} answers lost", lost.load(Ordering::Relaxed));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_permits_of_killed_processes_come_back_within_one_lease() {
    const CAPACITY: u64 = 6;
    const LEASE: i64 = 500;
    let (server, trials) = (server().await, times("REDGRID_KILLED_TRIALS", 24));
    let (observer, client, url) = (server.observer().await.unwrap(), client(&server).await, server.url());
    let lanes = (0..6).map(|lane| {
        let (observer, client, url) = (&observer, &client, &url);
        async move {
            let name = format!("seats{lane}");
            let (leases, semaphore) = (format!("{{{name}}}:timeout"), Semaphore::new(client, &name).capacity(CAPACITY));
            let mut had = 0;
            for _ in 0..trials.div_ceil(6) {
                let mut takers = Vec::new();
                for _ in 0..2 {
                    let mut child = Command::new(env!("CARGO_BIN_EXE_taker"))
                        .args([url, &name, &CAPACITY.to_string(), &LEASE.to_string()])
                        .stdout(Stdio::piped())
                        .kill_on_drop(true)
                        .spawn()
                        .unwrap();
                    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
                    for _ in 0..fastrand::usize(1..30) {
                        tokio::time::timeout(SOON, lines.next_line()).await.unwrap().unwrap().unwrap();
                    }
                    takers.push((child, lines));
                }
                for (child, _) in &mut takers {
                    child.start_kill().unwrap();
                }
                for (child, _) in &mut takers {
                    child.wait().await.unwrap();
                }
                // Whatever they had ends within one lease from here, by the server's clock.
                let (seconds, micros): (i64, i64) = observer.query(&["TIME"]).await.unwrap();
                let ends: Vec<(Vec<u8>, i64)> =
                    observer.query(&["ZRANGE", &leases, "0", "-1", "WITHSCORES"]).await.unwrap();
                had += usize::from(!ends.is_empty());
                let by = seconds * 1000 + micros / 1000 + LEASE;
                assert!(ends.iter().all(|(_, end)| *end <= by), "{ends:?} {by}");
                wait_until(SOON, async || {
                    let left = semaphore.available_permits().await.unwrap();
                    assert!(left <= CAPACITY, "{left}");
                    left == CAPACITY
                })
                .await;
            }
            semaphore.acquire_many(CAPACITY).wait(SOON).await.unwrap().release().await.unwrap();
            assert_eq!(number(observer, &["GET", &name]).await, CAPACITY as i64);
            had
        }
    });
    let had: usize = join_all(lanes).await.into_iter().sum();
    println!("{trials} trials; in {had} permits were held by the dead");
    assert!(had > 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn processes_take_turns() {
    let server = server().await;
    for leases in [true, false] {
        let over = Arc::new(AtomicBool::new(false));
        let mut shares = Vec::new();
        let mut tasks = Vec::new();
        for _ in 0..2 {
            let client = client(&server).await;
            let mut mail = Semaphore::new(&client, "mail").capacity(8);
            if !leases {
                mail = mail.without_leases();
            }
            let share = Arc::new(AtomicU64::new(0));
            for _ in 0..32 {
                let (mail, share, over) = (mail.clone(), Arc::clone(&share), Arc::clone(&over));
                tasks.push(tokio::spawn(async move {
                    while !over.load(Ordering::Relaxed) {
                        let permit = mail.acquire().wait(SOON).await.unwrap();
                        // Work that takes as long on either side.
                        tokio::time::sleep(MS).await;
                        permit.release().await.unwrap();
                        share.fetch_add(1, Ordering::Relaxed);
                    }
                }));
            }
            shares.push(share);
        }
        let both = async || shares.iter().map(|share| share.load(Ordering::Relaxed)).collect::<Vec<_>>();
        wait_until(SOON, async || both().await.iter().all(|share| *share > 0)).await;
        let from = both().await;
        // Each of some 10 ms.
        let stretches = u32::try_from(times("REDGRID_STRETCHES", 150)).unwrap();
        tokio::time::sleep(stretches * 10 * MS).await;
        let to = both().await;
        over.store(true, Ordering::Relaxed);
        for done in join_all(tasks).await {
            done.unwrap();
        }
        let had: Vec<f64> = to.iter().zip(from).map(|(to, from)| (to - from) as f64).collect();
        let share = had[0] / (had[0] + had[1]);
        println!("shares {had:?}: {share:.2}");
        assert!((0.35..=0.65).contains(&share), "{had:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fair_one_serves_processes_in_the_order_of_asking() {
    let server = server().await;
    let (one, two) = (client(&server).await, client(&server).await);
    let semaphores = [&one, &two].map(|client| Semaphore::new(client, "mail").capacity(3).fair());
    let held = semaphores[0].acquire().await.unwrap();
    let order = Arc::new(std::sync::Mutex::new(Vec::new()));
    let mut waiters = Vec::new();
    for nth in 0..8_usize {
        let (semaphore, order) = (semaphores[nth % 2].clone(), Arc::clone(&order));
        waiters.push(tokio::spawn(async move {
            // The first wants all: nobody overtakes it, although there are two left.
            let permit = semaphore.acquire_many(if nth == 0 { 3 } else { 2 }).wait(SOON).await.unwrap();
            order.lock().unwrap().push(nth);
            permit.release().await.unwrap();
        }));
        let observer = server.observer().await.unwrap();
        wait_until(SOON, async || {
            number(&observer, &["ZCARD", "redgrid_semaphore_line:{mail}"]).await == nth as i64 + 1
        })
        .await;
    }
    assert!(semaphores[1].try_acquire().await.unwrap().is_none());
    held.release().await.unwrap();
    for waiter in waiters {
        waiter.await.unwrap();
    }
    assert_eq!(*order.lock().unwrap(), (0..8).collect::<Vec<_>>());
    wait_until(SOON, async || is_idle(&one) && is_idle(&two)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_dead_do_not_keep_the_line_of_a_fair_one() {
    let server = server().await;
    let observer = server.observer().await.unwrap();
    let proxy = Proxy::to(&server).await.unwrap();
    let (one, dead) = (client(&server).await, client(&server).await);
    let cut = client_with(&server.url_via(proxy.addr()), |config| config).await;
    drop(dead);
    let semaphore = Semaphore::new(&one, "mail").capacity(2).fair();
    let held = semaphore.acquire_many(2).await.unwrap();
    let gone = tokio::spawn({
        let theirs = Semaphore::new(&cut, "mail").fair();
        async move { theirs.acquire_many(2).await.map(drop) }
    });
    wait_until(SOON, async || number(&observer, &["ZCARD", "redgrid_semaphore_line:{mail}"]).await == 1).await;
    proxy.set_both(Fault::BlackHole);
    let next = tokio::spawn({
        let semaphore = semaphore.clone();
        async move { semaphore.acquire().wait(SOON).await.map(drop) }
    });
    wait_until(SOON, async || number(&observer, &["ZCARD", "redgrid_semaphore_line:{mail}"]).await == 2).await;
    held.release().await.unwrap();
    next.await.unwrap().unwrap();
    gone.abort();
}

/// Random requests of several clients, on ways that take their time and break, each checked against what a model says is possible.
#[tokio::test(flavor = "multi_thread")]
async fn random_requests_agree_with_a_model() {
    for seed in 0..times("REDGRID_PERMIT_SEEDS", 8) as u64 {
        let server = server().await;
        let observer = server.observer().await.unwrap();
        let mut random = fastrand::Rng::with_seed(seed);
        let (leases, fair) = (random.bool(), random.bool());
        let capacity = random.u64(1..8);
        let (mut clients, mut proxies) = (Vec::new(), Vec::new());
        for _ in 0..3 {
            // Each a way of its own to the server, and a short one at first.
            let proxy = Proxy::to(&server).await.unwrap();
            clients.push(client_with(&server.url_via(proxy.addr()), |config| config).await);
            proxies.push(proxy);
        }
        let semaphores: Vec<_> = clients
            .iter()
            .map(|client| {
                let mut semaphore = Semaphore::new(client, "mail").capacity(capacity);
                if !leases {
                    semaphore = semaphore.without_leases();
                }
                if fair { semaphore.fair() } else { semaphore }
            })
            .collect();
        let mut held: BTreeMap<u64, Permit> = BTreeMap::new();
        let (mut next, mut out) = (0, 0);
        for _ in 0..120 {
            let who = random.usize(..3);
            let semaphore = &semaphores[who];
            match random.u8(..12) {
                10 => proxies[who].set_both(Fault::Delay(random.u32(..3) * MS)),
                // Whatever is under way is asked again on another connection.
                11 => proxies[who].cut_all(),
                0..5 => {
                    let permits = random.u64(1..=capacity);
                    if permits > capacity - out {
                        // Without contact it is not known.
                        let granted = semaphore.try_acquire_many(permits).await;
                        assert!(!matches!(granted, Ok(Some(_))), "seed {seed}: {permits} with {out} of {capacity} out");
                    } else {
                        // Where others were just told of what came back, they go first: it may take a moment.
                        let granted = semaphore.acquire_many(permits).wait(SOON).await;
                        (out, next) = (out + permits, next + 1);
                        held.insert(next, granted.unwrap_or_else(|error| panic!("seed {seed}: {error}")));
                    }
                }
                5..8 => {
                    let Some(&key) = held.keys().min_by_key(|key| (*key * 7919) % 13) else { continue };
                    let Some(mut permit) = held.remove(&key) else { continue };
                    if permit.num_permits() > 1 && random.bool() {
                        let part = permit.split(1).unwrap();
                        next += 1;
                        held.insert(next, permit);
                        permit = part;
                    }
                    out -= permit.num_permits();
                    permit.release().await.unwrap();
                }
                8 => {
                    // Asked for, and given up at some point of the way.
                    let asked =
                        at_most(random.usize(..4), semaphore.acquire_many(random.u64(1..=capacity)).into_future());
                    drop(tokio::time::timeout(random.u32(1..20) * MS, asked).await);
                }
                // What was given up may be on its way yet, and back.
                _ => {
                    let left = async || semaphore.available_permits().await.ok();
                    wait_until(SOON, async || left().await == Some(capacity - out)).await;
                }
            }
        }
        drop(held);
        proxies.iter().for_each(Proxy::heal);
        wait_until(SOON, async || clients.iter().all(is_idle)).await;
        assert_eq!(number(&observer, &["GET", "mail"]).await, capacity as i64, "seed {seed}");
        assert_eq!(number(&observer, &["ZCARD", "{mail}:timeout"]).await, 0, "seed {seed}");
        let line = number(&observer, &["ZCARD", "redgrid_semaphore_line:{mail}"]).await;
        assert_eq!(line, 0, "seed {seed}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_that_are_dropped_wherever_they_are_leave_nothing() {
    let server = server().await;
    let observer = server.observer().await.unwrap();
    for leases in [true, false] {
        for fair in [true, false] {
            let clients = [client(&server).await, client(&server).await];
            let semaphores = clients.each_ref().map(|client| {
                let mut semaphore = Semaphore::new(client, "mail").capacity(7);
                if !leases {
                    semaphore = semaphore.without_leases();
                }
                if fair { semaphore.fair() } else { semaphore }
            });
            // Two of each process in turn, who mostly find too few.
            let tasks = (0..4_usize).map(|task| {
                let semaphore = semaphores[task % 2].clone();
                tokio::spawn(async move {
                    for _ in 0..150 {
                        let asked = semaphore.acquire_many(fastrand::u64(1..=7)).into_future();
                        let asked = at_most(fastrand::usize(..4), asked);
                        let held = tokio::time::timeout(fastrand::u32(1..30) * MS, asked).await;
                        tokio::time::sleep(fastrand::u32(0..3) * MS).await;
                        drop(held);
                    }
                })
            });
            for done in join_all(tasks).await {
                done.unwrap();
            }
            wait_until(SOON, async || clients.iter().all(is_idle)).await;
            let left = number(&observer, &["GET", "mail"]).await;
            assert_eq!((left, number(&observer, &["ZCARD", "{mail}:timeout"]).await), (7, 0), "{leases} {fair}");
        }
    }
}
