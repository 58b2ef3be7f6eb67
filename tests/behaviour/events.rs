//! Connection events and the health of a client.

use std::time::{Duration, Instant};

use redgrid_core::{Client, Config, ConnectionEvent, ConnectionEvents, DeploymentKind, NodeId, NodePart};
use redgrid_locks::Lock;
use redgrid_testkit::{RedisServer, wait_until};
use redgrid_tests::{SOON, client, client_unready, client_with, listening, server};

const MS: Duration = Duration::from_millis(1);

async fn next(events: &mut ConnectionEvents) -> ConnectionEvent {
    tokio::time::timeout(SOON, events.recv()).await.expect("an event in time").expect("the client lives")
}

fn id(server: &RedisServer) -> NodeId {
    NodeId(server.addr().to_string().into())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restarted_server_is_lost_connected_and_then_a_gap() {
    let server = server().await;
    let client = client(&server).await;
    listening(&server, &client).await;
    // The test waits until the subscription is active at the client, and not only at the server.
    wait_until(SOON, async || client.health().await.nodes[0].subscribed == 1).await;
    let mut events = client.events();
    for _ in 0..3 {
        server.restart_empty().await.unwrap();
        let mut told = vec![next(&mut events).await];
        while told.last() != Some(&ConnectionEvent::Gap { node: id(&server) }) {
            told.push(next(&mut events).await);
        }
        // Each restart yields "lost" and "connected", perhaps twice. On a busy machine, the event
        // of the new connection may arrive after its handshake, which is then repeated.
        let pairs = told[..told.len() - 1].chunks(2);
        assert!(pairs.len() >= 1, "{told:?}");
        for pair in pairs {
            let [ConnectionEvent::Lost { node, why }, connected] = pair else { panic!("{told:?}") };
            assert!(*node == id(&server) && !why.is_empty(), "{told:?}");
            assert_eq!(*connected, ConnectionEvent::Connected { node: id(&server) }, "{told:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_subscriber_is_a_gap_and_nothing_else() {
    let server = server().await;
    let client = client(&server).await;
    listening(&server, &client).await;
    wait_until(SOON, async || client.health().await.nodes[0].subscribed == 1).await;
    let mut events = client.events();
    for _ in 0..3 {
        let killed = server.kill_connections_where(|client| client.name.ends_with(":subscriber")).await.unwrap();
        assert_eq!(killed, 1);
        assert_eq!(next(&mut events).await, ConnectionEvent::Gap { node: id(&server) });
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slow_reader_learns_how_many_events_it_missed() {
    let server = server().await;
    let client = client(&server).await;
    let (mut slow, mut quick) = (client.events(), client.events());
    let mut told = 0;
    // Each iteration yields two events.
    for _ in 0..130 {
        server.kill_connections_where(|client| client.name == "redgrid").await.unwrap();
        told += 1;
        while next(&mut quick).await != (ConnectionEvent::Connected { node: id(&server) }) {
            told += 1;
        }
    }
    client.shutdown(SOON).await.unwrap();
    while quick.recv().await.is_some() {
        told += 1;
    }
    let Some(ConnectionEvent::Missed { count }) = slow.recv().await else { panic!("expected `Missed` first") };
    let mut kept = 0;
    while let Some(event) = slow.recv().await {
        assert!(!matches!(event, ConnectionEvent::Missed { .. }));
        kept += 1;
    }
    assert!(kept == 256 && kept + count == told, "{kept} kept, {count} missed of {told}");
}

#[tokio::test(flavor = "multi_thread")]
async fn receivers_end_with_their_client() {
    let server = server().await;
    let client = client(&server).await;
    let mut events = client.events();
    client.shutdown(SOON).await.unwrap();
    while tokio::time::timeout(SOON, events.recv()).await.expect("an end in time").is_some() {}
    assert!(client.events().recv().await.is_none());
    let health = client.health().await;
    assert!(health.is_shut_down && !health.is_ready());
}

#[tokio::test(flavor = "multi_thread")]
async fn health_reports_holds_and_responding_nodes() {
    let server = server().await;
    let client = client(&server).await;
    listening(&server, &client).await;
    let guard = Lock::new(&client, "a").acquire().await.unwrap();
    let waiting = tokio::spawn(Lock::new(&client, "a").acquire().into_future());
    wait_until(SOON, async || client.health().await.waiting == 1).await;
    let health = client.health().await;
    assert!(health.is_ready() && health.held == 1, "{health:?}");
    let [node] = &health.nodes[..] else { panic!("{health:?}") };
    assert_eq!((&node.node, node.part, node.connected, &node.trouble), (&id(&server), NodePart::Primary, true, &None));
    let info: String = server.observer().await.unwrap().query(&["INFO", "server"]).await.unwrap();
    assert!(info.contains(&format!("run_id:{}", node.run_id.as_deref().unwrap())));
    assert!(node.round_trip.unwrap() < SOON);
    // On one machine the clock offset is wrong by at most the latency of the handshake.
    assert!(node.clock_offset_micros.unwrap().unsigned_abs() < 1_000_000, "{health:?}");
    // The subscription of the waiting task is confirmed soon.
    wait_until(SOON, async || {
        let health = client.health().await;
        health.nodes.iter().all(|node| node.subscribed >= 1 && node.channels >= node.subscribed)
    })
    .await;
    let topology = client.topology();
    assert_eq!(topology.kind, DeploymentKind::Single);
    assert!(matches!(&topology.shards[..], [shard] if shard.primary == id(&server) && shard.slots.is_empty()));
    guard.release().await.unwrap();
    waiting.await.unwrap().unwrap().release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn health_answers_in_time_whatever_the_server_does() {
    let server = server().await;
    let client = client_with(&server.url(), |config: Config| config.response_timeout(SOON)).await;
    server.pause().await.unwrap();
    let began = Instant::now();
    let health = client.health().timeout(200 * MS).await;
    assert!(began.elapsed() < SOON / 2 && !health.is_ready(), "{health:?}");
    assert!(health.nodes[0].trouble.as_ref().unwrap().contains("200ms"), "{health:?}");
    server.resume().await.unwrap();
    assert!(client.health().await.is_ready());
    server.kill().await.unwrap();
    let is_lost = async |client: &Client| {
        let node = &client.health().await.nodes[0];
        !node.connected && node.trouble.is_some()
    };
    wait_until(SOON, async || is_lost(&client).await).await;
    // The server is not reachable from the beginning.
    let late = client_unready(&server.url(), |config| config).await;
    wait_until(SOON, async || is_lost(&late).await).await;
    // Before the first attempt, the reported error is that no attempt was made.
    let is_refused = async || {
        let trouble = late.health().await.nodes[0].trouble.clone();
        trouble.is_some_and(|trouble| trouble.contains("refused"))
    };
    wait_until(SOON, is_refused).await;
}
