//! Hash tags by which parts are spread evenly over all slots: the same on every client, for ever.

use std::sync::LazyLock;

use redgrid_core::name::slot_of;

/// How many slots a cluster has.
const SLOTS: u32 = 16_384;

/// How many parts there are at most.
pub(crate) const MOST: u32 = 1024;

/// How many bytes the longest tag has.
pub(crate) const LONGEST: usize = 4;

/// The characters of a tag, in the order in which they are tried.
const CHARACTERS: &[u8; 36] = b"0123456789abcdefghijklmnopqrstuvwxyz";

/// Of each slot that is a multiple of 16 the first tag of three characters, in the order of `CHARACTERS`, that is in it; where there is none,
/// the first of four.
static TAGS: LazyLock<Vec<String>> = LazyLock::new(|| {
    let mut tags = vec![String::new(); MOST as usize];
    let mut missing = tags.len();
    for length in 3_u32.. {
        for number in 0..36_usize.pow(length) {
            let character = |place: u32| char::from(CHARACTERS[number / 36_usize.pow(place) % 36]);
            let tag: String = (0..length).rev().map(character).collect();
            let slot = u32::from(slot_of(tag.as_bytes()));
            let wanted = &mut tags[(slot / (SLOTS / MOST)) as usize];
            if slot.is_multiple_of(SLOTS / MOST) && wanted.is_empty() {
                *wanted = tag;
                missing -= 1;
            }
            if missing == 0 {
                return tags;
            }
        }
    }
    tags
});

/// The tag of a part: its slot is `part × 16384 / parts`.
pub(crate) fn tag(part: u32, parts: u32) -> &'static str {
    &TAGS[(part * (MOST / parts)) as usize]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_tag_is_in_its_slot() {
        for parts in [1, 2, 16, 1024] {
            for part in 0..parts {
                assert_eq!(u32::from(slot_of(tag(part, parts).as_bytes())), part * SLOTS / parts, "{part} of {parts}");
            }
        }
    }

    /// Another tag would be another place: what is stored would not be found.
    #[test]
    fn tags_never_change() {
        let four: Vec<&str> = (0..4).map(|part| tag(part, 4)).collect();
        assert_eq!(four, ["1bz", "17p", "fjl", "356"]);
        let all: Vec<u8> = (0..MOST).flat_map(|part| tag(part, MOST).bytes().chain([b' '])).collect();
        assert_eq!(redgrid_codecs::element_hash(&all), "bjWF7uYPv364LRNsxPu3tA");
    }

    /// However many nodes share the slots evenly.
    #[test]
    fn each_node_has_its_share_of_the_parts() {
        for nodes in 1..=12_u32 {
            for parts in [64, 256, 1024] {
                let mut has = vec![0_u32; nodes as usize];
                for part in 0..parts {
                    let slot = u32::from(slot_of(tag(part, parts).as_bytes()));
                    has[(slot * nodes / SLOTS) as usize] += 1;
                }
                let share = f64::from(parts) / f64::from(nodes);
                assert!(has.iter().all(|has| (f64::from(*has) / share - 1.0).abs() < 0.2), "{nodes} {parts}: {has:?}");
            }
        }
    }
}
