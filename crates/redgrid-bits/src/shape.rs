//! The size of a Bloom filter and the bits of an element, compatible with Redisson.

use redgrid_codecs::hash128;

/// Redisson's largest size: 512 MiB minus two bits.
pub(crate) const MAX_SIZE: u64 = 4_294_967_294;

/// A filter is larger if degenerate elements would exceed its false-positive probability. It may
/// grow to this size (64 KiB) or to twice its size without them, whichever is larger.
const SMALL_SIZE: u64 = 1 << 19;

/// The configuration of a Bloom filter: its size, and the parameters for which it was planned.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct FilterConfig {
    /// The number of bits.
    pub size: u64,
    /// The number of bits that each element sets.
    pub hash_iterations: u32,
    /// The number of elements for which the filter was planned.
    pub expected_insertions: u64,
    /// The probability of a false positive when the filter has the expected number of elements.
    pub false_probability: f64,
}

impl FilterConfig {
    /// Plans the smallest filter with a false-positive probability not higher than requested.
    ///
    /// Redisson's formula assumes that the bits of an element are independent, which is not the
    /// case. So the error rate of its filters is higher than requested: by a fifth at 0.01, and by
    /// two fifths at 0.001. The size chosen here is 4 to 6 % larger. For few elements or a small
    /// probability it is larger still: up to 64 KiB, or up to twice as many bits. Each side uses
    /// the configuration that the other has chosen.
    pub(crate) fn plan(expected_insertions: u64, false_probability: f64) -> FilterConfig {
        let elements = expected_insertions as f64;
        let least = (-elements * false_probability.ln() / (2_f64.ln() * 2_f64.ln())) as u64;
        let base = smallest_size(least, |size| {
            false_positive_rate(elements, size as f64, optimal_hashes(elements, size)) <= false_probability
        });
        // The number of hashes is not increased with the size: with more hashes, just as many bits
        // of an element would coincide.
        let hash_iterations = optimal_hashes(elements, base);
        let rate = |size: f64| {
            false_positive_rate(elements, size, hash_iterations) + degenerate_rate(elements, size, hash_iterations)
        };
        let is_negligible = degenerate_rate(elements, base as f64, hash_iterations) < false_probability / 1000.0;
        let size =
            if is_negligible { base } else { smallest_size(base, |size| rate(size as f64) <= false_probability) };
        let size = size.min(base.saturating_mul(2).max(SMALL_SIZE)).max(base);
        // The size must be odd: with an even size, half of the indices of every element would be
        // even.
        let size = if size == 0 { 0 } else { size | 1 };
        FilterConfig { size, hash_iterations, expected_insertions, false_probability }
    }
}

/// Returns the smallest size for which `fits` returns true, starting at `least`, with a precision
/// of one two-thousandth. Returns 0 or more than [`MAX_SIZE`] if there is no such size.
fn smallest_size(least: u64, fits: impl Fn(u64) -> bool) -> u64 {
    let (mut low, mut high) = (least, least.saturating_mul(4));
    // For a probability near 1, each element has only one bit, and `least` is far too small.
    while (1..=MAX_SIZE).contains(&high) && !fits(high) {
        (low, high) = (high, high.saturating_mul(2));
    }
    while high - low > 1 + least / 2000 && !fits(low) {
        let middle = low + (high - low) / 2;
        if fits(middle) {
            high = middle;
        } else {
            low = middle;
        }
    }
    if fits(low) { low } else { high }
}

/// Returns the best number of bits for each element, by Redisson's formula.
fn optimal_hashes(elements: f64, size: u64) -> u32 {
    ((size as f64 / elements * 2_f64.ln()).round() as u32).max(1)
}

/// Returns the false-positive rate of a filter with this number of elements.
///
/// With s = h1 + h2, the bits of an element are h1 + t s (first row) and (t + 1) s (second row). If
/// two elements have the first bit of the second row in common, they may have the whole row in
/// common.
fn false_positive_rate(elements: f64, size: f64, hashes: u32) -> f64 {
    let set = 1.0 - (-f64::from(hashes) * elements / size).exp();
    let second_row = hashes / 2;
    let first_row_set = set.powi((hashes - second_row) as i32);
    if second_row == 0 {
        return first_row_set;
    }
    let shared = 1.0 - (-elements / size).exp();
    first_row_set
        * (shared * shared_row_probability(second_row, set) + (set - shared) * set.powi(second_row as i32 - 1))
}

