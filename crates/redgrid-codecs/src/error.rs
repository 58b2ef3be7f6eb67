//! Errors of encoding and decoding.

use std::borrow::Cow;

use crate::{Codec, LooksLike};

/// The reason that a value was not written. The error contains no part of the value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EncodeError {
    /// The codec's format cannot represent the value.
    #[error("{codec} writes {expected}, not {found}")]
    Unsupported {
        /// The codec.
        codec: Cow<'static, str>,
        /// The values that the codec can write.
        expected: String,
        /// The part of the value that the codec cannot write.
        found: String,
    },
    /// The value is nested deeper than the limit for reading.
    #[error("{codec} writes values of up to {limit} levels, and this one is nested deeper")]
    TooDeep {
        /// The codec.
        codec: Cow<'static, str>,
        /// [`MAX_DEPTH`](crate::MAX_DEPTH).
        limit: usize,
    },
    /// The value has more bytes than a server accepts or, for a compressing codec, more bytes than
    /// it would decompress.
    #[error("{codec} writes values of up to {limit} bytes, and this one has {size}")]
    TooLarge {
        /// The codec.
        codec: Cow<'static, str>,
        /// The number of bytes of the value.
        size: usize,
        /// The maximum.
        limit: usize,
    },
    /// The value has more elements without bytes (such as `()`) than the limit for reading.
    #[error("{codec} writes up to {limit} elements that take no bytes, and this value has more")]
    TooMany {
        /// The codec.
        codec: Cow<'static, str>,
        /// The maximum.
        limit: usize,
    },
}

impl EncodeError {
    /// Returns the error of your own codec: `codec` can write `expected`, and the value contains
    /// `found`.
    ///
    /// `found` should describe the value without its content, because errors are logged.
    pub fn unsupported(codec: &impl Codec, expected: impl Into<String>, found: impl Into<String>) -> EncodeError {
        EncodeError::Unsupported { codec: codec.name(), expected: expected.into(), found: found.into() }
    }
}

/// The reason that the bytes of a value were not read. The error contains neither the value nor its
/// bytes.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DecodeError {
    /// The bytes are not a value of this codec, or not of this type.
    #[error("{codec} expected {expected}, found {found}{}", looks(looks_like))]
    Unexpected {
        /// The codec.
        codec: Cow<'static, str>,
        /// The expected content.
        expected: String,
        /// The found content.
        found: String,
        /// The codec that may have written the bytes, guessed from the first bytes.
        looks_like: Option<LooksLike>,
    },
    /// The value is nested deeper than the limit.
    #[error("{codec} reads values of up to {limit} levels, and this one is nested deeper")]
    TooDeep {
        /// The codec.
        codec: Cow<'static, str>,
        /// [`MAX_DEPTH`](crate::MAX_DEPTH).
        limit: usize,
    },
    /// According to its header, the decompressed size exceeds the codec's limit.
    #[error("{codec} decompresses up to {limit} bytes, and this value states a length of {size}")]
    TooLarge {
        /// The codec.
        codec: Cow<'static, str>,
        /// The number of bytes in the header.
        size: u64,
        /// The maximum.
        limit: u64,
    },
    /// The value has more elements without bytes (such as `()`) than the limit.
    #[error("{codec} reads up to {limit} elements that take no bytes, and this value states more of them")]
    TooMany {
        /// The codec.
        codec: Cow<'static, str>,
        /// The maximum.
        limit: usize,
    },
}

impl DecodeError {
    /// Returns the error of your own codec: `codec` expected `expected`, and found `bytes`.
    ///
    /// The error does not contain the bytes, but their number, and the codec with a format that
    /// they [resemble](LooksLike).
    pub fn unexpected(codec: &impl Codec, bytes: &[u8], expected: impl Into<String>) -> DecodeError {
        let found = match bytes.len() {
            0 => "nothing".to_owned(),
            1 => "1 byte".to_owned(),
            many => format!("{many} bytes"),
        };
        let codec = codec.name();
        // The codec itself is not a useful guess.
        let looks_like = LooksLike::guess(bytes).filter(|guess| !guess.is_of(&codec));
        DecodeError::Unexpected { codec, expected: expected.into(), found, looks_like }
    }

    /// Returns the error with another description of the found bytes.
    ///
    /// The description should not contain the value, because errors are logged.
    #[must_use]
    pub fn found(mut self, what: impl Into<String>) -> DecodeError {
        if let DecodeError::Unexpected { found, .. } = &mut self {
            *found = what.into();
        }
        self
    }

    /// Returns the error with the description that this number of bytes follows the value.
    #[must_use]
    pub fn left_over(self, bytes: usize) -> DecodeError {
        match bytes {
            1 => self.found("1 more byte after a value"),
            many => self.found(format!("{many} more bytes after a value")),
        }
    }

    /// Returns the name of the codec.
    pub fn codec(&self) -> &str {
        match self {
            DecodeError::Unexpected { codec, .. }
            | DecodeError::TooDeep { codec, .. }
            | DecodeError::TooLarge { codec, .. }
            | DecodeError::TooMany { codec, .. } => codec,
        }
    }

    /// Returns the codec that may have written the bytes, if there is a guess.
    pub fn looks_like(&self) -> Option<&LooksLike> {
        match self {
            DecodeError::Unexpected { looks_like, .. } => looks_like.as_ref(),
            _ => None,
        }
    }
}

fn looks(guess: &Option<LooksLike>) -> String {
    guess.as_ref().map(|guess| format!("; they look like {guess}")).unwrap_or_default()
}

/// Cuts a text to at most 120 characters.
pub(crate) fn cut(text: &str) -> String {
    match text.char_indices().nth(120) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
