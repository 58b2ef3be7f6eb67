//! All objects of a server: listing, companion keys, and deletion.

mod key_ownership;
mod walks;

use std::collections::BTreeSet;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use redgrid_barrier::{Barrier, Event};
use redgrid_bucket::Bucket;
use redgrid_core::fence::Fence;
use redgrid_core::object::Lifetime;
use redgrid_core::{Client, Code, Failure, ServerError, Token};
use redgrid_countdown_latch::CountDownLatch;
use redgrid_id_generator::IdGenerator;
use redgrid_keys::{FlushScope, Key, Keys, KeysError, Kind};
use redgrid_locks::{FairLock, FencedLock, RwLock};
use redgrid_map::Map;
use redgrid_permit_expirable_semaphore::PermitExpirableSemaphore;
use redgrid_rate_limiter::{Rate, RateLimiter};
use redgrid_testkit::{Action, Observer, Proxy, RedisServer, wait_until};
use redgrid_tests::{SOON, client, client_with, server};

const HOUR: Duration = Duration::from_secs(3600);

async fn objects(keys: &Keys) -> Vec<String> {
    let found: BTreeSet<Key> = keys.objects().try_collect().await.unwrap();
    found.iter().map(Key::to_string).collect()
}

async fn left(observer: &Observer) -> Vec<String> {
    let mut left = observer.keys("*").await.unwrap();
    left.sort();
    left
}

/// Creates one object of most types, each with its companion keys. Guards and waiters live as long
/// as the returned value.
async fn one_of_each(client: &Client, server: &RedisServer) -> Box<dyn Send> {
    let fair = FairLock::new(client, "fair").acquire().await.unwrap();
    let other = redgrid_tests::client(server).await;
    let waiter = tokio::spawn(FairLock::new(&other, "fair").acquire().timeout(SOON).into_future());
    let observer = server.observer().await.unwrap();
    wait_until(SOON, async || observer.exists("redisson_lock_queue:{fair}").await.unwrap()).await;
    let fenced = FencedLock::new(client, "fenced").acquire().await.unwrap();
    let read = RwLock::new(client, "rw").read().await.unwrap();
    let permits = PermitExpirableSemaphore::new(client, "permits");
    assert!(permits.try_set_permits(3).await.unwrap());
    let permit = permits.acquire().lease(HOUR).await.unwrap();
    assert!(CountDownLatch::new(client, "latch").try_set_count(2).await.unwrap());
    let limiter = RateLimiter::new(client, "limiter");
    assert!(limiter.try_set_rate(Rate::overall(5, HOUR)).await.unwrap());
    limiter.acquire().await.unwrap();
    assert!(IdGenerator::new(client, "ids").try_init(1, 10).await.unwrap());
    Event::new(client, "event").set().await.unwrap();
    let barrier = Barrier::new(client, "barrier", 2);
    let at_barrier = tokio::spawn(async move { barrier.wait().await.map(drop) });
    wait_until(SOON, async || observer.exists("redgrid_barrier:{barrier}").await.unwrap()).await;
    let bucket: Bucket<u64> = Bucket::new(client, "bucket");
    bucket.set(&1).await.unwrap();
    let micros = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_micros();
    let token = Token::new(u64::try_from(micros).unwrap());
    Fence::new(client, "bucket").set("bucket", "2", token).await.unwrap();
    let map: Map<String, u64> = Map::new(client, "map");
    map.insert("a", &1).await.unwrap();
    Box::new((fair, waiter, fenced, read, permit, at_barrier))
}

const ALL: [&str; 11] =
    ["barrier", "bucket", "event", "fair", "fenced", "ids", "latch", "limiter", "map", "permits", "rw"];

/// Whether a key outlives its object, as documented in docs/objects/keyspace.md.
fn outlives(key: &str) -> bool {
    ["redgrid_fence:", "redisson_lock_token:", "redgrid_once:"].iter().any(|prefix| key.starts_with(prefix))
}

