//! Priority queues: elements by priority, equal ones in their order of arrival.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use futures_util::{StreamExt, TryStreamExt};
use redgrid_core::Failure;
use redgrid_keys::Keys;
use redgrid_queue::{End, ObjectError, Prioritized, PriorityQueue, Queue};
use redgrid_testkit::redis::Value;
use redgrid_testkit::{Observer, RedisServer, wait_until};
use redgrid_tests::cancel::at_most;
use redgrid_tests::model::seeds;
use redgrid_tests::{SOON, client, client_with, published_rules, server};

/// How many elements are pushed and taken: `REDGRID_PRIORITIES`.
fn many() -> u64 {
    std::env::var("REDGRID_PRIORITIES").ok().and_then(|text| text.parse().ok()).unwrap_or(3_000)
}

/// A member in the format of docs/internals/keys.md.
fn member(priority: i64, number: u64, element: &str) -> Vec<u8> {
    [&(priority ^ i64::MIN).to_be_bytes(), &number.to_be_bytes(), element.as_bytes()].concat()
}

async fn number(observer: &Observer, section: &str, field: &str) -> u64 {
    let info: String = observer.query(&["INFO", section]).await.unwrap();
    let line = info.lines().find_map(|line| line.strip_prefix(&format!("{field}:")));
    line.and_then(|rest| rest.trim().parse().ok()).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn elements_are_ordered_by_priority_then_by_arrival() {
    let server = server().await;
    let client = client(&server).await;
    let queue: PriorityQueue<String> = PriorityQueue::new(&client, "jobs");
    assert!(queue.is_empty().await.unwrap() && !queue.clear().await.unwrap());
    assert_eq!(
        (queue.pop().await.unwrap(), queue.peek().await.unwrap(), queue.peek_last().await.unwrap()),
        (None, None, None)
    );
    let exact = 1_i64 << 53;
    let priorities = [0, i64::MAX, -1, exact + 1, i64::MIN, exact, 0, i64::MAX - 1, 1, -exact - 1, -exact, 0];
    let values: Vec<String> = (0..priorities.len()).map(|n| n.to_string()).collect();
    let pushed = queue.push_many(values.iter().zip(priorities)).await.unwrap();
    assert_eq!(pushed.len(), priorities.len());
    let mut expected: Vec<(i64, String)> = priorities.into_iter().zip(values).collect();
    // A stable sort: equal priorities keep their order.
    expected.sort_by_key(|(priority, _)| *priority);
    assert_eq!(queue.read_all().await.unwrap(), expected);
    assert_eq!(queue.stream().try_collect::<Vec<_>>().await.unwrap(), expected);
    assert_eq!(queue.peek().await.unwrap().as_ref(), expected.first());
    assert_eq!(queue.peek_last().await.unwrap().as_ref(), expected.last());
    // The first element of a priority is moved behind the others, or to another priority.
    assert!(queue.cancel(&pushed[6]).await.unwrap() && !queue.cancel(&pushed[6]).await.unwrap());
    let again = queue.change_priority(&pushed[0], 0).await.unwrap().unwrap();
    assert_eq!(queue.change_priority(&pushed[0], 5).await.unwrap(), None, "another id from here on");
    let zeros = async || -> Vec<String> {
        let all = queue.read_all().await.unwrap();
        all.into_iter().filter(|(priority, _)| *priority == 0).map(|(_, value)| value).collect()
    };
    assert_eq!(zeros().await, ["11", "0"]);
    let moved = queue.change_priority(&again, i64::MIN).await.unwrap().unwrap();
    assert_eq!((zeros().await, queue.len().await.unwrap()), (vec!["11".to_owned()], 11));
    assert_eq!(queue.pop_many(2).await.unwrap(), [(i64::MIN, "4".to_owned()), (i64::MIN, "0".to_owned())]);
    assert_eq!((queue.change_priority(&moved, 3).await.unwrap(), queue.cancel(&moved).await.unwrap()), (None, false));
    assert_eq!(queue.pop_last_many(2).await.unwrap(), [(i64::MAX, "1".to_owned()), (i64::MAX - 1, "7".to_owned())]);
    // The complement `!n` of a number as priority returns the largest first.
    assert!(queue.clear().await.unwrap());
    for n in [2, i64::MAX, i64::MIN, 3] {
        queue.push(&n.to_string(), !n).await.unwrap();
    }
    let largest = queue.pop_many(4).await.unwrap().into_iter().map(|(priority, _)| !priority);
    assert_eq!(largest.collect::<Vec<_>>(), [i64::MAX, 3, 2, i64::MIN]);
}

/// The expected queue: elements by their priority and number.
type Model = BTreeMap<(i64, u64), (u8, Prioritized)>;

#[tokio::test(flavor = "multi_thread")]
async fn a_priority_queue_matches_its_model() {
    let server = server().await;
    let client = client(&server).await;
    for seed in seeds(6) {
        let mut random = fastrand::Rng::with_seed(seed);
        let queue: PriorityQueue<u8> = PriorityQueue::new(&client, format!("model:{seed}"));
        let (mut model, mut next, mut story) = (Model::new(), 0, Vec::new());
        for _ in 0..100 {
            let step = (random.u8(..17), random.i64(-2..3), random.u8(..4), random.usize(..8));
            story.push(step);
            let fits = apply(&queue, &mut model, &mut next, step).await;
            let all: Vec<(i64, u8)> = model.iter().map(|((priority, _), (value, _))| (*priority, *value)).collect();
            let same = queue.read_all().await.unwrap() == all && queue.len().await.unwrap() == model.len() as u64;
            assert!(fits && same, "seed {seed}: {all:?} after {story:?}");
        }
    }
}

async fn apply(
    queue: &PriorityQueue<u8>,
    model: &mut Model,
    next: &mut u64,
    (step, priority, value, at): (u8, i64, u8, usize),
) -> bool {
    let now = Duration::ZERO;
    let told = |(key, (value, _)): ((i64, u64), (u8, Prioritized))| (key.0, value);
    let mut insert = |model: &mut Model, priority, value, pushed| {
        *next += 1;
        model.insert((priority, *next), (value, pushed)).is_none()
    };
    match step {
        0..=3 => {
            let pushed = queue.push(&value, priority).await.unwrap();
            insert(model, priority, value, pushed)
        }
        4 => {
            let all = [(value, priority), (value, priority), (at as u8, -priority)];
            let pushed = queue.push_many(all.iter().map(|(value, priority)| (value, *priority))).await.unwrap();
            all.into_iter().zip(pushed).all(|((value, priority), pushed)| insert(model, priority, value, pushed))
        }
        5 => queue.pop().await.unwrap() == model.pop_first().map(told),
        6 => queue.pop_last().await.unwrap() == model.pop_last().map(told),
        7 => queue.take_within(now).await.unwrap() == model.pop_first().map(told),
        8 => queue.take_last_within(now).await.unwrap() == model.pop_last().map(told),
        9 => {
            let gone: Vec<_> = std::iter::from_fn(|| model.pop_first()).take(value.into()).map(told).collect();
            queue.pop_many(value.into()).await.unwrap() == gone
        }
        10 => {
            let gone: Vec<_> = std::iter::from_fn(|| model.pop_last()).take(value.into()).map(told).collect();
            queue.pop_last_many(value.into()).await.unwrap() == gone
        }
        11 => {
            let first = model.iter().find(|(_, (has, _))| *has == value).map(|(key, _)| *key);
            queue.remove(&value).await.unwrap() == first.and_then(|key| model.remove(&key)).is_some()
        }
        12 => queue.contains(&value).await.unwrap() == model.values().any(|(has, _)| *has == value),
        13 => match model.iter().nth(at).map(|(key, (_, pushed))| (*key, pushed.clone())) {
            Some((key, pushed)) => queue.cancel(&pushed).await.unwrap() == model.remove(&key).is_some(),
            None => true,
        },
        14 => match model.keys().nth(at).copied().and_then(|key| model.remove(&key)) {
            Some((value, pushed)) => {
                let pushed = queue.change_priority(&pushed, priority).await.unwrap();
                pushed.is_some_and(|pushed| insert(model, priority, value, pushed))
            }
            None => true,
        },
        15 => {
            let ends = (queue.peek().await.unwrap(), queue.peek_last().await.unwrap());
            let told = |(key, (value, _)): (&(i64, u64), &(u8, Prioritized))| (key.0, *value);
            ends == (model.first_key_value().map(told), model.last_key_value().map(told))
        }
        _ => {
            let mut all: Vec<(i64, u8)> = queue.stream_reversed().try_collect().await.unwrap();
            all.reverse();
            let same = all == queue.stream().try_collect::<Vec<_>>().await.unwrap();
            // Sometimes the queue is cleared.
            let clears = at == 0;
            same && (!clears || std::mem::take(model).is_empty() != queue.clear().await.unwrap())
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn many_are_taken_in_exact_order_with_bounded_commands_and_memory() {
    let server = server().await;
    let (client, observer) = (client(&server).await, server.observer().await.unwrap());
    let (queue, many) = (PriorityQueue::<u64>::new(&client, "jobs"), many());
    let memory = number(&observer, "memory", "used_memory").await;
    let priority = |n: u64| (n.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 54) as i64 - 512;
    let began = Instant::now();
    for first in (0..many).step_by(10_000) {
        let part: Vec<u64> = (first..(first + 10_000).min(many)).collect();
        queue.push_many(part.iter().map(|n| (n, priority(*n)))).await.unwrap();
    }
    let (pushed_in, full) = (began.elapsed(), number(&observer, "memory", "used_memory").await);
    // The last element is far beyond the first page of a search, and of a stream.
    let last = queue.peek_last().await.unwrap().unwrap().1;
    assert!(queue.contains(&last).await.unwrap() && !queue.contains(&many).await.unwrap());
    assert_eq!(queue.stream().try_fold(0, async |n, _| Ok(n + 1)).await.unwrap(), many);
    let commands = number(&observer, "stats", "total_commands_processed").await;
    let (began, tasks) = (Instant::now(), 100);
    let mut taken: Vec<(i64, u64)> = Vec::new();
    while (taken.len() as u64) < many {
        let wait = (0..tasks.min(many - taken.len() as u64)).map(|_| queue.take());
        taken.extend(futures_util::future::join_all(wait).await.into_iter().map(Result::unwrap));
    }
    let commands = number(&observer, "stats", "total_commands_processed").await - commands;
    println!(
        "{many} with priorities: pushed in {pushed_in:?}, {} bytes of the server each; taken in {:?} by {:.2} commands each",
        (full - memory) / many,
        began.elapsed(),
        commands as f64 / many as f64,
    );
    // The elements are ordered by priority, and by number within a priority.
    assert!(taken.is_sorted() && taken.iter().all(|(is, n)| *is == priority(*n)));
    assert!((full - memory) / many < 250, "{}", (full - memory) / many);
    // One ZPOPMIN for each element, and a few more commands for each request of a hundred.
    assert!(commands < many + many / 10 + 500, "{commands}");
    assert!(matches!(
        queue.pop_many(u64::MAX).await,
        Err(ObjectError::Failed(Failure::InvalidArgument { option: "most", .. }))
    ));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_clock_set_back_keeps_the_order_and_foreign_elements_are_reported() {
    let server = server().await;
    let (client, observer) = (client(&server).await, server.observer().await.unwrap());
    let queue: PriorityQueue<u64> = PriorityQueue::new(&client, "jobs");
    // A number one hour ahead of the server's clock; new elements come after it.
    let [now, _]: [u64; 2] = observer.query(&["TIME"]).await.unwrap();
    let later = (now + 3_600) * 1_000_000;
    observer.cmd(&[b"ZADD".as_slice(), b"jobs", b"0", &member(3, later, "1")]).await.unwrap();
    queue.push_many([(&2, 3), (&0, 2), (&4, 4), (&3, 3)]).await.unwrap();
    let all = queue.read_all().await.unwrap();
    assert_eq!(all, [(2, 0), (3, 1), (3, 2), (3, 3), (4, 4)]);
    assert!(queue.clear().await.unwrap());
    // Foreign elements, first and last.
    observer.cmd(&["ZADD", "jobs", "0", "", "0", "x"]).await.unwrap();
    observer
        .cmd(&[b"ZADD".as_slice(), b"jobs", b"0", &member(3, u64::MAX, "1"), b"0", &member(9, 1, "?")])
        .await
        .unwrap();
    queue.push(&2, 3).await.unwrap();
    let told: Vec<_> = queue.stream().collect().await;
    assert_eq!(told.iter().filter_map(|one| one.as_ref().ok()).collect::<Vec<_>>(), [&(3, 2), &(3, 1)]);
    let wrong = told.into_iter().filter_map(Result::err).collect::<Vec<_>>();
    assert_eq!(wrong.len(), 3);
    for told in
        wrong.into_iter().chain([queue.take().await.unwrap_err(), queue.peek_last().await.map(|_| ()).unwrap_err()])
    {
        assert!(matches!(told, ObjectError::Decode { .. }), "{told:?}");
    }
    assert_eq!(observer.cmd(&["SET", "text", "x"]).await.unwrap(), Value::Okay);
    let queue: PriorityQueue<u64> = PriorityQueue::new(&client, "text");
    for told in [queue.take().await.map(|_| ()).unwrap_err(), queue.push(&1, 1).await.map(|_| ()).unwrap_err()] {
        assert!(matches!(told, ObjectError::Failed(Failure::Refused { .. })), "{told:?}");
    }
    let told = PriorityQueue::<u64>::new(&client, "").take().await.unwrap_err();
    assert!(matches!(told, ObjectError::Failed(Failure::InvalidName(_))), "{told:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn equal_elements_of_one_push_are_ordered_beside_foreign_ones() {
    let server = server().await;
    let (client, observer) = (client(&server).await, server.observer().await.unwrap());
    let queue: PriorityQueue<u64> = PriorityQueue::new(&client, "jobs");
    // First: the last member of this priority has the highest number or no number. Then: a member
    // has another score, so the last member is not found.
    let short = member(3, 0, "")[..8].to_vec();
    for (score, foreign) in [("0", member(3, u64::MAX, "1")), ("0", short), ("5", member(1, 1, "1"))] {
        observer.cmd(&[b"ZADD".as_slice(), b"jobs", score.as_bytes(), &foreign]).await.unwrap();
        let pushed = queue.push_many([(&1, 3), (&1, 3), (&0, 3)]).await.unwrap();
        assert!(pushed[0] != pushed[1], "each has its own id");
        let all: Vec<Vec<u8>> = observer.query(&["ZRANGE", "jobs", "0", "-1"]).await.unwrap();
        let ours: Vec<&[u8]> = all.iter().filter(|one| **one != foreign).map(|one| &one[16..]).collect();
        assert_eq!(ours, [b"1", b"1", b"0"], "beside {foreign:?}");
        for one in &pushed {
            assert!(queue.cancel(one).await.unwrap());
        }
        assert!(queue.clear().await.unwrap());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_transfer_ends_beside_a_member_with_another_score() {
    let server = server().await;
    let (client, observer) = (client(&server).await, server.observer().await.unwrap());
    let queue: PriorityQueue<u64> = PriorityQueue::new(&client, "jobs");
    // With this setting the set stays a list, and each part of a search reads it from its
    // beginning.
    observer.cmd(&["CONFIG", "SET", "zset-max-listpack-entries", "2000"]).await.unwrap();
    let all: Vec<u64> = (0..600).collect();
    queue.push_many(all.iter().map(|n| (n, 3))).await.unwrap();
    for (score, foreign, reversed) in [("-1", member(9, 1, "7"), false), ("1", member(1, 1, "7"), true)] {
        observer.cmd(&[b"ZADD".as_slice(), b"jobs", score.as_bytes(), &foreign]).await.unwrap();
        let mut stream = if reversed { queue.stream_reversed() } else { queue.stream() };
        let (mut told, mut wrong) = (Vec::new(), Vec::new());
        while let Some(one) = stream.next().await {
            match one {
                Ok((_, one)) => told.push(one),
                Err(error) => wrong.push(error),
            }
            assert!(told.len() <= 601, "some elements came twice");
        }
        let [ObjectError::Decode { source, .. }] = wrong.as_slice() else { panic!("{wrong:?}") };
        assert!(source.to_string().contains("score"), "{source}");
        if !reversed {
            let within =
                tokio::time::timeout(SOON, async { [queue.contains(&9_999).await, queue.remove(&9_999).await] });
            for told in within.await.expect("a search ends") {
                assert!(matches!(told, Err(ObjectError::Decode { .. })), "{told:?}");
            }
            assert!(queue.contains(&400).await.unwrap(), "elements before it are found");
        }
        assert_eq!(observer.cmd(&[b"ZREM".as_slice(), b"jobs", &foreign]).await.unwrap(), Value::Int(1));
    }
    assert_eq!(queue.stream().try_fold(0, async |n, _| Ok(n + 1)).await.unwrap(), 600);
}

#[tokio::test(flavor = "multi_thread")]
async fn operations_that_cannot_complete_are_not_begun() {
    let users = ["-set", "-zrem", "-zadd"].map(|less| (less, format!("on >secret ~* &* +@all {less}")));
    let mut builder = RedisServer::builder();
    for (name, rules) in &users {
        builder = builder.user(*name, rules);
    }
    let server = builder.start().await.unwrap();
    let strong: PriorityQueue<u64> = PriorityQueue::new(&client(&server).await, "jobs");
    let pushed = strong.push_many([(&1, 1), (&2, 1), (&3, 0)]).await.unwrap();
    let before = strong.read_all().await.unwrap();
    for (name, _) in &users {
        let weak = client_with(&server.url_for(name, "secret"), |config| config).await;
        let queue: PriorityQueue<u64> = PriorityQueue::new(&weak, "jobs");
        let told = match *name {
            // An element is not taken if its delivery record cannot be written.
            "-set" => [queue.take_within(Duration::ZERO).await, queue.take_last_within(Duration::ZERO).await],
            "-zadd" => [queue.change_priority(&pushed[0], 5).await, queue.push(&9, 9).await.map(Some)]
                .map(|told| told.map(|_| None)),
            _ => [
                queue.change_priority(&pushed[1], 1).await.map(|_| None),
                queue.move_to(End::Front, "next", End::Back).await,
            ],
        };
        for told in told {
            assert!(matches!(told, Err(ObjectError::Failed(Failure::Refused { .. }))), "{name}: {told:?}");
        }
        assert_eq!(strong.read_all().await.unwrap(), before, "{name}");
        assert!(!Keys::new(&weak).exists(["next"]).await.is_ok_and(|there| there > 0), "{name}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_element_moves_to_a_list_and_wakes_its_waiter() {
    let server = server().await;
    let (client, observer) = (client(&server).await, server.observer().await.unwrap());
    let (queue, plain): (PriorityQueue<u64>, Queue<u64>) =
        (PriorityQueue::new(&client, "jobs"), Queue::new(&client, "next"));
    assert_eq!(queue.move_to(End::Front, "next", End::Back).await.unwrap(), None);
    queue.push_many([(&1, 1), (&2, 2), (&3, 3), (&4, 4)]).await.unwrap();
    let waiting = tokio::spawn({
        let plain = plain.clone();
        async move { plain.take().await.unwrap() }
    });
    let channel = "redgrid_queue__channel:{next}".to_owned();
    wait_until(SOON, async || observer.pubsub_channels("*").await.unwrap().contains(&channel)).await;
    assert_eq!(queue.move_to(End::Front, "next", End::Back).await.unwrap(), Some((1, 1)));
    assert_eq!(waiting.await.unwrap(), 1);
    assert_eq!(queue.move_to(End::Front, "next", End::Back).await.unwrap(), Some((2, 2)));
    assert_eq!(queue.move_to(End::Back, "next", End::Front).await.unwrap(), Some((4, 4)));
    assert_eq!((plain.read_all().await.unwrap(), queue.read_all().await.unwrap()), (vec![4, 2], vec![(3, 3)]));
    // Three cases move nothing: a wrong type, a missing permission to remove, and a foreign
    // element.
    let told = queue.move_to(End::Front, "jobs", End::Back).await.unwrap_err();
    assert!(matches!(told, ObjectError::Failed(Failure::Refused { .. })), "{told:?}");
    observer.cmd(&["ZADD", "jobs", "0", ""]).await.unwrap();
    let told = queue.move_to(End::Front, "next", End::Back).await.unwrap_err();
    assert!(matches!(told, ObjectError::Failed(Failure::Refused { .. })), "{told:?}");
    assert_eq!((plain.len().await.unwrap(), queue.len().await.unwrap()), (2, 2));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_published_permissions_are_enough() {
    let rules = [published_rules("on "), published_rules("+lmove")].concat().join(" ");
    let server = RedisServer::builder().user("app", rules).start().await.unwrap();
    let client = client_with(&server.url_for("app", "secret"), |config| config).await;
    let queue: PriorityQueue<u64> = PriorityQueue::new(&client, "jobs");
    let pushed = queue.push_many([(&1, 1), (&2, 2), (&3, 3), (&4, 4), (&5, 5), (&6, 6)]).await.unwrap();
    assert!(queue.contains(&3).await.unwrap() && queue.remove(&3).await.unwrap());
    assert!(queue.cancel(&pushed[0]).await.unwrap());
    assert!(queue.change_priority(&pushed[1], 0).await.unwrap().is_some());
    assert_eq!((queue.pop().await.unwrap(), queue.pop_last().await.unwrap()), (Some((0, 2)), Some((6, 6))));
    assert_eq!(queue.move_to(End::Back, "next", End::Back).await.unwrap(), Some((5, 5)));
    // If its caller has left, an element is returned.
    let taken = match at_most(2, queue.take()).await {
        Some(taken) => taken.unwrap(),
        None => queue.take_within(SOON).await.unwrap().unwrap(),
    };
    assert_eq!((taken, queue.len().await.unwrap()), ((4, 4), 0));
    assert_eq!((queue.read_all().await.unwrap(), queue.clear().await.unwrap()), (Vec::new(), false));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_priority_queue_has_one_key() {
    let server = server().await;
    let (client, observer) = (client(&server).await, server.observer().await.unwrap());
    let queue: PriorityQueue<u32> = PriorityQueue::new(&client, "jobs");
    queue.push(&1, 1).await.unwrap();
    assert!(queue.object().expire_in(Duration::from_secs(600)).await.unwrap());
    queue.push(&2, 0).await.unwrap();
    assert!(observer.time_to_live("jobs").await.unwrap().is_some(), "a push keeps its lifetime");
    queue.object().rename("urgent").await.unwrap();
    let renamed: PriorityQueue<u32> = PriorityQueue::new(&client, "urgent");
    assert_eq!(renamed.read_all().await.unwrap(), [(0, 2), (1, 1)]);
    assert_eq!(observer.keys("*").await.unwrap(), ["urgent"]);
    assert_eq!(Keys::new(&client).delete(["urgent"]).await.unwrap(), 1);
    assert_eq!(observer.keys("*").await.unwrap(), [""; 0]);
}
