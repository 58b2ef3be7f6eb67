//! Many waiters of one latch.

use std::process::Stdio;
use std::time::Duration;

use futures_util::future::join_all;
use redgrid_core::Failure;
use redgrid_countdown_latch::{CountDownLatch, LatchError};
use redgrid_testkit::{Action, Fault, Monitor, Proxy, SeenCommand, wait_until};
use redgrid_tests::latch::{crowd, placed, scripts};
use redgrid_tests::stopwatch::Stopwatch;
use redgrid_tests::{SOON, client, client_with, server};
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

/// A poll interval so long that a test fails if only a poll could wake its waiters.
const NO_POLL: Duration = Duration::from_secs(600);

fn polls(seen: &[SeenCommand]) -> usize {
    let [.., look] = scripts();
    seen.iter().filter(|command| command.args.first().is_some_and(|arg| *arg == look)).count()
}

/// Waiters in the process that counts down complete when the reply arrives, without a message or a
/// poll. A poll from the start of the waits may still be sent, so rounds are repeated until one of
/// them has no poll.
#[tokio::test(flavor = "multi_thread")]
async fn the_reply_to_the_last_count_down_completes_local_waits() {
    let server = server().await;
    let observer = server.observer().await.unwrap();
    observer.cmd(&["ACL", "SETUSER", "mute", "on", ">secret", "~*", "resetchannels", "+@all"]).await.unwrap();
    let mute = client_with(&server.url_for("mute", "secret"), |config| config.poll_interval(NO_POLL)).await;
    let latch = CountDownLatch::new(&mute, "a");
    let without_a_poll = async || {
        assert!(latch.try_set_count(2).await.unwrap());
        let mut monitor = Monitor::start(&server).await.unwrap().without("PING");
        let tasks = crowd(&latch, 10).await;
        let mut seen = Vec::new();
        wait_until(SOON, async || {
            seen.extend(monitor.take().await.unwrap());
            polls(&seen) >= 2
        })
        .await;
        assert_eq!(latch.count_down().await.unwrap(), 1);
        assert!(tasks.iter().all(|task| !task.is_finished()), "one count is left");
        monitor.take().await.unwrap();
        assert_eq!(latch.count_down().await.unwrap(), 0);
        for task in tasks {
            tokio::time::timeout(SOON, task).await.unwrap().unwrap().unwrap();
        }
        polls(&monitor.take().await.unwrap()) == 0
    };
    assert!(in_some_round(without_a_poll).await);
}

/// The maximum number of rounds until one has no poll from the start of the waits.
const ROUNDS: u32 = 20;

async fn in_some_round(is_met: impl AsyncFn() -> bool) -> bool {
    for _ in 0..ROUNDS {
        if is_met().await {
            return true;
        }
    }
    false
}

/// A round begun by Redisson has no number, and neither has one whose number was evicted. The reply
/// that ends such a round causes a poll. In this test every message is lost, and there are no
/// regular polls.
#[tokio::test(flavor = "multi_thread")]
async fn a_round_without_a_number_is_followed_by_a_poll_for_local_waits() {
    let server = server().await;
    let proxy = Proxy::to(&server).await.unwrap();
    proxy.drop_publishes(true);
    let client = client_with(&server.url_via(proxy.addr()), |config| config.poll_interval(NO_POLL)).await;
    let (latch, observer) = (CountDownLatch::new(&client, "a"), server.observer().await.unwrap());
    for is_evicted in [false, true, false, true] {
        if is_evicted {
            assert!(latch.try_set_count(1).await.unwrap());
        } else {
            observer.cmd(&["SET", "a", "1"]).await.unwrap();
        }
        let mut monitor = Monitor::start(&server).await.unwrap().without("PING");
        let tasks = crowd(&latch, 10).await;
        // The only regular poll is sent soon after the subscription. By then, the poll after the
        // confirmation was sent.
        let is_poll = |command: &SeenCommand| command.args.get(1..).is_some_and(|args| args == ["1", "a"]);
        wait_until(SOON, async || monitor.take().await.unwrap().iter().any(is_poll)).await;
        placed(&latch).await;
        observer.cmd(&["DEL", "redgrid_latch:{a}"]).await.unwrap();
        assert!(tasks.iter().all(|task| !task.is_finished()), "one count is left");
        assert_eq!(latch.count_down().await.unwrap(), 0);
        for task in tasks {
            tokio::time::timeout(SOON, task).await.expect("a poll").unwrap().unwrap();
        }
        wait_until(SOON, async || client.stats().channels == 0).await;
    }
    assert!(proxy.counts().publishes_dropped > 0);
}

