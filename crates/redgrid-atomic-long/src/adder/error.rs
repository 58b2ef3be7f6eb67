//! The errors of adders. Each variant states what is true afterwards.

use std::time::Duration;

use redgrid_core::name::InvalidName;
use redgrid_core::{Name, ServerError};

use super::adder_number::Amount;

/// The error of an operation of an adder: a sum, a reset, an addition, or its end.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum AdderError {
    /// Not all members answered in time: one is suspended or has lost its connection.
    ///
    /// After a reset, members that did not answer may be reset, too.
    #[error("{answered} of {expected} who count for `{name}` answered within {within:?}")]
    Partial {
        /// The adder.
        name: Name,
        /// The number of members that answered.
        answered: u64,
        /// The number of members that received the request.
        expected: u64,
        /// The sum of the answers; 0 for a reset.
        so_far: Amount,
        /// The timeout of the call.
        within: Duration,
    },
    /// The request could not be sent in time, or the answers could not be read. Some members may
    /// have been reset.
    #[error("could not ask those who count for `{name}`")]
    Unavailable {
        /// The adder.
        name: Name,
        /// The error of the last attempt.
        #[source]
        source: ServerError,
    },
    /// The server does not accept this client's password, user or certificate, or its own
    /// certificate is rejected. Some members may have been reset.
    #[error("not authorized to ask for `{name}`")]
    Unauthorized {
        /// The adder.
        name: Name,
        /// The server's message, or the problem with the certificate.
        #[source]
        source: ServerError,
    },
    /// The server refused: a key has another type, no permission, or no memory. Some members may
    /// have been reset.
    #[error("the server refused what was asked of `{name}`")]
    Refused {
        /// The adder.
        name: Name,
        /// The server's message and its error code.
        #[source]
        source: ServerError,
    },
    /// The sum is outside of the range of the type. If the call was an addition, nothing was added.
    #[error("the sum of `{name}` is beyond what a number can be")]
    Overflow {
        /// The adder.
        name: Name,
    },
    /// A key of the adder has another value.
    #[error("`{name}` is no such adder: expected {expected}, got `{got}`")]
    NotANumber {
        /// The adder.
        name: Name,
        /// What was expected.
        expected: &'static str,
        /// The value.
        got: String,
    },
    /// This client has an adder of the other type with that name. Nothing was added.
    #[error("`{name}` is a {is} in this client")]
    OtherKind {
        /// The adder.
        name: Name,
        /// The type.
        is: &'static str,
    },
    /// The client is being shut down.
    #[error("the client is shut down; `{name}` was not asked for")]
    ShuttingDown {
        /// The adder.
        name: Name,
    },
    /// The count since the last save could not be saved.
    #[error("what was counted for `{name}` could not be saved")]
    NotSaved {
        /// The adder.
        name: Name,
        /// The error of the last attempt.
        #[source]
        source: ServerError,
    },
    /// The name is invalid. Nothing was added, and no request was sent.
    #[error(transparent)]
    InvalidName(#[from] InvalidName),
    /// An argument is invalid. Nothing was added, and no request was sent.
    #[error("invalid {option} for `{name}`: expected {expected}, got {got}")]
    InvalidArgument {
        /// The adder.
        name: Name,
        /// The argument.
        option: &'static str,
        /// The allowed values.
        expected: &'static str,
        /// The given value.
        got: String,
    },
}

impl AdderError {
    /// Returns the error of a sum or a reset.
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
