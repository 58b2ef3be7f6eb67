//! Streams and reliable topics with their groups, and map caches.

use std::time::Duration;

use redgrid_cache::{Limit, MapCache};
use redgrid_inspect::{Inspector, MAX_GROUPS, StreamView};
use redgrid_testkit::{Observer, wait_until};
use redgrid_topic::ReliableTopic;
use redgrid_topic::codecs::Text;

use crate::support::{SOON, client, inspector, observer, send, server};

const HOUR: Duration = Duration::from_secs(3600);

async fn stream(inspector: &Inspector, name: impl AsRef<[u8]>) -> StreamView {
    inspector.stream(name).await.expect("an answer").expect("it exists")
}

/// Returns the number of subscribers, and how many of them have expired.
fn subscribers(view: &StreamView) -> Option<(u64, u64)> {
    view.subscribers.map(|subscribers| (subscribers.registered, subscribers.expired))
}

/// Returns the bytes that the server has sent so far.
async fn sent(observer: &Observer) -> u64 {
    let stats: String = observer.query(&["INFO", "stats"]).await.expect("an answer");
    let line = stats.lines().find_map(|line| line.strip_prefix("total_net_output_bytes:")).expect("it is counted");
    line.trim().parse().expect("a number")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_has_numbers_and_groups() {
    let server = server().await;
    let observer = observer(&server).await;
    let inspector = inspector(&server.url()).await;
    assert_eq!(inspector.stream("log").await.expect("an answer"), None);
    for n in 1..=5 {
        send(&observer, &["XADD", "log", &format!("{n}-7"), "text", "secret"]).await;
    }
    send(&observer, &["XDEL", "log", "1-7"]).await;
    send(&observer, &["XGROUP", "CREATE", "log", "mail <b>", "2-7"]).await;
    send(&observer, &["XREADGROUP", "GROUP", "mail <b>", "one", "COUNT", "2", "STREAMS", "log", ">"]).await;
    send(&observer, &["XACK", "log", "mail <b>", "3-7"]).await;
    send(&observer, &["PEXPIRE", "log", "3600000"]).await;
    let view = stream(&inspector, "log").await;
    assert_eq!((view.name.as_str(), view.len, view.group_count, view.subscribers), ("log", 4, 1, None));
    assert_eq!((view.first_id.as_deref(), view.last_id.as_str()), (Some("2-7"), "5-7"));
    assert!(view.lifetime.is_some_and(|left| left <= HOUR && left > HOUR / 2), "{view:?}");
    let group = &view.groups.expect("few groups")[0];
    assert_eq!((group.name.as_str(), group.consumers, group.pending), ("mail <b>", 1, 1));
    assert_eq!(group.delivered_id, "4-7");
    if server.binary().version().major >= 7 {
        assert_eq!(view.added, Some(5));
    } else {
        assert_eq!((view.added, group.lag), (None, None));
    }

    // An empty stream, and a name that is not UTF-8.
    observer.cmd(&[&b"XGROUP"[..], b"CREATE", b"new\xff", b"mail", b"$", b"MKSTREAM"]).await.expect("an answer");
    let empty = stream(&inspector, b"new\xff").await;
    assert_eq!((empty.name.as_str(), empty.len, empty.first_id.as_deref()), ("new\\xff", 0, None));
    assert_eq!((empty.last_id.as_str(), empty.groups.map(|groups| groups.len())), ("0-0", Some(1)));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_group_knows_how_far_it_is_behind() {
    let server = server().await;
    let observer = observer(&server).await;
    for n in 1..=5 {
        send(&observer, &["XADD", "log", &format!("{n}-0"), "a", "1"]).await;
    }
    send(&observer, &["XGROUP", "CREATE", "log", "mail", "0"]).await;
    send(&observer, &["XREADGROUP", "GROUP", "mail", "one", "COUNT", "2", "STREAMS", "log", ">"]).await;
    let view = stream(&inspector(&server.url()).await, "log").await;
    let expected = (server.binary().version().major >= 7).then_some(3);
    assert_eq!(view.groups.expect("few groups")[0].lag, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn large_entries_and_many_groups_are_not_returned() {
    let server = server().await;
    let observer = observer(&server).await;
    let large = "x".repeat(2_000_000);
    send(&observer, &["XADD", "log", "1-0", "text", &large]).await;
    send(&observer, &["XADD", "log", "2-0", "text", &large]).await;
    let fill = "for n = 1, ARGV[2] do redis.call('XGROUP', 'CREATE', KEYS[1], ARGV[1] .. n, '0') end";
    let create = async |prefix: &str, count: u64| {
        send(&observer, &["EVAL", fill, "1", "log", prefix, &count.to_string()]).await;
    };
    create("group", MAX_GROUPS - 1).await;
    create(&"y".repeat(100_000), 1).await;
    let inspector = inspector(&server.url()).await;
    let before = sent(&observer).await;
    let view = stream(&inspector, "log").await;
    assert!(sent(&observer).await - before < 50_000, "no entry was sent");
    let groups = view.groups.expect("few enough groups");
    assert_eq!((view.group_count, groups.len()), (MAX_GROUPS, 100));
    assert!(groups.iter().any(|group| group.name == "y".repeat(1_024)));
    create("more", 1).await;
    let view = stream(&inspector, "log").await;
    assert_eq!((view.group_count, view.groups), (MAX_GROUPS + 1, None));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_topic_shows_its_subscribers() {
    let server = server().await;
    let (observer, user) = (observer(&server).await, client(&server.url()).await);
    let inspector = inspector(&server.url()).await;
    let topic = ReliableTopic::<String, Text>::new(&user, "news");
    let mut one = topic.subscribe().await.expect("a subscriber");
    topic.publish("a").await.expect("it is published");
    topic.publish("b").await.expect("it is published");
    let view = stream(&inspector, "news").await;
    assert_eq!((view.len, subscribers(&view)), (2, Some((1, 0))));
    let groups = view.groups.expect("few groups");
    assert_eq!((groups.len(), groups[0].name.as_str(), groups[0].delivered_id.as_str()), (1, one.subscriber(), "0-0"));
    for _ in 0..2 {
        let delivery = one.next().await.expect("the client lives").expect("a message");
        delivery.ack().await.expect("it is acknowledged");
    }
    // A topic removes what all subscribers have acknowledged.
    wait_until(SOON, async || {
        let view = stream(&inspector, "news").await;
        let is_done = view.groups.is_some_and(|groups| groups[0].delivered_id == view.last_id);
        is_done && view.len == 0
    })
    .await;
    send(&observer, &["ZADD", "{news}:timeout", "1000", "dead"]).await;
    let view = stream(&inspector, "news").await;
    assert_eq!(subscribers(&view), Some((2, 1)));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cache_shows_the_ends_of_its_entries_and_its_limit() {
    let server = server().await;
    let (observer, user) = (observer(&server).await, client(&server.url()).await);
    let inspector = inspector(&server.url()).await;
    let sessions = MapCache::<String, String, redgrid_cache::codecs::Text>::new(&user, "sessions");
    let value = "secret".to_owned();
    sessions.set("ada", &value).expires_in(HOUR).await.expect("it is stored");
    sessions.set("bob", &value).expires_in(HOUR).idle_for(HOUR / 2).await.expect("it is stored");
    sessions.set("cho", &value).await.expect("it is stored");
    let read = async || inspector.map_cache("sessions").await.expect("an answer").expect("it exists");
    let view = read().await;
    assert_eq!((view.name.as_str(), view.len, view.lifetime, &view.limit), ("sessions", 3, None, &None));
    assert_eq!((view.lifetimes.entries, view.lifetimes.over), (2, 0));
    assert_eq!((view.idle_times.entries, view.idle_times.over), (1, 0));
    assert!(view.lifetimes.next.is_some_and(|next| next <= HOUR && next > HOUR / 2), "{view:?}");
    assert!(view.idle_times.next.is_some_and(|next| next <= HOUR / 2), "{view:?}");

    sessions.set_limit(Limit::least_frequently_used(500)).await.expect("it is set");
    send(&observer, &["ZADD", "redisson__timeout__set:{sessions}", "XX", "1000", "ada"]).await;
    let view = read().await;
    assert_eq!((view.len, view.lifetimes.over), (3, 1));
    let limit = view.limit.expect("a limit");
    assert_eq!((limit.entries, limit.mode.as_str()), (500, "LFU"));
    // The limit outlives the entries, but alone it is no cache.
    sessions.clear().await.expect("an answer");
    assert_eq!(inspector.map_cache("sessions").await.expect("an answer"), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn other_objects_are_no_streams_and_no_caches() {
    let server = server().await;
    let observer = observer(&server).await;
    let inspector = inspector(&server.url()).await;
    send(&observer, &["HSET", "map", "a", "1"]).await;
    send(&observer, &["SET", "text", "a"]).await;
    send(&observer, &["XADD", "log", "*", "a", "1"]).await;
    // Companions of another type do not make a topic or a cache.
    send(&observer, &["SET", "{log}:timeout", "1"]).await;
    send(&observer, &["SET", "redisson__timeout__set:{map}", "1"]).await;
    send(&observer, &["SET", "{map}:redisson_options", "1"]).await;
    for name in ["nothing", "map", "text"] {
        assert_eq!(inspector.stream(name).await.expect("an answer"), None, "{name}");
    }
    for name in ["nothing", "map", "text", "log"] {
        assert_eq!(inspector.map_cache(name).await.expect("an answer"), None, "{name}");
    }
    assert_eq!(stream(&inspector, "log").await.subscribers, None);
}
