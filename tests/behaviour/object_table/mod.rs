//! Tests each type of object as a whole: existence, expiry, renaming, copying, deletion and
//! flushing, with all its keys. Each operation is tested on the object's own `object()` and on
//! `Keys`.

mod types;

use std::collections::BTreeSet;
use std::time::Duration;

use redgrid_bits::BloomFilter;
use redgrid_core::object::{Lifetime, Object, ObjectError};
use redgrid_core::{Client, Failure};
use redgrid_keys::{FlushScope, Key, Keys, KeysError};
use redgrid_multimap::SetMultimap;
use redgrid_queue::RingBuffer;
use redgrid_semaphore::Semaphore;
use redgrid_testkit::{Observer, RedisServer, ServerBinary, wait_until};
use redgrid_tests::{SOON, client_with};

use types::{HOUR, Type, all};

/// A lifetime short enough to wait for, and long enough for one request on a busy machine. Tests
/// only assert that it has passed.
const SHORT: Duration = Duration::from_millis(20);

/// The server for one row of the table, and the keys of the object that was created there.
struct Harness {
    observer: Observer,
    client: Client,
    keys: Keys,
    namespace: &'static str,
    /// Each key of the object `from`, and its DUMP.
    made: Vec<(String, Vec<u8>)>,
}

/// Whether a key outlives its object or expires by itself: replies, fences, tokens, and a reader's
/// lease.
fn stays(key: &str) -> bool {
    let prefixes = ["redgrid_once:", "redgrid_wait:", "redgrid_fence:", "redisson_lock_token:", "redgrid_renamed:"];
    prefixes.iter().any(|prefix| key.starts_with(prefix)) || key.contains(":rwlock_timeout:")
}

async fn keys_of(observer: &Observer) -> BTreeSet<String> {
    observer.keys("*").await.unwrap().into_iter().filter(|key| !stays(key)).collect()
}

async fn client(server: &RedisServer, namespace: &str) -> Client {
    // Leases are not renewed during the test.
    client_with(&server.url(), |config| config.watchdog_lease(2 * HOUR).namespace(namespace).unwrap()).await
}

impl Harness {
    /// Creates an object of the type, records its keys, and shuts down the client that uses it.
    async fn of(server: &RedisServer, of: &Type, namespace: &'static str) -> Harness {
        let observer = server.observer().await.unwrap();
        observer.cmd(&["FLUSHALL"]).await.unwrap();
        let maker = client(server, namespace).await;
        let used = (of.make)(of.name, &maker, "from").await;
        let mut made = Vec::new();
        for key in keys_of(&observer).await.into_iter().filter(|key| !key.contains("lock of")) {
            // A key that is deleted between the two commands is no longer part of the object.
            if let Some(content) = observer.query::<Option<Vec<u8>>>(&["DUMP", &key]).await.unwrap() {
                made.push((key, content));
            }
        }
        drop(used);
        let _ = maker.shutdown(SOON).await;
        let client = client(server, namespace).await;
        Harness { observer, keys: Keys::new(&client), client, namespace, made }
    }

    /// Restores the object as it was created, without a lifetime, and removes all other keys.
    async fn again(&self) {
        self.observer.cmd(&["FLUSHALL"]).await.unwrap();
        for (key, content) in &self.made {
            self.observer.cmd(&[b"RESTORE", key.as_bytes(), b"0", content]).await.unwrap();
        }
    }

    /// The keys of an object of this name.
    fn expected(&self, name: &str) -> BTreeSet<String> {
        self.made.iter().map(|(key, _)| key.replace("from", name)).collect()
    }

    /// Whether no key of the object has a lifetime. In a native multimap, one key may have its own
    /// lifetime: its values keep it.
    async fn is_endless(&self, of: &Type) -> bool {
        let ending = self.ending().await;
        let ending: Vec<String> = self.expected("from").into_iter().filter(|key| ending.contains(key)).collect();
        ending.is_empty() || of.native && ending.len() == 1 && ending[0].starts_with('{')
    }

    async fn listed(&self) -> Vec<String> {
        let found: Vec<Key> = self.keys.objects().try_collect().await.unwrap();
        let mut names: Vec<String> = found.iter().map(Key::to_string).collect();
        names.sort();
        names
    }

