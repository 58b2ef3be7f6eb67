//! A sale on every kind of deployment, each named by its URL.

use redgrid_testkit::{Cluster, RedisServer, Replicated, Sentinels};
use serde_json::json;

use crate::support::run;

/// Sells a small stock, and checks the keys that remain on the servers.
async fn sells_out(url: &str, servers: &[RedisServer]) {
    let sale = [
        "demo",
        "flash-sale",
        "--json",
        "--stock",
        "120",
        "--processes",
        "2",
        "--tasks",
        "6",
        "--kill-one",
        "--url",
        url,
    ];
    let ended = tokio::task::block_in_place(|| run(&sale));
    assert_eq!(ended.code(), 0, "{} {}", ended.stdout(), ended.stderr());
    let report = ended.json();
    for (field, want) in [
        ("proven", json!(true)),
        ("faults", json!([])),
        ("units", json!(120)),
        ("stock_left", json!(0)),
        ("requests", json!(240)),
        ("unserved", json!(0)),
        ("killed", json!(1)),
    ] {
        assert_eq!(report[field], want, "{field} in {report}");
    }
    for server in servers {
        let observer = server.observer().await.expect("an observer");
        let left: Vec<String> = observer.keys("*").await.expect("an answer");
        assert!(left.is_empty(), "{} has {left:?}", server.addr());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn one_server_is_sold_out() {
    let server = RedisServer::start().await.expect("a server");
    sells_out(&server.url(), std::slice::from_ref(&server)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_primary_with_replicas_is_sold_out() {
    let replicated = Replicated::start(1).await.expect("it starts");
    let [primary, replica] = [replicated.primary().addr(), replicated.replicas()[0].addr()];
    let url = format!("redis-master-slave://{primary},{replica}");
    sells_out(&url, std::slice::from_ref(replicated.primary())).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_primary_that_sentinels_know_is_sold_out() {
    let sentinels = Sentinels::start().await.expect("it starts");
    let url = sentinels.url();
    assert!(url.starts_with("redis-sentinel://") && url.ends_with("/mymaster"), "{url}");
    sells_out(&url, &sentinels.servers()[..1]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_is_sold_out() {
    let cluster = Cluster::start(3, 0).await.expect("it starts");
    sells_out(&cluster.url(), cluster.nodes()).await;
}

/// The keys of several products are in different slots, and so are the keys of one product.
#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_sells_several_products() {
    let cluster = Cluster::start(3, 0).await.expect("it starts");
    let rows = crate::support::example("requests.csv");
    let rows = rows.to_str().expect("text");
    let line = ["demo", "flash-sale", "--json", "--stock", "5", "--requests", rows, "--url", &cluster.url()];
    let ended = tokio::task::block_in_place(|| run(&line));
    let report = ended.json();
    assert_eq!((ended.code(), &report["proven"]), (0, &json!(true)), "{report} {}", ended.stderr());
    assert!(report["products"].as_u64() > Some(1), "{report}");
}
