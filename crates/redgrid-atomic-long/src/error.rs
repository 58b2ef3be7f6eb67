//! The errors of numbers. Each variant states what is true afterwards.

use redgrid_core::name::InvalidName;
use redgrid_core::{Name, ServerError};

use crate::atomic_number::Value;

/// The error of reading or changing a number.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum AtomicError {
    /// No server was reachable in time. Nothing was changed.
    #[error("could not ask for the number `{name}`")]
    Unavailable {
        /// The number.
        name: Name,
        /// The error of the last attempt.
        #[source]
        source: ServerError,
    },
    /// The server does not accept this client's password, user or certificate, or its own
    /// certificate is rejected. Nothing was changed.
    #[error("not authorized to ask for the number `{name}`")]
    Unauthorized {
        /// The number.
        name: Name,
        /// The server's message, or the problem with the certificate.
        #[source]
        source: ServerError,
    },
    /// The client is shut down. Nothing was changed.
    #[error("the client is shut down; nothing was asked of the number `{name}`")]
    ShuttingDown {
        /// The number.
        name: Name,
    },
    /// The server refused: the value is not a number, the key has another type, no permission, or
    /// no memory. Nothing was changed.
    #[error("the server refused what was asked of the number `{name}`")]
    Refused {
        /// The number.
        name: Name,
        /// The server's message and its error code.
        #[source]
        source: ServerError,
    },
    /// The request was sent, and there is no reply. A change may have been executed, once; a read
    /// failed.
    #[error("asked for the number `{name}` and got no answer; the outcome is unknown")]
    OutcomeUnknown {
        /// The number.
        name: Name,
        /// Why there is no reply.
        #[source]
        source: ServerError,
    },
    /// The sum is outside of the range of the type. Nothing was changed.
    #[error("`{name}` and {by} together are beyond what a number can be")]
    Overflow {
        /// The number.
        name: Name,
        /// The summand.
        by: Value,
    },
    /// The sum is outside of the requested bounds. Nothing was changed.
    #[error("`{name}` would be out of its bounds; it is {value}")]
    OutOfBounds {
        /// The number.
        name: Name,
        /// The current number.
        value: Value,
    },
    /// The value under the name was read, and is not a number of this type. Nothing was changed.
    #[error("`{name}` holds no such number: expected {expected}, got `{got}`")]
    NotANumber {
        /// The number.
        name: Name,
        /// What was expected.
        expected: &'static str,
        /// The value.
        got: String,
    },
    /// Other changes preceded the update in 100 consecutive attempts. Nothing was changed.
    #[error("`{name}` was changed by others each time it was to be updated")]
    Contended {
        /// The number.
        name: Name,
    },
    /// The name is invalid. No request was sent.
    #[error(transparent)]
    InvalidName(#[from] InvalidName),
    /// An argument is invalid. No request was sent.
    #[error("invalid {option} for `{name}`: expected {expected}, got {got}")]
    InvalidArgument {
        /// The number.
        name: Name,
        /// The argument.
        option: &'static str,
        /// The allowed values.
        expected: &'static str,
        /// The given value.
        got: String,
    },
}

impl AtomicError {
    pub(crate) fn of(name: &Name, source: ServerError) -> Self {
        let name = name.clone();
        match source {
            ServerError::NotSent { .. } => AtomicError::Unavailable { name, source },
            ServerError::Unauthorized { .. } => AtomicError::Unauthorized { name, source },
            ServerError::ShuttingDown => AtomicError::ShuttingDown { name },
            ServerError::Refused { .. } => AtomicError::Refused { name, source },
            ServerError::Decode { expected, got } => AtomicError::NotANumber { name, expected, got },
            _ => AtomicError::OutcomeUnknown { name, source },
        }
    }
}
