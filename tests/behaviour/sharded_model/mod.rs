//! Sharded objects compared with their models, with several clients, on one server and on a
//! cluster.

mod bits;
mod filters;
mod maps;
mod sets;

use std::collections::BTreeSet;
use std::time::Duration;

use fastrand::Rng;
use redgrid_core::Client;
use redgrid_core::object::Lifetime;
use redgrid_sharded::ShardedObject;
use redgrid_testkit::{Cluster, Observer};
use redgrid_tests::{client, client_with, server};

use bits::bit_sets;
use filters::filters;
use maps::maps;
use sets::sets;

const HOUR: Duration = Duration::from_secs(3600);

/// The clients of a test, and an observer of each server.
struct Fixture {
    clients: Vec<Client>,
    observers: Vec<Observer>,
}

impl Fixture {
    /// All keys of the object with this name.
    async fn keys(&self, name: &str) -> BTreeSet<String> {
        let mut all = BTreeSet::new();
        for observer in &self.observers {
            for pattern in [format!("{name}:*"), format!("{{{name}}}*")] {
                all.extend(observer.query::<Vec<String>>(&["KEYS", &pattern]).await.unwrap());
            }
        }
        all
    }

    /// One of the clients.
    fn any(&self, random: &mut Rng) -> &Client {
        &self.clients[random.usize(..self.clients.len())]
    }
}

async fn on_one_server() -> (redgrid_testkit::RedisServer, Fixture) {
    let server = server().await;
    let clients = vec![client(&server).await, client(&server).await];
    let observers = vec![server.observer().await.unwrap()];
    (server, Fixture { clients, observers })
}

async fn on_a_cluster() -> (Cluster, Fixture) {
    let cluster = Cluster::start(3, 0).await.unwrap();
    let url = cluster.url();
    let clients = vec![client_with(&url, |config| config).await, client_with(&url, |config| config).await];
    let mut observers = Vec::new();
    for node in cluster.nodes() {
        observers.push(node.observer().await.unwrap());
    }
    (cluster, Fixture { clients, observers })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sharded_map_matches_its_model_for_all_clients() {
    let (_server, fixture) = on_one_server().await;
    maps(&fixture, 10).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sharded_set_matches_its_model_for_all_clients() {
    let (_server, fixture) = on_one_server().await;
    sets(&fixture, 10).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sharded_bit_set_matches_its_model_for_all_clients() {
    let (_server, fixture) = on_one_server().await;
    bit_sets(&fixture, 8).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sharded_filter_matches_its_model_for_all_clients() {
    let (_server, fixture) = on_one_server().await;
    filters(&fixture, 3).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn in_a_cluster_sharded_objects_match_their_models() {
    let (_cluster, fixture) = on_a_cluster().await;
    maps(&fixture, 3).await;
    sets(&fixture, 3).await;
    bit_sets(&fixture, 3).await;
    filters(&fixture, 1).await;
}

/// Operations of every sharded object: reads, sets and removes its lifetime, and deletes it
/// completely.
async fn ends(fixture: &Fixture, name: &str, there: bool, objects: [ShardedObject; 2]) -> bool {
    let [one, other] = objects;
    let lasting = if there { Lifetime::Endless } else { Lifetime::Absent };
    let fits = other.exists().await.unwrap() == there
        && other.lifetime().await.unwrap() == lasting
        && one.expire_in(HOUR).await.unwrap() == there
        && matches!(other.lifetime().await.unwrap(), Lifetime::Ends(_)) == there
        && other.persist().await.unwrap() == there
        && one.lifetime().await.unwrap() == lasting
        && one.memory().await.unwrap().is_some() == there
        && other.delete().await.unwrap() == there
        && !one.unlink().await.unwrap();
    fits && fixture.keys(name).await.is_empty() && one.shards().await.unwrap().is_none()
}
