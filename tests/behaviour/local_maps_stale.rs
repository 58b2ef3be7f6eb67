//! The maximum staleness of a local cache during faults of connections and servers.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use redgrid_core::Client;
use redgrid_local_cached_map::{LocalCachedMap, Options};
use redgrid_testkit::{Direction, Fault, Proxy, wait_until};
use redgrid_tests::{SOON, client, client_with, server};

type Numbers = LocalCachedMap<u64, u64>;

/// Shorter than a usual setting, so that many trials fit into the test.
const BOUND: Duration = Duration::from_millis(100);

/// The values of a writer, one number after another: the time each write began, and the time of its
/// reply.
#[derive(Default)]
struct Written(Mutex<Vec<(Instant, Option<Instant>)>>);

impl Written {
    fn begin(&self) {
        self.0.lock().unwrap().push((Instant::now(), None));
    }

    fn end(&self) {
        self.0.lock().unwrap().last_mut().unwrap().1 = Some(Instant::now());
    }

    /// The last number that was certainly stored at a moment. Numbers begin with 1.
    fn certain_at(&self, moment: Option<Instant>) -> u64 {
        let written = self.0.lock().unwrap();
        let there = |(_, end): &(Instant, Option<Instant>)| end.is_some_and(|end| moment.is_some_and(|at| end < at));
        written.iter().rposition(there).map_or(0, |at| at as u64 + 1)
    }

    /// Returns how many writes have begun.
    fn begun(&self) -> u64 {
        self.0.lock().unwrap().len() as u64
    }
}

/// Reads until it is stopped. Each value that is read must have been current within the bound
/// before the read, or later.
async fn watch(numbers: Numbers, key: u64, written: Arc<Written>, stop: Arc<AtomicBool>) -> (u64, Duration) {
    let (mut reads, mut stalest) = (0, Duration::ZERO);
    while !stop.load(Ordering::Relaxed) {
        let began = Instant::now();
        // A failed read has no value to check.
        let Ok(got) = numbers.get(&key).await else { continue };
        let got = got.unwrap_or(0);
        let least = written.certain_at(began.checked_sub(BOUND));
        assert!(got >= least, "{got} was read more than {BOUND:?} after {least} was written");
        assert!(got <= written.begun(), "{got} was not written yet");
        // How long the next value had been stored when the read began.
        if let Some((_, Some(next))) = written.0.lock().unwrap().get(got as usize) {
            stalest = stalest.max(began.saturating_duration_since(*next));
        }
        reads += 1;
        if reads % 64 == 0 {
            tokio::task::yield_now().await;
        }
    }
    (reads, stalest)
}

/// During faults, a read returns no value that was overwritten earlier than the bound allows.
/// `REDGRID_STALE_TRIALS` sets the number of trials.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn no_value_is_read_that_was_overwritten_before_the_bound() {
    let trials = std::env::var("REDGRID_STALE_TRIALS").ok().and_then(|trials| trials.parse().ok()).unwrap_or(20);
    let server = server().await;
    let (observer, proxy) = (server.observer().await.unwrap(), Proxy::to(&server).await.unwrap());
    let quick = |config: redgrid_core::Config| config.response_timeout(Duration::from_millis(500)).retries(20);
    let reader = client_with(&server.url_via(proxy.addr()), quick).await;
    let writer = client(&server).await;
    let here = Numbers::with_options(&reader, "numbers", Options::default().max_stale(BOUND));
    let there = Numbers::new(&writer, "numbers");
    let (written, stop) = (Arc::new(Written::default()), Arc::new(AtomicBool::new(false)));
    written.begin();
    there.set(&0, &1).await.unwrap();
    written.end();
    let watching: Vec<_> =
        (0..2).map(|_| tokio::spawn(watch(here.clone(), 0, Arc::clone(&written), Arc::clone(&stop)))).collect();
    let mut random = fastrand::Rng::with_seed(17);
    let mut faults = HashMap::<&str, u64>::new();
    let (mut caught, mut bypassed) = (0_u64, 0_u64);
    for trial in 0..trials {
        // The value is cached, and served from the cache.
        let hits = here.stats().hits;
        wait_until(SOON, async || here.is_active() && here.stats().hits > hits).await;
        let fault = ["kill", "swallow", "cut", "black hole", "stall", "pause"][random.usize(..6)];
        *faults.entry(fault).or_default() += 1;
        let fail = async || match fault {
            "kill" => drop(observer.cmd(&["CLIENT", "KILL", "TYPE", "pubsub"]).await),
            "swallow" => proxy.drop_publishes(true),
            "cut" => proxy.cut_all(),
            "black hole" => proxy.set(Direction::ToClient, Fault::BlackHole),
            "stall" => proxy.set_both(Fault::Stall),
            _ => server.pause().await.unwrap(),
        };
        let first = random.bool();
        if first {
            fail().await;
        }
        let write = tokio::spawn({
            let (there, written, number) = (there.clone(), Arc::clone(&written), trial + 2);
            async move {
                written.begin();
                there.set(&0, &number).await.map(|_| written.end())
            }
        });
        if !first {
            fail().await;
        }
        if fault == "swallow" {
            // A connection does not lose single messages, but a proxy in front of a server may. The
            // client detects the loss because a heartbeat is missing too.
            wait_until(SOON, async || !here.is_active()).await;
        } else {
            tokio::time::sleep(Duration::from_millis(random.u64(0..150))).await;
        }
        caught += u64::from(!here.is_active());
        server.resume().await.unwrap();
        proxy.heal();
        if fault == "black hole" {
            // A black hole stays until the connection is cut.
            proxy.cut_all();
        }
        write.await.unwrap().expect("the server answers the writer");
        // The next number must be visible before the next trial.
        wait_until(SOON, async || here.get(&0).await.is_ok_and(|got| got == Some(trial + 2))).await;
        bypassed = here.stats().bypassed;
    }
    stop.store(true, Ordering::Relaxed);
    let (mut reads, mut stalest) = (0, Duration::ZERO);
    for watched in join_all(watching).await {
        let (more, most) = watched.unwrap();
        (reads, stalest) = (reads + more, stalest.max(most));
    }
    let stats = here.stats();
    println!(
        "{trials} trials {faults:?}: {reads} reads, stalest {stalest:?}, not in force at the end of {caught}; {stats:?}"
    );
    assert!(stats.hits > reads / 10 && bypassed > 0 && stalest <= BOUND, "{stats:?}");
}

