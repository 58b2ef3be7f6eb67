//! Encrypted connections: trust, names, and errors.

use std::time::Duration;

use redgrid_core::config::Tls;
use redgrid_core::{Client, Config};
use redgrid_locks::Lock;
use redgrid_testkit::{Cluster, RedisServer, Replicated, Sentinels, ServerBuilder, StartError, wait_until};
use redgrid_tests::SOON;

/// A timeout long enough for an error to arrive.
const A_WHILE: Duration = Duration::from_secs(3);

/// Starts a server with TLS. Returns `None`, and prints a line, if the server program does not
/// support TLS.
async fn start(builder: ServerBuilder) -> Option<RedisServer> {
    match builder.start().await {
        Err(error @ StartError::NoTls { .. }) => {
            eprintln!("SKIPPED {}: {error}", std::thread::current().name().unwrap_or_default());
            None
        }
        started => Some(started.unwrap()),
    }
}

fn config(server: &RedisServer, tls: Tls) -> Config {
    Config::from_url(server.tls_url().unwrap()).unwrap().tls(tls)
}

/// Options that trust the authority which signed the server's certificate.
fn trusting(server: &RedisServer) -> Tls {
    Tls::new().ca_file(server.tls().unwrap().ca_file())
}

async fn connected(config: Config) -> Client {
    let client = Client::connect(config).await.unwrap();
    client.wait_ready(SOON).await.unwrap();
    client
}

/// Returns the error text of a failed connection.
async fn failure(config: Config) -> String {
    let client = Client::connect(config).await.unwrap();
    let text = client.wait_ready(A_WHILE).await.expect_err("a refused connection").to_string();
    let _ = client.shutdown(A_WHILE).await;
    text
}

