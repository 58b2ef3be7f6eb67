//! Tasks that acquire, hold, extend, reenter and release in every way, and are dropped at any
//! moment.

use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use redgrid_core::{Failure, Holder};
use redgrid_locks::{AcquireError, Client, Lock, LockGuard};
use redgrid_tests::cancel::at_most;
use redgrid_tests::simulated_network::World;
use tokio::time::{Instant, Sleep};

use crate::ledger::Ledger;

/// One task of the crowd.
pub(crate) struct Member {
    pub(crate) random: fastrand::Rng,
    pub(crate) ledger: Ledger,
    pub(crate) world: Arc<World>,
    pub(crate) client: Client,
    /// Index of its client.
    pub(crate) at: usize,
    /// The holder of some of its acquires, and the milliseconds by which that lease exceeds two
    /// seconds. Other tasks may share the holder.
    pub(crate) holder: (Holder, u64),
    pub(crate) names: u64,
}

/// A time longer than any regular wait: each task holds a lock for a few seconds at most, and no
/// fault lasts long. A task that waits longer is stuck.
pub(crate) const FOR_EVER: Duration = Duration::from_secs(300);

/// How much later than its timeout a wait may end: the precision of a timer, and the next poll of
/// the task.
const SLACK: Duration = Duration::from_millis(5);

/// After this time without faults, an acquire does not fail: no connection is lost, and no earlier
/// request is in flight.
const CALM: Duration = Duration::from_secs(2);

/// The options of one acquire.
struct Options {
    lease: Option<Duration>,
    watchdog: Option<Duration>,
    holder: Option<Holder>,
    at_least: Duration,
    max_hold: Option<Duration>,
    wait: Option<Duration>,
    once: bool,
}

impl Member {
    /// Acquires once, and uses the lock.
    pub(crate) async fn step(&mut self) {
        let name = format!("name:{}", self.random.u64(..self.names));
        let lock = Lock::new(&self.client, &name);
        self.ledger.count(|seen| seen.acquisitions += 1);
        if self.random.u8(..80) == 0 {
            self.by_force(&lock).await;
            return;
        }
        let options = self.options();
        let again = options.holder.is_some();
        let at_least = options.at_least;
        let got = self.acquire(&lock, &name, options).await;
        let Some(guard) = got else { return };
        self.got(&guard, again, at_least);
        self.hold(&lock, &name, guard).await;
    }

    fn options(&mut self) -> Options {
        let ms = Duration::from_millis;
        let mut options = Options {
            lease: None,
            watchdog: None,
            holder: None,
            at_least: Duration::ZERO,
            max_hold: None,
            wait: None,
            once: false,
        };
        match self.random.u8(..20) {
            0..=4 => {
                let lease = ms(2000 + self.holder.1);
                options.holder = Some(self.holder.0.clone());
                options.watchdog = Some(lease);
            }
            5..=8 => {
                let lease = ms([150, 250, 400][self.random.usize(..3)]);
                options.lease = Some(lease);
            }
            9 => {
                let keep = self.random.u64(1..4) * 40;
                options.at_least = ms(keep);
                options.lease = Some(ms(600 + keep));
            }
            10 => {
                options.max_hold = Some(ms(100));
                options.watchdog = Some(ms(1500));
            }
            _ => {}
        }
        match self.random.u8(..10) {
            0..=3 => options.wait = Some(ms(self.random.u64(1..200))),
            4 => options.once = true,
            _ => {}
        }
        options
    }

    /// Acquires, or drops the acquire before its end.
    async fn acquire(&mut self, lock: &Lock, name: &str, options: Options) -> Option<LockGuard> {
        let (ledger, at) = (self.ledger.clone(), self.at);
        let (once, wait) = (options.once, options.wait);
        let name = name.to_owned();
        let began = Instant::now();
        let acquire = acquire_with(lock, options);
        let acquire = async move {
            let _waiting = ledger.waits(at, &name, once);
            acquire.await
        };
        let ended = self.perhaps_dropped(acquire).await;
        let took = began.elapsed();
        let Some(outcome) = ended else {
            self.ledger.count(|seen| seen.dropped += 1);
            return None;
        };
        if wait.is_some_and(|wait| took > wait + SLACK) {
            self.ledger.violation(format!("{}: a wait of {wait:?} took {took:?}", lock_name(lock)));
        }
        match outcome {
            Ok(Some(guard)) => return Some(guard),
            Ok(None) => self.ledger.count(|seen| seen.busy += 1),
            Err(AcquireError::TimedOut { .. }) => {
                self.ledger.count(|seen| seen.busy += 1);
                if wait.is_none_or(|wait| took < wait) {
                    self.ledger.violation(format!("{}: timed out after {took:?} of {wait:?}", lock_name(lock)));
                }
            }
            Err(AcquireError::Lost { .. }) => self.ledger.count(|seen| seen.lost += 1),
            Err(
                error @ AcquireError::Failed(
                    Failure::Unavailable { .. } | Failure::OutcomeUnknown { .. } | Failure::Refused { .. },
                ),
            ) => {
                self.ledger.note(format!("c{at} failed: {error} ({:?})", std::error::Error::source(&error)));
                self.ledger.count(|seen| seen.failed += 1);
                // After `CALM` no late request and no deferred release is left, so an acquire
                // without a timeout must succeed. A short timeout may still end before a reply can
                // arrive.
                if wait.is_none() && self.ledger.calm_for(began) > CALM {
                    self.ledger.violation(format!("{}: without faults, {error}", lock_name(lock)));
                }
            }
            Err(error) => self.ledger.violation(format!("{}: {error}", lock_name(lock))),
        }
        None
    }

