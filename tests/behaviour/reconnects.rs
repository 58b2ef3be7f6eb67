//! Reconnects of many clients after the loss of a server.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::join_all;
use redgrid_core::Client;
use redgrid_core::config::{Dialer, Stream};
use redgrid_testkit::Proxy;
use redgrid_tests::{SOON, client_unready, server};
use tokio::net::TcpStream;
use tokio::time::Instant;

const CLIENTS: usize = 100;

/// After this time, the pauses between attempts have reached their maximum. They double from 50 ms
/// to 2 s.
const LONGEST_IS_REACHED: Duration = Duration::from_secs(6);

const MEASURED: Duration = Duration::from_secs(8);

/// A network that can fail. During an outage, attempts are recorded and refused.
///
/// During the outage the runtime's clock is paused, and only the pauses of clients take time. So
/// delays of the machine are not measured.
#[derive(Clone, Default)]
struct Outage {
    is_down: Arc<AtomicBool>,
    attempts: Arc<Mutex<Vec<Instant>>>,
}

#[async_trait]
impl Dialer for Outage {
    async fn dial(&self, host: &str, port: u16) -> io::Result<Box<dyn Stream>> {
        if self.is_down.load(Ordering::SeqCst) {
            self.attempts.lock().unwrap().push(Instant::now());
            return Err(io::ErrorKind::ConnectionRefused.into());
        }
        Ok(Box::new(TcpStream::connect((host, port)).await?))
    }
}

impl Outage {
    fn begin(&self) {
        tokio::time::pause();
        self.is_down.store(true, Ordering::SeqCst);
    }

    fn end(&self) {
        self.is_down.store(false, Ordering::SeqCst);
        tokio::time::resume();
    }

    async fn clients(&self, url: &str) -> Vec<Client> {
        join_all((0..CLIENTS).map(|_| client_unready(url, |config| config.dialer(self.clone())))).await
    }

    /// Returns the number of attempts, and how many of them were in the busiest 50 ms.
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

#[tokio::test]
async fn clients_that_lost_a_server_together_reconnect_at_different_times() {
    let (server, outage) = (server().await, Outage::default());
    let proxy = Proxy::to(&server).await.unwrap();
    let clients = outage.clients(&server.url_via(proxy.addr())).await;
    for client in &clients {
        client.wait_ready(SOON).await.unwrap();
    }
    outage.begin();
    proxy.cut_all();
    assert_spread(outage.measure().await);
    // All clients reconnect.
    outage.end();
    for client in &clients {
        client.wait_ready(SOON).await.unwrap();
    }
}

#[tokio::test]
async fn clients_without_a_server_connect_at_different_times() {
    let outage = Outage::default();
    outage.begin();
    let _clients = outage.clients("redis://127.0.0.1:1").await;
    assert_spread(outage.measure().await);
}
