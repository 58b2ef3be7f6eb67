//! Short texts that become [`Bytes`] with one allocation each.
//!
//! A string that grows and is then converted to [`Bytes`] would need three allocations.

use bytes::Bytes;

/// Maximum length of a text in bytes: the length of a holder field, which is a UUID, a colon and a
/// number of up to twelve digits.
///
/// For longer texts, callers use strings, which need more allocations.
const CAPACITY: usize = 49;

/// A short text in an array, to which bytes can be appended.
#[derive(Clone, Copy)]
pub(crate) struct InlineBytes {
    text: [u8; CAPACITY],
    length: u8,
}

impl InlineBytes {
    pub(crate) const fn new() -> InlineBytes {
        InlineBytes { text: [0; CAPACITY], length: 0 }
    }

    /// Appends bytes. Returns `None` if there is no room for them.
    pub(crate) fn with(mut self, more: &[u8]) -> Option<InlineBytes> {
        let (from, to) = (usize::from(self.length), usize::from(self.length) + more.len());
        self.text.get_mut(from..to)?.copy_from_slice(more);
        self.length = u8::try_from(to).ok()?;
        Some(self)
    }

    pub(crate) fn into_bytes(self) -> Bytes {
        Bytes::from_owner(self)
    }
}

impl AsRef<[u8]> for InlineBytes {
    fn as_ref(&self) -> &[u8] {
        &self.text[..usize::from(self.length)]
    }
}

/// Returns an integer in decimal. An integer with one digit needs no allocation.
pub(crate) fn decimal(number: i64) -> Bytes {
    if let Ok(digit @ 0..10) = usize::try_from(number) {
        return Bytes::from_static(&b"0123456789"[digit..=digit]);
    }
    let text = InlineBytes::new().with(itoa::Buffer::new().format(number).as_bytes());
    text.map_or_else(|| number.to_string().into(), InlineBytes::into_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_as_they_are() {
        for number in [0, 7, 10, -1, 30_000, 9_007_199_254_740_993, i64::MAX, i64::MIN] {
            assert_eq!(decimal(number), number.to_string());
        }
    }

    #[test]
    fn text_above_the_capacity_is_refused() {
        let full = InlineBytes::new().with(&[b'x'; CAPACITY]).map(InlineBytes::into_bytes);
        assert_eq!(full.map(|text| text.len()), Some(CAPACITY));
        assert!(InlineBytes::new().with(&[b'x'; CAPACITY + 1]).is_none());
    }
}
