//! The hash by which Redisson names what belongs to a key of a map, and chooses the bits of a Bloom filter.

use highway::{HighwayHash, HighwayHasher, Key};

/// What Redisson hashes with: `org.redisson.misc.Hash`.
const KEY: Key = Key([0x9e37_79b9_7f4a_7c15, 0xf39c_c060_5ced_c834, 0x1082_276b_f3a2_7251, 0xf86c_6a11_d0c1_8e95]);

/// The 128 bits of HighwayHash, in two halves as Redisson has them.
pub fn hash128(bytes: &[u8]) -> [u64; 2] {
    HighwayHasher::new(KEY).hash128(bytes)
}