    /// The keys that have a lifetime.
    async fn ending(&self) -> BTreeSet<String> {
        let mut ending = BTreeSet::new();
        for key in keys_of(&self.observer).await {
            if self.observer.time_to_live(&key).await.unwrap().is_some() {
                ending.insert(key);
            }
        }
        ending
    }

    async fn all_over(&self) -> bool {
        let over = async || keys_of(&self.observer).await.is_empty();
        tokio::time::timeout(Duration::from_secs(3), wait_until(SOON, over)).await.is_ok()
    }
}

/// Collects the differences from the expected results, so that one run shows the whole table.
#[derive(Default)]
struct Wrong(Vec<String>);

impl Wrong {
    fn expect<T: PartialEq + std::fmt::Debug>(&mut self, what: String, got: T, expected: T) {
        if got != expected {
            self.0.push(format!("{what}: {got:?}, expected {expected:?}"));
        }
    }
}

fn ends(lifetime: Result<Lifetime, ObjectError>) -> bool {
    matches!(lifetime, Ok(Lifetime::Ends(left)) if left <= HOUR)
}

async fn by_object(harness: &Harness, of: &Type, wrong: &mut Wrong) {
    let from = (of.object)(of.name, &harness.client, "from");
    let to = (of.object)(of.name, &harness.client, "to");
    let what = |call: &str| format!("{}: object().{call}", of.name);
    harness.again().await;
    wrong.expect(what("exists"), from.exists().await.ok(), Some(true));
    wrong.expect(what("lifetime"), from.lifetime().await.ok(), Some(Lifetime::Endless));
    wrong.expect(what("expire_in"), from.expire_in(HOUR).await.ok(), Some(true));
    wrong.expect(what("expire_in, keys"), harness.ending().await.is_superset(&harness.expected("from")), true);
    wrong.expect(what("lifetime"), ends(from.lifetime().await), true);
    wrong.expect(what("persist"), from.persist().await.ok(), Some(true));
    wrong.expect(what("persist, keys"), harness.is_endless(of).await, true);
    wrong.expect(what("expire_in, soon"), from.expire_in(SHORT).await.ok(), Some(true));
    wrong.expect(what("expire_in, at its end"), harness.all_over().await, true);
    wrong.expect(what("exists, at its end"), from.exists().await.ok(), Some(false));

    harness.again().await;
    wrong.expect(what("copy_to"), from.copy_to("to").await.ok(), Some(true));
    let both = harness.expected("from").union(&harness.expected("to")).cloned().collect();
    wrong.expect(what("copy_to, keys"), keys_of(&harness.observer).await, both);
    wrong.expect(what("copy_to, taken"), from.copy_to("to").await.ok(), Some(false));

    harness.again().await;
    wrong.expect(what("rename"), from.rename("to").await.map_err(|error| error.to_string()), Ok(true));
    wrong.expect(what("rename, keys"), keys_of(&harness.observer).await, harness.expected("to"));
    wrong.expect(what("rename, exists"), (from.exists().await.ok(), to.exists().await.ok()), (Some(false), Some(true)));
    wrong.expect(what("delete"), to.delete().await.ok(), Some(true));
    wrong.expect(what("delete, keys"), keys_of(&harness.observer).await, BTreeSet::new());

    // An absent object.
    wrong.expect(what("exists, absent"), from.exists().await.ok(), Some(false));
    wrong.expect(what("lifetime, absent"), from.lifetime().await.ok(), Some(Lifetime::Absent));
    wrong.expect(what("expire_in, absent"), from.expire_in(HOUR).await.ok(), Some(false));
    wrong.expect(what("persist, absent"), from.persist().await.ok(), Some(false));
    wrong.expect(what("delete, absent"), from.delete().await.ok(), Some(false));
    let absent = [from.rename("to").await, from.copy_to("to").await];
    wrong.expect(
        what("rename and copy_to, absent"),
        absent.map(|told| matches!(told, Err(ObjectError::Absent { .. }))),
        [true; 2],
    );
}

