//! Fencing tokens: numbers that rise with every exclusive grant of a name. If a store remembers the
//! highest token that it has seen, it can reject writes of earlier holders.

use std::fmt;

/// The number of an exclusive grant. The number rises with every exclusive grant of the same name,
/// whichever process gets the grant.
///
/// The number is the server's time of the grant in microseconds, plus the number of hand-overs
/// within the process since that grant. It is not stored in a key, so it cannot expire or be lost
/// in a restart. It can decrease only if the server's clock goes back (`docs/objects/locks.md`
/// lists all guarantees). A fenced lock counts its tokens in a key instead, as Redisson does.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Token(u64);

impl Token {
    /// Creates a token from its number, such as a number that a store has returned.
    pub const fn new(number: u64) -> Self {
        Token(number)
    }

    /// Returns the number. It fits an `i64` until the year 294247.
    pub const fn get(self) -> u64 {
        self.0
    }
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl From<Token> for u64 {
    fn from(token: Token) -> u64 {
        token.0
    }
}
