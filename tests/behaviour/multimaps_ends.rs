//! Values and lifetimes of the keys of a multimap follow the map. A user without permission for
//! that changes nothing.

use std::time::Duration;

use redgrid_core::{Client, Failure};
use redgrid_multimap::codecs::Json;
use redgrid_multimap::{Expiring, Kind, Lifetime, Lists, Multimap, ObjectError, SetMultimap, SetMultimapCache, Sets};
use redgrid_testkit::redis::Value;
use redgrid_testkit::{Observer, RedisServer};
use redgrid_tests::{client, client_with, server};

const HOUR: Duration = Duration::from_secs(3600);
const ENDS: &str = "{m}:redisson_set_multimap_ttl";
const REMOVE: &str = concat!(
    include_str!("../../crates/redgrid-multimap/src/scripts/key_prelude.lua"),
    include_str!("../../crates/redgrid-multimap/src/scripts/remove.lua")
);
const LIVE: &str = concat!(
    include_str!("../../crates/redgrid-multimap/src/scripts/whole_prelude.lua"),
    include_str!("../../crates/redgrid-multimap/src/scripts/expire_whole.lua")
);

type Map<Y> = Multimap<String, u32, Json, Json, Y>;

async fn ready() -> (RedisServer, Client, Observer) {
    let server = server().await;
    let (client, observer) = (client(&server).await, server.observer().await.unwrap());
    (server, client, observer)
}

/// The lifetimes of all keys of the server, in milliseconds, by name.
async fn lives(observer: &Observer) -> Vec<(String, i64)> {
    let mut all = Vec::new();
    for key in observer.query::<Vec<String>>(&["KEYS", "*"]).await.unwrap() {
        let left = observer.query(&["PTTL", &key]).await.unwrap();
        all.push((key, left));
    }
    all
}

