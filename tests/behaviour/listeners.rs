//! Subscriptions of a client with waiters that use replicas.

use std::sync::Arc;
use std::task::{Context, Waker};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::future::try_join_all;
use redgrid_core::author::{ClientExt, Server, Topology};
use redgrid_core::clock::Clock;
use redgrid_core::{Client, Config, Push, Reply, Request, ShardServers};
use redgrid_testkit::wait_until;
use redgrid_tests::SOON;
use redgrid_tests::fake_server::FakeServer;
use tokio::sync::watch;

/// A primary with a replica.
struct Shard {
    primary: Arc<FakeServer>,
    replica: Arc<FakeServer>,
}

impl Shard {
    fn of(name: &str) -> Shard {
        let node = |part| Arc::new(FakeServer::new(&format!("{name}-{part}:1"), |_| Ok(Reply::Nil)));
        Shard { primary: node("primary"), replica: node("replica") }
    }
}

/// A topology in which the first shard has all slots until the first change, and the second shard
/// afterwards.
struct Moving {
    shards: [Shard; 2],
    is_sharded: bool,
    changes: watch::Sender<u64>,
}

impl Moving {
    fn shard(&self) -> &Shard {
        &self.shards[usize::from(*self.changes.borrow() > 0)]
    }
}

#[async_trait]
impl Topology for Moving {
    fn primary(&self, _: &[u8]) -> Arc<dyn Server> {
        Arc::clone(&self.shard().primary) as Arc<dyn Server>
    }

    fn primaries(&self) -> Vec<Arc<dyn Server>> {
        self.shards.iter().map(|shard| Arc::clone(&shard.primary) as Arc<dyn Server>).collect()
    }

    fn shards(&self) -> Vec<ShardServers> {
        let servers = |shard: &Shard| ShardServers {
            primary: Arc::clone(&shard.primary) as Arc<dyn Server>,
            slots: Vec::new(),
            replicas: vec![Arc::clone(&shard.replica) as Arc<dyn Server>],
        };
        self.shards.iter().map(servers).collect()
    }

    fn listener(&self, _: &[u8]) -> Arc<dyn Server> {
        Arc::clone(&self.shard().replica) as Arc<dyn Server>
    }

    fn is_sharded(&self) -> bool {
        self.is_sharded
    }

    fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    async fn close(&self) {}
}

/// The task that delivers messages may run later than the task that subscribes.
#[tokio::test]
async fn a_message_is_delivered_although_no_task_of_the_client_has_run_yet() {
    let server = Arc::new(FakeServer::new("one:1", |_| Ok(Reply::Nil)));
    let client =
        Client::over_one(Arc::clone(&server) as Arc<dyn Server>, Config::single("one").unwrap(), Clock::boot());
    let client = client.unwrap();
    let mut watched = client.watch("channel".into(), "channel".into());
    // Nothing was awaited, so no task has run.
    server.push(Push::Message { channel: "channel".into(), payload: Bytes::new() });
    wait_until(SOON, async || watched.is_active()).await;
    assert_eq!(watched.take().map(|wake| wake.messages), Some(1));
}

/// The keys of only `poll_budget` channels are checked at once. Streams must not wait for that.
#[tokio::test]
async fn a_stream_on_a_polled_channel_is_active_although_the_poll_budget_is_used_up() {
    let server = Arc::new(FakeServer::new("one:1", |_| Ok(Reply::Nil)));
    let config = Config::single("one").unwrap().poll_budget(1);
    let client = Client::over_one(Arc::clone(&server) as Arc<dyn Server>, config, Clock::boot()).unwrap();
    // One command subscribes to both channels, because nothing is awaited before. The first channel
    // uses up the budget.
    let channels = [Bytes::from_static(b"a"), Bytes::from_static(b"b")];
    let watches = channels.each_ref().map(|channel| client.watch(channel.clone(), channel.clone()));
    let streams = channels.each_ref().map(|channel| client.message_stream(vec![channel.clone()], channel, 8));
    try_join_all(streams).await.expect("both are active");
    drop(watches);
}

