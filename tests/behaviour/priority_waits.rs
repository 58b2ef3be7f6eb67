//! Waiters of a priority queue: each element is delivered once, and returns to its position.

use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::join_all;
use redgrid_queue::{Client, ObjectError, PriorityQueue};
use redgrid_testkit::{Action, Observer, Proxy, RedisServer, wait_until};
use redgrid_tests::cancel::at_most;
use redgrid_tests::stopwatch::Stopwatch;
use redgrid_tests::{SOON, calls_of, client, client_with, server, sha};

fn cancellations() -> u64 {
    std::env::var("REDGRID_CANCELLATIONS").ok().and_then(|text| text.parse().ok()).unwrap_or(300)
}

fn take() -> String {
    let once = include_str!("../../crates/redgrid-core/src/exactly_once/dedup.lua");
    sha(&format!("{once}{}", include_str!("../../crates/redgrid-queue/src/scripts/take.lua")))
}

async fn members(observer: &Observer) -> Vec<Vec<u8>> {
    observer.query(&["ZRANGE", "jobs", "0", "-1"]).await.unwrap()
}

async fn waits(observer: &Observer) {
    let channel = "redgrid_queue__channel:{jobs}".to_owned();
    wait_until(SOON, async || observer.pubsub_channels("*").await.unwrap().contains(&channel)).await;
}

/// Returns a client behind a proxy, after loading the scripts into the server.
async fn harness(server: &RedisServer, timeout: Duration) -> (Proxy, Client, PriorityQueue<u64>) {
    let proxy = Proxy::to(server).await.unwrap();
    let client = client_with(&server.url_via(proxy.addr()), |config| config.response_timeout(timeout)).await;
    let queue = PriorityQueue::new(&client, "jobs");
    queue.push(&0, 0).await.unwrap();
    queue.take().await.unwrap();
    (proxy, client, queue)
}

