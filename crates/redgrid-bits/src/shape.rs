//! How large a Bloom filter is, and which of its bits an element has: as Redisson chooses them.

use redgrid_codecs::hash128;

/// Redisson's largest size: 512 MiB but for two bits.
pub(crate) const LARGEST: u64 = 4_294_967_294;

/// How many bits, 64 KiB of them, are not too many for a filter that would find too much with fewer. One that is larger takes at most twice as
/// many as it would if no element had most of its own bits in common.
const SPARED: u64 = 1 << 19;

/// What a filter was made for, and what it is.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct FilterConfig {
    /// How many bits it has.
    pub size: u64,
    /// How many bits each element sets.
    pub hash_iterations: u32,
    /// How many elements it was made for.
    pub expected_insertions: u64,
    /// Which share of what is not in it is found all the same, when it has as many elements as were expected.
    pub false_probability: f64,
}

impl FilterConfig {
    /// The smallest filter by which no more than such a share is found. Redisson takes the size that would do if the bits of an element were
    /// independent of each other; as they are not, its filters find more than was asked for (a fifth more at 0.01, two fifths more at
    /// 0.001). What is chosen here is 4 to 6 % larger, and more than that for few elements or a small share: up to 64 KiB, or up to twice as
    /// many bits. Either side goes by what the other has chosen.
    pub(crate) fn of(expected_insertions: u64, false_probability: f64) -> FilterConfig {
        let elements = expected_insertions as f64;
        let least = (-elements * false_probability.ln() / (2_f64.ln() * 2_f64.ln())) as u64;
        let large = smallest(least, |size| share(elements, size as f64, hashes(elements, size)) <= false_probability);
        // By so many bits of each element: with more of them in more bits, as many would be the same again.
        let hash_iterations = hashes(elements, large);
        let found = |size: f64| share(elements, size, hash_iterations) + alike(elements, size, hash_iterations);
        let is_large = alike(elements, large as f64, hash_iterations) < false_probability / 1000.0;
        let size = if is_large { large } else { smallest(large, |size| found(size as f64) <= false_probability) };
        let size = size.min(large.saturating_mul(2).max(SPARED)).max(large);
        // Of an even size, a half of the indices would be even, whatever the element.
        let size = if size == 0 { 0 } else { size | 1 };
        FilterConfig { size, hash_iterations, expected_insertions, false_probability }
    }
}

/// The smallest size from `least` on that fits, to a two-thousandth of it; 0 or more than [`LARGEST`] where none does.
fn smallest(least: u64, fits: impl Fn(u64) -> bool) -> u64 {
    let (mut low, mut high) = (least, least.saturating_mul(4));
    // Near 1 bits are few, and each element has one: there what is least is far from enough.
    while (1..=LARGEST).contains(&high) && !fits(high) {
        (low, high) = (high, high.saturating_mul(2));
    }
    while high - low > 1 + least / 2000 && !fits(low) {
        let middle = low + (high - low) / 2;
        match fits(middle) {
            true => high = middle,
            false => low = middle,
        }
    }
    if fits(low) { low } else { high }
}

/// How many bits of each element are best, as Redisson reckons.
fn hashes(elements: f64, size: u64) -> u32 {
    ((size as f64 / elements * 2_f64.ln()).round() as u32).max(1)
}

/// Which share of others is found when so many elements are in a filter. With s = h1 + h2, the bits of an element are h1 + t s and (t + 1) s:
/// one that has its first bit of the second row in common with another element has, with some luck, the whole row in common.
fn share(elements: f64, size: f64, hashes: u32) -> f64 {
    let set = 1.0 - (-f64::from(hashes) * elements / size).exp();
    let row = hashes / 2;
    let others = set.powi((hashes - row) as i32);
    if row == 0 {
        return others;
    }
    let met = 1.0 - (-elements / size).exp();
    others * (met * in_common(row, set) + (set - met) * set.powi(row as i32 - 1))
}

/// Which share of others is found as most of their own bits are the same: s is 0 modulo the size, so that there are two of them, or h1 is a
/// small multiple of s, so that the one row goes on in the other. One in a size is so: in large filters that is too few to matter.
fn alike(elements: f64, size: f64, hashes: u32) -> f64 {
    let set = 1.0 - (-f64::from(hashes) * elements / size).exp();
    let row = i64::from(hashes / 2);
    let other = i64::from(hashes) - row;
    // The multiples from..from + other of s, and 1..=row.
    let both = |from: i64| ((from + other - 1).min(row) - from.max(1) + 1).max(0);
    let rows: f64 = (2 - other..=row).map(|from| set.powi((i64::from(hashes) - both(from)) as i32)).sum();
    let two = if hashes > 2 { set.powi(2) } else { 0.0 };
    if row == 0 { 0.0 } else { (two + rows) / size }
}

/// The share of two elements with one s, modulo the size, whose further multiples of s are all set: those on which both have wrapped around
/// as often are the same bits, and the others are set by chance.
fn in_common(row: u32, set: f64) -> f64 {
    /// A prime, so that no multiple falls on the edges.
    const GRID: u32 = 61;
    let points = || (0..GRID).map(|n| (f64::from(n) + 0.5) / f64::from(GRID));
    let both =
        |u: f64, v: f64| (2..=row).filter(|t| (f64::from(*t) * u).floor() != (f64::from(*t) * v).floor()).count();
    let sum: f64 = points().flat_map(|u| points().map(move |v| (u, v))).map(|(u, v)| set.powi(both(u, v) as i32)).sum();
    sum / f64::from(GRID * GRID)
}

