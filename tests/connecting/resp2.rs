//! Servers without RESP3: detected automatically, or set by `protocol`.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use redgrid_core::config::{CredentialProvider, Credentials, Protocol, Secret};
use redgrid_core::{Client, Config};
use redgrid_countdown_latch::CountDownLatch;
use redgrid_locks::{Lock, RwLock};
use redgrid_map::Map;
use redgrid_queue::Queue;
use redgrid_script::{Functions, Library};
use redgrid_semaphore::Semaphore;
use redgrid_testkit::{Action, Observer, Proxy, RedisServer, wait_until};
use redgrid_tests::SOON;
use redgrid_topic::Topic;

/// A password with characters that need quotes on a command line.
const PASSWORD: &str = "hunter2 \"with\\ more";

/// Starts a server that does not know HELLO, like proxies and older servers.
async fn without_hello() -> (RedisServer, Observer) {
    let server = RedisServer::builder().config("rename-command HELLO \"\"").start().await.unwrap();
    let observer = server.observer().await.unwrap();
    let user = format!(">{PASSWORD}");
    observer.cmd(&["ACL", "SETUSER", "app", "on", &user, "~*", "&*", "+@all"]).await.unwrap();
    (server, observer)
}

fn config(server: &RedisServer) -> Config {
    Config::single(server.addr().to_string()).unwrap().credentials(Some("app"), PASSWORD)
}

async fn connected(config: Config) -> Client {
    let client = Client::connect(config).await.unwrap();
    client.wait_ready(SOON).await.unwrap();
    client
}

/// Uses one object of each kind by two clients. Polls are too rare to wake a waiter in time, so a
/// message wakes each of them.
async fn objects_work(one: &Client, two: &Client) {
    let guard = Lock::new(one, "lock").acquire().await.unwrap();
    let waiter = tokio::spawn(Lock::new(two, "lock").acquire().timeout(SOON).into_future());
    wait_until(SOON, async || two.stats().channels > 0).await;
    guard.release().await.unwrap();
    waiter.await.unwrap().unwrap().release().await.unwrap();

    let reader = RwLock::new(one, "rw").read().await.unwrap();
    let writer = tokio::spawn(RwLock::new(two, "rw").write().timeout(SOON).into_future());
    wait_until(SOON, async || two.stats().waiting > 0).await;
    reader.release().await.unwrap();
    writer.await.unwrap().unwrap().release().await.unwrap();

    let permit = Semaphore::new(one, "semaphore", 1).acquire().await.unwrap();
    let next = tokio::spawn(Semaphore::new(two, "semaphore", 1).acquire().timeout(SOON).into_future());
    wait_until(SOON, async || two.stats().waiting > 0).await;
    permit.release().await.unwrap();
    next.await.unwrap().unwrap().release().await.unwrap();

    let latch = CountDownLatch::new(one, "latch");
    assert!(latch.try_set_count(1).await.unwrap());
    let there = CountDownLatch::new(two, "latch");
    let opened = tokio::spawn(async move { there.wait().timeout(SOON).await });
    latch.count_down().await.unwrap();
    opened.await.unwrap().unwrap();

    let map: Map<String, u64> = Map::new(one, "map");
    map.insert("a", &1).await.unwrap();
    assert_eq!(Map::<String, u64>::new(two, "map").read_all().await.unwrap(), [("a".to_owned(), 1)].into());
    assert_eq!(map.random_entries(1).await.unwrap().len(), 1);

    let queue: Queue<String> = Queue::new(one, "queue");
    queue.push(&"1".to_owned()).await.unwrap();
    assert_eq!(Queue::<String>::new(two, "queue").pop().await.unwrap().as_deref(), Some("1"));

    let topic: Topic<String> = Topic::new(one, "topic");
    let mut messages = topic.subscribe().await.unwrap();
    Topic::<String>::new(two, "topic").publish("news").await.unwrap();
    let message = tokio::time::timeout(SOON, messages.next()).await.unwrap().unwrap().unwrap();
    assert_eq!(message.value, "news");
}