    fn got(&self, guard: &LockGuard, again: bool, at_least: Duration) {
        self.ledger.count(|seen| seen.granted += 1);
        self.ledger.got(self.at, guard, again, at_least, self.world.server_time());
    }

    async fn hold(&mut self, lock: &Lock, name: &str, guard: LockGuard) {
        self.work().await;
        if self.random.u8(..8) == 0 {
            let lease = Duration::from_millis(self.random.u64(100..800));
            let extending = guard.extend(lease);
            let _ = self.perhaps_dropped(extending).await;
            self.work().await;
        }
        let mut second = None;
        if self.random.u8(..6) == 0
            && let Ok(again) = guard.reenter()
        {
            self.ledger.count(|seen| seen.reentered += 1);
            self.ledger.got(self.at, &again, true, Duration::ZERO, self.world.server_time());
            second = Some(again);
        }
        if self.random.u8(..6) == 0 {
            // The same holder enters again if it holds the lock, and otherwise queues with a second
            // request.
            let mut options = self.options();
            options.holder = Some(self.holder.0.clone());
            options.lease = None;
            (options.at_least, options.max_hold) = (Duration::ZERO, None);
            options.watchdog = Some(Duration::from_millis(2000 + self.holder.1));
            // The task may hold the lock under another holder. Then this acquire would wait for the
            // task itself, so its timeout is short.
            options.once = false;
            options.wait = Some(Duration::from_millis(self.random.u64(1..40)));
            if let Some(again) = self.acquire(lock, name, options).await {
                self.ledger.count(|seen| seen.reentered += 1);
                self.got(&again, true, Duration::ZERO);
                self.end_hold(again).await;
            }
        }
        self.end_hold(guard).await;
        if let Some(second) = second {
            self.work().await;
            self.end_hold(second).await;
        }
    }

    async fn end_hold(&mut self, guard: LockGuard) {
        let token = guard.token().get();
        match self.random.u8(..16) {
            0..=3 => drop(guard),
            4..=5 => {
                let polls = self.random.usize(..4);
                drop(at_most(polls, guard.release()).await);
            }
            // A guard with a long lease is not forgotten: all other tasks would wait for up to half
            // a minute.
            6 if guard.remaining() < Duration::from_secs(4) => {
                self.ledger.leave_to_its_lease(guard.name().as_str(), token);
                guard.forget();
            }
            7 => {
                // This holder ignores its deadline.
                tokio::time::sleep(Duration::from_millis(self.random.u64(..600))).await;
                drop(guard);
            }
            _ => {
                if tokio::time::timeout(FOR_EVER, guard.release()).await.is_err() {
                    self.ledger.violation(format!("the release of token {token} waits for ever"));
                }
            }
        }
    }

    async fn by_force(&mut self, lock: &Lock) {
        self.ledger.count(|seen| seen.forced += 1);
        if self.random.bool() {
            let forcing = lock.force_release();
            let _ = self.perhaps_dropped(forcing).await;
        } else {
            let stealing = lock.steal();
            if let Some(Ok(guard)) = self.perhaps_dropped(stealing).await {
                self.got(&guard, false, Duration::ZERO);
                self.work().await;
                self.end_hold(guard).await;
            }
        }
    }

    async fn work(&mut self) {
        let most = [0, 3, 3, 12, 12, 60][self.random.usize(..6)];
        let time = Duration::from_millis(self.random.u64(..=most));
        if !time.is_zero() {
            tokio::time::sleep(time).await;
        }
    }

    /// Awaits the future to its end, or drops it: after some polls, after some time, or at an
    /// instant at which it could be polled.
    async fn perhaps_dropped<F: Future>(&mut self, future: F) -> Option<F::Output> {
        let soon = Duration::from_millis(self.random.u64(..40));
        match self.random.u8(..16) {
            0..=3 => at_most(self.random.usize(1..9), future).await,
            4..=5 => tokio::time::timeout(soon, future).await.ok(),
            6..=8 => CutOff { inner: Box::pin(future), end: Box::pin(tokio::time::sleep(soon)) }.await,
            _ => {
                let outcome = tokio::time::timeout(FOR_EVER, future).await.ok();
                if outcome.is_none() {
                    self.ledger.violation(format!("client {}: a future waited for {FOR_EVER:?}", self.at));
                }
                outcome
            }
        }
    }
}

async fn acquire_with(lock: &Lock, options: Options) -> Result<Option<LockGuard>, AcquireError> {
    macro_rules! with_options {
        ($builder:expr) => {{
            let mut builder = $builder.hold_at_least(options.at_least);
            if let Some(lease) = options.lease {
                builder = builder.lease(lease);
            }
            if let Some(lease) = options.watchdog {
                builder = builder.auto_renew(lease);
            }
            if let Some(holder) = &options.holder {
                builder = builder.holder(holder);
            }
            if let Some(longest) = options.max_hold {
                builder = builder.hold_at_most(longest);
            }
            if let Some(wait) = options.wait {
                builder = builder.timeout(wait);
            }
            builder.into_future().await
        }};
    }
    if options.once { with_options!(lock.try_acquire()) } else { with_options!(lock.acquire()).map(Some) }
}

fn lock_name(lock: &Lock) -> String {
    format!("{lock:?}").split("name: ").nth(1).unwrap_or_default().chars().take(10).collect()
}

/// A future that is dropped at a given instant, even if it could be polled at that instant.
struct CutOff<F> {
    inner: Pin<Box<F>>,
    end: Pin<Box<Sleep>>,
}

impl<F: Future> Future for CutOff<F> {
    type Output = Option<F::Output>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        if self.end.as_mut().poll(cx).is_ready() {
            return Poll::Ready(None);
        }
        self.inner.as_mut().poll(cx).map(Some)
    }
}
