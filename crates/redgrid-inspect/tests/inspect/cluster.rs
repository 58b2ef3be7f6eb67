//! A cluster: the union of all primaries.

use std::collections::{BTreeMap, BTreeSet};

use redgrid_inspect::{HolderState, LockKind, ObjectFilter, ObjectKind};
use redgrid_locks::{Lock, RwLock};
use redgrid_testkit::{Cluster, wait_until};

use crate::support::{FakeClient, ONE, SOON, TWO, client, hold, inspector, list, send};

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

/// While a slot moves, the keys of an object may be on two nodes.
#[tokio::test(flavor = "multi_thread")]
async fn objects_of_a_moving_slot_are_read_and_listed_once() {
    let cluster = Cluster::start(3, 0).await.expect("it starts");
    let inspector = inspector(&cluster.url()).await;
    let slot = cluster.slot_of("{tag}").await.expect("a slot");
    let from = cluster.primary_of(slot).await.expect("a primary");
    let to = cluster.nodes().iter().find(|node| node.addr() != from.addr()).expect("another node");
    let observer = from.observer().await.expect("an observer");
    let names: Vec<String> = (0..40).map(|number| format!("{{tag}}:{number}")).collect();
    for name in &names {
        hold(&observer, name, &format!("{ONE}:17"), "600000").await;
        send(&observer, &["RPUSH", &format!("redisson_lock_queue:{name}"), &format!("{TWO}:18")]).await;
    }
    send(&observer, &["SET", "{tag}:mail", "5"]).await;
    send(&observer, &["ZADD", "{tag}:mail:timeout", "1", "permit"]).await;
    let reader = format!("{ONE}:17");
    send(&observer, &["HSET", "{tag}:prices", "mode", "read", &reader, "2"]).await;

    cluster.begin_migration(slot, to).await.expect("it begins");
    // Some locks are on the new side without their queues, and some queues without their locks.
    let moved: Vec<&String> = names.iter().step_by(2).collect();
    cluster.move_keys_named(&moved).await.expect("they move");
    for name in names.iter().skip(1).step_by(2) {
        cluster.move_key(&format!("redisson_lock_queue:{name}")).await.expect("it moves");
    }
    cluster.move_key("{tag}:mail").await.expect("it moves");
    let check = async || {
        let all = list(&inspector, &ObjectFilter::new()).await;
        assert_eq!(all.len(), names.len() + 2);
        assert!(names.iter().all(|name| all[name].kind == ObjectKind::FairLock), "{all:?}");
        assert_eq!(all["{tag}:mail"].kind, ObjectKind::PermitExpirableSemaphore);
        for name in names.iter().take(4) {
            let view = inspector.lock(name).await.expect("an answer");
            assert_eq!((view.kind, view.queue_len, view.queue[0].client.as_str()), (LockKind::Fair, Some(1), TWO));
        }
        let view = inspector.lock("{tag}:prices").await.expect("an answer");
        assert_eq!((view.kind, view.holder_count), (LockKind::ReadWrite, 1));
    };
    check().await;
    cluster.finish_migration(slot).await.expect("it ends");
    check().await;
}
