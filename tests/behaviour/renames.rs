//! Renames to other slots during concurrent changes.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use redgrid_core::author::{Server, Topology};
use redgrid_core::clock::Clock;
use redgrid_core::name::suffixed;
use redgrid_core::object::{Dump, Lifetime, Object, ObjectError, fence};
use redgrid_core::{Client, Config, Failure, Name};
use redgrid_testkit::{Observer, RedisServer};
use redgrid_tests::before::Before;
use redgrid_tests::{SOON, client, server};
use tokio::sync::watch;

const HOUR: Duration = Duration::from_secs(3600);

/// Two nodes: names that begin with `t` are at the second one. Tests can run code before the
/// original of a renamed object is deleted.
struct TwoNodes([Arc<Before>; 2], watch::Sender<u64>);

#[async_trait]
impl Topology for TwoNodes {
    fn primary(&self, key: &[u8]) -> Arc<dyn Server> {
        Arc::clone(&self.0[usize::from(self.slot(key))]) as Arc<dyn Server>
    }

    fn primaries(&self) -> Vec<Arc<dyn Server>> {
        vec![self.primary(b"a"), self.primary(b"t")]
    }

    fn slot(&self, key: &[u8]) -> u16 {
        let name = key.split(|byte| *byte == b'{').nth(1).unwrap_or(key);
        u16::from(name.starts_with(b"t"))
    }

    fn changes(&self) -> watch::Receiver<u64> {
        self.1.subscribe()
    }

    async fn close(&self) {}
}

/// A client of two servers, an observer of each, and the hook before deletions at the first one.
struct Fixture {
    _servers: [RedisServer; 2],
    client: Client,
    here: Observer,
    there: Observer,
    before: Arc<Before>,
}

impl Fixture {
    async fn new() -> Fixture {
        Fixture::with(|before| before, Duration::from_secs(3)).await
    }

    async fn with(settings: impl FnOnce(Before) -> Before, timeout: Duration) -> Fixture {
        let servers = [server().await, server().await];
        let open = |server: &RedisServer| {
            let config = Config::from_url(server.url()).unwrap();
            Before::new(redgrid_core::server(&config).unwrap(), "object/delete_if_same")
        };
        let (here, there) = (servers[0].observer().await.unwrap(), servers[1].observer().await.unwrap());
        let before = Arc::new(settings(open(&servers[0])));
        let apart = TwoNodes([Arc::clone(&before), Arc::new(open(&servers[1]))], watch::Sender::new(0));
        let config = Config::from_url(servers[0].url()).unwrap().response_timeout(timeout).retries(1);
        let client = Client::over(Arc::new(apart), config, Clock::boot()).unwrap();
        client.wait_ready(SOON).await.unwrap();
        Fixture { _servers: servers, client, here, there, before }
    }

    fn object(&self, name: &str) -> Object {
        Object::new(&self.client, name)
    }