async fn as_long_as_its_map<Y: Kind>(client: &Client, observer: &Observer) {
    let map: Map<Y> = Multimap::new(client, "m");
    for (done, endless) in [
        (vec!["DEL", "m"], true),
        (vec!["PERSIST", "m"], true),
        (vec!["PEXPIRE", "m", "9000000"], false),
        (vec!["PEXPIRE", "m", "1800000"], false),
    ] {
        for replaces in [false, true] {
            observer.cmd(&["FLUSHDB"]).await.unwrap();
            map.insert("k", &1).await.unwrap();
            assert!(map.object().expire_in(HOUR).await.unwrap());
            observer.cmd(&done).await.unwrap();
            match replaces {
                true => map.set_all("k", &[2]).await.unwrap(),
                false => assert!(map.insert("k", &2).await.unwrap()),
            }
            let all = lives(observer).await;
            let whole = all.iter().find(|(key, _)| key == "m").unwrap().1;
            assert_eq!(whole == -1, endless, "{done:?}");
            let near = |left: i64| if endless { left == -1 } else { (left - whole).abs() < 600_000 };
            let values = all.iter().filter(|(key, _)| key != ENDS && !key.contains("list_multimap"));
            assert!(values.clone().count() == 2 && values.clone().all(|(_, left)| near(*left)), "{done:?}: {all:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn inserted_values_live_as_long_as_their_map() {
    let (_server, client, observer) = ready().await;
    as_long_as_its_map::<Sets>(&client, &observer).await;
    as_long_as_its_map::<Lists>(&client, &observer).await;
    as_long_as_its_map::<Expiring<Sets>>(&client, &observer).await;
    as_long_as_its_map::<Expiring<Lists>>(&client, &observer).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn stored_lifetimes_of_keys_last_as_long_as_their_map() {
    let (_server, client, observer) = ready().await;
    let map = SetMultimapCache::<String, u32>::new(&client, "m");
    for alone in ["DEL", "PERSIST"] {
        map.insert("a", &1).await.unwrap();
        map.expire_key("a", HOUR).await.unwrap();
        assert!(map.object().expire_in(HOUR).await.unwrap());
        assert!(observer.query::<i64>(&["PTTL", ENDS]).await.unwrap() > 0);
        observer.cmd(&[alone, "m"]).await.unwrap();
        map.insert("k", &1).await.unwrap();
        assert!(map.expire_key("k", HOUR * 2).await.unwrap());
        assert_eq!(observer.query::<i64>(&["PTTL", ENDS]).await.unwrap(), -1, "{alone}: it expires too early");
        assert!(map.object().expire_in(HOUR).await.unwrap() && map.expire_key("k", HOUR * 2).await.unwrap());
        assert!(observer.query::<i64>(&["PTTL", ENDS]).await.unwrap() > 0, "{alone}");
        map.clear().await.unwrap();
    }
}

async fn reads_published_permissions(observer: &Observer) -> bool {
    observer.query::<u64>(&["EVAL", "return redis.acl_check_cmd and 1 or 0", "0"]).await.unwrap() == 1
}

/// Returns the changes that are refused to a user without this command. Checks that they change
/// nothing.
async fn refused_without<Y: Kind>(denied: &str, has_an_end: bool) -> Vec<&'static str> {
    let (server, client, observer) = ready().await;
    let map: Map<Y> = Multimap::new(&client, "m");
    observer.cmd(&["ACL", "SETUSER", "half", "on", ">secret", "~*", "&*", "+@all", denied]).await.unwrap();
    let half = client_with(&server.url(), |config| config.credentials(Some("half"), "secret")).await;
    let theirs: Map<Y> = Multimap::new(&half, "m");
    let mut refused = Vec::new();
    for call in ["insert", "new", "set_all", "replace_all", "remove", "remove_all"] {
        observer.cmd(&["FLUSHDB"]).await.unwrap();
        map.insert_many("a", &[1, 2]).await.unwrap();
        if has_an_end {
            assert!(map.object().expire_in(HOUR).await.unwrap());
        }
        let before = observer.query::<u64>(&["DBSIZE"]).await.unwrap();
        let told = match call {
            "insert" => theirs.insert("a", &7).await.map(drop),
            "new" => theirs.insert("b", &7).await.map(drop),
            "set_all" => theirs.set_all("a", &[8]).await,
            "replace_all" => theirs.replace_all("b", &[8]).await.map(drop),
            "remove" => theirs.remove("a", &1).await.map(drop),
            _ => theirs.remove_all("a").await.map(drop),
        };
        match told {
            Ok(()) => {}
            Err(ObjectError::Failed(Failure::Refused { .. })) => {
                refused.push(call);
                let mut all = map.get_all("a").await.unwrap();
                all.sort_unstable();
                let now = observer.query::<u64>(&["DBSIZE"]).await.unwrap();
                assert_eq!((all, map.key_len().await.unwrap(), now), (vec![1, 2], 1, before), "{call} {denied}");
            }
            Err(other) => panic!("{call} {denied}: {other:?}"),
        }
    }
    refused
}

#[tokio::test(flavor = "multi_thread")]
async fn without_permission_for_lifetimes_no_values_are_added() {
    let (_server, _client, observer) = ready().await;
    let adds = ["insert", "new", "set_all", "replace_all"];
    // On every server, the change is rejected before its first write.
    assert_eq!(refused_without::<Sets>("-pttl", false).await, adds);
    assert_eq!(refused_without::<Lists>("-pttl", false).await, adds);
    if !reads_published_permissions(&observer).await {
        // A script cannot query the permissions of its user: docs/operating/acl.md describes the
        // consequences.
        return;
    }
    assert_eq!(refused_without::<Sets>("-pexpire", false).await, [""; 0]);
    assert_eq!(refused_without::<Sets>("-pexpire", true).await, adds);
    assert_eq!(refused_without::<Lists>("-pexpire", true).await, adds);
    assert_eq!(refused_without::<Expiring<Sets>>("-pttl", false).await.len(), 6);
    assert_eq!(refused_without::<Expiring<Lists>>("-pexpire", true).await.len(), 6);
}

/// Runs a script as if the server supported lifetimes of fields. `HPTTL` replies `hpttl`, and the
/// user may not run the command `denied`.
async fn as_if(observer: &Observer, script: &str, hpttl: &str, denied: &str, args: &[&str]) -> Result<Value, String> {
    let shim = format!(
        "local server = redis
         local function told(ask, ...)
           if ({{...}})[1] == 'HPTTL' then return {hpttl} end
           if ({{...}})[1] == '{denied}' then return {{err = 'NOPERM ' .. '{denied}'}} end
           return ask(...)
         end
         local redis = {{error_reply = server.error_reply,
           call = function(...) return told(server.call, ...) end, pcall = function(...) return told(server.pcall, ...) end,
           acl_check_cmd = function(name) return name ~= '{denied}' end}}
         "
    );
    let words = ["EVAL".to_owned(), shim + script].into_iter();
    let command: Vec<String> = words.chain(args.iter().map(|word| (*word).to_owned())).collect();
    observer.cmd(&command).await.map_err(|error| error.to_string())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_removal_that_would_end_the_lifetime_of_a_field_is_refused_first() {
    let (_server, _client, observer) = ready().await;
    observer.cmd(&["HSET", "m", "k", "h"]).await.unwrap();
    for (add, len, remove) in [("SADD", "SCARD", "SREM"), ("RPUSH", "LLEN", "LREM")] {
        observer.cmd(&["DEL", "{m}:h"]).await.unwrap();
        observer.cmd(&[add, "{m}:h", "1"]).await.unwrap();
        // If the removal were executed and reverted, the field would lose its lifetime, which is
        // simulated here, and its value would be `another`.
        let args = ["2", "m", "{m}:h", "native", "k", "another", len, remove, "1"];
        let told = as_if(&observer, REMOVE, "{3600000}", remove, &args).await.unwrap_err();
        assert!(told.contains("nothing is changed"), "{remove}: {told}");
        assert_eq!(observer.query::<String>(&["HGET", "m", "k"]).await.unwrap(), "h", "{remove}: not taken back");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn without_permission_for_field_lifetimes_the_map_has_no_end() {
    let (_server, _client, observer) = ready().await;
    observer.cmd(&["HSET", "m", "k", "h"]).await.unwrap();
    observer.cmd(&["SADD", "{m}:h", "1"]).await.unwrap();
    for (command, millis) in [("PEXPIRE", "3600000"), ("PERSIST", "")] {
        observer.cmd(&["PEXPIRE", "{m}:h", "60000"]).await.unwrap();
        observer.cmd(&["PEXPIRE", "m", "9000000"]).await.unwrap();
        let args = ["3", "m", ENDS, "{m}:h", "native", "{m}:", command, millis, ""];
        let told = as_if(&observer, LIVE, "{err = 'NOPERM no HPTTL'}", "none", &args).await.unwrap_err();
        assert!(told.contains("HPTTL"), "{told}");
        let left: i64 = observer.query(&["PTTL", "{m}:h"]).await.unwrap();
        assert!(left > 0 && left <= 60_000, "{command}: its key ends then, and it has {left}");
        // A server without this command has no lifetimes of fields.
        as_if(&observer, LIVE, "{err = 'ERR Unknown command'}", "none", &args).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_map_of_expired_keys_does_not_exist() {
    let (_server, client, observer) = ready().await;
    let map = SetMultimapCache::<String, u32>::new(&client, "m");
    let other = SetMultimapCache::<String, u32>::new(&client, "n");
    let object = map.object();
    for call in ["expire_in", "persist", "touch", "lifetime", "memory", "rename", "taken", "copied"] {
        observer.cmd(&["FLUSHDB"]).await.unwrap();
        map.insert("a", &1).await.unwrap();
        map.expire_key("a", HOUR).await.unwrap();
        other.insert("b", &1).await.unwrap();
        if call == "persist" {
            assert!(object.expire_in(HOUR).await.unwrap());
        }
        observer.cmd(&["ZADD", ENDS, "XX", "1000", "\"a\""]).await.unwrap();
        let so = match call {
            "expire_in" => !object.expire_in(HOUR).await.unwrap(),
            "persist" => !object.persist().await.unwrap(),
            "touch" => !object.touch().await.unwrap(),
            "lifetime" => object.lifetime().await.unwrap() == Lifetime::Absent,
            "memory" => object.memory().await.unwrap().is_none(),
            "rename" => matches!(object.rename("o").await, Err(ObjectError::Absent { .. })),
            "taken" => other.object().rename("m").unless_taken().await.unwrap(),
            _ => other.object().copy_to("m").await.unwrap(),
        };
        assert!(so, "{call}");
        assert!(!observer.exists(ENDS).await.unwrap(), "{call}: removed");
    }
    // The target name is taken, by the map itself.
    let object = SetMultimap::<String, u32>::new(&client, "n").object();
    assert!(!object.copy_to("n").await.unwrap() && !object.rename("n").unless_taken().await.unwrap());
    assert!(object.rename("n").await.unwrap());
}
