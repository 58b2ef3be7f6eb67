//! A lower bound of how far the server's clock is ahead of the local clock.
//!
//! A request can have a deadline: an instant of the *local* clock, after which it must not be
//! executed. The request carries that instant in the *server's* time. The bound is never too high,
//! so the server refuses a request too early rather than too late. Therefore the server executes no
//! transmission of an acquire after the client considers that transmission expired. The exception
//! is a server whose clock was set back; see [`ServerClock::set_back`].

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::clock::{Instant, nanos};
use crate::sync::Mutex;

/// Maximum drift between the clocks of two machines: 500 ppm, the most that NTP slews (RFC 5905,
/// section 11.3). The bound that a reply has proved is lowered by this rate as it gets older,
/// because the clocks may have drifted since.
const DRIFT_PPM: u64 = 500;

/// The length of a window: 10 s. A sample is the bound that one reply proves.
///
/// Only the best (highest) sample of each window is kept, because its reply was the fastest. The
/// estimate is the higher one of two samples: that of the current window and that of the previous
/// window. If the server's clock was set back, all new samples are lower than the old ones. The
/// estimate then follows within two windows at the latest, because both kept samples are new by
/// then.
const WINDOW: Duration = Duration::from_secs(10);

/// Tolerance for detecting that the server's clock was set back: 1000 µs. An exchange proves an
/// upper bound of `server time − local time`. If the known lower bound exceeds this upper bound by
/// more than the tolerance, the clock was set back. Rounding and a slew of the clock cause only
/// smaller differences.
const SLACK: i128 = 1000;

/// A lower bound of `server time − local time`, and the round-trip time. All users of a node share
/// this estimate.
#[derive(Debug, Default)]
pub struct ServerClock {
    samples: Mutex<Samples>,
    /// Duration of the fastest exchange in the current window, in nanoseconds; 0 if there was none.
    /// `former_round_trip` is the same for the previous window.
    round_trip: AtomicU64,
    former_round_trip: AtomicU64,
}

#[derive(Debug, Default, Clone, Copy)]
struct Samples {
    best: Option<Sample>,
    /// The best sample of the previous window. This sample is still used, so that the estimate does
    /// not start over with each window.
    former: Option<Sample>,
    since: Option<Instant>,
    /// When a step back of the server's clock was last detected, and the sum of such steps. An
    /// earlier step is included if the next step was found within two windows after it.
    set_back: Option<(Instant, Duration)>,
}

impl Samples {
    fn offset(&self, now: Instant) -> Option<i128> {
        let best = self.best.map(|sample| sample.aged(now));
        let former = self.former.filter(|sample| now.since(sample.at) < 2 * WINDOW).map(|sample| sample.aged(now));
        best.max(former)
    }

    fn set_back(&self, now: Instant) -> Duration {
        self.set_back.filter(|(at, _)| now.since(*at) < 2 * WINDOW).map_or(Duration::ZERO, |(_, by)| by)
    }

    /// Forgets all samples if a reply received at `received` shows that the server's clock was set
    /// back.
    ///
    /// The reply proves that the offset `server time − local time` is at most `highest`.
    fn notice_step_back(&mut self, highest: i128, received: Instant) {
        let Some(step) = self.offset(received).map(|offset| offset - highest).filter(|step| *step > SLACK) else {
            return;
        };
        let by = self.set_back(received) + Duration::from_micros(u64::try_from(step).unwrap_or(u64::MAX));
        *self = Samples { set_back: Some((received, by)), ..Samples::default() };
    }
}

#[derive(Debug, Clone, Copy)]
struct Sample {
    /// Server time in microseconds at the local instant 0. It is never higher than the true value.
    offset: i128,
    at: Instant,
}

impl Sample {
    fn aged(self, now: Instant) -> i128 {
        let age = now.since(self.at).as_micros() as i128;
        self.offset - age * i128::from(DRIFT_PPM) / 1_000_000
    }
}

impl ServerClock {
    /// Records a server time (microseconds since 1970) from a reply received at `received`.
    ///
    /// The server read its clock before the reply arrived. So the difference `server − received` is
    /// not higher than the true difference between the clocks, `server time − local time`.
    pub fn observe(&self, server_micros: u64, received: Instant) {
        let sample =
            Sample { offset: i128::from(server_micros) - i128::from(received.as_nanos() / 1000) - 1, at: received };
        let mut samples = self.samples.lock();
        match samples.since {
            Some(since) if received.since(since) < WINDOW => {}
            _ => {
                *samples = Samples { former: samples.best, best: None, since: Some(received), ..*samples };
                let former = self.round_trip.swap(0, Ordering::Relaxed);
                self.former_round_trip.store(former, Ordering::Relaxed);
            }
        }
        if samples.best.is_none_or(|best| sample.offset >= best.aged(received)) {
            samples.best = Some(sample);
        }
    }

    /// Records a server time from the reply to a request sent at `sent`, and the round-trip time.
    ///
    /// The server read its clock after the request was sent. So the true difference between the
    /// clocks is at most `server − sent`. A known lower bound that is higher dates from before the
    /// server's clock was set back.
    pub fn observe_exchange(&self, server_micros: u64, sent: Instant, received: Instant) {
        let is_older = {
            let mut samples = self.samples.lock();
            samples.notice_step_back(i128::from(server_micros) + 1 - i128::from(sent.as_nanos() / 1000), received);
            // A request that was sent before the step may also have been answered before the step.
            // The server time in its reply is then outdated, and is not recorded.
            samples.set_back.is_some_and(|(at, _)| sent < at && at < received)
        };
        if !is_older {
            self.observe(server_micros, received);
        }
        self.observe_round_trip(sent, received);
    }

