//! What can be wrong, and what is true then.

use std::time::Duration;

use redgrid_core::name::InvalidName;
use redgrid_core::{LIFETIMES_EXPECTED, Name, ServerError};

/// Why a latch was not set, counted down, deleted or read.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum LatchError {
    /// No server could be asked in time. Nothing is changed.
    #[error("could not ask for the latch `{name}`")]
    Unavailable {
        /// The latch.
        name: Name,
        /// What stood in the way last.
        #[source]
        source: ServerError,
    },
    /// The server does not accept this client's password, user or certificate, or its own
    /// certificate is refused. Nothing is changed.
    #[error("not authorized to ask for the latch `{name}`")]
    Unauthorized {
        /// The latch.
        name: Name,
        /// The words of the server, or what is wrong with the certificate.
        #[source]
        source: ServerError,
    },
    /// The client is shut down. Nothing is changed.
    #[error("the client is shut down; nothing was asked of the latch `{name}`")]
    ShuttingDown {
        /// The latch.
        name: Name,
    },
    /// The server refused: wrong type under the name, no permission, no memory; or what is under the name is no count. Nothing
    /// is changed.
    #[error("the server refused what was asked of the latch `{name}`")]
    Refused {
        /// The latch.
        name: Name,
        /// The server's words and their class.
        #[source]
        source: ServerError,
    },
    /// Asked, and no answer came. It may be done, once; it is sent again for 30 s at most.
    #[error("asked for the latch `{name}` and got no answer; the outcome is unknown")]
    OutcomeUnknown {
        /// The latch.
        name: Name,
        /// What happened to the answer.
        #[source]
        source: ServerError,
    },
    /// The name can not be used. Nothing was asked.
    #[error(transparent)]
    InvalidName(#[from] InvalidName),
    /// The count can not be. Nothing was asked.
    #[error("invalid count for the latch `{name}`: expected 1 to {}, got {got}", i64::MAX)]
    InvalidCount {
        /// The latch.
        name: Name,
        /// What was given.
        got: u64,
    },
    /// The lifetime can not be. Nothing was asked.
    #[error("invalid lifetime for the latch `{name}`: expected {LIFETIMES_EXPECTED}, got {got:?}")]
    InvalidLifetime {
        /// The latch.
        name: Name,
        /// What was given.
        got: Duration,
    },
}

impl LatchError {
    /// What is true when this came of a change.
    pub(crate) fn of_change(name: &Name, source: ServerError) -> Self {
        let name = name.clone();
        match source {
            ServerError::NotSent { .. } => LatchError::Unavailable { name, source },
            ServerError::Unauthorized { .. } => LatchError::Unauthorized { name, source },
            ServerError::ShuttingDown => LatchError::ShuttingDown { name },
            ServerError::Refused { .. } => LatchError::Refused { name, source: source.of_object() },
            _ => LatchError::OutcomeUnknown { name, source },
        }
    }

    /// What is true when this came of a question.
    pub(crate) fn of_question(name: &Name, source: ServerError) -> Self {
        let name = name.clone();
        match source {
            // What was answered is no count: to ask again does not help.
            ServerError::Refused { .. } | ServerError::Decode { .. } => {
                LatchError::Refused { name, source: source.of_object() }
            }
            ServerError::Unauthorized { .. } => LatchError::Unauthorized { name, source },
            ServerError::ShuttingDown => LatchError::ShuttingDown { name },
            _ => LatchError::Unavailable { name, source },
        }
    }
}

/// Why a wait for a latch ended before the latch was open. The latch is as it was.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum WaitError {
    /// The time is over, and the count was not 0 when it was last asked for: within the interval of the looks, five times
    /// `poll_interval`, and a second.
    #[error("the latch `{name}` was not open after {waited:?}")]
    TimedOut {
        /// The latch.
        name: Name,
        /// How long.
        waited: Duration,
    },
    /// No server could be asked in time: `response_timeout × (retries + 1)`, or the bound of the wait.
    #[error("could not ask for the latch `{name}`")]
    Unavailable {
        /// The latch.
        name: Name,
        /// What stood in the way last.
        #[source]
        source: ServerError,
    },
    /// The server does not accept this client's password, user or certificate, or its own
    /// certificate is refused. The latch is as it was.
    #[error("not authorized to ask for the latch `{name}`")]
    Unauthorized {
        /// The latch.
        name: Name,
        /// The words of the server, or what is wrong with the certificate.
        #[source]
        source: ServerError,
    },
    /// The server refused to tell: wrong type under the name, no permission; or what is under the name is no count.
    #[error("the server refused to tell of the latch `{name}`")]
    Refused {
        /// The latch.
        name: Name,
        /// The server's words and their class.
        #[source]
        source: ServerError,
    },
    /// The client is shutting down.
    #[error("the client is shutting down; the latch `{name}` was not open")]
    ShuttingDown {
        /// The latch.
        name: Name,
    },
    /// The name can not be used. Nothing was asked.
    #[error(transparent)]
    InvalidName(#[from] InvalidName),
}

impl WaitError {
    pub(crate) fn of(name: &Name, source: ServerError) -> Self {
        let name = name.clone();
        match source {
            ServerError::Refused { .. } | ServerError::Decode { .. } => {
                WaitError::Refused { name, source: source.of_object() }
            }
            ServerError::Unauthorized { .. } => WaitError::Unauthorized { name, source },
            ServerError::ShuttingDown => WaitError::ShuttingDown { name },
            source => WaitError::Unavailable { name, source },
        }
    }
}