/// Returns the rate of false positives that are caused by degenerate elements, whose bits mostly
/// coincide.
///
/// Either s is 0 modulo the size, and the element has two bits. Or h1 is a small multiple of s, and
/// one row continues the other. One element in `size` elements is degenerate, which is negligible
/// in large filters.
fn degenerate_rate(elements: f64, size: f64, hashes: u32) -> f64 {
    let set = 1.0 - (-f64::from(hashes) * elements / size).exp();
    let second_row = i64::from(hashes / 2);
    let first_row = i64::from(hashes) - second_row;
    // The number of multiples of s that are in both rows: from..from + first_row, and
    // 1..=second_row.
    let in_both_rows = |from: i64| ((from + first_row - 1).min(second_row) - from.max(1) + 1).max(0);
    let rows: f64 =
        (2 - first_row..=second_row).map(|from| set.powi((i64::from(hashes) - in_both_rows(from)) as i32)).sum();
    let two_bits = if hashes > 2 { set.powi(2) } else { 0.0 };
    if second_row == 0 { 0.0 } else { (two_bits + rows) / size }
}

/// Returns the probability that all further multiples of s are set, for an element that has the
/// same s (modulo the size) as another element.
///
/// Multiples for which both elements have wrapped around equally often are the same bits. The other
/// multiples are set by chance.
fn shared_row_probability(second_row: u32, set: f64) -> f64 {
    /// A prime number, so that no multiple is on a boundary.
    const GRID: u32 = 61;
    let points = || (0..GRID).map(|n| (f64::from(n) + 0.5) / f64::from(GRID));
    let differing = |u: f64, v: f64| {
        (2..=second_row).filter(|t| (f64::from(*t) * u).floor() != (f64::from(*t) * v).floor()).count()
    };
    let sum: f64 =
        points().flat_map(|u| points().map(move |v| (u, v))).map(|(u, v)| set.powi(differing(u, v) as i32)).sum();
    sum / f64::from(GRID * GRID)
}

/// The part of a configuration that determines the bits of elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Shape {
    pub(crate) size: u64,
    pub(crate) hashes: u32,
}

impl Shape {
    /// Returns the bits of an encoded element.
    pub(crate) fn indices(self, bytes: &[u8]) -> impl Iterator<Item = u64> {
        let [h1, h2] = hash128(bytes);
        let mut hash = h1;
        (0..self.hashes).map(move |n| {
            let index = (hash & (u64::MAX >> 1)) % self.size;
            hash = hash.wrapping_add(if n % 2 == 0 { h2 } else { h1 });
            index
        })
    }