/// Clients write and read several keys; each key has one writer. A client reads its own writes at
/// once, those of others within the bound, and never a value that was not written.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn clients_read_values_no_older_than_the_bound() {
    const KEYS: u64 = 6;
    let server = server().await;
    let seed = fastrand::u64(..);
    let written: Arc<Vec<Written>> = Arc::new((0..KEYS).map(|_| Written::default()).collect());
    let (mut tasks, hits) = (Vec::new(), Arc::new(AtomicU64::new(0)));
    for who in 0..3_u64 {
        let client: Client = client(&server).await;
        let options = Options::default().max_stale(BOUND).keep_absent(true).max_entries(5);
        let numbers = Numbers::with_options(&client, "numbers", options);
        let (written, hits) = (Arc::clone(&written), Arc::clone(&hits));
        let mut random = fastrand::Rng::with_seed(seed.wrapping_add(who));
        wait_until(SOON, async || {
            numbers.get(&KEYS).await.unwrap();
            numbers.is_active()
        })
        .await;
        tasks.push(tokio::spawn(async move {
            let enough = Instant::now() + SOON;
            let mut rounds = 0;
            // On a machine that stalls repeatedly, more rounds are needed until values are cached.
            while rounds < 700 || (numbers.stats().hits < 200 && Instant::now() < enough) {
                rounds += 1;
                let key = random.u64(..KEYS);
                if random.u8(..8) == 0 && key % 3 == who {
                    let number = written[key as usize].begun() + 1;
                    written[key as usize].begin();
                    match random.u8(..5) {
                        0 => drop(numbers.set(&key, &number).await.unwrap()),
                        1 => drop(numbers.insert(&key, &number).await.unwrap()),
                        2 => drop(numbers.alter(&key, |_| Some(number)).await.unwrap()),
                        3 => numbers.set_many([(&key, &number)]).await.unwrap(),
                        _ => {
                            numbers.remove(&key).await.unwrap();
                            assert!(numbers.set_if_absent(&key, &number).await.unwrap());
                        }
                    }
                    written[key as usize].end();
                }
                let began = Instant::now();
                let keys: Vec<u64> = if random.bool() { vec![key] } else { (0..KEYS).collect() };
                let got = match &keys[..] {
                    [key] => vec![numbers.get(key).await.unwrap()],
                    keys => numbers.get_many(keys).await.unwrap(),
                };
                for (key, got) in keys.into_iter().zip(got) {
                    let of = &written[key as usize];
                    let since = if key % 3 == who { Some(began) } else { began.checked_sub(BOUND) };
                    let least = of.certain_at(since);
                    // A key is absent for a moment before it is set again.
                    let absent = got.is_none() && of.begun() > least;
                    assert!(absent || got.unwrap_or(0) >= least, "seed {seed}: {key} was {got:?} and not {least}");
                    assert!(got.unwrap_or(0) <= of.begun(), "seed {seed}: {key} is {got:?}");
                }
            }
            hits.fetch_add(numbers.stats().hits, Ordering::Relaxed);
        }));
    }
    for task in join_all(tasks).await {
        task.unwrap();
    }
    assert!(hits.load(Ordering::Relaxed) > 500, "seed {seed}: {hits:?} hits");
}
