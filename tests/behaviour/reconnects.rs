//! Reconnects of many clients after the loss of a server.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use redgrid_core::Client;
use redgrid_testkit::Proxy;
use redgrid_tests::{SOON, client_unready, server};
use tokio::net::TcpListener;

const CLIENTS: usize = 100;

/// By then every client waits as long between attempts as it ever does: the waits double from 50 ms
/// up to 2 s.
const LONGEST_IS_REACHED: Duration = Duration::from_secs(6);

const MEASURED: Duration = Duration::from_secs(8);

/// A place that takes connections, notes when, and closes them.
struct Outage {
    address: std::net::SocketAddr,
    attempts: Arc<Mutex<Vec<Instant>>>,
}

impl Outage {
    async fn start() -> Outage {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let attempts = Arc::new(Mutex::new(Vec::new()));
        let noted = Arc::clone(&attempts);
        tokio::spawn(async move {
            while let Ok((connection, _)) = listener.accept().await {
                noted.lock().unwrap().push(Instant::now());
                drop(connection);
            }
        });
        Outage { address, attempts }
    }

    /// The attempts of a time, and how many of them came within the busiest 50 ms.
    async fn measure(&self) -> (usize, usize) {
        tokio::time::sleep(LONGEST_IS_REACHED).await;
        self.attempts.lock().unwrap().clear();
        tokio::time::sleep(MEASURED).await;
        let attempts = self.attempts.lock().unwrap().clone();
        let within = |from: &Instant| attempts.iter().filter(|at| *at >= from && **at - *from < WINDOW).count();
        (attempts.len(), attempts.iter().map(within).max().unwrap_or_default())
    }
}

const WINDOW: Duration = Duration::from_millis(50);

fn assert_spread((attempts, busiest): (usize, usize)) {
    assert!(attempts >= 4 * CLIENTS, "{attempts} attempts in {MEASURED:?}");
    assert!(busiest * 20 <= attempts, "{busiest} of {attempts} attempts came within {WINDOW:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_that_lost_their_server_together_do_not_come_back_together() {
    let (server, outage) = (server().await, Outage::start().await);
    let proxy = Proxy::to(&server).await.unwrap();
    let url = server.url_via(proxy.addr());
    let clients: Vec<Client> = join_all((0..CLIENTS).map(|_| client_unready(&url, |config| config))).await;
    for client in &clients {
        client.wait_ready(SOON).await.unwrap();
    }
    proxy.redirect(outage.address);
    proxy.cut_all();
    assert_spread(outage.measure().await);
    // All of them come back.
    proxy.redirect(server.addr());
    for client in &clients {
        client.wait_ready(SOON).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_that_never_had_a_server_do_not_come_together() {
    let outage = Outage::start().await;
    let url = format!("redis://{}", outage.address);
    let _clients: Vec<Client> = join_all((0..CLIENTS).map(|_| client_unready(&url, |config| config))).await;
    assert_spread(outage.measure().await);
}
