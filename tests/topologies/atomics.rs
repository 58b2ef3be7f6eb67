//! Atomic numbers on every topology.

use std::future::IntoFuture;

use futures_util::future::join_all;
use redgrid_atomic_long::{AtomicDouble, AtomicError, AtomicLong, Comparison, Lifetime};
use redgrid_tests::SOON;

use crate::fixture::{Clause, Fixture};

macro_rules! clauses {
    ($($name:ident),* $(,)?) => {
        pub(crate) fn scenarios() -> Vec<Clause> {
            vec![$(Clause { name: concat!("atomics::", stringify!($name)), run: |fixture| Box::pin($name(fixture)) }),*]
        }
    };
}

clauses![
    tasks_of_two_processes_add_each_once,
    a_number_is_compared_bounded_and_deleted,
    a_double_is_added_to_compared_bounded_and_deleted,
    updates_and_opposite_additions_of_two_processes_lose_nothing,
];

async fn tasks_of_two_processes_add_each_once(on: Fixture) {
    let clients = [on.client().await, on.client().await];
    for once in [false, true] {
        let name = format!("{}:{once}", on.name);
        let tasks = (0..8).map(|task| {
            let number = AtomicLong::new(&clients[task % 2], &name);
            let number = if once { number.exactly_once() } else { number };
            tokio::spawn(async move {
                let mut had = Vec::new();
                for _ in 0..20 {
                    had.push(number.increment().await.unwrap());
                }
                had
            })
        });
        let mut had: Vec<i64> = join_all(tasks).await.into_iter().flat_map(Result::unwrap).collect();
        had.sort_unstable();
        assert_eq!(had, (1..=160).collect::<Vec<_>>());
    }
}

async fn a_number_is_compared_bounded_and_deleted(on: Fixture) {
    let client = on.client().await;
    for once in [false, true] {
        let number = AtomicLong::new(&client, format!("{}:{once}", on.name));
        let number = if once { number.exactly_once() } else { number };
        number.set(i64::MAX - 1).await.unwrap();
        assert!(number.set_if(Comparison::Less, i64::MAX, i64::MAX).await.unwrap());
        assert!(matches!(number.increment().await, Err(AtomicError::Overflow { .. })));
        assert_eq!(number.add(-5).at_least(i64::MAX - 2).saturating().expires_in(SOON).await.unwrap(), i64::MAX - 2);
        assert!(matches!(number.lifetime().await.unwrap(), Lifetime::Ends(left) if left <= SOON));
        number.add(0).persist().await.unwrap();
        assert_eq!((number.exists().await.unwrap(), number.lifetime().await.unwrap()), (true, Lifetime::Endless));
        assert_eq!(number.update(|n| n - 1).await.unwrap(), i64::MAX - 3);
        assert!(number.compare_and_set(i64::MAX - 3, 3).await.unwrap());
        assert_eq!((number.get_and_set(4).await.unwrap(), number.get().await.unwrap()), (3, 4));
        assert!(number.delete_if(Comparison::Equal, 4).await.unwrap());
        assert_eq!(number.get_and_delete().await.unwrap(), 0);
    }
}

async fn a_double_is_added_to_compared_bounded_and_deleted(on: Fixture) {
    let client = on.client().await;
    for once in [false, true] {
        let number = AtomicDouble::new(&client, format!("{}:{once}", on.name));
        let number = if once { number.exactly_once() } else { number };
        let sums = join_all((0..20).map(|_| number.add(0.1).into_future())).await;
        assert!(sums.iter().any(|sum| matches!(sum, Ok(now) if *now == 2.0)), "{sums:?}");
        assert_eq!((number.get_and_add(0.5).await.unwrap(), number.decrement().await.unwrap()), (2.0, 1.5));
        assert_eq!(number.add(1.0).at_most(2.25).saturating().expires_in_if_none(SOON).await.unwrap(), 2.25);
        number.add(0.0).persist().await.unwrap();
        assert_eq!(number.update(|n| n * 2.0).await.unwrap(), 4.5);
        assert!(number.set_if(Comparison::Greater, 4.25, f64::MAX).await.unwrap());
        assert!(matches!(number.add(f64::MAX).await, Err(AtomicError::Overflow { .. })));
        assert!(number.compare_and_set(f64::MAX, 3.5).await.unwrap());
        assert_eq!((number.get_and_set(4.5).await.unwrap(), number.get().await.unwrap()), (3.5, 4.5));
        assert!(number.delete_if(Comparison::Equal, 4.5).await.unwrap());
        assert_eq!(number.get_and_delete().await.unwrap(), 0.0);
        number.set(1.0).await.unwrap();
        assert!(number.delete().await.unwrap());
    }
}

async fn updates_and_opposite_additions_of_two_processes_lose_nothing(on: Fixture) {
    let clients = [on.client().await, on.client().await];
    for once in [false, true] {
        let name = format!("{}:{once}", on.name);
        let tasks = (0..12).map(|task| {
            let number = AtomicLong::new(&clients[task % 2], &name);
            let number = if once { number.exactly_once() } else { number };
            tokio::spawn(async move {
                for turn in 0..10 {
                    match task {
                        0..6 => drop(number.update(|n| n + 3).await.unwrap()),
                        _ => drop(number.add(if turn % 2 == 0 { 5 } else { -4 }).await.unwrap()),
                    }
                }
            })
        });
        join_all(tasks).await.into_iter().for_each(Result::unwrap);
        let number = AtomicLong::new(&clients[0], &name);
        assert_eq!(number.get().await.unwrap(), 6 * 10 * 3 + 6 * 5);
        assert!(number.exactly_once().delete().await.unwrap());
    }
}