/// Returns the error text with which the creation of the client fails.
async fn refused(config: Config) -> String {
    Client::connect(config).await.expect_err("a refused configuration").to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lock_passes_between_clients_over_tls() {
    let Some(server) = start(RedisServer::builder().tls().password("a/b@c")).await else { return };
    let url = format!("{}?tls_ca_file={}", server.tls_url().unwrap(), server.tls().unwrap().ca_file().display());
    let one = connected(Config::from_url(&url).unwrap()).await;
    let two = connected(config(&server, trusting(&server))).await;
    let guard = Lock::new(&one, "a").acquire().await.unwrap();
    let waiter = tokio::spawn(Lock::new(&two, "a").acquire().timeout(SOON).into_future());
    wait_until(SOON, async || two.stats().channels > 0).await;
    guard.release().await.unwrap();
    waiter.await.unwrap().unwrap().release().await.unwrap();
    for client in [one, two] {
        client.shutdown(SOON).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_certificate_of_an_unknown_authority_is_rejected_clearly() {
    let Some(server) = start(RedisServer::builder().tls()).await else { return };
    let Some(stranger) = start(RedisServer::builder().tls()).await else { return };
    let text = failure(config(&server, trusting(&stranger))).await;
    assert!(text.contains("not signed by a trusted authority") && text.contains("tls_ca_file"), "{text}");
    // No authority of the system signed the certificate either. A system without authorities is an
    // immediate error.
    match Client::connect(Config::from_url(server.tls_url().unwrap()).unwrap()).await {
        Ok(client) => {
            assert!(client.wait_ready(A_WHILE).await.unwrap_err().to_string().contains("not signed by a trusted"))
        }
        Err(error) => assert!(error.to_string().contains("authorities that this system trusts"), "{}", error),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_name_in_the_certificate_is_checked_and_may_differ_from_the_host() {
    let Some(server) = start(RedisServer::builder().tls().config("bind 127.0.0.1 127.0.0.2")).await else { return };
    let there = |tls| {
        let url = server.tls_url().unwrap().replace("127.0.0.1", "127.0.0.2");
        Config::from_url(&url).unwrap().tls(tls)
    };
    let text = failure(there(trusting(&server))).await;
    assert!(text.contains("not for the expected name") && text.contains("`127.0.0.1`, `localhost`"), "{text}");
    let text = failure(config(&server, trusting(&server).server_name("elsewhere"))).await;
    assert!(text.contains("not for the expected name") && text.contains("tls_server_name"), "{text}");
    connected(there(trusting(&server).server_name("localhost"))).await.shutdown(SOON).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_presents_its_certificate_on_request() {
    let Some(server) = start(RedisServer::builder().tls_client_certificates()).await else { return };
    let tls = server.tls().unwrap();
    let shown = trusting(&server).client_certificate(tls.client_certificate_file(), tls.client_key_file());
    connected(config(&server, shown)).await.shutdown(SOON).await.unwrap();
    let client = Client::connect(config(&server, trusting(&server))).await.unwrap();
    // The server refuses after the handshake, and may cut the connection before the client has read
    // the message. So the test repeats the attempt.
    redgrid_testkit::wait_until(SOON, async || {
        let error = client.wait_ready(Duration::from_millis(50)).await.expect_err("a refused connection");
        error.to_string().contains("the server asks for a client certificate")
    })
    .await;
    client.shutdown(SOON).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn both_sides_must_agree_to_speak_tls() {
    let Some(server) = start(RedisServer::builder().tls()).await else { return };
    let plain = server.tls_url().unwrap().replace("rediss:", "redis:");
    failure(Config::from_url(&plain).unwrap()).await;
    let encrypted = Config::from_url(server.url()).unwrap().tls(trusting(&server));
    let text = failure(encrypted).await;
    assert!(text.contains("TLS"), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn files_that_can_not_be_used_are_named_when_the_client_is_built() {
    let Some(server) = start(RedisServer::builder().tls()).await else { return };
    let (folder, tls) = (server.folder(), server.tls().unwrap());
    let write = |name: &str, text: &str| {
        std::fs::write(folder.join(name), text).unwrap();
        folder.join(name)
    };
    let (empty, garbage) = (write("empty.pem", ""), write("garbage.pem", "-----BEGIN CERTIFICATE-----\n!!secret!!\n"));
    let no_certificate = write("damaged.pem", "-----BEGIN CERTIFICATE-----\nc2VjcmV0\n-----END CERTIFICATE-----\n");
    let missing = folder.join("missing.pem");
    for path in [&empty, &garbage, &no_certificate, &missing] {
        let text = refused(config(&server, Tls::new().ca_file(path))).await;
        assert!(text.contains("tls_ca_file") && text.contains(path.to_str().unwrap()), "{text}");
        assert!(!text.contains("secret"), "{text}");
        let text = refused(config(&server, trusting(&server).client_certificate(path, tls.client_key_file()))).await;
        assert!(text.contains(path.to_str().unwrap()), "{text}");
        let bad_key = trusting(&server).client_certificate(tls.client_certificate_file(), path);
        let text = refused(config(&server, bad_key)).await;
        assert!(text.contains("tls_key_file") && text.contains(path.to_str().unwrap()), "{text}");
    }
    let not_its_key = trusting(&server).client_certificate(tls.client_certificate_file(), folder.join("server.key"));
    let text = refused(config(&server, not_its_key)).await;
    assert!(text.contains("server.key") && text.contains("belong to the certificate"), "{text}");
    let text = refused(config(&server, trusting(&server).server_name("no name"))).await;
    assert!(text.contains("tls_server_name") && text.contains("no name"), "{text}");
}

/// Returns whether servers support TLS, both for clients and among the nodes of a deployment.
async fn deployments_take_tls() -> bool {
    let Some(server) = start(RedisServer::builder().tls()).await else { return false };
    let version = server.binary().version();
    if version.major < 7 {
        eprintln!("SKIPPED {}: {version} is too old", std::thread::current().name().unwrap_or_default());
    }
    version.major >= 7
}

/// Passes a lock from one client to another, which waits for it.
async fn passes_between_clients(url: &str, server: &RedisServer) -> [Client; 2] {
    let config = || Config::from_url(url).unwrap().tls(trusting(server));
    let (one, two) = (connected(config()).await, connected(config()).await);
    let guard = Lock::new(&one, "a").acquire().await.unwrap();
    let waiter = tokio::spawn(Lock::new(&two, "a").acquire().timeout(SOON).into_future());
    wait_until(SOON, async || two.stats().channels == 1).await;
    guard.release().await.unwrap();
    waiter.await.unwrap().unwrap().release().await.unwrap();
    [one, two]
}

#[tokio::test(flavor = "multi_thread")]
async fn a_primary_and_its_replicas_are_reached_over_tls() {
    if !deployments_take_tls().await {
        return;
    }
    let deployment = Replicated::start_with(1, RedisServer::builder().tls().password("a/b@c")).await.unwrap();
    let addrs: Vec<String> = deployment.addrs().iter().map(ToString::to_string).collect();
    let url = format!("rediss-master-slave://:a%2Fb%40c@{}?read_mode=any", addrs.join(","));
    for client in passes_between_clients(&url, deployment.primary()).await {
        // The client reads from the replica, too.
        wait_until(SOON, async || client.topology().shards.iter().any(|shard| shard.replicas.len() == 1)).await;
        client.shutdown(SOON).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn sentinels_and_the_primaries_they_name_are_reached_over_tls() {
    if !deployments_take_tls().await {
        return;
    }
    let options = RedisServer::builder().tls();
    let deployment = Sentinels::builder().sentinels(1).replicas(1).server_options(options).start().await.unwrap();
    let clients = passes_between_clients(&deployment.url(), &deployment.servers()[0]).await;
    deployment.fail_over().await.unwrap();
    for client in clients {
        Lock::new(&client, "b").acquire().await.unwrap().release().await.unwrap();
        client.shutdown(SOON).await.unwrap();
    }
    let stranger = RedisServer::builder().tls().start().await.unwrap();
    let text = failure(Config::from_url(deployment.url()).unwrap().tls(trusting(&stranger))).await;
    assert!(text.contains("sentinel") && text.contains("not signed by a trusted authority"), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_nodes_of_a_cluster_are_reached_over_tls() {
    if !deployments_take_tls().await {
        return;
    }
    let cluster = Cluster::builder().server_options(RedisServer::builder().tls()).start().await.unwrap();
    let clients = passes_between_clients(&cluster.url(), &cluster.nodes()[0]).await;
    let slot = cluster.slot_of("a").await.unwrap();
    let owner = cluster.primary_of(slot).await.unwrap();
    let target = cluster.nodes()[..3].iter().find(|node| node.addr() != owner.addr()).unwrap();
    cluster.migrate_slot(slot, target).await.unwrap();
    cluster.fail_over(target).await.unwrap();
    for client in clients {
        Lock::new(&client, "a").acquire().await.unwrap().release().await.unwrap();
        client.shutdown(SOON).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn cluster_nodes_are_checked_by_their_announced_host_or_the_set_name() {
    // The only node of a cluster. To clients it announces its TLS port, and the address that is set
    // here.
    let node = RedisServer::builder()
        .tls()
        .config("cluster-enabled yes")
        .config("tls-cluster yes")
        .config("cluster-announce-ip 127.0.0.2")
        .config("bind 127.0.0.1 127.0.0.2");
    let Some(node) = start(node).await else { return };
    let observer = node.observer().await.unwrap();
    observer.cmd(&["CLUSTER", "ADDSLOTSRANGE", "0", "16383"]).await.unwrap();
    redgrid_testkit::wait_until(SOON, async || {
        observer.query::<String>(&["CLUSTER", "INFO"]).await.unwrap().contains("cluster_state:ok")
    })
    .await;
    let config = |tls| Config::cluster([node.tls().unwrap().addr().to_string()]).unwrap().tls(tls);
    // The certificate contains the seed address, but not the address that the node announces.
    let text = failure(config(trusting(&node))).await;
    assert!(text.contains("not for the expected name") && text.contains("`127.0.0.1`, `localhost`"), "{text}");
    let client = connected(config(trusting(&node).server_name("localhost"))).await;
    Lock::new(&client, "a").acquire().await.unwrap().release().await.unwrap();
    client.shutdown(SOON).await.unwrap();
}
