//! From an address to a connection: names with several addresses, resolvers, dialers, proxies, and
//! mapped addresses.

use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use redgrid_core::config::{Address, Dialer, Resolver, Stream};
use redgrid_core::{Client, Config};
use redgrid_locks::Lock;
use redgrid_testkit::{RedisServer, wait_until};
use redgrid_tests::{SOON, server};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// An address reserved for documentation (RFC 5737). It does not reply, or this machine refuses to
/// connect to it.
const SILENT: &str = "192.0.2.1:6379";

/// A resolver that returns the same addresses for every name, and records the names.
struct Fixed {
    addresses: Arc<Mutex<Vec<SocketAddr>>>,
    asked: Arc<AtomicU64>,
}

#[async_trait]
impl Resolver for Fixed {
    async fn resolve(&self, host: &str, _port: u16) -> io::Result<Vec<SocketAddr>> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        match host {
            "db.test" => Ok(self.addresses.lock().unwrap().clone()),
            _ => Err(io::Error::other("no such name here")),
        }
    }
}

async fn works(client: &Client) {
    client.wait_ready(SOON).await.unwrap();
    Lock::new(client, "a").acquire().timeout(SOON).await.unwrap().release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_with_a_silent_address_is_reached_at_another_and_followed() {
    let (one, two) = (server().await, server().await);
    let addresses = Arc::new(Mutex::new(vec![SILENT.parse().unwrap(), one.addr()]));
    let asked = Arc::new(AtomicU64::new(0));
    let resolver = Fixed { addresses: Arc::clone(&addresses), asked: Arc::clone(&asked) };
    let client = Client::connect(Config::single("db.test").unwrap().resolver(resolver)).await.unwrap();
    works(&client).await;
    let before = asked.load(Ordering::SeqCst);
    assert!(before >= 2, "one resolution for each connection");
    // When the connection is lost, the name resolves to another address.
    *addresses.lock().unwrap() = vec![two.addr()];
    one.kill().await.unwrap();
    wait_until(SOON, async || {
        two.clients().await.unwrap().iter().filter(|client| client.name.starts_with("redgrid")).count() >= 2
    })
    .await;
    works(&client).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unknown_host_name_is_reported() {
    let resolver = Fixed { addresses: Arc::default(), asked: Arc::default() };
    let client = Client::connect(Config::single("db.other").unwrap().resolver(resolver)).await.unwrap();
    let trouble = async || client.health().timeout(Duration::from_millis(100)).await.nodes[0].trouble.clone();
    let says = "the name `db.other` cannot be resolved: no such name here";
    wait_until(SOON, async || trouble().await.is_some_and(|trouble| trouble.contains(says))).await;
}

/// A dialer that connects to the same address whatever is requested, and counts the connections.
struct Tunnel {
    to: SocketAddr,
    dialed: Arc<Mutex<Vec<String>>>,
}

#[async_trait]
impl Dialer for Tunnel {
    async fn dial(&self, host: &str, port: u16) -> io::Result<Box<dyn Stream>> {
        self.dialed.lock().unwrap().push(format!("{host}:{port}"));
        Ok(Box::new(TcpStream::connect(self.to).await?))
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dialer_opens_all_connections() {
    let server = server().await;
    let dialed = Arc::new(Mutex::new(Vec::new()));
    let dialer = Tunnel { to: server.addr(), dialed: Arc::clone(&dialed) };
    let client = Client::connect(Config::single("nowhere.test:7").unwrap().dialer(dialer)).await.unwrap();
    works(&client).await;
    let dialed = dialed.lock().unwrap().clone();
    assert!(dialed.len() >= 2 && dialed.iter().all(|to| to == "nowhere.test:7"), "{dialed:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn tls_is_spoken_through_a_dialer_with_the_name_of_the_server() {
    let server = match RedisServer::builder().tls().start().await {
        Ok(server) => server,
        Err(error) => return println!("SKIPPED: {error}"),
    };
    let tls = server.tls().unwrap();
    let trusted = redgrid_core::config::Tls::new().ca_file(tls.ca_file());
    let plain = Config::from_url(server.tls_url().unwrap()).unwrap().tls(trusted);
    let dialer = Tunnel { to: tls.addr(), dialed: Arc::default() };
    works(&Client::connect(plain.dialer(dialer)).await.unwrap()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn addresses_of_a_cluster_behind_nat_are_mapped() {
    let cluster = redgrid_testkit::Cluster::start(3, 0).await.unwrap();
    let seed = cluster.addrs()[0];
    // The client reaches each node by a mapped address; it cannot use the addresses that nodes
    // announce.
    let mut map = Vec::new();
    let mut doors = Vec::new();
    for addr in cluster.addrs() {
        let door = redgrid_testkit::Proxy::start(addr).await.unwrap();
        map.push((Address::new(addr.ip().to_string(), addr.port()), Address::new("127.0.0.1", door.addr().port())));
        doors.push(door);
    }
    let config = Config::cluster([seed.to_string()]).unwrap().address_map(map);
    let client = Client::connect(config).await.unwrap();
    client.wait_ready(SOON).await.unwrap();
    for n in 0..32 {
        Lock::new(&client, format!("a:{n}")).acquire().timeout(SOON).await.unwrap().release().await.unwrap();
    }
    assert!(doors.iter().filter(|door| door.counts().commands > 0).count() >= 3);
}

/// A minimal SOCKS5 proxy that requires a user and a password.
async fn socks_proxy(accept: bool, seen: Arc<Mutex<Vec<String>>>, to: SocketAddr) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut client, _)) = listener.accept().await {
            let seen = Arc::clone(&seen);
            tokio::spawn(async move {
                let mut words = [0; 2];
                client.read_exact(&mut words).await?;
                let mut methods = vec![0; usize::from(words[1])];
                client.read_exact(&mut methods).await?;
                client.write_all(&[5, 2]).await?;
                client.read_exact(&mut words).await?;
                let mut user = vec![0; usize::from(words[1])];
                client.read_exact(&mut user).await?;
                let mut password = vec![0; usize::from(client.read_u8().await?)];
                client.read_exact(&mut password).await?;
                let is_right = accept && user == b"app" && password == b"secret";
                client.write_all(&[1, u8::from(!is_right)]).await?;
                let mut head = [0; 5];
                client.read_exact(&mut head).await?;
                let mut host = vec![0; usize::from(head[4])];
                client.read_exact(&mut host).await?;
                let port = client.read_u16().await?;
                seen.lock().unwrap().push(format!("{}:{port}", String::from_utf8_lossy(&host)));
                let mut server = TcpStream::connect(to).await?;
                client.write_all(&[5, 0, 0, 1, 127, 0, 0, 1, 0, 0]).await?;
                tokio::io::copy_bidirectional(&mut client, &mut server).await.map(drop)
            });
        }
    });
    address
}

#[tokio::test(flavor = "multi_thread")]
async fn a_socks_proxy_opens_all_connections_and_its_refusals_are_reported() {
    let server = server().await;
    let seen = Arc::new(Mutex::new(Vec::new()));
    let proxy = socks_proxy(true, Arc::clone(&seen), server.addr()).await;
    let url = format!("redis://db.test?socks_proxy={proxy}&socks_username=app&socks_password=secret");
    let config = Config::from_url(&url).unwrap();
    assert!(!format!("{config:?}").contains("secret"));
    works(&Client::connect(config).await.unwrap()).await;
    assert!(seen.lock().unwrap().iter().all(|to| to == "db.test:6379"), "the proxy resolves the name");

    let refusing = socks_proxy(false, seen, server.addr()).await;
    let config = Config::from_url(url.replace(&proxy.to_string(), &refusing.to_string())).unwrap();
    let client = Client::connect(config).await.unwrap();
    let error = client.wait_ready(Duration::from_millis(500)).await.unwrap_err().to_string();
    assert!(error.contains("refuses user or password") && !error.contains("secret"), "{error}");
}