    /// Runs this command at the first server before the next deletion there.
    fn meanwhile(&self, command: &'static [&'static str]) {
        let here = self.here.clone();
        self.before.next(async move { drop(here.cmd(command).await.unwrap()) });
    }

    async fn is(&self, there: bool, name: &str) -> Option<String> {
        let observer = if there { &self.there } else { &self.here };
        observer.get::<String>(name).await.unwrap()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_changes_are_renamed_along() {
    let on = Fixture::new().await;
    on.here.cmd(&["SET", "a", "1", "PX", "3600000"]).await.unwrap();
    on.there.cmd(&["SET", "t", "old"]).await.unwrap();
    assert!(!on.object("a").rename("t").unless_taken().await.unwrap());
    on.meanwhile(&["SET", "a", "2", "KEEPTTL"]);
    on.meanwhile(&["SET", "a", "3", "KEEPTTL"]);
    assert!(on.object("a").rename("t").await.unwrap());
    assert_eq!((on.is(false, "a").await, on.is(true, "t").await.as_deref()), (None, Some("3")));
    assert!(matches!(on.object("t").lifetime().await.unwrap(), Lifetime::Ends(left) if left <= HOUR));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lifetime_that_is_set_meanwhile_counts() {
    let on = Fixture::new().await;
    on.here.cmd(&["SET", "a", "1", "PX", "3600000"]).await.unwrap();
    on.meanwhile(&["PERSIST", "a"]);
    assert!(on.object("a").rename("t1").await.unwrap());
    assert_eq!(on.object("t1").lifetime().await.unwrap(), Lifetime::Endless);
    on.here.cmd(&["SET", "a", "1"]).await.unwrap();
    on.meanwhile(&["PEXPIRE", "a", "3600000"]);
    assert!(on.object("a").rename("t2").await.unwrap());
    assert!(matches!(on.object("t2").lifetime().await.unwrap(), Lifetime::Ends(_)));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rename_of_a_missing_object_leaves_no_copy() {
    let on = Fixture::new().await;
    on.here.cmd(&["SET", "a", "1"]).await.unwrap();
    on.meanwhile(&["DEL", "a"]);
    let told = on.object("a").rename("t").await.unwrap_err();
    assert!(matches!(told, ObjectError::Absent { .. }), "{told:?}");
    assert_eq!(on.is(true, "t").await, None);
    // A concurrent rename was faster.
    on.here.cmd(&["SET", "a", "1"]).await.unwrap();
    let other = on.object("a");
    on.before.next(async move { assert!(other.rename("tt").await.unwrap()) });
    let told = on.object("a").rename("t").await.unwrap_err();
    assert!(matches!(told, ObjectError::Absent { .. }), "{told:?}");
    assert_eq!((on.is(true, "t").await, on.is(true, "tt").await.as_deref()), (None, Some("1")));
    // A target that another client changed meanwhile is not deleted.
    on.here.cmd(&["SET", "a", "1"]).await.unwrap();
    let (here, there) = (on.here.clone(), on.there.clone());
    on.before.next(async move {
        here.cmd(&["DEL", "a"]).await.unwrap();
        there.cmd(&["SET", "t", "new"]).await.unwrap();
    });
    assert!(on.object("a").rename("t").await.is_err());
    assert_eq!(on.is(true, "t").await.as_deref(), Some("new"));
}

#[tokio::test(flavor = "multi_thread")]
async fn two_renames_to_one_name_do_not_take_each_others_keys() {
    let on = Fixture::new().await;
    on.here.cmd(&["SET", "a", "1"]).await.unwrap();
    let other = on.object("a");
    on.before.next(async move { assert!(other.rename("t").await.unwrap()) });
    let told = on.object("a").rename("t").await.unwrap_err();
    assert!(matches!(told, ObjectError::Absent { .. }), "{told:?}");
    assert_eq!((on.is(false, "a").await, on.is(true, "t").await.as_deref()), (None, Some("1")));
    let left = on.here.keys("*").await.unwrap();
    assert_eq!(left, ["redgrid_renamed:{a}"]);
    assert!(on.here.query::<i64>(&["PTTL", &left[0]]).await.unwrap() > 0, "nothing stays without a lifetime");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_concurrently_created_target_is_not_replaced() {
    let on = Fixture::new().await;
    let both = || {
        let (here, there) = (on.here.clone(), on.there.clone());
        async move {
            here.cmd(&["SET", "a", "2"]).await.unwrap();
            there.cmd(&["SET", "t", "theirs"]).await.unwrap();
        }
    };
    on.here.cmd(&["SET", "a", "1"]).await.unwrap();
    on.before.next(both());
    assert!(!on.object("a").rename("t").unless_taken().await.unwrap());
    assert_eq!((on.is(false, "a").await.as_deref(), on.is(true, "t").await.as_deref()), (Some("2"), Some("theirs")));
    on.here.cmd(&["SET", "a", "1"]).await.unwrap();
    on.before.next(both());
    let told = on.object("a").rename("t").await.unwrap_err();
    assert!(matches!(told, ObjectError::Contended { times: 1, .. }), "{told:?}");
    assert_eq!((on.is(false, "a").await.as_deref(), on.is(true, "t").await.as_deref()), (Some("2"), Some("theirs")));
}

#[tokio::test(flavor = "multi_thread")]
async fn constant_changes_are_reported_as_contended_in_time() {
    let other = server().await;
    let counter = other.observer().await.unwrap();
    let on = Fixture::with(|before| before, Duration::from_millis(1500)).await;
    on.here.cmd(&["SET", "a", "0"]).await.unwrap();
    for n in 1..5000 {
        let (here, counter) = (on.here.clone(), counter.clone());
        on.before.next(async move {
            counter.cmd(&["INCR", "rounds"]).await.unwrap();
            here.cmd(&["SET", "a", &n.to_string()]).await.unwrap();
        });
    }
    let told = tokio::time::timeout(SOON, on.object("a").rename("t").into_future()).await.expect("an end in time");
    assert!(matches!(told, Err(ObjectError::Contended { times, .. }) if times > 10), "{told:?}");
    assert!(on.is(false, "a").await.is_some());
    // The rename pauses between attempts. Two seconds allow hundreds of attempts without pauses,
    // but far fewer with pauses of up to 100 ms.
    assert!(counter.query::<u64>(&["GET", "rounds"]).await.unwrap() < 100);
}

/// The keys of an object with one companion.
fn pair(key: &[u8]) -> Vec<Bytes> {
    vec![Bytes::copy_from_slice(key), suffixed(key, "beside")]
}

#[tokio::test(flavor = "multi_thread")]
async fn companion_keys_move_to_another_slot_too() {
    let on = Fixture::new().await;
    let of = |name: &str| Object::with_layout(&on.client, Name::new(name), pair).also_renames(fence);
    on.here.cmd(&["MSET", "a", "1", "{a}:beside", "2", "redgrid_fence:{a}", "7"]).await.unwrap();
    assert!(of("a").rename("t").await.unwrap());
    assert_eq!(on.is(true, "{t}:beside").await.as_deref(), Some("2"));
    assert_eq!(on.is(true, "redgrid_fence:{t}").await.as_deref(), Some("7"));
    assert_eq!(on.here.keys("*").await.unwrap(), ["redgrid_renamed:{a}"]);
    // A failed rename of a value without a fence keeps the fence of the new name.
    on.here.cmd(&["SET", "a", "3"]).await.unwrap();
    on.meanwhile(&["DEL", "a"]);
    assert!(of("a").rename("t").await.is_err());
    assert_eq!(on.there.keys("*").await.unwrap(), ["redgrid_fence:{t}"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fence_is_renamed_along_and_outlives_its_object() {
    let server = server().await;
    let (client, observer) = (client(&server).await, server.observer().await.unwrap());
    let of = |name: &str| Object::new(&client, name).also_renames(fence);
    observer.cmd(&["MSET", "a", "1", "redgrid_fence:{a}", "7", "redgrid_fence:{c}", "8"]).await.unwrap();
    assert!(of("a").rename("b").await.unwrap() && of("b").copy_to("c").await.unwrap());
    let fences = async |name: &str| observer.get::<String>(&format!("redgrid_fence:{{{name}}}")).await.unwrap();
    assert_eq!((fences("a").await, fences("b").await, fences("c").await), (None, Some("7".into()), Some("7".into())));
    assert!(of("b").expire_in(HOUR).await.unwrap());
    assert_eq!(observer.query::<i64>(&["PTTL", "redgrid_fence:{b}"]).await.unwrap(), -1);
    assert!(of("b").delete().await.unwrap());
    assert_eq!(fences("b").await.as_deref(), Some("7"));
    observer.cmd(&["SET", "d", "1"]).await.unwrap();
    assert!(of("d").rename("b").await.unwrap());
    assert_eq!(fences("b").await.as_deref(), Some("7"), "a rename without a fence keeps it");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_name_whose_keys_are_companions_of_itself_is_rejected() {
    let server = server().await;
    let (client, observer) = (client(&server).await, server.observer().await.unwrap());
    observer.cmd(&["MSET", "a{b}", "1", "a{b}:beside", "2"]).await.unwrap();
    let of = |name: &str| Object::with_layout(&client, Name::new(name), pair);
    for told in [of("a{b}").rename("a{b}:beside").await, of("a{b}").copy_to("a{b}:beside").replacing().await] {
        assert!(matches!(told, Err(ObjectError::Failed(Failure::InvalidArgument { option: "name", .. }))), "{told:?}");
    }
    assert_eq!(observer.get::<String>("a{b}:beside").await.unwrap().as_deref(), Some("2"));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unrestorable_dump_restores_nothing() {
    let server = server().await;
    let (client, observer) = (client(&server).await, server.observer().await.unwrap());
    let of = |name: &str| Object::with_layout(&client, Name::new(name), pair);
    observer.cmd(&["RPUSH", "a", "1"]).await.unwrap();
    let good = of("a").dump().await.unwrap().unwrap().parts()[0].clone();
    let half: Dump = vec![good, Some(Bytes::from_static(b"nonsense"))].into();
    let told = of("b").restore(half.clone()).await.unwrap_err();
    assert!(matches!(told, ObjectError::Failed(Failure::Refused { .. })), "{told:?}");
    assert_eq!(observer.keys("*").await.unwrap(), ["a"]);
    observer.cmd(&["SET", "b", "mine", "PX", "3600000"]).await.unwrap();
    assert!(of("b").restore(half).replacing().await.is_err());
    assert_eq!(observer.get::<String>("b").await.unwrap().as_deref(), Some("mine"));
    assert!(matches!(of("b").lifetime().await.unwrap(), Lifetime::Ends(left) if left <= HOUR));
}
