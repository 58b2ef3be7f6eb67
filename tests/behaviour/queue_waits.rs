//! Waiters of a queue: each element is delivered once.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use redgrid_core::Failure;
use redgrid_queue::{Client, Deque, End, ObjectError, Queue};
use redgrid_testkit::redis::Value;
use redgrid_testkit::{Action, Direction, Fault, Observer, Proxy, RedisServer, wait_until};
use redgrid_tests::cancel::at_most;
use redgrid_tests::stopwatch::Stopwatch;
use redgrid_tests::{SOON, calls_of, client, client_with, server, sha};

/// How many waits are dropped: `REDGRID_CANCELLATIONS`.
fn cancellations() -> u64 {
    std::env::var("REDGRID_CANCELLATIONS").ok().and_then(|text| text.parse().ok()).unwrap_or(300)
}

fn take() -> String {
    let once = include_str!("../../crates/redgrid-core/src/exactly_once/dedup.lua");
    sha(&format!("{once}{}", include_str!("../../crates/redgrid-queue/src/scripts/take.lua")))
}

async fn waits(observer: &Observer, name: &str) {
    let channel = format!("redgrid_queue__channel:{{{name}}}");
    wait_until(SOON, async || observer.pubsub_channels("*").await.unwrap().contains(&channel)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn waiters_are_served_in_order_by_few_requests() {
    let server = server().await;
    let (one, two, observer) = (client(&server).await, client(&server).await, server.observer().await.unwrap());
    let (here, there): (Queue<u64>, Queue<u64>) = (Queue::new(&one, "jobs"), Queue::new(&two, "jobs"));
    let all = tokio::spawn(async move { join_all((0..250).map(|_| here.take())).await });
    waits(&observer, "jobs").await;
    let before = calls_of(&observer, "evalsha").await;
    there.push_many(&(0..250).collect::<Vec<_>>()).await.unwrap();
    let got: Vec<u64> = all.await.unwrap().into_iter().map(Result::unwrap).collect();
    assert_eq!(got, (0..250).collect::<Vec<_>>());
    // One push, three takes of up to a hundred elements each, and some polls.
    let asked = calls_of(&observer, "evalsha").await - before;
    assert!(asked < 20, "{asked}");
}

/// One request takes elements for a hundred waiters. The next one follows at once only if there may
/// be more elements.
#[tokio::test(flavor = "multi_thread")]
async fn many_waiters_of_an_empty_queue_cost_as_few_requests_as_one() {
    let server = server().await;
    let (client, observer) = (client(&server).await, server.observer().await.unwrap());
    let queue: Queue<u64> = Queue::new(&client, "jobs");
    let all = join_all((0..250).map(|_| queue.take_within(Duration::from_secs(1)))).await;
    assert!(all.into_iter().all(|none| none.unwrap().is_none()));
    let asked = calls_of(&observer, "evalsha").await;
    assert!(asked < 20, "{asked}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wait_ends_without_an_element_only_after_a_poll_for_it() {
    let server = server().await;
    let client = client(&server).await;
    let queue: Queue<u64> = Queue::new(&client, "jobs");
    let all: Vec<u64> = (0..250).collect();
    for _ in 0..20 {
        queue.push_many(&all).await.unwrap();
        // Some takes time out between the poll for the waiters before them and their own poll.
        let takes = all.iter().map(|n| queue.take_within(Duration::from_micros(20 * (n + 1))));
        let mut got: Vec<u64> = join_all(takes).await.into_iter().filter_map(Result::unwrap).collect();
        got.sort_unstable();
        assert_eq!(got, all);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_push_is_one_request_that_wakes_and_other_pushes_are_found() {
    let server = server().await;
    let (one, two, observer) = (client(&server).await, client(&server).await, server.observer().await.unwrap());
    let (here, there): (Deque<u64>, Queue<u64>) = (Deque::new(&one, "jobs"), Queue::new(&two, "jobs"));
    there.push(&0).await.unwrap();
    there.pop().await.unwrap();
    let before = calls_of(&observer, "evalsha").await;
    for n in 0..50 {
        there.push(&n).await.unwrap();
    }
    assert_eq!(calls_of(&observer, "evalsha").await - before, 50);
    assert_eq!(calls_of(&observer, "publish").await, 2, "only if the queue was empty");
    there.clear().await.unwrap();
    // At the longest pause between polls, only a message lets the waiter find the element at once.
    let waiting = tokio::spawn({
        let here = here.clone();
        async move { (here.take(End::Back).await.unwrap(), Instant::now()) }
    });
    waits(&observer, "jobs").await;
    let mut quick = 0;
    there.push(&7).await.unwrap();
    assert_eq!(waiting.await.unwrap().0, 7);
    for n in 0..10 {
        let waiting = tokio::spawn({
            let here = here.clone();
            async move { here.take(End::Front).await.unwrap() }
        });
        waits(&observer, "jobs").await;
        // The pauses between polls of an empty queue grow to a second, so the next poll is far off.
        tokio::time::sleep(Duration::from_millis(700)).await;
        let began = Stopwatch::start();
        there.push(&n).await.unwrap();
        assert_eq!(waiting.await.unwrap(), n);
        quick += u32::from(began.elapsed() < Duration::from_millis(100));
        if quick == 3 {
            break;
        }
    }
    assert_eq!(quick, 3, "a message wakes");
    let waiting = tokio::spawn(async move { here.take(End::Front).await.unwrap() });
    waits(&observer, "jobs").await;
    observer.cmd(&["RPUSH", "jobs", "8"]).await.unwrap();
    assert_eq!(tokio::time::timeout(SOON, waiting).await.unwrap().unwrap(), 8);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_waiter_loses_and_repeats_no_element() {
    let server = server().await;
    let (one, two, observer) = (client(&server).await, client(&server).await, server.observer().await.unwrap());
    let wanted = cancellations();
    let queues: [Queue<u64>; 2] = [Queue::new(&one, "jobs"), Queue::new(&two, "jobs")];
    let (pushed, dropped) = (AtomicU64::new(0), AtomicU64::new(0));
    let leavers = (0..8_u64).map(|seed| {
        let (queue, pusher, pushed, dropped) = (&queues[seed as usize % 2], &queues[0], &pushed, &dropped);
        async move {
            let (mut random, mut got) = (fastrand::Rng::with_seed(seed), Vec::new());
            while dropped.load(Ordering::Relaxed) < wanted {
                if random.u8(..3) > 0 {
                    pusher.push(&pushed.fetch_add(1, Ordering::Relaxed)).await.unwrap();
                }
                let left = match random.u8(..3) {
                    0 => at_most(random.usize(1..4), queue.take()).await.transpose().unwrap(),
                    1 => {
                        let within = Duration::from_micros(random.u64(..3_000));
                        tokio::time::timeout(within, queue.take()).await.ok().transpose().unwrap()
                    }
                    _ => queue.take_within(Duration::from_micros(random.u64(..2_000))).await.unwrap(),
                };
                match left {
                    Some(one) => got.push(one),
                    None => drop(dropped.fetch_add(1, Ordering::Relaxed)),
                }
            }
            got
        }
    });
    let mut got: Vec<u64> = join_all(leavers).await.into_iter().flatten().collect();
    // Elements without a caller are returned before either client has ended.
    for client in [one, two] {
        client.shutdown(SOON).await.unwrap();
    }
    let left: Vec<String> = observer.query(&["LRANGE", "jobs", "0", "-1"]).await.unwrap();
    let taken = got.len();
    got.extend(left.iter().map(|one| one.parse::<u64>().unwrap()));
    got.sort_unstable();
    let pushed = pushed.into_inner();
    assert_eq!(got, (0..pushed).collect::<Vec<_>>());
    println!("{} waits dropped, {pushed} pushed, {taken} taken, {} left", dropped.into_inner(), left.len());
}

/// Returns a client behind a proxy, after loading the scripts into the server.
async fn harness(server: &RedisServer, timeout: Duration) -> (Proxy, Client, Queue<u64>) {
    let proxy = Proxy::to(server).await.unwrap();
    let client = client_with(&server.url_via(proxy.addr()), |config| config.response_timeout(timeout)).await;
    let queue = Queue::new(&client, "jobs");
    queue.push(&0).await.unwrap();
    queue.take().await.unwrap();
    (proxy, client, queue)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_reply_is_retried_with_the_same_elements() {
    let server = server().await;
    let observer = server.observer().await.unwrap();
    let (proxy, _client, queue) = harness(&server, Duration::from_secs(2)).await;
    queue.push_many(&[1, 2, 3, 4]).await.unwrap();
    proxy.next(1, take(), Action::SwallowReply);
    assert_eq!(queue.take().await.unwrap(), 1);
    assert_eq!(proxy.counts().swallowed, 1);
    // The caller has left when the reply arrives, so the element is given to the next take.
    proxy.next(1, take(), Action::SwallowReply);
    assert!(tokio::time::timeout(Duration::from_millis(200), queue.take()).await.is_err());
    assert_eq!(queue.take().await.unwrap(), 2);
    // If there is no other take, the element returns to the front of the queue.
    proxy.next(1, take(), Action::SwallowReply);
    assert!(tokio::time::timeout(Duration::from_millis(200), queue.take()).await.is_err());
    let jobs = async || observer.query::<Vec<u64>>(&["LRANGE", "jobs", "0", "-1"]).await.unwrap();
    wait_until(SOON, async || jobs().await == [3, 4]).await;
    let memory = observer.keys("redgrid_once:*").await.unwrap();
    for key in memory {
        assert!(observer.time_to_live(&key).await.unwrap().is_some(), "{key}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_ends_puts_unclaimed_elements_back_in_order() {
    let server = server().await;
    let observer = server.observer().await.unwrap();
    for dropped in [0, 1, 3] {
        observer.cmd(&["DEL", "jobs"]).await.unwrap();
        let (proxy, client, queue) = harness(&server, Duration::from_secs(3)).await;
        queue.push_many(&(0..5).collect::<Vec<_>>()).await.unwrap();
        proxy.set(Direction::ToClient, Fault::Delay(Duration::from_millis(300)));
        // The client shuts down before the reply to three takes. Some takes are cancelled before,
        // and the others get an error.
        let mut takes: Vec<_> = (0..3).map(|_| Box::pin(queue.take())).collect();
        assert!(at_most(1, join_all(takes.iter_mut())).await.is_none());
        let taken = async || observer.query::<u64>(&["LLEN", "jobs"]).await.unwrap() == 2;
        wait_until(SOON, taken).await;
        takes.truncate(3 - dropped);
        client.shutdown(SOON).await.unwrap();
        let mut all: Vec<u64> = join_all(takes).await.into_iter().filter_map(Result::ok).collect();
        let left: Vec<u64> = observer.query(&["LRANGE", "jobs", "0", "-1"]).await.unwrap();
        assert!(left.is_sorted(), "{dropped} dropped: {left:?}");
        all.extend(left);
        all.sort_unstable();
        assert_eq!(all, [0, 1, 2, 3, 4], "{dropped} dropped");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_waiter_is_notified_of_a_dead_server_and_of_a_shutdown() {
    let server = server().await;
    let proxy = Proxy::to(&server).await.unwrap();
    let settings = |config: redgrid_core::Config| config.response_timeout(Duration::from_millis(300)).retries(1);
    let client = client_with(&server.url_via(proxy.addr()), settings).await;
    let queue: Queue<u64> = Queue::new(&client, "jobs");
    assert_eq!(queue.take_within(Duration::from_millis(30)).await.unwrap(), None);
    let waiting = tokio::spawn({
        let queue = queue.clone();
        async move { queue.take().await }
    });
    waits(&server.observer().await.unwrap(), "jobs").await;
    proxy.set_both(Fault::BlackHole);
    let told = tokio::time::timeout(SOON, waiting).await.unwrap().unwrap().unwrap_err();
    assert!(
        matches!(told, ObjectError::Failed(Failure::Unavailable { .. } | Failure::OutcomeUnknown { .. })),
        "{told:?}"
    );
    proxy.heal();
    wait_until(SOON, async || queue.take_within(Duration::ZERO).await.is_ok_and(|none| none.is_none())).await;
    let waiting = tokio::spawn(async move { queue.take().await });
    waits(&server.observer().await.unwrap(), "jobs").await;
    client.shutdown(SOON).await.unwrap();
    let told = waiting.await.unwrap().unwrap_err();
    assert!(matches!(told, ObjectError::Failed(Failure::ShuttingDown { .. })), "{told:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn of_several_queues_the_first_nonempty_one_serves() {
    let server = server().await;
    let (client, observer) = (client(&server).await, server.observer().await.unwrap());
    let [a, b, c] = ["a", "b", "c"].map(|name| Queue::<u64>::new(&client, name));
    b.push(&2).await.unwrap();
    c.push(&3).await.unwrap();
    let others = [b.clone(), c.clone()];
    assert_eq!(a.take_from_any(&others).await.unwrap(), (1, 2));
    assert_eq!(a.take_from_any(&others).await.unwrap(), (2, 3));
    assert_eq!(a.take_from_any_within(&others, Duration::from_millis(20)).await.unwrap(), None);
    for round in 0..10 {
        let waiting = tokio::spawn({
            let (a, others) = (a.clone(), others.clone());
            async move { a.take_from_any(&others).await.unwrap() }
        });
        waits(&observer, "c").await;
        let both = tokio::join!(b.push(&round), c.push(&round));
        assert_eq!((both.0.unwrap(), both.1.unwrap()), (1, 1));
        let (of, got) = waiting.await.unwrap();
        assert_eq!(got, round);
        let other = if of == 1 { &c } else { &b };
        assert_eq!(other.take().await.unwrap(), round);
        wait_until(SOON, async || {
            b.is_empty().await.unwrap()
                && c.is_empty().await.unwrap()
                && observer.pubsub_channels("redgrid_queue*").await.unwrap().is_empty()
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unrecorded_take_takes_nothing_and_other_types_are_reported() {
    let server = RedisServer::builder().user("weak", "on >secret ~* &* +@all -set").start().await.unwrap();
    let observer = server.observer().await.unwrap();
    let weak = client_with(&server.url_for("weak", "secret"), |config| config).await;
    let queue: Queue<u64> = Queue::new(&weak, "jobs");
    queue.push_many(&[1, 2]).await.unwrap();
    let told = queue.take_within(Duration::ZERO).await.unwrap_err();
    assert!(matches!(told, ObjectError::Failed(Failure::Refused { .. })), "{told:?}");
    assert_eq!(queue.read_all().await.unwrap(), [1, 2]);
    let client = client(&server).await;
    let queue: Queue<u64> = Queue::new(&client, "text");
    assert_eq!(observer.cmd(&["SET", "text", "x"]).await.unwrap(), Value::Okay);
    for told in [queue.take().await.unwrap_err(), queue.push(&1).await.map(|_| 0).unwrap_err()] {
        assert!(matches!(told, ObjectError::Failed(Failure::Refused { .. })), "{told:?}");
    }
}
