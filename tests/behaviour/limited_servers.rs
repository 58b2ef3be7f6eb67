//! Servers and proxies without optional commands, or without subscriptions.

use std::future::IntoFuture;
use std::time::Duration;

use redgrid_core::Client;
use redgrid_locks::Lock;
use redgrid_testkit::{Proxy, RedisServer, wait_until};
use redgrid_tests::{SOON, client_with, server};

/// The number of connections of one client to one node: for requests and for subscriptions.
const CONNECTIONS: u64 = 2;

/// A server with renamed commands, behind a proxy that counts connections.
struct Limited {
    server: RedisServer,
    proxy: Proxy,
}

impl Limited {
    /// Starts a server that lacks `command`.
    async fn without(command: &str) -> Limited {
        let server = RedisServer::builder().config(format!("rename-command {command} \"\"")).start().await.unwrap();
        Limited::over(server).await
    }

    async fn over(server: RedisServer) -> Limited {
        let proxy = Proxy::to(&server).await.unwrap();
        Limited { server, proxy }
    }

    async fn client(&self) -> Client {
        client_with(&self.server.url_via(self.proxy.addr()), |config| config).await
    }

    /// One waiter after another waits for a held lock and acquires it. Each one subscribes and
    /// unsubscribes.
    async fn contend(&self, client: &Client, rounds: usize) {
        let other = client_with(&self.server.url(), |config| config).await;
        for round in 0..rounds {
            let name = format!("contended:{round}");
            let held = Lock::new(&other, name.as_str()).acquire().await.unwrap();
            let waiting = tokio::spawn(Lock::new(client, name.as_str()).acquire().timeout(SOON).into_future());
            wait_until(SOON, async || client.stats().channels > 0).await;
            // Longer than the pause before a failed subscription is retried.
            tokio::time::sleep(Duration::from_millis(300)).await;
            held.release().await.unwrap();
            waiting.await.unwrap().unwrap().release().await.unwrap();
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn subscriptions_work_without_the_client_command() {
    let limited = Limited::without("CLIENT").await;
    let client = limited.client().await;
    wait_until(SOON, async || client.health().await.nodes[0].subscribed == 1).await;
    limited.contend(&client, 5).await;
    assert_eq!(limited.proxy.counts().accepted, CONNECTIONS);
    let health = client.health().await;
    assert_eq!((health.nodes[0].channels, health.nodes[0].subscribed), (1, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_does_not_know_subscribe_keeps_its_connections_and_waiters_poll() {
    let limited = Limited::without("SUBSCRIBE").await;
    let client = limited.client().await;
    limited.contend(&client, 5).await;
    assert_eq!(limited.proxy.counts().accepted, CONNECTIONS);
    assert!(client.health().await.is_ready());
}

#[tokio::test(flavor = "multi_thread")]
async fn without_subscribe_connections_stay_and_waiters_poll() {
    for rules in [&["-subscribe"][..], &["resetchannels"], &["resetchannels", "-client"], &["-client"], &["-ping"]] {
        let server = server().await;
        server.set_user("app", &["on", ">secret", "~*", "&*", "+@all"]).await.unwrap();
        server.set_user("app", rules).await.unwrap();
        let limited = Limited::over(server).await;
        let url = limited.server.url_for("app", "secret");
        let url = url.replace(&limited.server.addr().to_string(), &limited.proxy.addr().to_string());
        let client = client_with(&url, |config| config).await;
        limited.contend(&client, 3).await;
        assert_eq!(limited.proxy.counts().accepted, CONNECTIONS, "{rules:?}");
    }
}
