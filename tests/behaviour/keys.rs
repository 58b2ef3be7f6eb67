//! All that is on a server: what is there, what belongs to whom, and what goes together.

use std::collections::BTreeSet;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use futures_util::{FutureExt, StreamExt};
use redgrid_barrier::{Barrier, Event};
use redgrid_bucket::Bucket;
use redgrid_core::fence::Fence;
use redgrid_core::object::Lifetime;
use redgrid_core::object::belongings::{belongs_to, may_be_beside};
use redgrid_core::{Client, Code, Name, Request, ServerError, Token};
use redgrid_countdown_latch::CountDownLatch;
use redgrid_id_generator::IdGenerator;
use redgrid_keys::{Everything, Key, Keys, KeysError, Kind};
use redgrid_list::List;
use redgrid_locks::{FairLock, FencedLock, Lock, RwLock};
use redgrid_map::Map;
use redgrid_permit_expirable_semaphore::PermitExpirableSemaphore;
use redgrid_rate_limiter::{Rate, RateLimiter};
use redgrid_testkit::{Action, Observer, Proxy, RedisServer, wait_until};
use redgrid_tests::{SOON, client, client_with, in_full, server};

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

/// One of most types, each with what is beside it. Guards and waiters live as long as what it returns.
async fn one_of_each(client: &Client, server: &RedisServer) -> Box<dyn Send> {
    let fair = FairLock::new(client, "fair").acquire().await.unwrap();
    let other = redgrid_tests::client(server).await;
    let waiter = tokio::spawn(FairLock::new(&other, "fair").acquire().wait(SOON).into_future());
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

/// What outlives its object, as docs/keyspace.md says.
fn outlives(key: &str) -> bool {
    ["redgrid_fence:", "redisson_lock_token:", "redgrid_once:"].iter().any(|prefix| key.starts_with(prefix))
}

#[tokio::test(flavor = "multi_thread")]
async fn objects_are_told_by_their_names_and_all_keys_by_whom_they_belong_to() {
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
async fn what_belongs_to_an_object_goes_with_it() {
    for (deleted, by_pattern) in [(true, false), (false, false), (false, true)] {
        let server = server().await;
        let (client, observer) = (client(&server).await, server.observer().await.unwrap());
        let all = one_of_each(&client, &server).await;
        let keys = Keys::new(&client);
        observer.cmd(&["SET", "another", "1"]).await.unwrap();
        let told = match (deleted, by_pattern) {
            (true, _) => keys.delete(ALL).await.unwrap(),
            (_, true) => keys.delete_by_pattern("[^a]*").await.unwrap(),
            _ => keys.unlink(ALL).await.unwrap(),
        };
        assert_eq!(told, 11);
        let left: Vec<_> = left(&observer).await.into_iter().filter(|key| !outlives(key) && key != "another").collect();
        // The waiter of the fair lock and the one at the barrier may have come again; what a client has for itself ends by itself.
        let is_again = |key: &String| {
            let is_readers = !by_pattern && key.ends_with(":rwlock_timeout:1");
            key.contains("{fair}") || key == "fair" || key.contains("{barrier}") || is_readers
        };
        let others: Vec<_> = left.iter().filter(|key| !is_again(key)).collect();
        assert!(others.is_empty(), "{others:?}");
        assert!(observer.exists("redisson_lock_token:{fenced}").await.unwrap());
        assert!(observer.exists("redgrid_fence:{bucket}").await.unwrap() && observer.exists("another").await.unwrap());
        drop(all);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_somebodys_own_is_nobodys_companion() {
    let server = server().await;
    let (client, observer) = (client(&server).await, server.observer().await.unwrap());
    let keys = Keys::new(&client);
    let own = ["user", "{user}:timeout", "{user}:value", "{user}:permits", "{user}:allocation", "a{user}:value"];
    for key in own {
        observer.cmd(&["SET", key, "text"]).await.unwrap();
    }
    // A limiter's beside what is none.
    observer.cmd(&["HSET", "hash", "rate", "1"]).await.unwrap();
    observer.cmd(&["SET", "{hash}:value", "1"]).await.unwrap();
    assert_eq!(objects(&keys).await.len(), 8);
    // A queue of somebody's beside a text is no semaphore's.
    observer.cmd(&["SET", "json", "{\"a\":1}"]).await.unwrap();
    observer.cmd(&["ZADD", "{json}:timeout", "1", "mine"]).await.unwrap();
    assert_eq!(keys.delete(["json"]).await.unwrap(), 1);
    assert!(observer.exists("{json}:timeout").await.unwrap());
    assert_eq!(keys.delete(["{json}:timeout"]).await.unwrap(), 1);
    assert_eq!(keys.delete(["user", "hash"]).await.unwrap(), 2);
    assert_eq!(keys.delete_by_pattern("user").await.unwrap(), 0);
    assert_eq!(left(&observer).await.len(), 6);
    assert_eq!(keys.delete_by_pattern("{user}:*").await.unwrap(), 4);
    assert_eq!(left(&observer).await, ["a{user}:value", "{hash}:value"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_has_an_id_is_a_companion_where_its_object_is_there() {
    let server = server().await;
    let (client, observer) = (client(&server).await, server.observer().await.unwrap());
    let keys = Keys::new(&client);
    let (id, round) = ("b8a8d7c6-0f4e-4a7b-9a53-2d7e7a1c9f00", "0123456789abcdef0123456789abcdef");
    let named = |name: &str| {
        let parts = [format!("value:{id}"), format!("{id}:counter"), format!("{round}:semaphore")];
        parts.map(|part| format!("{{{name}}}:{part}"))
    };
    // Somebody's own, and beside them a limiter and a round.
    for key in named("mine").iter().chain(&named("limiter")[..1]).chain(&named("adder")[2..]) {
        observer.cmd(&["SET", key, "1"]).await.unwrap();
    }
    observer.cmd(&["HSET", "limiter", "rate", "1", "interval", "1000"]).await.unwrap();
    observer.cmd(&["SET", &format!("redgrid_adder_round:{{adder}}:{round}"), "1"]).await.unwrap();
    let mut mine = named("mine").to_vec();
    mine.sort();
    assert_eq!(objects(&keys).await, [&["limiter".to_owned()], &mine[..]].concat());
    assert_eq!(keys.delete_by_pattern("mine").await.unwrap(), 0);
    assert_eq!(keys.delete_by_pattern("limiter").await.unwrap(), 1);
    assert_eq!(keys.delete_by_pattern("adder").await.unwrap(), 0);
    assert_eq!(left(&observer).await, mine);
    assert_eq!(keys.delete_by_pattern("{mine}:*").await.unwrap(), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_list_of_the_name_is_read_from_its_beginning() {
    let server = server().await;
    let (client, observer) = (client(&server).await, server.observer().await.unwrap());
    let keys = Keys::new(&client);
    let list: List<u64> = List::new(&client, "list");
    for by_its_name in [true, false] {
        list.push_many(&[1, 2, 3]).await.unwrap();
        assert_eq!(list.shared_stream().page(1).try_next().await.unwrap(), Some(1));
        let cursor = "__redisson_list_cursor_{list}";
        assert!(observer.exists(cursor).await.unwrap());
        assert_eq!(objects(&keys).await, ["list"]);
        match by_its_name {
            true => assert_eq!(keys.delete(["list"]).await.unwrap(), 1),
            false => assert!(list.object().delete().await.unwrap()),
        }
        assert_eq!(left(&observer).await, [""; 0]);
    }
}

#[test]
fn every_key_that_the_page_has_leads_to_its_object() {
    let page = include_str!("../../docs/keys.md").lines().filter_map(|line| line.strip_prefix("| "));
    let id = "b8a8d7c6-0f4e-4a7b-9a53-2d7e7a1c9f00";
    let mut seen = 0;
    for row in page {
        let mut columns = row.split(" | ");
        let (names, kind) = (columns.next().unwrap(), columns.next().unwrap());
        // Of an object itself, of a name that the type makes, of parts and of the locks of a map's keys, which are objects themselves; and
        // what Redisson has in a slot of its own.
        let own = ["`name`", "`icr:", "`{name}:<hash>", "`name:{<tag>}`", "`{name}:shards`", "`<name>:"];
        let is_own = own.iter().any(|own| names.starts_with(own));
        if kind.starts_with("channel") || is_own || !names.starts_with('`') {
            continue;
        }
        for name in names.split('`').skip(1).step_by(2).filter(|name| name.contains(['{', '<', '_', ':'])) {
            let key = name.replace("{name}", "{R}").replace("<key of the object>", "redgrid_event:{R}");
            let ids = ["<client id>", "<round>", "<member>", "<id>"];
            let key = ids.into_iter().fold(key, |key, of| key.replace(of, id)).replace("<number>", "7");
            assert!(!key.contains('<'), "{name}");
            let of = belongs_to(key.as_bytes()).map(|(object, _)| object);
            let of = of.or_else(|| may_be_beside(key.as_bytes()).map(|perhaps| perhaps.object));
            let expected = if name == "redgrid_birth" { name } else { "R" };
            assert_eq!(of.as_deref(), Some(expected.as_bytes()), "{name}");
            seen += 1;
        }
    }
    assert!(seen >= 30, "{seen} keys");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_has_no_key_of_its_plain_name_is_found_by_its_name() {
    let server = server().await;
    let (client, observer) = (client(&server).await, server.observer().await.unwrap());
    let keys = Keys::new(&client);
    Event::new(&client, "event").set().await.unwrap();
    assert_eq!((keys.exists(["event"]).await.unwrap(), keys.kind("event").await.unwrap()), (1, Some(Kind::Hash)));
    assert_eq!(keys.kind("nothing").await.unwrap(), None);
    assert_eq!(keys.random().await.unwrap().unwrap().as_str(), Some("event"));
    // What is left of an object is none.
    Event::new(&client, "event").object().delete().await.unwrap();
    observer.cmd(&["SET", "redgrid_wait:{gone}", "1"]).await.unwrap();
    assert_eq!(keys.random().await.unwrap(), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn who_may_not_look_at_others_keys_is_told_all_the_same() {
    let server = RedisServer::builder().user("some", "on >secret ~ok:* ~*{ok:* &* +@all").start().await.unwrap();
    let client = client_with(&server.url_for("some", "secret"), |config| config).await;
    let observer = server.observer().await.unwrap();
    observer.cmd(&["SET", "ok:1", "1"]).await.unwrap();
    observer.cmd(&["SET", "{foreign}:timeout", "1"]).await.unwrap();
    assert_eq!(objects(&Keys::new(&client)).await, ["ok:1", "{foreign}:timeout"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_namespace_is_all_there_is() {
    let server = server().await;
    let observer = server.observer().await.unwrap();
    // Its characters are no pattern.
    let within = client_with(&server.url(), |config| config.namespace("p*[d]").unwrap()).await;
    let without = client(&server).await;
    let (ours, all) = (Keys::new(&within), Keys::new(&without));
    let lock = FairLock::new(&within, "fair").acquire().await.unwrap();
    let other = client_with(&server.url(), |config| config.namespace("p*[d]").unwrap()).await;
    let _waiter = tokio::spawn(FairLock::new(&other, "fair").acquire().wait(SOON).into_future());
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
    for what in [Everything::InThisDatabase, Everything::InAllDatabases] {
        let told = ours.flush(what).await.unwrap_err();
        assert!(matches!(told, KeysError::InvalidArgument { option: "flush", .. }), "{told:?}");
    }
    let told = all.flush(Everything::UnderTheNamespace).await.unwrap_err();
    assert!(matches!(told, KeysError::InvalidArgument { option: "flush", .. }), "{told:?}");
    drop(lock);
    ours.flush(Everything::UnderTheNamespace).await.unwrap();
    let left = left(&observer).await;
    for others in ["a", "b", "p*[d]", "pxd:a", "redisson_lock_queue:{pxd:fair}", "x:p*[d]:a"] {
        assert!(left.contains(&others.to_owned()), "{others}: {left:?}");
    }
    let written_again = |key: &&String| key.contains("p*[d]:fair");
    assert_eq!(left.iter().filter(|key| !written_again(key)).count(), 6, "{left:?}");
    all.flush(Everything::InThisDatabase).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn patterns_and_types_say_what_is_told() {
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
        assert!(matches!(told, KeysError::InvalidArgument { option: "pattern", .. }), "{told:?}");
        let told = keys.delete_by_pattern(open).await.unwrap_err();
        assert!(matches!(told, KeysError::InvalidArgument { option: "pattern", .. }), "{told:?}");
    }
    let told = keys.all().of_kind(Kind::Other).try_next().await.unwrap_err();
    assert!(matches!(told, KeysError::InvalidArgument { option: "kind", .. }), "{told:?}");
    assert_eq!(keys.kind("cart:list").await.unwrap(), Some(Kind::List));
    assert_eq!((keys.kind("nothing").await.unwrap(), keys.kind("cart:map").await.unwrap()), (None, Some(Kind::Hash)));
    // What is no name can be dealt with as it was found.
    let odd: Vec<Key> = keys.objects().matching(Bytes::from_static(b"*\xff")).try_collect().await.unwrap();
    assert!(odd[0].name().is_err() && odd[0].as_str().is_none() && odd[0].as_bytes() == b"cart:\xff");
    assert_eq!((keys.exists(&odd).await.unwrap(), keys.delete(&odd).await.unwrap()), (1, 1));
    assert_eq!(keys.delete_by_pattern("cart:*").await.unwrap(), 5);
    assert_eq!(left(&observer).await, ["a*", "ab"]);
    assert!(matches!(keys.delete([""]).await.unwrap_err(), KeysError::InvalidName(_)));
}

#[tokio::test(flavor = "multi_thread")]
async fn many_live_and_are_deleted_together() {
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
        assert!(matches!(&told, KeysError::InvalidArgument { option: of, .. } if *of == option), "{told:?}");
    }
    let told = keys.expire_at(SystemTime::UNIX_EPOCH - HOUR, &names).await.unwrap_err();
    assert!(matches!(told, KeysError::InvalidArgument { .. }), "{told:?}");
    assert_eq!(keys.expire_at(SystemTime::UNIX_EPOCH, &names[..1]).await.unwrap(), 1);
    assert_eq!(keys.delete(all).await.unwrap(), 299);
    assert!(left(&observer).await.is_empty());
    assert_eq!(keys.delete(Vec::<String>::new()).await.unwrap(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn another_name_is_for_all_that_belongs_to_it() {
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
    assert!(observer.exists("{bucket}:value").await.unwrap(), "it is somebody's own");
    assert!(matches!(keys.rename("bucket", "x").await.unwrap_err(), KeysError::Object(_)));
    assert_eq!(keys.slot("a").unwrap(), 0);
    drop(permit);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_done_is_told_name_by_name() {
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
    // Names go in parts, and the last one has what was denied.
    assert!(*done > 0 && failed.len() as u64 + done == 101, "{told:?}");
    assert!(failed.iter().any(|not| not.key.to_string() == "zz"));
    assert!(failed.iter().all(|not| not.source.code() == Some(Code::NoPermission)), "{told:?}");
    assert_eq!(keys.count().await.unwrap(), 100 - done);
    assert!(told.to_string().contains("objects were dealt with"), "{told}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deletion_whose_answer_is_lost_is_unknown_and_made_once() {
    let server = server().await;
    let proxy = Proxy::to(&server).await.unwrap();
    let observer = server.observer().await.unwrap();
    let client = client_with(&server.url_via(proxy.addr()), |config| config.timeout(Duration::from_secs(2))).await;
    let keys = Keys::new(&client);
    observer.cmd(&["SET", "a", "1"]).await.unwrap();
    // So that the next one goes by its hash.
    assert_eq!(keys.delete(["other"]).await.unwrap(), 0);
    proxy.next(1, "EVALSHA", Action::SwallowReply);
    let told = keys.delete(["a"]).await.unwrap_err();
    let KeysError::Partial { done: 0, failed } = &told else { panic!("{told:?}") };
    assert!(matches!(failed[0].source, ServerError::Unknown { .. }), "{}", in_full(&failed[0]));
    assert!(!observer.exists("a").await.unwrap());
    // What only reads is asked again.
    observer.cmd(&["SET", "b", "1"]).await.unwrap();
    assert_eq!(keys.exists(["a"]).await.unwrap(), 0);
    for command in ["EVALSHA", "DBSIZE", "SCAN"] {
        proxy.next(1, command, Action::SwallowReply);
    }
    assert_eq!((keys.exists(["b"]).await.unwrap(), keys.count().await.unwrap()), (1, 1));
    assert_eq!(objects(&keys).await, ["b"]);
    proxy.next(1, "FLUSHDB", Action::SwallowReply);
    let told = keys.flush(Everything::InThisDatabase).await.unwrap_err();
    let KeysError::NotEverywhere { done, failed } = &told else { panic!("{told:?}") };
    assert!(done.is_empty() && matches!(failed[0].1, ServerError::Unknown { .. }), "{told:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_has_a_page_at_a_time_and_loses_nothing_when_it_is_dropped_at_an_await() {
    let server = server().await;
    let (client, observer) = (client(&server).await, server.observer().await.unwrap());
    fill(&observer, 5_000).await;
    let mut stream = Keys::new(&client).objects().page(100);
    let mut found = BTreeSet::new();
    loop {
        // Polled once and dropped, again and again.
        let told = match stream.try_next().now_or_never() {
            Some(told) => told.unwrap(),
            None => stream.try_next().await.unwrap(),
        };
        match told {
            Some(key) => found.insert(key),
            None => break,
        };
    }
    assert_eq!(found.len(), 5_000);
    assert!(stream.next().await.is_none(), "it is over");
    let info: String = observer.query(&["INFO", "commandstats"]).await.unwrap();
    let scans = info.lines().find_map(|line| line.strip_prefix("cmdstat_scan:calls=")).unwrap();
    let scans: u64 = scans.split(',').next().unwrap().parse().unwrap();
    assert!((30..=200).contains(&scans), "{scans} pages");
}

async fn fill(observer: &Observer, keys: usize) {
    let script = "for i = 1, tonumber(ARGV[1]) do redis.call('SET', 'k:' .. i, i) end";
    observer.cmd(&["EVAL", script, "0", &keys.to_string()]).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_was_restarted_is_looked_through_anew() {
    let server = RedisServer::builder().append_only(true).start().await.unwrap();
    let (client, observer) = (client(&server).await, server.observer().await.unwrap());
    fill(&observer, 3_000).await;
    let mut stream = Keys::new(&client).objects().page(50);
    let mut found = BTreeSet::new();
    while found.len() < 1_000 {
        found.insert(stream.try_next().await.unwrap().unwrap());
    }
    server.kill().await.unwrap();
    server.restart_with_data().await.unwrap();
    let mut told = found.len();
    while let Some(key) = stream.try_next().await.unwrap() {
        found.insert(key);
        told += 1;
    }
    assert_eq!(found.len(), 3_000);
    assert!(told >= 3_900, "from its beginning again: {told}");
}

#[tokio::test(flavor = "multi_thread")]
async fn everything_goes_by_a_pattern_in_bounded_parts() {
    let server = server().await;
    let (client, observer) = (client(&server).await, server.observer().await.unwrap());
    let keys = Keys::new(&client);
    assert_eq!((keys.random().await.unwrap(), keys.count().await.unwrap()), (None, 0));
    fill(&observer, 20_000).await;
    assert_eq!(keys.count().await.unwrap(), 20_000);
    assert!(keys.random().await.unwrap().unwrap().as_str().unwrap().starts_with("k:"));
    assert_eq!(keys.delete_by_pattern("k:*").await.unwrap(), 20_000);
    assert_eq!(keys.count().await.unwrap(), 0);
    // Only what outlives its object: it is nobody to be chosen.
    observer.cmd(&["SET", "redisson_lock_token:{a}", "1"]).await.unwrap();
    assert_eq!(keys.random().await.unwrap(), None);
    observer.cmd(&["SELECT", "1"]).await.unwrap();
    observer.cmd(&["SET", "elsewhere", "1"]).await.unwrap();
    keys.flush(Everything::InThisDatabase).await.unwrap();
    assert!(observer.exists("elsewhere").await.unwrap());
    keys.flush(Everything::InAllDatabases).await.unwrap();
    assert!(!observer.exists("elsewhere").await.unwrap());
    let lock = Lock::new(&client, "lock").acquire().await.unwrap();
    assert_eq!(keys.delete([Name::new("lock").unwrap()]).await.unwrap(), 1);
    tokio::time::timeout(SOON * 2, lock.lost()).await.expect("it is told");
}

#[tokio::test(flavor = "multi_thread")]
async fn every_primary_is_asked_and_one_that_is_gone_is_told() {
    let server = server().await;
    let client = client_with(&server.url(), |config| config.timeout(Duration::from_millis(300)).retries(1)).await;
    let primaries = client.primaries().await.unwrap();
    assert_eq!((primaries.len(), client.is_primary(&primaries[0])), (1, true));
    let ping = || Request::command("PING").idempotent();
    assert_eq!(client.run_on::<String>(&primaries[0], ping()).await.unwrap(), "PONG");
    let told = client.run_on_primaries::<String>(ping()).await.unwrap();
    assert!(matches!(&told[..], [(node, Ok(pong))] if node == primaries[0].id() && pong == "PONG"), "{told:?}");
    let told = client.run_on::<()>(&primaries[0], Request::command("NONSENSE")).await.unwrap_err();
    assert!(matches!(told, ServerError::Refused { .. }), "{told:?}");
    server.kill().await.unwrap();
    let told = client.run_on::<()>(&primaries[0], ping()).await.unwrap_err();
    assert!(!matches!(told, ServerError::Refused { .. }), "{told:?}");
    let told = Keys::new(&client).objects().try_next().await.unwrap_err();
    assert!(matches!(told, KeysError::Unavailable { .. }), "{told:?}");
    client.shutdown(SOON).await.unwrap();
    let told = client.run_on::<()>(&primaries[0], ping()).await.unwrap_err();
    assert!(matches!(told, ServerError::NotSent { .. }), "{told:?}");
    // Who asks already does not go on for as long as he else would.
    let server = redgrid_tests::server().await;
    let patient = client_with(&server.url(), |config| config.timeout(HOUR / 12).retries(10)).await;
    let primary = patient.primaries().await.unwrap()[0].clone();
    server.kill().await.unwrap();
    wait_until(SOON, async || primary.epoch().is_none()).await;
    let asked = tokio::spawn({
        let patient = patient.clone();
        async move { patient.run_on::<()>(&primary, ping()).await }
    });
    tokio::task::yield_now().await;
    patient.shutdown(SOON).await.unwrap();
    let told = tokio::time::timeout(SOON, asked).await.expect("it ends").unwrap().unwrap_err();
    assert!(!matches!(told, ServerError::Refused { .. }), "{told:?}");
}
