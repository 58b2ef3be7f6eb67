//! How long things took, kept in little memory however many there are.

use std::borrow::Cow;
use std::time::Duration;

use hdrhistogram::Histogram;

/// Three digits are kept: a percentile is at most 0.1 % off.
const DIGITS: u8 = 3;

/// So many are kept as they came before they are counted. A histogram is larger than what a core has at hand when each task has
/// one: counting each at once would be measured as a part of what it tells of.
const FRESH: usize = 4096;

/// Durations in nanoseconds.
#[derive(Debug, Clone)]
pub(super) struct Latency {
    counted: Histogram<u32>,
    fresh: Vec<u64>,
}

impl Latency {
    /// None yet.
    pub(super) fn new() -> Self {
        let counted = Histogram::new(DIGITS).expect("3 digits are within what a histogram can keep");
        Latency { counted, fresh: Vec::new() }
    }

    /// Takes one down.
    pub(super) fn record(&mut self, took: Duration) {
        self.fresh.push(u64::try_from(took.as_nanos()).unwrap_or(u64::MAX));
        if self.fresh.len() >= FRESH {
            self.count();
        }
    }

    /// Takes down those of another task.
    pub(super) fn add(&mut self, other: &Latency) {
        self.counted += &other.counted;
        other.fresh.iter().for_each(|took| self.counted += *took);
    }

    /// Whether there is none.
    pub(super) fn is_empty(&self) -> bool {
        self.counted.is_empty() && self.fresh.is_empty()
    }

    /// How many there are.
    #[cfg(test)]
    pub(super) fn len(&self) -> u64 {
        self.all().len()
    }

    /// Below this, in µs, are so many in a hundred; 0 where there is none.
    pub(super) fn percentile(&self, percent: f64) -> f64 {
        if self.is_empty() { 0.0 } else { micros(self.all().value_at_percentile(percent) as f64) }
    }

    /// The mean in µs; 0 where there is none.
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
