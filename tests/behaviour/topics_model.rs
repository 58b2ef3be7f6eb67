//! Topics compared with a model: each confirmed subscription receives each message once, in the
//! publisher's order.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use futures_util::future::join_all;
use redgrid_core::Client;
use redgrid_testkit::Cluster;
use redgrid_tests::model::seeds;
use redgrid_tests::{SOON, client, client_with, server};
use redgrid_topic::codecs::Text;
use redgrid_topic::{PatternTopic, ShardedTopic, Subscription, Topic};

/// Topics; some patterns match several of them.
const TOPICS: [&str; 5] = ["news:a", "news:b", "news:cc", "sport:a", "sport"];

/// Patterns, and the topics that each of them matches.
const PATTERNS: [(&str, &[usize]); 6] = [
    ("*", &[0, 1, 2, 3, 4]),
    ("news:*", &[0, 1, 2]),
    ("news:?", &[0, 1]),
    ("news:[bc]*", &[1, 2]),
    ("*:a", &[0, 3]),
    ("sport*", &[3, 4]),
];

const PUBLISHERS: usize = 3;

/// The publisher, and the number of its message.
type Sent = (usize, u64);

/// A subscription: its channel, its beginning, and the messages it received.
struct Listener {
    what: &'static str,
    is_sharded: bool,
    topics: Vec<usize>,
    heard: Subscription<String, Text>,
    /// How many messages each publisher had begun to publish when the subscription was confirmed.
    before: Vec<u64>,
}

/// For each message of a publisher: its topic, and whether it goes to the sharded topic.
type Plan = Vec<Vec<(usize, bool)>>;

#[tokio::test(flavor = "multi_thread")]
async fn published_messages_are_received_once_in_order() {
    let server = server().await;
    let has_sharded = server.binary().version().major >= 7;
    let clients = [client(&server).await, client(&server).await];
    for seed in seeds(6) {
        received_by_all(&clients, seed, has_sharded, false).await;
    }
}

/// In a cluster, only messages of the same topic are ordered.
#[tokio::test(flavor = "multi_thread")]
async fn in_a_cluster_published_messages_are_received_once_in_order() {
    let cluster = Cluster::start(3, 0).await.unwrap();
    let has_sharded = cluster.nodes()[0].binary().version().major >= 7;
    let clients =
        [client_with(&cluster.url(), |config| config).await, client_with(&cluster.url(), |config| config).await];
    for seed in seeds(3) {
        received_by_all(&clients, seed, has_sharded, true).await;
    }
}

async fn received_by_all(clients: &[Client; 2], seed: u64, has_sharded: bool, by_topic: bool) {
    let mut random = fastrand::Rng::with_seed(seed);
    let plan: Plan = (0..PUBLISHERS)
        .map(|_| (0..120).map(|_| (random.usize(..TOPICS.len()), has_sharded && random.u8(..4) == 0)).collect())
        .collect();
    let begun: Arc<Vec<AtomicU64>> = Arc::new((0..PUBLISHERS).map(|_| AtomicU64::new(0)).collect());
    // Some subscriptions begin before the messages, and some begin and end among them.
    let mut subs = Vec::new();
    for _ in 0..6 {
        subs.push(listen(clients, &mut random, has_sharded, &begun).await);
    }
    let publishers: Vec<_> = (0..PUBLISHERS)
        .map(|who| {
            let (client, mine, begun) = (clients[who % 2].clone(), plan[who].clone(), Arc::clone(&begun));
            tokio::spawn(async move {
                for (n, (topic, sharded)) in (0..).zip(mine) {
                    begun[who].store(n + 1, Ordering::SeqCst);
                    publish(&client, topic, sharded, &format!("{seed} {who} {n}")).await;
                }
            })
        })
        .collect();
    for _ in 0..12 {
        let sub = listen(clients, &mut random, has_sharded, &begun).await;
        match random.u8(..3) {
            // Other subscriptions of this client may share the subscription at the server, and
            // continue.
            0 => drop(sub),
            1 => drop(std::mem::replace(&mut subs[random.usize(..3)], sub)),
            _ => subs.push(sub),
        }
    }
    for publisher in publishers {
        publisher.await.unwrap();
    }
    for topic in 0..TOPICS.len() {
        for sharded in [false, true] {
            if has_sharded || !sharded {
                publish(&clients[0], topic, sharded, &format!("{seed} end")).await;
            }
        }
    }
    join_all(subs.into_iter().map(|sub| all_of(sub, &plan, seed, by_topic))).await;
}

