//! Countdown latches: counting, waiting, lifetimes, and failures.

use std::time::{Duration, Instant};

use redgrid_core::{Code, Failure};
use redgrid_countdown_latch::{CountDownLatch, LatchError, WaitError};
use redgrid_testkit::{Action, Direction, Fault, Monitor, Proxy, wait_until};
use redgrid_tests::cancel::at_most;
use redgrid_tests::latch::{scripts, waiter};
use redgrid_tests::{SOON, client, client_with, server};

pub(super) const MS: Duration = Duration::from_millis(1);

/// A poll interval so long that a test fails if only a poll could wake its waiters.
pub(super) const NO_POLL: Duration = Duration::from_secs(600);

/// A time limit far longer than a message takes on a busy machine.
pub(super) const AT_ONCE: Duration = Duration::from_secs(60);

pub(super) const THEIRS: &str = "redisson_countdownlatch__channel__{a}";
pub(super) const OURS: &str = "redgrid_latch__channel:{a}";

#[tokio::test(flavor = "multi_thread")]
async fn a_latch_counts_down_opens_and_is_set_again() {
    let server = server().await;
    let (client, observer) = (client(&server).await, server.observer().await.unwrap());
    let latch = CountDownLatch::new(&client, "a");
    assert_eq!(latch.count().await.unwrap(), 0);
    assert_eq!(latch.count_down().await.unwrap(), 0);
    latch.wait().await.unwrap();
    assert!(!latch.delete().await.unwrap());
    for _ in 0..2 {
        assert!(latch.try_set_count(3).await.unwrap());
        assert!(!latch.try_set_count(9).await.unwrap(), "a count is set");
        assert_eq!(latch.count().await.unwrap(), 3);
        assert_eq!(observer.get::<String>("a").await.unwrap().unwrap(), "3");
        assert_eq!(latch.count_down().await.unwrap(), 2);
        let timed_out = latch.wait().timeout(1000 * MS).await;
        assert!(matches!(&timed_out, Err(WaitError::TimedOut { waited, .. }) if *waited >= 1000 * MS), "{timed_out:?}");
        let looked = latch.wait().timeout(Duration::ZERO).await;
        assert!(matches!(looked, Err(WaitError::TimedOut { .. })), "{looked:?}");
        assert_eq!(latch.count_down_by(5).await.unwrap(), 0, "more than is left");
        latch.wait().await.unwrap();
        latch.wait().timeout(Duration::ZERO).await.unwrap();
    }
    assert!(latch.try_set_count(i64::MAX as u64).await.unwrap());
    assert_eq!(latch.count_down().await.unwrap(), i64::MAX as u64 - 1, "to the unit");
    assert!(latch.delete().await.unwrap());
    assert_eq!(latch.count_down_by(i64::MAX as u64).await.unwrap(), 0);
    // Two keys are kept for a while: the record of the client's last change, and the number of the
    // ended round.
    let mut left = observer.keys("*").await.unwrap();
    left.sort();
    let round = "redgrid_latch:{a}".to_owned();
    assert_eq!(left, [round, format!("redgrid_once:{{a}}:{}", client.id())]);
    for key in left {
        assert!(
            observer.time_to_live(&key).await.unwrap().is_some_and(|left| left <= Duration::from_secs(60)),
            "{key}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_calls_are_reported_by_the_first_call_without_a_request() {
    let server = server().await;
    let client = client(&server).await;
    let mut monitor = Monitor::start(&server).await.unwrap().without("PING");
    let latch = CountDownLatch::new(&client, "a");
    for n in [0, i64::MAX as u64 + 1, u64::MAX] {
        let refused = latch.try_set_count(n).await;
        assert!(matches!(refused, Err(LatchError::InvalidCount { got, .. }) if got == n), "{refused:?}");
        let refused = latch.count_down_by(n).await;
        assert!(matches!(refused, Err(LatchError::InvalidCount { got, .. }) if got == n), "{refused:?}");
    }
    for lifetime in [Duration::ZERO, Duration::from_micros(999), Duration::MAX] {
        let refused = latch.try_set_count(1).expires_in(lifetime).await;
        assert!(matches!(refused, Err(LatchError::InvalidLifetime { got, .. }) if got == lifetime), "{refused:?}");
    }
    let invalid = CountDownLatch::new(&client, "a{b");
    assert!(matches!(invalid.try_set_count(1).await, Err(LatchError::Failed(Failure::InvalidName(_)))));
    assert!(matches!(invalid.count_down().await, Err(LatchError::Failed(Failure::InvalidName(_)))));
    assert!(matches!(invalid.count().await, Err(LatchError::Failed(Failure::InvalidName(_)))));
    assert!(matches!(invalid.delete().await, Err(LatchError::Failed(Failure::InvalidName(_)))));
    assert!(matches!(invalid.wait().await, Err(WaitError::Failed(Failure::InvalidName(_)))));
    let asked =
        monitor.take().await.unwrap().into_iter().filter(|seen| matches!(&*seen.name, "EVAL" | "EVALSHA" | "GET"));
    assert_eq!(asked.collect::<Vec<_>>(), []);
}

#[tokio::test(flavor = "multi_thread")]
async fn server_errors_are_reported_and_change_nothing() {
    let server = server().await;
    let (client, observer) = (client(&server).await, server.observer().await.unwrap());
    let latch = CountDownLatch::new(&client, "a");
    let is_refused = |error: Option<LatchError>| matches!(error, Some(LatchError::Failed(Failure::Refused { .. })));
    observer.cmd(&["RPUSH", "a", "x"]).await.unwrap();
    assert!(is_refused(latch.count_down().await.err()));
    assert!(is_refused(latch.count().await.err()));
    let refused = latch.wait().await;
    let Err(WaitError::Failed(Failure::Refused { source, .. })) = &refused else { panic!("{refused:?}") };
    assert_eq!(source.code(), Some(Code::WrongType));
    observer.cmd(&["SET", "a", "x"]).await.unwrap();
    assert!(is_refused(latch.count_down().await.err()));
    let refused = latch.wait().await;
    assert!(matches!(refused, Err(WaitError::Failed(Failure::Refused { .. }))), "{refused:?}");
    assert!(is_refused(latch.count().await.err()), "not a count");
    assert_eq!(observer.get::<String>("a").await.unwrap().unwrap(), "x");
    // The key has another type: setting a count is rejected, but the key can be deleted.
    assert!(!latch.try_set_count(1).await.unwrap());
    assert!(latch.delete().await.unwrap());
    assert!(latch.try_set_count(1).await.unwrap());
}

#[tokio::test(flavor = "multi_thread")]
async fn changes_with_lost_replies_are_executed_once_and_answered() {
    let server = server().await;
    let proxy = Proxy::to(&server).await.unwrap();
    let observer = server.observer().await.unwrap();
    let client =
        client_with(&server.url_via(proxy.addr()), |config| config.response_timeout(200 * MS).retries(20)).await;
    let latch = CountDownLatch::new(&client, "a");
    // The server has cached the scripts after this.
    latch.try_set_count(1).await.unwrap();
    latch.delete().await.unwrap();
    latch.count_down().await.unwrap();
    let [set, count_down, delete, _] = scripts();
    proxy.next(2, set, Action::SwallowReply);
    assert!(latch.try_set_count(10).await.unwrap(), "set by its own first copy");
    proxy.next(1, &count_down, Action::SwallowReply);
    assert_eq!(latch.count_down().await.unwrap(), 9);
    proxy.next(2, &count_down, Action::SwallowReply);
    assert_eq!(latch.count_down_by(4).await.unwrap(), 5);
    assert_eq!(observer.get::<i64>("a").await.unwrap(), Some(5));
    proxy.next(1, &count_down, Action::CutAfterForward);
    assert_eq!(latch.count_down_by(5).await.unwrap(), 0);
    assert!(latch.try_set_count(2).await.unwrap());
    proxy.next(1, delete, Action::SwallowReply);
    assert!(latch.delete().await.unwrap());
    assert_eq!(proxy.counts().swallowed, 6);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_late_copy_of_a_count_down_does_not_count_in_the_next_round() {
    let server = server().await;
    let proxy = Proxy::to(&server).await.unwrap();
    let client = client_with(&server.url_via(proxy.addr()), |config| config.response_timeout(300 * MS)).await;
    let latch = CountDownLatch::new(&client, "a");
    latch.count_down().await.unwrap();
    latch.try_set_count(1).await.unwrap();
    let [_, count_down, ..] = scripts();
    proxy.next(1, count_down, Action::Hold);
    assert_eq!(latch.count_down().await.unwrap(), 0, "by its second copy");
    assert!(latch.try_set_count(1).await.unwrap());
    assert_eq!(proxy.release_held().await, 1);
    assert_eq!(latch.count().await.unwrap(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_latch_and_its_companions_end_together() {
    let server = server().await;
    let (client, observer) = (client(&server).await, server.observer().await.unwrap());
    let latch = CountDownLatch::new(&client, "a");
    let hour = Duration::from_secs(3600);
    latch.try_set_count(2).expires_in(hour).await.unwrap();
    for key in ["a", "redgrid_latch:{a}"] {
        let left = observer.time_to_live(key).await.unwrap().unwrap();
        assert!(left > hour - AT_ONCE && left <= hour, "{key}: {left:?}");
    }
    assert_eq!(latch.count_down().await.unwrap(), 1);
    assert!(observer.time_to_live("a").await.unwrap().is_some(), "a count-down leaves the lifetime");
    let is_kept_for_a_minute = async || {
        let number = observer.get::<i64>("redgrid_latch:{a}").await.unwrap();
        let left = observer.time_to_live("redgrid_latch:{a}").await.unwrap();
        number.is_some_and(|number| number < 0) && left.is_some_and(|left| left <= Duration::from_secs(60))
    };
    latch.delete().await.unwrap();
    assert!(is_kept_for_a_minute().await);
    // For a latch without a lifetime, the round's number is kept for a day, and longer while
    // waiters exist.
    latch.try_set_count(1).await.unwrap();
    assert_eq!(observer.time_to_live("a").await.unwrap(), None);
    let left = observer.time_to_live("redgrid_latch:{a}").await.unwrap().unwrap();
    assert!(left > 23 * hour && left <= 24 * hour, "{left:?}");
    observer.cmd(&["PEXPIRE", "redgrid_latch:{a}", "40000000"]).await.unwrap();
    let waiting = waiter(&client, &latch).await;
    assert!(observer.time_to_live("redgrid_latch:{a}").await.unwrap().unwrap() > 23 * hour);
    latch.count_down().await.unwrap();
    waiting.await.unwrap().unwrap();
    assert!(is_kept_for_a_minute().await);
    // Redisson keeps the number when it opens the latch. A poll marks the round as over.
    latch.try_set_count(1).await.unwrap();
    observer.cmd(&["DEL", "a"]).await.unwrap();
    assert!(!is_kept_for_a_minute().await);
    latch.wait().await.unwrap();
    assert!(is_kept_for_a_minute().await);
}

#[tokio::test(flavor = "multi_thread")]
async fn waiters_complete_when_the_latch_expires_or_is_deleted() {
    let server = server().await;
    let observer = server.observer().await.unwrap();
    let waiting = client(&server).await;
    let latch = CountDownLatch::new(&waiting, "a");
    // The waiter completes when the lifetime ends, before the next poll.
    let silent = client_with(&server.url(), |config| config.poll_interval(NO_POLL)).await;
    latch.try_set_count(1).expires_in(700 * MS).await.unwrap();
    let began = Instant::now();
    waiter(&silent, &CountDownLatch::new(&silent, "a")).await.await.unwrap().unwrap();
    assert!(began.elapsed() < AT_ONCE, "{:?}", began.elapsed());
    // Another program deletes the latch, without a message.
    latch.try_set_count(1).await.unwrap();
    let task = waiter(&waiting, &latch).await;
    observer.cmd(&["DEL", "a"]).await.unwrap();
    let deleted = Instant::now();
    task.await.unwrap().unwrap();
    assert!(deleted.elapsed() < AT_ONCE, "{:?}", deleted.elapsed());
    // redgrid deletes the latch, and all waiters are notified.
    latch.try_set_count(1).await.unwrap();
    let task = waiter(&silent, &CountDownLatch::new(&silent, "a")).await;
    wait_until(SOON, async || observer.pubsub_channels("*latch*").await.unwrap().len() == 2).await;
    let deleted = Instant::now();
    latch.delete().await.unwrap();
    task.await.unwrap().unwrap();
    assert!(deleted.elapsed() < AT_ONCE, "{:?}", deleted.elapsed());
}

#[tokio::test(flavor = "multi_thread")]
async fn without_subscribe_a_waiter_completes_by_polling() {
    let server = server().await;
    let observer = server.observer().await.unwrap();
    let rules = ["ACL", "SETUSER", "mute", "on", ">secret", "~*", "resetchannels", "+@all"];
    observer.cmd(&rules).await.unwrap();
    let setting = client(&server).await;
    let mute = client_with(&server.url_for("mute", "secret"), |config| config.poll_interval(NO_POLL)).await;
    let (set, latch) = (CountDownLatch::new(&setting, "a"), CountDownLatch::new(&mute, "a"));
    for reused in [false, true] {
        set.try_set_count(1).await.unwrap();
        let task = waiter(&mute, &latch).await;
        set.count_down().await.unwrap();
        if reused {
            set.try_set_count(1).await.unwrap();
        }
        tokio::time::timeout(AT_ONCE, task).await.unwrap().unwrap().unwrap();
        wait_until(SOON, async || mute.stats().channels == 0).await;
    }
    // The user may not publish either, but can open the latch.
    assert_eq!(latch.count_down().await.unwrap(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn without_contact_a_wait_ends_unavailable_within_its_patience() {
    let server = server().await;
    let proxy = Proxy::to(&server).await.unwrap();
    let settings = |config: redgrid_core::Config| config.response_timeout(200 * MS).retries(2).poll_interval(200 * MS);
    let client = client_with(&server.url_via(proxy.addr()), settings).await;
    let latch = CountDownLatch::new(&client, "a");
    latch.try_set_count(1).await.unwrap();
    let task = waiter(&client, &latch).await;
    proxy.set(Direction::ToServer, Fault::BlackHole);
    proxy.set(Direction::ToClient, Fault::BlackHole);
    let ended = tokio::time::timeout(SOON, task).await.unwrap().unwrap();
    assert!(matches!(ended, Err(WaitError::Failed(Failure::Unavailable { .. }))), "{ended:?}");
    let bounded = latch.wait().timeout(50 * MS).await;
    assert!(matches!(bounded, Err(WaitError::Failed(Failure::Unavailable { .. }))), "no reply: {bounded:?}");
    let counted = latch.count().await;
    assert!(matches!(counted, Err(LatchError::Failed(Failure::Unavailable { .. }))), "{counted:?}");
    wait_until(SOON, async || client.stats().channels == 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shutdown_notifies_current_and_new_waiters() {
    let server = server().await;
    let (client, observer) = (client(&server).await, server.observer().await.unwrap());
    let latch = CountDownLatch::new(&client, "a");
    latch.try_set_count(1).await.unwrap();
    let task = waiter(&client, &latch).await;
    client.shutdown(SOON).await.unwrap();
    let told = tokio::time::timeout(AT_ONCE, task).await.unwrap().unwrap();
    assert!(matches!(told, Err(WaitError::Failed(Failure::ShuttingDown { .. }))), "{told:?}");
    let told = tokio::time::timeout(AT_ONCE, latch.wait().into_future()).await.unwrap();
    assert!(matches!(told, Err(WaitError::Failed(Failure::ShuttingDown { .. }))), "{told:?}");
    assert!(matches!(latch.count_down().await, Err(LatchError::Failed(Failure::ShuttingDown { .. }))));
    assert_eq!(observer.get::<i64>("a").await.unwrap(), Some(1));
}

#[tokio::test(flavor = "multi_thread")]
async fn waits_dropped_at_every_point_leave_nothing_and_count_downs_count_once_or_not() {
    let server = server().await;
    let (client, observer) = (client(&server).await, server.observer().await.unwrap());
    let latch = CountDownLatch::new(&client, "a");
    latch.try_set_count(1000).await.unwrap();
    for moment in 0..40 {
        // The wait is dropped at a random moment: before the reply to its first poll, before its
        // subscription is confirmed, or later.
        let moment = || Duration::from_micros(moment * moment * 10 + fastrand::u64(..300));
        let waits = (0..5).map(|_| tokio::time::timeout(moment(), latch.wait().into_future()));
        assert!(futures_util::future::join_all(waits).await.iter().all(Result::is_err));
        wait_until(SOON, async || {
            client.stats().channels == 0 && observer.pubsub_channels("*latch*").await.unwrap().is_empty()
        })
        .await;
    }
    // Dropping other waits does not affect this one.
    let staying = waiter(&client, &latch).await;
    for moment in 0..10 {
        let wait = latch.wait().into_future();
        assert!(tokio::time::timeout(Duration::from_micros(moment * 200), wait).await.is_err());
    }
    let (mut least, mut most) = (0, 0);
    for polls in 1..6 {
        least += u64::from(at_most(polls, latch.count_down()).await.is_some());
        most += 1;
    }
    // This count-down is executed after all the others.
    let left = latch.count_down().await.unwrap();
    assert!((1000 - most - 1..=1000 - least - 1).contains(&left), "{left}: {least} to {most}");
    assert!(!staying.is_finished());
    latch.delete().await.unwrap();
    staying.await.unwrap().unwrap();
    wait_until(SOON, async || client.stats().channels == 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn names_with_a_hash_tag_and_a_namespace_have_redissons_channel() {
    let server = server().await;
    let observer = server.observer().await.unwrap();
    let prod = client_with(&server.url(), |config| config.namespace("prod").unwrap().poll_interval(NO_POLL)).await;
    for (name, key, theirs, ours) in [
        ("a", "prod:a", "redisson_countdownlatch__channel__{prod:a}", "redgrid_latch__channel:{prod:a}"),
        ("x{y}z", "prod:x{y}z", "redisson_countdownlatch__channel__{prod:x{y}z}", "redgrid_latch__channel:prod:x{y}z"),
    ] {
        let latch = CountDownLatch::new(&prod, name);
        latch.try_set_count(1).await.unwrap();
        assert!(observer.exists(key).await.unwrap());
        let task = waiter(&prod, &latch).await;
        let mut expected = [theirs, ours];
        expected.sort();
        wait_until(SOON, async || observer.pubsub_channels("*latch*").await.unwrap() == expected).await;
        latch.count_down().await.unwrap();
        tokio::time::timeout(AT_ONCE, task).await.unwrap().unwrap().unwrap();
        wait_until(SOON, async || prod.stats().channels == 0).await;
    }
}
