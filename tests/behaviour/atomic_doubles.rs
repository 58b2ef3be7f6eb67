//! Atomic doubles.

use std::time::Duration;

use redgrid_atomic_long::{AtomicDouble, AtomicError, Comparison, Value};
use redgrid_core::Failure;
use redgrid_tests::{SOON, client, server};

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
        // The old value is the stored one. Subtracting from the new value would give
        // 0.30000000000000004.
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
    // Texts that the server or Lua accepts as numbers, but that are not doubles in this format.
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
