//! The operator and the reason of an action.

use std::fmt;

/// The longest reason of an action, in characters.
const MAX_REASON: usize = 200;

/// The longest name of an operator, and of a place, in characters.
const MAX_NAME: usize = 200;

/// The person or program that acts, for the record.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Operator {
    /// The name, such as that of a user.
    pub who: String,
    /// The place, such as an address or a host.
    pub from: String,
}

impl Operator {
    /// Returns an operator. Of longer texts, the first 200 characters are recorded.
    pub fn new(who: impl AsRef<str>, from: impl AsRef<str>) -> Self {
        let cut = |text: &str| text.chars().take(MAX_NAME).collect();
        Operator { who: cut(who.as_ref()), from: cut(from.as_ref()) }
    }
}

/// The reason of an action: 1 to 200 characters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reason(String);

impl Reason {
    /// Returns the reason with this text, without spaces around it.
    ///
    /// # Errors
    ///
    /// [`InvalidReason`] if it is empty, or longer than 200 characters.
    pub fn new(text: impl AsRef<str>) -> Result<Self, InvalidReason> {
        let text = text.as_ref().trim();
        let length = text.chars().count();
        if (1..=MAX_REASON).contains(&length) { Ok(Reason(text.to_owned())) } else { Err(InvalidReason { length }) }
    }

    /// Returns the text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A text that is not a reason.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("invalid reason: expected 1 to {MAX_REASON} characters, got {length}")]
#[non_exhaustive]
pub struct InvalidReason {
    /// The number of characters, without spaces around them.
    pub length: usize,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_is_a_short_text() {
        assert_eq!(Reason::new("  stuck since noon\n").map(|reason| reason.to_string()), Ok("stuck since noon".into()));
        assert_eq!(Reason::new(" \n"), Err(InvalidReason { length: 0 }));
        assert!(Reason::new("ü".repeat(200)).is_ok());
        assert_eq!(
            Reason::new("ü".repeat(201)).unwrap_err().to_string(),
            "invalid reason: expected 1 to 200 characters, got 201"
        );
        assert_eq!(Operator::new("a".repeat(300), "").who.len(), 200);
    }
}
