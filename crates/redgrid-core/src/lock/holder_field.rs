//! A holder field, stored compactly.

use bytes::Bytes;

use crate::inline_bytes::InlineBytes;

/// A holder field. It is sent rarely and kept for long, so each request copies it.
pub(super) enum HolderField {
    Inline(InlineBytes),
    /// A field that is longer than those of this client.
    Long(Bytes),
}

impl HolderField {
    pub(super) fn of(field: Bytes) -> Self {
        InlineBytes::new().with(&field).map_or(HolderField::Long(field), HolderField::Inline)
    }

    pub(super) fn as_bytes(&self) -> &[u8] {
        match self {
            HolderField::Inline(field) => field.as_ref(),
            HolderField::Long(field) => field,
        }
    }

    pub(super) fn to_bytes(&self) -> Bytes {
        match self {
            HolderField::Inline(field) => field.into_bytes(),
            HolderField::Long(field) => field.clone(),
        }
    }
}
