//! Barriers and double barriers that lose participants, rounds, replies or permissions.

use bytes::Bytes;
use redgrid_barrier::{Barrier, BarrierError, DoubleBarrier, Failure};
use redgrid_core::Client;
use redgrid_testkit::{Fault, Observer, Proxy, RedisServer, wait_until};
use redgrid_tests::{SOON, client, client_with, server};
use tokio::time::Instant;

use crate::barrier::{MS, count, leased, until};
use crate::together::calls;

const WAITING: &str = "redgrid_barrier_waiting:{a}";
const DOUBLE: &str = "redgrid_double_barrier:{a}";
const INSIDE: &str = "redgrid_double_barrier_inside:{a}";

/// Returns a client without permission to publish or subscribe.
pub(crate) async fn mute(server: &RedisServer) -> Client {
    let rules = ["ACL", "SETUSER", "mute", "on", ">secret", "~*", "resetchannels", "+@all"];
    server.observer().await.unwrap().cmd(&rules).await.unwrap();
    client_with(&server.url_for("mute", "secret"), |config| config).await
}

/// Restores the former values of keys in one step, as a failover does that lost later writes.
pub(crate) async fn put_back(observer: &Observer, former: &[(&str, Bytes)]) {
    let text = "for i, key in ipairs(KEYS) do redis.call('RESTORE', key, 600000, ARGV[i], 'REPLACE') end";
    let count = former.len().to_string();
    let mut command: Vec<&[u8]> = vec![b"EVAL", text.as_bytes(), count.as_bytes()];
    command.extend(former.iter().map(|(key, _)| key.as_bytes()));
    command.extend(former.iter().map(|(_, value)| &value[..]));
    observer.cmd(&command).await.unwrap();
}

pub(crate) async fn dump<'a>(observer: &Observer, key: &'a str) -> (&'a str, Bytes) {
    let value: Vec<u8> = observer.query(&["DUMP", key]).await.unwrap();
    (key, value.into())
}

#[tokio::test(flavor = "multi_thread")]
async fn without_publish_a_client_opens_barriers() {
    let server = server().await;
    let client = mute(&server).await;
    let wait = || Barrier::new(&client, "a", 2).wait().timeout(SOON).into_future();
    for round in 1..=2 {
        let (first, second) = tokio::join!(wait(), wait());
        assert_eq!((first.unwrap().generation(), second.unwrap().generation()), (round, round));
    }
    let enter = || DoubleBarrier::new(&client, "a", 2).enter().timeout(SOON).into_future();
    let (first, second) = tokio::join!(enter(), enter());
    let (first, second) = (first.unwrap(), second.unwrap());
    let (one, two) =
        tokio::join!(first.leave().timeout(SOON).into_future(), second.leave().timeout(SOON).into_future());
    one.unwrap();
    two.unwrap();
}