/// Returns the protocols of a client's connections, as the server reports them.
async fn protocols(observer: &Observer, name: &str) -> Vec<String> {
    let list: String = observer.query(&["CLIENT", "LIST"]).await.unwrap();
    let field = |line: &str, key: &str| line.split(' ').find_map(|part| part.strip_prefix(key)).map(str::to_owned);
    let of_client = |line: &&str| field(line, "name=").is_some_and(|found| found.starts_with(name));
    list.lines().filter(of_client).filter_map(|line| field(line, "resp=")).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_does_not_know_hello_is_used_with_resp2() {
    let (server, observer) = without_hello().await;
    let (one, two) = (connected(config(&server).poll_interval(SOON)).await, connected(config(&server)).await);
    objects_work(&two, &one).await;
    assert!(protocols(&observer, "redgrid").await.iter().all(|version| version == "2"));
    // The connections on which HELLO was refused are closed.
    let list: String = observer.query(&["CLIENT", "LIST"]).await.unwrap();
    assert!(!list.contains(" name= "), "{list}");
    let health = one.health().await;
    assert!(health.is_ready(), "{health:?}");
    let note = health.nodes[0].without_resp3.clone().unwrap();
    assert!(note.contains("RESP2") && note.contains("HELLO") && !note.contains("hunter2"), "{note}");
    // The client still uses RESP2 after it has lost its connections.
    for kind in ["normal", "pubsub"] {
        observer.cmd(&["CLIENT", "KILL", "TYPE", kind]).await.unwrap();
    }
    objects_work(&two, &one).await;
    for client in [one, two] {
        client.shutdown(SOON).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_protocol_may_be_chosen() {
    let server = RedisServer::start().await.unwrap();
    let observer = server.observer().await.unwrap();
    let url = |settings: &str| Config::from_url(format!("{}?{settings}", server.url())).unwrap();
    let older = connected(url("protocol=resp2&client_name=older")).await;
    let newer = connected(url("client_name=newer")).await;
    objects_work(&older, &newer).await;
    let is = |found: &[String], version: &str| !found.is_empty() && found.iter().all(|one| one == version);
    if server.binary().version().major >= 7 {
        let (older, newer) = (protocols(&observer, "older").await, protocols(&observer, "newer").await);
        assert!(is(&older, "2") && is(&newer, "3"), "{older:?}, {newer:?}");
    }
    // The protocol was requested, so there is nothing to report.
    assert_eq!(older.health().await.nodes[0].without_resp3, None);
    for client in [older, newer] {
        client.shutdown(SOON).await.unwrap();
    }
    let (server, _) = without_hello().await;
    let client = Client::connect(config(&server).protocol(Protocol::Resp3)).await.unwrap();
    let text = client.wait_ready(Duration::from_secs(1)).await.unwrap_err().to_string();
    assert!(text.contains("unknown command 'HELLO'") && !text.contains("hunter2"), "{text}");
    client.shutdown(SOON).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_password_is_a_refusal_with_resp2_too() {
    let (server, _) = without_hello().await;
    let config = Config::single(server.addr().to_string()).unwrap().credentials(Some("app"), "wrong");
    let client = Client::connect(config).await.unwrap();
    let text = client.wait_ready(SOON).await.unwrap_err().to_string();
    assert!(text.contains("WRONGPASS"), "{text}");
    client.shutdown(SOON).await.unwrap();
}

/// Returns the current password, and counts its calls.
struct Vault {
    username: Option<&'static str>,
    state: Arc<Mutex<(String, usize)>>,
}

#[async_trait::async_trait]
impl CredentialProvider for Vault {
    async fn fetch(&self) -> Result<Credentials, Box<dyn std::error::Error + Send + Sync>> {
        let mut state = self.state.lock().unwrap();
        state.1 += 1;
        Ok(Credentials { username: self.username.map(Into::into), password: Secret::new(state.0.clone()) })
    }
}

/// Returns a configuration with a vault, and the state of the vault.
fn with_vault(addr: SocketAddr, username: Option<&'static str>) -> (Config, Arc<Mutex<(String, usize)>>) {
    let state = Arc::new(Mutex::new((PASSWORD.to_owned(), 0)));
    let config = Config::single(addr.to_string())
        .unwrap()
        .poll_interval(SOON)
        .credentials_interval(Duration::from_millis(20))
        .password_from(Vault { username, state: Arc::clone(&state) });
    (config, state)
}

/// Returns the identifier of the connection with subscriptions.
async fn subscriber(observer: &Observer) -> Option<String> {
    let list: String = observer.query(&["CLIENT", "LIST"]).await.unwrap();
    let line = list.lines().find(|line| line.contains("name=redgrid:subscriber") && !line.contains(" sub=0 "));
    line.and_then(|line| line.split(' ').next()).map(str::to_owned)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_with_subscriptions_stays_until_the_server_accepts_the_new_password() {
    let (server, observer) = without_hello().await;
    let (config, vault) = with_vault(server.addr(), Some("app"));
    let client = connected(config).await;
    // The publisher has another name, because the connection with subscriptions is found by its
    // name.
    let publisher = connected(self::config(&server).client_name("publisher")).await;
    let mut messages = Topic::<String>::new(&client, "topic").subscribe().await.unwrap();
    let before = subscriber(&observer).await;
    assert!(before.is_some());
    *vault.lock().unwrap() = ("another".into(), 0);
    wait_until(SOON, async || vault.lock().unwrap().1 >= 10).await;
    assert_eq!(subscriber(&observer).await, before);
    Topic::<String>::new(&publisher, "topic").publish("news").await.unwrap();
    let message = tokio::time::timeout(SOON, messages.next()).await.unwrap().unwrap().unwrap();
    assert_eq!(message.value, "news");
    observer.cmd(&["ACL", "SETUSER", "app", ">another"]).await.unwrap();
    wait_until(SOON, async || subscriber(&observer).await.is_some_and(|now| Some(now) != before)).await;
    for client in [client, publisher] {
        client.shutdown(SOON).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_username_a_login_has_the_password_alone() {
    let server = RedisServer::start().await.unwrap();
    let (observer, proxy) = (server.observer().await.unwrap(), Proxy::to(&server).await.unwrap());
    let logins = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&logins);
    proxy.on_request(move |request| {
        if request[0].eq_ignore_ascii_case(b"AUTH") {
            seen.lock().unwrap().push(request[1..].to_vec());
        }
        Action::Forward
    });
    observer.cmd(&["CONFIG", "SET", "requirepass", PASSWORD]).await.unwrap();
    let (config, vault) = with_vault(proxy.addr(), None);
    let client = connected(config.protocol(Protocol::Resp2)).await;
    observer.cmd(&["CONFIG", "SET", "requirepass", "another"]).await.unwrap();
    vault.lock().unwrap().0 = "another".into();
    let is_new = |words: &Vec<_>| words.last().is_some_and(|word| word == "another");
    wait_until(SOON, async || logins.lock().unwrap().iter().any(is_new)).await;
    let logins = logins.lock().unwrap().clone();
    assert!(logins.iter().all(|words| words.len() == 1), "{logins:?}");
    client.shutdown(SOON).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_with_subscriptions_follows_a_new_password() {
    let (server, observer) = without_hello().await;
    let (config, vault) = with_vault(server.addr(), Some("app"));
    let client = connected(config).await;
    let topic: Topic<String> = Topic::new(&client, "topic");
    let _messages = topic.subscribe().await.unwrap();
    let before = subscriber(&observer).await;
    assert!(before.is_some());
    observer.cmd(&["ACL", "SETUSER", "app", ">another"]).await.unwrap();
    vault.lock().unwrap().0 = "another".into();
    // A RESP2 connection with subscriptions accepts no AUTH, so the client replaces it by a new
    // connection.
    wait_until(SOON, async || subscriber(&observer).await.is_some_and(|now| Some(now) != before)).await;
    client.shutdown(SOON).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_runs_a_script_for_too_long_takes_new_connections_with_resp2() {
    let server = RedisServer::start().await.unwrap();
    if server.binary().version().major < 7 {
        return;
    }
    let config = Config::from_url(server.url()).unwrap().protocol(Protocol::Resp2).response_timeout(SOON);
    let client = connected(config).await;
    let functions = Functions::new(&client);
    server.observer().await.unwrap().cmd(&["CONFIG", "SET", "busy-reply-threshold", "20"]).await.unwrap();
    let code = "#!lua name=long\nredis.register_function('endless', function() while true do end end)";
    let endless = Library::new(code).unwrap().function("endless");
    let running = tokio::spawn(async move { endless.call().query::<()>(&client).await });
    // This call needs a connection of its own, which the server has to accept meanwhile.
    wait_until(SOON, async || !functions.kill().await.unwrap().is_empty()).await;
    let error = tokio::time::timeout(SOON, running).await.unwrap().unwrap().unwrap_err();
    assert!(error.to_string().contains("killed"), "{error}");
}
