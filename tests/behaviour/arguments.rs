//! Arguments that are rejected without a request, and their errors.

use std::time::Duration;

use redgrid_core::Failure;
use redgrid_locks::{AcquireError, ExtendError, Holder, Lock};
use redgrid_tests::{SOON, client, server};

#[tokio::test(flavor = "multi_thread")]
async fn an_invalid_name_is_reported_with_its_rule_by_the_first_call() {
    let server = server().await;
    let client = client(&server).await;
    for (name, rule) in [("", "at least one character"), ("a{b", "needs its `}`"), ("{}x", "at least one character")] {
        let error = Lock::new(&client, name).acquire().await.unwrap_err();
        assert!(
            matches!(error, AcquireError::Failed(Failure::InvalidName(_))) && error.to_string().contains(rule),
            "{name}: {error}"
        );
        assert!(Lock::new(&client, name).try_acquire().await.is_err());
        let looked = Lock::new(&client, name).is_locked().await.unwrap_err();
        assert!(looked.to_string().contains(rule), "{looked}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_invalid_option_is_reported_with_the_allowed_values() {
    let server = server().await;
    let observer = server.observer().await.unwrap();
    let client = client(&server).await;
    let lock = Lock::new(&client, "a");
    let tiny = Duration::from_millis(99);
    let huge = Duration::from_secs(31 * 24 * 3600);
    let refused = [
        ("lease", lock.acquire().lease(tiny).await),
        ("lease", lock.acquire().lease(huge).await),
        ("auto_renew", lock.acquire().auto_renew(tiny).await),
        ("hold_at_least", lock.acquire().hold_at_least(huge).await),
        ("hold_at_most", lock.acquire().hold_at_most(tiny).await),
    ];
    for (named, outcome) in refused {
        let error = outcome.unwrap_err();
        assert!(
            matches!(error, AcquireError::Failed(Failure::InvalidArgument { option, .. }) if option == named),
            "{named}: {error:?}"
        );
    }
    assert!(!observer.exists("a").await.unwrap());
    let guard = lock.acquire().await.unwrap();
    let error = guard.extend(tiny).await.unwrap_err();
    assert!(matches!(error, ExtendError::InvalidArgument { got, .. } if got == tiny), "{error:?}");
    guard.release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_scope_reenters_and_reports_a_self_deadlock() {
    let server = server().await;
    let client = client(&server).await;
    let lock = Lock::new(&client, "a");
    Holder::scope(async {
        let outer = lock.acquire().await.unwrap();
        let inner = lock.acquire().await.unwrap();
        assert_eq!(outer.token(), inner.token());
        // Another holder would wait without a timeout for a lock that its own process holds. This
        // wait could never end.
        let other = Holder::new();
        let stuck = lock.acquire().holder(&other).await;
        assert!(matches!(stuck, Err(AcquireError::WouldDeadlock { .. })), "{stuck:?}");
        // With a timeout this is an ordinary wait.
        let waited = lock.acquire().holder(&other).timeout(Duration::from_secs(1)).await;
        assert!(matches!(waited, Err(AcquireError::TimedOut { .. })), "{waited:?}");
        assert!(lock.try_acquire().holder(&other).await.unwrap().is_none());
    })
    .await;
    lock.acquire().timeout(SOON).await.unwrap().release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_holder_that_lost_its_lock_can_not_enter_again() {
    let server = server().await;
    let (client, thief) = (client(&server).await, redgrid_tests::client(&server).await);
    let lock = Lock::new(&client, "a");
    let me = Holder::new();
    let outer = lock.acquire().holder(&me).await.unwrap();
    let stolen = Lock::new(&thief, "a").steal().await.unwrap();
    tokio::time::timeout(SOON, outer.lost()).await.unwrap();
    let again = lock.acquire().holder(&me).await;
    assert!(matches!(again, Err(AcquireError::Lost { .. })), "{again:?}");
    assert!(outer.reenter().is_err());
    drop(outer);
    // After its last guard is dropped, the holder may acquire the lock again.
    assert!(lock.try_acquire().holder(&me).await.unwrap().is_none());
    stolen.release().await.unwrap();
    lock.acquire().holder(&me).timeout(SOON).await.unwrap().release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wait_of_zero_is_one_attempt() {
    let server = server().await;
    let (one, two) = (client(&server).await, client(&server).await);
    let free = Lock::new(&one, "a").acquire().timeout(Duration::ZERO).await.unwrap();
    let taken = Lock::new(&two, "a").acquire().timeout(Duration::ZERO).await;
    assert!(matches!(taken, Err(AcquireError::TimedOut { .. })), "{taken:?}");
    free.release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_holder_without_guards_may_acquire_again_while_it_is_watched() {
    let server = server().await;
    let (client, thief) = (client(&server).await, redgrid_tests::client(&server).await);
    let me = Holder::new();
    let guard = Lock::new(&client, "a").acquire().holder(&me).await.unwrap();
    let watch = guard.watch();
    let stolen = Lock::new(&thief, "a").steal().await.unwrap();
    tokio::time::timeout(SOON, watch.lost()).await.unwrap();
    drop(guard);
    stolen.release().await.unwrap();
    Lock::new(&client, "a").acquire().holder(&me).timeout(SOON).await.unwrap().release().await.unwrap();
}
