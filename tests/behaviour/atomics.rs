//! Atomic integers, and stored values that are not numbers.

use std::time::Duration;

use futures_util::future::join_all;
use redgrid_atomic_long::{AtomicError, AtomicLong, Comparison, Lifetime, Value};
use redgrid_core::Failure;
use redgrid_testkit::{Action, Fault, Proxy, wait_until};
use redgrid_tests::{SOON, client, client_with, server};

/// The smallest number that a double cannot distinguish from the next one.
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
async fn of_batched_additions_only_overflowing_ones_are_rejected() {
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
async fn bounds_hold_and_lifetimes_are_as_requested() {
    let server = server().await;
    let (client, observer) = (client(&server).await, server.observer().await.unwrap());
    let lives = async || observer.query::<i64>(&["PTTL", "n"]).await.unwrap();
    for once in [false, true] {
        let n = AtomicLong::new(&client, "n");
        let n = if once { n.exactly_once() } else { n };
        assert_eq!(n.add(1).expires_in_if_none(SOON * 2).await.unwrap(), 1);
        let first = lives().await;
        let soon = SOON.as_millis() as i64;
        assert!(first > soon, "{first}");
        assert!(matches!(n.lifetime().await.unwrap(), Lifetime::Ends(left) if left > SOON && left <= SOON * 2));
        assert_eq!(n.add(2).expires_in_if_none(SOON * 9).await.unwrap(), 3);
        assert!((1..=first).contains(&lives().await), "the first lifetime stays");
        assert_eq!(n.add(1).at_most(5).expires_in(SOON).await.unwrap(), 4);
        assert!((1..=soon).contains(&lives().await));
        let told = n.add(2).at_most(5).await.unwrap_err();
        assert!(matches!(told, AtomicError::OutOfBounds { value: Value::Long(4), .. }), "{told:?}");
        assert_eq!(n.add(2).at_most(5).saturating().await.unwrap(), 5);
        assert_eq!(n.add(-9).at_least(-1).saturating().await.unwrap(), -1);
        assert_eq!(n.update(|n| n + 1).await.unwrap(), 0);
        assert!(lives().await > 0, "an update keeps it");
        n.add(1).persist().await.unwrap();
        assert_eq!((lives().await, n.lifetime().await.unwrap()), (-1, Lifetime::Endless));
        assert!(n.exists().await.unwrap());
        n.set(i64::MAX).await.unwrap();
        assert_eq!(n.add(5).at_most(i64::MAX).saturating().await.unwrap(), i64::MAX);
        let told = n.add(5).at_least(0).await.unwrap_err();
        assert!(matches!(told, AtomicError::Overflow { .. }), "{told:?}");
        n.set(FINE - 1).await.unwrap();
        let told = n.add(1).at_most(FINE - 1).await.unwrap_err();
        assert!(matches!(told, AtomicError::OutOfBounds { .. }), "{told:?}");
        n.delete().await.unwrap();
        let told = n.add(1).at_most(0).await.unwrap_err();
        assert!(matches!(told, AtomicError::OutOfBounds { value: Value::Long(0), .. }), "{told:?}");
        assert_eq!(lives().await, -2, "an absent number stays absent");
        assert_eq!((n.lifetime().await.unwrap(), n.exists().await.unwrap()), (Lifetime::Absent, false));
        assert!(matches!(
            n.add(1).expires_in(Duration::ZERO).await,
            Err(AtomicError::Failed(Failure::InvalidArgument { .. }))
        ));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_reply_is_reported_and_nothing_is_added_twice() {
    let server = server().await;
    let proxy = Proxy::to(&server).await.unwrap();
    // With a short timeout, a lost reply is noticed quickly; then many retries are possible.
    let quick = |config: redgrid_atomic_long::Config| config.response_timeout(Duration::from_millis(150)).retries(99);
    let client = client_with(&server.url_via(proxy.addr()), quick).await;
    let (plain, once) = (AtomicLong::new(&client, "plain"), AtomicLong::new(&client, "once").exactly_once());
    server.observer().await.unwrap().cmd(&["SET", "once", "1"]).await.unwrap();
    proxy.next(1, "plain", Action::SwallowReply);
    let told = plain.increment().await;
    assert!(matches!(told, Err(AtomicError::Failed(Failure::OutcomeUnknown { .. }))), "{told:?}");
    // A connection that loses replies may be closed.
    wait_until(SOON, async || plain.get().await.is_ok_and(|n| n == 1)).await;
    proxy.next(1, "redgrid_once:{once}", Action::SwallowReply);
    assert_eq!(once.increment().await.unwrap(), 2);
    proxy.next(1, "redgrid_once:{once}", Action::SwallowReply);
    assert!(once.compare_and_set(2, 7).await.unwrap());
    wait_until(SOON, async || once.get().await.is_ok_and(|n| n == 7)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_contact_all_additions_end_and_only_unknown_ones_may_count() {
    let server = server().await;
    let (proxy, observer) = (Proxy::to(&server).await.unwrap(), server.observer().await.unwrap());
    observer.cmd(&["SET", "n", "1"]).await.unwrap();
    let quick = |config: redgrid_atomic_long::Config| config.response_timeout(Duration::from_millis(100));
    let client = client_with(&server.url_via(proxy.addr()), quick).await;
    let n = AtomicLong::new(&client, "n");
    proxy.set_both(Fault::BlackHole);
    let first = tokio::spawn(n.add(10).into_future());
    tokio::task::yield_now().await;
    let told = join_all((0..20).map(|_| n.add(100).into_future())).await;
    let first = first.await.unwrap();
    let honest = |told: &Result<i64, AtomicError>| {
        matches!(told, Err(AtomicError::Failed(Failure::OutcomeUnknown { .. } | Failure::Unavailable { .. })))
    };
    assert!(told.iter().all(honest) && honest(&first), "{first:?} {told:?}");
    let unknown = |told: &Result<i64, AtomicError>| {
        i64::from(matches!(told, Err(AtomicError::Failed(Failure::OutcomeUnknown { .. }))))
    };
    proxy.heal();
    wait_until(SOON, async || n.get().await.is_ok()).await;
    let added = observer.get::<i64>("n").await.unwrap().unwrap() - 1;
    let (tens, hundreds) = (added % 100 / 10, added / 100);
    assert_eq!(added, 10 * tens + 100 * hundreds);
    assert!((0..=unknown(&first)).contains(&tens), "{tens}, {first:?}");
    assert!((0..=told.iter().map(unknown).sum()).contains(&hundreds), "{hundreds}, {told:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_value_that_is_not_a_number_is_reported() {
    let server = server().await;
    let (client, observer) = (client(&server).await, server.observer().await.unwrap());
    let n = AtomicLong::new(&client, "n");
    observer.cmd(&["SET", "n", "many"]).await.unwrap();
    assert!(matches!(n.get().await, Err(AtomicError::NotANumber { got, .. }) if got == "many"));
    assert!(matches!(n.increment().await, Err(AtomicError::Failed(Failure::Refused { .. }))));
    assert!(matches!(n.set_if(Comparison::Less, 1, 2).await, Err(AtomicError::Failed(Failure::Refused { .. }))));
    assert!(matches!(n.update(|n| n).await, Err(AtomicError::NotANumber { .. })));
    let beyond = ["9223372036854775808", "-9223372036854775809", "9999999999999999999", "10000000000000000000"];
    for text in ["many", "+7", " 5", "5 ", "0x10", "1.0", "", "-"].into_iter().chain(beyond) {
        observer.cmd(&["SET", "n", text]).await.unwrap();
        for n in [n.clone(), n.clone().exactly_once()] {
            assert!(matches!(n.get().await, Err(AtomicError::NotANumber { got, .. }) if got == text), "{text}");
            assert!(matches!(n.update(|n| n).await, Err(AtomicError::NotANumber { .. })), "{text}");
            let refused = [
                n.get_and_set(1).await.err(),
                n.get_and_delete().await.err(),
                n.add(1).persist().await.err(),
                n.set_if(Comparison::NotEqual, 1, 2).await.err(),
                n.delete_if(Comparison::NotEqual, 1).await.err(),
            ];
            for told in refused {
                assert!(matches!(told, Some(AtomicError::Failed(Failure::Refused { .. }))), "{text}: {told:?}");
            }
            for to in [0, 1, 7, i64::MAX, i64::MIN] {
                assert!(!n.compare_and_set(to, 2).await.unwrap(), "{text} is not {to}");
            }
            assert_eq!(observer.get::<String>("n").await.unwrap().as_deref(), Some(text), "nothing is changed");
        }
    }
    // The smallest and the largest number are valid.
    for (text, value) in [("9223372036854775807", i64::MAX), ("-9223372036854775808", i64::MIN)] {
        observer.cmd(&["SET", "n", text]).await.unwrap();
        assert!(n.compare_and_set(value, value).await.unwrap());
        assert_eq!(n.get_and_set(1).await.unwrap(), value);
    }
    observer.cmd(&["DEL", "n"]).await.unwrap();
    observer.cmd(&["LPUSH", "n", "1"]).await.unwrap();
    assert!(matches!(n.get().await, Err(AtomicError::Failed(Failure::Refused { .. }))));
    assert!(matches!(n.exactly_once().increment().await, Err(AtomicError::Failed(Failure::Refused { .. }))));
    let invalid = AtomicLong::new(&client, "");
    assert!(matches!(invalid.get().await, Err(AtomicError::Failed(Failure::InvalidName(_)))));
    assert!(matches!(invalid.add(1).await, Err(AtomicError::Failed(Failure::InvalidName(_)))));
}