    /// Returns by how much the server's clock was set back; zero if no such step was detected in
    /// the last 20 s.
    ///
    /// A request that was sent before the clock was set back may be executed later than its limit,
    /// by up to this duration.
    pub fn set_back(&self, now: Instant) -> Duration {
        self.samples.lock().set_back(now)
    }

    /// Records the round-trip time of a request.
    pub fn observe_round_trip(&self, sent: Instant, received: Instant) {
        let took = nanos(received.since(sent)).max(1);
        if self.round_trip.load(Ordering::Relaxed).wrapping_sub(1) >= took {
            self.round_trip.store(took, Ordering::Relaxed);
        }
    }

    /// Returns the unloaded round-trip time: the fastest exchange of the last 10 to 20 s.
    ///
    /// It is zero before the first exchange.
    pub fn round_trip(&self) -> Duration {
        let known = [&self.round_trip, &self.former_round_trip].map(|nanos| nanos.load(Ordering::Relaxed));
        Duration::from_nanos(known.into_iter().filter(|nanos| *nanos > 0).min().unwrap_or_default())
    }

    /// Forgets everything, because a new connection may lead to another server process.
    pub fn reset(&self) {
        *self.samples.lock() = Samples::default();
        self.round_trip.store(0, Ordering::Relaxed);
        self.former_round_trip.store(0, Ordering::Relaxed);
    }

    /// Returns the server's time at the local instant `at`, or a little less, in microseconds since
    /// 1970.
    ///
    /// Returns `None` before the first sample.
    pub fn at(&self, at: Instant, now: Instant) -> Option<u64> {
        let offset = self.samples.lock().offset(now)?;
        u64::try_from(offset + i128::from(at.as_nanos() / 1000)).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Instant {
        Instant::MIN + Duration::from_millis(millis)
    }

    #[test]
    fn the_bound_is_never_above_the_truth_and_a_quick_reply_wins() {
        let clock = ServerClock::default();
        assert_eq!(clock.at(at(5), at(5)), None);
        // The truth: server = local + 1,000,000 µs. The first reply took 20 ms, the second 1 ms.
        clock.observe(1_000_000 + 10_000, at(30));
        let slow = clock.at(at(100), at(100)).unwrap();
        clock.observe(1_000_000 + 50_000, at(51));
        let quick = clock.at(at(100), at(100)).unwrap();
        assert!(slow < quick && quick <= 1_000_000 + 100_000, "{slow} {quick}");
        // A later, slower reply does not lower the bound.
        clock.observe(1_000_000 + 60_000, at(90));
        assert!(clock.at(at(100), at(100)).unwrap() + 10 >= quick);
    }

    #[test]
    fn the_quickest_exchange_of_the_last_windows_is_the_round_trip() {
        let clock = ServerClock::default();
        assert_eq!(clock.round_trip(), Duration::ZERO);
        let exchange = |sent, took| clock.observe_exchange(1_000_000 + sent * 1000, at(sent), at(sent + took));
        exchange(10, 7);
        exchange(20, 3);
        exchange(30, 5);
        assert_eq!(clock.round_trip(), Duration::from_millis(3));
        // Two windows later, the fastest exchange is forgotten.
        exchange(11_000, 9);
        assert_eq!(clock.round_trip(), Duration::from_millis(3));
        exchange(22_000, 8);
        assert_eq!(clock.round_trip(), Duration::from_millis(8));
    }

    #[test]
    fn an_old_sample_counts_less() {
        let clock = ServerClock::default();
        clock.observe(1_000_000, at(0));
        let hour = Instant::MIN + Duration::from_secs(3600);
        let truth = 1_000_000 + 3_600_000_000;
        let estimate = clock.at(hour, hour).unwrap();
        assert!(estimate < truth - 1_000_000 && estimate > truth - 3_000_000);
    }

    #[test]
    fn a_server_clock_that_was_set_back_is_followed_at_once() {
        let clock = ServerClock::default();
        clock.observe_exchange(9_000_000_000, at(0), at(2));
        // A slow reply alone is no proof of a step back.
        clock.observe_exchange(9_001_000_000, at(1000), at(4000));
        assert_eq!(clock.set_back(at(4000)), Duration::ZERO);
        // The clock was set back by 8,998 s.
        clock.observe_exchange(7_000_000, at(5000), at(5002));
        assert!(clock.at(at(5002), at(5002)).unwrap() <= 7_002_000);
        let by = Duration::from_secs(8998);
        let set_back = clock.set_back(at(5002));
        assert!(set_back <= by && set_back + Duration::from_secs(1) > by, "{set_back:?}");
        // This request was sent and answered before the step, but its reply arrived later.
        clock.observe_exchange(9_004_999_000, at(4990), at(5010));
        assert!(clock.at(at(5010), at(5010)).unwrap() <= 7_010_000);
        // A second step back is added to the 8,998 s of the first. The sum is forgotten 20 s later.
        clock.observe_exchange(5_000_000, at(6000), at(6001));
        assert!(clock.set_back(at(6001)) > set_back);
        assert_eq!(clock.set_back(at(26_001)), Duration::ZERO);
    }

    #[test]
    fn a_server_clock_that_was_set_back_is_followed_within_two_windows() {
        let clock = ServerClock::default();
        clock.observe(9_000_000_000, at(0));
        for second in 1..=30 {
            clock.observe(1_000_000 + second * 1_000_000, at(second * 1000));
        }
        let now = at(30_000);
        assert!(clock.at(now, now).unwrap() <= 1_000_000 + 30_000_000);
    }
}
