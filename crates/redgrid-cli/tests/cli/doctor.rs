//! `redgrid doctor` for well and badly configured servers.

use redgrid_testkit::{Cluster, RedisServer, Replicated, Sentinels, StartError};
use serde_json::{Value, json};

use crate::permissions::allow_reader;
use crate::support::{Ended, run};

fn examine(url: &str) -> Ended {
    tokio::task::block_in_place(|| run(&["doctor", "--json", "--url", url]))
}

/// Returns the levels of one check, on any node.
fn levels(told: &Value, check: &str) -> Vec<String> {
    let findings = told["findings"].as_array().expect("a list");
    let of = findings.iter().filter(|finding| finding["check"] == check);
    of.map(|finding| finding["level"].as_str().expect("a level").to_owned()).collect()
}

fn assert_level(told: &Value, check: &str, level: &str) {
    let levels = levels(told, check);
    assert!(!levels.is_empty() && levels.iter().all(|one| one == level), "{check}: {levels:?} in {told}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_set_up_well_has_nothing_to_put_right() {
    let server =
        RedisServer::builder().append_only(true).config("appendfsync everysec").start().await.expect("a server");
    let ended = examine(&server.url());
    let told = ended.json();
    assert_eq!((ended.code(), &told["worst"], &told["topology"]), (0, &json!("ok"), &json!("single")), "{told}");
    assert_eq!(told["nodes"], json!([server.addr().to_string()]));
    for check in ["replicas", "min-replicas", "clocks", "version", "memory", "persistence", "events", "timeout", "acl"]
    {
        assert_level(&told, check, "ok");
    }
    let observer = server.observer().await.expect("an observer");
    assert!(observer.keys("*").await.expect("an answer").is_empty());
    let text = tokio::task::block_in_place(|| run(&["doctor", "--url", &server.url()])).stdout();
    assert!(text.starts_with("single: ") && text.ends_with(" ok, 0 to consider, 0 to correct\n"), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn settings_that_break_locks_are_reported_with_exit_code_1() {
    let server = RedisServer::builder()
        .config("maxmemory 100mb")
        .config("maxmemory-policy allkeys-lru")
        .config("min-replicas-to-write 0")
        .config("timeout 5")
        .config("tcp-keepalive 0")
        .start()
        .await
        .expect("a server");
    server.set_config("min-replicas-to-write", "1").await.expect("an answer");
    let ended = examine(&server.url());
    let told = ended.json();
    assert_eq!((ended.code(), &told["worst"]), (1, &json!("fail")), "{told}");
    for (check, level) in [
        ("memory", "fail"),
        ("min-replicas", "fail"),
        ("persistence", "warn"),
        ("timeout", "warn"),
        ("keepalive", "warn"),
    ] {
        assert_level(&told, check, level);
    }
    for finding in told["findings"].as_array().expect("a list") {
        assert!(finding["message"].as_str().is_some_and(|text| !text.is_empty() && !text.contains('\n')), "{finding}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn warnings_fail_on_request_and_findings_have_hints_on_request() {
    let server = RedisServer::builder().config("tcp-keepalive 0").start().await.expect("a server");
    let doctor =
        |more: &[&str]| tokio::task::block_in_place(|| run(&[&["doctor", "--url", &server.url()], more].concat()));
    let plain = doctor(&[]);
    assert!(plain.code() == 0 && !plain.stdout().contains("fix:"), "{}", plain.stdout());
    assert_eq!((doctor(&["--fail-on", "warn"]).code(), doctor(&["--fail-on", "fail"]).code()), (1, 0));
    let (host, port) = (server.addr().ip(), server.addr().port());
    let fix = format!("redis-cli -h {host} -p {port} CONFIG SET tcp-keepalive 300, then CONFIG REWRITE");
    let hints = doctor(&["--fix-hints"]).stdout();
    assert!(hints.contains(&format!("\n      fix: {fix}\n")), "{hints}");
    let json = doctor(&["--fix-hints", "--json"]).json();
    let findings = json["findings"].as_array().expect("a list");
    let found = findings.iter().find(|finding| finding["check"] == "keepalive").expect("a finding");
    assert_eq!((&json["schema"], &found["fix"]), (&json!(1), &json!(fix)));
    assert!(findings.iter().filter(|finding| finding["level"] == "ok").all(|finding| finding.get("fix").is_none()));
    // The suggested step corrects the setting.
    server.set_config("tcp-keepalive", "300").await.expect("an answer");
    assert_level(&doctor(&["--json"]).json(), "keepalive", "ok");
    let names = doctor(&["-o", "name"]).stdout();
    assert!(names.contains("persistence\n") && !names.contains("keepalive"), "{names}");
    let table = doctor(&["-o", "table"]).stdout();
    assert!(table.starts_with("LEVEL  CHECK ") && table.contains("warn   persistence"), "{table}");
}

#[tokio::test(flavor = "multi_thread")]
async fn missing_permissions_are_reported() {
    let server = RedisServer::start().await.expect("a server");
    let url = |name: &str| server.url_for(name, "secret");
    let rules = ["on", ">secret", "~*", "&*", "-@all", "+time", "+ping", "+evalsha", "+eval", "+info", "+exists"];
    server.set_user("poor", &rules).await.expect("an answer");
    let ended = examine(&url("poor"));
    let told = ended.json();
    assert_eq!(ended.code(), 1, "{told} {}", ended.stderr());
    assert_level(&told, "acl", "fail");
    let findings = told["findings"].to_string();
    assert!(
        findings.contains("+hexists") && findings.contains("+pexpire") && !findings.contains("+exists +"),
        "{findings}"
    );
    // With all permissions except reading settings, the command works and reports the skipped
    // checks.
    server.set_user("app", &["on", ">secret", "~*", "&*", "+@all", "-config"]).await.expect("an answer");
    let ended = examine(&url("app"));
    let told = ended.json();
    assert_eq!(ended.code(), 0, "{told} {}", ended.stderr());
    assert_level(&told, "settings", "warn");
    assert_level(&told, "acl", "ok");
}

#[tokio::test(flavor = "multi_thread")]
async fn checks_that_only_read_write_nothing_and_a_reader_is_refused_nothing() {
    let server = RedisServer::start().await.expect("a server");
    let observer = server.observer().await.expect("an observer");
    let doctor = |url: &str, option: &str| {
        let ended = tokio::task::block_in_place(|| run(&["doctor", "--json", "--url", url, option]));
        assert_eq!(ended.code(), 0, "{} {}", ended.stdout(), ended.stderr());
        ended.json()
    };
    let told = doctor(&server.url(), "--read-only");
    assert_level(&told, "acl", "ok");
    assert!(told["findings"].to_string().contains("in scripts are not checked"), "{told}");
    let stats: String = observer.query(&["INFO", "commandstats"]).await.expect("an answer");
    for writing in ["hset", "set", "del", "pexpire"] {
        assert!(!stats.contains(&format!("cmdstat_{writing}:")), "{writing}: {stats}");
    }
    allow_reader(&server).await;
    let told = doctor(&server.url_for("reader", "secret"), "--for-reader");
    for check in ["version", "replicas", "clocks"] {
        assert_level(&told, check, "ok");
    }
    for check in ["settings", "acl", "memory"] {
        assert!(levels(&told, check).is_empty(), "{check}: {told}");
    }
    let log: Vec<redgrid_testkit::redis::Value> = observer.query(&["ACL", "LOG"]).await.expect("an answer");
    assert!(log.is_empty(), "{log:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn every_node_of_a_sentinel_deployment_is_looked_at() {
    let sentinels = Sentinels::start().await.expect("it starts");
    let told = examine(&sentinels.url()).json();
    assert_eq!((&told["topology"], told["nodes"].as_array().map(Vec::len)), (&json!("sentinel"), Some(3)), "{told}");
    assert_level(&told, "sentinels", "ok");
    assert_level(&told, "clocks", "ok");
    // A primary that is cut off from its replicas would continue to grant locks.
    assert_level(&told, "min-replicas", "warn");
    for sentinel in &sentinels.sentinels()[1..] {
        sentinel.kill().await.expect("it was running");
    }
    redgrid_testkit::wait_until(std::time::Duration::from_secs(60), async || {
        levels(&examine(&sentinels.url()).json(), "sentinels").contains(&"fail".to_owned())
    })
    .await;
}

/// The sentinel permissions published in docs/operating/security.md.
const WATCHER: &str = "+sentinel|master +sentinel|get-master-addr-by-name +sentinel|replicas +sentinel|sentinels +subscribe \
                       +unsubscribe +ping +client|info +client|setname +client|id +info &+switch-master &+selected-slave";

#[tokio::test(flavor = "multi_thread")]
async fn sentinels_are_queried_with_their_own_login() {
    let page = include_str!("../../../../docs/operating/security.md").split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(page.contains(&WATCHER.split_whitespace().collect::<Vec<_>>().join(" ")), "the published line");
    // This password cannot be in a URL without encoding.
    let (secret, encoded) = ("p/w @?#", "p%2Fw%20%40%3F%23");
    let rules = format!("on \">{secret}\" resetchannels -@all {WATCHER}");
    let asked = RedisServer::builder().password("nobody").user("watcher", &rules);
    let able = asked.user("able", format!("{rules} +sentinel|ckquorum"));
    let sentinels = Sentinels::builder().server_options(RedisServer::builder().password("of-the-servers"));
    let sentinels = sentinels.sentinel_options(able).start().await.expect("it starts");
    let as_user = |user: &str| format!("{}?sentinel_username={user}&sentinel_password={encoded}", sentinels.url());
    let able = examine(&as_user("able"));
    let told = able.json();
    assert_level(&told, "sentinels", "ok");
    assert_eq!(told["nodes"].as_array().map(Vec::len), Some(3), "{told}");
    assert!(!able.stdout().contains(secret) && !able.stderr().contains(secret), "{told}");
    // With the minimum permissions of clients, it reports the skipped checks, and no error.
    let told = examine(&as_user("watcher")).json();
    let mut levels = levels(&told, "sentinels");
    levels.sort();
    assert_eq!(levels, ["ok", "warn"], "{told}");
    assert!(told["findings"].to_string().contains("+sentinel|ckquorum"), "{told}");
    let gone = &sentinels.sentinels()[2];
    gone.kill().await.expect("it was running");
    let told = examine(&as_user("able")).json();
    assert!(told["findings"].to_string().contains(&format!("{} did not answer", gone.addr())), "{told}");
}

#[tokio::test(flavor = "multi_thread")]
async fn sentinels_are_queried_over_tls() {
    let sentinels = Sentinels::builder().replicas(1).server_options(RedisServer::builder().tls());
    let sentinels = match sentinels.start().await {
        Err(StartError::NoTls { .. }) => return,
        started => started.expect("it starts"),
    };
    let authority = sentinels.sentinels()[0].tls().expect("it speaks TLS").ca_file();
    let told = examine(&format!("{}?tls_ca_file={}", sentinels.url(), authority.display())).json();
    assert_level(&told, "sentinels", "ok");
    assert_eq!(told["nodes"].as_array().map(Vec::len), Some(2), "{told}");
}

#[tokio::test(flavor = "multi_thread")]
async fn every_node_of_a_primary_with_replicas_is_looked_at() {
    let replicated = Replicated::start(1).await.expect("it starts");
    let [primary, replica] = [replicated.primary().addr(), replicated.replicas()[0].addr()];
    let url = |more: &str| format!("redis-master-slave://{primary},{replica}{more}");
    let told = examine(&url("")).json();
    assert_eq!(told["nodes"], json!([primary.to_string(), replica.to_string()]));
    assert_level(&told, "replicas", "ok");
    let asked = "?durability=replicas&durability_at_least=";
    assert_level(&examine(&url(&format!("{asked}1"))).json(), "durability", "ok");
    let ended = examine(&url(&format!("{asked}2")));
    assert_level(&ended.json(), "durability", "fail");
    assert_eq!(ended.code(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn every_node_of_a_cluster_is_looked_at() {
    let cluster = Cluster::builder().replicas_per_primary(1).start().await.expect("it starts");
    let told = examine(&cluster.url()).json();
    assert_eq!((&told["topology"], told["nodes"].as_array().map(Vec::len)), (&json!("cluster"), Some(6)), "{told}");
    for check in ["cluster", "replicas", "clocks", "acl", "version"] {
        assert_level(&told, check, "ok");
    }
    let bare = Cluster::builder().replicas_per_primary(0).full_coverage(true).start().await.expect("it starts");
    let told = examine(&bare.url()).json();
    assert_level(&told, "replicas", "fail");
    assert!(levels(&told, "cluster").contains(&"warn".to_owned()), "{told}");
}

#[test]
fn without_a_server_the_exit_code_is_69() {
    let ended = run(&["doctor", "--url", "redis://127.0.0.1:1"]);
    assert_eq!((ended.code(), ended.stdout().as_str()), (69, ""), "{}", ended.stderr());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_without_resp3_is_reported_with_the_setting_to_use() {
    let server = RedisServer::builder().config("rename-command HELLO \"\"").start().await.expect("a server");
    let told = examine(&server.url()).json();
    assert_level(&told, "protocol", "warn");
    assert!(told["findings"].to_string().contains("set protocol to resp2"), "{told}");
    // The command connects to each node with the settings of the deployment.
    let told = examine(&format!("{}?protocol=resp2", server.url())).json();
    assert!(levels(&told, "protocol").is_empty(), "{told}");
}
