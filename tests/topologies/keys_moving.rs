//! Streams of keys, and deletions, while slots move and primaries are replaced.

use std::collections::BTreeSet;
use std::time::Duration;

use futures_util::future::{join, join_all};
use redgrid_core::author::ClientExt;
use redgrid_core::object::Lifetime;
use redgrid_core::{Client, Request};
use redgrid_keys::{FlushScope, Key, Keys, KeysError, UnlessLock};
use redgrid_locks::FairLock;
use redgrid_testkit::{Cluster, Sentinels, wait_until};
use redgrid_tests::SOON;

use crate::fixture::{by_seeds, by_sentinels, connected, scenarios};
use crate::keys::{fill, names};

const HOUR: Duration = Duration::from_secs(3600);

scenarios![
    keys_that_move_behind_a_stream_are_listed,
    keys_on_both_sides_of_a_migration_are_listed,
    constantly_moving_slots_are_listed_or_the_stream_reports_it,
    a_migration_that_was_given_up_ends_no_stream,
    keys_on_both_sides_of_a_migration_are_deleted,
    locks_on_both_sides_of_a_migration_are_left_alone_on_request,
    cluster_a_stream_continues_at_the_new_primary,
    sentinel_a_stream_begins_anew_at_the_new_primary,
    everything_is_deleted_on_every_primary,
];

/// Creates keys of one slot, and other keys in many slots.
async fn filled(client: &Client, tag: &str) -> (BTreeSet<String>, BTreeSet<String>) {
    let tagged: BTreeSet<_> = (0..500).map(|n| format!("{{{tag}}}:{n}")).collect();
    let others: BTreeSet<_> = (0..2_000).map(|n| format!("k:{n}")).collect();
    fill(client, &tagged).await;
    fill(client, &others).await;
    (tagged, others)
}

/// Returns a tag in a slot of the primary at this index, in the order in which a stream scans the
/// primaries.
async fn tag_at(cluster: &Cluster, client: &Client, place: usize) -> (String, u16) {
    let primary = client.primaries().await.unwrap()[place].id().clone();
    for n in 0.. {
        let slot = cluster.slot_of(&format!("tag{n}")).await.unwrap();
        if cluster.primary_of(slot).await.unwrap().addr().to_string() == *primary.0 {
            return (format!("tag{n}"), slot);
        }
    }
    unreachable!("there are slots everywhere")
}

/// A stream also lists keys that move from the node that is scanned last to a node that has been
/// scanned.
async fn keys_that_move_behind_a_stream_are_listed() {
    let cluster = Cluster::start(3, 0).await.unwrap();
    let client = connected(by_seeds(&cluster)).await;
    let (tag, slot) = tag_at(&cluster, &client, 2).await;
    let (tagged, others) = filled(&client, &tag).await;
    let first = client.primaries().await.unwrap()[0].clone();
    let is_of_first = |key: &Key| first.slots().iter().any(|slots| slots.contains(&client.slot(key.wire())));
    let mut stream = Keys::new(&client).objects().page(20);
    let mut found = BTreeSet::new();
    loop {
        let key = stream.try_next().await.unwrap().unwrap();
        let is_over = !is_of_first(&key);
        found.insert(key.to_string());
        if is_over {
            break;
        }
    }
    assert!(tagged.is_disjoint(&found), "the slot comes later");
    let to = cluster.node_at(first.id().0.parse().unwrap()).unwrap();
    cluster.migrate_slot(slot, to).await.unwrap();
    found.extend(names(stream).await);
    assert_eq!((tagged.difference(&found).count(), others.difference(&found).count()), (0, 0));
}

async fn keys_on_both_sides_of_a_migration_are_listed() {
    let cluster = Cluster::start(3, 0).await.unwrap();
    let client = connected(by_seeds(&cluster)).await;
    // The keys move against the order of the nodes, and then with it.
    for (from, to) in [(2, 0), (0, 1)] {
        let (tag, slot) = tag_at(&cluster, &client, from).await;
        let (tagged, others) = filled(&client, &tag).await;
        let to = client.primaries().await.unwrap()[to].id().0.parse().unwrap();
        cluster.begin_migration(slot, cluster.node_at(to).unwrap()).await.unwrap();
        let tagged_names: Vec<_> = tagged.iter().collect();
        assert!(cluster.move_keys_named(&tagged_names[..250]).await.unwrap());
        let mut stream = Keys::new(&client).objects().page(20);
        let mut found = BTreeSet::new();
        while found.len() < 1_200 {
            found.insert(stream.try_next().await.unwrap().unwrap().to_string());
        }
        // More keys move while the stream goes on.
        assert!(cluster.move_keys_named(&tagged_names[250..450]).await.unwrap());
        found.extend(names(stream).await);
        assert_eq!((tagged.difference(&found).count(), others.difference(&found).count()), (0, 0));
        cluster.finish_migration(slot).await.unwrap();
    }
}

