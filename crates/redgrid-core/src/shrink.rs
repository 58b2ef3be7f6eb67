//! Maps that were large give their room back: a client that had much in hand once is as small as any other afterwards.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hash};

/// With fewer than these in a map it is left as it is: a client that goes on has use for the room.
const MIN_LEN: usize = 512;

/// To be called when something was taken from a map: has it give back what is more than four times as much as it needs.
///
/// That is looked at when as many are left as a power of two. (What a map tells of its capacity leaves out the traces of what was
/// removed, and says little.) A map that is moved has to grow four times as large before it is moved at that number again, so it costs
/// each removal little.
pub(crate) fn shrink_if_sparse<K: Eq + Hash, V, S: BuildHasher>(map: &mut HashMap<K, V, S>) {
    let left = map.len();
    if left >= MIN_LEN && left.is_power_of_two() {
        map.shrink_to(left * 4);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a map of these has room for.
    fn capacity_of<V>(mut map: HashMap<u32, V>) -> usize {
        // Without the traces of what was removed.
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
    fn a_map_in_use_keeps_its_room() {
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
