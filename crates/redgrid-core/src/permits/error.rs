//! What asking for permits and giving them back can end in.

use std::time::Duration;

use crate::connection::CommitError;
use crate::error::ServerError;
use crate::lock::LostReason;
use crate::name::{InvalidName, Name};

/// Why permits were not acquired.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum AcquireError {
    /// The wait ran out while there were too few. Nothing is held.
    #[error("`{name}` had too few permits for {waited:?}")]
    TimedOut {
        /// The semaphore.
        name: Name,
        /// How long.
        waited: Duration,
    },
    /// The semaphore was never given permits, or was deleted, and this handle has no capacity to begin with. Nothing is held.
    #[error("`{name}` has not been given any permits yet")]
    NotInitialised {
        /// The semaphore.
        name: Name,
    },
    /// The handle was closed. Nothing is held.
    #[error("`{name}` is closed")]
    Closed {
        /// The semaphore.
        name: Name,
    },
    /// No server could be asked in time. Nothing is held.
    #[error("could not ask for permits of `{name}`")]
    Unavailable {
        /// The semaphore.
        name: Name,
        /// What stood in the way last.
        #[source]
        source: ServerError,
    },
    /// The server does not accept this client's password, user or certificate, or its own
    /// certificate is refused. Nothing is held.
    #[error("not authorized to ask for permits of `{name}`")]
    Unauthorized {
        /// The semaphore.
        name: Name,
        /// The words of the server, or what is wrong with the certificate.
        #[source]
        source: ServerError,
    },
    /// The server refused the request: wrong type under the name, no permission, no memory. Nothing is held.
    #[error("the server refused permits of `{name}`")]
    Refused {
        /// The semaphore.
        name: Name,
        /// The server's words and their class.
        #[source]
        source: ServerError,
    },
    /// Asked, and no answer came. The request is sent until it is answered, for 30 s; permits that it took go back then. If
    /// it is never answered, permits with a lease come back when that ends, and others may be lost.
    #[error("asked for permits of `{name}` and got no answer; the outcome is unknown")]
    OutcomeUnknown {
        /// The semaphore.
        name: Name,
        /// What happened to the answer.
        #[source]
        source: ServerError,
    },
    /// Granted, and not proven to be as durable as asked in time. They were given back; nothing is held.
    #[error("permits of `{name}` were granted and not made as durable as asked; they were given back")]
    NotDurable {
        /// The semaphore.
        name: Name,
        /// What is missing.
        #[source]
        source: CommitError,
    },
    /// The client is shutting down. Nothing is held.
    #[error("the client is shutting down; no permits of `{name}` were acquired")]
    ShuttingDown {
        /// The semaphore.
        name: Name,
    },
    /// The name can not be used. Nothing was asked.
    #[error(transparent)]
    InvalidName(#[from] InvalidName),
    /// An option has a value that can not be. Nothing was asked.
    #[error("invalid {option} for `{name}`: expected {expected}, got {got}")]
    InvalidArgument {
        /// The semaphore.
        name: Name,
        /// The option.
        option: &'static str,
        /// What is allowed.
        expected: &'static str,
        /// What was given.
        got: String,
    },
}

/// Why giving permits back did not end what was held until then.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum ReleaseError {
    /// Some of them had ended without us: others may have had them.
    #[error("a permit of `{name}` had been lost before it was released: {reason}")]
    Lost {
        /// The semaphore.
        name: Name,
        /// How it ended.
        reason: LostReason,
    },
    /// The server did not confirm in time. It is asked again, so do not give them back otherwise; permits with a lease come back when
    /// that ends, at the latest.
    #[error("released permits of `{name}` and got no answer")]
    OutcomeUnknown {
        /// The semaphore.
        name: Name,
        /// What happened to the answer.
        #[source]
        source: ServerError,
    },
    /// The server refused. The client keeps them, and offers them again up to every 30 s: do not give them back otherwise. Permits
    /// with a lease come back when that ends, at the latest.
    #[error("the server refused to take permits of `{name}` back")]
    Refused {
        /// The semaphore.
        name: Name,
        /// The server's words and their class.
        #[source]
        source: ServerError,
    },
}

/// Why a semaphore was not set, changed, deleted or read.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum SemaphoreError {
    /// No server could be asked in time. Nothing is changed.
    #[error("could not ask for the semaphore `{name}`")]
    Unavailable {
        /// The semaphore.
        name: Name,
        /// What stood in the way last.
        #[source]
        source: ServerError,
    },
    /// The server does not accept this client's password, user or certificate, or its own
    /// certificate is refused. Nothing is changed.
    #[error("not authorized to ask for the semaphore `{name}`")]
    Unauthorized {
        /// The semaphore.
        name: Name,
        /// The words of the server, or what is wrong with the certificate.
        #[source]
        source: ServerError,
    },
    /// The client is shut down. Nothing is changed.
    #[error("the client is shut down; nothing was asked of the semaphore `{name}`")]
    ShuttingDown {
        /// The semaphore.
        name: Name,
    },
    /// The server refused: wrong type under the name, no permission, no memory. Nothing is changed.
    #[error("the server refused what was asked of the semaphore `{name}`")]
    Refused {
        /// The semaphore.
        name: Name,
        /// The server's words and their class.
        #[source]
        source: ServerError,
    },
    /// Asked, and no answer came. A change may be made, once; it is sent again for 30 s at most.
    #[error("asked for the semaphore `{name}` and got no answer; the outcome is unknown")]
    OutcomeUnknown {
        /// The semaphore.
        name: Name,
        /// What happened to the answer.
        #[source]
        source: ServerError,
    },
    /// The name can not be used. Nothing was asked.
    #[error(transparent)]
    InvalidName(#[from] InvalidName),
    /// A value can not be. Nothing was asked.
    #[error("invalid {option} for the semaphore `{name}`: expected {expected}, got {got}")]
    InvalidArgument {
        /// The semaphore.
        name: Name,
        /// What was given.
        option: &'static str,
        /// What is allowed.
        expected: &'static str,
        /// Its value.
        got: String,
    },
}

impl SemaphoreError {
    pub(super) fn of(name: Name, source: ServerError) -> Self {
        match source {
            ServerError::NotSent { .. } => SemaphoreError::Unavailable { name, source },
            ServerError::Unauthorized { .. } => SemaphoreError::Unauthorized { name, source },
            ServerError::ShuttingDown => SemaphoreError::ShuttingDown { name },
            ServerError::Refused { .. } => SemaphoreError::Refused { name, source: source.of_object() },
            _ => SemaphoreError::OutcomeUnknown { name, source },
        }
    }
}
