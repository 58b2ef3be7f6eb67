//! What can be wrong with a value and with its bytes.

use std::borrow::Cow;

use crate::{Codec, LooksLike};

/// Why a value was not written. Nothing of the value is in it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EncodeError {
    /// The codec's format has no way to write it.
    #[error("{codec} writes {expected}, not {found}")]
    Unsupported {
        /// Which codec.
        codec: Cow<'static, str>,
        /// What it writes.
        expected: String,
        /// What the value has.
        found: String,
    },
    /// It is nested deeper than it could be read again.
    #[error("{codec} writes values of up to {limit} levels, and this one is nested deeper")]
    TooDeep {
        /// Which codec.
        codec: Cow<'static, str>,
        /// [`MAX_DEPTH`](crate::MAX_DEPTH).
        limit: usize,
    },
    /// It has more bytes than a server takes, or, if it is to be compressed, than would be decompressed again.
    #[error("{codec} writes values of up to {limit} bytes, and this one has {size}")]
    TooLarge {
        /// Which codec.
        codec: Cow<'static, str>,
        /// How many bytes it has.
        size: usize,
        /// How many it may have.
        limit: usize,
    },
    /// It has more elements that take no bytes (such as `()`) than would be read again.
    #[error("{codec} writes up to {limit} elements that take no bytes, and this value has more")]
    TooMany {
        /// Which codec.
        codec: Cow<'static, str>,
        /// How many it may have.
        limit: usize,
    },
}

impl EncodeError {
    /// For codecs of your own: `codec` writes `expected`, and the value has `found`, which should not tell the value.
    pub fn unsupported(codec: &impl Codec, expected: impl Into<String>, found: impl Into<String>) -> EncodeError {
        EncodeError::Unsupported { codec: codec.name(), expected: expected.into(), found: found.into() }
    }
}

/// Why bytes were not read: about this one value. The value is not in it, nor are its bytes.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DecodeError {
    /// The bytes are no value of this codec, or none of this type.
    #[error("{codec} expected {expected}, found {found}{}", looks(looks_like))]
    Unexpected {
        /// Which codec.
        codec: Cow<'static, str>,
        /// What it expected.
        expected: String,
        /// What there was.
        found: String,
        /// Which other codec may have written it, by its first bytes: a guess.
        looks_like: Option<LooksLike>,
    },
    /// It is nested deeper than the limit.
    #[error("{codec} reads values of up to {limit} levels, and this one is nested deeper")]
    TooDeep {
        /// Which codec.
        codec: Cow<'static, str>,
        /// [`MAX_DEPTH`](crate::MAX_DEPTH).
        limit: usize,
    },
    /// It says of itself that it has more bytes, decompressed, than the codec's limit.
    #[error("{codec} decompresses up to {limit} bytes, and this value says that it has {size}")]
    TooLarge {
        /// Which codec.
        codec: Cow<'static, str>,
        /// How many bytes it says.
        size: u64,
        /// How many it may have.
        limit: u64,
    },
    /// It has more elements that take no bytes (such as `()`) than the limit.
    #[error("{codec} reads up to {limit} elements that take no bytes, and this value says that it has more")]
    TooMany {
        /// Which codec.
        codec: Cow<'static, str>,
        /// How many it may have.
        limit: usize,
    },
}

impl DecodeError {
    /// For codecs of your own: `codec` expected `expected`, and there were these `bytes`, of which only their number
    /// and [what they look like](LooksLike) is told.
    pub fn unexpected(codec: &impl Codec, bytes: &[u8], expected: impl Into<String>) -> DecodeError {
        let found = match bytes.len() {
            0 => "nothing".to_owned(),
            1 => "1 byte".to_owned(),
            many => format!("{many} bytes"),
        };
        let codec = codec.name();
        // What it is written in is no news.
        let looks_like = LooksLike::guess(bytes).filter(|guess| !guess.is_of(&codec));
        DecodeError::Unexpected { codec, expected: expected.into(), found, looks_like }
    }

    /// The same, with other words for what was found, which should not tell the value.
    #[must_use]
    pub fn found(mut self, what: impl Into<String>) -> DecodeError {
        if let DecodeError::Unexpected { found, .. } = &mut self {
            *found = what.into();
        }
        self
    }

    /// The same, where so many bytes are left behind a value.
    #[must_use]
    pub fn left_over(self, bytes: usize) -> DecodeError {
        match bytes {
            1 => self.found("1 more byte behind a value"),
            many => self.found(format!("{many} more bytes behind a value")),
        }
    }

    /// Which codec refused.
    pub fn codec(&self) -> &str {
        match self {
            DecodeError::Unexpected { codec, .. }
            | DecodeError::TooDeep { codec, .. }
            | DecodeError::TooLarge { codec, .. }
            | DecodeError::TooMany { codec, .. } => codec,
        }
    }

    /// Which other codec may have written the bytes.
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

/// At most 120 characters.
pub(crate) fn cut(text: &str) -> String {
    match text.char_indices().nth(120) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
