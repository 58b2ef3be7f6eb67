//! Errors of encoding and decoding.

use std::borrow::Cow;

use crate::{Codec, LooksLike};

/// Why a value was not written. The error contains nothing of the value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EncodeError {
    /// The codec's format cannot represent it.
    #[error("{codec} writes {expected}, not {found}")]
    Unsupported {
        /// The codec.
        codec: Cow<'static, str>,
        /// The values that it writes.
        expected: String,
        /// The content of the value that it cannot write.
        found: String,
    },
    /// It is nested deeper than values that can be read.
    #[error("{codec} writes values of up to {limit} levels, and this one is nested deeper")]
    TooDeep {
        /// The codec.
        codec: Cow<'static, str>,
        /// [`MAX_DEPTH`](crate::MAX_DEPTH).
        limit: usize,
    },
    /// It has more bytes than a server accepts. For a compressing codec: more than it would
    /// decompress.
    #[error("{codec} writes values of up to {limit} bytes, and this one has {size}")]
    TooLarge {
        /// The codec.
        codec: Cow<'static, str>,
        /// Its number of bytes.
        size: usize,
        /// The maximum.
        limit: usize,
    },
    /// It has more elements without bytes (such as `()`) than values that can be read.
    #[error("{codec} writes up to {limit} elements that take no bytes, and this value has more")]
    TooMany {
        /// The codec.
        codec: Cow<'static, str>,
        /// The maximum.
        limit: usize,
    },
}

impl EncodeError {
    /// Returns the error of a codec of your own: `codec` writes `expected`, and the value has
    /// `found`.
    ///
    /// `found` should describe the value without its content, since errors are logged.
    pub fn unsupported(codec: &impl Codec, expected: impl Into<String>, found: impl Into<String>) -> EncodeError {
        EncodeError::Unsupported { codec: codec.name(), expected: expected.into(), found: found.into() }
    }
}

/// Why the bytes of one value were not read. The error contains neither the value nor its bytes.
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
        /// The codec that may have written the bytes: a guess by the first ones.
        looks_like: Option<LooksLike>,
    },
    /// It is nested deeper than the limit.
    #[error("{codec} reads values of up to {limit} levels, and this one is nested deeper")]
    TooDeep {
        /// The codec.
        codec: Cow<'static, str>,
        /// [`MAX_DEPTH`](crate::MAX_DEPTH).
        limit: usize,
    },
    /// By its header, its decompressed size exceeds the codec's limit.
    #[error("{codec} decompresses up to {limit} bytes, and this value says that it has {size}")]
    TooLarge {
        /// The codec.
        codec: Cow<'static, str>,
        /// The number of bytes in the header.
        size: u64,
        /// The maximum.
        limit: u64,
    },
    /// It has more elements without bytes (such as `()`) than the limit.
    #[error("{codec} reads up to {limit} elements that take no bytes, and this value says that it has more")]
    TooMany {
        /// The codec.
        codec: Cow<'static, str>,
        /// The maximum.
        limit: usize,
    },
}

impl DecodeError {
    /// Returns the error of a codec of your own: `codec` expected `expected`, and found `bytes`.
    ///
    /// The error has only the number of bytes, and the codec that they [look like](LooksLike).
    pub fn unexpected(codec: &impl Codec, bytes: &[u8], expected: impl Into<String>) -> DecodeError {
        let found = match bytes.len() {
            0 => "nothing".to_owned(),
            1 => "1 byte".to_owned(),
            many => format!("{many} bytes"),
        };
        let codec = codec.name();
        // The codec itself is no useful guess.
        let looks_like = LooksLike::guess(bytes).filter(|guess| !guess.is_of(&codec));
        DecodeError::Unexpected { codec, expected: expected.into(), found, looks_like }
    }

    /// Returns the error with another description of the found bytes.
    ///
    /// It should not contain the value, since errors are logged.
    #[must_use]
    pub fn found(mut self, what: impl Into<String>) -> DecodeError {
        if let DecodeError::Unexpected { found, .. } = &mut self {
            *found = what.into();
        }
        self
    }

    /// Returns the error with the description that `bytes` bytes follow the value.
    #[must_use]
    pub fn left_over(self, bytes: usize) -> DecodeError {
        match bytes {
            1 => self.found("1 more byte behind a value"),
            many => self.found(format!("{many} more bytes behind a value")),
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