async fn constantly_moving_slots_are_listed_or_the_stream_reports_it() {
    let cluster = Cluster::start(3, 0).await.unwrap();
    let client = connected(by_seeds(&cluster)).await;
    let (tag, slot) = tag_at(&cluster, &client, 1).await;
    let (tagged, others) = filled(&client, &tag).await;
    let keys = Keys::new(&client);
    // The slot moves on to the next node each time: a stream may miss keys that move there and
    // back.
    let moves = async {
        for _ in 0..8 {
            let home = cluster.primary_of(slot).await.unwrap().addr();
            let at = cluster.nodes().iter().position(|node| node.addr() == home).unwrap();
            cluster.migrate_slot(slot, &cluster.nodes()[(at + 1) % 3]).await.unwrap();
        }
    };
    let listings = join_all((0..3).map(async |_| {
        let mut complete = 0;
        for _ in 0..3 {
            match keys.objects().page(20).try_collect::<BTreeSet<Key>>().await {
                Ok(found) => {
                    let found: BTreeSet<String> = found.iter().map(Key::to_string).collect();
                    assert_eq!((tagged.difference(&found).count(), others.difference(&found).count()), (0, 0));
                    complete += 1;
                }
                Err(error) => assert!(matches!(error, KeysError::Moving { .. }), "{error:?}"),
            }
        }
        complete
    }));
    let ((), complete) = join(moves, listings).await;
    assert!(complete.iter().sum::<u32>() > 0);
    assert_eq!(names(keys.objects()).await.len(), 2_500);
}

/// An abandoned migration does not end a stream. The target node is replaced, and the slot stays
/// marked as migrating.
async fn a_migration_that_was_given_up_ends_no_stream() {
    let cluster = Cluster::start(3, 1).await.unwrap();
    let client = connected(by_seeds(&cluster)).await;
    let (tag, slot) = tag_at(&cluster, &client, 0).await;
    let (tagged, others) = filled(&client, &tag).await;
    let to = client.primaries().await.unwrap()[1].id().0.parse().unwrap();
    let to = cluster.node_at(to).unwrap();
    cluster.begin_migration(slot, to).await.unwrap();
    cluster.fail_over(to).await.unwrap();
    let home = cluster.primary_of(slot).await.unwrap().observer().await.unwrap();
    let nodes: String = home.query(&["CLUSTER", "NODES"]).await.unwrap();
    assert!(nodes.contains(&format!("[{slot}->-")), "the mark is there: {nodes}");
    assert_eq!(names(Keys::new(&client).objects()).await.len(), tagged.len() + others.len());
}

async fn keys_on_both_sides_of_a_migration_are_deleted() {
    let cluster = Cluster::start(3, 0).await.unwrap();
    let client = connected(by_seeds(&cluster)).await;
    let keys = Keys::new(&client);
    let (tag, slot) = tag_at(&cluster, &client, 0).await;
    let all: Vec<_> = (0..20).map(|n| format!("{{{tag}}}:{n}")).collect();
    fill(&client, &all.iter().cloned().collect()).await;
    let to = client.primaries().await.unwrap()[1].id().0.parse().unwrap();
    cluster.begin_migration(slot, cluster.node_at(to).unwrap()).await.unwrap();
    assert!(cluster.move_keys_named(&all[..10]).await.unwrap());
    assert_eq!((keys.exists(&all).await.unwrap(), keys.expire_in(HOUR, &all).await.unwrap()), (20, 20));
    let lives = keys.lifetimes(&all).await.unwrap();
    assert!(lives.values().all(|life| matches!(life, Lifetime::Ends(_))), "{lives:?}");
    assert_eq!((keys.delete(&all[5..15]).await.unwrap(), keys.exists(&all).await.unwrap()), (10, 10));
    assert_eq!(keys.delete_by_pattern(format!("{{{tag}}}*")).await.unwrap(), 10);
    cluster.finish_migration(slot).await.unwrap();
    assert_eq!(keys.count().await.unwrap(), 0);
}

