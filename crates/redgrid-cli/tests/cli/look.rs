//! `redgrid inspect`, `redgrid unlock`: inspecting locks, and releasing them by force.

use std::time::Duration;

use redgrid::{Config, Grid};
use redgrid_testkit::{Cluster, Observer, RedisServer, wait_until};
use serde_json::json;

use crate::support::{Ended, run};

/// Timeout of operations that take milliseconds, long enough for a busy machine.
const SOON: Duration = Duration::from_secs(60);

/// A holder as a Java service writes it.
pub(crate) const HOLDER: &str = "0f8fad5b-d9cb-469f-a165-70867728950e:17";
pub(crate) const CLIENT: &str = "0f8fad5b-d9cb-469f-a165-70867728950e";

pub(crate) async fn hold(observer: &Observer, name: &str, entries: &str, millis: &str) {
    observer.cmd(&["HSET", name, HOLDER, entries]).await.expect("an answer");
    observer.cmd(&["PEXPIRE", name, millis]).await.expect("an answer");
}

pub(crate) fn on(server: &RedisServer, arguments: &[&str]) -> Ended {
    run(&[arguments, &["--url", &server.url()]].concat())
}

#[tokio::test]
async fn a_held_lock_is_shown_with_holder_lease_and_waiters() {
    let server = RedisServer::start().await.expect("a server");
    let observer = server.observer().await.expect("an observer");
    hold(&observer, "job", "2", "60000").await;
    let ended = on(&server, &["inspect", "job", "--json"]);
    assert_eq!(ended.code(), 0, "{}", ended.stderr());
    let text = ended.stdout();
    let places: Vec<_> =
        ["name", "held", "holders", "client", "number", "entries", "holder_count", "lease_left_ms", "waiting"]
            .map(|field| text.find(&format!("\"{field}\":")))
            .to_vec();
    assert!(places.iter().all(Option::is_some) && places.is_sorted(), "{text}");
    let told = ended.json();
    assert_eq!((&told["name"], &told["held"]), (&json!("job"), &json!(true)));
    let unknown = json!({ "host": null, "pid": null, "program": null, "label": null, "held_for_ms": null });
    let mut holder =
        json!({ "client": CLIENT, "number": 17, "entries": 2, "mode": "exclusive", "state": "not redgrid" });
    holder.as_object_mut().expect("an object").append(&mut unknown.as_object().expect("an object").clone());
    assert_eq!((&told["kind"], &told["holders"]), (&json!("lock"), &json!([holder])));
    assert!(told["lease_left_ms"].as_u64().is_some_and(|left| (30_000..=60_000).contains(&left)), "{told}");
    assert_eq!(told["waiting"], json!(0));

    let client = redgrid::Client::connect(server.url().as_str()).await.expect("a client");
    let waiter = redgrid::Lock::new(&client, "job");
    let waiting = tokio::spawn(async move { waiter.acquire().await });
    redgrid_testkit::wait_until(SOON, async || {
        on(&server, &["inspect", "job", "--json"]).json()["waiting"] == json!(1)
    })
    .await;
    let text = on(&server, &["inspect", "job"]).stdout();
    assert!(
        text.starts_with(&format!(
            "job: held\n  holder   client {CLIENT}, number 17\n  entered  2 times\n  state    not a client of redgrid\n"
        )),
        "{text}"
    );
    assert!(text.ends_with("  waiting  1 client\n"), "{text}");
    waiting.abort();
}

#[tokio::test]
async fn a_free_lock_is_shown_as_free_with_exit_code_0() {
    let server = RedisServer::start().await.expect("a server");
    let ended = on(&server, &["inspect", "job", "--json"]);
    assert_eq!(ended.code(), 0, "{}", ended.stderr());
    let want = json!({
        "schema": 1,
        "name": "job",
        "kind": "free",
        "held": false,
        "holders": [],
        "holder_count": 0,
        "lease_left_ms": null,
        "waiting": 0,
        "queue": [],
        "queue_len": 0,
        "token": null,
    });
    assert_eq!(ended.json(), want);
    assert_eq!(on(&server, &["inspect", "job"]).stdout(), "job: free\n  waiting  no client\n");
}

