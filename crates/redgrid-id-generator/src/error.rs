//! What can be wrong, and what is true then.

use std::time::SystemTime;

use redgrid_core::name::InvalidName;
use redgrid_core::{Name, ServerError, describe_time};

/// Why there is no id, or why a generator was not set up or deleted. An id that was not given may be left out for good; none is
/// given twice.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum IdError {
    /// No server answered in time. No id is given; numbers may be left out.
    #[error("could not ask for ids of `{name}`")]
    Unavailable {
        /// The generator.
        name: Name,
        /// What stood in the way last.
        #[source]
        source: ServerError,
    },
    /// The server does not accept this client's password, user or certificate, or its own
    /// certificate is refused. No id is given.
    #[error("not authorized to ask for ids of `{name}`")]
    Unauthorized {
        /// The generator.
        name: Name,
        /// The words of the server, or what is wrong with the certificate.
        #[source]
        source: ServerError,
    },
    /// The client is shut down. No id is given.
    #[error("the client is shut down; nothing was asked of ids of `{name}`")]
    ShuttingDown {
        /// The generator.
        name: Name,
    },
    /// The server refused: wrong type under the name, no permission, no memory. No id is given.
    #[error("the server refused ids of `{name}`")]
    Refused {
        /// The generator.
        name: Name,
        /// The server's words and their class.
        #[source]
        source: ServerError,
    },
    /// A generator was to be set up or deleted, and no answer came. It may be done.
    #[error("asked to change `{name}` and got no answer; the outcome is unknown")]
    OutcomeUnknown {
        /// The generator.
        name: Name,
        /// What happened to the answer.
        #[source]
        source: ServerError,
    },
    /// There is no further block of ids up to 2^63 - 2, the largest one. This does not pass.
    #[error("`{name}` has no block of ids left below 2^63")]
    Exhausted {
        /// The generator.
        name: Name,
    },
    /// The day has no number left of its 2^32 - 1. The next day has.
    #[error("`{name}` has no numbers left for the day of `{key}`")]
    DayExhausted {
        /// The generator.
        name: Name,
        /// The key of the day.
        key: Name,
    },
    /// The server's clock is before the time from which ids count, or later than 31 bits of seconds after it.
    #[error("the server's time, {seconds} s since 1970, is not among the 2^31 seconds of `{name}` from {from} on")]
    TimeOutOfRange {
        /// The generator.
        name: Name,
        /// What the server's clock shows, in seconds since 1970.
        seconds: i64,
        /// From when on ids count, in seconds since 1970.
        from: i64,
    },
    /// What is under a key is no number that could be there. Nothing is changed.
    #[error("`{key}` holds no such number: expected {expected}, got `{got}`")]
    NotANumber {
        /// The key.
        key: String,
        /// What would have fitted.
        expected: &'static str,
        /// What is there, its first 64 bytes.
        got: String,
    },
    /// The name can not be used. Nothing was asked.
    #[error(transparent)]
    InvalidName(#[from] InvalidName),
    /// A value can not be. Nothing was asked.
    #[error("invalid {option} for `{name}`: expected {expected}, got {got}")]
    InvalidArgument {
        /// The generator.
        name: Name,
        /// What was given.
        option: &'static str,
        /// What is allowed.
        expected: &'static str,
        /// Its value.
        got: String,
    },
}

impl IdError {
    /// What is true when it came of asking for ids: without an answer, too, no id is given.
    pub(crate) fn of_ids(name: &Name, source: ServerError) -> Self {
        let name = name.clone();
        match source {
            ServerError::Refused { .. } | ServerError::Decode { .. } => IdError::Refused { name, source },
            ServerError::Unauthorized { .. } => IdError::Unauthorized { name, source },
            ServerError::ShuttingDown => IdError::ShuttingDown { name },
            _ => IdError::Unavailable { name, source },
        }
    }

    /// What is true when it came of a change.
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
