//! Measures time against a promised bound, excluding the delays of the machine.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio::task::JoinHandle;

/// The sleep time of the control task.
const PAUSE: Duration = Duration::from_millis(5);

/// The usual lateness of a timer: Tokio's timers have a resolution of 1 ms.
const USUAL: Duration = Duration::from_millis(2);

/// A timed operation has several steps, in this process and in servers. Each step may be delayed as
/// much as the timer of the control task.
const STEPS: u32 = 4;

/// Measures an operation with a promised bound, in seconds.
///
/// A control task on the same runtime sleeps repeatedly. The lateness of its timers is the
/// machine's delay, which is subtracted. A bound is therefore missed only because of the code; on
/// an idle machine, the bound is exact.
pub struct Stopwatch {
    began: Instant,
    /// The machine's delay before the start, in microseconds.
    before: u64,
    late: Arc<AtomicU64>,
    control: JoinHandle<()>,
}

impl Stopwatch {
    /// Starts the measurement.
    pub fn start() -> Stopwatch {
        let late = Arc::new(AtomicU64::new(0));
        let control = tokio::spawn({
            let late = Arc::clone(&late);
            async move {
                loop {
                    let slept = Instant::now();
                    tokio::time::sleep(PAUSE).await;
                    let lateness = slept.elapsed().saturating_sub(PAUSE + USUAL);
                    late.fetch_add(lateness.as_micros() as u64, Ordering::Relaxed);
                }
            }
        });
        Stopwatch { began: Instant::now(), before: 0, late, control }
    }

    /// Starts the measurement again.
    pub fn restart(&mut self) {
        self.began = Instant::now();
        self.before = self.late.load(Ordering::Relaxed);
    }

    /// Returns the time since the start, without the machine's delay.
    pub fn elapsed(&self) -> Duration {
        self.began.elapsed().saturating_sub(self.delay())
    }

    /// Returns the part of the elapsed time that is attributed to the machine's delay.
    pub fn delay(&self) -> Duration {
        STEPS * Duration::from_micros(self.late.load(Ordering::Relaxed) - self.before)
    }

    /// Fails if the elapsed time, without the machine's delay, exceeds the promised time.
    #[track_caller]
    pub fn assert_within(&self, promise: Duration) {
        let (elapsed, delay) = (self.elapsed(), self.delay());
        assert!(elapsed <= promise, "took {elapsed:?} without a delay of {delay:?} by the machine, not {promise:?}");
    }
}

impl Drop for Stopwatch {
    fn drop(&mut self) {
        self.control.abort();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_late_timer_does_not_count_and_a_late_call_does() {
        let mut watch = Stopwatch::start();
        tokio::time::sleep(Duration::from_millis(200)).await;
        assert!(watch.elapsed() + watch.delay() >= Duration::from_millis(200));
        watch.restart();
        // This blocks the thread, so that no other task of the runtime runs.
        std::thread::sleep(Duration::from_millis(50));
        tokio::time::sleep(2 * PAUSE).await;
        assert!(watch.delay() >= STEPS * Duration::from_millis(40), "{:?}", watch.delay());
        watch.assert_within(Duration::from_millis(1));
    }
}
