//! Events of objects on every topology, also when their keys move; possible losses are reported.

use std::time::Duration;

use redgrid_core::object::Object;
use redgrid_core::object::events::{Events, Gap, Kind, Kinds, Listen, Notice};
use redgrid_core::{Client, Config};
use redgrid_testkit::{Cluster, Observer, RedisServer, Sentinels, wait_until};
use redgrid_tests::SOON;

use crate::contract::clauses;
use crate::fixture::{Fixture, by_seeds, by_sentinels, connected};

clauses![
    "object_events";
    events_of_an_object_and_of_a_pattern_are_delivered,
];

async fn next(events: &mut Events) -> Notice {
    let next = tokio::time::timeout(2 * SOON, events.next()).await.expect("something comes");
    next.expect("the client lives")
}

/// Returns the name and the command of the next event, and the number of gaps before it.
async fn next_event(events: &mut Events) -> (String, String, usize) {
    let mut gaps = 0;
    loop {
        match next(events).await {
            Notice::Event(event) => return (event.name, event.command, gaps),
            Notice::Gap(Gap::Interrupted) => gaps += 1,
            other => panic!("{other:?}"),
        }
    }
}

async fn set(observer: &Observer) {
    observer.cmd(&["CONFIG", "SET", "notify-keyspace-events", "KEA"]).await.unwrap();
}

/// Returns names and commands of the next events, or none if the reader was too slow.
async fn next_of(events: &mut Events, count: usize) -> Option<Vec<(String, String)>> {
    let mut found = Vec::new();
    while found.len() < count {
        match next(events).await {
            Notice::Event(event) => found.push((event.name, event.command)),
            Notice::Gap(Gap::Interrupted) => {}
            Notice::Gap(Gap::Slow { .. }) => return None,
            other => panic!("{other:?}"),
        }
    }
    Some(found)
}

/// Under the published permissions, a user may not read the settings of servers. The client filters
/// the events of a pattern out of all events of a server, which many scenarios use at a time. A
/// test that stalls for long enough gets a gap, because some events were dropped, and begins anew
/// with another name.
async fn events_of_an_object_and_of_a_pattern_are_delivered(on: Fixture) {
    /// The limit of attempts: a machine does not stall so often.
    const TIMES: usize = 20;
    let client = on.client().await;
    set(&on.observer).await;
    for time in 0..TIMES {
        // The observer set up the server of this slot.
        let name = format!("{{{}}}:{time}", on.name);
        let object = Object::new(&client, &name);
        let mut one = object.events(Kinds::changes()).unchecked().await.unwrap();
        let mut all = Listen::to(&client, name.as_str(), [Kind::Updated, Kind::Expired]).unchecked().await.unwrap();
        // Both streams are read all the time, as a user would.
        let change = async {
            client.command("SET").key(&name).unwrap().arg("1").query::<()>().await.unwrap();
            assert!(object.expire_in(Duration::from_millis(50)).await.unwrap());
        };
        let (one, all, ()) = tokio::join!(next_of(&mut one, 3), next_of(&mut all, 2), change);
        let named =
            |commands: &[&str]| commands.iter().map(|text| (name.clone(), text.to_string())).collect::<Vec<_>>();
        assert_eq!(one.expect("one key never has many events"), named(&["set", "expire", "expired"]));
        if let Some(all) = all {
            assert_eq!(all, named(&["set", "expired"]));
            return;
        }
    }
    panic!("too slow {TIMES} times");
}

