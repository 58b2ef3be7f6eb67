//! Rows: the server is killed, stopped, or can not be reached any more.

use std::time::{Duration, Instant};

use redgrid_core::{Client, Config};
use redgrid_countdown_latch::CountDownLatch;
use redgrid_locks::{FairLock, Lock};
use redgrid_semaphore::Semaphore;
use redgrid_testkit::{Fault, Proxy, RedisServer, wait_until};
use redgrid_tests::{SOON, client, client_unready, client_with, server};

use crate::calls::{AT_ONCE, BOUND, Named, Outcome, WAITING, kind};

const TIMEOUT: Duration = Duration::from_millis(800);
/// How long a call is retried: `response_timeout × (retries + 1)`.
const PATIENCE: Duration = Duration::from_millis(3200);
/// Added to each bound, because a busy machine is slower.
const SLACK: Duration = Duration::from_secs(10);

fn settings(config: Config) -> Config {
    config
        .response_timeout(TIMEOUT)
        .connect_timeout(TIMEOUT)
        .retries(3)
        .retry_delay(Duration::from_millis(20))
        .poll_interval(Duration::from_millis(100))
        .ping_interval(Duration::from_millis(200))
}

#[derive(Clone, Copy, Debug)]
enum Loss {
    Killed,
    Stopped,
    Unreachable,
}

const LOSSES: [Loss; 3] = [Loss::Killed, Loss::Stopped, Loss::Unreachable];

struct Harness {
    server: RedisServer,
    proxy: Proxy,
    client: Client,
}

impl Harness {
    async fn new() -> Harness {
        let server = server().await;
        let proxy = Proxy::to(&server).await.unwrap();
        let client = client_with(&server.url_via(proxy.addr()), settings).await;
        Harness { server, proxy, client }
    }

    async fn lose(&self, loss: Loss) {
        match loss {
            Loss::Killed => self.server.kill().await.unwrap(),
            Loss::Stopped => self.server.pause().await.unwrap(),
            Loss::Unreachable => self.proxy.set_both(Fault::BlackHole),
        }
    }
}

/// Returns the outcomes of these calls, with the time that each took. The loss happens when all
/// calls wait.
async fn ends(
    harness: &Harness,
    loss: Loss,
    calls: &[Named],
    waits: impl AsyncFn() -> bool,
) -> Vec<(Outcome, Duration)> {
    let running: Vec<_> = calls.iter().map(|(_, call)| tokio::spawn(call(&harness.client))).collect();
    wait_until(SOON, waits).await;
    let lost = Instant::now();
    harness.lose(loss).await;
    let mut ended = Vec::new();
    for (running, (name, _)) in running.into_iter().zip(calls) {
        let outcome = tokio::time::timeout(BOUND + PATIENCE + SLACK, running).await;
        ended.push((outcome.unwrap_or_else(|_| panic!("{name}, {loss:?}: does not end")).unwrap(), lost.elapsed()));
    }
    ended
}

/// A wait that loses contact ends with `Unavailable`, at its timeout or after [`PATIENCE`], because
/// it is not known whether another client still holds the name.
#[tokio::test(flavor = "multi_thread")]
async fn a_wait_ends_unavailable_where_the_contact_was_lost() {
    for loss in LOSSES {
        let harness = Harness::new().await;
        let others = client(&harness.server).await;
        let held = Lock::new(&others, "lock").acquire().lease(2 * SLACK).await.unwrap();
        let in_order = FairLock::new(&others, "fair").acquire().lease(2 * SLACK).await.unwrap();
        let permit = Semaphore::new(&others, "semaphore", 1).acquire().lease(2 * SLACK).await.unwrap();
        CountDownLatch::new(&others, "latch").try_set_count(1).await.unwrap();
        let observer = harness.server.observer().await.unwrap();
        let ended = ends(&harness, loss, &WAITING, async || {
            let channels = observer.pubsub_channels("*").await.unwrap();
            let listens = |name: &str| channels.iter().any(|channel| channel.contains(name));
            ["{lock}", "{semaphore}", "{latch}", "{queue}", "{fair}", "{barrier}", "{event}", "{messages}"]
                .into_iter()
                .all(listens)
                && harness.client.stats().waiting >= 6
        })
        .await;
        let mut wrong = Vec::new();
        for ((outcome, took), (name, _)) in ended.iter().zip(&WAITING) {
            // A request that takes an element, or whose reply reports a grant, may have been sent
            // before the loss was noticed, so its outcome is unknown. A waiter for a lock sends
            // such a request when its subscriber connection is lost. That may happen before the
            // request connection is lost.
            let takers = ["queue", "semaphore", "reliable queue", "barrier"];
            let left = takers.iter().any(|taker| name.starts_with(taker)) || name.contains("lock");
            let expected: &[_] = if left { &["Unavailable", "OutcomeUnknown"] } else { &["Unavailable"] };
            if !outcome.is(expected) {
                wrong.push(format!("{name}, {loss:?}: {} after {took:?} ({})", outcome.kind, outcome.text));
            }
        }
        assert!(wrong.is_empty(), "{wrong:#?}");
        // The release of these holds gets no answer, and the test does not wait for it.
        held.forget();
        in_order.forget();
        permit.forget();
    }
}

