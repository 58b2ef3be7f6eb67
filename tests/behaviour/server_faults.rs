//! Faults of one server: a typed error or a recovery, never a hang or a wrong hold.

use std::time::Duration;

use redgrid_core::{Code, Failure};
use redgrid_locks::{AcquireError, Lock, LostReason};
use redgrid_testkit::{Direction, Fault, Proxy, RedisServer, ServerBinary, wait_until};
use redgrid_tests::stopwatch::Stopwatch;
use redgrid_tests::{SOON, client_unready, client_with, server};

fn refused(error: &AcquireError) -> Option<Code> {
    match error {
        AcquireError::Failed(Failure::Refused { source, .. }) => source.code(),
        _ => None,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_restarts_empty_ends_the_hold_and_grants_anew() {
    let server = server().await;
    let (one, two) = (client(&server).await, client(&server).await);
    let guard = Lock::new(&one, "a").acquire().await.unwrap();
    server.restart_empty().await.unwrap();
    // The loss is found at the reconnect, long before the renewal at 10 s.
    let reason = tokio::time::timeout(Duration::from_secs(8), guard.lost()).await.expect("reported at the reconnect");
    assert_eq!(reason, LostReason::Gone);
    let other = Lock::new(&two, "a").acquire().timeout(SOON).await.unwrap();
    assert!(guard.release().await.is_err());
    assert!(other.is_held());
    other.release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_killed_and_restarted_with_its_data_keeps_the_hold() {
    let server = RedisServer::builder().append_only(true).config("appendfsync always").start().await.unwrap();
    let (holder, other) = (client(&server).await, client(&server).await);
    let guard = Lock::new(&holder, "a").acquire().await.unwrap();
    server.kill().await.unwrap();
    server.restart_with_data().await.unwrap();
    assert!(Lock::new(&other, "a").try_acquire().await.unwrap().is_none());
    assert!(guard.is_held());
    guard.release().await.unwrap();
    Lock::new(&other, "a").acquire().timeout(SOON).await.unwrap().release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn repeated_script_flushes_have_no_effect() {
    let server = server().await;
    let observer = server.observer().await.unwrap();
    let client = client(&server).await;
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let flushing = tokio::spawn(async move {
        let mut stopped = stopped;
        let mut flushes = 0;
        while stopped.try_recv().is_err() {
            observer.cmd(&["SCRIPT", "FLUSH"]).await.unwrap();
            flushes += 1;
        }
        flushes
    });
    for n in 0..300 {
        let guard = Lock::new(&client, format!("a:{}", n % 3)).acquire().timeout(SOON).await.unwrap();
        guard.release().await.unwrap();
    }
    stop.send(()).unwrap();
    assert!(flushing.await.unwrap() > 10);
    assert_eq!(client.stats().names, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_server_refuses_and_grants_again_when_there_is_room() {
    let server = server().await;
    let observer = server.observer().await.unwrap();
    let client = client(&server).await;
    // These calls load the scripts before the server's memory is full.
    Lock::new(&client, "a").acquire().await.unwrap().release().await.unwrap();
    observer.cmd(&["CONFIG", "SET", "maxmemory", "1"]).await.unwrap();
    let error = Lock::new(&client, "a").acquire().await.unwrap_err();
    assert_eq!(refused(&error), Some(Code::OutOfMemory), "{error:?}");
    assert!(!observer.exists("a").await.unwrap());
    observer.cmd(&["CONFIG", "SET", "maxmemory", "0"]).await.unwrap();
    Lock::new(&client, "a").acquire().await.unwrap().release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_of_another_type_is_named_as_such_and_left_alone() {
    let server = server().await;
    let observer = server.observer().await.unwrap();
    let client = client(&server).await;
    observer.cmd(&["SET", "a", "somebody's value"]).await.unwrap();
    let error = Lock::new(&client, "a").acquire().await.unwrap_err();
    assert_eq!(refused(&error), Some(Code::WrongType), "{error:?}");
    assert_eq!(observer.get::<String>("a").await.unwrap().unwrap(), "somebody's value");
    assert!(Lock::new(&client, "a").try_acquire().await.is_err());
    assert_eq!(client.stats().names, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn missing_permissions_are_reported_and_leave_no_lock_without_lifetime() {
    let server = server().await;
    let observer = server.observer().await.unwrap();
    observer.cmd(&["ACL", "SETUSER", "reader", "on", ">secret", "~*", "&*", "+@all", "-@scripting"]).await.unwrap();
    observer.cmd(&["ACL", "SETUSER", "timeless", "on", ">secret", "~*", "&*", "+@all", "-pexpire"]).await.unwrap();
    observer.cmd(&["ACL", "SETUSER", "elsewhere", "on", ">secret", "~other:*", "&*", "+@all"]).await.unwrap();
    for user in ["reader", "timeless", "elsewhere"] {
        let client = client(&server_as(&server, user)).await;
        let error = Lock::new(&client, "a").acquire().await.unwrap_err();
        assert_eq!(refused(&error), Some(Code::NoPermission), "{user}: {error:?}");
        assert!(!observer.exists("a").await.unwrap(), "{user}");
    }
}

/// The URL of a server for another user.
struct SeenAs(String);

impl AsRef<str> for SeenAs {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

fn server_as(server: &RedisServer, user: &str) -> SeenAs {
    SeenAs(server.url_for(user, "secret"))
}

async fn client(server: &impl Url) -> redgrid_locks::Client {
    client_with(&server.url(), |config| config).await
}

trait Url {
    fn url(&self) -> String;
}

impl Url for RedisServer {
    fn url(&self) -> String {
        RedisServer::url(self)
    }
}

impl Url for SeenAs {
    fn url(&self) -> String {
        self.0.clone()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_application_that_starts_before_its_server_works_once_it_is_there() {
    let server = server().await;
    server.kill().await.unwrap();
    let client = client_unready(&server.url(), |config| config).await;
    let early = tokio::spawn({
        let client = client.clone();
        async move { Lock::new(&client, "a").acquire().await }
    });
    let ready = client.wait_ready(Duration::from_millis(300)).await.unwrap_err();
    assert!(ready.to_string().contains("300ms"), "{ready}");
    server.restart_empty().await.unwrap();
    early.await.unwrap().unwrap().release().await.unwrap();
}

/// A call with a timeout waits for the server until then, even if that is longer than
/// `response_timeout × (retries + 1)`.
#[tokio::test(flavor = "multi_thread")]
async fn a_bounded_call_waits_for_the_server_up_to_its_bound() {
    let server = server().await;
    server.kill().await.unwrap();
    let hasty = |config: redgrid_core::Config| config.response_timeout(Duration::from_millis(50)).retries(1);
    let client = redgrid_tests::client_unready(&server.url(), hasty).await;
    // Of two such calls, one waits until the other has released the lock.
    let held_for_a_moment = || {
        let lock = Lock::new(&client, "a");
        tokio::spawn(async move { lock.acquire().timeout(SOON).await.unwrap().release().await.unwrap() })
    };
    let both = [held_for_a_moment(), held_for_a_moment()];
    let tried = tokio::spawn(Lock::new(&client, "b").try_acquire().timeout(SOON).into_future());
    let unbounded = Lock::new(&client, "a").acquire().await;
    assert!(matches!(unbounded, Err(AcquireError::Failed(Failure::Unavailable { .. }))), "{unbounded:?}");
    server.restart_empty().await.unwrap();
    for held in both {
        held.await.unwrap();
    }
    assert!(tried.await.unwrap().unwrap().is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_server_a_call_ends_unavailable_and_a_bound_is_kept() {
    let server = server().await;
    let client =
        client_with(&server.url(), |config| config.response_timeout(Duration::from_millis(200)).retries(1)).await;
    server.kill().await.unwrap();
    let mut watch = Stopwatch::start();
    let bounded = Lock::new(&client, "a").acquire().timeout(Duration::from_millis(100)).await;
    assert!(
        matches!(bounded, Err(AcquireError::Failed(Failure::Unavailable { .. } | Failure::OutcomeUnknown { .. }))),
        "{bounded:?}"
    );
    watch.assert_within(Duration::from_millis(400));
    watch.restart();
    let unbounded = Lock::new(&client, "a").acquire().await;
    assert!(matches!(unbounded, Err(AcquireError::Failed(Failure::Unavailable { .. }))), "{unbounded:?}");
    // `response_timeout × (retries + 1)` is 400 ms.
    watch.assert_within(Duration::from_secs(2));
    wait_until(SOON, async || client.stats().names == 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_loads_its_data_is_waited_for() {
    let options =
        RedisServer::builder().append_only(true).config("key-load-delay 200").config("aof-use-rdb-preamble no");
    // Servers before 7.0 do not have this setting, and do not reply while they load so little data.
    let options = match ServerBinary::find().unwrap().version().major {
        ..7 => options,
        _ => options.config("loading-process-events-interval-bytes 1024"),
    };
    let server = options.start().await.unwrap();
    let client = client(&server).await;
    for n in 0..3000 {
        client.command("SET").key(format!("value:{n}")).unwrap().arg("x".repeat(64)).query::<()>().await.unwrap();
    }
    server.kill().await.unwrap();
    server.restart_with_data().await.unwrap();
    let guard = Lock::new(&client, "a").acquire().timeout(SOON).await.unwrap();
    guard.release().await.unwrap();
    let kept: i64 = client.command("DBSIZE").query().await.unwrap();
    assert_eq!(kept, 3000);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deleted_database_is_reported_and_the_lock_can_be_acquired_again() {
    let server = server().await;
    let observer = server.observer().await.unwrap();
    let client = client_with(&server.url(), |config| config.watchdog_lease(Duration::from_millis(900))).await;
    let guard = Lock::new(&client, "a").acquire().await.unwrap();
    observer.cmd(&["FLUSHALL"]).await.unwrap();
    assert_eq!(guard.lost().await, LostReason::Gone);
    let next = Lock::new(&client, "a").acquire().timeout(SOON).await.unwrap();
    assert!(next.token() > guard.token());
    drop(guard);
    wait_until(SOON, async || client.stats().holds == 1).await;
    next.release().await.unwrap();
}

/// A client that is dropped early leaves no connection. Otherwise the connection could stay open,
/// without a name, as long as the process lives.
#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_ends_before_it_is_connected_leaves_no_connection() {
    let server = server().await;
    let proxy = Proxy::to(&server).await.unwrap();
    for delay in [100, 400] {
        proxy.set(Direction::ToClient, Fault::Delay(Duration::from_millis(delay)));
        let client = client_unready(&server.url_via(proxy.addr()), |config| config).await;
        // The server has accepted both connections, but its replies have not arrived yet.
        wait_until(SOON, async || server.clients().await.unwrap().len() == 2).await;
        assert!(client.wait_ready(Duration::ZERO).await.is_err());
        drop(client);
        wait_until(SOON, async || server.clients().await.unwrap().is_empty()).await;
    }
}