async fn by_keys(harness: &Harness, of: &Type, wrong: &mut Wrong) {
    let (keys, name) = (&harness.keys, ["from"]);
    let what = |call: &str| format!("{}: keys().{call}", of.name);
    harness.again().await;
    wrong.expect(what("exists"), keys.exists(name).await.ok(), Some(1));
    wrong.expect(what("objects"), harness.listed().await, vec!["from".to_owned()]);
    wrong.expect(what("kind"), keys.kind("from").await.unwrap().is_some(), true);
    wrong.expect(what("random"), keys.random().await.unwrap().map(|key| key.to_string()), Some("from".to_owned()));
    wrong.expect(what("expire_in"), keys.expire_in(HOUR, name).await.ok(), Some(1));
    wrong.expect(what("expire_in, keys"), harness.ending().await.is_superset(&harness.expected("from")), true);
    let lifetime = keys.lifetimes(name).await.unwrap().into_values().next();
    wrong.expect(what("lifetimes"), ends(Ok(lifetime.unwrap())), true);
    wrong.expect(what("persist"), keys.persist(name).await.ok(), Some(1));
    wrong.expect(what("persist, keys"), harness.is_endless(of).await, true);
    wrong.expect(what("expire_in, soon"), keys.expire_in(SHORT, name).await.ok(), Some(1));
    wrong.expect(what("expire_in, at its end"), harness.all_over().await, true);
    wrong.expect(what("exists, at its end"), keys.exists(name).await.ok(), Some(0));
    wrong.expect(what("objects, at its end"), harness.listed().await, Vec::new());

    harness.again().await;
    wrong.expect(what("copy"), keys.copy("from", "to").await.ok(), Some(true));
    let both = harness.expected("from").union(&harness.expected("to")).cloned().collect();
    wrong.expect(what("copy, keys"), keys_of(&harness.observer).await, both);
    wrong.expect(what("rename_unless_taken"), keys.rename_unless_taken("from", "to").await.ok(), Some(false));

    harness.again().await;
    wrong.expect(what("rename"), keys.rename("from", "to").await.map_err(|error| error.to_string()), Ok(()));
    wrong.expect(what("rename, keys"), keys_of(&harness.observer).await, harness.expected("to"));
    wrong.expect(
        what("rename, exists"),
        (keys.exists(name).await.ok(), keys.exists(["to"]).await.ok()),
        (Some(0), Some(1)),
    );
    wrong.expect(what("delete"), keys.delete(["to"]).await.ok(), Some(1));
    wrong.expect(what("delete, keys"), keys_of(&harness.observer).await, BTreeSet::new());
    wrong.expect(what("delete, absent"), keys.delete(["to"]).await.ok(), Some(0));

    harness.again().await;
    wrong.expect(what("unlink"), keys.unlink(name).await.ok(), Some(1));
    wrong.expect(what("unlink, keys"), keys_of(&harness.observer).await, BTreeSet::new());

    harness.again().await;
    wrong.expect(what("delete_by_pattern"), keys.delete_by_pattern("fr?m").await.ok(), Some(1));
    wrong.expect(what("delete_by_pattern, keys"), keys_of(&harness.observer).await, BTreeSet::new());

    harness.again().await;
    let everything = if harness.namespace.is_empty() { FlushScope::Database } else { FlushScope::Namespace };
    keys.flush(everything).await.unwrap();
    wrong.expect(what("flush, keys"), harness.observer.keys("*").await.unwrap(), Vec::<String>::new());
}

