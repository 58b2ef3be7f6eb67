//! Batches of calls.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::future::join_all;
use redgrid_core::{Client, Failure, ServerError};
use redgrid_script::codecs::Json;
use redgrid_script::{Batch, BatchIndex, Call, CallError, Durability, Library, Reply, Script};
use redgrid_testkit::{Action, Proxy, RedisServer};
use redgrid_tests::{SOON, client, client_with, server};

fn add(name: &str, n: i64) -> Call {
    Call::command("INCRBY").key(name).int(n)
}

fn get(name: &str) -> Call {
    Call::command("GET").key(name).reads()
}

fn refusal(told: CallError) -> String {
    match told {
        CallError::Failed(Failure::Refused { source: ServerError::Refused { message, .. }, .. }) => message,
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn each_call_has_its_own_result_in_order() {
    let server = server().await;
    let client = client(&server).await;
    for atomic in [false, true] {
        client.command("FLUSHALL").query::<()>().await.unwrap();
        let mut batch = Batch::new(&client);
        if atomic {
            batch = batch.atomic();
        }
        let absent = batch.push::<Option<i64>>(get("n"));
        let one = batch.push::<i64>(add("n", 1));
        let text = batch.push::<()>(Call::command("SET").key("text").value(&Json, "héllo"));
        let wrong = batch.push::<i64>(Call::command("INCRBY").key("text").int(1));
        let list = batch.push::<Vec<Option<i64>>>(Call::command("MGET").keys(["n", "none"]));
        let script = batch.push::<i64>(Script::new("return redis.call('INCRBY', KEYS[1], 10)").call().key("n"));
        let read = batch.push_as::<String, _>(get("text"), Json);
        let unfit = batch.push::<i64>(get("text"));
        let nested = batch.push::<Reply>(Script::new("return {1, {'a', redis.error_reply('MY own')}}").call());
        assert_eq!((batch.len(), batch.is_empty()), (9, false));
        let results = batch.send().await.unwrap();
        assert_eq!(results.get(&absent).unwrap(), None);
        assert_eq!(results.get(&one).unwrap(), 1);
        results.get(&text).unwrap();
        assert!(refusal(results.get(&wrong).unwrap_err()).contains("not an integer"));
        assert_eq!(results.get(&list).unwrap(), [Some(1), None]);
        assert_eq!(results.get(&script).unwrap(), 11);
        assert_eq!(results.get(&read).unwrap().as_deref(), Some("héllo"));
        assert!(matches!(results.get(&unfit), Err(CallError::Unexpected { .. })));
        let Reply::Array(nested) = results.get(&nested).unwrap() else { panic!() };
        assert!(matches!(&nested[1], Reply::Array(inner) if matches!(&inner[1], Reply::Error(_))), "{nested:?}");
        assert!(refusal(results.check().unwrap_err()).contains("not an integer"));
        let foreign: BatchIndex<i64> = Batch::new(&client).push(add("n", 1));
        assert!(matches!(
            results.get(&foreign),
            Err(CallError::Failed(Failure::InvalidArgument { option: "handle", .. }))
        ));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_long_batch_and_its_scripts_stay_in_order() {
    let server = server().await;
    let client = client(&server).await;
    let mut batch = Batch::new(&client);
    let push = |n: i64| Call::command("RPUSH").key("list").int(n);
    // The server does not have this script, so its text must be sent. The call must keep its place
    // among the other calls.
    let script = Script::new("return redis.call('RPUSH', KEYS[1], ARGV[1])");
    for n in 0..5000 {
        let call = if n % 1000 == 500 { script.call().key("list").int(n) } else { push(n) };
        batch.push::<i64>(call);
    }
    batch.send().await.unwrap().check().unwrap();
    let list: Vec<i64> = Call::command("LRANGE").key("list").int(0).int(-1).query(&client).await.unwrap();
    assert_eq!(list, (0..5000).collect::<Vec<_>>());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_atomic_batch_is_not_interleaved() {
    let server = server().await;
    let (one, two) = (client(&server).await, client(&server).await);
    let stop = Arc::new(AtomicBool::new(false));
    let writer = |client: Client| {
        let stop = Arc::clone(&stop);
        tokio::spawn(async move {
            let mut batches = 0;
            while !stop.load(Ordering::Relaxed) {
                let mut batch = Batch::new(&client).atomic();
                for name in ["a", "b", "c"] {
                    batch.push::<i64>(add(name, 1));
                }
                batch.send().await.unwrap().check().unwrap();
                batches += 1;
            }
            batches
        })
    };
    let writers: Vec<_> = [one.clone(), one.clone(), two.clone()].into_iter().map(writer).collect();
    for _ in 0..300 {
        let seen: Vec<Option<i64>> = Call::command("MGET").keys(["a", "b", "c"]).query(&two).await.unwrap();
        assert!(seen.iter().all(|n| *n == seen[0]), "{seen:?}");
    }
    stop.store(true, Ordering::Relaxed);
    let batches: i64 = join_all(writers).await.into_iter().map(Result::unwrap).sum();
    assert_eq!(get("c").query::<Option<i64>>(&one).await.unwrap().unwrap_or_default(), batches);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_with_an_invalid_command_executes_nothing() {
    let server = server().await;
    let client = client(&server).await;
    let mut batch = Batch::new(&client).atomic();
    batch.push::<i64>(add("n", 1));
    batch.push::<i64>(Call::command("GIT").key("n"));
    batch.push::<i64>(add("n", 1));
    let told = refusal(batch.send().await.unwrap_err());
    assert!(told.contains("unknown command") && told.contains("`GIT`, command 2 of 3"), "{told}");
    assert!(!server.observer().await.unwrap().exists("n").await.unwrap());
    // The connection can still be used.
    let mut batch = Batch::new(&client).atomic();
    let n = batch.push::<i64>(add("n", 1));
    assert_eq!(batch.send().await.unwrap().get(&n).unwrap(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn without_permission_for_multi_nothing_is_executed() {
    let server = RedisServer::builder().user("weak", "on >secret ~* &* +@all -multi").start().await.unwrap();
    let client = client_with(&server.url(), |config| config.credentials(Some("weak"), "secret")).await;
    let mut batch = Batch::new(&client).atomic();
    batch.push::<i64>(add("n", 1));
    assert!(refusal(batch.send().await.unwrap_err()).contains("multi"));
    assert!(!server.observer().await.unwrap().exists("n").await.unwrap());
}

async fn lossy() -> (RedisServer, Proxy, Client) {
    let server = server().await;
    let proxy = Proxy::to(&server).await.unwrap();
    let client =
        client_with(&server.url_via(proxy.addr()), |config| config.response_timeout(Duration::from_millis(500))).await;
    // This batch opens the client's connection for atomic batches.
    let mut batch = Batch::new(&client).atomic();
    batch.push::<()>(get("n"));
    batch.send().await.unwrap();
    (server, proxy, client)
}

#[tokio::test(flavor = "multi_thread")]
async fn an_atomic_batch_with_a_lost_reply_is_unknown_and_executed_once() {
    let (server, proxy, client) = lossy().await;
    let observer = server.observer().await.unwrap();
    for (action, n) in [(Action::SwallowReply, 1), (Action::CutAfterForward, 2)] {
        proxy.next(1, "EXEC", action);
        let mut batch = Batch::new(&client).atomic();
        batch.push::<i64>(add("n", 1));
        let told = batch.send().await.unwrap_err();
        assert!(matches!(told, CallError::Failed(Failure::OutcomeUnknown { .. })), "{told:?}");
        assert_eq!(observer.get::<i64>("n").await.unwrap(), Some(n));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_atomic_batch_lost_before_exec_is_sent_again_and_executed_once() {
    let (server, proxy, client) = lossy().await;
    let observer = server.observer().await.unwrap();
    let faults =
        [("MULTI", Action::SwallowReply), ("INCRBY", Action::SwallowReply), ("INCRBY", Action::CutAfterForward)];
    for (n, (needle, action)) in (1..).zip(faults) {
        proxy.next(1, needle, action);
        let mut batch = Batch::new(&client).atomic().timeout(SOON);
        let (one, two) = (batch.push::<i64>(add("n", 1)), batch.push::<i64>(add("m", 1)));
        let results = batch.send().await.unwrap();
        assert_eq!((results.get(&one).unwrap(), results.get(&two).unwrap()), (n, n), "{needle}");
        assert_eq!(observer.get::<i64>("n").await.unwrap(), Some(n));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plain_batch_without_reply_is_unknown_and_its_reads_are_retried() {
    let (server, proxy, client) = lossy().await;
    proxy.next(1, "INCRBY", Action::SwallowReply);
    let mut batch = Batch::new(&client).timeout(SOON);
    let (change, read) = (batch.push::<i64>(add("n", 1)), batch.push::<Option<i64>>(get("n")));
    let results = batch.send().await.unwrap();
    assert!(matches!(results.get(&change), Err(CallError::Failed(Failure::OutcomeUnknown { .. }))));
    assert_eq!(results.get(&read).unwrap(), Some(1));
    assert_eq!(server.observer().await.unwrap().get::<i64>("n").await.unwrap(), Some(1));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dropped_batch_is_atomic_and_does_not_disturb_the_next() {
    let server = server().await;
    let client = client(&server).await;
    for patience in 0..200 {
        let mut batch = Batch::new(&client).atomic();
        for name in ["a", "b"] {
            batch.push::<i64>(add(name, 1));
        }
        let _ = tokio::time::timeout(Duration::from_micros(patience * 10), batch.send()).await;
    }
    let mut batch = Batch::new(&client).atomic();
    let (a, b) = (batch.push::<Option<i64>>(get("a")), batch.push::<Option<i64>>(get("b")));
    let results = batch.send().await.unwrap();
    assert_eq!(results.get(&a).unwrap(), results.get(&b).unwrap());
}

#[tokio::test(flavor = "multi_thread")]
async fn oversized_batches_are_rejected_before_they_are_sent() {
    let server = server().await;
    let client = client(&server).await;
    let told = |told: CallError| match told {
        CallError::Failed(Failure::InvalidArgument { option, got, .. }) => (option, got),
        other => panic!("{other:?}"),
    };
    let mut batch = Batch::new(&client).atomic();
    for _ in 0..10_001 {
        batch.push::<()>(Call::command("PING"));
    }
    assert_eq!(told(batch.send().await.unwrap_err()), ("number of calls", "10001".into()));
    let mut batch = Batch::new(&client);
    for _ in 0..5 {
        batch.push::<()>(Call::command("SET").key("n").arg(vec![0; 16 << 20]));
    }
    assert_eq!(told(batch.send().await.unwrap_err()), ("size", (5 * ((16 << 20) + 4)).to_string()));
    let mut batch = Batch::new(&client);
    batch.push::<()>(Call::command("SET").key("a").arg("1"));
    batch.push::<()>(Call::command("SET").key("").arg("1"));
    assert!(matches!(batch.send().await, Err(CallError::Failed(Failure::InvalidName(_)))));
    assert!(!server.observer().await.unwrap().exists("a").await.unwrap());
    let empty = Batch::new(&client).send().await.unwrap();
    assert!(empty.is_empty() && Batch::new(&client).atomic().send().await.unwrap().check().is_ok());
}

#[tokio::test(flavor = "multi_thread")]
async fn missing_durability_is_reported_for_each_call() {
    let server = server().await;
    let client = client(&server).await;
    let replicas = Durability::Replicas { at_least: 1, timeout: Duration::from_millis(100) };
    for atomic in [false, true] {
        let mut batch = Batch::new(&client).durable(replicas);
        if atomic {
            batch = batch.atomic();
        }
        let change = batch.push::<i64>(add("n", 1));
        let results = batch.send().await.unwrap();
        let told = results.get(&change).unwrap_err();
        assert!(matches!(told, CallError::NotDurable { .. }), "{told:?}");
        assert!(results.check().is_err());
    }
    assert_eq!(get("n").query::<Option<i64>>(&client).await.unwrap(), Some(2));
}

#[tokio::test(flavor = "multi_thread")]
async fn functions_go_in_batches_too() {
    let server = server().await;
    let client = client(&server).await;
    let code = "#!lua name=adds\nredis.register_function('adds', function(keys, args) return redis.call('INCRBY', keys[1], args[1]) end)";
    let function = Library::new(code).unwrap().function("adds");
    let mut batch = Batch::new(&client);
    let n = batch.push::<i64>(function.call().key("n").int(2));
    assert_eq!(batch.send().await.unwrap().get(&n).unwrap(), 2);
    let mut batch = Batch::new(&client).atomic();
    let n = batch.push::<i64>(function.call().key("n").int(2));
    assert_eq!(batch.send().await.unwrap().get(&n).unwrap(), 4);
}
