//! Semaphores, latches, barriers, events, elections, and rate limiters.

use std::time::Duration;

use redgrid_barrier::{Barrier, Event, Phaser};
use redgrid_countdown_latch::CountDownLatch;
use redgrid_inspect::{HolderState, InspectError, Inspector, ObjectKind, SynchronizerState};
use redgrid_locks::Election;
use redgrid_permit_expirable_semaphore::PermitExpirableSemaphore;
use redgrid_rate_limiter::{Rate, RateLimiter};
use redgrid_semaphore::Semaphore;
use redgrid_testkit::wait_until;

use crate::support::{SOON, client, inspector, observer, send, server};

/// Reads the state of a synchronizer that exists.
async fn state(inspector: &Inspector, name: &str, kind: ObjectKind) -> SynchronizerState {
    let view = inspector.synchronizer(name, kind).await.expect("an answer");
    let view = view.unwrap_or_else(|| panic!("{name} is missing"));
    assert_eq!((view.name.as_str(), view.kind), (name, kind));
    view.state
}

#[tokio::test(flavor = "multi_thread")]
async fn semaphores_show_free_and_leased_permits() {
    let server = server().await;
    let (user, inspector) = (client(&server.url()).await, inspector(&server.url()).await);
    let leased = Semaphore::new(&user, "mail", 5);
    let held = [leased.acquire().await.expect("it is free"), leased.acquire().await.expect("it is free")];
    let found = state(&inspector, "mail", ObjectKind::PermitExpirableSemaphore).await;
    let SynchronizerState::Semaphore { free, leased, next_end: Some(next_end), queue_len: 0 } = found else {
        panic!("{found:?}")
    };
    assert_eq!((free, leased), (3, Some(2)));
    assert!(next_end < SOON, "{next_end:?}");
    for permit in held {
        permit.release().await.expect("it was held");
    }

    // A permit with an expired lease is free, although no request has returned it.
    let seats = PermitExpirableSemaphore::new(&user, "seats");
    assert!(seats.try_set_permits(2).await.expect("an answer"));
    let observer = observer(&server).await;
    send(&observer, &["SET", "seats", "1"]).await;
    send(&observer, &["ZADD", "{seats}:timeout", "1000", "0123456789abcdef"]).await;
    let found = state(&inspector, "seats", ObjectKind::PermitExpirableSemaphore).await;
    let expected = SynchronizerState::Semaphore { free: 2, leased: Some(0), next_end: None, queue_len: 0 };
    assert_eq!(found, expected);

    // A permit that Redisson granted without a lease.
    send(&observer, &["SET", "seats", "1"]).await;
    send(&observer, &["DEL", "{seats}:timeout"]).await;
    send(&observer, &["ZADD", "{seats}:timeout", "92233720368547758", "0123456789abcdef"]).await;
    let found = state(&inspector, "seats", ObjectKind::PermitExpirableSemaphore).await;
    let expected = SynchronizerState::Semaphore { free: 1, leased: Some(1), next_end: None, queue_len: 0 };
    assert_eq!(found, expected);

    send(&observer, &["SET", "fair", "-3"]).await;
    send(&observer, &["ZADD", "redgrid_semaphore_line:{fair}", "1", "a", "2", "b"]).await;
    let found = state(&inspector, "fair", ObjectKind::Semaphore).await;
    let expected = SynchronizerState::Semaphore { free: -3, leased: None, next_end: None, queue_len: 2 };
    assert_eq!(found, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn latches_barriers_events_and_elections_show_their_states() {
    let server = server().await;
    let (user, inspector) = (client(&server.url()).await, inspector(&server.url()).await);
    let latch = CountDownLatch::new(&user, "import");
    assert!(latch.try_set_count(3).await.expect("an answer"));
    latch.count_down().await.expect("an answer");
    let found = state(&inspector, "import", ObjectKind::CountDownLatch).await;
    assert!(matches!(found, SynchronizerState::Latch { count: 2, round: Some(_) }), "{found:?}");

    let waiting = tokio::spawn({
        let barrier = Barrier::new(&user, "gate", 2);
        async move { barrier.wait().await }
    });
    let gate = async || {
        let view = inspector.synchronizer("gate", ObjectKind::Barrier).await.expect("an answer");
        view.map(|view| view.state)
    };
    let expected = SynchronizerState::Barrier { round: 0, parties: 2, waiting: 1 };
    wait_until(SOON, async || gate().await.as_ref() == Some(&expected)).await;
    Barrier::new(&user, "gate", 2).wait().await.expect("it opens");
    waiting.await.expect("no panic").expect("it opens");
    assert_eq!(gate().await, Some(SynchronizerState::Barrier { round: 1, parties: 2, waiting: 0 }));

    let phaser = Phaser::new(&user, "phases");
    let _parties = [phaser.register().await.expect("a party"), phaser.register().await.expect("a party")];
    let found = state(&inspector, "phases", ObjectKind::Phaser).await;
    assert_eq!(found, SynchronizerState::Phaser { phase: 0, parties: 2, arrived: 0, has_ended: false });

    let bell = Event::new(&user, "bell");
    bell.set().await.expect("an answer");
    let found = state(&inspector, "bell", ObjectKind::Event).await;
    assert_eq!(found, SynchronizerState::Event { is_set: true, times: 1 });
    bell.reset().await.expect("an answer");
    let found = state(&inspector, "bell", ObjectKind::Event).await;
    assert_eq!(found, SynchronizerState::Event { is_set: false, times: 1 });

    let leadership = Election::new(&user, "leader").campaign().await.expect("it is elected");
    let found = state(&inspector, "leader", ObjectKind::Election).await;
    let SynchronizerState::Election { leader: Some(leader), term, lease_left: Some(_) } = found else {
        panic!("{found:?}")
    };
    assert_eq!((leader.client.as_str(), leader.state), (user.id(), HolderState::Alive));
    assert_eq!(term.map(|term| term.to_string()), Some(leadership.term().to_string()));
}

#[tokio::test(flavor = "multi_thread")]
async fn other_objects_are_no_synchronizers() {
    let server = server().await;
    let observer = observer(&server).await;
    let inspector = inspector(&server.url()).await;
    send(&observer, &["HSET", "map", "rate", "5"]).await;
    send(&observer, &["SET", "text", "a"]).await;
    for kind in ObjectKind::ALL {
        for name in ["nothing", "map", "text"] {
            let view = inspector.synchronizer(name, kind).await.expect("an answer");
            assert_eq!(view, None, "{name} as {kind}");
        }
    }
    for name in ["nothing", "map"] {
        assert_eq!(inspector.limiter(name).await.expect("an answer"), None);
    }
    assert!(matches!(inspector.limiter("text").await, Err(InspectError::Failed(_))), "a key of another type");
}

#[tokio::test(flavor = "multi_thread")]
async fn limiters_show_their_rate_and_what_is_free() {
    let server = server().await;
    let (user, inspector) = (client(&server.url()).await, inspector(&server.url()).await);
    let calls = RateLimiter::new(&user, "calls");
    let hour = Duration::from_secs(3600);
    assert!(calls.try_set_rate(Rate::overall(10, hour)).await.expect("an answer"));
    let view = inspector.limiter("calls").await.expect("an answer").expect("it exists");
    assert_eq!((view.rate, view.interval, view.free, view.next_free_in), (10, hour, Some(10), None));
    assert!(calls.try_acquire_many(4).await.expect("an answer").is_some());
    let view = inspector.limiter("calls").await.expect("an answer").expect("it exists");
    assert_eq!((view.free, view.log_len, view.is_per_client), (Some(6), Some(1), false));
    assert!(view.next_free_in.is_some_and(|next| next <= hour && next > hour / 2), "{view:?}");

    // Permits are free after their time is over, although no request has removed them.
    let short = RateLimiter::new(&user, "short");
    assert!(short.try_set_rate(Rate::overall(3, Duration::from_millis(1))).await.expect("an answer"));
    assert!(short.try_acquire_many(3).await.expect("an answer").is_some());
    let free = async || inspector.limiter("short").await.expect("an answer").expect("it exists").free;
    wait_until(SOON, async || free().await == Some(3)).await;
}
