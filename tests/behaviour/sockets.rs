//! A server on this machine, through its Unix socket.

use std::time::Duration;

use redgrid_core::{Client, Config};
use redgrid_locks::Lock;
use redgrid_testkit::{RedisServer, wait_until};
use redgrid_tests::{SOON, client};

#[tokio::test(flavor = "multi_thread")]
async fn a_lock_passes_between_a_client_at_the_socket_and_one_at_the_port() {
    let server = RedisServer::builder().socket().password("secret").start().await.unwrap();
    let path = server.socket().unwrap();
    let config = Config::unix(&path).unwrap().credentials(None, "secret").database(2);
    let node = redgrid_core::server(&config).unwrap();
    assert_eq!(node.id().to_string(), format!("unix:{}", path.display()));
    node.close().await;
    let one = Client::connect(config.database(0)).await.unwrap();
    one.wait_ready(SOON).await.unwrap();
    let two = client(&server).await;
    let guard = Lock::new(&one, "a").acquire().await.unwrap();
    let waiter = tokio::spawn(Lock::new(&two, "a").acquire().timeout(SOON).into_future());
    wait_until(SOON, async || two.stats().channels > 0).await;
    guard.release().await.unwrap();
    let guard = waiter.await.unwrap().unwrap();
    // A restart behind the socket is handled like one behind a port.
    guard.release().await.unwrap();
    server.restart_empty().await.unwrap();
    Lock::new(&one, "a").acquire().timeout(SOON).await.unwrap().release().await.unwrap();
    one.shutdown(SOON).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_socket_is_reported() {
    let client = Client::connect("redis+unix:///tmp/redgrid-no-such-socket").await.unwrap();
    let text = client.wait_ready(Duration::from_secs(1)).await.unwrap_err().to_string();
    assert!(text.contains("No such file"), "{text}");
}
