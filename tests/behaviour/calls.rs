//! Calls of scripts, functions and commands: where errors come from, the target node, and the
//! order.

use std::time::{Duration, Instant};

use redgrid_core::author::ClientExt;
use redgrid_core::{Client, Code, Failure, ServerError};
use redgrid_script::{Batch, Call, CallError, Functions, Library, Script};
use redgrid_testkit::{Cluster, Proxy, RedisServer, wait_until};
use redgrid_tests::{SOON, client, client_with, server};

fn code(told: &CallError) -> Option<Code> {
    match told {
        CallError::Failed(Failure::Refused { source, .. }) => source.code(),
        _ => None,
    }
}

/// Returns a script that counts its calls and replies with this error.
fn says(words: &str) -> Script {
    Script::new(format!("redis.call('INCR', KEYS[1]); return redis.error_reply('{words}')"))
}

/// A script that fails with this error runs once. The text differs from that of the server's own
/// error, so the client returns the error and does not send the request again.
#[tokio::test(flavor = "multi_thread")]
async fn a_script_that_says_that_its_cluster_is_down_is_run_once() {
    let server = server().await;
    let client = client(&server).await;
    let told = says("CLUSTERDOWN come later").call().key("n").query::<i64>(&client).await.unwrap_err();
    assert!(matches!(told, CallError::Failed(Failure::Refused { .. } | Failure::OutcomeUnknown { .. })), "{told:?}");
    assert_eq!(server.observer().await.unwrap().get::<i64>("n").await.unwrap(), Some(1));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_redirection_by_a_script_is_not_followed() {
    let cluster = Cluster::start(3, 0).await.unwrap();
    let client = client_with(&cluster.url(), |config| config).await;
    let slot = cluster.slot_of("n").await.unwrap();
    let home = cluster.primary_of(slot).await.unwrap();
    let other = cluster.nodes().iter().find(|node| node.addr() != home.addr()).unwrap();
    for (n, words) in (1..).zip([
        format!("MOVED {} {}", (slot + 1) % 16_384, other.addr()),
        format!("ASK {} {}", (slot + 1) % 16_384, home.addr()),
        format!("MOVED {slot} {} by hand", home.addr()),
        format!("ASK {slot} nowhere"),
    ]) {
        let told = says(&words).call().key("n").query::<i64>(&client).await.unwrap_err();
        assert!(matches!(code(&told), Some(Code::Moved | Code::Ask)), "{words}: {told:?}");
        let count: i64 = Call::command("GET").key("n").query(&client).await.unwrap();
        assert_eq!(count, n, "{words}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_script_that_claims_to_read_only_costs_no_connection() {
    let server = server().await;
    let client = client(&server).await;
    let epoch = async || client.primaries().await.unwrap()[0].epoch();
    let before = epoch().await;
    let told = says("READONLY on mondays").call().key("n").query::<i64>(&client).await.unwrap_err();
    assert_eq!(code(&told), Some(Code::ReadOnly));
    assert_eq!(epoch().await, before);
}

/// Returns a client connected to `former` by an address that is later given to `next`. The client's
/// connection for atomic batches is open.
async fn by_address(former: &RedisServer) -> (Proxy, Client) {
    let address = Proxy::to(former).await.unwrap();
    let client = client_with(&former.url_via(address.addr()), |config| config).await;
    assert_eq!(add_atomically(&client).await.unwrap(), 1);
    (address, client)
}

async fn add_atomically(client: &Client) -> Result<i64, CallError> {
    let mut batch = Batch::new(client).atomic().timeout(SOON);
    let n = batch.push::<i64>(Call::command("INCRBY").key("n").int(1));
    batch.send().await?.get(&n)
}

#[tokio::test(flavor = "multi_thread")]
async fn an_atomic_batch_follows_an_address_whose_server_became_read_only() {
    let (former, next) = (server().await, server().await);
    let (address, client) = by_address(&former).await;
    let (host, port) = (next.addr().ip().to_string(), next.addr().port().to_string());
    former.observer().await.unwrap().cmd(&["REPLICAOF", &host, &port]).await.unwrap();
    address.redirect(next.addr());
    assert_eq!(add_atomically(&client).await.unwrap(), 1);
    assert_eq!(next.observer().await.unwrap().get::<i64>("n").await.unwrap(), Some(1));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_atomic_batch_is_executed_where_other_requests_are() {
    let (former, next) = (server().await, server().await);
    let (address, client) = by_address(&former).await;
    address.redirect(next.addr());
    // Its connections for requests are closed, but not the one for batches.
    let observer = former.observer().await.unwrap();
    let list: String = observer.query(&["CLIENT", "LIST"]).await.unwrap();
    for line in list.lines().filter(|line| line.contains(" name=redgrid ")) {
        let id = line.split(' ').find_map(|field| field.strip_prefix("id=")).unwrap();
        observer.cmd(&["CLIENT", "KILL", "ID", id]).await.unwrap();
    }
    let observer = next.observer().await.unwrap();
    wait_until(SOON, async || {
        let _ = Call::command("SET").key("seen").int(1).query::<()>(&client).await;
        observer.exists("seen").await.unwrap()
    })
    .await;
    assert_eq!(add_atomically(&client).await.unwrap(), 1);
    assert_eq!(observer.get::<i64>("n").await.unwrap(), Some(1));
    assert_eq!(former.observer().await.unwrap().get::<i64>("n").await.unwrap(), Some(1));
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_and_arguments_of_a_command_are_sent_in_the_order_in_which_they_were_added() {
    let server = server().await;
    let client = client_with(&server.url(), |config| config.namespace("prod").unwrap()).await;
    let observer = server.observer().await.unwrap();
    Call::command("MSET").key("a").arg("1").key("b").arg("2").query::<()>(&client).await.unwrap();
    assert_eq!(observer.get::<i64>("prod:a").await.unwrap(), Some(1));
    assert_eq!(observer.get::<i64>("prod:b").await.unwrap(), Some(2));
    assert_eq!(observer.keys("*").await.unwrap().len(), 2);
    let inner = Call::command("EVAL").arg("return {KEYS[1], ARGV[1]}").int(1).key("a").arg("x");
    assert_eq!(inner.query::<(String, String)>(&client).await.unwrap(), ("prod:a".into(), "x".into()));
    Call::command("XADD").key("s").arg("1-1").arg("f").arg("v").query::<()>(&client).await.unwrap();
    let read = Call::subcommand("XREAD", "COUNT").int(1).arg("STREAMS").key("s").arg("0");
    let mut batch = Batch::new(&client).atomic();
    let entries = batch.push::<Option<redgrid_script::Reply>>(read);
    assert!(batch.send().await.unwrap().get(&entries).unwrap().is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn commands_that_would_block_or_change_the_shared_connection_are_not_sent() {
    let server = server().await;
    let client = client(&server).await;
    let blocking = |name: &'static str| Call::command(name).arg("COUNT").int(1);
    for call in [
        Call::command("sync"),
        Call::command("PSYNC"),
        Call::command("REPLCONF"),
        Call::command("UNSUBSCRIBE"),
        Call::command("PUNSUBSCRIBE"),
        Call::command("SUNSUBSCRIBE"),
        Call::command("SHUTDOWN"),
        Call::subcommand("SCRIPT", "debug").arg("YES"),
        Call::command("script").arg("DEBUG").arg("YES"),
        blocking("XREAD").arg("block").int(0).arg("STREAMS").key("s").arg("$"),
        Call::subcommand("XREAD", "BLOCK").int(0).arg("STREAMS").key("s").arg("$"),
        Call::command("XREADGROUP").arg("GROUP").arg("g").arg("c").arg("BLOCK").int(0).arg("STREAMS").key("s").arg(">"),
    ] {
        let mut batch = Batch::new(&client).atomic();
        batch.push::<()>(call.clone());
        for told in [call.clone().query::<()>(&client).await.unwrap_err(), batch.send().await.unwrap_err()] {
            assert!(
                matches!(told, CallError::Failed(Failure::InvalidArgument { option: "command", .. })),
                "{call:?}: {told:?}"
            );
        }
    }
    // A stream, a group and a consumer may have the same name as an option.
    let read = blocking("XREAD").arg("STREAMS").key("BLOCK").arg("0");
    assert!(read.query::<Option<redgrid_script::Reply>>(&client).await.unwrap().is_none());
    let create = Call::subcommand("XGROUP", "CREATE").key("s").arg("BLOCK").arg("$").arg("MKSTREAM");
    create.query::<()>(&client).await.unwrap();
    let read = Call::command("XREADGROUP").arg("GROUP").arg("BLOCK").arg("BLOCK").arg("STREAMS").key("s").arg(">");
    assert!(read.query::<Option<redgrid_script::Reply>>(&client).await.unwrap().is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_at_the_target_of_a_moving_slot_are_answered_as_elsewhere() {
    let cluster = Cluster::start(3, 0).await.unwrap();
    let client = client_with(&cluster.url(), |config| config).await;
    let slot = cluster.slot_of("{t}").await.unwrap();
    let home = cluster.primary_of(slot).await.unwrap().addr();
    let to = cluster.nodes().iter().find(|node| node.addr() != home).unwrap();
    cluster.begin_migration(slot, to).await.unwrap();
    // The script uses an error code that the server never uses.
    let told = says("SOLDOUT none left").call().key("{t}:n").query::<i64>(&client).await.unwrap_err();
    assert_eq!(code(&told), Some(Code::Other), "{told:?}");
    // The target node lacks this library.
    let lua = "#!lua name=adds\nredis.register_function('adds', function(keys, args) return redis.call('INCRBY', keys[1], args[1]) end)";
    let adds = Library::new(lua).unwrap().function("adds");
    assert_eq!(adds.call().key("{t}:m").int(2).query::<i64>(&client).await.unwrap(), 2);
    cluster.move_keys(slot).await.unwrap();
    cluster.finish_migration(slot).await.unwrap();
    assert_eq!(Call::command("GET").key("{t}:n").query::<i64>(&client).await.unwrap(), 1);
}

/// The server is without `EVAL_RO`, like Redis 6.2.
#[tokio::test(flavor = "multi_thread")]
async fn an_atomic_batch_with_a_read_only_script_runs_on_servers_without_eval_ro() {
    let server = RedisServer::builder().config("rename-command EVALSHA_RO \"\"").config("rename-command EVAL_RO \"\"");
    let server = server.start().await.unwrap();
    let client = client(&server).await;
    let mut batch = Batch::new(&client).atomic();
    let one = batch.push::<i64>(Call::command("INCRBY").key("n").int(1));
    let read = batch.push::<i64>(Script::new("return tonumber(redis.call('GET', KEYS[1]))").reads().call().key("n"));
    let results = batch.send().await.unwrap();
    assert_eq!((results.get(&one).unwrap(), results.get(&read).unwrap()), (1, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_rejected_until_its_timeout_is_reported_as_rejected() {
    let (server, other) = (server().await, server().await);
    let client = client(&server).await;
    let (host, port) = (other.addr().ip().to_string(), other.addr().port().to_string());
    server.observer().await.unwrap().cmd(&["REPLICAOF", &host, &port]).await.unwrap();
    let mut batch = Batch::new(&client).timeout(Duration::from_millis(300));
    let all: Vec<_> = (0..50).map(|_| batch.push::<i64>(Call::command("INCRBY").key("n").int(1))).collect();
    let results = batch.send().await.unwrap();
    // The call in flight at the end may have an unknown outcome. The calls after it were not sent.
    let unknown = all
        .iter()
        .filter(|one| matches!(results.get(one), Err(CallError::Failed(Failure::OutcomeUnknown { .. }))))
        .count();
    assert!(unknown <= 1, "{unknown}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_to_a_node_stays_in_order_by_several_connections_too() {
    let server = server().await;
    let client = client_with(&server.url(), |config| config.connections_per_node(4)).await;
    let log = Script::new("return redis.call('RPUSH', 'log', ARGV[1])");
    let mut batch = Batch::new(&client);
    for n in 0..3000 {
        batch.push::<i64>(log.call().key(format!("k{n}")).int(n));
    }
    batch.send().await.unwrap().check().unwrap();
    let list: Vec<i64> = Call::command("LRANGE").key("log").int(0).int(-1).query(&client).await.unwrap();
    assert_eq!(list, (0..3000).collect::<Vec<_>>());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_text_of_scripts_counts_for_the_size_of_a_batch() {
    let server = server().await;
    let client = client(&server).await;
    let mut batch = Batch::new(&client);
    let long = Script::new(format!("return 1 --{}", " ".repeat(16 << 20)));
    for _ in 0..4 {
        batch.push::<i64>(long.call());
    }
    let told = batch.send().await.unwrap_err();
    assert!(matches!(told, CallError::Failed(Failure::InvalidArgument { option: "size", .. })), "{told:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn all_primaries_are_queried_within_the_timeout() {
    let server = server().await;
    let proxy = Proxy::to(&server).await.unwrap();
    let client = client_with(&server.url_via(proxy.addr()), |config| config.response_timeout(SOON)).await;
    proxy.refuse_connections().await.unwrap();
    proxy.cut_all();
    wait_until(SOON, async || client.primaries().await.unwrap()[0].epoch().is_none()).await;
    let (began, call) = (Instant::now(), Script::new("return 1").call().timeout(Duration::from_millis(200)));
    let told = tokio::time::timeout(SOON, call.query_all_nodes::<i64>(&client)).await;
    let told = told.expect("an end at its timeout").and_then(|all| all.reduce(0, |sum, n| sum + n));
    assert!(told.is_err() && began.elapsed() < SOON, "{told:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn libraries_are_distinguished_by_case() {
    let server = server().await;
    let client = client(&server).await;
    let functions = Functions::new(&client);
    let library = |name: &str, function: &str| {
        let code = format!("#!lua name={name}\nredis.register_function('{function}', function() return 1 end)");
        Library::new(code).unwrap()
    };
    let (upper, lower) = (library("Stock", "one"), library("stock", "two"));
    functions.load(&upper).await.unwrap();
    functions.load(&lower).await.unwrap();
    functions.load(&lower).await.unwrap();
    let told = functions.load(&library("stock", "three")).await.unwrap_err();
    let CallError::Failed(Failure::Refused { source: ServerError::Refused { message, .. }, .. }) = &told else {
        panic!("{told:?}")
    };
    assert!(message.contains("already exists"), "{message}");
}
