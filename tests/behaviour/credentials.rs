//! Rotating passwords: no lock is lost, and no call fails.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use redgrid_core::config::{CredentialProvider, Credentials, Secret};
use redgrid_core::{Client, Config, ConnectionEvent};
use redgrid_locks::{Lock, LockGuard};
use redgrid_testkit::{Observer, RedisServer, Sentinels, wait_until};
use redgrid_tests::SOON;

/// A simulated vault: the reply that it gives, and the number of calls to it.
#[derive(Clone)]
struct Vault(Arc<(Mutex<Reply>, AtomicUsize)>);

#[derive(Clone)]
enum Reply {
    Password(&'static str),
    Trouble(&'static str),
    Nothing,
    Panic,
}

impl Vault {
    fn new(says: Reply) -> Self {
        Vault(Arc::new((Mutex::new(says), AtomicUsize::new(0))))
    }

    fn replies(&self, says: Reply) {
        *self.0.0.lock().unwrap() = says;
    }

    fn asked(&self) -> usize {
        self.0.1.load(Ordering::Relaxed)
    }
}

#[async_trait]
impl CredentialProvider for Vault {
    async fn fetch(&self) -> Result<Credentials, Box<dyn std::error::Error + Send + Sync>> {
        self.0.1.fetch_add(1, Ordering::Relaxed);
        let says = self.0.0.lock().unwrap().clone();
        match says {
            Reply::Password(password) => {
                Ok(Credentials { username: Some("app".into()), password: Secret::new(password) })
            }
            Reply::Trouble(words) => Err(words.into()),
            Reply::Nothing => std::future::pending().await,
            Reply::Panic => panic!("the vault panics in this test"),
        }
    }
}

const EVERY: Duration = Duration::from_millis(100);

async fn server() -> RedisServer {
    let rules = "on >first ~* &* +@all";
    RedisServer::builder().password("nobody").user("app", rules).start().await.unwrap()
}

fn config(server: &RedisServer, vault: &Vault) -> Config {
    let config = Config::single(server.addr().to_string()).unwrap().password_from(vault.clone());
    config.credentials_interval(EVERY)
}

async fn client(server: &RedisServer, vault: &Vault) -> Client {
    let client = Client::connect(config(server, vault)).await.unwrap();
    client.wait_ready(SOON).await.unwrap();
    client
}

/// Returns how often the current connections have authenticated again.
async fn logins(observer: &Observer) -> u64 {
    let info: String = observer.query(&["INFO", "commandstats"]).await.unwrap();
    let calls = info.lines().find_map(|line| line.strip_prefix("cmdstat_auth:calls=")?.split(',').next()?.parse().ok());
    calls.unwrap_or(0)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rotation_loses_no_hold_or_waiter_and_no_caller_notices() {
    let server = server().await;
    let observer = server.observer().await.unwrap();
    let vault = Vault::new(Reply::Password("first"));
    let lease = Duration::from_secs(3);
    let mut clients = Vec::new();
    for _ in 0..2 {
        let client = Client::connect(config(&server, &vault).watchdog_lease(lease)).await.unwrap();
        client.wait_ready(SOON).await.unwrap();
        clients.push(client);
    }
    let [one, two] = &clients[..] else { unreachable!() };
    let mut held: Vec<LockGuard> = Vec::new();
    for n in 0..20 {
        held.push(Lock::new(one, format!("held:{n}")).acquire().await.unwrap());
    }
    let waiting: Vec<_> = (0..20)
        .map(|n| tokio::spawn(Lock::new(two, format!("held:{n}")).acquire().timeout(SOON * 2).into_future()))
        .collect();
    let busy = tokio::spawn({
        let lock = Lock::new(two, "busy");
        async move {
            let mut rounds = 0;
            let until = tokio::time::Instant::now() + Duration::from_secs(5);
            while tokio::time::Instant::now() < until {
                lock.acquire().await.unwrap().release().await.unwrap();
                rounds += 1;
            }
            rounds
        }
    });
    wait_until(SOON, async || two.stats().waiting >= 20).await;

    // First both passwords are valid. Then the vault returns the new one. Finally only the new one
    // is valid.
    let before = logins(&observer).await;
    server.set_user("app", &[">second"]).await.unwrap();
    vault.replies(Reply::Password("second"));
    wait_until(SOON, async || logins(&observer).await >= before + 4).await;
    server.set_user("app", &["<first"]).await.unwrap();
    // New connections also log in with the new password.
    assert!(server.kill_connections_where(|client| client.user == "app").await.unwrap() >= 4);
    // Without renewals since the change, the hold would be lost after this time.
    tokio::time::sleep(lease).await;

    assert!(held.iter().all(LockGuard::is_held), "renewed over the rotation");
    assert!(busy.await.unwrap() > 100);
    for guard in held {
        guard.release().await.unwrap();
    }
    for waiter in waiting {
        waiter.await.unwrap().unwrap().release().await.unwrap();
    }
    for client in clients {
        client.shutdown(SOON).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_vault_that_is_ahead_of_the_server_costs_no_connection() {
    let server = server().await;
    let observer = server.observer().await.unwrap();
    let vault = Vault::new(Reply::Password("first"));
    let client = client(&server, &vault).await;
    let guard = Lock::new(&client, "a").acquire().await.unwrap();
    let ids = |clients: Vec<redgrid_testkit::ClientInfo>| clients.into_iter().map(|c| c.id).collect::<Vec<_>>();
    let before = ids(server.clients().await.unwrap());
    vault.replies(Reply::Password("second"));
    let tried = logins(&observer).await;
    wait_until(SOON, async || logins(&observer).await >= tried + 4).await;
    Lock::new(&client, "b").acquire().await.unwrap().release().await.unwrap();
    server.set_user("app", &[">second", "<first"]).await.unwrap();
    let tried = logins(&observer).await;
    wait_until(SOON, async || logins(&observer).await >= tried + 2).await;
    assert_eq!(before, ids(server.clients().await.unwrap()));
    guard.release().await.unwrap();
    client.shutdown(SOON).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_logged_out_connection_logs_in_again_and_continues() {
    let server = server().await;
    let vault = Vault::new(Reply::Password("first"));
    // The interval is long, so that only a rejected login can show that the password has changed.
    let config = config(&server, &vault).credentials_interval(Duration::from_secs(3600));
    let client = Client::connect(config).await.unwrap();
    client.wait_ready(SOON).await.unwrap();
    server.set_user("app", &[">second", "<first"]).await.unwrap();
    vault.replies(Reply::Password("second"));
    client.command("RESET").query::<String>().await.unwrap();
    client.command("SET").key("a").unwrap().arg("b").query::<()>().await.unwrap();
    let both = (client.command("GET").key("a").unwrap(), client.command("GET").key("a").unwrap());
    let (one, two) = tokio::join!(both.0.query::<String>(), both.1.query::<String>());
    assert_eq!((one.unwrap().as_str(), two.unwrap().as_str()), ("b", "b"));
    assert!(server.clients().await.unwrap().iter().any(|client| client.user == "app"));
    client.shutdown(SOON).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn while_the_vault_fails_connections_stay_and_new_ones_report_why() {
    let server = server().await;
    for (says, words) in [
        (Reply::Trouble("the vault is sealed"), "the credential provider failed: the vault is sealed"),
        (Reply::Nothing, "the credential provider did not answer within 300ms"),
        (Reply::Panic, "the credential provider panicked"),
    ] {
        let vault = Vault::new(Reply::Password("first"));
        let settings = config(&server, &vault).connect_timeout(Duration::from_millis(300));
        let settings = settings.response_timeout(Duration::from_millis(300)).retries(2);
        let client = Client::connect(settings.clone()).await.unwrap();
        client.wait_ready(SOON).await.unwrap();
        let guard = Lock::new(&client, "a").acquire().await.unwrap();
        vault.replies(says);
        let asked = vault.asked();
        wait_until(SOON, async || vault.asked() >= asked + 2).await;
        Lock::new(&client, "b").acquire().await.unwrap().release().await.unwrap();
        let late = Client::connect(settings).await.unwrap();
        let text = late.wait_ready(Duration::from_secs(1)).await.unwrap_err().to_string();
        assert!(text.contains(words), "{text}");

        server.kill_connections_where(|client| client.user == "app").await.unwrap();
        wait_until(SOON, async || {
            let waited = client.wait_ready(Duration::from_millis(500)).await;
            waited.is_err_and(|error| error.to_string().contains(words))
        })
        .await;
        assert!(guard.is_held(), "within its lease");
        vault.replies(Reply::Password("first"));
        client.wait_ready(SOON).await.unwrap();
        late.wait_ready(SOON).await.unwrap();
        guard.release().await.unwrap();
        for client in [client, late] {
            client.shutdown(SOON).await.unwrap();
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_provider_is_called_once_for_all_connections() {
    let server = server().await;
    let vault = Vault::new(Reply::Password("first"));
    let client = Client::connect(config(&server, &vault).connections_per_node(8)).await.unwrap();
    client.wait_ready(SOON).await.unwrap();
    wait_until(SOON, async || server.clients().await.unwrap().len() == 9).await;
    assert!(vault.asked() >= 9, "each connection calls the provider before it is set up");
    let (asked, began) = (vault.asked(), tokio::time::Instant::now());
    tokio::time::sleep(EVERY * 10).await;
    wait_until(SOON, async || vault.asked() >= asked + 5).await;
    // The vault is called at most twice per interval, and slightly more often because of late
    // timers.
    let (asked, intervals) = (vault.asked() - asked, (began.elapsed().as_millis() / EVERY.as_millis()) as usize);
    assert!(asked <= 2 * intervals + 4, "{asked} calls in {intervals} intervals");
    client.shutdown(SOON).await.unwrap();
}

/// The permissions of a client's user at the sentinels, from docs/operating/security.md and
/// docs/operating/acl.md.
const WATCHER: &str = "+sentinel|master +sentinel|get-master-addr-by-name +sentinel|replicas +sentinel|sentinels +subscribe \
                       +unsubscribe +ping +client|info +client|setname +client|id +info &+switch-master &+selected-slave";

#[tokio::test(flavor = "multi_thread")]
async fn sentinels_have_their_own_login_with_the_published_permissions() {
    for page in [include_str!("../../docs/operating/security.md"), include_str!("../../docs/operating/acl.md")] {
        let text = page.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(text.contains(&WATCHER.split_whitespace().collect::<Vec<_>>().join(" ")), "the published line");
    }
    let rules = format!("on >of-the-sentinels resetchannels -@all {WATCHER}");
    let sentinels = RedisServer::builder().password("nobody").user("watcher", rules);
    let servers = RedisServer::builder().password("of-the-servers");
    let deployment = Sentinels::builder().sentinels(2).replicas(1).server_options(servers).sentinel_options(sentinels);
    let deployment = deployment.start().await.unwrap();
    let config = |login: &str| Config::from_url(format!("{}?{login}", deployment.url())).unwrap();
    let right = config("sentinel_username=watcher&sentinel_password=of-the-sentinels&read_mode=any");
    let client = Client::connect(right).await.unwrap();
    client.wait_ready(SOON).await.unwrap();
    Lock::new(&client, "a").acquire().await.unwrap().release().await.unwrap();
    deployment.fail_over().await.unwrap();
    Lock::new(&client, "a").acquire().timeout(SOON).await.unwrap().release().await.unwrap();
    client.shutdown(SOON).await.unwrap();
    for sentinel in deployment.sentinels() {
        let refusals = sentinel.observer().await.unwrap().cmd(&["ACL", "LOG"]).await.unwrap();
        // The list is empty: the server has refused no login.
        assert_eq!(format!("{refusals:?}"), "array([])");
    }
    // The client does not send the servers' password to the sentinels.
    let client = Client::connect(config("").retries(0)).await.unwrap();
    let text = client.wait_ready(Duration::from_secs(1)).await.unwrap_err().to_string();
    assert!(text.contains("no sentinel") || text.contains("NOAUTH"), "{text}");
}

/// After each rejected subscription, a client pauses, and it keeps its connection. So it does not
/// flood the sentinel with connections.
#[tokio::test(flavor = "multi_thread")]
async fn without_subscribe_at_a_sentinel_a_client_does_not_flood_it() {
    let rules = WATCHER.replace("+subscribe", "");
    let sentinels = RedisServer::builder().user("watcher", format!("on >secret resetchannels -@all {rules}"));
    let deployment = Sentinels::builder().sentinels(1).replicas(0).sentinel_options(sentinels).start().await.unwrap();
    let login = "sentinel_username=watcher&sentinel_password=secret&retry_delay=1s";
    let client = Client::connect(Config::from_url(format!("{}?{login}", deployment.url())).unwrap()).await.unwrap();
    client.wait_ready(SOON).await.unwrap();
    let observer = deployment.sentinels()[0].observer().await.unwrap();
    let received = async || -> u64 {
        let info: String = observer.query(&["INFO", "stats"]).await.unwrap();
        let count = info.lines().find_map(|line| line.strip_prefix("total_connections_received:")?.trim().parse().ok());
        count.unwrap()
    };
    let (before, began) = (received().await, tokio::time::Instant::now());
    tokio::time::sleep(Duration::from_secs(4)).await;
    let (more, seconds) = (received().await - before, began.elapsed().as_secs() + 1);
    assert!(more <= seconds + 2, "{more} connections in {seconds} s");
    Lock::new(&client, "a").acquire().await.unwrap().release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hanging_provider_is_called_as_often_as_a_working_one() {
    let server = server().await;
    let vault = Vault::new(Reply::Password("first"));
    let every = Duration::from_secs(1);
    let config = config(&server, &vault).credentials_interval(every).connect_timeout(Duration::from_millis(200));
    let client = Client::connect(config.connections_per_node(8)).await.unwrap();
    client.wait_ready(SOON).await.unwrap();
    wait_until(SOON, async || server.clients().await.unwrap().len() == 9).await;
    vault.replies(Reply::Nothing);
    let (asked, began) = (vault.asked(), tokio::time::Instant::now());
    tokio::time::sleep(every * 5).await;
    // The vault is called at most twice per interval, whatever the number of connections.
    let (asked, intervals) = (vault.asked() - asked, began.elapsed().as_secs() as usize + 1);
    assert!((1..=2 * intervals).contains(&asked), "{asked} calls in {intervals} intervals");
}

/// A lost connection is noticed immediately, and not only after the vault's reply or timeout.
#[tokio::test(flavor = "multi_thread")]
async fn a_lost_connection_is_noticed_while_the_vault_hangs() {
    let server = server().await;
    let vault = Vault::new(Reply::Password("first"));
    let patience = SOON * 2;
    let client = Client::connect(config(&server, &vault).connect_timeout(patience)).await.unwrap();
    client.wait_ready(SOON).await.unwrap();
    let mut events = client.events();
    vault.replies(Reply::Nothing);
    let asked = vault.asked();
    wait_until(SOON, async || vault.asked() > asked).await;
    server.kill_connections_where(|client| client.name == "redgrid").await.unwrap();
    let noticed =
        async { while !matches!(events.recv().await.expect("the client lives"), ConnectionEvent::Lost { .. }) {} };
    tokio::time::timeout(patience / 2, noticed).await.expect("long before the timeout of the vault");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_sentinels_password_rotates_and_their_silence_is_reported() {
    let sentinels = RedisServer::builder().password("nobody").user("app", "on >first &* +@all");
    let deployment = Sentinels::builder().sentinels(2).replicas(1).sentinel_options(sentinels).start().await.unwrap();
    let addresses = deployment.addrs().into_iter().map(|addr| addr.to_string());
    let vault = Vault::new(Reply::Password("first"));
    let config = Config::sentinel(deployment.master_name(), addresses).unwrap().scan_interval(EVERY);
    let config = config.credentials_interval(EVERY).sentinel_password_from(vault.clone()).unwrap();
    let client = Client::connect(config).await.unwrap();
    client.wait_ready(SOON).await.unwrap();
    assert_eq!(client.health().await.trouble, None);
    for sentinel in deployment.sentinels() {
        sentinel.set_user("app", &[">second"]).await.unwrap();
    }
    vault.replies(Reply::Password("second"));
    let asked = vault.asked();
    wait_until(SOON, async || vault.asked() >= asked + 4).await;
    for sentinel in deployment.sentinels() {
        sentinel.set_user("app", &["<first"]).await.unwrap();
        // New connections also log in with the new password.
        assert!(sentinel.kill_connections_where(|client| client.user == "app").await.unwrap() >= 2);
    }
    deployment.fail_over().await.unwrap();
    Lock::new(&client, "a").acquire().timeout(SOON).await.unwrap().release().await.unwrap();
    wait_until(SOON, async || client.health().await.trouble.is_none()).await;
    for sentinel in deployment.sentinels() {
        sentinel.kill().await.unwrap();
    }
    wait_until(SOON, async || client.health().await.trouble.is_some_and(|why| why.contains("no sentinel reports")))
        .await;
    Lock::new(&client, "a").acquire().await.unwrap().release().await.unwrap();
    assert!(client.health().await.is_ready());
    // A configuration without sentinels is rejected.
    let refused = Config::single("host").unwrap().sentinel_password_from(vault).unwrap_err().to_string();
    assert_eq!(refused, "`sentinel_password` and no `sentinels` do not fit together: it is the login at sentinels");
}

/// A script that fails with this error runs once. The error code shows that a request was not
/// executed only if the server itself sends it.
#[tokio::test(flavor = "multi_thread")]
async fn a_script_that_asks_for_a_login_is_run_once() {
    let server = server().await;
    let client = client(&server, &Vault::new(Reply::Password("first"))).await;
    let script =
        redgrid_script::Script::new("redis.call('INCR', KEYS[1]); return redis.error_reply('NOAUTH at this shop')");
    let told = script.call().key("n").query::<i64>(&client).await.unwrap_err();
    assert!(told.to_string().contains("NOAUTH at this shop"), "{}", told);
    let count: i64 = redgrid_script::Call::command("GET").key("n").query(&client).await.unwrap();
    assert_eq!(count, 1);
}