/// The server keeps the result of a round for as long as a client may be stopped. This time begins
/// with the notification, not with the end of the round.
#[tokio::test(flavor = "multi_thread")]
async fn a_round_is_remembered_from_its_notification() {
    let server = server().await;
    let proxy = Proxy::to(&server).await.unwrap();
    let observer = server.observer().await.unwrap();
    let deaf = client_with(&server.url_via(proxy.addr()), |config| config.poll_interval(2 * SOON)).await;
    proxy.drop_publishes(true);
    let first = tokio::spawn(Barrier::new(&deaf, "a", 2).wait().timeout(4000 * MS).into_future());
    until(&observer, WAITING, 1).await;
    Barrier::new(&client(&server).await, "a", 2).wait().timeout(SOON).await.unwrap();
    observer.cmd(&["PEXPIRE", "redgrid_barrier:{a}", "100000"]).await.unwrap();
    assert_eq!(first.await.unwrap().unwrap().generation(), 1);
    let left: i64 = observer.query(&["PTTL", "redgrid_barrier:{a}"]).await.unwrap();
    assert!(left > 500_000, "{left}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_party_on_a_slow_network_learns_when_it_has_left() {
    let server = server().await;
    let proxy = Proxy::to(&server).await.unwrap();
    let observer = server.observer().await.unwrap();
    let far = client_with(&server.url_via(proxy.addr()), |config| config).await;
    proxy.set_both(Fault::Delay(100 * MS));
    let late = Barrier::new(&far, "a", 2).wait().timeout(1500 * MS).await;
    assert!(matches!(late, Err(BarrierError::TimedOut { .. })), "{late:?}");
    assert_eq!(count(&observer, WAITING).await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_party_admitted_at_the_last_moment_is_inside() {
    let server = server().await;
    let proxy = Proxy::to(&server).await.unwrap();
    let observer = server.observer().await.unwrap();
    let deaf = client_with(&server.url_via(proxy.addr()), |config| config.poll_interval(2 * SOON)).await;
    proxy.drop_publishes(true);
    // After its timeout, the caller waits for as long as a few requests take; here this is two
    // seconds.
    proxy.set_both(Fault::Delay(250 * MS));
    let (other, timeout, began) = (client(&server).await, 10_000 * MS, Instant::now());
    let first = tokio::spawn(DoubleBarrier::new(&deaf, "a", 2).enter().timeout(timeout).into_future());
    until(&observer, "redgrid_double_barrier_waiting:{a}", 1).await;
    // The poll is sent a second after the subscription.
    wait_until(SOON, async || {
        let channels = observer.pubsub_channels("redgrid_double_barrier__channel:*").await;
        channels.is_ok_and(|channels| !channels.is_empty())
    })
    .await;
    wait_until(SOON, async || {
        let before = calls(&observer).await;
        tokio::time::sleep(3000 * MS).await;
        calls(&observer).await == before
    })
    .await;
    let second = DoubleBarrier::new(&other, "a", 2).enter().timeout(SOON).await.unwrap();
    let first = first.await.unwrap().unwrap();
    assert!(began.elapsed() >= timeout, "{:?}", began.elapsed());
    assert_eq!((first.session(), second.session()), (1, 1));
    assert_eq!(count(&observer, INSIDE).await, 2);
    let alone = DoubleBarrier::new(&deaf, "b", 2).enter().timeout(1500 * MS).await;
    assert!(matches!(alone, Err(BarrierError::TimedOut { .. })), "{alone:?}");
    assert_eq!(count(&observer, "redgrid_double_barrier_waiting:{b}").await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_takes_no_writes_for_a_while_is_waited_for_up_to_the_bound() {
    let server = server().await;
    let observer = server.observer().await.unwrap();
    let client = client_with(&server.url(), |config| config.response_timeout(200 * MS).retries(0)).await;
    observer.cmd(&["REPLICAOF", "127.0.0.1", "1"]).await.unwrap();
    let brief = Barrier::new(&client, "a", 1).wait().timeout(1000 * MS).await;
    assert!(matches!(brief, Err(BarrierError::Failed(Failure::Unavailable { .. }))), "{brief:?}");
    let waiting = tokio::spawn(Barrier::new(&client, "a", 1).wait().timeout(SOON).into_future());
    let began = Instant::now();
    tokio::time::sleep_until(began + 1000 * MS).await;
    assert!(!waiting.is_finished());
    observer.cmd(&["REPLICAOF", "NO", "ONE"]).await.unwrap();
    waiting.await.unwrap().unwrap();
}

/// A party that has left had the same participant number. A failover has lost the entry of the
/// current party.
#[tokio::test(flavor = "multi_thread")]
async fn a_party_with_a_reused_seat_is_present_after_a_failover() {
    let server = server().await;
    let observer = server.observer().await.unwrap();
    let (one, two) = (leased(&server).await, leased(&server).await);
    let enter = |client: &Client| tokio::spawn(DoubleBarrier::new(client, "a", 2).enter().timeout(SOON).into_future());
    let waiting = enter(&one);
    let second = enter(&two).await.unwrap().unwrap();
    let first = waiting.await.unwrap().unwrap();
    let (one_left, two_left) =
        tokio::join!(first.leave().timeout(SOON).into_future(), second.leave().timeout(SOON).into_future());
    one_left.unwrap();
    two_left.unwrap();
    let before = [dump(&observer, DOUBLE).await];
    let waiting = enter(&one);
    let second = enter(&two).await.unwrap().unwrap();
    let first = waiting.await.unwrap().unwrap();
    observer.cmd(&["DEL", INSIDE]).await.unwrap();
    put_back(&observer, &before).await;
    until(&observer, INSIDE, 2).await;
    assert!(!first.is_lost() && !second.is_lost());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shutdown_notifies_parties_inside() {
    let server = server().await;
    let leaving = client(&server).await;
    let inside = DoubleBarrier::new(&leaving, "a", 1).enter().timeout(SOON).await.unwrap();
    leaving.shutdown(SOON).await.unwrap();
    tokio::time::timeout(SOON, inside.lost()).await.expect("the loss is reported");
    assert!(inside.is_lost());
}
