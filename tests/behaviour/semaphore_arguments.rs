//! Arguments of semaphores: zero permits, and values that are rejected.

use std::time::Duration;

use redgrid_core::Failure;
use redgrid_semaphore::{AcquireError, Semaphore};
use redgrid_testkit::wait_until;
use redgrid_tests::either::EitherSemaphore;
use redgrid_tests::{SOON, client, server};

use super::semaphores::{MS, NAME, left};

#[tokio::test(flavor = "multi_thread")]
async fn zero_permits_are_nothing_to_do() {
    let server = server().await;
    let (observer, client) = (server.observer().await.unwrap(), client(&server).await);
    let unset = Semaphore::plain(&client, "unset");
    unset.release(0).await.unwrap();
    assert!(!unset.object().exists().await.unwrap(), "no number was set");
    let leased = Semaphore::new(&client, NAME, 3);
    let plain = Semaphore::plain(&client, NAME);
    for mail in
        [EitherSemaphore::Leased(leased.clone()), EitherSemaphore::Plain(plain.clone()), EitherSemaphore::Plain(unset)]
    {
        let mut none = mail.acquire_many(0).await.unwrap();
        assert_eq!((none.num_permits(), none.is_held(), none.ids().count()), (0, true, 0));
        assert_eq!(mail.try_acquire_many(0).await.unwrap().unwrap().num_permits(), 0);
        assert!(observer.keys("*").await.unwrap().is_empty(), "no request is sent");
        none.merge(mail.acquire_many(0).await.unwrap()).unwrap();
        none.release().await.unwrap();
    }
    let mut all = leased.acquire_many(0).await.unwrap();
    for held in 1..=3 {
        all.merge(leased.acquire().await.unwrap()).unwrap();
        assert_eq!((all.num_permits(), left(&observer).await), (held, 3 - i64::try_from(held).unwrap()));
    }
    assert!(leased.try_acquire_many(0).await.unwrap().is_some(), "even if none are left");
    assert!(Semaphore::plain(&client, "other").acquire_many(0).await.unwrap().merge(all).is_err());
    plain.release(0).await.unwrap();
    leased.close();
    assert!(matches!(leased.acquire_many(0).await, Err(AcquireError::Closed { .. })));
    client.shutdown(SOON).await.unwrap();
    let refused = Semaphore::new(&client, NAME, 3).acquire_many(0).await;
    assert!(matches!(refused, Err(AcquireError::Failed(Failure::ShuttingDown { .. }))), "{refused:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_arguments_are_reported_by_name() {
    let server = server().await;
    let (observer, client) = (server.observer().await.unwrap(), client(&server).await);
    let mail = Semaphore::new(&client, NAME, 3);
    let plain = Semaphore::plain(&client, NAME);
    let refusals = [
        (mail.acquire_many(4).await.err(), "permits"),
        (plain.acquire_many(u64::MAX).await.err(), "permits"),
        (Semaphore::new(&client, NAME, 0).acquire().await.err(), "number of permits"),
        (Semaphore::new(&client, NAME, 1 << 31).acquire().await.err(), "number of permits"),
        (Semaphore::new(&client, NAME, 5000).acquire_many(1001).await.err(), "permits"),
        (mail.acquire().lease(99 * MS).await.err(), "lease"),
        (mail.acquire().auto_renew(MS).await.err(), "auto_renew"),
        (plain.acquire().lease(SOON).await.err(), "lease"),
    ];
    for (refused, option) in refusals {
        let told = matches!(&refused, Some(AcquireError::Failed(Failure::InvalidArgument { option: of, .. })) if *of == option);
        assert!(told, "{option}: {refused:?}");
    }
    let refused = Semaphore::new(&client, "a{b", 3).acquire().await.err();
    assert!(matches!(refused, Some(AcquireError::Failed(Failure::InvalidName(_)))), "{refused:?}");
    let refused = Semaphore::plain(&client, "").available_permits().await.err();
    assert!(matches!(refused, Some(Failure::InvalidName(_))), "{refused:?}");
    let refusals = [
        (Semaphore::new(&client, NAME, 1 << 31).resize().await.err(), "permits"),
        (plain.set_permits(1 << 31).await.err(), "permits"),
        (plain.try_set_permits(3).expires_in(Duration::ZERO).await.err(), "lifetime"),
        (plain.add_permits(i64::MIN).await.err(), "permits"),
        (plain.release(u32::MAX).await.err(), "permits"),
    ];
    for (refused, option) in refusals {
        let told = matches!(&refused, Some(Failure::InvalidArgument { option: of, .. }) if *of == option);
        assert!(told, "{option}: {refused:?}");
    }
    for content in [&["LPUSH", NAME, "x"][..], &["SET", NAME, "many"]] {
        observer.query::<String>(content).await.unwrap();
        let refused = mail.acquire().await.err();
        assert!(matches!(refused, Some(AcquireError::Failed(Failure::Refused { .. }))), "{refused:?}");
        let refused = mail.available_permits().await.err();
        assert!(matches!(refused, Some(Failure::Refused { .. })), "{refused:?}");
        observer.query::<i64>(&["DEL", NAME]).await.unwrap();
    }
    wait_until(SOON, async || client.stats().names == 0).await;
}
