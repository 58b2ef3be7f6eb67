//! What can be wrong, and what is true then.

use std::time::Duration;

use redgrid_core::author::ClientExt;
use redgrid_core::name::InvalidName;
use redgrid_core::{Client, Name, ServerError};

/// Why permits were not taken, or a limiter was not read or changed.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum LimitError {
    /// Nobody has set a rate, or it is gone. Nothing is taken.
    #[error("no rate is set for `{name}`")]
    RateNotSet {
        /// The limiter.
        name: Name,
    },
    /// More permits than there can ever be at once. Nothing is taken.
    #[error("{permits} permits of `{name}` can not be had at once: its limit is {most}")]
    TooManyPermits {
        /// The limiter.
        name: Name,
        /// How many were asked for.
        permits: u64,
        /// How many can be had at once: the rate, or the burst.
        most: u64,
    },
    /// The wait ran out. Nothing is taken, or goes back when the answer comes, or counts until its time is over.
    #[error("`{name}` was at its limit, still after {waited:?}")]
    TimedOut {
        /// The limiter.
        name: Name,
        /// How long was waited.
        waited: Duration,
    },
    /// No server could be asked in time. Nothing is taken or changed.
    #[error("could not ask for the limiter `{name}`")]
    Unavailable {
        /// The limiter.
        name: Name,
        /// What stood in the way last.
        #[source]
        source: ServerError,
    },
    /// The server does not accept this client's password, user or certificate, or its own
    /// certificate is refused. Nothing is taken or changed.
    #[error("not authorized to ask for the limiter `{name}`")]
    Unauthorized {
        /// The limiter.
        name: Name,
        /// The words of the server, or what is wrong with the certificate.
        #[source]
        source: ServerError,
    },
    /// The server refused: wrong type under the name, no permission, no memory. Nothing is taken or changed.
    #[error("the server refused what was asked of the limiter `{name}`")]
    Refused {
        /// The limiter.
        name: Name,
        /// The server's words and their class.
        #[source]
        source: ServerError,
    },
    /// Asked, and no answer came. It may be done, once: permits that were taken go back when the answer comes, or count until their
    /// time is over.
    #[error("asked for the limiter `{name}` and got no answer; the outcome is unknown")]
    OutcomeUnknown {
        /// The limiter.
        name: Name,
        /// What happened to the answer.
        #[source]
        source: ServerError,
    },
    /// The client is shutting down. Nothing is taken, or what was counts until its time is over.
    #[error("the client is shutting down; `{name}` was not had")]
    ShuttingDown {
        /// The limiter.
        name: Name,
    },
    /// The name can not be used. Nothing was asked.
    #[error(transparent)]
    InvalidName(#[from] InvalidName),
    /// A value can not be. Nothing was asked.
    #[error("invalid {option} for `{name}`: expected {expected}, got {got}")]
    InvalidArgument {
        /// The limiter.
        name: Name,
        /// What was given.
        option: &'static str,
        /// What is allowed.
        expected: &'static str,
        /// Its value.
        got: String,
    },
}

impl LimitError {
    pub(crate) fn of(client: &Client, name: &Name, source: ServerError) -> Self {
        let name = name.clone();
        // A request that fails in a shutdown fails by it.
        let source = if source.is_not_sent() && client.is_shut_down() { client.ended() } else { source };
        match source {
            ServerError::ShuttingDown => LimitError::ShuttingDown { name },
            ServerError::Unauthorized { .. } => LimitError::Unauthorized { name, source },
            ServerError::NotSent { .. } => LimitError::Unavailable { name, source },
            ServerError::Refused { .. } | ServerError::Decode { .. } => LimitError::Refused { name, source },
            _ => LimitError::OutcomeUnknown { name, source },
        }
    }

    pub(crate) fn argument(name: &Name, option: &'static str, expected: &'static str, got: impl ToString) -> Self {
        LimitError::InvalidArgument { name: name.clone(), option, expected, got: got.to_string() }
    }
}