/// A wait that ends before the loss is noticed reports the last known state. A bound below the
/// response timeout is too short to notice a loss.
#[tokio::test(flavor = "multi_thread")]
async fn a_wait_that_ends_before_the_loss_is_known_reports_what_was_known() {
    let harness = Harness::new().await;
    let others = client(&harness.server).await;
    let held = Lock::new(&others, "lock").acquire().lease(2 * SLACK).await.unwrap();
    let waiting = tokio::spawn(Lock::new(&harness.client, "lock").acquire().timeout(TIMEOUT / 2).into_future());
    wait_until(SOON, async || harness.client.stats().channels > 0 || harness.client.stats().waiting == 0).await;
    let ended = waiting.await.unwrap();
    assert_eq!(kind(&ended.unwrap_err()), "TimedOut");
    held.forget();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_ends_within_its_bound_and_says_whether_it_may_be_carried_out() {
    for loss in LOSSES {
        let harness = Harness::new().await;
        harness.lose(loss).await;
        let calls = AT_ONCE.iter().filter(|(name, _)| !name.ends_with("with a bound")).copied().collect::<Vec<_>>();
        let ended = ends(&harness, loss, &calls, async || true).await;
        let mut wrong = Vec::new();
        for ((outcome, took), (name, _)) in ended.iter().zip(&calls) {
            // A request that was sent before the loss was noticed may be executed. A read changes
            // nothing.
            let reads = ["is locked", "permits left", "latch", "read a map"].contains(name);
            let expected: &[_] = if reads { &["Unavailable"] } else { &["Unavailable", "OutcomeUnknown"] };
            // A read of a lock returns the server's error itself.
            let bare = ["NotSent", "Unknown"];
            if !(outcome.is(expected) || *name == "is locked" && outcome.is(&bare)) {
                wrong.push(format!("{name}, {loss:?}: {} after {took:?} ({})", outcome.kind, outcome.text));
            }
        }
        assert!(wrong.is_empty(), "{wrong:#?}");
    }
}

/// A caller waits for a release at most for the response timeout, not for the lease. The release
/// continues in the background.
#[tokio::test(flavor = "multi_thread")]
async fn a_release_is_waited_for_no_longer_than_the_response_timeout() {
    for loss in LOSSES {
        let harness = Harness::new().await;
        let guard = Lock::new(&harness.client, "lock").acquire().lease(30 * SLACK).await.unwrap();
        let permit = Semaphore::new(&harness.client, "semaphore", 1).acquire().lease(30 * SLACK).await.unwrap();
        harness.lose(loss).await;
        let began = Instant::now();
        let released = tokio::time::timeout(TIMEOUT + SLACK, guard.release()).await.expect("a bounded release");
        assert_eq!(kind(&released.unwrap_err()), "OutcomeUnknown", "{loss:?} after {:?}", began.elapsed());
        let released = tokio::time::timeout(TIMEOUT + SLACK, permit.release()).await.expect("a bounded release");
        assert_eq!(kind(&released.unwrap_err()), "OutcomeUnknown", "{loss:?} after {:?}", began.elapsed());
        if let Loss::Stopped = loss {
            // The release continues: the server receives it after it is resumed.
            harness.server.resume().await.unwrap();
            let observer = harness.server.observer().await.unwrap();
            wait_until(SOON, async || !observer.exists("lock").await.unwrap()).await;
        }
    }
}

/// A try without a server ends after one response timeout, without the retries of a call.
#[tokio::test(flavor = "multi_thread")]
async fn a_try_without_a_server_ends_after_the_response_timeout() {
    let server = server().await;
    server.kill().await.unwrap();
    let client = client_unready(&server.url(), |config| settings(config).retries(1000)).await;
    let tried = tokio::time::timeout(SOON, Lock::new(&client, "lock").try_acquire().into_future()).await;
    let error = tried.expect("an early end").unwrap_err();
    assert_eq!(kind(&error), "Unavailable");
    let text = error.to_string();
    assert!(text.contains("Connection refused"), "{text}");
    let permit = Semaphore::new(&client, "semaphore", 1).try_acquire();
    let tried = tokio::time::timeout(SOON, permit.into_future()).await;
    assert_eq!(kind(&tried.expect("an early end").unwrap_err()), "Unavailable");
}
