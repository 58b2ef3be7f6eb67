//! How large a Bloom filter is, and which of its bits an element has: as Redisson chooses them.

use highway::{HighwayHash, HighwayHasher, Key};

/// Redisson's key of HighwayHash (`org.redisson.misc.Hash`).
const KEY: [u64; 4] = [0x9e37_79b9_7f4a_7c15, 0xf39c_c060_5ced_c834, 0x1082_276b_f3a2_7251, 0xf86c_6a11_d0c1_8e95];

/// Redisson's largest size: 512 MiB but for two bits.
pub(crate) const LARGEST: u64 = 4_294_967_294;

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
    /// The smallest filter for so many elements and such a share; as Redisson reckons.
    pub(crate) fn of(expected_insertions: u64, false_probability: f64) -> FilterConfig {
        let elements = expected_insertions as f64;
        let size = (-elements * false_probability.ln() / (2_f64.ln() * 2_f64.ln())) as u64;
        let hashes = (size as f64 / elements * 2_f64.ln()).round() as u32;
        FilterConfig { size, hash_iterations: hashes.max(1), expected_insertions, false_probability }
    }
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
        let [one, two] = HighwayHasher::new(Key(KEY)).hash128(bytes);
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

    #[test]
    fn a_filter_is_as_large_as_redissons() {
        let of = |elements, share| {
            let FilterConfig { size, hash_iterations, .. } = FilterConfig::of(elements, share);
            (size, hash_iterations)
        };
        assert_eq!(of(1000, 0.01), (9585, 7));
        assert_eq!(of(55_000_000, 0.03), (401_436_619, 5));
        assert_eq!(of(1, 0.9), (0, 1));
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
