//! Numbers that all processes share.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures_util::future::join_all;
use redgrid_atomic_long::{AtomicDouble, AtomicError, AtomicLong, Comparison};
use redgrid_testkit::{Action, Fault, Proxy, wait_until};
use redgrid_tests::{SOON, client, client_with, server};

/// The least number that a double can not tell from its neighbour.
const FINE: i64 = (1 << 53) + 1;

#[tokio::test(flavor = "multi_thread")]
async fn numbers_are_read_and_changed() {
    let server = server().await;
    let client = client(&server).await;
    for once in [false, true] {
        let hits = AtomicLong::new(&client, "hits");
        let hits = if once { hits.exactly_once() } else { hits };
        assert_eq!((hits.get().await.unwrap(), hits.delete().await.unwrap()), (0, false));
        assert_eq!((hits.increment().await.unwrap(), hits.add(41).await.unwrap()), (1, 42));
        assert_eq!((hits.get_and_increment().await.unwrap(), hits.get_and_add(-3).await.unwrap()), (42, 43));
        assert_eq!((hits.decrement().await.unwrap(), hits.get_and_decrement().await.unwrap()), (39, 39));
        assert_eq!((hits.get_and_set(7).await.unwrap(), hits.get().await.unwrap()), (38, 7));
        assert!(!hits.compare_and_set(8, 9).await.unwrap() && hits.compare_and_set(7, 9).await.unwrap());
        assert_eq!(hits.update(|n| n * 2).await.unwrap(), 18);
        assert_eq!((hits.get_and_delete().await.unwrap(), hits.get().await.unwrap()), (18, 0));
        assert!(hits.compare_and_set(0, 5).await.unwrap() && hits.delete().await.unwrap());
        hits.set(-1).await.unwrap();
        assert_eq!(hits.get_and_delete().await.unwrap(), -1);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn numbers_are_exact_over_all_of_i64() {
    let server = server().await;
    let client = client(&server).await;
    for once in [false, true] {
        let n = AtomicLong::new(&client, "n");
        let n = if once { n.exactly_once() } else { n };
        for value in [FINE, -FINE, i64::MAX, i64::MIN] {
            n.set(value).await.unwrap();
            assert_eq!(n.get().await.unwrap(), value);
            let near = if value > 0 { value - 1 } else { value + 1 };
            assert!(!n.compare_and_set(near, 0).await.unwrap());
            assert!(n.set_if(Comparison::NotEqual, near, value).await.unwrap());
            assert_eq!(n.set_if(Comparison::Less, near, 0).await.unwrap(), value < near);
            n.set(value).await.unwrap();
            assert_eq!(n.set_if(Comparison::Greater, near, value).await.unwrap(), value > near);
            assert!(n.set_if(Comparison::LessOrEqual, value, value).await.unwrap());
            assert!(n.set_if(Comparison::GreaterOrEqual, value, value).await.unwrap());
            assert!(!n.delete_if(Comparison::Equal, near).await.unwrap());
            assert_eq!(n.get_and_set(0).await.unwrap(), value);
            assert_eq!(n.add(value).await.unwrap(), value);
            assert!(n.delete_if(Comparison::Equal, value).await.unwrap());
        }
        assert!(!n.delete_if(Comparison::Equal, 0).await.unwrap());
        n.set(i64::MIN).await.unwrap();
        assert_eq!(n.get_and_add(i64::MAX).await.unwrap(), i64::MIN);
        assert_eq!(n.get().await.unwrap(), -1);
        n.delete().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn of_what_is_added_together_only_that_is_refused_which_is_too_much() {
    let server = server().await;
    let client = client(&server).await;
    for once in [false, true] {
        let n = AtomicLong::new(&client, "n");
        let n = if once { n.exactly_once() } else { n };
        n.set(i64::MAX - 10).await.unwrap();
        let all = join_all([3, 20, 4, -1, 2, 5].map(|by| n.add(by).into_future())).await;
        let refused = all.iter().filter(|told| matches!(told, Err(AtomicError::Overflow { .. }))).count();
        assert!(matches!(all[1], Err(AtomicError::Overflow { .. })), "{all:?}");
        let added: i64 = [3, 20, 4, -1, 2, 5].iter().zip(&all).filter(|(_, told)| told.is_ok()).map(|(by, _)| by).sum();
        assert_eq!(n.get().await.unwrap(), i64::MAX - 10 + added, "{refused} refused");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn bounds_hold_and_lifetimes_are_as_asked() {
    let server = server().await;
    let (client, observer) = (client(&server).await, server.observer().await.unwrap());
    let lives = async || observer.query::<i64>(&["PTTL", "n"]).await.unwrap();
    for once in [false, true] {
        let n = AtomicLong::new(&client, "n");
        let n = if once { n.exactly_once() } else { n };
        assert_eq!(n.add(4).at_most(5).expires_in(SOON).await.unwrap(), 4);
        assert!(lives().await > 0);
        let told = n.add(2).at_most(5).await.unwrap_err();
        assert!(matches!(told, AtomicError::OutOfBounds { value: 4, .. }), "{told:?}");
        assert_eq!(n.add(2).at_most(5).saturating().await.unwrap(), 5);
        assert_eq!(n.add(-9).at_least(-1).saturating().await.unwrap(), -1);
        assert_eq!(n.update(|n| n + 1).await.unwrap(), 0);
        assert!(lives().await > 0, "an update leaves it");
        n.add(1).persist().await.unwrap();
        assert_eq!(lives().await, -1);
        n.set(i64::MAX).await.unwrap();
        assert_eq!(n.add(5).at_most(i64::MAX).saturating().await.unwrap(), i64::MAX);
        let told = n.add(5).at_least(0).await.unwrap_err();
        assert!(matches!(told, AtomicError::Overflow { .. }), "{told:?}");
        n.set(FINE - 1).await.unwrap();
        let told = n.add(1).at_most(FINE - 1).await.unwrap_err();
        assert!(matches!(told, AtomicError::OutOfBounds { .. }), "{told:?}");
        n.delete().await.unwrap();
        let told = n.add(1).at_most(0).await.unwrap_err();
        assert!(matches!(told, AtomicError::OutOfBounds { value: 0, .. }), "{told:?}");
        assert_eq!(lives().await, -2, "what was absent is absent");
        assert!(matches!(n.add(1).expires_in(Duration::ZERO).await, Err(AtomicError::InvalidArgument { .. })));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_tasks_add_at_the_same_time_leaves_together_and_each_has_its_own_number() {
    let server = server().await;
    let proxy = Proxy::to(&server).await.unwrap();
    let client = client_with(&server.url_via(proxy.addr()), |config| config).await;
    let sent = Arc::new(AtomicU64::new(0));
    let seen = Arc::clone(&sent);
    proxy.on_request(move |request| {
        seen.fetch_add(u64::from(&request[0][..] == b"INCRBY"), Ordering::Relaxed);
        Action::Forward
    });
    let tasks = (0..10).map(|_| {
        let hits = AtomicLong::new(&client, "hits");
        tokio::spawn(async move {
            let mut had = Vec::new();
            for _ in 0..1_000 {
                had.push(hits.increment().await.unwrap());
            }
            assert!(had.is_sorted());
            had
        })
    });
    let mut had: Vec<i64> = join_all(tasks).await.into_iter().flat_map(Result::unwrap).collect();
    had.sort_unstable();
    assert_eq!(had, (1..=10_000).collect::<Vec<_>>());
    let sent = sent.load(Ordering::Relaxed);
    assert!(sent < 6_000, "{sent} commands");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_answer_is_told_and_nothing_is_added_twice() {
    let server = server().await;
    let proxy = Proxy::to(&server).await.unwrap();
    let quick = |config: redgrid_atomic_long::Config| config.timeout(Duration::from_millis(150));
    let client = client_with(&server.url_via(proxy.addr()), quick).await;
    let (plain, once) = (AtomicLong::new(&client, "plain"), AtomicLong::new(&client, "once").exactly_once());
    plain.get().await.unwrap();
    once.increment().await.unwrap();
    proxy.next(1, "plain", Action::SwallowReply);
    let told = plain.increment().await;
    assert!(matches!(told, Err(AtomicError::OutcomeUnknown { .. })), "{told:?}");
    // A connection that swallows answers may be given up.
    wait_until(SOON, async || plain.get().await.is_ok_and(|n| n == 1)).await;
    proxy.next(1, "redgrid_once:{once}", Action::SwallowReply);
    assert_eq!(once.increment().await.unwrap(), 2);
    proxy.next(1, "redgrid_once:{once}", Action::SwallowReply);
    assert!(once.compare_and_set(2, 7).await.unwrap());
    wait_until(SOON, async || once.get().await.is_ok_and(|n| n == 7)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_leaves_before_his_number_has_left_adds_nothing_and_without_contact_all_end() {
    let server = server().await;
    let proxy = Proxy::to(&server).await.unwrap();
    let quick = |config: redgrid_atomic_long::Config| config.timeout(Duration::from_millis(100));
    let client = client_with(&server.url_via(proxy.addr()), quick).await;
    let n = AtomicLong::new(&client, "n");
    n.add(1).await.unwrap();
    proxy.set_both(Fault::BlackHole);
    let first = tokio::spawn(n.add(10).into_future());
    tokio::task::yield_now().await;
    let told = join_all((0..20).map(|_| n.add(100).into_future())).await;
    let honest = |told: &Result<i64, AtomicError>| {
        matches!(told, Err(AtomicError::OutcomeUnknown { .. } | AtomicError::Unavailable { .. }))
    };
    assert!(told.iter().all(honest) && honest(&first.await.unwrap()), "{told:?}");
    let unknown = told.iter().any(|told| matches!(told, Err(AtomicError::OutcomeUnknown { .. })));
    proxy.heal();
    wait_until(SOON, async || n.get().await.is_ok()).await;
    let value = n.get().await.unwrap();
    assert!(value == 1 || value == 11 || unknown, "{value}");
}

#[tokio::test(flavor = "multi_thread")]
async fn doubles_are_added_by_the_server() {
    let server = server().await;
    let client = client(&server).await;
    let n = AtomicDouble::new(&client, "n");
    assert_eq!((n.get().await.unwrap(), n.add(0.1).await.unwrap(), n.add(0.2).await.unwrap()), (0.0, 0.1, 0.3));
    assert_eq!((n.get_and_set(-1e300).await.unwrap(), n.get().await.unwrap()), (0.3, -1e300));
    for bad in [f64::NAN, f64::INFINITY] {
        assert!(matches!(n.add(bad).await, Err(AtomicError::InvalidArgument { .. })));
        assert!(matches!(n.set(bad).await, Err(AtomicError::InvalidArgument { .. })));
    }
    assert_eq!((n.get_and_delete().await.unwrap(), n.delete().await.unwrap()), (-1e300, false));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_number_is_told() {
    let server = server().await;
    let (client, observer) = (client(&server).await, server.observer().await.unwrap());
    let n = AtomicLong::new(&client, "n");
    observer.cmd(&["SET", "n", "many"]).await.unwrap();
    assert!(matches!(n.get().await, Err(AtomicError::NotANumber { got, .. }) if got == "many"));
    assert!(matches!(n.increment().await, Err(AtomicError::Refused { .. })));
    assert!(matches!(n.set_if(Comparison::Less, 1, 2).await, Err(AtomicError::Refused { .. })));
    assert!(matches!(n.update(|n| n).await, Err(AtomicError::NotANumber { .. })));
    observer.cmd(&["DEL", "n"]).await.unwrap();
    observer.cmd(&["LPUSH", "n", "1"]).await.unwrap();
    assert!(matches!(n.get().await, Err(AtomicError::Refused { .. })));
    assert!(matches!(n.exactly_once().increment().await, Err(AtomicError::Refused { .. })));
    let invalid = AtomicLong::new(&client, "");
    assert!(matches!(invalid.get().await, Err(AtomicError::InvalidName(_))));
    assert!(matches!(invalid.add(1).await, Err(AtomicError::InvalidName(_))));
}
