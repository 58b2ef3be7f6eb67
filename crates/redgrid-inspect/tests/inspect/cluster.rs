//! A cluster: the union of all primaries.

use std::collections::{BTreeMap, BTreeSet};

use redgrid_inspect::{HolderState, LockKind, ObjectFilter, ObjectKind};
use redgrid_locks::{Lock, RwLock};
use redgrid_testkit::{Cluster, wait_until};

use crate::support::{FakeClient, ONE, SOON, TWO, client, inspector, list};

#[tokio::test(flavor = "multi_thread")]
async fn locks_clients_and_answers_are_those_of_all_nodes() {
    let cluster = Cluster::start(3, 0).await.expect("it starts");
    let url = cluster.url();
    let [one, two] = [client(&url).await, client(&url).await];
    let names: BTreeSet<String> = (0..24).map(|number| format!("orders:{number}")).collect();
    let mut guards = Vec::new();
    for name in &names {
        guards.push(Lock::new(&one, name).acquire().await.expect("it is free"));
    }
    let reader = RwLock::new(&one, "prices").read().await.expect("it is free");
    let inspector = inspector(&url).await;

    let listed = list(&inspector, &ObjectFilter::new().of_kinds([ObjectKind::Lock])).await;
    assert_eq!(listed.keys().cloned().collect::<BTreeSet<_>>(), names);
    let holders: BTreeMap<_, usize> = listed.values().fold(BTreeMap::new(), |mut count, view| {
        *count.entry(view.holder.as_ref().map(|(client, _)| client.clone())).or_default() += 1;
        count
    });
    assert_eq!(holders, BTreeMap::from([(Some(one.id().to_owned()), 24)]));

    wait_until(SOON, async || {
        let living = inspector.living_clients().await.expect("an answer");
        living.is_complete && [&one, &two].iter().all(|client| living.ids.contains(&client.id().to_owned()))
    })
    .await;
    for name in &names {
        let view = inspector.lock(name).await.expect("an answer");
        assert_eq!((view.kind, view.holders[0].state), (LockKind::Plain, HolderState::Alive), "{name}");
    }
    let view = inspector.lock("prices").await.expect("an answer");
    assert!(view.holders[0].reader_lease_left.is_some_and(|left| !left.is_zero()), "{view:?}");

    // They are at nodes of their own, and so is the reply channel.
    let _clients = [FakeClient::answering(&url, ONE, "web-1").await, FakeClient::answering(&url, TWO, "web-2").await];
    for _ in 0..5 {
        let answers = inspector.ask(&[ONE.to_owned(), TWO.to_owned()], SOON).await.expect("answers");
        let hosts: Vec<_> = answers.iter().filter_map(|answer| Some(answer.report.as_ref()?.host.as_str())).collect();
        assert_eq!(hosts, ["web-1", "web-2"]);
    }
    drop((guards, reader));
}

#[tokio::test(flavor = "multi_thread")]
async fn waiters_are_counted_in_any_slot() {
    let cluster = Cluster::start(3, 0).await.expect("it starts");
    let url = cluster.url();
    let [one, two] = [client(&url).await, client(&url).await];
    let inspector = inspector(&url).await;
    for name in ["a", "b", "c"] {
        let guard = Lock::new(&one, name).acquire().await.expect("it is free");
        let waiting = tokio::spawn(Lock::new(&two, name).acquire().into_future());
        wait_until(SOON, async || inspector.lock(name).await.expect("an answer").waiting_clients == Some(1)).await;
        waiting.abort();
        drop(guard);
    }
}