async fn table(server: &RedisServer, types: impl Iterator<Item = Type>, namespace: &'static str) {
    let mut wrong = Wrong::default();
    for of in types {
        let harness = Harness::of(server, &of, namespace).await;
        assert!(!harness.made.is_empty(), "{} has keys", of.name);
        by_object(&harness, &of, &mut wrong).await;
        by_keys(&harness, &of, &mut wrong).await;
        let _ = harness.client.shutdown(SOON).await;
    }
    assert!(wrong.0.is_empty(), "{} differences\n{}", wrong.0.len(), wrong.0.join("\n"));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_object_of_any_type_includes_all_its_keys() {
    let server = redgrid_tests::server().await;
    table(&server, all().into_iter().filter(|of| !of.native), "").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_object_of_any_type_includes_all_its_keys_under_a_namespace() {
    let server = redgrid_tests::server().await;
    table(&server, all().into_iter().filter(|of| !of.native), "prod").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_object_of_any_type_includes_all_its_keys_on_the_newest_server() {
    let test = "an_object_of_any_type_includes_all_its_keys_on_the_newest_server";
    let Some(newest) = ServerBinary::newest_or_skip(test) else { return };
    let server = RedisServer::builder().binary(newest).start().await.unwrap();
    table(&server, all().into_iter(), "").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_addition_to_an_empty_object_gets_its_lifetime() {
    let server = redgrid_tests::server().await;
    let (client, observer) = (client(&server, "").await, server.observer().await.unwrap());
    let (filter, ring) = (BloomFilter::<u64>::new(&client, "filter"), RingBuffer::<u64>::new(&client, "ring"));
    assert!(filter.try_init(100, 0.01).await.unwrap() && ring.try_set_capacity(3).await.unwrap());
    for object in [filter.object(), ring.object()] {
        assert!(object.expire_in(HOUR).await.unwrap());
    }
    assert!(filter.add(&1).await.unwrap() && ring.push(&1).await.unwrap() == 0);
    for key in ["filter", "{filter}:config", "ring", "redisson_rb:{ring}"] {
        assert!(observer.time_to_live(key).await.unwrap().is_some(), "{key}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_map_with_hash_like_values_is_not_a_multimap() {
    let server = redgrid_tests::server().await;
    let (client, observer) = (client(&server, "").await, server.observer().await.unwrap());
    let (keys, hash) = (Keys::new(&client), "V7p3tUdzrwY3/qsccaFtGw");
    let values = format!("{{map}}:{hash}");
    let again = async || {
        observer.cmd(&["HSET", "map", "a", hash]).await.unwrap();
        observer.cmd(&["SET", &values, "another object"]).await.unwrap();
    };
    again().await;
    let listed: BTreeSet<Key> = keys.objects().try_collect().await.unwrap();
    assert_eq!(listed.iter().map(Key::to_string).collect::<Vec<_>>(), ["map", &values]);
    assert_eq!(keys.expire_in(HOUR, ["map"]).await.unwrap(), 1);
    assert!(observer.time_to_live("map").await.unwrap().is_some());
    assert!(observer.time_to_live(&values).await.unwrap().is_none());
    keys.rename("map", "renamed").await.unwrap();
    assert_eq!(keys.delete(["renamed"]).await.unwrap(), 1);
    assert_eq!(keys_of(&observer).await, BTreeSet::from([values]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_multimap_of_many_keys_is_deleted_by_its_name_with_all_values() {
    let server = redgrid_tests::server().await;
    let (client, observer) = (client(&server, "").await, server.observer().await.unwrap());
    let (map, keys) = (SetMultimap::<u64, u64>::new(&client, "m"), Keys::new(&client));
    for key in 0..1_500 {
        map.insert(&key, &1).await.unwrap();
    }
    assert!(matches!(
        keys.object("m").await,
        Err(KeysError::Object(ObjectError::Failed(Failure::InvalidArgument { .. })))
    ));
    assert_eq!(keys.delete(["m", "nothing"]).await.unwrap(), 1);
    assert_eq!(keys_of(&observer).await, BTreeSet::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_name_that_is_only_a_hash_tag_is_refused_by_every_type() {
    let server = redgrid_tests::server().await;
    let client = client(&server, "").await;
    for of in all() {
        let told = (of.object)(of.name, &client, "{a}").exists().await;
        assert!(matches!(told, Err(ObjectError::Failed(Failure::InvalidName(_)))), "{}: {told:?}", of.name);
    }
    let told = Semaphore::new(&client, "{a}", 1).acquire().await.unwrap_err();
    assert!(told.to_string().contains("only a hash tag"), "{told}");
    // Plain commands and keys of scripts have no companion keys.
    client.command("SET").key("{a}").unwrap().arg("1").query::<()>().await.unwrap();
    assert!(Object::new(&client, "{a}").exists().await.unwrap());
}
