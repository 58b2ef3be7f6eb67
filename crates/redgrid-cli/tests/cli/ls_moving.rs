//! `redgrid ls` in a cluster while slots move between its nodes.

use std::cell::Cell;
use std::collections::BTreeMap;

use redgrid_testkit::{Cluster, Observer, redis::Value};

use crate::look::hold;
use crate::permissions::allow_reader;
use crate::support::{Ended, run};

/// Number of tags. The names with a tag are in one slot.
const TAGS: usize = 40;

/// Number of names with each tag: 2,000 names in all.
const NAMES: usize = 50;

/// Number of slots that move to another node and back.
const MOVING: usize = 20;

/// How often they move.
const MOVES: usize = 4;

/// Returns the names with a tag, and creates an object for each: locks, texts and sets.
async fn created(observer: &Observer, tag: usize) -> BTreeMap<String, &'static str> {
    let mut created = BTreeMap::new();
    for number in 0..NAMES {
        let name = format!("{{t{tag}}}:{number}");
        let kind = match number % 4 {
            0 => observer.cmd(&["SET", &name, "text"]).await.map(|_| "string"),
            1 => observer.cmd(&["SADD", &name, "member"]).await.map(|_| "set"),
            _ => {
                hold(observer, &name, "1", "600000").await;
                Ok("lock")
            }
        };
        created.insert(name, kind.expect("an answer"));
    }
    created
}

/// Fails unless the list has each of these names once, with its kind.
fn assert_complete(ended: &Ended, all: &BTreeMap<String, &'static str>) {
    assert_eq!(ended.code(), 0, "{}", ended.stderr());
    let mut missing = all.clone();
    for line in ended.stdout().lines() {
        let object: serde_json::Value = serde_json::from_str(line).expect("JSON");
        let kind = missing.remove(object["name"].as_str().expect("text"));
        assert_eq!(kind, object["kind"].as_str(), "listed twice, or of another kind: {object}");
    }
    assert!(missing.is_empty(), "{} names are missing: {missing:?}", missing.len());
}

/// The list is the union of all nodes. A slot moves once during a list: one that moves to a node
/// and back again during one pass over all nodes may be missed.
#[tokio::test(flavor = "multi_thread")]
async fn each_name_is_listed_once_while_slots_move() {
    let cluster = Cluster::start(3, 0).await.expect("it starts");
    for node in cluster.nodes() {
        allow_reader(node).await;
    }
    let (mut all, mut homes) = (BTreeMap::new(), Vec::new());
    for tag in 0..TAGS {
        let slot = cluster.slot_of(&format!("{{t{tag}}}")).await.expect("a slot");
        let home = cluster.primary_of(slot).await.expect("a primary").addr();
        let home = cluster.nodes().iter().position(|node| node.addr() == home).expect("a node");
        let observer = cluster.nodes()[home].observer().await.expect("an observer");
        let created = created(&observer, tag).await;
        let some: Vec<String> = created.keys().take(NAMES / 2).cloned().collect();
        homes.push((slot, home, some));
        all.extend(created);
    }
    assert_eq!(all.len(), 2_000);
    let url = cluster.url().replacen("://", "://reader:secret@", 1);
    let mut lists = 0;
    for turn in 0..MOVES {
        let is_over = Cell::new(false);
        let moves = async {
            for (slot, home, some) in &homes[..MOVING] {
                let to = if turn % 2 == 0 { (home + 1) % 3 } else { *home };
                cluster.begin_migration(*slot, &cluster.nodes()[to]).await.expect("it begins");
                assert!(cluster.move_keys_named(some).await.expect("they move"));
                cluster.finish_migration(*slot).await.expect("it ends");
            }
            is_over.set(true);
        };
        let listing = async {
            while !is_over.get() {
                let url = url.clone();
                let list = move || run(&["ls", "--kind", "all", "--json", "--url", &url]);
                let ended = tokio::task::spawn_blocking(list).await.expect("no panic");
                assert_complete(&ended, &all);
                lists += 1;
            }
        };
        tokio::join!(moves, listing);
    }
    println!("{lists} lists of {} names while slots moved {} times", all.len(), MOVING * MOVES);
    for node in cluster.nodes() {
        let log: Vec<Value> =
            node.observer().await.expect("an observer").query(&["ACL", "LOG"]).await.expect("an answer");
        assert!(log.is_empty(), "{log:?}");
    }
}
