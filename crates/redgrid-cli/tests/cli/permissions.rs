//! Exit code 77: the user of the servers lacks a permission.

use redgrid_testkit::{Cluster, RedisServer};

use crate::look::hold;
use crate::support::run;

/// Exit code: the user lacks a permission.
const NO_PERMISSION: i32 = 77;

/// Adds the user `reader` with the published permissions, and empties the ACL log.
pub(crate) async fn allow_reader(server: &RedisServer) {
    let page = include_str!("../../../../docs/operating/acl.md");
    let lines = page.lines().filter_map(|line| line.strip_prefix("ACL SETUSER reader "));
    // Redis 6.2 has no sharded channels.
    let has_shards = server.binary().version().major >= 7;
    let is_known = |rule: &&str| has_shards || !["+ssubscribe", "+sunsubscribe"].contains(rule);
    let rules = lines.flat_map(str::split_whitespace).filter(|rule| *rule != ">SECRET").filter(is_known);
    let rules: Vec<&str> = rules.chain([">secret"]).collect();
    server.set_user("reader", &rules).await.expect("an answer");
    server.observer().await.expect("an observer").cmd(&["ACL", "LOG", "RESET"]).await.expect("an answer");
}

#[tokio::test]
async fn a_missing_permission_is_exit_code_77_and_named() {
    let server = RedisServer::start().await.expect("a server");
    let observer = server.observer().await.expect("an observer");
    hold(&observer, "job", "1", "60000").await;
    for (command, denied) in [
        (&["ls"][..], "scan"),
        (&["queue", "ls"], "scan"),
        (&["clients"], "pubsub"),
        (&["top", "--once"], "pubsub"),
        (&["inspect", "job"], "hlen"),
        (&["wait", "job", "--free"], "hlen"),
        (&["watch", "job", "--for", "1m"], "hlen"),
        (&["unlock", "--reason", "test", "--force", "job"], "hlen"),
        (&["queue", "counts", "mail"], "zcard"),
        (&["queue", "peek", "mail"], "zrange"),
        (&["queue", "redrive", "mail", "--all"], "zcard"),
        (&["lock", "other", "--", "true"], "hset"),
    ] {
        let user = format!("without-{denied}");
        let rules = ["on", ">secret", "~*", "&*", "+@all", &format!("-{denied}")];
        server.set_user(&user, &rules).await.expect("an answer");
        let ended = run(&[&["--url", &server.url_for(&user, "secret")], command].concat());
        assert_eq!((ended.code(), ended.stdout().as_str()), (NO_PERMISSION, ""), "{command:?}: {}", ended.stderr());
        let told = ended.stderr();
        // A denial within a script does not name the command.
        let names_it = told.contains(denied) || told.contains("can't run this command");
        assert!(told.starts_with("redgrid: the user of the server at ") && names_it, "{denied}: {told}");
        assert_eq!(told.lines().count(), 1, "{told}");
        assert!(!told.contains("secret"), "{told}");
    }
    let away = run(&["ls", "--url", "redis://127.0.0.1:1"]);
    assert_eq!(away.code(), 69, "{}", away.stderr());
}

#[tokio::test]
async fn a_reader_with_the_published_permissions_may_run_each_command_that_reads() {
    let server = RedisServer::start().await.expect("a server");
    let observer = server.observer().await.expect("an observer");
    hold(&observer, "job", "1", "60000").await;
    allow_reader(&server).await;
    let url = server.url_for("reader", "secret");
    for command in [
        &["ls", "--kind", "all"][..],
        &["inspect", "job"],
        &["clients"],
        &["top", "--once"],
        &["wait", "nobody", "--free"],
        &["queue", "ls"],
        &["queue", "counts", "mail"],
        &["queue", "peek", "mail", "--values"],
        &["queue", "peek", "mail", "--state", "dead"],
    ] {
        let ended = run(&[&["--url", &url], command].concat());
        assert_eq!(ended.code(), 0, "{command:?}: {}", ended.stderr());
    }
    let log: Vec<redgrid_testkit::redis::Value> = observer.query(&["ACL", "LOG"]).await.expect("an answer");
    assert!(log.is_empty(), "{log:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn one_node_of_a_cluster_that_denies_is_enough_for_77() {
    let cluster = Cluster::start(3, 0).await.expect("it starts");
    cluster.nodes()[1].deny(&["scan"]).await.expect("an answer");
    let ended = tokio::task::block_in_place(|| run(&["ls", "--url", &cluster.url()]));
    assert_eq!(ended.code(), NO_PERMISSION, "{}", ended.stderr());
    assert!(ended.stderr().contains("scan"), "{}", ended.stderr());
}