/// Changes a key until both streams receive an event of the node that serves the key by now.
async fn until_received(client: &Client, name: &str, one: &mut Events, all: &mut Events) {
    for events in [one, all] {
        // Changes while no client is subscribed cause no event: the gap reports that.
        let gap = async {
            loop {
                match next(events).await {
                    Notice::Gap(Gap::Interrupted) => return,
                    // Earlier events arrive first, also from the node from which the keys move
                    // away.
                    Notice::Event(_) => {}
                    other => panic!("{other:?}"),
                }
            }
        };
        gap.await;
        let append = async {
            loop {
                let append = client.command("APPEND").key(name).unwrap().arg("1").query::<i64>();
                let _ = append.await;
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        let seen = async {
            loop {
                if next_event(events).await.1 == "append" {
                    return;
                }
            }
        };
        tokio::select! {
            () = seen => {}
            () = append => {}
        }
    }
}

async fn listening(config: Config, name: &str) -> (Client, Events, Events) {
    let client = connected(config).await;
    let one = Object::new(&client, name).events(Kinds::changes()).enable().await.unwrap();
    let all = Listen::to(&client, "?", Kind::Updated).enable().await.unwrap();
    (client, one, all)
}

/// Scenarios with servers of their own.
pub(crate) mod object_events_alone {
    use super::*;
    use crate::fixture::scenarios;

    scenarios![
        sentinel_a_failover_is_a_gap_and_events_go_on,
        cluster_a_failover_is_a_gap_and_events_go_on,
        cluster_a_slot_that_moves_is_a_gap_and_events_go_on,
        cluster_events_of_a_pattern_come_from_every_primary,
    ];

    async fn sentinel_a_failover_is_a_gap_and_events_go_on() {
        let sentinels = Sentinels::start().await.unwrap();
        let (client, mut one, mut all) = listening(by_sentinels(&sentinels), "a").await;
        let former = sentinels.current_primary().await.unwrap();
        former.kill().await.unwrap();
        let new = sentinels.wait_for_primary_other_than(former.addr()).await.unwrap();
        until_received(&client, "a", &mut one, &mut all).await;
        // The client set up this server, too, which sent no events before.
        let setting = ["CONFIG", "GET", "notify-keyspace-events"];
        let set = new.observer().await.unwrap().query::<Vec<String>>(&setting).await.unwrap().remove(1);
        assert!(set.contains('K') && set.contains('E'), "{set}");
    }

    async fn cluster_a_failover_is_a_gap_and_events_go_on() {
        let cluster = Cluster::start(3, 1).await.unwrap();
        let (client, mut one, mut all) = listening(by_seeds(&cluster), "a").await;
        let primary = cluster.primary_of(cluster.slot_of("a").await.unwrap()).await.unwrap();
        cluster.fail_over(primary).await.unwrap();
        until_received(&client, "a", &mut one, &mut all).await;
    }

    async fn cluster_a_slot_that_moves_is_a_gap_and_events_go_on() {
        let cluster = Cluster::start(3, 0).await.unwrap();
        let client = connected(by_seeds(&cluster)).await;
        for node in cluster.nodes() {
            set(&node.observer().await.unwrap()).await;
        }
        let slot = cluster.slot_of("a").await.unwrap();
        let from = cluster.primary_of(slot).await.unwrap();
        let to: &RedisServer = cluster.nodes().iter().find(|node| node.addr() != from.addr()).unwrap();
        let change = async || client.command("APPEND").key("a").unwrap().arg("1").query::<i64>().await.unwrap();
        change().await;
        let mut one = Object::new(&client, "a").events(Kinds::named(["append"])).await.unwrap();
        let mut all = Listen::to(&client, "a", Kinds::named(["append"])).await.unwrap();
        change().await;
        assert_eq!(next_event(&mut one).await.1, "append");
        assert_eq!(next_event(&mut all).await.1, "append");
        cluster.begin_migration(slot, to).await.unwrap();
        cluster.move_keys(slot).await.unwrap();
        cluster.finish_migration(slot).await.unwrap();
        // The first call notices the move, and the client follows.
        change().await;
        assert!(matches!(next(&mut one).await, Notice::Gap(Gap::Interrupted)));
        let there = to.observer().await.unwrap();
        let listened =
            async |at: &Observer| at.query::<(String, u64)>(&["PUBSUB", "NUMSUB", "__keyspace@0__:a"]).await.unwrap().1;
        assert_eq!(listened(&there).await, 1);
        let former = from.observer().await.unwrap();
        wait_until(SOON, async || listened(&former).await == 0).await;
        change().await;
        assert_eq!(next_event(&mut one).await, ("a".to_owned(), "append".to_owned(), 0));
        // The client listens to all primaries as before, so the pattern missed no event.
        for _ in 0..2 {
            assert_eq!(next_event(&mut all).await, ("a".to_owned(), "append".to_owned(), 0));
        }
    }

    async fn cluster_events_of_a_pattern_come_from_every_primary() {
        let cluster = Cluster::start(3, 0).await.unwrap();
        let client = connected(by_seeds(&cluster)).await;
        let mut all = Listen::to(&client, "many:*", Kinds::named(["set"])).enable().await.unwrap();
        let mut names: Vec<String> = (0..30).map(|n| format!("many:{n}")).collect();
        for name in &names {
            client.command("SET").key(name).unwrap().arg("1").query::<()>().await.unwrap();
        }
        let mut received = Vec::new();
        for _ in &names {
            received.push(next_event(&mut all).await.0);
        }
        names.sort();
        received.sort();
        assert_eq!(received, names);
        for node in cluster.nodes() {
            let observer = node.observer().await.unwrap();
            let listened =
                async || observer.query::<(String, u64)>(&["PUBSUB", "NUMSUB", "__keyevent@0__:set"]).await.unwrap().1;
            assert_eq!(listened().await, 1);
        }
        drop(all);
        for node in cluster.nodes() {
            let observer = node.observer().await.unwrap();
            let listened =
                async || observer.query::<(String, u64)>(&["PUBSUB", "NUMSUB", "__keyevent@0__:set"]).await.unwrap().1;
            wait_until(SOON, async || listened().await == 0).await;
        }
    }
}
