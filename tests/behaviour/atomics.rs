//! Atomic numbers.

use std::time::Duration;

use futures_util::future::join_all;
use redgrid_atomic_long::{AtomicDouble, AtomicError, AtomicLong, Comparison, Lifetime, Value};
use redgrid_core::Failure;
use redgrid_testkit::{Action, Fault, Proxy, wait_until};
use redgrid_tests::{SOON, client, client_with, server};

/// The smallest number that a double cannot distinguish from its neighbour.
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
    // A short timeout finds a lost reply quickly, and many retries follow.
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
async fn doubles_are_read_and_changed() {
    let server = server().await;
    let client = client(&server).await;
    for once in [false, true] {
        let n = AtomicDouble::new(&client, "n");
        let n = if once { n.exactly_once() } else { n };
        assert_eq!((n.get().await.unwrap(), n.delete().await.unwrap()), (0.0, false));
        assert_eq!((n.increment().await.unwrap(), n.decrement().await.unwrap()), (1.0, 0.0));
        assert_eq!((n.add(0.1).await.unwrap(), n.add(0.2).await.unwrap()), (0.1, 0.3));
        // Subtracting from the result would give 0.30000000000000004.
        assert_eq!((n.get_and_add(0.4).await.unwrap(), n.get().await.unwrap()), (0.3, 0.7));
        assert_eq!((n.get_and_increment().await.unwrap(), n.get_and_decrement().await.unwrap()), (0.7, 1.7));
        assert_eq!((n.get_and_set(-1e300).await.unwrap(), n.get().await.unwrap()), (0.7, -1e300));
        assert!(!n.compare_and_set(-1.1e300, 9.5).await.unwrap() && n.compare_and_set(-1e300, 9.5).await.unwrap());
        assert_eq!(n.update(|n| n / 2.0).await.unwrap(), 4.75);
        for (how, to, holds) in [
            (Comparison::Less, 4.75, false),
            (Comparison::LessOrEqual, 4.75, true),
            (Comparison::Greater, 4.5, true),
            (Comparison::GreaterOrEqual, 5.0, false),
            (Comparison::Equal, 4.75, true),
            (Comparison::NotEqual, 4.75, false),
        ] {
            assert_eq!(n.set_if(how, to, 4.75).await.unwrap(), holds, "{how:?}");
        }
        assert!(!n.delete_if(Comparison::Less, 4.75).await.unwrap());
        assert!(n.delete_if(Comparison::Less, 4.8).await.unwrap());
        assert!(!n.delete_if(Comparison::Equal, 0.0).await.unwrap(), "the number is absent");
        assert!(n.compare_and_set(-0.0, 2.0).await.unwrap(), "an absent number counts as 0");
        assert_eq!((n.get_and_delete().await.unwrap(), n.get_and_delete().await.unwrap()), (2.0, 0.0));
        n.set(1.5).await.unwrap();
        assert!(n.delete().await.unwrap());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_double_is_kept_as_it_is_and_never_goes_beyond_all_doubles() {
    let server = server().await;
    let (client, observer) = (client(&server).await, server.observer().await.unwrap());
    let text = async || observer.get::<String>("n").await.unwrap();
    for once in [false, true] {
        let n = AtomicDouble::new(&client, "n");
        let n = if once { n.exactly_once() } else { n };
        for value in [0.1, 1e-20, 5e-324, f64::MIN_POSITIVE, f64::MAX, f64::MIN, 1e22, -0.3] {
            n.set(value).await.unwrap();
            assert_eq!(n.get().await.unwrap(), value);
            assert!(n.compare_and_set(value, value).await.unwrap(), "{value}");
            assert_eq!(n.get_and_set(value).await.unwrap(), value);
            assert_eq!(n.update(|n| n).await.unwrap(), value);
        }
        for (value, by) in [(f64::MAX, f64::MAX), (f64::MIN, f64::MIN), (f64::MAX, 1e300)] {
            n.set(value).await.unwrap();
            let before = text().await;
            for told in [n.add(by).await, n.get_and_add(by).await, n.add(by).persist().await] {
                assert!(matches!(told, Err(AtomicError::Overflow { by: Value::Double(_), .. })), "{told:?}");
            }
            assert_eq!(text().await, before, "nothing is changed");
            let bounded = n.add(by).at_least(f64::MIN).at_most(f64::MAX).saturating().await.unwrap();
            assert_eq!(bounded, value);
        }
        n.delete().await.unwrap();
        for bad in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            let refused = [
                n.set(bad).await.err(),
                n.add(bad).await.err(),
                n.get_and_add(bad).await.err(),
                n.add(bad).persist().await.err(),
                n.add(1.0).at_most(bad).await.err(),
                n.add(1.0).at_least(bad).await.err(),
                n.get_and_set(bad).await.err(),
                n.compare_and_set(bad, 1.0).await.err(),
                n.compare_and_set(1.0, bad).await.err(),
                n.set_if(Comparison::Less, bad, 1.0).await.err(),
                n.set_if(Comparison::Less, 1.0, bad).await.err(),
                n.delete_if(Comparison::NotEqual, bad).await.err(),
                n.update(|_| bad).await.err(),
            ];
            for told in refused {
                assert!(matches!(told, Some(AtomicError::Failed(Failure::InvalidArgument { .. }))), "{told:?}");
            }
        }
        assert_eq!(text().await, None);
        assert!(matches!(
            n.add(1.0).at_least(3.0).at_most(2.0).await,
            Err(AtomicError::Failed(Failure::InvalidArgument { .. }))
        ));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn bounds_of_doubles_hold_and_lifetimes_are_as_requested() {
    let server = server().await;
    let (client, observer) = (client(&server).await, server.observer().await.unwrap());
    let lives = async || observer.query::<i64>(&["PTTL", "n"]).await.unwrap();
    for once in [false, true] {
        let n = AtomicDouble::new(&client, "n");
        let n = if once { n.exactly_once() } else { n };
        assert_eq!(n.add(0.4).at_most(0.5).expires_in(SOON).await.unwrap(), 0.4);
        assert!(lives().await > 0);
        let told = n.add(0.2).at_most(0.5).await.unwrap_err();
        assert!(matches!(told, AtomicError::OutOfBounds { value: Value::Double(0.4), .. }), "{told:?}");
        assert_eq!(n.add(0.2).at_most(0.5).saturating().await.unwrap(), 0.5);
        assert_eq!(n.add(-9.0).at_least(-0.25).saturating().await.unwrap(), -0.25);
        assert_eq!(n.update(|n| n + 1.0).await.unwrap(), 0.75);
        assert!(lives().await > 0, "an update keeps it");
        n.add(1.0).persist().await.unwrap();
        assert_eq!(lives().await, -1);
        n.delete().await.unwrap();
        assert!(matches!(n.add(1.0).at_most(0.0).await, Err(AtomicError::OutOfBounds { .. })));
        assert_eq!(lives().await, -2, "an absent number stays absent");
        for lifetime in [Duration::ZERO, Duration::from_micros(999), Duration::from_secs(3650 * 24 * 3600 + 1)] {
            for add in [n.add(1.0).expires_in(lifetime), n.add(1.0).expires_in_if_none(lifetime)] {
                assert!(matches!(add.await, Err(AtomicError::Failed(Failure::InvalidArgument { .. }))));
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn doubles_that_others_wrote_are_read() {
    let server = server().await;
    let (client, observer) = (client(&server).await, server.observer().await.unwrap());
    let n = AtomicDouble::new(&client, "n");
    for (text, value) in [
        ("5.0", 5.0),
        ("1.0E10", 1e10),
        ("-4.9E-324", -5e-324),
        ("7", 7.0),
        ("3.14159265358979323846", std::f64::consts::PI),
    ] {
        observer.cmd(&["SET", "n", text]).await.unwrap();
        assert_eq!(n.get().await.unwrap(), value);
        assert!(n.compare_and_set(value, value).await.unwrap(), "{text}");
    }
    // Numbers for the server or for Lua, but not doubles of this format.
    for text in ["inf", "nan", "1e400", "0x10", " 5", "5 ", "1e", ""] {
        observer.cmd(&["SET", "n", text]).await.unwrap();
        assert!(matches!(n.get().await, Err(AtomicError::NotANumber { got, .. }) if got == text));
        assert!(matches!(n.update(|n| n).await, Err(AtomicError::NotANumber { .. })));
        let refused = [
            n.add(1.0).await.err(),
            n.add(1.0).at_most(5.0).saturating().await.err(),
            n.get_and_set(1.0).await.err(),
            n.get_and_delete().await.err(),
            n.set_if(Comparison::NotEqual, 1.0, 1.0).await.err(),
            n.delete_if(Comparison::GreaterOrEqual, 0.0).await.err(),
        ];
        for told in refused {
            assert!(matches!(told, Some(AtomicError::Failed(Failure::Refused { .. }))), "{text}: {told:?}");
        }
        for to in [0.0, 5.0, 16.0] {
            assert!(!n.compare_and_set(to, 1.0).await.unwrap(), "{text} is not {to}");
        }
        assert_eq!(observer.get::<String>("n").await.unwrap().as_deref(), Some(text), "nothing is changed");
    }
    assert!(n.delete().await.unwrap());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lifetime_is_given_to_a_double_without_changing_it() {
    let server = server().await;
    let (client, observer) = (client(&server).await, server.observer().await.unwrap());
    for once in [false, true] {
        let n = AtomicDouble::new(&client, "n");
        let n = if once { n.exactly_once() } else { n };
        for (text, value) in [
            ("0.0012345678901234567", 0.0012345678901234567),
            ("1e-20", 1e-20),
            ("-4.9E-324", -5e-324),
            ("5.0", 5.0),
            ("3.14159265358979323846", std::f64::consts::PI),
        ] {
            observer.cmd(&["SET", "n", text]).await.unwrap();
            let given = n.add(0.0).expires_in(SOON).await.unwrap();
            assert!(observer.time_to_live("n").await.unwrap().is_some());
            let kept = [given, n.add(-0.0).persist().await.unwrap(), n.add(0.0).await.unwrap()];
            assert_eq!(kept, [value; 3]);
            assert_eq!(n.get_and_add(0.0).await.unwrap(), value);
            assert_eq!(observer.get::<String>("n").await.unwrap().as_deref(), Some(text));
            assert_eq!(observer.time_to_live("n").await.unwrap(), None);
        }
        n.delete().await.unwrap();
        assert_eq!(n.add(0.0).expires_in(SOON).await.unwrap(), 0.0);
        assert!(observer.time_to_live("n").await.unwrap().is_some(), "an absent number is created");
    }
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
    // The extremes are numbers.
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
