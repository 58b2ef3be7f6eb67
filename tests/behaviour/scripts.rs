//! Scripts of users, and functions stored by servers.

use std::collections::HashMap;
use std::time::Duration;

use redgrid_core::{Client, Code, Failure, ServerError};
use redgrid_script::codecs::{Json, Kryo};
use redgrid_script::{Call, CallError, ForgetAll, Function, Functions, Library, Restoring, Script, Scripts};
use redgrid_testkit::{Action, Proxy, RedisServer, wait_until};
use redgrid_tests::{SOON, client, client_with, server};

const COUNT: &str = "return redis.call('INCRBY', KEYS[1], ARGV[1])";

fn refused(told: CallError) -> (Code, String) {
    match told {
        CallError::Failed(Failure::Refused { source: ServerError::Refused { code, message }, .. }) => (code, message),
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn replies_are_decoded_as_requested() {
    let server = server().await;
    let client = client(&server).await;
    let say = |text: &'static str| Script::new(text).call();
    assert_eq!(say("return 5").query::<i64>(&client).await.unwrap(), 5);
    assert_eq!(say("return 'a'").query::<String>(&client).await.unwrap(), "a");
    assert_eq!(say("return redis.status_reply('PONG')").query::<String>(&client).await.unwrap(), "PONG");
    assert_eq!(say("return false").query::<Option<i64>>(&client).await.unwrap(), None);
    assert!(say("return 1").query::<bool>(&client).await.unwrap());
    assert_eq!(
        say("return {1, 'b', false}").query::<(i64, String, Option<i64>)>(&client).await.unwrap(),
        (1, "b".into(), None)
    );
    let map = say("return {'a', 1, 'b', 2}").query::<HashMap<String, i64>>(&client).await.unwrap();
    assert_eq!(map, HashMap::from([("a".into(), 1), ("b".into(), 2)]));
    say("return 1").query::<()>(&client).await.unwrap();
    let told = say("return 'x'").query::<i64>(&client).await.unwrap_err();
    assert!(matches!(told, CallError::Unexpected { .. }), "{told:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn values_are_encoded_and_decoded_by_codecs() {
    let server = server().await;
    let client = client(&server).await;
    let swap = Script::new("local old = redis.call('GET', KEYS[1]); redis.call('SET', KEYS[1], ARGV[1]); return old");
    let value = vec![1_u32, 2];
    let old: Option<Vec<u32>> = swap.call().key("v").value(&Json, &value).query_as(&client, &Json).await.unwrap();
    assert_eq!(old, None);
    let old: Option<Vec<u32>> = swap.call().key("v").value(&Json, &vec![3_u32]).query_as(&client, &Json).await.unwrap();
    assert_eq!(old, Some(value));
    let list = Script::new("return {ARGV[1], false, ARGV[2]}");
    let all = list.call().value(&Json, &7).value(&Json, &8).query_list_as::<u32, _>(&client, &Json).await.unwrap();
    assert_eq!(all, [Some(7), None, Some(8)]);
    let pairs = Script::new("return {ARGV[1], ARGV[2]}");
    let map = pairs.call().value(&Json, "k").value(&Json, &1);
    let map: HashMap<String, u32> = map.query_map_as(&client, &Json, &Json).await.unwrap();
    assert_eq!(map, HashMap::from([("k".into(), 1)]));
    let told = swap.call().key("v").value(&Json, &1).query_as::<String, _>(&client, &Kryo).await.unwrap_err();
    assert!(matches!(told, CallError::Decode { .. }), "{told:?}");
    assert!(told.to_string().contains("Json"), "{}", told);
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_follow_the_namespace_and_are_checked() {
    let server = server().await;
    let client = client_with(&server.url(), |config| config.namespace("prod").unwrap()).await;
    let n: i64 = Script::new(COUNT).call().key("n").int(3).query(&client).await.unwrap();
    assert_eq!(n, 3);
    assert_eq!(server.observer().await.unwrap().get::<i64>("prod:n").await.unwrap(), Some(3));
    let told = Script::new(COUNT).call().key("").int(3).query::<i64>(&client).await.unwrap_err();
    assert!(matches!(told, CallError::Failed(Failure::InvalidName(_))), "{told:?}");
    for command in ["MULTI", "subscribe", "SELECT", "BLPOP", "", "GET x"] {
        let told = Call::command(command).query::<()>(&client).await.unwrap_err();
        assert!(
            matches!(told, CallError::Failed(Failure::InvalidArgument { option: "command", .. })),
            "{command}: {told:?}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_script_that_the_server_forgot_is_sent_again() {
    let server = server().await;
    let client = client(&server).await;
    let (scripts, script) = (Scripts::new(&client), Script::new(COUNT));
    let other = Script::new("return 2");
    assert_eq!(scripts.load(&script).await.unwrap(), script.sha());
    assert_eq!(scripts.exists([&script, &other]).await.unwrap(), [true, false]);
    assert!(scripts.exists([]).await.unwrap().is_empty());
    for n in 1..=5 {
        scripts.flush(ForgetAll::Yes).await.unwrap();
        assert_eq!(scripts.exists([&script]).await.unwrap(), [false]);
        assert_eq!(script.call().key("n").int(1).query::<i64>(&client).await.unwrap(), n);
    }
    assert_eq!(scripts.exists([&script]).await.unwrap(), [true]);
}

async fn lossy() -> (RedisServer, Proxy, Client) {
    let server = server().await;
    let proxy = Proxy::to(&server).await.unwrap();
    let client =
        client_with(&server.url_via(proxy.addr()), |config| config.response_timeout(Duration::from_millis(500))).await;
    (server, proxy, client)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_script_with_a_lost_reply_is_unknown_and_run_once_unless_idempotent() {
    let (server, proxy, client) = lossy().await;
    let observer = server.observer().await.unwrap();
    let script = Script::new(COUNT);
    script.call().key("n").int(1).query::<i64>(&client).await.unwrap();
    proxy.next(1, "EVALSHA", Action::SwallowReply);
    let told = script.call().key("n").int(1).query::<i64>(&client).await.unwrap_err();
    assert!(matches!(told, CallError::Failed(Failure::OutcomeUnknown { .. })), "{told:?}");
    assert_eq!(observer.get::<i64>("n").await.unwrap(), Some(2));
    proxy.next(1, "EVALSHA", Action::SwallowReply);
    let again = script.clone().idempotent();
    let n = again.call().key("n").int(1).query::<i64>(&client).await.unwrap();
    // The connection of the lost reply may have executed more than one copy.
    assert!(n >= 4, "{n}");
    assert_eq!(observer.get::<i64>("n").await.unwrap(), Some(n));
}

/// A script's own error is returned, and the script runs once. Errors with the same first words are
/// retried if the server itself sends them.
#[tokio::test(flavor = "multi_thread")]
async fn a_scripts_error_reply_is_its_own_and_runs_once() {
    let server = server().await;
    let client = client(&server).await;
    let words =
        ["BUSY", "TRYAGAIN", "LOADING", "READONLY", "NOSCRIPT", "MASTERDOWN", "NOREPLICAS", "MOVED", "ASK", "NOAUTH"];
    for (nth, word) in words.iter().enumerate() {
        let text = format!("redis.call('INCR', KEYS[1]); return redis.error_reply('{word} come later')");
        let name = format!("n{nth}");
        let told = Script::new(text).call().key(&name).query::<i64>(&client).await.unwrap_err();
        assert_eq!(refused(told).1, format!("{word} come later"));
        assert_eq!(server.observer().await.unwrap().get::<i64>(&name).await.unwrap(), Some(1), "{word}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_script_that_only_reads_may_not_write() {
    let server = server().await;
    let client = client(&server).await;
    let write = Script::new(COUNT).reads();
    let told = write.call().key("n").int(1).query::<i64>(&client).await.unwrap_err();
    assert!(refused(told).1.contains("Write commands are not allowed"));
    assert!(!server.observer().await.unwrap().exists("n").await.unwrap());
    let read = Script::new("return redis.call('EXISTS', KEYS[1])").reads();
    assert!(!read.call().key("n").query::<bool>(&client).await.unwrap());
    assert!(!read.call().key("n").query::<bool>(&client).await.unwrap());
}

/// The server behaves like Redis 6.2.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_without_commands_for_reading_scripts_runs_them_all_the_same() {
    let server = RedisServer::builder().config("rename-command EVALSHA_RO \"\"").config("rename-command EVAL_RO \"\"");
    let server = server.start().await.unwrap();
    let client = client(&server).await;
    let read = Script::new("return redis.call('EXISTS', KEYS[1])").reads();
    for _ in 0..2 {
        assert!(!read.call().key("n").query::<bool>(&client).await.unwrap());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_endless_script_is_killed() {
    let server = server().await;
    // `kill` uses a dedicated connection. On that of the script, it would wait for the script's
    // end.
    let client = client_with(&server.url(), |config| config.response_timeout(SOON)).await;
    let scripts = Scripts::new(&client);
    assert_eq!(scripts.kill().await.unwrap(), []);
    server.observer().await.unwrap().query::<()>(&["CONFIG", "SET", "busy-reply-threshold", "20"]).await.unwrap();
    let endless = Script::new("while true do end");
    let running = tokio::spawn(async move { endless.call().query::<()>(&client).await });
    wait_until(SOON, async || !scripts.kill().await.unwrap().is_empty()).await;
    let told = tokio::time::timeout(SOON, running).await.unwrap().unwrap().unwrap_err();
    assert!(refused(told).1.contains("killed"));
}

#[tokio::test(flavor = "multi_thread")]
async fn all_primaries_are_queried_and_their_replies_merged() {
    let server = server().await;
    let client = client(&server).await;
    Call::command("SET").key("a").arg("1").query::<()>(&client).await.unwrap();
    let keys = Script::new("return redis.call('DBSIZE')").reads();
    let sum = keys.call().query_all_nodes::<i64>(&client).await.unwrap().reduce(10, |sum, n| sum + n).unwrap();
    assert_eq!(sum, 11);
    let told = keys.call().key("a").query_all_nodes::<i64>(&client).await.unwrap_err();
    assert!(matches!(told, CallError::Failed(Failure::InvalidArgument { option: "keys", .. })), "{told:?}");
    let bad = Script::new("return 'x'").call().query_all_nodes::<i64>(&client).await.unwrap();
    assert!(matches!(bad.reduce(0, |sum, n| sum + n), Err(CallError::Unexpected { .. })));
}

const STOCK: &str = "#!lua name=stock
redis.register_function('stock_take', function(keys, args) return redis.call('DECRBY', keys[1], args[1]) end)
redis.register_function{function_name='stock_left', callback=function(keys) return redis.call('GET', keys[1]) end, \
flags={'no-writes'}, description='how many are left'}
";

#[tokio::test(flavor = "multi_thread")]
async fn a_function_of_a_library_is_loaded_where_it_is_missing() {
    let server = server().await;
    let client = client(&server).await;
    let functions = Functions::new(&client);
    let library = Library::new(STOCK).unwrap();
    let (take, left) = (library.function("stock_take"), library.function("stock_left").reads());
    for n in 1..=3 {
        assert_eq!(take.call().key("n").int(1).query::<i64>(&client).await.unwrap(), -n);
        functions.flush(ForgetAll::Yes).await.unwrap();
        assert_eq!(left.call().key("n").query::<i64>(&client).await.unwrap(), -n);
        assert!(functions.delete("stock").await.unwrap() && !functions.delete("stock").await.unwrap());
    }
    let told = Function::new("stock_take").call().key("n").int(1).query::<i64>(&client).await.unwrap_err();
    assert!(refused(told).1.contains("not found"));
    let told = library.function("missing").call().query::<i64>(&client).await.unwrap_err();
    assert!(refused(told).1.contains("not found"));
    // A function that writes is rejected in a read-only call.
    let told = library.function("stock_take").reads().call().key("n").int(1).query::<i64>(&client).await.unwrap_err();
    assert!(refused(told).1.contains("write flag"));
}

#[tokio::test(flavor = "multi_thread")]
async fn libraries_are_loaded_listed_dumped_and_restored() {
    let server = server().await;
    let client = client(&server).await;
    let functions = Functions::new(&client);
    let library = Library::new(STOCK).unwrap();
    functions.load(&library).await.unwrap();
    // Loading the same library again is no error.
    functions.load(&library).await.unwrap();
    let other = Library::new(STOCK.replace("DECRBY", "INCRBY")).unwrap();
    assert!(refused(functions.load(&other).await.unwrap_err()).1.contains("already exists"));
    let listed = functions.list().await.unwrap();
    assert_eq!((listed.len(), &*listed[0].name, &*listed[0].engine, &*listed[0].code), (1, "stock", "LUA", STOCK));
    let named: Vec<_> = listed[0].functions.iter().map(|function| function.name.as_str()).collect();
    assert_eq!(named, ["stock_left", "stock_take"]);
    assert_eq!(listed[0].functions[0].description.as_deref(), Some("how many are left"));
    assert_eq!((listed[0].functions[0].flags.as_slice(), listed[0].nodes.len()), (&["no-writes".to_owned()][..], 1));
    assert!(functions.list_matching("x*").await.unwrap().is_empty());
    assert_eq!(functions.stats().await.unwrap()[0].1.counts, (1, 2));
    let dump = functions.dump().await.unwrap();
    assert!(
        refused(functions.restore(dump.clone(), Restoring::Beside).await.unwrap_err()).1.contains("already exists")
    );
    functions.replace(&other).await.unwrap();
    functions.restore(dump.clone(), Restoring::Replacing).await.unwrap();
    assert_eq!(functions.list_matching("st*").await.unwrap(), listed);
    functions.restore(dump.clone(), Restoring::Instead).await.unwrap();
    functions.flush(ForgetAll::Yes).await.unwrap();
    functions.restore(dump, Restoring::Beside).await.unwrap();
    assert_eq!(functions.list().await.unwrap(), listed);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_endless_function_is_listed_and_killed() {
    let server = server().await;
    let client = client_with(&server.url(), |config| config.response_timeout(SOON)).await;
    let functions = Functions::new(&client);
    server.observer().await.unwrap().query::<()>(&["CONFIG", "SET", "busy-reply-threshold", "20"]).await.unwrap();
    let code = "#!lua name=long\nredis.register_function('endless', function() while true do end end)";
    let endless = Library::new(code).unwrap().function("endless");
    let running = tokio::spawn(async move { endless.call().query::<()>(&client).await });
    wait_until(SOON, async || !functions.kill().await.unwrap().is_empty()).await;
    let told = tokio::time::timeout(SOON, running).await.unwrap().unwrap().unwrap_err();
    assert!(refused(told).1.contains("killed"));
}

/// The server behaves like Redis 6.2.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_without_functions_reports_the_needed_version() {
    let server = ["FCALL", "FCALL_RO", "FUNCTION"]
        .iter()
        .fold(RedisServer::builder(), |options, command| options.config(format!("rename-command {command} \"\"")));
    let server = server.start().await.unwrap();
    let client = client(&server).await;
    let told = [
        Function::new("f").call().query::<()>(&client).await.unwrap_err(),
        Function::new("f").reads().call().query::<()>(&client).await.unwrap_err(),
        Library::new(STOCK).unwrap().function("stock_take").call().key("n").query::<()>(&client).await.unwrap_err(),
        Functions::new(&client).load(&Library::new(STOCK).unwrap()).await.unwrap_err(),
        Functions::new(&client).list().await.unwrap_err(),
    ];
    for told in told {
        assert!(matches!(&told, CallError::Unsupported { needs, .. } if needs.contains("7.0")), "{told:?}");
    }
}
