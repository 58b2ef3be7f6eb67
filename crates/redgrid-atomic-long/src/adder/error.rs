//! What can be wrong with an adder, and what is true then.

use std::time::Duration;

use redgrid_core::name::InvalidName;
use redgrid_core::{Name, ServerError};

use super::figure::Amount;

/// Why an adder was not summed, reset or ended, or a number not added.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum AdderError {
    /// Not all who count have answered in time: one stands still, or is cut off. Of a reset: who had not answered may be reset all
    /// the same.
    #[error("{answered} of {expected} who count for `{name}` answered within {within:?}")]
    Partial {
        /// The adder.
        name: Name,
        /// So many have.
        answered: u64,
        /// So many were asked.
        expected: u64,
        /// What came; 0 of a reset.
        so_far: Amount,
        /// How long was waited.
        within: Duration,
    },
    /// Nobody could be asked in time, or it could not be seen who answered. A reset may be done by some.
    #[error("could not ask those who count for `{name}`")]
    Unavailable {
        /// The adder.
        name: Name,
        /// What stood in the way last.
        #[source]
        source: ServerError,
    },
    /// The server does not accept this client's password, user or certificate, or its own
    /// certificate is refused. A reset may be done by some.
    #[error("not authorized to ask for `{name}`")]
    Unauthorized {
        /// The adder.
        name: Name,
        /// The words of the server, or what is wrong with the certificate.
        #[source]
        source: ServerError,
    },
    /// The server refused: wrong type under a name, no permission, no memory. A reset may be done by some.
    #[error("the server refused what was asked of `{name}`")]
    Refused {
        /// The adder.
        name: Name,
        /// The server's words and their class.
        #[source]
        source: ServerError,
    },
    /// The sum is beyond what a number can be. Where it was to be added to, nothing is added.
    #[error("the sum of `{name}` is beyond what a number can be")]
    Overflow {
        /// The adder.
        name: Name,
    },
    /// Under the names of the adder is something else.
    #[error("`{name}` is no such adder: expected {expected}, got `{got}`")]
    NotANumber {
        /// The adder.
        name: Name,
        /// What would have fitted.
        expected: &'static str,
        /// What is there.
        got: String,
    },
    /// This client counts for an adder of the other kind with that name. Nothing is added.
    #[error("`{name}` is a {is} in this client")]
    OtherKind {
        /// The adder.
        name: Name,
        /// The kind.
        is: &'static str,
    },
    /// The client is being shut down.
    #[error("the client is shut down; `{name}` was not asked for")]
    ShuttingDown {
        /// The adder.
        name: Name,
    },
    /// What was counted here since the last save could not be saved.
    #[error("what was counted for `{name}` could not be saved")]
    NotSaved {
        /// The adder.
        name: Name,
        /// What stood in the way last.
        #[source]
        source: ServerError,
    },
    /// The name can not be used. Nothing is added or asked.
    #[error(transparent)]
    InvalidName(#[from] InvalidName),
    /// A value can not be. Nothing is added or asked.
    #[error("invalid {option} for `{name}`: expected {expected}, got {got}")]
    InvalidArgument {
        /// The adder.
        name: Name,
        /// What was given.
        option: &'static str,
        /// What is allowed.
        expected: &'static str,
        /// Its value.
        got: String,
    },
}

impl AdderError {
    /// Of a question.
    pub(super) fn of(name: &Name, source: ServerError) -> Self {
        let name = name.clone();
        match source {
            ServerError::Refused { .. } => AdderError::Refused { name, source },
            ServerError::Decode { expected, got } => AdderError::NotANumber { name, expected, got },
            ServerError::Unauthorized { .. } => AdderError::Unauthorized { name, source },
            ServerError::ShuttingDown => AdderError::ShuttingDown { name },
            _ => AdderError::Unavailable { name, source },
        }
    }
}
