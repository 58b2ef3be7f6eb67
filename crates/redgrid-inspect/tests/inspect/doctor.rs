//! The checks of the servers; `redgrid doctor` has more tests of them.

use redgrid_inspect::{Client, Config, InspectError, Inspector, Level, Requirements};
use redgrid_testkit::{RedisServer, wait_until};

use crate::support::{SOON, observer};

async fn report(config: Config) -> Result<redgrid_inspect::DoctorReport, InspectError> {
    let client = Client::connect(config.clone()).await.expect("a client");
    Inspector::new(&client).doctor(&Requirements::of(&config)).await
}

#[tokio::test(flavor = "multi_thread")]
async fn findings_have_a_level_a_node_and_a_message() {
    let server = RedisServer::builder()
        .config("maxmemory 100mb")
        .config("maxmemory-policy allkeys-lru")
        .start()
        .await
        .expect("a server");
    let report = report(Config::from_url(server.url()).expect("a URL")).await.expect("a report");
    let address = server.addr().to_string();
    assert_eq!((report.topology, &report.nodes, report.worst), ("single", &vec![address.clone()], Level::Fail));
    let memory = report.findings.iter().find(|finding| finding.check == "memory").expect("it was checked");
    assert_eq!((memory.level, memory.node.as_deref()), (Level::Fail, Some(address.as_str())));
    assert!(memory.message.contains("set noeviction"), "{memory:?}");
    let json = serde_json::to_value(memory).expect("JSON");
    assert!(json["level"] == "fail" && json["message"] == memory.message.as_str(), "{json}");
    // One of its keys ends after 1 ms.
    let observer = observer(&server).await;
    wait_until(SOON, async || observer.keys("*").await.expect("an answer").is_empty()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn checks_that_only_read_write_nothing() {
    let server = RedisServer::start().await.expect("a server");
    let config = Config::from_url(server.url()).expect("a URL");
    let client = Client::connect(config.clone()).await.expect("a client");
    let requirements = Requirements::of(&config).read_only();
    let report = Inspector::new(&client).doctor(&requirements).await.expect("a report");
    let acl = report.findings.iter().find(|finding| finding.check == "acl").expect("it was checked");
    assert!(acl.level == Level::Ok && acl.message.contains("scripts are not checked"), "{acl:?}");
    let stats: String = observer(&server).await.query(&["INFO", "commandstats"]).await.expect("an answer");
    for writing in ["hset", "set", "del", "pexpire", "eval"] {
        assert!(!stats.contains(&format!("cmdstat_{writing}:")), "{writing}: {stats}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn servers_without_an_address_are_refused() {
    let server = RedisServer::builder().socket().start().await.expect("a server");
    let config = Config::unix(server.socket().expect("a socket")).expect("a path");
    let refused = report(config).await.expect_err("only a socket is known");
    assert!(matches!(refused, InspectError::NoAddresses), "{refused}");
}

/// The client of the inspector may have another user than the configuration.
#[tokio::test(flavor = "multi_thread")]
async fn the_permissions_are_those_of_the_user_that_is_named() {
    let server = RedisServer::start().await.expect("a server");
    server.set_user("app", &["on", ">secret", "~*", "&*", "+@all", "-hset"]).await.expect("an answer");
    let config = Config::from_url(server.url_for("app", "secret")).expect("a URL");
    let client = Client::connect(server.url().as_str()).await.expect("a client");
    let report = Inspector::new(&client).doctor(&Requirements::of(&config)).await.expect("a report");
    let acl = report.findings.iter().find(|finding| finding.check == "acl").expect("it was checked");
    assert!(acl.level == Level::Fail && acl.message.starts_with("app is denied +hset"), "{acl:?}");
}
