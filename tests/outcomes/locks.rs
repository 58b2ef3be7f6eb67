//! Errors caused by the caller of a lock: the key has another type, or it waits for its own hold.

use std::time::Duration;

use redgrid_locks::{AcquireError, FairLock, Lock, RwLock};
use redgrid_tests::{client, server};

use crate::calls::kind;

#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_is_no_lock_is_named_as_such() {
    let server = server().await;
    let client = client(&server).await;
    let observer = server.observer().await.unwrap();
    observer.cmd(&["SET", "stock", "1"]).await.unwrap();
    let errors = [
        Lock::new(&client, "stock").acquire().await.unwrap_err().to_string(),
        Lock::new(&client, "stock").try_acquire().await.unwrap_err().to_string(),
        FairLock::new(&client, "stock").acquire().await.unwrap_err().to_string(),
        RwLock::new(&client, "stock").read().await.unwrap_err().to_string(),
        RwLock::new(&client, "stock").write().await.unwrap_err().to_string(),
    ];
    for text in errors {
        let clear = text.contains("`stock`") && text.contains("the key holds a value of another type");
        let foreign = ["user_script", "@", "f_", "on @"].iter().any(|word| text.contains(word));
        assert!(clear && !foreign, "{text}");
    }
}

/// A wait for a hold of the same client reports that the hold is in this client, since no other
/// process is in the way.
#[tokio::test(flavor = "multi_thread")]
async fn a_wait_for_a_hold_of_the_same_client_names_this_client() {
    let server = server().await;
    let client = client(&server).await;
    let lock = Lock::new(&client, "lock");
    let held = lock.acquire().await.unwrap();
    let error = lock.acquire().timeout(Duration::from_secs(1)).await.unwrap_err();
    assert_eq!(kind(&error), "TimedOut");
    let text = error.to_string();
    assert!(text.contains("this client"), "{text}");
    // A hold of another process is not reported as a hold of this client.
    let elsewhere = redgrid_tests::client(&server).await;
    let error = Lock::new(&elsewhere, "lock").acquire().timeout(Duration::from_secs(1)).await.unwrap_err();
    assert!(matches!(error, AcquireError::TimedOut { .. }) && !error.to_string().contains("this client"), "{error}");
    held.release().await.unwrap();
}

/// A denied release is sent again. The user may lose the permission for a moment, as during a
/// change of permissions. The lock is free as soon as the permission is back.
#[tokio::test(flavor = "multi_thread")]
async fn a_release_that_was_denied_is_sent_again() {
    let server = server().await;
    let client = client(&server).await;
    let observer = server.observer().await.unwrap();
    let held = Lock::new(&client, "lock").acquire().lease(Duration::from_secs(600)).await.unwrap();
    server.deny(&["hdel"]).await.unwrap();
    let error = held.release().await.unwrap_err();
    assert_eq!(kind(&error), "Refused");
    assert!(observer.exists("lock").await.unwrap());
    server.allow(&["hdel"]).await.unwrap();
    redgrid_testkit::wait_until(redgrid_tests::SOON, async || !observer.exists("lock").await.unwrap()).await;
}

/// A denied and repeated release still retains the name for `at_least`.
#[tokio::test(flavor = "multi_thread")]
async fn a_denied_and_retried_release_retains_the_name_as_requested() {
    const LONG: Duration = Duration::from_secs(600);
    let server = server().await;
    let client = client(&server).await;
    let observer = server.observer().await.unwrap();
    let held = Lock::new(&client, "lock").acquire().lease(LONG).hold_at_least(LONG / 2).await.unwrap();
    server.deny(&["pexpire"]).await.unwrap();
    assert_eq!(kind(&held.release().await.unwrap_err()), "Refused");
    server.allow(&["pexpire"]).await.unwrap();
    redgrid_testkit::wait_until(redgrid_tests::SOON, async || {
        let holders = observer.query::<Vec<String>>(&["HKEYS", "lock"]).await.unwrap();
        assert!(!holders.is_empty(), "the name is free");
        holders.iter().all(|holder| holder.ends_with(":kept"))
    })
    .await;
}
