//! How numbers are compared.

/// How a number compares to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Comparison {
    /// It is less.
    Less,
    /// It is less or equal.
    LessOrEqual,
    /// It is greater.
    Greater,
    /// It is greater or equal.
    GreaterOrEqual,
    /// It is equal.
    Equal,
    /// It is another.
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