#[tokio::test]
async fn a_key_that_is_no_lock_is_rejected() {
    let server = RedisServer::start().await.expect("a server");
    let observer = server.observer().await.expect("an observer");
    observer.cmd(&["SET", "text", "1"]).await.expect("an answer");
    for command in [&["inspect", "text"][..], &["unlock", "--reason", "test", "--force", "text"][..]] {
        let ended = on(&server, command);
        assert_eq!(ended.code(), 2, "{}", ended.stderr());
        assert!(ended.stderr().contains("`text` is not a lock"), "{}", ended.stderr());
    }
    assert_eq!(observer.get::<String>("text").await.expect("an answer").as_deref(), Some("1"));
}

#[tokio::test]
async fn a_lock_is_taken_away_by_force_only() {
    let server = RedisServer::start().await.expect("a server");
    let observer = server.observer().await.expect("an observer");
    hold(&observer, "job", "1", "600000").await;
    let polite = on(&server, &["unlock", "--reason", "test", "job"]);
    assert_eq!(polite.code(), 2);
    assert!(polite.stderr().contains("pass --force"), "{}", polite.stderr());
    assert!(observer.exists("job").await.expect("an answer"));

    let forced = on(&server, &["unlock", "--reason", "test", "--force", "job"]);
    let taken = format!("job: taken from {HOLDER}\n");
    assert_eq!((forced.code(), forced.stdout()), (0, taken), "{}", forced.stderr());
    let free = async || !observer.exists("job").await.expect("an answer");
    redgrid_testkit::wait_until(SOON, free).await;
    let again = on(&server, &["unlock", "--reason", "test", "--force", "job"]);
    assert_eq!((again.code(), again.stdout().as_str()), (1, "job: was free\n"));
    let free = on(&server, &["unlock", "--reason", "test", "--force", "job", "--json"]).json();
    assert_eq!((&free["outcome"], &free["freed"]), (&json!("free"), &json!(false)));
}

#[tokio::test]
async fn the_queue_of_a_fair_lock_is_listed_in_its_order() {
    let server = RedisServer::start().await.expect("a server");
    let observer = server.observer().await.expect("an observer");
    hold(&observer, "job", "1", "60000").await;
    observer.cmd(&["RPUSH", "redisson_lock_queue:{job}", HOLDER]).await.expect("an answer");
    observer.cmd(&["ZADD", "redisson_lock_timeout:{job}", "9000000000000", HOLDER]).await.expect("an answer");
    let client = redgrid::Client::connect(server.url().as_str()).await.expect("a client");
    let waiting = tokio::spawn(redgrid::FairLock::new(&client, "job").acquire().into_future());
    let queue = || on(&server, &["inspect", "job", "--json"]).json()["queue"].clone();
    redgrid_testkit::wait_until(SOON, async || queue().as_array().is_some_and(|queue| queue.len() == 2)).await;
    let told = queue();
    assert_eq!(told[0], json!({ "client": CLIENT, "number": 17, "ours": false, "state": "not redgrid" }));
    assert_eq!((&told[1]["client"], &told[1]["ours"]), (&json!(client.id()), &json!(true)));
    let text = on(&server, &["inspect", "job"]).stdout();
    assert!(
        text.contains(&format!("\n  queue    1. client {CLIENT}, number 17, of Redisson\n  queue    2. ")),
        "{text}"
    );
    waiting.abort();
}

