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

/// One member of the crowd.
pub(crate) struct Member {
    pub(crate) random: fastrand::Rng,
    pub(crate) ledger: Ledger,
    pub(crate) world: Arc<World>,
    pub(crate) client: Client,
    /// The number of its client.
    pub(crate) at: usize,
    /// The one as whom it acquires now and then; others are the same.
    pub(crate) holder: (Holder, u64),
    pub(crate) names: u64,
}

/// Longer than anything may take: with everybody holding for a few seconds at most and the weather
/// changing all the time, whoever still waits then waits for ever.
pub(crate) const FOR_EVER: Duration = Duration::from_secs(300);

/// How much later than its bound a wait may end: what a timer takes, and the next turn of the task.
const SLACK: Duration = Duration::from_millis(5);

/// After this in calm weather, an acquire does not fail: no connection is lost, no request of
/// before is still waited for.
const CALM: Duration = Duration::from_secs(2);

/// What one acquire asks for.
struct Ask {
    lease: Option<Duration>,
    watchdog: Option<Duration>,
    holder: Option<Holder>,
    at_least: Duration,
    max_hold: Option<Duration>,
    wait: Option<Duration>,
    once: bool,
}

impl Member {
    /// One acquisition and what follows from it.
    pub(crate) async fn step(&mut self) {
        let name = format!("name:{}", self.random.u64(..self.names));
        let lock = Lock::new(&self.client, &name);
        self.ledger.count(|seen| seen.acquisitions += 1);
        if self.random.u8(..80) == 0 {
            self.by_force(&lock).await;
            return;
        }
        let ask = self.ask();
        let again = ask.holder.is_some();
        let at_least = ask.at_least;
        let got = self.acquire(&lock, &name, ask).await;
        let Some(guard) = got else { return };
        self.got(&guard, again, at_least);
        self.hold(&lock, &name, guard).await;
    }

    fn ask(&mut self) -> Ask {
        let ms = Duration::from_millis;
        let mut ask = Ask {
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
                ask.holder = Some(self.holder.0.clone());
                ask.watchdog = Some(lease);
            }
            5..=8 => {
                let lease = ms([150, 250, 400][self.random.usize(..3)]);
                ask.lease = Some(lease);
            }
            9 => {
                let keep = self.random.u64(1..4) * 40;
                ask.at_least = ms(keep);
                ask.lease = Some(ms(600 + keep));
            }
            10 => {
                ask.max_hold = Some(ms(100));
                ask.watchdog = Some(ms(1500));
            }
            _ => {}
        }
        match self.random.u8(..10) {
            0..=3 => ask.wait = Some(ms(self.random.u64(1..200))),
            4 => ask.once = true,
            _ => {}
        }
        ask
    }

    /// Acquires, or is dropped in the middle of it.
    async fn acquire(&mut self, lock: &Lock, name: &str, ask: Ask) -> Option<LockGuard> {
        let (ledger, at) = (self.ledger.clone(), self.at);
        let (once, wait) = (ask.once, ask.wait);
        let name = name.to_owned();
        let began = Instant::now();
        let asking = asking(lock, ask);
        let asking = async move {
            let _waiting = ledger.waits(at, &name, once);
            asking.await
        };
        let asked = self.dropped_at_some_moment(asking).await;
        let took = began.elapsed();
        let Some(outcome) = asked else {
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
                // What is late and what is to be given back is over; a wait may still end before an
                // answer can come.
                if wait.is_none() && self.ledger.calm_for(began) > CALM {
                    self.ledger.violation(format!("{}: in calm weather, {error}", lock_name(lock)));
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
            let _ = self.dropped_at_some_moment(extending).await;
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
            // The same holder enters again where it is, and queues with a second voice where it is
            // not.
            let mut ask = self.ask();
            ask.holder = Some(self.holder.0.clone());
            ask.lease = None;
            (ask.at_least, ask.max_hold) = (Duration::ZERO, None);
            ask.watchdog = Some(Duration::from_millis(2000 + self.holder.1));
            // It may hold already as somebody else: then it must not wait for itself.
            ask.once = false;
            ask.wait = Some(Duration::from_millis(self.random.u64(1..40)));
            if let Some(again) = self.acquire(lock, name, ask).await {
                self.ledger.count(|seen| seen.reentered += 1);
                self.got(&again, true, Duration::ZERO);
                self.let_go(again).await;
            }
        }
        self.let_go(guard).await;
        if let Some(second) = second {
            self.work().await;
            self.let_go(second).await;
        }
    }

    async fn let_go(&mut self, guard: LockGuard) {
        let token = guard.token().get();
        match self.random.u8(..16) {
            0..=3 => drop(guard),
            4..=5 => {
                let polls = self.random.usize(..4);
                drop(at_most(polls, guard.release()).await);
            }
            // Not where everybody would have to wait for half a minute.
            6 if guard.remaining() < Duration::from_secs(4) => {
                self.ledger.left_to_its_lease(guard.name().as_str(), token);
                guard.forget();
            }
            7 => {
                // A holder that does not look at the clock.
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
        self.ledger.count(|seen| seen.seized += 1);
        if self.random.bool() {
            let forcing = lock.force_release();
            let _ = self.dropped_at_some_moment(forcing).await;
        } else {
            let stealing = lock.steal();
            if let Some(Ok(guard)) = self.dropped_at_some_moment(stealing).await {
                self.got(&guard, false, Duration::ZERO);
                self.work().await;
                self.let_go(guard).await;
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

    /// Awaits it to its end, or drops it: after some polls, when a time is over, or a moment before
    /// it could be polled.
    async fn dropped_at_some_moment<F: Future>(&mut self, future: F) -> Option<F::Output> {
        let soon = Duration::from_millis(self.random.u64(..40));
        match self.random.u8(..16) {
            0..=3 => at_most(self.random.usize(1..9), future).await,
            4..=5 => tokio::time::timeout(soon, future).await.ok(),
            6..=8 => CutOff { inner: Box::pin(future), end: Box::pin(tokio::time::sleep(soon)) }.await,
            _ => {
                let outcome = tokio::time::timeout(FOR_EVER, future).await.ok();
                if outcome.is_none() {
                    self.ledger.violation(format!("client {}: something waited for {FOR_EVER:?}", self.at));
                }
                outcome
            }
        }
    }
}

async fn asking(lock: &Lock, ask: Ask) -> Result<Option<LockGuard>, AcquireError> {
    macro_rules! with_options {
        ($builder:expr) => {{
            let mut builder = $builder.hold_at_least(ask.at_least);
            if let Some(lease) = ask.lease {
                builder = builder.lease(lease);
            }
            if let Some(lease) = ask.watchdog {
                builder = builder.auto_renew(lease);
            }
            if let Some(holder) = &ask.holder {
                builder = builder.holder(holder);
            }
            if let Some(longest) = ask.max_hold {
                builder = builder.hold_at_most(longest);
            }
            if let Some(wait) = ask.wait {
                builder = builder.timeout(wait);
            }
            builder.into_future().await
        }};
    }
    if ask.once { with_options!(lock.try_acquire()) } else { with_options!(lock.acquire()).map(Some) }
}

fn lock_name(lock: &Lock) -> String {
    format!("{lock:?}").split("name: ").nth(1).unwrap_or_default().chars().take(10).collect()
}

/// A future that is dropped at some instant even if it could be polled at that very instant.
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
