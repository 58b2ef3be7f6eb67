//! The label of a hold.

use std::sync::Arc;

use crate::failure::Failure;
use crate::name::Name;

/// A short text that an application gives to a hold, for reports about the client.
///
/// A label is cheap to clone. It is not stored on the server.
#[derive(Clone, Debug, PartialEq, Eq)]
// An `Arc<str>` would take twice the space in each request, and few requests have a label.
pub struct Label(Arc<String>);

impl Label {
    /// Maximum length of a label: 64 bytes.
    pub const MAX_BYTES: usize = 64;

    /// Creates a label with this text. [`Label::check`] reports a text that is too long.
    pub fn new(text: impl Into<String>) -> Self {
        Label(Arc::new(text.into()))
    }

    /// Returns the text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Validates the label of a request about `name`.
    ///
    /// # Errors
    ///
    /// [`Failure::InvalidArgument`] if the label has more than [`Label::MAX_BYTES`].
    pub fn check(&self, name: &Name) -> Result<(), Failure> {
        if self.0.len() <= Label::MAX_BYTES {
            return Ok(());
        }
        Err(Failure::invalid_argument(name, "label", "at most 64 bytes", format!("{} bytes", self.0.len())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_has_at_most_64_bytes() {
        let name = Name::new("orders:1").unwrap();
        assert!(Label::new("").check(&name).is_ok() && Label::new("ä".repeat(32)).check(&name).is_ok());
        let failure = Label::new("x".repeat(65)).check(&name).unwrap_err();
        assert_eq!(failure.to_string(), "invalid label for `orders:1`: expected at most 64 bytes, got 65 bytes");
    }
}