/// A poll that does not find the key wakes the waiters. A stream has missed nothing.
#[tokio::test]
async fn a_poll_of_the_key_is_no_gap_of_a_stream() {
    let absent = |request: &Request| {
        Ok(if request.label() == "pubsub/ttl" { Reply::Array(vec![Reply::Int(-2)]) } else { Reply::Nil })
    };
    let server = Arc::new(FakeServer::new("one:1", absent));
    let config = Config::single("one").unwrap().poll_interval(Duration::from_millis(10));
    let client = Client::over_one(Arc::clone(&server) as Arc<dyn Server>, config, Clock::boot()).unwrap();
    let channel = Bytes::from_static(b"channel");
    let mut watched = client.watch(channel.clone(), channel.clone());
    let stream = client.message_stream(vec![channel.clone()], &channel, 8).await.expect("it is active");
    // The subscription wakes the waiter once, the polls wake it again.
    for _ in 0..3 {
        assert!(tokio::time::timeout(SOON, watched.wake()).await.expect("it is woken").resync);
    }
    assert!(stream.poll_next(&mut Context::from_waker(Waker::noop())).is_pending());
}

#[tokio::test]
async fn notices_come_from_the_primary_and_no_channel_stays_at_the_old_replica() {
    let shards = [Shard::of("one"), Shard::of("two")];
    let moving = Arc::new(Moving { shards, is_sharded: true, changes: watch::Sender::new(0) });
    let config = Config::single("one").unwrap();
    let client = Client::over(Arc::clone(&moving) as Arc<dyn Topology>, config, Clock::boot()).unwrap();
    let watched = client.watch("channel".into(), "channel".into());
    let [one, two] = &moving.shards;
    // The number of channels of each server. Each client also subscribes to its own notification
    // channel.
    let listened = || [one, two].map(|shard| (shard.primary.listened().len(), shard.replica.listened().len()));
    wait_until(SOON, async || watched.is_active() && listened() == [(1, 1), (0, 0)]).await;
    moving.changes.send_modify(|count| *count += 1);
    wait_until(SOON, async || watched.is_active() && listened() == [(0, 0), (1, 1)]).await;
}

/// A gap is reported late, so the current connection may have subscribed to the channel.
#[tokio::test]
async fn a_rejected_resubscription_is_unsubscribed_without_watchers() {
    let server = Arc::new(FakeServer::new("one:1", |_| Ok(Reply::Nil)));
    let fake_server = Arc::clone(&server) as Arc<dyn Server>;
    let client = Client::over_one(fake_server, Config::single("one").unwrap(), Clock::boot()).unwrap();
    let watched = client.watch("channel".into(), "channel".into());
    wait_until(SOON, async || watched.is_active()).await;
    let without = server.listened().len() - 1;
    server.deny("channel".into());
    server.push(Push::Gap);
    // The subscription was rejected twice: together with another channel, and alone.
    wait_until(SOON, async || !watched.is_active() && server.refused() > 1).await;
    drop(watched);
    wait_until(SOON, async || server.listened().len() == without).await;
}

/// The replica keeps its connection when it gets another primary, and may have kept the previous
/// subscription.
#[tokio::test]
async fn channels_rejected_under_another_primary_are_unsubscribed_at_the_replica() {
    let [one, two] = [Shard::of("one"), Shard::of("two")];
    let replica = Arc::clone(&one.replica);
    let shards = [one, Shard { replica: Arc::clone(&replica), ..two }];
    let moving = Arc::new(Moving { shards, is_sharded: false, changes: watch::Sender::new(0) });
    let config = Config::single("one").unwrap();
    let client = Client::over(Arc::clone(&moving) as Arc<dyn Topology>, config, Clock::boot()).unwrap();
    let watched = client.watch("channel".into(), "channel".into());
    wait_until(SOON, async || watched.is_active()).await;
    replica.deny("channel".into());
    moving.changes.send_modify(|count| *count += 1);
    wait_until(SOON, async || !watched.is_active() && replica.refused() > 0).await;
    drop(watched);
    wait_until(SOON, async || replica.listened().is_empty()).await;
}