#[tokio::test(flavor = "multi_thread")]
async fn waiters_get_the_first_elements_in_order_by_few_requests() {
    let server = server().await;
    let (one, two, observer) = (client(&server).await, client(&server).await, server.observer().await.unwrap());
    let (here, there): (PriorityQueue<u64>, PriorityQueue<u64>) =
        (PriorityQueue::new(&one, "jobs"), PriorityQueue::new(&two, "jobs"));
    let all = tokio::spawn(async move { join_all((0..150).map(|_| here.take())).await });
    waits(&observer).await;
    let before = (calls_of(&observer, "evalsha").await, calls_of(&observer, "publish").await);
    let pushed: Vec<u64> = (0..200).collect();
    there.push_many(pushed.iter().map(|n| (n, 7 - (n / 50) as i64))).await.unwrap();
    let got: Vec<(i64, u64)> = all.await.unwrap().into_iter().map(Result::unwrap).collect();
    let expected: Vec<u64> = (150..200).chain(100..150).chain(50..100).collect();
    assert_eq!(got.iter().map(|(_, n)| *n).collect::<Vec<_>>(), expected);
    assert!(got.is_sorted_by_key(|(priority, _)| *priority));
    // One push, two takes of up to a hundred elements each, and some polls. A push is published
    // only if the queue was empty.
    there.push(&1, 1).await.unwrap();
    let asked = (calls_of(&observer, "evalsha").await - before.0, calls_of(&observer, "publish").await - before.1);
    assert!(asked.0 < 20 && asked.1 == 1, "{asked:?}");
    assert_eq!(there.len().await.unwrap(), 51);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_push_wakes_waiters_at_both_ends() {
    let server = server().await;
    let (one, two, observer) = (client(&server).await, client(&server).await, server.observer().await.unwrap());
    let (here, there): (PriorityQueue<u64>, PriorityQueue<u64>) =
        (PriorityQueue::new(&one, "jobs"), PriorityQueue::new(&two, "jobs"));
    let mut quick = 0;
    for n in 0..10 {
        let waiting = tokio::spawn({
            let here = here.clone();
            async move { if n % 2 == 0 { here.take().await } else { here.take_last().await }.unwrap() }
        });
        waits(&observer).await;
        // The pauses between polls of an empty queue grow to a second, so the next poll is far off.
        tokio::time::sleep(Duration::from_millis(700)).await;
        let began = Stopwatch::start();
        there.push(&n, -1).await.unwrap();
        assert_eq!(waiting.await.unwrap(), (-1, n));
        quick += u32::from(began.elapsed() < Duration::from_millis(100));
        if quick == 2 {
            break;
        }
    }
    assert_eq!(quick, 2, "a message wakes");
    // Waiters at both ends: an element that one of them takes is not delivered to the other.
    let (first, last, ()) = tokio::join!(here.take(), here.take_last(), async {
        for n in [1, 2] {
            there.push(&n, 1).await.unwrap();
        }
    });
    let mut both = [first.unwrap(), last.unwrap()];
    both.sort_unstable();
    assert_eq!(both, [(1, 1), (1, 2)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_waiter_loses_no_element_and_all_return_to_their_positions() {
    let server = server().await;
    let (one, two, observer) = (client(&server).await, client(&server).await, server.observer().await.unwrap());
    let queues: [PriorityQueue<u64>; 2] = [PriorityQueue::new(&one, "jobs"), PriorityQueue::new(&two, "jobs")];
    let wanted = cancellations();
    let all: Vec<u64> = (0..2 * wanted).collect();
    queues[0].push_many(all.iter().map(|n| (n, (n % 7) as i64))).await.unwrap();
    let before = members(&observer).await;
    let leavers = (0..8_u64).map(|seed| {
        let queue = &queues[seed as usize % 2];
        async move {
            let (mut random, mut got, mut dropped) = (fastrand::Rng::with_seed(seed), Vec::new(), 0);
            while dropped < wanted / 8 && got.len() < (wanted / 8) as usize {
                let left = match random.u8(..4) {
                    0 => at_most(random.usize(1..4), queue.take()).await.transpose().unwrap(),
                    1 => at_most(random.usize(1..4), queue.take_last()).await.transpose().unwrap(),
                    2 => {
                        let within = Duration::from_micros(random.u64(..2_000));
                        tokio::time::timeout(within, queue.take_last()).await.ok().transpose().unwrap()
                    }
                    _ => queue.take_within(Duration::from_micros(random.u64(..1_000))).await.unwrap(),
                };
                match left {
                    Some((_, one)) => got.push(one),
                    None => dropped += 1,
                }
            }
            (got, dropped)
        }
    });
    let (got, dropped): (Vec<Vec<u64>>, Vec<u64>) = join_all(leavers).await.into_iter().unzip();
    // Elements without a caller are returned before either client has ended.
    for client in [one, two] {
        client.shutdown(SOON).await.unwrap();
    }
    let got: Vec<String> = got.into_iter().flatten().map(|one| one.to_string()).collect();
    // Returned elements have the same bytes as before.
    let taken: std::collections::HashSet<&[u8]> = got.iter().map(String::as_bytes).collect();
    assert_eq!(taken.len(), got.len(), "no element was taken twice");
    let left: Vec<Vec<u8>> = before.into_iter().filter(|member| !taken.contains(&member[16..])).collect();
    assert_eq!(members(&observer).await, left);
    println!("{} waits dropped, {} taken, {} left", dropped.iter().sum::<u64>(), got.len(), left.len());
}

/// Starts a take, loses the reply, and drops the take.
async fn drop_after_lost_reply(proxy: &Proxy, taking: impl Future<Output = Result<(i64, u64), ObjectError>>) {
    let swallowed = proxy.counts().swallowed;
    proxy.next(1, take(), Action::SwallowReply);
    let mut taking = Box::pin(taking);
    assert!((&mut taking).now_or_never().is_none());
    wait_until(SOON, async || proxy.counts().swallowed == swallowed + 1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_reply_is_retried_and_a_late_copy_takes_nothing() {
    let server = server().await;
    let observer = server.observer().await.unwrap();
    let (proxy, _client, queue) = harness(&server, Duration::from_secs(2)).await;
    queue.push_many([(&1, 1), (&2, 2), (&4, 2), (&3, 2), (&9, 9)]).await.unwrap();
    proxy.next(1, take(), Action::SwallowReply);
    assert_eq!(queue.take().await.unwrap(), (1, 1));
    assert_eq!(proxy.counts().swallowed, 1);
    // The caller has left when the reply arrives, so the element is given to the next take.
    drop_after_lost_reply(&proxy, queue.take()).await;
    assert_eq!(queue.take().await.unwrap(), (2, 2));
    // If there is no other take, the element returns to its position, at either end.
    let before = members(&observer).await;
    drop_after_lost_reply(&proxy, queue.take()).await;
    wait_until(SOON, async || members(&observer).await == before).await;
    drop_after_lost_reply(&proxy, queue.take_last()).await;
    wait_until(SOON, async || members(&observer).await == before).await;
    for key in observer.keys("redgrid_once:*").await.unwrap() {
        assert!(observer.time_to_live(&key).await.unwrap().is_some(), "{key}");
    }
    // A delayed copy of a request that found nothing.
    queue.clear().await.unwrap();
    let (proxy, _client, queue) = harness(&server, Duration::from_secs(30)).await;
    proxy.next(1, take(), Action::Hold);
    let (found, ()) = tokio::join!(queue.take_within(Duration::ZERO), async {
        wait_until(SOON, async || proxy.counts().held == 1).await;
        // The retransmission is sent at once, and finds nothing.
        proxy.cut_all();
    });
    assert_eq!(found.unwrap(), None);
    observer.cmd(&["ZADD", "jobs", "0", "a priority is 16"]).await.unwrap();
    assert_eq!(proxy.release_held().await, 1);
    assert_eq!(members(&observer).await.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_returned_element_that_exists_stays_unique() {
    let server = server().await;
    let (client, observer) = (client(&server).await, server.observer().await.unwrap());
    let queue: PriorityQueue<u64> = PriorityQueue::new(&client, "jobs");
    let take = |queue: PriorityQueue<u64>| Box::pin(async move { queue.take().await });
    let [mut first, mut second, mut third] = [(); 3].map(|()| take(queue.clone()));
    for waiting in [&mut first, &mut second, &mut third] {
        assert!(waiting.now_or_never().is_none());
    }
    queue.push_many([(&1, 1), (&2, 1), (&3, 1), (&4, 1), (&5, 5)]).await.unwrap();
    // Waiters are served in order. The first one was given 1 and is not polled. The third one was
    // given 3 and is not polled either.
    assert_eq!(second.await.unwrap(), (1, 2));
    let mut expected = members(&observer).await;
    assert_eq!(expected.len(), 2);
    // Recreates the state after a failover to a replica that still has element 1. Elements of one
    // push have consecutive numbers.
    let fourth = expected[0].clone();
    let number = u64::from_be_bytes(fourth[8..16].try_into().unwrap());
    let taken = |before: u64, element: &[u8]| [&fourth[..8], &(number - before).to_be_bytes(), element].concat();
    observer.cmd(&[b"ZADD".as_slice(), b"jobs", b"0", &taken(3, b"1")]).await.unwrap();
    drop((first, third));
    client.shutdown(SOON).await.unwrap();
    expected.splice(..0, [taken(3, b"1"), taken(1, b"3")]);
    assert_eq!(members(&observer).await, expected);
}