#[tokio::test(flavor = "multi_thread")]
async fn waiters_are_counted_in_a_cluster() {
    let cluster = Cluster::start(3, 0).await.expect("it starts");
    let url = cluster.url();
    let [one, two] =
        [Grid::connect(url.as_str()).await.expect("a client"), Grid::connect(&*url).await.expect("a client")];
    // The three names are in slots of different nodes.
    for name in ["a", "b", "c"] {
        let guard = one.lock(name).acquire().await.expect("it is free");
        let waiting = tokio::spawn(two.lock(name).acquire().into_future());
        wait_until(SOON, async || run(&["inspect", name, "--json", "--url", &url]).json()["waiting"] == json!(1)).await;
        let text = run(&["inspect", name, "--url", &url]).stdout();
        assert!(text.ends_with("  waiting  1 client\n"), "{text}");
        waiting.abort();
        drop(guard);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn waiters_for_a_read_write_lock_are_counted() {
    let server = RedisServer::start().await.expect("a server");
    let url = server.url();
    let [one, two] =
        [Grid::connect(url.as_str()).await.expect("a client"), Grid::connect(&*url).await.expect("a client")];
    let guard = one.rw_lock("prices").read().await.expect("it is free");
    let waiting = tokio::spawn(two.rw_lock("prices").write().into_future());
    wait_until(SOON, async || on(&server, &["inspect", "prices", "--json"]).json()["waiting"] == json!(1)).await;
    waiting.abort();
    drop(guard);
}

#[tokio::test]
async fn without_permission_waiters_are_shown_as_unknown() {
    let server = RedisServer::start().await.expect("a server");
    server.deny(&["pubsub"]).await.expect("an answer");
    let ended = on(&server, &["inspect", "job", "--json"]);
    assert_eq!((ended.code(), &ended.json()["waiting"]), (0, &json!(null)), "{}", ended.stderr());
    let text = on(&server, &["inspect", "job"]).stdout();
    assert_eq!(text, "job: free\n  waiting  unknown: this user lacks the permission\n");
    let observer = server.observer().await.expect("an observer");
    hold(&observer, "job", "1", "60000").await;
    assert_eq!(on(&server, &["inspect", "job", "--json"]).json()["holders"][0]["state"], json!("unknown"));
}

/// Returns the bytes that the server has sent to all clients.
async fn sent(observer: &Observer) -> u64 {
    let stats: String = observer.query(&["INFO", "stats"]).await.expect("an answer");
    let line = stats.lines().find_map(|line| line.strip_prefix("total_net_output_bytes:")).expect("it is counted");
    line.trim().parse().expect("a number")
}

#[tokio::test]
async fn a_large_hash_is_read_in_a_bounded_part() {
    let server = RedisServer::start().await.expect("a server");
    let observer = server.observer().await.expect("an observer");
    let fill = "for i = 1, 200000 do redis.call('HSET', KEYS[1], 'field:' .. i, '1') end";
    observer.cmd(&["EVAL", fill, "1", "visits"]).await.expect("an answer");
    let before = sent(&observer).await;
    let ended = on(&server, &["inspect", "visits"]);
    assert_eq!((ended.code(), ended.stdout().as_str()), (2, ""), "{}", ended.stderr());
    assert_eq!(ended.stderr(), "redgrid: `visits` is not a lock: it is a hash of 200000 fields\n");
    assert!(sent(&observer).await - before < 20_000, "only a few fields");
    // A read-write lock with as many readers.
    let fill = "redis.call('HSET', KEYS[1], 'mode', 'read') \
                for i = 1, 200000 do redis.call('HSET', KEYS[1], ARGV[1] .. ':' .. i, '1') end";
    observer.cmd(&["EVAL", fill, "1", "crowd", CLIENT]).await.expect("an answer");
    let before = sent(&observer).await;
    let told = on(&server, &["inspect", "crowd", "--json"]).json();
    assert_eq!((&told["kind"], &told["holder_count"]), (&json!("read-write lock"), &json!(200_000)));
    assert!(told["holders"].as_array().is_some_and(|holders| (999..=1000).contains(&holders.len())), "{told}");
    let sent = sent(&observer).await - before;
    assert!(sent < 200_000, "{sent} bytes: as many as a thousand holders have, and not all");
    let text = on(&server, &["inspect", "crowd"]).stdout();
    assert!(text.contains("\n  holder   and 199980 more\n"), "{text}");
    assert!(text.lines().count() < 120, "{text}");
}

#[tokio::test]
async fn a_hash_that_is_no_lock_is_not_deleted_by_force() {
    let server = RedisServer::start().await.expect("a server");
    let observer = server.observer().await.expect("an observer");
    observer.cmd(&["HSET", "user", "name", "Ada", "mail", "ada@example.org"]).await.expect("an answer");
    let ended = on(&server, &["unlock", "--reason", "test", "--force", "user"]);
    assert_eq!(ended.code(), 2, "{}", ended.stdout());
    assert!(ended.stderr().contains("`user` is not a lock: it is a hash of 2 fields"), "{}", ended.stderr());
    assert_eq!(observer.query::<u64>(&["HLEN", "user"]).await.expect("an answer"), 2);
}

#[tokio::test]
async fn long_values_are_not_read() {
    let server = RedisServer::start().await.expect("a server");
    let observer = server.observer().await.expect("an observer");
    let page = "x".repeat(1_000_000);
    for number in 0..5 {
        observer.cmd(&["HSET", "pages", &format!("page:{number}"), &page]).await.expect("an answer");
    }
    let before = sent(&observer).await;
    let ended = on(&server, &["inspect", "pages"]);
    assert_eq!(ended.code(), 2, "{}", ended.stdout());
    assert!(ended.stderr().contains("it is a hash of 5 fields"), "{}", ended.stderr());
    let listed = on(&server, &["ls", "--kind", "all", "--json"]).json();
    assert_eq!((&listed["kind"], &listed["size"]), (&json!("map"), &json!(5)));
    let sent = sent(&observer).await - before;
    assert!(sent < 100_000, "{sent} bytes");
}

/// Returns a client with a poll interval that exceeds the duration of the test, so that only a
/// message wakes its waiters.
async fn deaf_to_time(server: &RedisServer) -> Grid {
    let config = Config::from_url(server.url()).expect("a URL").poll_interval(Duration::from_secs(60));
    Grid::connect(config).await.expect("a client")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lock_of_any_kind_that_is_taken_away_goes_to_the_next() {
    let server = RedisServer::start().await.expect("a server");
    let observer = server.observer().await.expect("an observer");
    let [holder, waiter] = [deaf_to_time(&server).await, deaf_to_time(&server).await];
    let listens = async |pattern: &str| {
        wait_until(SOON, async || !observer.pubsub_channels(pattern).await.expect("an answer").is_empty()).await;
    };

    let held = holder.fair_lock("fair").acquire().await.expect("it is free");
    let next = tokio::spawn(waiter.fair_lock("fair").acquire().into_future());
    listens("redisson_lock__channel:{fair}:*").await;
    assert_eq!(on(&server, &["unlock", "--reason", "test", "--force", "fair"]).code(), 0);
    let got = tokio::time::timeout(SOON, next).await.expect("it was woken").expect("no panic").expect("it is its turn");
    drop((held, got));

    let held = holder.rw_lock("prices").read().await.expect("it is free");
    let next = tokio::spawn(waiter.rw_lock("prices").write().into_future());
    listens("redisson_rwlock:{prices}").await;
    assert_eq!(on(&server, &["unlock", "--reason", "test", "--force", "prices"]).code(), 0);
    let got = tokio::time::timeout(SOON, next).await.expect("it was woken").expect("no panic").expect("it is its turn");
    drop((held, got));
}

#[tokio::test]
async fn a_lock_is_taken_from_the_holder_that_was_seen_and_from_no_other() {
    let server = RedisServer::start().await.expect("a server");
    let observer = server.observer().await.expect("an observer");
    let now = "1f8fad5b-d9cb-469f-a165-70867728950e:18";
    observer.cmd(&["HSET", "job", now, "1"]).await.expect("an answer");
    observer.cmd(&["PEXPIRE", "job", "60000"]).await.expect("an answer");

    let other = on(&server, &["unlock", "--reason", "test", "--force", "--if-holder", HOLDER, "job"]);
    assert_eq!(other.code(), 3, "{}", other.stderr());
    assert_eq!(other.stdout(), format!("job: not freed, it has passed to {now}\n"));
    let told = on(&server, &["unlock", "--reason", "test", "--force", "--if-holder", HOLDER, "job", "--json"]).json();
    assert_eq!((&told["outcome"], &told["holders"]), (&json!("held by another"), &json!([now])));
    assert_eq!((&told["freed"], &told["lost"]), (&json!(false), &json!([])));
    assert!(observer.exists("job").await.expect("an answer"));

    let freed = on(&server, &["unlock", "--reason", "test", "--force", "--if-holder", now, "job"]);
    assert_eq!((freed.code(), freed.stdout()), (0, format!("job: taken from {now}\n")), "{}", freed.stderr());
    wait_until(SOON, async || !observer.exists("job").await.expect("an answer")).await;
    let free = on(&server, &["unlock", "--reason", "test", "--force", "--if-holder", now, "job"]);
    assert_eq!((free.code(), free.stdout().as_str()), (1, "job: was free\n"));

    let polite = on(&server, &["unlock", "--reason", "test", "--if-holder", now, "job"]);
    assert_eq!(polite.code(), 2, "{}", polite.stdout());
}
