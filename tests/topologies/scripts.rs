//! Scripts, functions and batches on every topology.

use std::collections::BTreeSet;

use redgrid_core::Failure;
use redgrid_core::author::ClientExt;
use redgrid_core::config::ReadMode;
use redgrid_script::codecs::Json;
use redgrid_script::{Batch, Call, CallError, Functions, Library, Script, Scripts};
use redgrid_testkit::wait_until;
use redgrid_tests::SOON;

use crate::contract::clauses;
use crate::fixture::{Fixture, Topology, is_skipped_before_7};

clauses![
    "scripts";
    a_script_runs_where_its_keys_are,
    keys_in_two_slots_are_refused_before_they_are_sent,
    a_script_that_reads_is_run_by_replicas,
    all_primaries_are_queried,
    a_function_is_loaded_where_it_is_missing,
    a_batch_goes_to_all_nodes_and_an_atomic_one_to_one,
];

const COUNT: &str = "return redis.call('INCRBY', KEYS[1], ARGV[1])";

async fn a_script_runs_where_its_keys_are(on: Fixture) {
    let client = on.client().await;
    // The text is new, so no server knows its hash.
    let script = Script::new(format!("{COUNT} -- {}", client.id()));
    for round in 1..=2 {
        for n in 0..12 {
            let name = format!("{}:{n}", on.name);
            assert_eq!(script.call().key(&name).int(1).query::<i64>(&client).await.unwrap(), round);
        }
    }
    let scripts = Scripts::new(&client);
    assert_eq!(scripts.load(&script).await.unwrap(), script.sha());
    let unknown = Script::new(format!("return '{}'", client.id()));
    assert_eq!(scripts.exists([&script, &unknown]).await.unwrap(), [true, false]);
}

async fn keys_in_two_slots_are_refused_before_they_are_sent(on: Fixture) {
    let client = on.client().await;
    let names: Vec<String> = (0..12).map(|n| format!("{}:{n}", on.name)).collect();
    let script = Script::new("for _, key in ipairs(KEYS) do redis.call('INCRBY', key, 1) end return #KEYS");
    let result = script.call().keys(&names).query::<i64>(&client).await;
    let mut batch = Batch::new(&client).atomic();
    for name in &names {
        batch.push::<i64>(Call::command("INCRBY").key(name).int(1));
    }
    let whole = batch.send().await;
    if on.topology() != Topology::Cluster {
        assert_eq!(result.unwrap(), 12);
        return whole.unwrap().check().unwrap();
    }
    let named = |error: CallError| match error {
        CallError::OtherSlot { one, other, .. } => (one.as_str().to_owned(), other.as_str().to_owned()),
        other => panic!("{other:?}"),
    };
    let (of_script, of_batch) = (named(result.unwrap_err()), named(whole.unwrap_err()));
    assert_eq!(of_script, of_batch);
    assert!(of_script.0 == names[0] && names[1..].contains(&of_script.1), "{of_script:?}");
    for name in &names {
        let there: bool = Call::command("EXISTS").key(name).query(&client).await.unwrap();
        assert!(!there, "{name}");
    }
}

async fn a_script_that_reads_is_run_by_replicas(on: Fixture) {
    let (client, reader) = (on.client().await, on.client_with(|config| config.read_mode(ReadMode::Replica)).await);
    Call::command("SET").key(&on.name).value(&Json, "here").query::<()>(&client).await.unwrap();
    let read = Script::new("return redis.call('GET', KEYS[1])").reads();
    let arrived = async || {
        let seen: Option<String> = read.call().key(&on.name).query_as(&reader, &Json).await.unwrap();
        seen.as_deref() == Some("here")
    };
    wait_until(SOON, arrived).await;
}

