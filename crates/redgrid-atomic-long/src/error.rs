//! What can be wrong, and what is true then.

use redgrid_core::name::InvalidName;
use redgrid_core::{Name, ServerError};

use crate::numeral::Value;

/// Why a number was not read or changed.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum AtomicError {
    /// No server could be asked in time. Nothing is changed.
    #[error("could not ask for the number `{name}`")]
    Unavailable {
        /// The number.
        name: Name,
        /// What stood in the way last.
        #[source]
        source: ServerError,
    },
    /// The server does not accept this client's password, user or certificate, or its own
    /// certificate is refused. Nothing is changed.
    #[error("not authorized to ask for the number `{name}`")]
    Unauthorized {
        /// The number.
        name: Name,
        /// The words of the server, or what is wrong with the certificate.
        #[source]
        source: ServerError,
    },
    /// The client is shut down. Nothing is changed.
    #[error("the client is shut down; nothing was asked of the number `{name}`")]
    ShuttingDown {
        /// The number.
        name: Name,
    },
    /// The server refused: no number or a wrong type under the name, no permission, no memory. Nothing is changed.
    #[error("the server refused what was asked of the number `{name}`")]
    Refused {
        /// The number.
        name: Name,
        /// The server's words and their class.
        #[source]
        source: ServerError,
    },
    /// Asked, and no answer came. It may be done, once; or, where the number was only read, it could not be read.
    #[error("asked for the number `{name}` and got no answer; the outcome is unknown")]
    OutcomeUnknown {
        /// The number.
        name: Name,
        /// What happened to the answer.
        #[source]
        source: ServerError,
    },
    /// The sum is beyond what a number can be. Nothing is changed.
    #[error("`{name}` and {by} together are beyond what a number can be")]
    Overflow {
        /// The number.
        name: Name,
        /// What was to be added.
        by: Value,
    },
    /// The sum is beyond the bounds that were asked for. Nothing is changed.
    #[error("`{name}` would be out of its bounds; it is {value}")]
    OutOfBounds {
        /// The number.
        name: Name,
        /// What it is.
        value: Value,
    },
    /// What is under the name, and was read, is no number of this kind. Nothing is changed.
    #[error("`{name}` holds no such number: expected {expected}, got `{got}`")]
    NotANumber {
        /// The number.
        name: Name,
        /// What would have fitted.
        expected: &'static str,
        /// What is there.
        got: String,
    },
    /// An update was overtaken by others each time, 100 times in a row. Nothing is changed.
    #[error("`{name}` was changed by others each time it was to be updated")]
    Contended {
        /// The number.
        name: Name,
    },
    /// The name can not be used. Nothing was asked.
    #[error(transparent)]
    InvalidName(#[from] InvalidName),
    /// A value can not be. Nothing was asked.
    #[error("invalid {option} for `{name}`: expected {expected}, got {got}")]
    InvalidArgument {
        /// The number.
        name: Name,
        /// What was given.
        option: &'static str,
        /// What is allowed.
        expected: &'static str,
        /// Its value.
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