/// The part of it that decides about bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Shape {
    pub(crate) size: u64,
    pub(crate) hashes: u32,
}

impl Shape {
    /// The bits of an element, by its bytes.
    pub(crate) fn indices(self, bytes: &[u8]) -> impl Iterator<Item = u64> {
        let [one, two] = hash128(bytes);
        let mut hash = one;
        (0..self.hashes).map(move |n| {
            let index = (hash & (u64::MAX >> 1)) % self.size;
            hash = hash.wrapping_add(if n % 2 == 0 { two } else { one });
            index
        })
    }

    /// About how many elements have set so many bits.
    pub(crate) fn elements(self, bits: u64) -> u64 {
        let (size, bits) = (self.size as f64, bits as f64);
        (-size / f64::from(self.hashes) * (1.0 - bits / size).ln()).round() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many of so many others are found in a filter of this number. No two filters have an element in common.
    fn found(shape: Shape, filter: u64, elements: u64, probes: u64) -> usize {
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
        for (elements, probability, redissons) in
            [(1000, 0.01, 9585), (55_000_000, 0.03, 401_436_619), (1000, 0.000_1, 19_170)]
        {
            let FilterConfig { size, hash_iterations, .. } = FilterConfig::of(elements, probability);
            assert!(
                (redissons..redissons * 110 / 100).contains(&size) && size % 2 == 1,
                "{elements} {probability}: {size}"
            );
            assert_eq!(hash_iterations, hashes(elements as f64, size));
        }
        assert_eq!(FilterConfig::of(1, 0.9).size, 0);
        assert_eq!(FilterConfig::of(0, 0.01).size, 0);
        assert!(FilterConfig::of(u64::MAX, 1e-300).size > LARGEST);
        assert!((10..40).contains(&FilterConfig::of(1, 0.01).size));
        let rare = FilterConfig::of(100, 1e-9).size;
        assert!((20_000..300_000).contains(&rare), "{rare}: what is rare costs no more than that");
        let rarest = FilterConfig::of(10_000_000, 1e-12).size;
        assert!((575_000_000..1_700_000_000).contains(&rarest), "{rarest}: nor many times what they need otherwise");
    }

    #[test]
    fn large_shares_are_kept_too() {
        for elements in [1000_u64, 1_000_000] {
            for probability in [0.9, 0.95, 0.97, 0.98, 0.99, 0.999] {
                let FilterConfig { size, hash_iterations, .. } = FilterConfig::of(elements, probability);
                let found = share(elements as f64, size as f64, hash_iterations);
                assert!(size > 0 && found <= probability, "{elements} {probability}: {size} bits, {found}");
            }
        }
    }

    /// By the hash itself, without a server. Of each kind there are several filters, each with its own luck: the share that all of them find, with
    /// three standard errors of it, is no more than a tenth above what was asked for, and the share alone no less than that below.
    #[test]
    fn what_is_found_is_within_a_tenth_of_what_was_asked_for() {
        for (elements, probability, filters, probes) in [
            (1_000_u64, 0.3, 10_u64, 2_000_u64),
            (200, 0.1, 40, 1_500),
            (10_000, 0.1, 4, 10_000),
            (1_000, 0.03, 12, 10_000),
            (2_000, 0.01, 12, 12_000),
            (20_000, 0.001, 4, 300_000),
        ] {
            let FilterConfig { size, hash_iterations, .. } = FilterConfig::of(elements, probability);
            let shape = Shape { size, hashes: hash_iterations };
            let found = (0..filters).map(|filter| self::found(shape, filter, elements, probes) as f64 / probes as f64);
            let found: Vec<f64> = found.collect();
            let count = filters as f64;
            let mean = found.iter().sum::<f64>() / count;
            let between = found.iter().map(|one| (one - mean).powi(2)).sum::<f64>() / (count - 1.0) / count;
            let error = between.max(mean / (count * probes as f64)).sqrt();
            assert!(mean + 3.0 * error <= probability * 1.1, "{elements} at {probability}: {mean} ± {error}");
            assert!(mean >= probability * 0.9, "{elements} at {probability}: {mean} ± {error}");
        }
    }

    /// Of many filters together: each has its own luck.
    #[test]
    fn small_filters_find_no_more_than_asked_for() {
        for (elements, probability, filters, probes) in [
            (1_u64, 0.1, 500_u64, 20_u64),
            (1, 0.01, 1000, 30),
            (2, 0.01, 1000, 30),
            (5, 0.01, 400, 50),
            (1, 0.001, 1000, 60),
            (20, 0.001, 100, 400),
        ] {
            let FilterConfig { size, hash_iterations, .. } = FilterConfig::of(elements, probability);
            let shape = Shape { size, hashes: hash_iterations };
            let found: usize = (0..filters).map(|filter| self::found(shape, filter, elements, probes)).sum();
            let measured = found as f64 / (filters * probes) as f64;
            assert!(
                measured <= probability * 1.2,
                "{elements} of {size} bits: asked for {probability}, found {measured}"
            );
        }
    }

    #[test]
    fn as_many_are_estimated_as_were_added() {
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
