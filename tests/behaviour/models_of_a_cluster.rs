//! Objects in a cluster are what their models are.

use redgrid_core::{Client, Config};
use redgrid_testkit::Cluster;
use redgrid_tests::SOON;

use super::{bits_model, delayed_model, geo_model, hyper_log_log_model, lex_model};
use super::{ring_model, set_cache_model, set_combinations_model};

/// Each through two clients; one cluster for all of them.
#[tokio::test(flavor = "multi_thread")]
async fn objects_in_a_cluster_are_what_their_models_are() {
    let cluster = Cluster::start(3, 0).await.unwrap();
    let connected = async || {
        let seeds = cluster.addrs().into_iter().map(|addr| addr.to_string());
        let client = Client::connect(Config::cluster(seeds).unwrap()).await.unwrap();
        client.wait_ready(SOON).await.unwrap();
        client
    };
    let clients = [&connected().await, &connected().await];
    ring_model::modelled(clients, 2).await;
    delayed_model::modelled(clients, 2).await;
    set_cache_model::modelled(clients, 2).await;
    lex_model::modelled(clients, 2).await;
    geo_model::modelled(clients, 2).await;
    hyper_log_log_model::modelled(clients, 2).await;
    bits_model::modelled(clients, 2).await;
    set_combinations_model::modelled(clients, 2, cluster.nodes()[0].binary().version().major >= 7).await;
}
