//! How long things took, kept in little memory however many there are.

use std::time::Duration;

use hdrhistogram::Histogram;

/// Three digits are kept: a percentile is at most 0.1 % off.
const DIGITS: u8 = 3;

/// Durations in nanoseconds.
#[derive(Debug, Clone)]
pub(super) struct Latency(Histogram<u32>);

impl Latency {
    /// None yet.
    pub(super) fn new() -> Self {
        Latency(Histogram::new(DIGITS).expect("3 digits are within what a histogram can keep"))
    }

    /// Takes one down.
    pub(super) fn record(&mut self, took: Duration) {
        self.0 += u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
    }

    /// Takes down those of another task.
    pub(super) fn add(&mut self, other: &Latency) {
        self.0 += &other.0;
    }

    /// Whether there is none.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// How many there are.
    #[cfg(test)]
    pub(super) fn count(&self) -> u64 {
        self.0.len()
    }

    /// Below this, in µs, are so many in a hundred; 0 where there is none.
    pub(super) fn percentile(&self, percent: f64) -> f64 {
        if self.is_empty() { 0.0 } else { micros(self.0.value_at_percentile(percent) as f64) }
    }

    /// The mean in µs; 0 where there is none.
    pub(super) fn mean(&self) -> f64 {
        if self.is_empty() { 0.0 } else { micros(self.0.mean()) }
    }
}

/// With one digit behind the point.
fn micros(nanos: f64) -> f64 {
    (nanos / 100.0).round() / 10.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_of_what_several_tasks_saw() {
        let (mut all, mut other) = (Latency::new(), Latency::new());
        assert_eq!((all.percentile(50.0), all.mean(), all.is_empty()), (0.0, 0.0, true));
        for ms in 1..=500 {
            all.record(Duration::from_millis(ms));
            other.record(Duration::from_millis(500 + ms));
        }
        all.add(&other);
        for (percent, ms) in [(50.0, 500.0), (99.0, 990.0), (99.9, 999.0)] {
            let seen = all.percentile(percent) / 1000.0;
            // The digits that are kept, and one more sample where the rank falls between two.
            assert!((seen - ms).abs() <= 2.0 * ms / 1000.0, "p{percent}: {seen} ms");
        }
        assert!((all.mean() / 1000.0 - 500.5).abs() < 1.0);
    }
}
