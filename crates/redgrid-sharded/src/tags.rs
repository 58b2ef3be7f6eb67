//! Hash tags that distribute shards evenly over all slots. They are the same on every client and
//! never change.

use std::sync::LazyLock;

use redgrid_core::name::slot_of;

/// The number of slots in a cluster.
const SLOTS: u32 = 16_384;

/// The maximum number of shards.
pub(crate) const MAX_SHARDS: u32 = 1024;

/// The length of the longest tag.
pub(crate) const MAX_TAG_LENGTH: usize = 4;

/// The characters of a tag, in the order in which they are tried.
const CHARACTERS: &[u8; 36] = b"0123456789abcdefghijklmnopqrstuvwxyz";

/// The tags, for each slot that is a multiple of 16. The tag of a slot is the first tag of three
/// characters that is in this slot, in the order of `CHARACTERS`; if there is none, the first of
/// four.
static TAGS: LazyLock<Vec<String>> = LazyLock::new(|| {
    let mut tags = vec![String::new(); MAX_SHARDS as usize];
    let mut missing = tags.len();
    for length in 3_u32.. {
        for number in 0..36_usize.pow(length) {
            let character = |position: u32| char::from(CHARACTERS[number / 36_usize.pow(position) % 36]);
            let tag: String = (0..length).rev().map(character).collect();
            let slot = u32::from(slot_of(tag.as_bytes()));
            let slot_tag = &mut tags[(slot / (SLOTS / MAX_SHARDS)) as usize];
            if slot.is_multiple_of(SLOTS / MAX_SHARDS) && slot_tag.is_empty() {
                *slot_tag = tag;
                missing -= 1;
            }
            if missing == 0 {
                return tags;
            }
        }
    }
    tags
});

/// Returns the tag of a shard. Its slot is `shard × 16384 / shards`.
pub(crate) fn tag(shard: u32, shards: u32) -> &'static str {
    &TAGS[(shard * (MAX_SHARDS / shards)) as usize]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_tag_is_in_its_slot() {
        for shards in [1, 2, 16, 1024] {
            for shard in 0..shards {
                assert_eq!(
                    u32::from(slot_of(tag(shard, shards).as_bytes())),
                    shard * SLOTS / shards,
                    "{shard} of {shards}"
                );
            }
        }
    }

    /// If tags changed, stored entries would not be found.
    #[test]
    fn tags_never_change() {
        let four: Vec<&str> = (0..4).map(|shard| tag(shard, 4)).collect();
        assert_eq!(four, ["1bz", "17p", "fjl", "356"]);
        let all: Vec<u8> = (0..MAX_SHARDS).flat_map(|shard| tag(shard, MAX_SHARDS).bytes().chain([b' '])).collect();
        assert_eq!(redgrid_codecs::element_hash(&all), "bjWF7uYPv364LRNsxPu3tA");
    }

    /// Checks this for numbers of nodes that share the slots evenly.
    #[test]
    fn each_node_has_its_share_of_the_shards() {
        for nodes in 1..=12_u32 {
            for shards in [64, 256, 1024] {
                let mut counts = vec![0_u32; nodes as usize];
                for shard in 0..shards {
                    let slot = u32::from(slot_of(tag(shard, shards).as_bytes()));
                    counts[(slot * nodes / SLOTS) as usize] += 1;
                }
                let share = f64::from(shards) / f64::from(nodes);
                assert!(
                    counts.iter().all(|count| (f64::from(*count) / share - 1.0).abs() < 0.2),
                    "{nodes} {shards}: {counts:?}"
                );
            }
        }
    }
}
