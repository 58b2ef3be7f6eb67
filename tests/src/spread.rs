//! Statistics of many durations.

use std::time::Duration;

use serde::Serialize;

/// Statistics of durations, in milliseconds: the median, the 99th percentile, and the maximum. All
/// are 0 if there are no durations.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Spread {
    /// The median.
    pub p50: f64,
    /// The 99th percentile.
    pub p99: f64,
    /// The maximum.
    pub max: f64,
}

impl Spread {
    /// Computes the statistics of durations in any order.
    pub fn of(times: &[Duration]) -> Self {
        let mut times = times.to_vec();
        times.sort();
        let at = |share: usize| {
            let place = (times.len() * share).div_ceil(100).saturating_sub(1);
            times.get(place).copied().map_or(0.0, millis)
        };
        Spread { p50: at(50), p99: at(99), max: at(100) }
    }
}

/// Converts to milliseconds, rounded to a tenth.
pub fn millis(time: Duration) -> f64 {
    (time.as_secs_f64() * 10_000.0).round() / 10.0
}

/// Returns the median; for an even number of values, the higher of the middle two; 0 without
/// values.
pub fn median(numbers: impl IntoIterator<Item = f64>) -> f64 {
    let mut numbers: Vec<f64> = numbers.into_iter().collect();
    numbers.sort_by(f64::total_cmp);
    numbers.get(numbers.len() / 2).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_and_the_one_in_the_middle_are_among_the_times() {
        let times: Vec<Duration> = (1..=200).rev().map(Duration::from_millis).collect();
        assert_eq!(Spread::of(&times), Spread { p50: 100.0, p99: 198.0, max: 200.0 });
        assert_eq!(Spread::of(&[]), Spread::default());
        assert_eq!((median([3.0, 1.0, 2.0]), median([])), (2.0, 0.0));
    }
}
