//! Shrinks maps that were large, so that a client does not keep the memory of a past peak.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hash};

/// Minimum number of remaining entries at which a map is shrunk. Below this number the map keeps
/// its capacity, because an active client soon needs the capacity again.
const MIN_LEN: usize = 512;

/// Shrinks a map if its capacity is more than four times the number of its entries. Call this
/// function after a removal.
///
/// To keep the average cost of a removal low, the function acts only when the number of remaining
/// entries is a power of two. After that, the map is not shrunk at this number again until it has
/// grown to more than four times the number. The function does not compare [`HashMap::capacity`],
/// because the capacity does not count the tombstones of removed entries.
pub fn shrink_if_sparse<K: Eq + Hash, V, S: BuildHasher>(map: &mut HashMap<K, V, S>) {
    let left = map.len();
    if left >= MIN_LEN && left.is_power_of_two() {
        map.shrink_to(left * 4);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn capacity_of<V>(mut map: HashMap<u32, V>) -> usize {
        // The capacity does not count the tombstones of removed entries, so the tombstones are
        // removed first.
        map.clear();
        map.capacity()
    }

    #[test]
    fn a_map_that_was_large_is_small_again() {
        const MANY: u32 = 100_000;
        let mut map: HashMap<u32, u32> = (0..MANY).map(|n| (n, n)).collect();
        assert!(capacity_of(map.clone()) >= MANY as usize);
        for n in 0..MANY {
            map.remove(&n);
            shrink_if_sparse(&mut map);
            let left = MANY as usize - n as usize - 1;
            if n % 997 == 0 {
                assert!(capacity_of(map.clone()) <= 16 * left.max(MIN_LEN), "{} for {left}", capacity_of(map.clone()));
            }
        }
        assert!(capacity_of(map) <= 8 * MIN_LEN);
    }

    #[test]
    fn a_map_in_use_keeps_its_capacity() {
        let mut map: HashMap<u32, u32> = (0..1_000).map(|n| (n, n)).collect();
        map.reserve(1_000);
        let before = capacity_of(map.clone());
        for n in 0..1_000 {
            map.remove(&n);
            shrink_if_sparse(&mut map);
            map.insert(n, n);
        }
        assert_eq!(capacity_of(map), before);
    }
}
