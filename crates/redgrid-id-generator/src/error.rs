//! The errors of id generators. Each variant states what is true afterwards.

use std::time::SystemTime;

use redgrid_core::name::InvalidName;
use redgrid_core::{Name, ServerError, describe_time};

/// The error of a call for an id, or of a change of a generator.
///
/// An id that was not issued may be skipped for good; none is issued twice.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum IdError {
    /// No server answered in time. No id was issued; numbers may be skipped.
    #[error("could not ask for ids of `{name}`")]
    Unavailable {
        /// The generator.
        name: Name,
        /// The error of the last attempt.
        #[source]
        source: ServerError,
    },
    /// The server does not accept this client's password, user or certificate, or its own
    /// certificate is rejected. No id was issued.
    #[error("not authorized to ask for ids of `{name}`")]
    Unauthorized {
        /// The generator.
        name: Name,
        /// The server's message, or the problem with the certificate.
        #[source]
        source: ServerError,
    },
    /// The client is shut down. No id was issued.
    #[error("the client is shut down; nothing was asked of ids of `{name}`")]
    ShuttingDown {
        /// The generator.
        name: Name,
    },
    /// The server refused: the key has another type, no permission, or no memory. No id was issued.
    #[error("the server refused ids of `{name}`")]
    Refused {
        /// The generator.
        name: Name,
        /// The server's message and its error code.
        #[source]
        source: ServerError,
    },
    /// A request to initialize or delete a generator has no reply. It may have been executed.
    #[error("asked to change `{name}` and got no answer; the outcome is unknown")]
    OutcomeUnknown {
        /// The generator.
        name: Name,
        /// Why there is no reply.
        #[source]
        source: ServerError,
    },
    /// There is no further block of ids up to 2^63 - 2, the largest one. This is permanent.
    #[error("`{name}` has no block of ids left below 2^63")]
    Exhausted {
        /// The generator.
        name: Name,
    },
    /// All 2^32 - 1 numbers of the day are used. The next day has new ones.
    #[error("`{name}` has no numbers left for the day of `{key}`")]
    DayExhausted {
        /// The generator.
        name: Name,
        /// The key of the day.
        key: Name,
    },
    /// The server's time is not within the 2^31 seconds from the epoch of the ids on.
    #[error("the server's time, {seconds} s since 1970, is not among the 2^31 seconds of `{name}` from {from} on")]
    TimeOutOfRange {
        /// The generator.
        name: Name,
        /// The server's time, in seconds since 1970.
        seconds: i64,
        /// The epoch of the ids, in seconds since 1970.
        from: i64,
    },
    /// The value of a key is not a valid number. Nothing was changed.
    #[error("`{key}` holds no such number: expected {expected}, got `{got}`")]
    NotANumber {
        /// The key.
        key: String,
        /// What was expected.
        expected: &'static str,
        /// The first 64 bytes of the value.
        got: String,
    },
    /// The name is invalid. No request was sent.
    #[error(transparent)]
    InvalidName(#[from] InvalidName),
    /// An argument is invalid. No request was sent.
    #[error("invalid {option} for `{name}`: expected {expected}, got {got}")]
    InvalidArgument {
        /// The generator.
        name: Name,
        /// The argument.
        option: &'static str,
        /// The allowed values.
        expected: &'static str,
        /// The given value.
        got: String,
    },
}

impl IdError {
    /// Returns the error of a request for ids. Without a reply no id was issued either.
    pub(crate) fn of_ids(name: &Name, source: ServerError) -> Self {
        let name = name.clone();
        match source {
            ServerError::Refused { .. } | ServerError::Decode { .. } => IdError::Refused { name, source },
            ServerError::Unauthorized { .. } => IdError::Unauthorized { name, source },
            ServerError::ShuttingDown => IdError::ShuttingDown { name },
            _ => IdError::Unavailable { name, source },
        }
    }

    /// Returns the error of a change of a generator.
    pub(crate) fn of_change(name: &Name, source: ServerError) -> Self {
        let name = name.clone();
        match source {
            ServerError::NotSent { .. } => IdError::Unavailable { name, source },
            ServerError::Unauthorized { .. } => IdError::Unauthorized { name, source },
            ServerError::ShuttingDown => IdError::ShuttingDown { name },
            ServerError::Refused { .. } => IdError::Refused { name, source },
            _ => IdError::OutcomeUnknown { name, source },
        }
    }

    pub(crate) fn invalid_time(name: &Name, got: SystemTime) -> Self {
        IdError::InvalidArgument {
            name: name.clone(),
            option: "epoch",
            expected: "a whole second of the years 1900 to 9999",
            got: describe_time(got),
        }
    }
}
