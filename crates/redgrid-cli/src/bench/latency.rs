//! Records latencies in constant memory.

use std::borrow::Cow;
use std::time::Duration;

use hdrhistogram::Histogram;

/// Significant digits: the error of a percentile is at most 0.1 %.
const DIGITS: u8 = 3;

/// Values buffered before they are counted. The histograms of all tasks exceed the CPU cache, so
/// counting each value immediately would distort the measurement.
const FRESH: usize = 4096;

/// Durations in nanoseconds.
#[derive(Debug, Clone)]
pub(super) struct Latency {
    counted: Histogram<u32>,
    fresh: Vec<u64>,
}

impl Latency {
    /// Creates an empty recording.
    pub(super) fn new() -> Self {
        let counted = Histogram::new(DIGITS).expect("3 digits are within what a histogram can keep");
        Latency { counted, fresh: Vec::new() }
    }

    /// Records a duration.
    pub(super) fn record(&mut self, took: Duration) {
        self.fresh.push(u64::try_from(took.as_nanos()).unwrap_or(u64::MAX));
        if self.fresh.len() >= FRESH {
            self.count();
        }
    }

    /// Adds the durations of another task.
    pub(super) fn add(&mut self, other: &Latency) {
        self.counted += &other.counted;
        other.fresh.iter().for_each(|took| self.counted += *took);
    }

    /// Whether no duration is recorded.
    pub(super) fn is_empty(&self) -> bool {
        self.counted.is_empty() && self.fresh.is_empty()
    }

    /// Returns the number of durations.
    #[cfg(test)]
    pub(super) fn len(&self) -> u64 {
        self.all().len()
    }

    /// Returns a percentile in µs; 0 if no duration is recorded.
    pub(super) fn percentile(&self, percent: f64) -> f64 {
        if self.is_empty() { 0.0 } else { micros(self.all().value_at_percentile(percent) as f64) }
    }

    /// Returns the mean in µs; 0 if no duration is recorded.
    pub(super) fn mean(&self) -> f64 {
        if self.is_empty() { 0.0 } else { micros(self.all().mean()) }
    }

    fn count(&mut self) {
        self.fresh.drain(..).for_each(|took| self.counted += took);
    }

    fn all(&self) -> Cow<'_, Histogram<u32>> {
        if self.fresh.is_empty() {
            return Cow::Borrowed(&self.counted);
        }
        let mut whole = self.clone();
        whole.count();
        Cow::Owned(whole.counted)
    }
}

/// Converts to µs with one decimal.
fn micros(nanos: f64) -> f64 {
    (nanos / 100.0).round() / 10.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_cover_the_values_of_several_tasks() {
        let mut all = Latency::new();
        let mut other = Latency::new();
        assert_eq!((all.percentile(50.0), all.mean(), all.is_empty()), (0.0, 0.0, true));
        for ms in 1..=500 {
            all.record(Duration::from_millis(ms));
            other.record(Duration::from_millis(500 + ms));
        }
        all.add(&other);
        for (percent, ms) in [(50.0, 500.0), (99.0, 990.0), (99.9, 999.0)] {
            let seen = all.percentile(percent) / 1000.0;
            // Tolerance: the precision of the histogram, and one more sample if the rank is between
            // two.
            assert!((seen - ms).abs() <= 2.0 * ms / 1000.0, "p{percent}: {seen} ms");
        }
        assert!((all.mean() / 1000.0 - 500.5).abs() < 1.0);
    }
}