/// The message published by the last count-down is sufficient: the wake-up takes half a round trip
/// to the server, and half a round trip back. An earlier poll may be late, so rounds are repeated
/// until one has three count-downs and no poll.
#[tokio::test(flavor = "multi_thread")]
async fn a_hundred_waiters_wake_without_a_further_round_trip() {
    let server = server().await;
    let observer = server.observer().await.unwrap();
    let (counting, waiting) =
        (client(&server).await, client_with(&server.url(), |config| config.poll_interval(NO_POLL)).await);
    let (count, latch) = (CountDownLatch::new(&counting, "a"), CountDownLatch::new(&waiting, "a"));
    // The server has cached the scripts after this.
    latch.wait().await.unwrap();
    count.try_set_count(1).await.unwrap();
    count.count_down().await.unwrap();
    let by_the_message_alone = async || {
        count.try_set_count(3).await.unwrap();
        let mut monitor = Monitor::start(&server).await.unwrap().without("PING");
        let tasks = crowd(&latch, 100).await;
        wait_until(SOON, async || observer.pubsub_channels("*latch*").await.unwrap().len() == 2).await;
        let mut seen = Vec::new();
        // Some polls are sent while the waiters arrive, each for the waiters before it. One is sent
        // after the confirmation of the subscription.
        wait_until(SOON, async || {
            seen.extend(monitor.take().await.unwrap());
            polls(&seen) >= 2
        })
        .await;
        assert!(polls(&seen) <= 10, "{} polls for a hundred", polls(&seen));
        waiting.command("PING").query::<String>().await.unwrap();
        monitor.take().await.unwrap();
        for _ in 0..3 {
            count.count_down().await.unwrap();
        }
        for task in tasks {
            tokio::time::timeout(SOON, task).await.unwrap().unwrap().unwrap();
        }
        wait_until(SOON, async || waiting.stats().channels == 0).await;
        let seen = monitor.take().await.unwrap();
        let is_asked = |command: &&SeenCommand| matches!(&*command.name, "EVAL" | "EVALSHA" | "GET");
        let asked = seen.iter().filter(is_asked).count();
        println!("requests from three count-downs until a hundred are awake: {asked}");
        assert!(asked >= 3, "each count-down is a request");
        asked == 3
    };
    assert!(in_some_round(by_the_message_alone).await, "three count-downs and no poll");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_local_waiters_share_a_subscription_and_its_polls() {
    let server = server().await;
    let observer = server.observer().await.unwrap();
    let (counting, waiting) =
        (client(&server).await, client_with(&server.url(), |config| config.poll_interval(NO_POLL)).await);
    let (count, latch) = (CountDownLatch::new(&counting, "a"), CountDownLatch::new(&waiting, "a"));
    latch.wait().await.unwrap();
    count.try_set_count(1).await.unwrap();
    // Each client has subscribed to its own notification channel by now.
    wait_until(SOON, async || observer.pubsub_channels("redgrid_client:*").await.unwrap().len() == 2).await;
    let mut monitor = Monitor::start(&server).await.unwrap().without("PING");
    let tasks = crowd(&latch, 1000).await;
    wait_until(SOON, async || observer.pubsub_channels("*latch*").await.unwrap().len() == 2).await;
    assert_eq!(waiting.stats().channels, 2);
    // The latch is opened as by Redisson: in one step, without the round's number. One poll then
    // serves all waiters.
    let over = "redis.call('DEL', KEYS[1]) return redis.call('PUBLISH', ARGV[1], '0')";
    let told = observer.query(&["EVAL", over, "1", "a", "redisson_countdownlatch__channel__{a}"]).await;
    assert_eq!(told, Ok(1));
    for task in tasks {
        tokio::time::timeout(SOON, task).await.unwrap().unwrap().unwrap();
    }
    wait_until(SOON, async || waiting.stats().channels == 0).await;
    let seen = monitor.take().await.unwrap();
    let subscriptions = seen.iter().filter(|command| command.name == "SUBSCRIBE").count();
    println!("a thousand waiters: {} polls, {subscriptions} subscription", polls(&seen));
    // Waiters arrive while polls are in flight, and each poll serves all waiters before it.
    assert!(polls(&seen) <= 20 && subscriptions == 1, "{} polls, {subscriptions}", polls(&seen));
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_count_downs_have_their_own_results() {
    let server = server().await;
    let clients = [client(&server).await, client(&server).await, client(&server).await];
    let latches = clients.each_ref().map(|client| CountDownLatch::new(client, "a"));
    latches[0].try_set_count(90).await.unwrap();
    let told = join_all((0..90).map(|n| latches[n % 3].count_down())).await;
    let mut left: Vec<u64> = told.into_iter().map(Result::unwrap).collect();
    left.sort();
    assert!(left.iter().copied().eq(0..90), "each has its own result: {left:?}");
    latches[1].wait().await.unwrap();
}

/// Many count-downs are combined into few requests. Sending them one after another would take
/// longer than the timeout of a call.
#[tokio::test(flavor = "multi_thread")]
async fn thousands_of_count_downs_of_one_client_are_a_few_requests_and_each_counts() {
    const ALL: u64 = 5000;
    let server = server().await;
    let proxy = Proxy::to(&server).await.unwrap();
    let client = client_with(&server.url_via(proxy.addr()), |config| config).await;
    let latch = CountDownLatch::new(&client, "a");
    latch.try_set_count(ALL + 10).await.unwrap();
    assert_eq!(latch.count_down().await.unwrap(), ALL + 9);
    let mut monitor = Monitor::start(&server).await.unwrap().without("PING");
    let mut left: Vec<u64> =
        join_all((0..ALL).map(|_| latch.count_down())).await.into_iter().map(Result::unwrap).collect();
    left.sort();
    assert!(left.iter().copied().eq(9..ALL + 9), "each as if it had been sent alone");
    let [_, count_down, ..] = scripts();
    let seen = monitor.take().await.unwrap();
    let requests = seen.iter().filter(|command| command.args.first().is_some_and(|arg| *arg == count_down)).count();
    println!("{ALL} count-downs: {requests} requests");
    assert!(requests <= 50, "{requests} requests");
    // More count-downs than the remaining count, with different weights and lost replies. The one
    // that reaches zero opens the latch.
    proxy.next(2, count_down, Action::SwallowReply);
    let told = join_all([1, 2, 3, 4, 5].map(|by| latch.count_down_by(by))).await;
    assert_eq!(told.into_iter().map(Result::unwrap).collect::<Vec<_>>(), [8, 6, 3, 0, 0]);
    assert_eq!(proxy.counts().swallowed, 2);
    latch.wait().await.unwrap();
    let most = i64::MAX as u64;
    assert!(latch.try_set_count(most).await.unwrap());
    // Count-downs whose sum does not fit into one batch use two batches.
    let told = join_all([1, most - 2, most].map(|by| latch.count_down_by(by))).await;
    assert_eq!(told.into_iter().map(Result::unwrap).collect::<Vec<_>>(), [most - 1, 1, 0]);
}

/// A count-down that is dropped while it is queued does not count, and does not affect others.
#[tokio::test(flavor = "multi_thread")]
async fn count_downs_that_are_dropped_before_their_turn_do_not_count() {
    let server = server().await;
    let proxy = Proxy::to(&server).await.unwrap();
    let (client, observer) =
        (client_with(&server.url_via(proxy.addr()), |config| config).await, server.observer().await.unwrap());
    let latch = CountDownLatch::new(&client, "a");
    latch.try_set_count(100).await.unwrap();
    assert_eq!(latch.count_down().await.unwrap(), 99);
    let [_, count_down, ..] = scripts();
    for first_stays in [true, false] {
        let before = latch.count().await.unwrap();
        // The first request stays in flight until the proxy releases it.
        proxy.next(1, &count_down, Action::Hold);
        let mut calls: Vec<_> = (0..6)
            .map(|_| {
                let latch = latch.clone();
                Box::pin(async move { latch.count_down().await })
            })
            .collect();
        for call in &mut calls {
            assert!(futures_util::poll!(call).is_pending());
        }
        let staying = calls.split_off(4);
        let first = calls.remove(0);
        drop(calls);
        wait_until(SOON, async || proxy.counts().held > 0).await;
        let kept = first_stays.then_some(first);
        assert_eq!(proxy.release_held().await, 1);
        let mut left: Vec<u64> =
            join_all(staying.into_iter().chain(kept)).await.into_iter().map(Result::unwrap).collect();
        left.sort();
        assert!(left.contains(&(before - 3)), "{left:?}: two, and the first one, which was in flight");
        assert_eq!(observer.get::<u64>("a").await.unwrap(), Some(before - 3));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn queued_count_downs_are_notified_of_a_shutdown() {
    let server = server().await;
    let proxy = Proxy::to(&server).await.unwrap();
    let client = client_with(&server.url_via(proxy.addr()), |config| config).await;
    let latch = CountDownLatch::new(&client, "a");
    latch.try_set_count(1000).await.unwrap();
    proxy.set_both(Fault::BlackHole);
    let calls: Vec<_> = (0..50)
        .map(|_| {
            let latch = latch.clone();
            tokio::spawn(async move { latch.count_down().await })
        })
        .collect();
    let _ = client.shutdown(Duration::from_millis(200)).await;
    for call in calls {
        let told = tokio::time::timeout(SOON, call).await.expect("a prompt end").unwrap();
        assert!(
            matches!(told, Err(LatchError::Failed(Failure::ShuttingDown { .. } | Failure::OutcomeUnknown { .. }))),
            "{told:?}"
        );
    }
}

struct Waiters {
    _child: Child,
    _input: ChildStdin,
    output: Lines<BufReader<ChildStdout>>,
}

impl Waiters {
    fn start(url: &str, name: &str, tasks: usize) -> Waiters {
        let mut child = Command::new(env!("CARGO_BIN_EXE_role"))
            .arg("waiter")
            .args([url, name, &tasks.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let input = child.stdin.take().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap()).lines();
        Waiters { _child: child, _input: input, output }
    }

    async fn line(&mut self) -> String {
        tokio::time::timeout(SOON, self.output.next_line()).await.unwrap().unwrap().unwrap()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_in_ten_processes_wake_by_the_message() {
    println!("with messages, all awake after {:?}", a_thousand_in_ten_processes(false).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_in_ten_processes_wake_by_the_poll_if_messages_are_lost() {
    let awake = a_thousand_in_ten_processes(true).await;
    println!("without messages, all awake after {awake:?}");
    // Each process polls once per second, and ten processes print a thousand lines.
    assert!(awake < Duration::from_secs(4), "{awake:?}");
}

/// Returns the time from the last count-down until all waiters have reported, without the machine's
/// delay.
async fn a_thousand_in_ten_processes(silent: bool) -> Duration {
    let server = server().await;
    let proxy = Proxy::to(&server).await.unwrap();
    proxy.drop_publishes(silent);
    let (client, observer) = (client(&server).await, server.observer().await.unwrap());
    let latch = CountDownLatch::new(&client, "a");
    latch.try_set_count(2).await.unwrap();
    let url = server.url_via(proxy.addr());
    let mut processes: Vec<_> = (0..10).map(|_| Waiters::start(&url, "a", 100)).collect();
    for process in &mut processes {
        assert_eq!(process.line().await, "waiting");
    }
    let numsub = ["PUBSUB", "NUMSUB", "redgrid_latch__channel:{a}"];
    wait_until(SOON, async || observer.query::<(String, u64)>(&numsub).await.unwrap().1 == 10).await;
    assert_eq!(latch.count_down().await.unwrap(), 1);
    assert_eq!(latch.count_down().await.unwrap(), 0);
    let last = Stopwatch::start();
    for process in &mut processes {
        let line = process.line().await;
        assert!(line.starts_with("done "), "{line}");
    }
    assert_eq!(proxy.counts().publishes_dropped > 0, silent);
    last.elapsed()
}
