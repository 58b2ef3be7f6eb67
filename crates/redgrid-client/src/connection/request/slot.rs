//! The slot of a key as defined by the cluster specification: CRC16 of the hash tag, or of the
//! whole key, modulo 16,384.

pub(crate) const SLOTS: u16 = 16_384;

pub(crate) fn slot(key: &[u8]) -> u16 {
    fred::util::redis_keyslot(key)
}

/// Returns the part of a key that decides its slot.
pub(crate) fn hash_tag(key: &[u8]) -> &[u8] {
    let tag = || {
        let (_, rest) = key.split_at_checked(key.iter().position(|byte| *byte == b'{')? + 1)?;
        let tag = rest.get(..rest.iter().position(|byte| *byte == b'}')?)?;
        (!tag.is_empty()).then_some(tag)
    };
    tag().unwrap_or(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_one_hash_tag_share_a_slot() {
        // The example of the cluster specification, and results of CLUSTER KEYSLOT.
        assert_eq!(slot(b"123456789"), 0x31C3);
        assert_eq!(slot(b"{user1000}.following"), slot(b"{user1000}.followers"));
        assert_eq!(slot(b"redisson_lock__channel:{orders:42}"), slot(b"orders:42"));
        assert_eq!(slot(b"foo{}{bar}"), slot(b"foo{}{bar}"));
        for key in [&b"orders:42"[..], b"{user1000}.following", b"foo{{bar}}zap", b"foo{bar}{zap}"] {
            assert_eq!(slot(&[b"redgrid_commit:{", hash_tag(key), b"}"].concat()), slot(key), "{key:?}");
        }
        assert!(slot(b"foo{{bar}}zap") == slot(b"{bar") && slot(b"") < SLOTS);
    }
}