    /// Estimates the number of elements from the number of set bits.
    pub(crate) fn elements(self, bits: u64) -> u64 {
        let (size, bits) = (self.size as f64, bits as f64);
        (-size / f64::from(self.hashes) * (1.0 - bits / size).ln()).round() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the number of probes that are false positives in the filter with this number. The
    /// filters have no elements in common.
    fn false_positives(shape: Shape, filter: u64, elements: u64, probes: u64) -> usize {
        let element = |n: u64| (filter << 32 | n).to_le_bytes();
        let mut bits = vec![false; shape.size as usize];
        for n in 0..elements {
            shape.indices(&element(n)).for_each(|index| bits[index as usize] = true);
        }
        let is_in = |n: &u64| shape.indices(&element(*n)).all(|index| bits[index as usize]);
        assert!((0..elements).all(|n| is_in(&n)));
        (elements..elements + probes).filter(is_in).count()
    }

    #[test]
    fn a_filter_is_a_little_larger_than_redissons() {
        for (elements, probability, redisson_size) in
            [(1000, 0.01, 9585), (55_000_000, 0.03, 401_436_619), (1000, 0.000_1, 19_170)]
        {
            let FilterConfig { size, hash_iterations, .. } = FilterConfig::plan(elements, probability);
            assert!(
                (redisson_size..redisson_size * 110 / 100).contains(&size) && size % 2 == 1,
                "{elements} {probability}: {size}"
            );
            assert_eq!(hash_iterations, optimal_hashes(elements as f64, size));
        }
        assert_eq!(FilterConfig::plan(1, 0.9).size, 0);
        assert_eq!(FilterConfig::plan(0, 0.01).size, 0);
        assert!(FilterConfig::plan(u64::MAX, 1e-300).size > MAX_SIZE);
        assert!((10..40).contains(&FilterConfig::plan(1, 0.01).size));
        let rare = FilterConfig::plan(100, 1e-9).size;
        assert!((20_000..300_000).contains(&rare), "{rare}: what is rare costs no more than that");
        let rarest = FilterConfig::plan(10_000_000, 1e-12).size;
        assert!((575_000_000..1_700_000_000).contains(&rarest), "{rarest}: nor many times what they need otherwise");
    }

    #[test]
    fn large_probabilities_are_kept_too() {
        for elements in [1000_u64, 1_000_000] {
            for probability in [0.9, 0.95, 0.97, 0.98, 0.99, 0.999] {
                let FilterConfig { size, hash_iterations, .. } = FilterConfig::plan(elements, probability);
                let rate = false_positive_rate(elements as f64, size as f64, hash_iterations);
                assert!(size > 0 && rate <= probability, "{elements} {probability}: {size} bits, {rate}");
            }
        }
    }

    /// Tests only the hash, without a server. Each kind of filter is tested with several filters,
    /// because each has its own random deviation. The mean rate plus three standard errors must be
    /// at most a tenth above the requested rate, and the mean at most a tenth below it.
    #[test]
    fn the_false_positive_rate_is_within_a_tenth_of_the_requested_one() {
        for (elements, probability, filters, probes) in [
            (1_000_u64, 0.3, 10_u64, 2_000_u64),
            (200, 0.1, 40, 1_500),
            (10_000, 0.1, 4, 10_000),
            (1_000, 0.03, 12, 10_000),
            (2_000, 0.01, 12, 12_000),
            (20_000, 0.001, 4, 300_000),
        ] {
            let FilterConfig { size, hash_iterations, .. } = FilterConfig::plan(elements, probability);
            let shape = Shape { size, hashes: hash_iterations };
            let rates = (0..filters)
                .map(|filter| self::false_positives(shape, filter, elements, probes) as f64 / probes as f64);
            let rates: Vec<f64> = rates.collect();
            let count = filters as f64;
            let mean = rates.iter().sum::<f64>() / count;
            let variance = rates.iter().map(|rate| (rate - mean).powi(2)).sum::<f64>() / (count - 1.0) / count;
            let error = variance.max(mean / (count * probes as f64)).sqrt();
            assert!(mean + 3.0 * error <= probability * 1.1, "{elements} at {probability}: {mean} ± {error}");
            assert!(mean >= probability * 0.9, "{elements} at {probability}: {mean} ± {error}");
        }
    }

    /// The test averages over many filters, because each has its own random deviation.
    #[test]
    fn small_filters_do_not_exceed_the_requested_rate() {
        for (elements, probability, filters, probes) in [
            (1_u64, 0.1, 500_u64, 20_u64),
            (1, 0.01, 1000, 30),
            (2, 0.01, 1000, 30),
            (5, 0.01, 400, 50),
            (1, 0.001, 1000, 60),
            (20, 0.001, 100, 400),
        ] {
            let FilterConfig { size, hash_iterations, .. } = FilterConfig::plan(elements, probability);
            let shape = Shape { size, hashes: hash_iterations };
            let found: usize = (0..filters).map(|filter| self::false_positives(shape, filter, elements, probes)).sum();
            let measured = found as f64 / (filters * probes) as f64;
            assert!(
                measured <= probability * 1.2,
                "{elements} of {size} bits: asked for {probability}, found {measured}"
            );
        }
    }

    #[test]
    fn the_estimate_is_near_the_number_of_added_elements() {
        let shape = Shape { size: 9585, hashes: 7 };
        assert_eq!(shape.elements(0), 0);
        let mut bits = std::collections::HashSet::new();
        for n in 0..1000_u32 {
            bits.extend(shape.indices(&n.to_le_bytes()));
        }
        assert!((970..1030).contains(&shape.elements(bits.len() as u64)), "{}", shape.elements(bits.len() as u64));
        assert_eq!(shape.elements(9585), u64::MAX);
    }
}
