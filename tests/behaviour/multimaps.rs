//! Maps with several values per key.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use futures_util::{StreamExt, TryStreamExt};
use redgrid_core::{Code, Failure, ServerError};
use redgrid_multimap::codecs::Json;
use redgrid_multimap::{Kind, ListMultimap, Multimap, ObjectError, SetMultimap};
use redgrid_testkit::{Action, Observer, Proxy};
use redgrid_tests::{client, client_with, server, sha};

const INSERT: &str = concat!(
    include_str!("../../crates/redgrid-multimap/src/scripts/key_prelude.lua"),
    include_str!("../../crates/redgrid-multimap/src/scripts/insert.lua")
);

fn sorted<T: Ord>(mut values: Vec<T>) -> Vec<T> {
    values.sort();
    values
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_has_a_set_of_values() {
    let server = server().await;
    let (client, observer) = (client(&server).await, server.observer().await.unwrap());
    let map: SetMultimap<String, u32> = SetMultimap::new(&client, "m");
    assert!(map.is_empty().await.unwrap() && map.insert("a", &1).await.unwrap() && !map.insert("a", &1).await.unwrap());
    assert_eq!(map.insert_many("a", &[1, 2, 3, 2]).await.unwrap(), 2);
    assert_eq!((map.insert_many("b", &[1]).await.unwrap(), map.insert_many("c", &[]).await.unwrap()), (1, 0));
    assert_eq!((map.key_len().await.unwrap(), map.len().await.unwrap(), map.values_len("a").await.unwrap()), (2, 4, 3));
    assert!(map.contains_key("a").await.unwrap() && !map.contains_key("c").await.unwrap());
    assert!(map.contains_entry("a", &3).await.unwrap() && !map.contains_entry("b", &3).await.unwrap());
    assert!(map.contains_value(&3).await.unwrap() && !map.contains_value(&4).await.unwrap());
    assert_eq!((sorted(map.get_all("a").await.unwrap()), map.get_all("c").await.unwrap()), (vec![1, 2, 3], vec![]));
    assert_eq!(sorted(map.read_all_keys().await.unwrap()), ["a", "b"]);
    assert!(map.remove("a", &1).await.unwrap() && !map.remove("a", &1).await.unwrap());
    assert!(map.remove("b", &1).await.unwrap() && !map.contains_key("b").await.unwrap());
    assert_eq!((map.key_len().await.unwrap(), map.get_all("b").await.unwrap()), (1, vec![]));
    assert_eq!(sorted(map.replace_all("a", &[7, 8]).await.unwrap()), [2, 3]);
    assert!(map.replace_all("d", &[9]).await.unwrap().is_empty());
    map.set_all("d", &[10, 11]).await.unwrap();
    assert_eq!(sorted(map.remove_all("a").await.unwrap()), [7, 8]);
    map.set_all("d", &[]).await.unwrap();
    assert!(map.remove_all("d").await.unwrap().is_empty());
    map.insert("a", &1).await.unwrap();
    map.insert("b", &2).await.unwrap();
    assert_eq!(map.remove_keys(["a", "x", "b"]).await.unwrap(), 2);
    assert_eq!(observer.query::<u64>(&["DBSIZE"]).await.unwrap(), 0, "nothing is left");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_has_a_list_of_values() {
    let server = server().await;
    let (client, observer) = (client(&server).await, server.observer().await.unwrap());
    let map: ListMultimap<String, u32> = ListMultimap::new(&client, "m");
    assert!(map.insert("a", &1).await.unwrap() && map.insert("a", &1).await.unwrap());
    assert_eq!(map.insert_many("a", &[3, 2, 1]).await.unwrap(), 3);
    assert_eq!((map.get_all("a").await.unwrap(), map.len().await.unwrap()), (vec![1, 1, 3, 2, 1], 5));
    assert!(map.contains_entry("a", &2).await.unwrap() && !map.contains_entry("a", &4).await.unwrap());
    assert!(map.contains_value(&1).await.unwrap() && !map.contains_value(&4).await.unwrap());
    assert!(map.remove("a", &1).await.unwrap() && !map.remove("a", &5).await.unwrap());
    assert_eq!(map.get_all("a").await.unwrap(), [1, 3, 2, 1]);
    let many: Vec<u32> = (0..12_000).collect();
    assert_eq!(map.replace_all("a", &many).await.unwrap(), [1, 3, 2, 1]);
    assert_eq!(map.get_all("a").await.unwrap(), many);
    assert_eq!(map.remove_all("a").await.unwrap(), many);
    assert_eq!(observer.query::<u64>(&["DBSIZE"]).await.unwrap(), 0, "nothing is left");
    let beyond: Vec<u32> = (0..100_001).collect();
    assert!(map.set_all("a", &beyond).await.unwrap_err().to_string().contains("up to 100000 at once, got 100001"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_large_multimap_is_streamed_and_cleared_page_by_page() {
    let server = server().await;
    let (client, observer) = (client(&server).await, server.observer().await.unwrap());
    let map: SetMultimap<u32, u32> = SetMultimap::new(&client, "large");
    let mut all = BTreeSet::new();
    for key in 0..700 {
        map.insert_many(&key, &[key, key + 1]).await.unwrap();
        all.extend([(key, key), (key, key + 1)]);
    }
    assert_eq!((map.len().await.unwrap(), map.key_len().await.unwrap()), (1400, 700));
    assert_eq!(map.keys().try_collect::<BTreeSet<u32>>().await.unwrap(), (0..700).collect());
    assert_eq!(map.entries().try_collect::<BTreeSet<_>>().await.unwrap(), all);
    assert_eq!(map.values().try_collect::<Vec<_>>().await.unwrap().len(), 1400);
    assert!(map.contains_value(&700).await.unwrap() && !map.contains_value(&701).await.unwrap());
    assert_eq!(tokio::spawn(map.entries().take(3).count()).await.unwrap(), 3);
    // One key gets a value that cannot be decoded.
    let one: Vec<String> = observer.query(&["HRANDFIELD", "large", "1", "WITHVALUES"]).await.unwrap();
    observer.cmd(&["SADD", &format!("{{large}}:{}", one[1]), "{}"]).await.unwrap();
    let (good, bad): (Vec<_>, Vec<_>) = map.entries().collect::<Vec<_>>().await.into_iter().partition(Result::is_ok);
    assert_eq!((good.len(), bad.len()), (1400, 1));
    assert_eq!(map.clear().await.unwrap(), 700);
    assert_eq!(observer.query::<u64>(&["DBSIZE"]).await.unwrap(), 0, "nothing is left");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_write_leaves_no_partial_change() {
    let server = server().await;
    let proxy = Proxy::to(&server).await.unwrap();
    let url = server.url_via(proxy.addr());
    let (client, observer) = (client(&server).await, server.observer().await.unwrap());
    let map: SetMultimap<String, u32> = SetMultimap::new(&client, "m");
    map.insert("a", &1).await.unwrap();
    let hash: String = observer.query(&["HGET", "m", "\"a\""]).await.unwrap();
    let values = format!("{{m}}:{hash}");
    observer.cmd(&["DEL", "m", &values]).await.unwrap();
    observer.cmd(&["SET", &values, "x"]).await.unwrap();
    let wrong = |told: &ObjectError| {
        matches!(
            told,
            ObjectError::Failed(Failure::Refused { source: ServerError::Refused { code: Code::WrongType, .. }, .. })
        )
    };
    for told in
        [map.insert("a", &1).await.map(drop), map.set_all("a", &[1]).await, map.replace_all("a", &[1]).await.map(drop)]
    {
        assert!(wrong(told.as_ref().unwrap_err()), "{told:?}");
    }
    assert!(!observer.exists("m").await.unwrap(), "the map does not contain the key");
    observer.cmd(&["DEL", &values]).await.unwrap();
    // A user without permission to write values leaves no partial change either.
    observer.cmd(&["ACL", "SETUSER", "half", "on", ">secret", "~*", "&*", "+@all", "-sadd"]).await.unwrap();
    let half = client_with(&url, |config| config.credentials(Some("half"), "secret")).await;
    let theirs: SetMultimap<String, u32> = SetMultimap::new(&half, "m");
    assert!(matches!(theirs.insert("a", &1).await, Err(ObjectError::Failed(Failure::Refused { .. }))));
    assert!(matches!(theirs.set_all("a", &[1]).await, Err(ObjectError::Failed(Failure::Refused { .. }))));
    assert!(!observer.exists("m").await.unwrap());
    map.insert("a", &1).await.unwrap();
    assert!(matches!(theirs.set_all("a", &[2]).await, Err(ObjectError::Failed(Failure::Refused { .. }))));
    assert_eq!(map.get_all("a").await.unwrap(), [1]);
    observer.cmd(&["SET", "text", "x"]).await.unwrap();
    let text: SetMultimap<String, u32> = SetMultimap::new(&client, "text");
    for told in [text.insert("a", &1).await.map(drop), text.len().await.map(drop), text.clear().await.map(drop)] {
        assert!(wrong(told.as_ref().unwrap_err()), "{told:?}");
    }
    // A change with a lost reply is not executed a second time.
    let list: ListMultimap<String, u32> = ListMultimap::new(&client, "list");
    list.insert("a", &1).await.unwrap();
    // The timeout is short. It affects only the insert below, which is this client's only change.
    let hasty = client_with(&url, |config| config.response_timeout(Duration::from_millis(500))).await;
    let hasty: ListMultimap<String, u32> = ListMultimap::new(&hasty, "list");
    proxy.next(1, sha(INSERT), Action::SwallowReply);
    assert!(matches!(hasty.insert("a", &2).await, Err(ObjectError::Failed(Failure::OutcomeUnknown { .. }))));
    assert_eq!(list.get_all("a").await.unwrap(), [1, 2]);
}

/// All state of a map: the keys of the server, the keys of the map, and their values in order.
async fn all_of<Y: Kind>(
    observer: &Observer,
    map: &Multimap<String, u32, Json, Json, Y>,
) -> (Vec<String>, Vec<String>, BTreeMap<String, Vec<u32>>) {
    let keys = sorted(map.read_all_keys().await.unwrap());
    let mut values = BTreeMap::new();
    for key in ["a", "b", "c"] {
        let is_set = std::any::type_name::<Y>().ends_with("Sets");
        let found = map.get_all(key).await.unwrap();
        values.insert(key.to_owned(), if is_set { sorted(found) } else { found });
    }
    (sorted(observer.query::<Vec<String>>(&["KEYS", "*"]).await.unwrap()), keys, values)
}

/// Returns the calls that were rejected. Checks that these changed nothing.
async fn refused_without<Y: Kind>(denied: &str) -> Vec<&'static str> {
    let server = server().await;
    let (client, observer) = (client(&server).await, server.observer().await.unwrap());
    let map: Multimap<String, u32, Json, Json, Y> = Multimap::new(&client, "m");
    observer.cmd(&["ACL", "SETUSER", "half", "on", ">secret", "~*", "&*", "+@all", denied]).await.unwrap();
    let half = client_with(&server.url(), |config| config.credentials(Some("half"), "secret")).await;
    let theirs: Multimap<String, u32, Json, Json, Y> = Multimap::new(&half, "m");
    let calls =
        ["insert", "new", "remove", "last", "remove_keys", "set_all", "set_new", "replace_all", "remove_all", "clear"];
    let mut refused = Vec::new();
    for call in calls {
        observer.cmd(&["FLUSHDB"]).await.unwrap();
        map.insert_many("a", &[1, 2]).await.unwrap();
        map.insert("b", &3).await.unwrap();
        let before = all_of(&observer, &map).await;
        let told = match call {
            "insert" => theirs.insert("a", &7).await.map(drop),
            "new" => theirs.insert("c", &7).await.map(drop),
            "remove" => theirs.remove("a", &1).await.map(drop),
            "last" => theirs.remove("b", &3).await.map(drop),
            "remove_keys" => theirs.remove_keys(["a"]).await.map(drop),
            "set_all" => theirs.set_all("a", &[8, 9]).await,
            "set_new" => theirs.set_all("c", &[8, 9]).await,
            "replace_all" => theirs.replace_all("a", &[8, 1]).await.map(drop),
            "remove_all" => theirs.remove_all("a").await.map(drop),
            _ => theirs.clear().await.map(drop),
        };
        let after = all_of(&observer, &map).await;
        match told {
            Ok(()) => assert_eq!(after.0.len(), after.1.len() + usize::from(!after.1.is_empty()), "{call} {denied}"),
            Err(ObjectError::Failed(Failure::Refused { .. })) => {
                assert_eq!(after, before, "{call} {denied}");
                refused.push(call);
            }
            Err(other) => panic!("{call} {denied}: {other:?}"),
        }
    }
    refused
}

#[tokio::test(flavor = "multi_thread")]
async fn without_permission_for_all_of_a_change_nothing_is_changed() {
    use redgrid_multimap::{Lists, Sets};

    let removals = ["last", "remove_keys", "remove_all", "clear"];
    assert_eq!(refused_without::<Sets>("-hdel").await, removals);
    assert_eq!(refused_without::<Lists>("-hdel").await, removals);
    let replaced = ["remove_keys", "set_all", "replace_all", "remove_all", "clear"];
    assert_eq!(refused_without::<Sets>("-unlink").await, replaced);
    assert_eq!(refused_without::<Lists>("-unlink").await, replaced);
    let writes = ["insert", "new", "set_all", "set_new", "replace_all"];
    assert_eq!(refused_without::<Sets>("-sadd").await, writes);
    assert_eq!(refused_without::<Lists>("-rpush").await, writes);
    assert_eq!(refused_without::<Sets>("-srem").await, ["remove", "last"]);
    assert_eq!(refused_without::<Lists>("-lrem").await, ["remove", "last"]);
}
