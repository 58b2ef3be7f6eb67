//! The alarm of a loop that serves a schedule.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::Notify;

use crate::clock::{Clock, Instant};
use crate::observe::count;

/// An alarm that can be brought forward, but not postponed, while its task sleeps.
///
/// Therefore the alarm can fire for a lease that was removed meanwhile. Postponing the alarm at
/// each removal would cost more: the next lease would bring it forward again, and wake the task.
///
/// Callers of `set` and `bring_forward` take the time from a schedule, and must keep the mutex of
/// that schedule locked until the call has returned. A loop with several schedules sets
/// [`Instant::MAX`] first. Each schedule then brings the alarm forward. A new alarm fires at once.
#[derive(Default)]
pub(crate) struct Wakeup {
    at: AtomicU64,
    moved: Notify,
}

impl Wakeup {
    /// Sets the time of the alarm. Only the task that waits for the alarm is allowed to call this,
    /// and only before it waits.
    pub(crate) fn set(&self, at: Instant) {
        self.at.store(at.as_nanos(), Ordering::Release);
    }

    /// Brings the alarm forward to this time if it would fire later.
    pub(crate) fn bring_forward(&self, at: Instant) {
        if self.at.fetch_min(at.as_nanos(), Ordering::AcqRel) > at.as_nanos() {
            self.moved.notify_one();
        }
    }

    /// Completes when the alarm fires. Only one task is allowed to wait at a time.
    pub(crate) async fn elapsed(&self, clock: &Clock) {
        let mut checked = Instant::MAX;
        loop {
            let (at, now) = (Instant::from_nanos(self.at.load(Ordering::Acquire)), clock.now());
            if now >= at {
                // The alarm is late only if its time was in the future at the last check.
                let late = if at > checked { now.since(at) } else { Duration::ZERO };
                return count::stalled(late);
            }
            checked = now;
            tokio::select! {
                () = clock.sleep_until(at) => {}
                () = self.moved.notified() => {}
            }
        }
    }
}
