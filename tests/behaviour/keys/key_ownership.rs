//! Companion keys of objects.

use redgrid_barrier::Event;
use redgrid_core::object::key_ownership::{owner_of, possible_owner};
use redgrid_keys::{Keys, Kind};
use redgrid_list::List;
use redgrid_tests::{client, server};

use super::{ALL, left, objects, one_of_each, outlives};

#[tokio::test(flavor = "multi_thread")]
async fn companion_keys_are_deleted_with_their_object() {
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
        // The waiters of the fair lock and of the barrier may have created their keys again. Keys
        // of the client itself expire.
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
async fn a_users_own_key_is_not_a_companion() {
    let server = server().await;
    let (client, observer) = (client(&server).await, server.observer().await.unwrap());
    let keys = Keys::new(&client);
    let own = ["user", "{user}:timeout", "{user}:value", "{user}:permits", "{user}:allocation", "a{user}:value"];
    for key in own {
        observer.cmd(&["SET", key, "text"]).await.unwrap();
    }
    // A key named like a companion of a limiter, beside a hash that is not a limiter.
    observer.cmd(&["HSET", "hash", "rate", "1"]).await.unwrap();
    observer.cmd(&["SET", "{hash}:value", "1"]).await.unwrap();
    assert_eq!(objects(&keys).await.len(), 8);
    // A user's queue beside a text, which is not a semaphore.
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
async fn a_key_with_an_id_is_a_companion_if_its_object_exists() {
    let server = server().await;
    let (client, observer) = (client(&server).await, server.observer().await.unwrap());
    let keys = Keys::new(&client);
    let (id, round) = ("b8a8d7c6-0f4e-4a7b-9a53-2d7e7a1c9f00", "0123456789abcdef0123456789abcdef");
    let named = |name: &str| {
        let parts = [format!("value:{id}"), format!("{id}:counter"), format!("{round}:semaphore")];
        parts.map(|part| format!("{{{name}}}:{part}"))
    };
    // Keys of users; and similar keys that belong to a limiter and to a sum request of an adder.
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
fn every_documented_key_leads_to_its_object() {
    let page = include_str!("../../../docs/internals/keys.md").lines().filter_map(|line| line.strip_prefix("| "));
    let id = "b8a8d7c6-0f4e-4a7b-9a53-2d7e7a1c9f00";
    let mut seen = 0;
    for row in page {
        let mut columns = row.split(" | ");
        let (names, kind) = (columns.next().unwrap(), columns.next().unwrap());
        // The page also lists keys that are excluded here: keys of objects themselves (the name,
        // names that the type generates, shards, locks of map keys, the record of actions), and
        // Redisson's keys in other slots.
        let own =
            ["`name`", "`redgrid_audit`", "`icr:", "`{name}:<hash>", "`name:{<tag>}`", "`{name}:shards`", "`<name>:"];
        let is_own = own.iter().any(|own| names.starts_with(own));
        if kind.starts_with("channel") || is_own || !names.starts_with('`') {
            continue;
        }
        for name in names.split('`').skip(1).step_by(2).filter(|name| name.contains(['{', '<', '_', ':'])) {
            let key = name.replace("{name}", "{R}").replace("<key of the object>", "redgrid_event:{R}");
            let ids = ["<client id>", "<round>", "<member>", "<id>"];
            let key = ids.into_iter().fold(key, |key, of| key.replace(of, id)).replace("<number>", "7");
            assert!(!key.contains('<'), "{name}");
            let of = owner_of(key.as_bytes()).map(|(object, _)| object);
            let of = of.or_else(|| possible_owner(key.as_bytes()).map(|candidate| candidate.object));
            let expected = if name == "redgrid_birth" { name } else { "R" };
            assert_eq!(of.as_deref(), Some(expected.as_bytes()), "{name}");
            seen += 1;
        }
    }
    assert!(seen >= 30, "{seen} keys");
}

#[tokio::test(flavor = "multi_thread")]
async fn objects_without_a_key_of_their_plain_name_are_found() {
    let server = server().await;
    let (client, observer) = (client(&server).await, server.observer().await.unwrap());
    let keys = Keys::new(&client);
    Event::new(&client, "event").set().await.unwrap();
    assert_eq!((keys.exists(["event"]).await.unwrap(), keys.kind("event").await.unwrap()), (1, Some(Kind::Hash)));
    assert_eq!(keys.kind("nothing").await.unwrap(), None);
    assert_eq!(keys.random().await.unwrap().unwrap().as_str(), Some("event"));
    // The remaining companion keys of a deleted object are not an object.
    Event::new(&client, "event").object().delete().await.unwrap();
    observer.cmd(&["SET", "redgrid_wait:{gone}", "1"]).await.unwrap();
    assert_eq!(keys.random().await.unwrap(), None);
}
