//! Objects in a cluster, compared with their models.

use redgrid_core::{Client, Config};
use redgrid_testkit::{Cluster, RedisServer, ServerBinary};
use redgrid_tests::SOON;

use super::{
    bits_model, delayed_model, geo_model, hyper_log_log_model, lex_model, multimaps_model, native_caches_model,
    ring_model, set_cache_model, set_combinations_model,
};

async fn two_clients(cluster: &Cluster) -> [Client; 2] {
    let connected = async || {
        let seeds = cluster.addrs().into_iter().map(|addr| addr.to_string());
        let client = Client::connect(Config::cluster(seeds).unwrap()).await.unwrap();
        client.wait_ready(SOON).await.unwrap();
        client
    };
    [connected().await, connected().await]
}

/// Objects in a cluster match their models. Each object is used by two clients, and one cluster
/// serves all models.
#[tokio::test(flavor = "multi_thread")]
async fn objects_in_a_cluster_match_their_models() {
    let cluster = Cluster::start(3, 0).await.unwrap();
    let clients = two_clients(&cluster).await;
    let clients = clients.each_ref();
    ring_model::modelled(clients, 2).await;
    delayed_model::modelled(clients, 2).await;
    set_cache_model::modelled(clients, 2).await;
    lex_model::modelled(clients, 2).await;
    geo_model::modelled(clients, 2).await;
    hyper_log_log_model::modelled(clients, 2).await;
    multimaps_model::modelled(clients, 2).await;
    bits_model::modelled(clients, 2).await;
    set_combinations_model::modelled(clients, 2, cluster.nodes()[0].binary().version().major >= 7).await;
}

/// Objects with elements that the servers expire and remove match their models.
#[tokio::test(flavor = "multi_thread")]
async fn objects_in_a_cluster_of_newer_servers_match_their_models() {
    let name = "objects_in_a_cluster_of_newer_servers_match_their_models";
    let Some(newest) = ServerBinary::newest_or_skip(name) else { return };
    let cluster = Cluster::builder().server_options(RedisServer::builder().binary(newest)).start().await.unwrap();
    let clients = two_clients(&cluster).await;
    let clients = clients.each_ref();
    native_caches_model::modelled(clients, 2).await;
    multimaps_model::native(clients, 2, false).await;
}
