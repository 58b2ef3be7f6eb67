//! What holds for numbers, wherever they live.

use futures_util::future::join_all;
use redgrid_atomic_long::{AtomicDouble, AtomicError, AtomicLong, Comparison};
use redgrid_tests::SOON;

use crate::ground::{Clause, Ground};

macro_rules! clauses {
    ($($name:ident),* $(,)?) => {
        pub(crate) fn scenarios() -> Vec<Clause> {
            vec![$(Clause { name: concat!("atomics::", stringify!($name)), run: |ground| Box::pin($name(ground)) }),*]
        }
    };
}

clauses![tasks_of_two_processes_add_each_once, a_number_is_compared_bounded_and_deleted];

async fn tasks_of_two_processes_add_each_once(on: Ground) {
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

async fn a_number_is_compared_bounded_and_deleted(on: Ground) {
    let client = on.client().await;
    for once in [false, true] {
        let number = AtomicLong::new(&client, format!("{}:{once}", on.name));
        let number = if once { number.exactly_once() } else { number };
        number.set(i64::MAX - 1).await.unwrap();
        assert!(number.set_if(Comparison::Less, i64::MAX, i64::MAX).await.unwrap());
        assert!(matches!(number.increment().await, Err(AtomicError::Overflow { .. })));
        assert_eq!(number.add(-5).at_least(i64::MAX - 2).saturating().expires_in(SOON).await.unwrap(), i64::MAX - 2);
        number.add(0).persist().await.unwrap();
        assert_eq!(number.update(|n| n - 1).await.unwrap(), i64::MAX - 3);
        assert!(number.compare_and_set(i64::MAX - 3, 3).await.unwrap());
        assert_eq!((number.get_and_set(4).await.unwrap(), number.get().await.unwrap()), (3, 4));
        assert!(number.delete_if(Comparison::Equal, 4).await.unwrap());
        assert_eq!(number.get_and_delete().await.unwrap(), 0);
    }
    let double = AtomicDouble::new(&client, format!("{}:double", on.name));
    assert_eq!((double.add(0.5).await.unwrap(), double.get_and_set(1.5).await.unwrap()), (0.5, 0.5));
    assert!(double.delete().await.unwrap());
}
