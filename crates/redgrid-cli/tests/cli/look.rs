//! `redgrid inspect`, `redgrid ls`, `redgrid unlock`: looking at locks, and taking them away.

use redgrid_testkit::{Observer, RedisServer};
use serde_json::{Value, json};

use crate::support::{Ended, run};

/// A holder as a Java service would write it.
const HOLDER: &str = "0f8fad5b-d9cb-469f-a165-70867728950e:17";
const CLIENT: &str = "0f8fad5b-d9cb-469f-a165-70867728950e";

async fn hold(observer: &Observer, name: &str, entries: &str, millis: &str) {
    observer.cmd(&["HSET", name, HOLDER, entries]).await.expect("an answer");
    observer.cmd(&["PEXPIRE", name, millis]).await.expect("an answer");
}

fn on(server: &RedisServer, arguments: &[&str]) -> Ended {
    run(&[arguments, &["--url", &server.url()]].concat())
}

fn lines(ended: &Ended) -> Vec<Value> {
    ended.stdout().lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

#[tokio::test]
async fn a_held_lock_is_told_with_holder_lease_and_waiters() {
    let server = RedisServer::start().await.expect("a server");
    let observer = server.observer().await.expect("an observer");
    hold(&observer, "job", "2", "60000").await;
    let ended = on(&server, &["inspect", "job", "--json"]);
    assert_eq!(ended.code(), 0, "{}", ended.stderr());
    let text = ended.stdout();
    let places: Vec<_> = ["name", "held", "holders", "client", "number", "entries", "lease_left_ms", "waiting"]
        .map(|field| text.find(&format!("\"{field}\":")))
        .to_vec();
    assert!(places.iter().all(Option::is_some) && places.is_sorted(), "{text}");
    let told = ended.json();
    assert_eq!((&told["name"], &told["held"]), (&json!("job"), &json!(true)));
    assert_eq!(told["holders"], json!([{ "client": CLIENT, "number": 17, "entries": 2 }]));
    assert!(told["lease_left_ms"].as_u64().is_some_and(|left| (30_000..=60_000).contains(&left)), "{told}");
    assert_eq!(told["waiting"], json!(0));

    let client = redgrid::Client::connect(server.url().as_str()).await.expect("a client");
    let waiter = redgrid::Lock::new(&client, "job");
    let waiting = tokio::spawn(async move { waiter.acquire().await });
    redgrid_testkit::wait_until(std::time::Duration::from_secs(10), async || {
        on(&server, &["inspect", "job", "--json"]).json()["waiting"] == json!(1)
    })
    .await;
    let text = on(&server, &["inspect", "job"]).stdout();
    assert!(
        text.starts_with(&format!("job: held\n  holder   client {CLIENT}, number 17\n  entered  2 times\n")),
        "{text}"
    );
    assert!(text.ends_with("  waiting  1 client\n"), "{text}");
    waiting.abort();
}

#[tokio::test]
async fn a_free_lock_is_told_as_free_with_exit_code_0() {
    let server = RedisServer::start().await.expect("a server");
    let ended = on(&server, &["inspect", "job", "--json"]);
    assert_eq!(ended.code(), 0, "{}", ended.stderr());
    let want = json!({ "name": "job", "held": false, "holders": [], "lease_left_ms": null, "waiting": 0 });
    assert_eq!(ended.json(), want);
    assert_eq!(on(&server, &["inspect", "job"]).stdout(), "job: free\n  waiting  nobody\n");
}

#[tokio::test]
async fn what_is_no_lock_is_refused() {
    let server = RedisServer::start().await.expect("a server");
    let observer = server.observer().await.expect("an observer");
    observer.cmd(&["SET", "text", "1"]).await.expect("an answer");
    for command in [&["inspect", "text"][..], &["unlock", "--force", "text"][..]] {
        let ended = on(&server, command);
        assert_eq!(ended.code(), 2, "{}", ended.stderr());
        assert!(ended.stderr().contains("`text` is not a lock"), "{}", ended.stderr());
    }
    assert_eq!(observer.get::<String>("text").await.expect("an answer").as_deref(), Some("1"));
}

#[tokio::test]
async fn the_list_has_the_locks_and_nothing_else() {
    let server = RedisServer::start().await.expect("a server");
    let observer = server.observer().await.expect("an observer");
    assert_eq!(on(&server, &["ls"]).stdout(), "");
    // More keys than one look takes in, and all that may look like a lock at first sight.
    for number in 0..1200 {
        observer.cmd(&["HSET", &format!("other:{number}"), "field", "1"]).await.expect("an answer");
    }
    observer.cmd(&["SET", "text", "1"]).await.expect("an answer");
    observer.cmd(&["HSET", "half", "0f8fad5b:17", "1"]).await.expect("an answer");
    observer.cmd(&["HSET", "rw", "mode", "write", &format!("{HOLDER}:write"), "1"]).await.expect("an answer");
    for name in ["orders:1", "orders:2", "mail", "odd{name"] {
        hold(&observer, name, "1", "60000").await;
    }
    hold(&observer, "prod:orders:9", "1", "60000").await;

    let names = |ended: Ended| -> Vec<String> {
        assert_eq!(ended.code(), 0, "{}", ended.stderr());
        let mut names: Vec<_> =
            lines(&ended).iter().map(|lock| lock["name"].as_str().expect("text").to_owned()).collect();
        names.sort_unstable();
        names
    };
    let all = ["mail", "odd{name", "orders:1", "orders:2", "prod:orders:9"];
    assert_eq!(names(on(&server, &["ls", "--json"])), all);
    assert_eq!(names(on(&server, &["ls", "orders:*", "--json"])), ["orders:1", "orders:2"]);
    assert_eq!(names(on(&server, &["ls", "--json", "--namespace", "prod"])), ["orders:9"]);
    // A namespace is no pattern.
    assert_eq!(names(on(&server, &["ls", "--json", "--namespace", "p*"])), [""; 0]);

    let one = on(&server, &["ls", "mail", "--json"]).json();
    assert_eq!((&one["client"], &one["number"]), (&json!(CLIENT), &json!(17)), "{one}");
    assert!(one["lease_left_ms"].as_u64().is_some_and(|left| (30_000..=60_000).contains(&left)), "{one}");
    assert_eq!(one.as_object().map(serde_json::Map::len), Some(4));
    let text = on(&server, &["ls", "mail"]).stdout();
    assert!(text.starts_with(&format!("mail  client {CLIENT}, number 17, ")) && text.ends_with(" left\n"), "{text}");
}

#[tokio::test]
async fn the_list_never_asks_for_all_keys_at_once() {
    let server = RedisServer::start().await.expect("a server");
    let observer = server.observer().await.expect("an observer");
    hold(&observer, "job", "1", "60000").await;
    assert_eq!(on(&server, &["ls"]).code(), 0);
    let stats: String = observer.query(&["INFO", "commandstats"]).await.expect("an answer");
    assert!(stats.contains("cmdstat_scan:") && !stats.contains("cmdstat_keys:"), "{stats}");
}

#[tokio::test]
async fn a_lock_is_taken_away_by_force_only() {
    let server = RedisServer::start().await.expect("a server");
    let observer = server.observer().await.expect("an observer");
    hold(&observer, "job", "1", "60000").await;
    let polite = on(&server, &["unlock", "job"]);
    assert_eq!(polite.code(), 2);
    assert!(polite.stderr().contains("say --force"), "{}", polite.stderr());
    assert!(observer.exists("job").await.expect("an answer"));

    let forced = on(&server, &["unlock", "--force", "job"]);
    assert_eq!((forced.code(), forced.stdout().as_str()), (0, "job: freed\n"), "{}", forced.stderr());
    let free = async || !observer.exists("job").await.expect("an answer");
    redgrid_testkit::wait_until(std::time::Duration::from_secs(2), free).await;
    let again = on(&server, &["unlock", "--force", "job"]);
    assert_eq!((again.code(), again.stdout().as_str()), (1, "job: was free\n"));
    assert_eq!(on(&server, &["unlock", "--force", "job", "--json"]).stdout(), "{\"name\":\"job\",\"freed\":false}\n");
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
    redgrid_testkit::wait_until(std::time::Duration::from_secs(10), async || {
        queue().as_array().is_some_and(|queue| queue.len() == 2)
    })
    .await;
    let told = queue();
    assert_eq!(told[0], json!({ "client": CLIENT, "number": 17, "ours": false }));
    assert_eq!((&told[1]["client"], &told[1]["ours"]), (&json!(client.id()), &json!(true)));
    let text = on(&server, &["inspect", "job"]).stdout();
    assert!(
        text.contains(&format!("\n  queue    1. client {CLIENT}, number 17, of Redisson\n  queue    2. ")),
        "{text}"
    );
    waiting.abort();
}
