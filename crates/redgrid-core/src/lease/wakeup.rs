//! The next wake-up of a renewal loop.

use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::Notify;

use crate::clock::{Clock, Instant};

/// An alarm that can be brought forward while its task sleeps, but not postponed.
///
/// The item that it was brought forward for may be gone when it fires. An alarm that always
/// followed the earliest item would wake its task for every hold that follows a short one.
///
/// Callers of `set` and `bring_forward` hold the lock of the schedule that the time comes from. A
/// loop with several schedules sets [`Instant::MAX`] first, and brings it forward by each of them.
pub(crate) struct Wakeup {
    at: AtomicU64,
    moved: Notify,
}

impl Wakeup {
    /// Creates an alarm that fires at once.
    pub(crate) fn new() -> Self {
        Wakeup { at: AtomicU64::new(Instant::MIN.as_nanos()), moved: Notify::new() }
    }

    /// Sets the time. Only the sleeping task calls it, while it is awake.
    pub(crate) fn set(&self, at: Instant) {
        self.at.store(at.as_nanos(), Ordering::Release);
    }

    /// Brings the alarm forward to this time if it would fire later.
    pub(crate) fn bring_forward(&self, at: Instant) {
        if self.at.fetch_min(at.as_nanos(), Ordering::AcqRel) > at.as_nanos() {
            self.moved.notify_one();
        }
    }

    /// Completes when the alarm fires. Only one task may wait at a time.
    pub(crate) async fn elapsed(&self, clock: &Clock) {
        loop {
            let at = Instant::from_nanos(self.at.load(Ordering::Acquire));
            if clock.now() >= at {
                return;
            }
            tokio::select! {
                () = clock.sleep_until(at) => {}
                () = self.moved.notified() => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::sync::Arc;
    use std::sync::atomic::AtomicUsize;
    use std::task::{Context, Poll, Wake, Waker};
    use std::time::Duration;

    use super::*;

    #[derive(Default)]
    struct Woken(AtomicUsize);

    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_sleeper_is_woken_for_what_is_earlier_and_not_for_what_is_later() {
        const S: Duration = Duration::from_secs(1);
        let (alarm, clock, woken) = (Wakeup::new(), Clock::runtime(), Arc::new(Woken::default()));
        let (begin, waker) = (clock.now(), Waker::from(Arc::clone(&woken)));
        alarm.bring_forward(begin + S);
        alarm.elapsed(&clock).await;
        assert_eq!(clock.now(), begin, "it was not set, and rings at once");
        alarm.set(Instant::MAX);
        let mut rings = pin!(alarm.elapsed(&clock));
        let mut poll = || rings.as_mut().poll(&mut Context::from_waker(&waker));
        assert_eq!(poll(), Poll::Pending);
        for (seconds, times) in [(10, 1), (11, 1), (10, 1), (12, 1), (5, 2), (7, 2)] {
            alarm.bring_forward(begin + seconds * S);
            assert_eq!(woken.0.load(Ordering::Relaxed), times, "at {seconds} s");
            assert_eq!(poll(), Poll::Pending);
        }
        tokio::time::advance(5 * S).await;
        assert_eq!(poll(), Poll::Ready(()));
    }
}
