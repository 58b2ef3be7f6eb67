//! Delayed queues: an element can be taken when it is due.

use std::time::{Duration, Instant};

use redgrid_core::Failure;
use redgrid_queue::{DelayedQueue, ObjectError, Queue};
use redgrid_testkit::Observer;
use redgrid_tests::cancel::at_most;
use redgrid_tests::{SOON, client, server};

const TIMES: &str = "redisson_delay_queue_timeout:{later}";

fn delayed() -> u64 {
    std::env::var("REDGRID_DELAYED").ok().and_then(|text| text.parse().ok()).unwrap_or(2_000)
}

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

async fn number(observer: &Observer, section: &str, field: &str) -> u64 {
    let info: String = observer.query(&["INFO", section]).await.unwrap();
    let line = info.lines().find_map(|line| line.strip_prefix(&format!("{field}:")));
    line.and_then(|rest| rest.trim().parse().ok()).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn due_elements_are_taken_in_order_and_others_stay() {
    let server = server().await;
    let client = client(&server).await;
    let queue: DelayedQueue<u64> = DelayedQueue::new(&client, "later");
    assert!(queue.is_empty().await.unwrap() && !queue.clear().await.unwrap());
    let far = Duration::from_secs(600);
    let pushed = queue.push_many([(&4, far), (&1, ms(0)), (&2, ms(0)), (&2, ms(0))]).await.unwrap();
    assert_eq!((queue.due().await.unwrap(), queue.len().await.unwrap()), (3, 4));
    assert_eq!(queue.peek().await.unwrap(), Some(1));
    let waiting = queue.read_delayed(10).await.unwrap();
    assert_eq!(waiting.iter().map(|(value, _)| *value).collect::<Vec<_>>(), [1, 2, 2, 4]);
    assert!(waiting[0].1.is_zero() && waiting[3].1 > Duration::from_secs(500) && waiting[3].1 <= far);
    assert!(queue.cancel(&pushed[2]).await.unwrap() && !queue.cancel(&pushed[2]).await.unwrap());
    assert_eq!((queue.take().await.unwrap(), queue.take().await.unwrap()), (1, 2));
    assert_eq!(queue.take_within(ms(0)).await.unwrap(), None);
    // One wait begins before its element is pushed; the other one gets an element that becomes due.
    let waiting = tokio::spawn({
        let queue = queue.clone();
        async move { queue.take().await.unwrap() }
    });
    let began = Instant::now();
    queue.push(&3, ms(300)).await.unwrap();
    assert_eq!(waiting.await.unwrap(), 3);
    assert!(began.elapsed() >= ms(299), "{:?}", began.elapsed());
    assert_eq!((queue.peek().await.unwrap(), queue.len().await.unwrap()), (None, 1));
    assert!(queue.cancel(&pushed[0]).await.unwrap());
    let told = queue.push(&1, Duration::from_secs(3_651 * 86_400)).await.unwrap_err();
    assert!(matches!(told, ObjectError::Failed(Failure::InvalidArgument { option: "delay", .. })), "{told:?}");
    queue.push(&1, far).await.unwrap();
    assert!(queue.clear().await.unwrap() && queue.is_empty().await.unwrap());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_element_of_a_cancelled_take_is_due_again_first() {
    let server = server().await;
    let (client, observer) = (client(&server).await, server.observer().await.unwrap());
    let queue: DelayedQueue<u64> = DelayedQueue::new(&client, "later");
    let (mut got, wanted) = (Vec::new(), 200);
    for n in 0..wanted {
        queue.push(&n, ms(n % 3)).await.unwrap();
        got.extend(at_most(1 + n as usize % 3, queue.take()).await.map(Result::unwrap));
    }
    while (got.len() as u64) < wanted {
        got.push(tokio::time::timeout(SOON, queue.take()).await.unwrap().unwrap());
    }
    got.sort_unstable();
    assert_eq!(got, (0..wanted).collect::<Vec<_>>());
    assert!(queue.is_empty().await.unwrap());
    assert_eq!(queue.take_within(ms(0)).await.unwrap(), None);
    // An invalid item is reported as an error, and no element is taken.
    observer.cmd(&["ZADD", TIMES, "1", "x"]).await.unwrap();
    assert!(matches!(queue.take().await, Err(ObjectError::Failed(Failure::Refused { .. }))));
    assert_eq!(observer.query::<u64>(&["ZCARD", TIMES]).await.unwrap(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn elements_that_redisson_delayed_are_taken() {
    let server = server().await;
    let (client, observer) = (client(&server).await, server.observer().await.unwrap());
    let (queue, plain): (DelayedQueue<u64>, Queue<u64>) =
        (DelayedQueue::new(&client, "later"), Queue::new(&client, "later"));
    let item = b"\x08abcdefgh\x01\0\0\0\0\0\0\x007";
    observer.cmd(&[b"ZADD".as_slice(), TIMES.as_bytes(), b"5", item]).await.unwrap();
    observer.cmd(&[b"RPUSH".as_slice(), b"redisson_delay_queue:{later}", item]).await.unwrap();
    plain.push(&6).await.unwrap();
    queue.push(&8, ms(0)).await.unwrap();
    assert_eq!((queue.len().await.unwrap(), queue.peek().await.unwrap()), (3, Some(6)));
    for expected in [6, 7, 8] {
        assert_eq!(queue.take().await.unwrap(), expected);
    }
    assert_eq!(observer.keys("*delay_queue*").await.unwrap(), [""; 0], "its list is kept");
}

#[tokio::test(flavor = "multi_thread")]
async fn many_are_taken_in_exact_order_with_bounded_commands_and_memory() {
    let server = server().await;
    let (client, observer) = (client(&server).await, server.observer().await.unwrap());
    let (queue, many) = (DelayedQueue::<u64>::new(&client, "later"), delayed());
    let memory = number(&observer, "memory", "used_memory").await;
    let rss = || {
        std::fs::read_to_string("/proc/self/statm")
            .ok()
            .and_then(|text| text.split(' ').nth(1)?.parse::<u64>().ok())
            .unwrap_or(0)
            * 4096
    };
    // The due times are spread over about as much time as the pushes and takes need.
    let spread = (many / 50).max(500);
    let began = Instant::now();
    let delay = |n: u64| ms(n.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 20).as_millis() as u64 % spread;
    let before = rss();
    for first in (0..many).step_by(10_000) {
        let part: Vec<(u64, Duration)> = (first..(first + 10_000).min(many)).map(|n| (n, ms(delay(n)))).collect();
        queue.push_many(part.iter().map(|(n, delay)| (n, *delay))).await.unwrap();
    }
    let (pushed_in, full) = (began.elapsed(), number(&observer, "memory", "used_memory").await);
    // Reads when each element is due, before any is taken. In a packed member, the value follows
    // the id.
    let mut due = vec![0_u64; many as usize];
    let mut cursor = 0_i64;
    while cursor < many as i64 {
        let page: Vec<(Vec<u8>, f64)> = observer
            .query(&["ZRANGE", TIMES, &cursor.to_string(), &(cursor + 9_999).to_string(), "WITHSCORES"])
            .await
            .unwrap();
        cursor += page.len() as i64;
        for (member, score) in page {
            let value: usize = std::str::from_utf8(&member[17..]).unwrap().parse().unwrap();
            due[value] = score as u64;
        }
    }
    let commands = number(&observer, "stats", "total_commands_processed").await;
    let began = Instant::now();
    let (mut last, mut largest) = ((0, 0), rss());
    let tasks = 100;
    let mut taken = 0;
    while taken < many {
        let wait = (0..tasks.min(many - taken)).map(|_| queue.take());
        for value in futures_util::future::join_all(wait).await {
            let value = value.unwrap();
            let this = (due[value as usize], value);
            assert!(last < this, "{last:?} was taken before {this:?}");
            last = this;
            taken += 1;
        }
        largest = largest.max(rss());
    }
    let commands = number(&observer, "stats", "total_commands_processed").await - commands;
    println!(
        "{many} delayed: pushed in {pushed_in:?}, {} bytes of the server each; taken in {:?} by {:.2} commands each; \
         the process grew by {} MiB",
        (full - memory) / many,
        began.elapsed(),
        commands as f64 / many as f64,
        largest.saturating_sub(before) >> 20,
    );
    assert!((full - memory) / many < 250, "{}", (full - memory) / many);
    assert!(queue.is_empty().await.unwrap());
    // A request of a hundred elements is shared by them, so each element costs about one command.
    // ZMSCORE, ZREM and ZRANGE are counted too.
    assert!(commands < many + 2_000, "{commands}");
}