async fn publish(client: &Client, topic: usize, sharded: bool, text: &str) {
    let topic = TOPICS[topic];
    match sharded {
        false => Topic::<String, Text>::new(client, topic).publish(text).await.map(drop).unwrap(),
        true => ShardedTopic::<String, Text>::new(client, topic).publish(text).await.map(drop).unwrap(),
    }
}

async fn listen(clients: &[Client; 2], random: &mut fastrand::Rng, has_sharded: bool, begun: &[AtomicU64]) -> Listener {
    let client = &clients[random.usize(..2)];
    let (of, topic) = (random.u8(..if has_sharded { 5 } else { 4 }), random.usize(..TOPICS.len()));
    let (what, is_sharded, topics, heard) = match of {
        0 | 1 => {
            let subscribing = Topic::<String, Text>::new(client, TOPICS[topic]).subscribe();
            (TOPICS[topic], false, vec![topic], subscribing.await.unwrap())
        }
        2 | 3 => {
            let (pattern, topics) = PATTERNS[random.usize(..PATTERNS.len())];
            let subscribing = PatternTopic::<String, Text>::new(client, pattern).subscribe();
            (pattern, false, topics.to_vec(), subscribing.await.unwrap())
        }
        _ => {
            let subscribing = ShardedTopic::<String, Text>::new(client, TOPICS[topic]).subscribe();
            (TOPICS[topic], true, vec![topic], subscribing.await.unwrap())
        }
    };
    let before = begun.iter().map(|begun| begun.load(Ordering::SeqCst)).collect();
    Listener { what, is_sharded, topics, heard, before }
}

/// Reads to the end of each topic, and compares. No message published after the confirmation is
/// missing, and none arrives twice or out of order.
async fn all_of(mut sub: Listener, plan: &Plan, seed: u64, by_topic: bool) {
    let (what, is_sharded) = (sub.what, sub.is_sharded);
    let mut heard: BTreeMap<(usize, usize), Vec<u64>> = BTreeMap::new();
    let lane = |topic: usize| if by_topic { topic } else { 0 };
    let mut ends = Vec::new();
    while ends.len() < sub.topics.len() {
        let next = tokio::time::timeout(SOON, sub.heard.next()).await;
        let Ok(Some(Ok(message))) = next else { panic!("seed {seed}, {what}: {next:?} after {heard:?}") };
        // In a cluster, earlier messages may be forwarded between nodes for a while.
        let Some(text) = message.value.strip_prefix(&format!("{seed} ")) else { continue };
        let topic = TOPICS.iter().position(|topic| *topic == message.channel).expect("a topic of this test");
        assert!(sub.topics.contains(&topic), "seed {seed}, {what}: {message:?}");
        assert!(!ends.contains(&topic), "seed {seed}, {what}: {message:?} after the end");
        match text.split_once(' ').map(|(who, n)| (who.parse(), n.parse())) {
            Some((Ok(who), Ok(n))) => {
                let (who, n): Sent = (who, n);
                assert_eq!(plan[who][n as usize], (topic, is_sharded), "seed {seed}, {what}: {message:?}");
                heard.entry((who, lane(topic))).or_default().push(n);
            }
            _ => ends.push(topic),
        }
    }
    for (who, (sent, before)) in plan.iter().zip(&sub.before).enumerate() {
        for of in if by_topic { sub.topics.clone() } else { vec![0] } {
            let mine = (0..).zip(sent).filter(|(_, (topic, sharded))| {
                *sharded == is_sharded && sub.topics.contains(topic) && lane(*topic) == of
            });
            let all: Vec<u64> = mine.map(|(n, _)| n).collect();
            let got = heard.remove(&(who, of)).unwrap_or_default();
            // The received messages are the last ones, and include all whose publication began
            // after the confirmation.
            let must = all.iter().filter(|n| *n >= before).count();
            assert!(
                all.ends_with(&got) && got.len() >= must,
                "seed {seed}, {what} received {got:?} of {who}, of {all:?}, expected from {before} on"
            );
        }
    }
    assert!(heard.is_empty(), "seed {seed}, {what}: {heard:?}");
}
