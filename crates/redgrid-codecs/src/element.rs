//! Redisson's names for parts of an object.

use base64::Engine;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use highway::{HighwayHash, HighwayHasher, Key};

/// The key of Redisson's hash, `org.redisson.misc.Hash`.
const KEY: Key = Key([0x9e37_79b9_7f4a_7c15, 0xf39c_c060_5ced_c834, 0x1082_276b_f3a2_7251, 0xf86c_6a11_d0c1_8e95]);

/// Returns the 128-bit HighwayHash, as two halves. Redisson derives names of elements from it, and
/// the bits of a Bloom filter.
pub fn hash128(bytes: &[u8]) -> [u64; 2] {
    HighwayHasher::new(KEY).hash128(bytes)
}

/// Returns the hash of an encoded key or value: the 128-bit HighwayHash, big endian, in base64
/// without padding. Redisson uses it in the names of keys that belong to a map key, and for the
/// values of a multimap key.
pub fn element_hash(bytes: &[u8]) -> String {
    let [high, low] = hash128(bytes);
    STANDARD_NO_PAD.encode([high.to_be_bytes(), low.to_be_bytes()].concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Compares with the name of the lock of `d` in a map of text, in Redisson 4.7.0 and 3.52.0.
    #[test]
    fn an_element_has_redissons_hash() {
        assert_eq!(element_hash(b"d"), "cCV/U3K/CnVMICY6x8GOAQ");
    }
}
