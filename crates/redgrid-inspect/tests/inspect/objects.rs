//! Objects of every kind, and keys that only look like them.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use futures_util::StreamExt;
use redgrid_inspect::{ObjectFilter, ObjectKind};
use redgrid_testkit::RedisServer;

use crate::support::{JAVA, ONE, hold, inspector, list, observer, send, server};

/// An object on the server: the commands that write it, its name, its kind, its size.
type Written = (&'static [&'static [&'static str]], &'static str, ObjectKind, Option<u64>);

const OBJECTS: &[Written] = &[
    (&[&["SET", "bucket", "text"]], "bucket", ObjectKind::String, Some(4)),
    (&[&["SET", "number", "-17"]], "number", ObjectKind::Number, Some(3)),
    (
        &[&["SET", "leased", "5"], &["ZADD", "{leased}:timeout", "1", "id"]],
        "leased",
        ObjectKind::PermitExpirableSemaphore,
        Some(1),
    ),
    (
        &[&["SET", "fair", "5"], &["ZADD", "redgrid_semaphore_line:{fair}", "1", "id"]],
        "fair",
        ObjectKind::Semaphore,
        Some(1),
    ),
    (&[&["SET", "latch", "5"], &["SET", "redgrid_latch:{latch}", "1"]], "latch", ObjectKind::CountDownLatch, Some(1)),
    (&[&["SET", "ids", "5"], &["SET", "{ids}:allocation", "100"]], "ids", ObjectKind::IdGenerator, Some(1)),
    (
        &[&["SETBIT", "filter", "7", "1"], &["HSET", "{filter}:config", "size", "8", "hashIterations", "1"]],
        "filter",
        ObjectKind::BloomFilter,
        Some(1),
    ),
    (&[&["HSET", "{empty}:config", "size", "8", "hashIterations", "1"]], "empty", ObjectKind::BloomFilter, Some(2)),
    (&[&["HSET", "map", "a", "1", "b", "2"]], "map", ObjectKind::Map, Some(2)),
    (&[&["HSET", "rate", "rate", "5", "interval", "1000"]], "rate", ObjectKind::RateLimiter, Some(2)),
    (
        &[&["HSET", "cache", "a", "1"], &["ZADD", "redisson__timeout__set:{cache}", "1", "a"]],
        "cache",
        ObjectKind::MapCache,
        Some(1),
    ),
    (&[&["RPUSH", "list", "a", "b", "c"]], "list", ObjectKind::List, Some(3)),
    (&[&["SADD", "set", "a"]], "set", ObjectKind::Set, Some(1)),
    (&[&["ZADD", "sorted", "1", "a"]], "sorted", ObjectKind::SortedSet, Some(1)),
    (&[&["XADD", "stream", "*", "a", "1"]], "stream", ObjectKind::Stream, Some(1)),
    (
        &[&["XADD", "topic", "*", "m", "1"], &["ZADD", "{topic}:timeout", "1", "a"]],
        "topic",
        ObjectKind::ReliableTopic,
        Some(1),
    ),
    (&[&["HSET", "redgrid_reliable_queue:{jobs}", "last", "1"]], "jobs", ObjectKind::ReliableQueue, Some(1)),
    (&[&["HSET", "redgrid_barrier:{gate}", "round", "1"]], "gate", ObjectKind::Barrier, Some(1)),
    (&[&["HSET", "redgrid_phaser:{phases}", "phase", "1"]], "phases", ObjectKind::Phaser, Some(1)),
    (&[&["HSET", "redgrid_event:{bell}", "set", "1"]], "bell", ObjectKind::Event, Some(1)),
    (&[&["ZADD", "redisson_delay_queue_timeout:{later}", "1", "a"]], "later", ObjectKind::DelayedQueue, Some(1)),
    (&[&["SET", "redisson_rb:{ring}", "3"]], "ring", ObjectKind::RingBuffer, Some(1)),
    (&[&["HSET", "redgrid_adder:{sum}", "sum", "1"]], "sum", ObjectKind::Adder, Some(1)),
];

async fn fill(server: &RedisServer) {
    let observer = observer(server).await;
    for command in OBJECTS.iter().flat_map(|(commands, ..)| *commands) {
        send(&observer, command).await;
    }
    hold(&observer, "lock", &format!("{ONE}:17"), "60000").await;
    hold(&observer, "queued", &format!("{JAVA}:3"), "60000").await;
    send(&observer, &["RPUSH", "redisson_lock_queue:{queued}", &format!("{JAVA}:4")]).await;
    hold(&observer, "leader", &format!("{ONE}:18"), "60000").await;
    send(&observer, &["HSET", "redgrid_leader:{leader}", "holder", &format!("{ONE}:18")]).await;
    send(&observer, &["HSET", "prices", "mode", "write", &format!("{ONE}:19:write"), "1"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn each_object_is_listed_once_with_its_kind() {
    let server = server().await;
    fill(&server).await;
    let inspector = inspector(&server.url()).await;
    let mut all = list(&inspector, &ObjectFilter::new()).await;
    for (_, name, kind, size) in OBJECTS {
        let view = all.remove(*name).unwrap_or_else(|| panic!("{name} is missing"));
        assert_eq!((view.kind, view.size, view.lifetime, &view.holder), (*kind, *size, None, &None), "{name}");
    }
    for (name, kind, holder) in [
        ("lock", ObjectKind::Lock, (ONE, 17)),
        ("queued", ObjectKind::FairLock, (JAVA, 3)),
        ("leader", ObjectKind::Election, (ONE, 18)),
        ("prices", ObjectKind::ReadWriteLock, (ONE, 19)),
    ] {
        let view = all.remove(name).unwrap_or_else(|| panic!("{name} is missing"));
        let held = view.holder.as_ref().map(|(client, number)| (client.as_str(), *number));
        assert_eq!((view.kind, view.size, held), (kind, Some(1), Some(holder)), "{name}");
        let is_leased = view.lifetime.is_some_and(|left| left > Duration::from_secs(10));
        assert_eq!(is_leased, name != "prices", "{view:?}");
    }
    assert!(all.is_empty(), "companions are no objects: {:?}", all.keys());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_filter_selects_names_and_kinds() {
    let server = server().await;
    fill(&server).await;
    let inspector = inspector(&server.url()).await;
    let names = async |filter: ObjectFilter| list(&inspector, &filter).await.into_keys().collect::<Vec<_>>();
    assert_eq!(names(ObjectFilter::new().of_kinds([ObjectKind::Lock])).await, ["lock"]);
    let locks = ObjectKind::ALL.into_iter().filter(|kind| kind.is_lock());
    assert_eq!(names(ObjectFilter::new().of_kinds(locks)).await, ["leader", "lock", "prices", "queued"]);
    let kinds = [ObjectKind::Set, ObjectKind::Barrier, ObjectKind::BloomFilter];
    assert_eq!(names(ObjectFilter::new().of_kinds(kinds)).await, ["empty", "filter", "gate", "set"]);
    assert_eq!(names(ObjectFilter::new().matching("l?st")).await, ["list"]);
    assert_eq!(names(ObjectFilter::new().matching("*").of_kinds([ObjectKind::Stream])).await, ["stream"]);
    assert_eq!(names(ObjectFilter::new().matching("nothing:*")).await, [""; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_that_resemble_locks_are_none() {
    let server = server().await;
    let observer = observer(&server).await;
    send(&observer, &["HSET", "half", "0f8fad5b:17", "1"]).await;
    send(&observer, &["HSET", "two", &format!("{JAVA}:1"), "1", &format!("{JAVA}:2"), "1"]).await;
    send(&observer, &["HSET", "user", "mode", "read", "name", "Ada"]).await;
    send(&observer, &["HSET", "mode", "mode", "read"]).await;
    send(&observer, &["HSET", "write", &format!("{JAVA}:1x"), "1"]).await;
    send(&observer, &["HSET", "mixed", "mode", "read", &format!("{JAVA}:1"), "1", "name", "Ada"]).await;
    let all = list(&inspector(&server.url()).await, &ObjectFilter::new()).await;
    assert_eq!(all.len(), 6);
    assert!(all.values().all(|view| view.kind == ObjectKind::Map), "{all:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn hostile_names_are_listed_and_none_is_lost() {
    let server = server().await;
    let observer = observer(&server).await;
    let long = "x".repeat(1024);
    let names: [&[u8]; 10] = [
        b"<img onerror=alert(1)>",
        b"\"'&",
        "\u{202e}abc".as_bytes(),
        b"a\0b",
        b"\xff\xfe",
        b"odd{name",
        b"}{",
        b"a\nb",
        b"",
        long.as_bytes(),
    ];
    for name in names {
        observer.cmd(&[b"SET", name, b"text"]).await.expect("an answer");
    }
    let all = list(&inspector(&server.url()).await, &ObjectFilter::new()).await;
    assert_eq!(all.len(), names.len());
    assert!(all.contains_key("\\xff\\xfe") && all.contains_key("") && all.contains_key(&long), "{:?}", all.keys());
}

#[tokio::test(flavor = "multi_thread")]
async fn large_values_are_not_read() {
    let server = server().await;
    let observer = observer(&server).await;
    let fill = "for i = 1, 1000000 do redis.call('HSET', KEYS[1], 'field:' .. i, '1') end";
    send(&observer, &["EVAL", fill, "1", "visits"]).await;
    let page = "x".repeat(5_000_000);
    send(&observer, &["SET", "page", &page]).await;
    for number in 0..4 {
        send(&observer, &["HSET", "pages", &format!("page:{number}"), &page]).await;
    }
    send(&observer, &["HSET", "long", "mode", &page]).await;
    send(&observer, &["CONFIG", "SET", "slowlog-log-slower-than", "200000"]).await;
    send(&observer, &["SLOWLOG", "RESET"]).await;
    let sent = async || -> u64 {
        let stats: String = observer.query(&["INFO", "stats"]).await.expect("an answer");
        let line = stats.lines().find_map(|line| line.strip_prefix("total_net_output_bytes:")).expect("it is counted");
        line.trim().parse().expect("a number")
    };
    let before = sent().await;
    let all = list(&inspector(&server.url()).await, &ObjectFilter::new()).await;
    let sizes: Vec<_> = all.values().map(|view| (view.name.as_str(), view.size)).collect();
    assert_eq!(sizes, [("long", Some(1)), ("page", Some(5_000_000)), ("pages", Some(4)), ("visits", Some(1_000_000))]);
    assert!(sent().await - before < 100_000, "no value was sent");
    let stats: String = observer.query(&["INFO", "commandstats"]).await.expect("an answer");
    assert!(
        !["get", "hget", "hgetall", "hscan"].iter().any(|name| stats.contains(&format!("cmdstat_{name}:"))),
        "{stats}"
    );
    let slow: u64 = observer.query(&["SLOWLOG", "LEN"]).await.expect("an answer");
    assert_eq!(slow, 0, "nothing took 200 ms");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pattern_that_is_incomplete_is_an_error() {
    let server = server().await;
    let inspector = inspector(&server.url()).await;
    let mut objects = std::pin::pin!(inspector.objects(&ObjectFilter::new().matching("[a")));
    let refused = futures_util::TryStreamExt::try_next(&mut objects).await.expect_err("an incomplete pattern");
    assert!(refused.to_string().contains("pattern"), "{refused}");
    let after = futures_util::TryStreamExt::try_next(&mut objects).await.expect("the end");
    assert!(after.is_none(), "the stream ends after an error");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_durations_of_pages_are_reported_without_the_rests() {
    let server = server().await;
    let fill = "for i = 1, 2000 do redis.call('SET', 'k' .. i, i) end";
    send(&observer(&server).await, &["EVAL", fill, "0"]).await;
    let inspector = inspector(&server.url()).await;
    let pages = Arc::new(Mutex::new(Vec::new()));
    let (reported, began) = (Arc::clone(&pages), Instant::now());
    // Each page is followed by a rest that is four times as long.
    let filter = ObjectFilter::new().rest(4);
    let objects = inspector.objects_timed(&filter, move |page| reported.lock().expect("no panic").push(page));
    assert_eq!(objects.count().await, 2_000);
    let (took, pages): (Duration, Vec<Duration>) = (began.elapsed(), pages.lock().expect("no panic").clone());
    let sum: Duration = pages.iter().sum();
    assert!(pages.len() >= 4 && !sum.is_zero(), "{pages:?}");
    assert!(sum * 5 <= took, "{sum:?} of {took:?}");
}