async fn locks_on_both_sides_of_a_migration_are_left_alone_on_request() {
    let cluster = Cluster::start(3, 0).await.unwrap();
    let client = connected(by_seeds(&cluster)).await;
    let keys = Keys::new(&client);
    let (tag, slot) = tag_at(&cluster, &client, 0).await;
    let [locks, others] = ["lock", "text"].map(|kind| [1, 2].map(|n| format!("{{{tag}}}:{kind}:{n}")));
    let mut guards = Vec::new();
    for lock in &locks {
        guards.push(FairLock::new(&client, lock).acquire().await.unwrap());
    }
    fill(&client, &others.iter().cloned().collect()).await;
    let to = client.primaries().await.unwrap()[1].id().0.parse().unwrap();
    cluster.begin_migration(slot, cluster.node_at(to).unwrap()).await.unwrap();
    assert!(cluster.move_keys_named(&[&locks[0], &others[0]]).await.unwrap());
    for lock in &locks {
        assert_eq!(keys.unlink_unless_lock(lock).await.unwrap(), UnlessLock::IsLock, "{lock}");
        let changed = keys.set_lifetime_unless_lock(lock, Some(Duration::from_millis(1))).await.unwrap();
        assert_eq!(changed, UnlessLock::IsLock, "{lock}");
    }
    for other in &others {
        assert_eq!(keys.set_lifetime_unless_lock(other, Some(HOUR)).await.unwrap(), UnlessLock::Done, "{other}");
        assert_eq!(keys.unlink_unless_lock(other).await.unwrap(), UnlessLock::Done, "{other}");
    }
    cluster.finish_migration(slot).await.unwrap();
    for guard in guards {
        guard.release().await.unwrap();
    }
}

async fn cluster_a_stream_continues_at_the_new_primary() {
    let cluster = Cluster::start(3, 1).await.unwrap();
    let client = connected(by_seeds(&cluster)).await;
    let (tagged, others) = filled(&client, "tag").await;
    let all = tagged.len() + others.len();
    for place in [0, 2] {
        let keys = Keys::new(&client);
        let mut stream = keys.objects().page(20);
        let mut found = BTreeSet::new();
        while found.len() < 300 {
            found.insert(stream.try_next().await.unwrap().unwrap().to_string());
        }
        let primary = client.primaries().await.unwrap()[place].id().0.parse().unwrap();
        cluster.fail_over(cluster.node_at(primary).unwrap()).await.unwrap();
        found.extend(names(stream).await);
        assert_eq!(found.len(), all, "{place}");
    }
}

async fn sentinel_a_stream_begins_anew_at_the_new_primary() {
    let sentinels = Sentinels::start().await.unwrap();
    let client = connected(by_sentinels(&sentinels)).await;
    let (tagged, others) = filled(&client, "tag").await;
    // A replica that is promoted without some keys would rightly list fewer.
    for server in sentinels.servers() {
        let (observer, all) = (server.observer().await.unwrap(), tagged.len() + others.len());
        wait_until(SOON, async || observer.query::<usize>(&["DBSIZE"]).await.is_ok_and(|there| there == all)).await;
    }
    let mut stream = Keys::new(&client).objects().page(20);
    let mut found = BTreeSet::new();
    while found.len() < 1_000 {
        found.insert(stream.try_next().await.unwrap().unwrap().to_string());
    }
    let former = client.primaries().await.unwrap()[0].clone();
    sentinels.fail_over().await.unwrap();
    found.extend(names(stream).await);
    assert_eq!(found.len(), tagged.len() + others.len());
    assert!(!client.is_primary(&former));
    let error = client.run_on::<()>(&former, Request::command("PING")).await.unwrap_err();
    assert!(error.to_string().contains("no longer a primary"), "{error}");
}

async fn everything_is_deleted_on_every_primary() {
    let cluster = Cluster::start(3, 0).await.unwrap();
    let client = connected(by_seeds(&cluster)).await;
    filled(&client, "tag").await;
    let keys = Keys::new(&client);
    assert_eq!(keys.count().await.unwrap(), 2_500);
    assert_eq!(keys.slot("{tag}:1").unwrap(), cluster.slot_of("tag").await.unwrap());
    keys.flush(FlushScope::AllDatabases).await.unwrap();
    assert_eq!(keys.count().await.unwrap(), 0);
}
