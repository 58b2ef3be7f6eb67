//! Ids on every topology.

use std::collections::BTreeSet;

use futures_util::future::join_all;
use redgrid_id_generator::{IdError, IdGenerator, TimeOrderedId};

use crate::contract::clauses;
use crate::fixture::Fixture;

clauses![
    "ids";
    blocks_of_two_processes_have_nothing_in_common,
    a_generator_is_set_up_once_ends_and_is_deleted,
    ordered_ids_are_unique_per_process,
    midnight_is_the_same_for_all,
];

async fn blocks_of_two_processes_have_nothing_in_common(on: Fixture) {
    let clients = [on.client().await, on.client().await];
    for name in [on.name.clone(), format!("{}:{{tag}}", on.name)] {
        let set = join_all(clients.iter().map(|client| {
            let ids = IdGenerator::new(client, &name);
            async move { ids.try_init(100, 7).await.unwrap() }
        }));
        assert_eq!(set.await.into_iter().filter(|set| *set).count(), 1);
        let tasks = (0..8).map(|task| {
            let ids = IdGenerator::new(&clients[task % 2], &name);
            tokio::spawn(async move { join_all((0..50).map(|_| ids.next())).await })
        });
        let had = join_all(tasks).await.into_iter().flat_map(Result::unwrap).map(Result::unwrap);
        let had: Vec<i64> = had.collect();
        let all: BTreeSet<i64> = had.iter().copied().collect();
        assert_eq!((all.len(), had.len()), (400, 400));
        assert!(all.first().unwrap() >= &100);
    }
}

async fn a_generator_is_set_up_once_ends_and_is_deleted(on: Fixture) {
    let client = on.client().await;
    let ids = IdGenerator::new(&client, &on.name);
    assert!(ids.try_init(i64::MAX - 1, 1).await.unwrap());
    assert!(!ids.try_init(1, 1).await.unwrap());
    assert_eq!(ids.next().await.unwrap(), i64::MAX - 1);
    assert!(matches!(ids.next().await, Err(IdError::Exhausted { .. })));
    assert!(ids.delete().await.unwrap() && !ids.delete().await.unwrap());
    assert_eq!(ids.next().await.unwrap(), 1);
}

async fn ordered_ids_are_unique_per_process(on: Fixture) {
    let clients = [on.client().await, on.client().await];
    let tasks = (0..8).map(|task| {
        let ids = TimeOrderedId::new(&clients[task % 2], &on.name);
        tokio::spawn(async move {
            let mut had = Vec::new();
            for _ in 0..200 {
                had.push(ids.next().await.unwrap());
            }
            assert!(had.is_sorted_by(|a, b| a < b));
            had
        })
    });
    let had: Vec<i64> = join_all(tasks).await.into_iter().flat_map(Result::unwrap).collect();
    assert_eq!(had.iter().collect::<BTreeSet<_>>().len(), 1600);
}

/// The day changes at the same time for all clients. In a cluster, the counters of two days are on
/// different nodes.
async fn midnight_is_the_same_for_all(on: Fixture) {
    const DAY: i64 = 24 * 60 * 60;
    let clients = [on.client().await, on.client().await];
    let now = i64::try_from(on.observer.server_time_micros().await.unwrap() / 1_000_000).unwrap();
    let ids = clients.each_ref().map(|client| TimeOrderedId::new(client, &on.name).day_offset(DAY - 8 - now % DAY));
    let began = ids[0].decode(ids[0].next().await.unwrap()).unwrap();
    let mut had = [Vec::new(), Vec::new()];
    let mut over = [false, false];
    while over != [true, true] {
        for ((ids, had), over) in ids.iter().zip(&mut had).zip(&mut over) {
            let id = ids.next().await.unwrap();
            had.push(id);
            let made = ids.decode(id).unwrap();
            *over = ids.counter_of(made.time).unwrap() != ids.counter_of(began.time).unwrap();
        }
        // The server has its own clock, which ends this loop.
        let passed = i64::try_from(on.observer.server_time_micros().await.unwrap() / 1_000_000).unwrap() - now;
        assert!(passed < 30, "no midnight");
    }
    assert!(had.iter().all(|had| had.is_sorted_by(|a, b| a < b)));
    let all: BTreeSet<&i64> = had.iter().flatten().collect();
    assert_eq!(all.len(), had[0].len() + had[1].len());
}