async fn all_primaries_are_queried(on: Fixture) {
    let client = on.client().await;
    let answers = Script::new("return 1").reads().call().query_all_nodes::<i64>(&client).await.unwrap();
    let primaries = client.primaries().await.unwrap();
    let nodes: BTreeSet<_> = answers.clone().into_answers().into_iter().map(|(node, _)| node).collect();
    assert_eq!(nodes, primaries.iter().map(|primary| primary.id().clone()).collect());
    assert_eq!(answers.reduce(0, |sum, one| sum + one).unwrap(), i64::try_from(primaries.len()).unwrap());
    assert_eq!(primaries.len() > 1, on.topology() == Topology::Cluster);
}

async fn a_function_is_loaded_where_it_is_missing(on: Fixture) {
    if is_skipped_before_7("scripts::a_function_is_loaded_where_it_is_missing", "there are no functions before 7.0") {
        return;
    }
    let (client, reader) = (on.client().await, on.client_with(|config| config.read_mode(ReadMode::Replica)).await);
    let id = client.id().replace('-', "_");
    let code = format!(
        "#!lua name=of_{id}\nredis.register_function('add_{id}', function(keys, args) return redis.call('INCRBY', keys[1], args[1]) end)\n\
         redis.register_function{{function_name='get_{id}', callback=function(keys) return redis.call('GET', keys[1]) end, flags={{'no-writes'}}}}"
    );
    let library = Library::new(code).unwrap();
    let (add, get) = (library.function(format!("add_{id}")), library.function(format!("get_{id}")).reads());
    let names: Vec<String> = (0..12).map(|n| format!("{}:{n}", on.name)).collect();
    // A replica does not have the function, and the client loads it at the primary.
    assert_eq!(get.call().key(&names[0]).query::<Option<i64>>(&reader).await.unwrap(), None);
    for name in &names {
        assert_eq!(add.call().key(name).int(2).query::<i64>(&client).await.unwrap(), 2);
    }
    let functions = Functions::new(&client);
    let listed = functions.list_matching(library.name()).await.unwrap();
    assert_eq!((listed.len(), listed[0].functions.len()), (1, 2));
    let arrived = async || get.call().key(&names[0]).query::<Option<i64>>(&reader).await.unwrap() == Some(2);
    wait_until(SOON, arrived).await;
    assert!(functions.delete(library.name()).await.unwrap());
    functions.load(&library).await.unwrap();
    functions.load(&library).await.unwrap();
    functions.replace(&library).await.unwrap();
    assert_eq!(
        functions.list_matching(library.name()).await.unwrap()[0].nodes.len(),
        client.primaries().await.unwrap().len()
    );
    assert!(functions.delete(library.name()).await.unwrap());
}

async fn a_batch_goes_to_all_nodes_and_an_atomic_one_to_one(on: Fixture) {
    let client = on.client().await;
    let script = Script::new(COUNT);
    let mut batch = Batch::new(&client);
    let handles: Vec<_> = (0..200)
        .map(|n: i64| {
            let name = format!("{}:{}", on.name, n % 50);
            let call = if n < 100 { Call::command("INCRBY") } else { script.call() };
            batch.push::<i64>(call.key(&name).int(n))
        })
        .collect();
    let results = batch.send().await.unwrap();
    for (n, handle) in (0..).zip(&handles) {
        let before: i64 = (0..=n).filter(|other| other % 50 == n % 50).sum();
        assert_eq!(results.get(handle).unwrap(), before, "call {n}");
    }
    let tagged = |n: i64| format!("{{{}}}:{n}", on.name);
    let mut batch = Batch::new(&client).atomic();
    let handles: Vec<_> =
        (0..20).map(|n| batch.push::<i64>(Call::command("INCRBY").key(tagged(n % 10)).int(1))).collect();
    let wrong = batch.push::<i64>(Call::command("HLEN").key(tagged(0)));
    let last = batch.push::<Option<i64>>(Call::command("GET").key(tagged(9)));
    let results = batch.send().await.unwrap();
    assert_eq!(handles.iter().map(|handle| results.get(handle).unwrap()).sum::<i64>(), 30);
    assert!(matches!(results.get(&wrong), Err(CallError::Failed(Failure::Refused { .. }))));
    assert_eq!(results.get(&last).unwrap(), Some(2));
}