#[tokio::test(flavor = "multi_thread")]
async fn objects_are_listed_by_name_and_all_keys_by_owner() {
    let server = server().await;
    let (client, observer) = (client(&server).await, server.observer().await.unwrap());
    let _all = one_of_each(&client, &server).await;
    let keys = Keys::new(&client);
    assert_eq!(objects(&keys).await, ALL);
    let mut found: BTreeSet<Key> = keys.all().try_collect().await.unwrap();
    let wire: BTreeSet<String> = found.iter().map(|key| String::from_utf8(key.wire().to_vec()).unwrap()).collect();
    assert!(left(&observer).await.iter().all(|key| wire.contains(key)), "{found:?}");
    assert!(found.iter().all(|key| ALL.contains(&key.as_str().unwrap())), "{found:?}");
    found.retain(Key::is_companion);
    for beside in ["redisson_lock_queue:{fair}", "{permits}:timeout", "{limiter}:value", "{limiter}:permits"] {
        assert!(found.iter().any(|key| key.wire() == beside), "{beside}: {found:?}");
    }
    assert!(found.iter().any(|key| key.outlives() && key.as_str() == Some("bucket")), "{found:?}");
    assert_eq!(keys.exists(ALL).await.unwrap(), 11);
    assert_eq!(keys.exists(["bucket", "bucket", "nothing"]).await.unwrap(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn without_permission_for_other_keys_objects_are_listed() {
    let server = RedisServer::builder().user("some", "on >secret ~ok:* ~*{ok:* &* +@all").start().await.unwrap();
    let client = client_with(&server.url_for("some", "secret"), |config| config).await;
    let observer = server.observer().await.unwrap();
    observer.cmd(&["SET", "ok:1", "1"]).await.unwrap();
    observer.cmd(&["SET", "{foreign}:timeout", "1"]).await.unwrap();
    assert_eq!(objects(&Keys::new(&client)).await, ["ok:1", "{foreign}:timeout"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_with_a_namespace_sees_only_its_keys() {
    let server = server().await;
    let observer = server.observer().await.unwrap();
    // Special characters in the namespace are not interpreted as a pattern.
    let within = client_with(&server.url(), |config| config.namespace("p*[d]").unwrap()).await;
    let without = client(&server).await;
    let (ours, all) = (Keys::new(&within), Keys::new(&without));
    let lock = FairLock::new(&within, "fair").acquire().await.unwrap();
    let other = client_with(&server.url(), |config| config.namespace("p*[d]").unwrap()).await;
    let _waiter = tokio::spawn(FairLock::new(&other, "fair").acquire().timeout(SOON).into_future());
    wait_until(SOON, async || observer.exists("redisson_lock_queue:{p*[d]:fair}").await.unwrap()).await;
    for name in ["a", "b"] {
        Bucket::<u64>::new(&within, name).set(&1).await.unwrap();
        Bucket::<u64>::new(&without, name).set(&1).await.unwrap();
    }
    for other in ["pxd:a", "redisson_lock_queue:{pxd:fair}", "p*[d]", "x:p*[d]:a"] {
        observer.cmd(&["SET", other, "1"]).await.unwrap();
    }
    assert_eq!(objects(&ours).await, ["a", "b", "fair"]);
    assert!(ours.count().await.unwrap() >= 4 && all.count().await.unwrap() >= 10);
    assert_eq!(ours.random().await.unwrap().map(|key| ["a", "b", "fair"].contains(&key.as_str().unwrap())), Some(true));
    assert_eq!(ours.exists(["a", "pxd:a", "p*[d]:a"]).await.unwrap(), 1);
    assert_eq!(ours.delete(["a"]).await.unwrap(), 1);
    assert!(observer.exists("a").await.unwrap());
    assert_eq!(ours.delete_by_pattern("[ab]").await.unwrap(), 1);
    for what in [FlushScope::Database, FlushScope::AllDatabases] {
        let told = ours.flush(what).await.unwrap_err();
        assert!(matches!(told, KeysError::Failed(Failure::InvalidArgument { option: "flush", .. })), "{told:?}");
    }
    let told = all.flush(FlushScope::Namespace).await.unwrap_err();
    assert!(matches!(told, KeysError::Failed(Failure::InvalidArgument { option: "flush", .. })), "{told:?}");
    drop(lock);
    ours.flush(FlushScope::Namespace).await.unwrap();
    let left = left(&observer).await;
    for others in ["a", "b", "p*[d]", "pxd:a", "redisson_lock_queue:{pxd:fair}", "x:p*[d]:a"] {
        assert!(left.contains(&others.to_owned()), "{others}: {left:?}");
    }
    let written_again = |key: &&String| key.contains("p*[d]:fair");
    assert_eq!(left.iter().filter(|key| !written_again(key)).count(), 6, "{left:?}");
    all.flush(FlushScope::Database).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn patterns_and_types_filter_the_list() {
    let server = server().await;
    let (client, observer) = (client(&server).await, server.observer().await.unwrap());
    let keys = Keys::new(&client);
    for name in ["cart:1", "cart:2", "cart:10", "a*", "ab"] {
        observer.cmd(&["SET", name, "1"]).await.unwrap();
    }
    observer.cmd(&["HSET", "cart:map", "a", "1"]).await.unwrap();
    observer.cmd(&["RPUSH", "cart:list", "a"]).await.unwrap();
    observer.cmd(&[b"SET".as_slice(), b"cart:\xff", b"1"]).await.unwrap();
    let told = async |pattern: &'static str| {
        let found: BTreeSet<Key> = keys.objects().matching(pattern).page(1).try_collect().await.unwrap();
        found.iter().map(Key::to_string).collect::<Vec<_>>()
    };
    assert_eq!(told("cart:?").await, ["cart:1", "cart:2", "cart:\\xff"]);
    assert_eq!(told("cart:[0-9]*").await, ["cart:1", "cart:10", "cart:2"]);
    assert_eq!(told("cart:[^0-9]").await, ["cart:\\xff"]);
    assert_eq!(told("a\\*").await, ["a*"]);
    assert_eq!(told("a").await, [""; 0]);
    let hashes: Vec<Key> = keys.objects().of_kind(Kind::Hash).try_collect().await.unwrap();
    assert_eq!(hashes.iter().map(Key::to_string).collect::<Vec<_>>(), ["cart:map"]);
    for open in ["[a", "a\\"] {
        let told = keys.objects().matching(open).try_next().await.unwrap_err();
        assert!(matches!(told, KeysError::Failed(Failure::InvalidArgument { option: "pattern", .. })), "{told:?}");
        let told = keys.delete_by_pattern(open).await.unwrap_err();
        assert!(matches!(told, KeysError::Failed(Failure::InvalidArgument { option: "pattern", .. })), "{told:?}");
    }
    let told = keys.all().of_kind(Kind::Other).try_next().await.unwrap_err();
    assert!(matches!(told, KeysError::Failed(Failure::InvalidArgument { option: "kind", .. })), "{told:?}");
    assert_eq!(keys.kind("cart:list").await.unwrap(), Some(Kind::List));
    assert_eq!((keys.kind("nothing").await.unwrap(), keys.kind("cart:map").await.unwrap()), (None, Some(Kind::Hash)));
    // Invalid names can be used in the form in which they were found.
    let odd: Vec<Key> = keys.objects().matching(Bytes::from_static(b"*\xff")).try_collect().await.unwrap();
    assert!(odd[0].name().is_err() && odd[0].as_str().is_none() && odd[0].as_bytes() == b"cart:\xff");
    assert_eq!((keys.exists(&odd).await.unwrap(), keys.delete(&odd).await.unwrap()), (1, 1));
    assert_eq!(keys.delete_by_pattern("cart:*").await.unwrap(), 5);
    assert_eq!(left(&observer).await, ["a*", "ab"]);
    assert!(matches!(keys.delete([""]).await.unwrap_err(), KeysError::Failed(Failure::InvalidName(_))));
}

#[tokio::test(flavor = "multi_thread")]
async fn many_objects_expire_and_are_deleted_together() {
    let server = server().await;
    let (client, observer) = (client(&server).await, server.observer().await.unwrap());
    let keys = Keys::new(&client);
    let names: Vec<String> = (0..300).map(|n| format!("n:{n}")).collect();
    for name in &names {
        client.command("SET").key(name).unwrap().arg("1").query::<()>().await.unwrap();
    }
    observer.cmd(&["ZADD", "{n:7}:timeout", "1", "a"]).await.unwrap();
    observer.cmd(&["RPUSH", "redisson_lock_queue:{n:7}", "a"]).await.unwrap();
    let nothing = ["nothing".to_owned()];
    let (some, all) = (names[..200].iter().chain(&nothing), names.iter().chain(&nothing));
    assert_eq!(keys.expire_in(HOUR, some).await.unwrap(), 200);
    for companion in ["{n:7}:timeout", "redisson_lock_queue:{n:7}"] {
        assert!(observer.time_to_live(companion).await.unwrap().is_some(), "{companion}");
    }
    let lives = keys.lifetimes(all.clone()).await.unwrap();
    let counted = |is: fn(&Lifetime) -> bool| lives.values().filter(|life| is(life)).count();
    assert_eq!(counted(|life| matches!(life, Lifetime::Ends(left) if *left <= HOUR)), 200);
    assert_eq!((counted(|life| *life == Lifetime::Endless), counted(|life| *life == Lifetime::Absent)), (100, 1));
    assert_eq!((keys.touch(all.clone()).await.unwrap(), keys.exists(all.clone()).await.unwrap()), (300, 300));
    assert_eq!(keys.persist(&names).await.unwrap(), 200);
    assert!(observer.time_to_live("{n:7}:timeout").await.unwrap().is_none());
    assert_eq!(keys.expire_at(SystemTime::now() + HOUR, &names[..2]).await.unwrap(), 2);
    for (lifetime, option) in [(Duration::ZERO, "lifetime"), (HOUR * 24 * 3651, "lifetime")] {
        let told = keys.expire_in(lifetime, &names).await.unwrap_err();
        assert!(
            matches!(&told, KeysError::Failed(Failure::InvalidArgument { option: of, .. }) if *of == option),
            "{told:?}"
        );
    }
    let told = keys.expire_at(SystemTime::UNIX_EPOCH - HOUR, &names).await.unwrap_err();
    assert!(matches!(told, KeysError::Failed(Failure::InvalidArgument { .. })), "{told:?}");
    assert_eq!(keys.expire_at(SystemTime::UNIX_EPOCH, &names[..1]).await.unwrap(), 1);
    assert_eq!(keys.delete(all).await.unwrap(), 299);
    assert!(left(&observer).await.is_empty());
    assert_eq!(keys.delete(Vec::<String>::new()).await.unwrap(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rename_includes_companion_keys() {
    let server = server().await;
    let (client, observer) = (client(&server).await, server.observer().await.unwrap());
    let keys = Keys::new(&client);
    let permits = PermitExpirableSemaphore::new(&client, "permits");
    assert!(permits.try_set_permits(3).await.unwrap());
    let permit = permits.acquire().lease(HOUR).await.unwrap();
    observer.cmd(&["SET", "bucket", "1"]).await.unwrap();
    observer.cmd(&["SET", "{bucket}:value", "1"]).await.unwrap();
    assert!(!keys.rename_unless_taken("permits", "bucket").await.unwrap());
    keys.rename("permits", "renamed").await.unwrap();
    assert!(
        observer.exists("{renamed}:timeout").await.unwrap() && !observer.exists("{permits}:timeout").await.unwrap()
    );
    assert!(keys.copy("renamed", "second").await.unwrap() && observer.exists("{second}:timeout").await.unwrap());
    keys.rename("bucket", "other").await.unwrap();
    assert!(observer.exists("{bucket}:value").await.unwrap(), "a user's own key");
    assert!(matches!(keys.rename("bucket", "x").await.unwrap_err(), KeysError::Object(_)));
    assert_eq!(keys.slot("a").unwrap(), 0);
    drop(permit);
}

#[tokio::test(flavor = "multi_thread")]
async fn failed_deletions_are_reported_by_name() {
    let user = "on >secret ~ok:* ~*{ok:* &* +@all";
    let server = RedisServer::builder().user("some", user).start().await.unwrap();
    let client = client_with(&server.url_for("some", "secret"), |config| config).await;
    let keys = Keys::new(&client);
    let names: Vec<String> = (0..100).map(|n| format!("ok:{n:02}")).collect();
    for name in &names {
        client.command("SET").key(name).unwrap().arg("1").query::<()>().await.unwrap();
    }
    let told = keys.delete(names.iter().map(String::as_str).chain(["zz"])).await.unwrap_err();
    let KeysError::Partial { done, failed } = &told else { panic!("{told:?}") };
    // Names are deleted in chunks, and the last chunk contains the denied name.
    assert!(*done > 0 && failed.len() as u64 + done == 101, "{told:?}");
    assert!(failed.iter().any(|not| not.key.to_string() == "zz"));
    assert!(failed.iter().all(|not| not.source.code() == Some(Code::NoPermission)), "{told:?}");
    assert_eq!(keys.count().await.unwrap(), 100 - done);
    assert!(told.to_string().contains("objects were processed"), "{told}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deletion_with_a_lost_reply_is_unknown_and_executed_once() {
    let server = server().await;
    let proxy = Proxy::to(&server).await.unwrap();
    let observer = server.observer().await.unwrap();
    let client =
        client_with(&server.url_via(proxy.addr()), |config| config.response_timeout(Duration::from_secs(2))).await;
    let keys = Keys::new(&client);
    observer.cmd(&["SET", "a", "1"]).await.unwrap();
    // The server then has the script, and the next request sends only its hash.
    assert_eq!(keys.delete(["other"]).await.unwrap(), 0);
    proxy.next(1, "EVALSHA", Action::SwallowReply);
    let told = keys.delete(["a"]).await.unwrap_err();
    let KeysError::Partial { done: 0, failed } = &told else { panic!("{told:?}") };
    assert!(matches!(failed[0].source, ServerError::Unknown { .. }), "{}", failed[0]);
    assert!(!observer.exists("a").await.unwrap());
    // A read without a reply is sent again.
    observer.cmd(&["SET", "b", "1"]).await.unwrap();
    assert_eq!(keys.exists(["a"]).await.unwrap(), 0);
    for command in ["EVALSHA", "DBSIZE", "SCAN"] {
        proxy.next(1, command, Action::SwallowReply);
    }
    assert_eq!((keys.exists(["b"]).await.unwrap(), keys.count().await.unwrap()), (1, 1));
    assert_eq!(objects(&keys).await, ["b"]);
    proxy.next(1, "FLUSHDB", Action::SwallowReply);
    let told = keys.flush(FlushScope::Database).await.unwrap_err();
    let KeysError::SomeNodesFailed { done, failed } = &told else { panic!("{told:?}") };
    assert!(done.is_empty() && matches!(failed[0].1, ServerError::Unknown { .. }), "{told:?}");
}
