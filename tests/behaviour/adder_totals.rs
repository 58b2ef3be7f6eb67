//! Adders that save their counts.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::Duration;

use redgrid_atomic_long::{AdderError, Client, DoubleAdder, LongAdder};
use redgrid_testkit::{Action, Observer, Proxy, wait_until};
use redgrid_tests::process::{Other, Signal};
use redgrid_tests::{SOON, client, client_with, server};

const OFTEN: Duration = Duration::from_millis(10);
const NEVER: Duration = Duration::from_secs(3600);
const TOTAL: &str = "redgrid_adder:{views}";

async fn saving(client: &Client, interval: Duration) -> LongAdder {
    let adder = LongAdder::new(client, "views").saving(interval).unwrap();
    adder.ready().await.unwrap();
    adder
}

/// Returns the total saved on the server.
async fn total(observer: &Observer) -> Option<i64> {
    observer.query::<Option<i64>>(&["HGET", TOTAL, "sum"]).await.unwrap()
}

async fn until_total(observer: &Observer, expected: i64) {
    wait_until(SOON, async || total(observer).await == Some(expected)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn saved_counts_stay_and_are_in_each_sum_once() {
    let server = server().await;
    let observer = server.observer().await.unwrap();
    let (one, two, three) = (client(&server).await, client(&server).await, client(&server).await);
    let (here, there) = (saving(&one, OFTEN).await, saving(&two, NEVER).await);
    let plain = LongAdder::new(&three, "views");
    plain.add(1);
    here.add(20);
    there.add(300);
    until_total(&observer, 20).await;
    for adder in [&plain, &here, &there] {
        assert_eq!(adder.sum().await.unwrap(), 321);
    }
    // The last handle saves when it is destroyed, and so does a shutdown.
    there.destroy().await.unwrap();
    assert_eq!((total(&observer).await, plain.sum().await.unwrap()), (Some(320), 321));
    here.add(4_000);
    one.shutdown(SOON).await.unwrap();
    assert_eq!((total(&observer).await, plain.sum().await.unwrap()), (Some(4_320), 4_321));
    // A new client continues from the saved total.
    let again = saving(&two, OFTEN).await;
    again.add(-4_000);
    until_total(&observer, 320).await;
    assert_eq!(again.sum().await.unwrap(), 321);
    again.reset().await.unwrap();
    assert_eq!((total(&observer).await, plain.sum().await.unwrap()), (Some(0), 0));
    again.add(7);
    until_total(&observer, 7).await;
    assert_eq!(plain.sum().await.unwrap(), 7);
    again.destroy().await.unwrap();
    let left: Vec<String> = observer.query(&["KEYS", "*"]).await.unwrap();
    for key in left.iter().filter(|key| *key != TOTAL) {
        assert!(observer.query::<i64>(&["PTTL", key]).await.unwrap() > 0, "{key}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn doubles_are_saved_too() {
    let server = server().await;
    let (one, two) = (client(&server).await, client(&server).await);
    let here = DoubleAdder::new(&one, "views").saving(OFTEN).unwrap();
    let there = DoubleAdder::new(&two, "views");
    there.add(0.5).unwrap();
    here.add(0.25).unwrap();
    let observer = server.observer().await.unwrap();
    let saved = async || observer.query::<Option<String>>(&["HGET", TOTAL, "sum"]).await.unwrap();
    wait_until(SOON, async || saved().await.as_deref() == Some("0.25")).await;
    assert_eq!(there.sum().await.unwrap(), 0.75);
    here.add(1.0).unwrap();
    here.destroy().await.unwrap();
    assert_eq!((there.sum().await.unwrap(), saved().await.as_deref()), (1.75, Some("1.25")));
    there.reset().await.unwrap();
    assert_eq!(there.sum().await.unwrap(), 0.0);
}

/// Stops threads when it is dropped, even if the test fails.
struct Stop(Arc<AtomicBool>);

impl Drop for Stop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// Sums and saves overlap at every moment. Nothing is counted twice or missing, and resets leave
/// nothing.
#[tokio::test(flavor = "multi_thread")]
async fn sums_are_exact_while_all_clients_save() {
    let server = server().await;
    let clients = [client(&server).await, client(&server).await, client(&server).await];
    let [one, two] = [saving(&clients[0], OFTEN).await, saving(&clients[1], OFTEN).await];
    let asking = LongAdder::new(&clients[2], "views");
    asking.ready().await.unwrap();
    for _ in 0..3 {
        let (added, stop) = (Arc::new(AtomicI64::new(0)), Arc::new(AtomicBool::new(false)));
        let _stop = Stop(Arc::clone(&stop));
        let counting = [&one, &two].map(|adder| {
            let (adder, added, stop) = (adder.clone(), Arc::clone(&added), Arc::clone(&stop));
            tokio::task::spawn_blocking(move || {
                while !stop.load(Ordering::SeqCst) {
                    adder.increment();
                    added.fetch_add(1, Ordering::SeqCst);
                    std::thread::sleep(Duration::from_micros(50));
                }
            })
        });
        for n in 0..100 {
            let before = added.load(Ordering::SeqCst);
            let sum = if n % 3 == 0 { asking.sum().await } else { one.sum().await }.unwrap();
            // Each of the two may have added 1 without having counted it here.
            let after = added.load(Ordering::SeqCst) + 2;
            assert!((before..=after).contains(&sum), "{sum} of {before} to {after}");
        }
        stop.store(true, Ordering::SeqCst);
        for task in counting {
            task.await.unwrap();
        }
        assert_eq!(asking.sum().await.unwrap(), added.load(Ordering::SeqCst));
        asking.reset().await.unwrap();
        assert_eq!(two.sum().await.unwrap(), 0);
    }
}

/// A round whose first redgrid client has added a total that had been saved to this many times.
async fn round(observer: &Observer, id: &str, saves: &str) {
    for (key, value) in [
        (format!("redgrid_adder_round:{{views}}:{id}"), saves),
        (format!("{{views}}:{id}:counter"), "0"),
        (format!("{{views}}:{id}:semaphore"), "0"),
    ] {
        observer.cmd(&["SET", &key, value, "PX", "60000"]).await.unwrap();
    }
}

async fn answered(observer: &Observer, message: &str) -> i64 {
    let id = &message[2..];
    observer.cmd(&["PUBLISH", "{views}:adder-topic", message]).await.unwrap();
    let semaphore = format!("{{views}}:{id}:semaphore");
    wait_until(SOON, async || observer.get::<u64>(&semaphore).await.unwrap() == Some(1)).await;
    observer.get::<i64>(&format!("{{views}}:{id}:counter")).await.unwrap().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn counts_saved_after_a_rounds_total_are_answered_or_reverted() {
    let server = server().await;
    let observer = server.observer().await.unwrap();
    let proxy = Proxy::to(&server).await.unwrap();
    let client = client_with(&server.url_via(proxy.addr()), |config| config).await;
    let adder = saving(&client, OFTEN).await;
    adder.add(5);
    until_total(&observer, 5).await;
    adder.add(3);
    until_total(&observer, 8).await;
    for (saves, amount) in [("0", 8), ("1", 3), ("2", 0)] {
        round(&observer, &format!("redgrid-{saves}"), saves).await;
        assert_eq!(answered(&observer, &format!("1:redgrid-{saves}")).await, amount, "behind {saves}");
    }
    // The total was reset before the last save. That save is reverted before the reply.
    round(&observer, "redgrid-r", "1").await;
    let save = redgrid_tests::sha(include_str!("../../crates/redgrid-atomic-long/src/scripts/adder_save.lua"));
    let (held, seen) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let (holds, sees) = (Arc::clone(&held), Arc::clone(&seen));
    held.store(true, Ordering::SeqCst);
    proxy.on_request(move |request| match request.len() > 1 && request[1] == save.as_bytes() {
        true if holds.load(Ordering::SeqCst) => {
            sees.store(true, Ordering::SeqCst);
            Action::CutBefore
        }
        _ => Action::Forward,
    });
    observer.cmd(&["PUBLISH", "{views}:adder-topic", "0:redgrid-r"]).await.unwrap();
    wait_until(SOON, async || seen.load(Ordering::SeqCst)).await;
    assert_eq!(observer.get::<u64>("{views}:redgrid-r:semaphore").await.unwrap(), Some(0));
    held.store(false, Ordering::SeqCst);
    wait_until(SOON, async || observer.get::<u64>("{views}:redgrid-r:semaphore").await.unwrap() == Some(1)).await;
    assert_eq!(total(&observer).await, Some(5));
    adder.add(1);
    until_total(&observer, 6).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn lost_and_late_replies_save_once() {
    let server = server().await;
    let observer = server.observer().await.unwrap();
    let proxy = Proxy::to(&server).await.unwrap();
    let quick = |config: redgrid_core::Config| config.response_timeout(Duration::from_millis(200));
    let client = client_with(&server.url_via(proxy.addr()), quick).await;
    let adder = saving(&client, OFTEN).await;
    let mut sum = 0;
    for turn in 0..6 {
        for action in [Action::SwallowReply, Action::CutAfterForward, Action::CutBefore, Action::Hold] {
            proxy.next(1, TOTAL, action);
            sum += 1 + turn;
            adder.add(1 + turn);
            until_total(&observer, sum).await;
        }
    }
    // The held copies arrive last.
    proxy.release_held().await;
    adder.ready().await.unwrap();
    assert_eq!(adder.sum().await.unwrap(), sum);
    adder.destroy().await.unwrap();
    assert_eq!(total(&observer).await, Some(sum));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_total_is_saved_again_by_live_members() {
    let server = server().await;
    let observer = server.observer().await.unwrap();
    let client = client(&server).await;
    let adder = saving(&client, OFTEN).await;
    adder.add(5);
    until_total(&observer, 5).await;
    observer.cmd(&["FLUSHALL"]).await.unwrap();
    assert_eq!(adder.sum().await.unwrap(), 5);
    adder.add(1);
    until_total(&observer, 6).await;
    assert_eq!(adder.sum().await.unwrap(), 6);
    // Only the total is deleted: the saved counts are not in another one.
    observer.cmd(&["DEL", TOTAL]).await.unwrap();
    adder.add(1);
    until_total(&observer, 7).await;
    assert_eq!(adder.sum().await.unwrap(), 7);
    let saved: Vec<String> = observer.query(&["KEYS", "redgrid_adder_saved:*"]).await.unwrap();
    // Restores the state of a failover that lost the last save.
    let [sum, saves, known] = async {
        let sum: String = observer.query(&["HGET", TOTAL, "sum"]).await.unwrap();
        let saves: String = observer.query(&["HGET", TOTAL, "saves"]).await.unwrap();
        [sum, saves, observer.get::<String>(&saved[0]).await.unwrap().unwrap()]
    }
    .await;
    adder.add(2);
    until_total(&observer, 9).await;
    observer.cmd(&["HSET", TOTAL, "sum", &sum, "saves", &saves]).await.unwrap();
    observer.cmd(&["SET", &saved[0], &known, "PX", "60000"]).await.unwrap();
    assert_eq!(adder.sum().await.unwrap(), 9);
    until_total(&observer, 9).await;
}

/// A first save that a failover lost is repeated. The total, and the number of saves to it, are as
/// before that save.
#[tokio::test(flavor = "multi_thread")]
async fn a_first_save_that_a_failover_has_lost_is_saved_again() {
    let server = server().await;
    let observer = server.observer().await.unwrap();
    let (one, two) = (client(&server).await, client(&server).await);
    let [here, there] = [saving(&one, OFTEN).await, saving(&two, OFTEN).await];
    for turn in 0..2 {
        here.add(1);
        until_total(&observer, 1).await;
        let saves: String = observer.query(&["HGET", TOTAL, "saves"]).await.unwrap();
        let before: Vec<String> = observer.query(&["KEYS", "redgrid_adder_saved:*"]).await.unwrap();
        there.add(5);
        until_total(&observer, 6).await;
        let saved: Vec<String> = observer.query(&["KEYS", "redgrid_adder_saved:*"]).await.unwrap();
        let first = saved.iter().find(|key| !before.contains(key)).expect("its first");
        observer.cmd(&["MULTI"]).await.unwrap();
        observer.cmd(&["HSET", TOTAL, "sum", "1", "saves", &saves]).await.unwrap();
        observer.cmd(&["DEL", first]).await.unwrap();
        observer.cmd(&["EXEC"]).await.unwrap();
        if turn == 1 {
            here.add(1);
            until_total(&observer, 2).await;
        }
        assert_eq!(here.sum().await.unwrap(), 6 + turn);
        until_total(&observer, 6 + turn).await;
        assert_eq!(there.sum().await.unwrap(), 6 + turn);
        observer.cmd(&["FLUSHALL"]).await.unwrap();
        for adder in [&here, &there] {
            adder.reset().await.unwrap();
        }
        observer.cmd(&["FLUSHALL"]).await.unwrap();
    }
}

const ROLE: &str = env!("CARGO_BIN_EXE_role");

#[tokio::test(flavor = "multi_thread")]
async fn ended_processes_have_saved_and_killed_ones_their_last_save() {
    let server = server().await;
    let observer = server.observer().await.unwrap();
    let client = client(&server).await;
    let adder = LongAdder::new(&client, "views");
    adder.add(1);
    let url = server.url();
    let mut leaves = Other::start(ROLE, &["adder", &url, "views", "20", "3600000", "leaves"]).await;
    assert_eq!(leaves.next_line().await, "left");
    assert_eq!(adder.sum().await.unwrap(), 21);
    let killed = Other::start(ROLE, &["adder", &url, "views", "300", "10"]).await;
    until_total(&observer, 320).await;
    killed.kill().await;
    let lost = Other::start(ROLE, &["adder", &url, "views", "4000", "0"]).await;
    assert_eq!(adder.sum().await.unwrap(), 4_321);
    lost.kill().await;
    let gone = async || observer.query::<(String, u64)>(&["PUBSUB", "NUMSUB", "{views}:adder-topic"]).await.unwrap().1;
    wait_until(SOON, async || gone().await == 1).await;
    assert_eq!(adder.sum().await.unwrap(), 321);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stopped_process_is_reported_and_counts_again_when_it_continues() {
    let server = server().await;
    let client = client(&server).await;
    let adder = LongAdder::new(&client, "views");
    adder.add(1);
    let others = [
        Other::start(ROLE, &["adder", &server.url(), "views", "20", "0"]).await,
        Other::start(ROLE, &["adder", &server.url(), "views", "300", "0"]).await,
    ];
    assert_eq!(adder.sum().await.unwrap(), 321);
    others[0].signal(Signal::SIGSTOP);
    // Long enough for the other clients, however busy the machine is.
    let told = adder.sum().timeout(Duration::from_secs(5)).await.unwrap_err();
    match told {
        AdderError::Partial { answered: 2, expected: 3, so_far, .. } => assert_eq!(so_far.to_string(), "301"),
        other => panic!("{other:?}"),
    }
    // The stopped client receives this request after the round has ended.
    let told = adder.reset().timeout(Duration::from_secs(5)).await.unwrap_err();
    assert!(matches!(told, AdderError::Partial { answered: 2, expected: 3, .. }), "{told:?}");
    adder.add(4_000);
    others[0].signal(Signal::SIGCONT);
    // The process may replace its connection first. It is no member until it is subscribed again.
    wait_until(SOON, async || match adder.sum().timeout(SOON).await.unwrap() {
        4_000 => false,
        sum => {
            assert_eq!(sum, 4_020);
            true
        }
    })
    .await;
}
