//! Comparisons of numbers.

/// A comparison of the stored number with a given one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Comparison {
    /// The stored number is less.
    Less,
    /// The stored number is less or equal.
    LessOrEqual,
    /// The stored number is greater.
    Greater,
    /// The stored number is greater or equal.
    GreaterOrEqual,
    /// The numbers are equal.
    Equal,
    /// The numbers differ.
    NotEqual,
}

impl Comparison {
    pub(crate) fn sign(self) -> &'static str {
        match self {
            Comparison::Less => "<",
            Comparison::LessOrEqual => "<=",
            Comparison::Greater => ">",
            Comparison::GreaterOrEqual => ">=",
            Comparison::Equal => "==",
            Comparison::NotEqual => "~=",
        }
    }
}
