//! Unconfirmed subscriptions at the end of a client.

use redgrid_cache::MapCache;
use redgrid_core::object::Object;
use redgrid_core::object::events::{Kind, Listen};
use redgrid_locks::Lock;
use redgrid_testkit::{Direction, Fault, Proxy, wait_until};
use redgrid_tests::{SOON, client_with, server};
use redgrid_topic::{ShardedTopic, Topic};

#[tokio::test(flavor = "multi_thread")]
async fn a_shutdown_is_reported_at_once_to_new_subscribers() {
    let server = server().await;
    let proxy = Proxy::to(&server).await.unwrap();
    // A call may take minutes, and so may the shutdown, which has to release a lock.
    let patient = |config: redgrid_core::Config| config.response_timeout(SOON * 3).retries(3);
    let client = client_with(&server.url_via(proxy.addr()), patient).await;
    let _held = Lock::new(&client, "held").acquire().await.unwrap();
    let before = client.stats().channels;
    proxy.set(Direction::ToServer, Fault::BlackHole);

    let topic: Topic<String> = Topic::new(&client, "t");
    let sharded: ShardedTopic<String> = ShardedTopic::new(&client, "t");
    let cache: MapCache<String, u32> = MapCache::new(&client, "c");
    let object = Object::new(&client, "o");
    let pattern = Listen::to(&client, "o*", Kind::Expired).unchecked();
    let each = [
        tokio::spawn(async move { topic.subscribe().await.is_err() }),
        tokio::spawn(async move { sharded.subscribe().await.is_err() }),
        tokio::spawn(async move { cache.events().begin().await.is_err() }),
        tokio::spawn(async move { object.events(Kind::Expired).unchecked().await.is_err() }),
        tokio::spawn(async move { pattern.await.is_err() }),
    ];
    // Two topics, four channels of the cache, and the channel of a key.
    wait_until(SOON, async || client.stats().channels >= before + 7).await;

    let ending = client.clone();
    let shutdown = tokio::spawn(async move { ending.shutdown(SOON * 3).await });
    for (nth, begins) in each.into_iter().enumerate() {
        let told = tokio::time::timeout(SOON, begins).await;
        assert!(told.unwrap_or_else(|_| panic!("the {nth}. was not notified")).unwrap());
    }
    assert!(!shutdown.is_finished(), "subscribers are notified at the start of the shutdown");
    shutdown.abort();
}
