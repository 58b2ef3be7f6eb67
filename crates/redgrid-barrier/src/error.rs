//! The errors of requests and of waits. Each variant states what is true afterwards.

use std::time::Duration;

use redgrid_core::name::InvalidName;
use redgrid_core::{Name, ServerError};

/// The error of a request: why the server did not execute it.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum RequestError {
    /// No server was reachable in time, or the server is temporarily unable to execute the request.
    ///
    /// It is loading its data, accepts no writes, or the slot is migrating. Nothing was done.
    #[error("could not ask for `{name}`")]
    Unavailable {
        /// The object.
        name: Name,
        /// The error of the last attempt.
        #[source]
        source: ServerError,
    },
    /// The server does not accept this client's password, user or certificate, or its own
    /// certificate is rejected. Nothing was done.
    #[error("not authorized to ask for `{name}`")]
    Unauthorized {
        /// The object.
        name: Name,
        /// The server's message, or the problem with the certificate.
        #[source]
        source: ServerError,
    },
    /// The server refused: the key has another type, no permission, or no memory. Nothing was done.
    #[error("the server refused what was asked of `{name}`")]
    Refused {
        /// The object.
        name: Name,
        /// The server's message and its error code.
        #[source]
        source: ServerError,
    },
    /// The request was sent, and no reply states what was done.
    ///
    /// A waiter is removed in the background, at the latest when its lease ends. Any other request
    /// may or may not have been executed.
    #[error("asked for `{name}` and got no answer; the outcome is unknown")]
    OutcomeUnknown {
        /// The object.
        name: Name,
        /// Why there is no reply.
        #[source]
        source: ServerError,
    },
    /// The client is shutting down.
    #[error("the client is shutting down; `{name}` is not asked for any more")]
    ShuttingDown {
        /// The object.
        name: Name,
    },
    /// The name is invalid. No request was sent.
    #[error(transparent)]
    InvalidName(#[from] InvalidName),
}

impl RequestError {
    pub(crate) fn of(name: &Name, source: ServerError) -> Self {
        let name = name.clone();
        match source {
            ServerError::Refused { code, .. } if !code.is_passing() => RequestError::Refused { name, source },
            ServerError::Unknown { .. } | ServerError::Decode { .. } => RequestError::OutcomeUnknown { name, source },
            ServerError::Unauthorized { .. } => RequestError::Unauthorized { name, source },
            ServerError::ShuttingDown => RequestError::ShuttingDown { name },
            _ => RequestError::Unavailable { name, source },
        }
    }

    /// Converts the error of a read: without a reply, nothing was changed either.
    pub(crate) fn of_read(self) -> Self {
        match self {
            RequestError::OutcomeUnknown { name, source } => RequestError::Unavailable { name, source },
            other => other,
        }
    }

    /// Returns whether a repeated request may succeed.
    pub(crate) fn is_passing(&self) -> bool {
        matches!(self, RequestError::Unavailable { .. } | RequestError::OutcomeUnknown { .. })
    }
}

/// The error of a wait.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum WaitError {
    /// The timeout passed first. The waiter was removed.
    ///
    /// Without a reply to that soon, it is removed in the background, at the latest when its lease
    /// ends.
    #[error("waited {waited:?} for `{name}`")]
    TimedOut {
        /// The object.
        name: Name,
        /// How long the wait lasted.
        waited: Duration,
    },
    /// A request failed.
    #[error(transparent)]
    Failed(#[from] RequestError),
}

impl From<InvalidName> for WaitError {
    fn from(invalid: InvalidName) -> Self {
        WaitError::Failed(invalid.into())
    }
}

/// The error of a wait at a [`Barrier`](crate::Barrier) or a
/// [`DoubleBarrier`](crate::DoubleBarrier).
///
/// The party was removed. Without a reply to that soon, it is removed in the background, at the
/// latest when its lease ends. Until then the barrier may open with it.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum BarrierError {
    /// The timeout passed before all parties arrived.
    #[error("waited {waited:?} for the others at `{name}`")]
    TimedOut {
        /// The barrier.
        name: Name,
        /// How long the wait lasted.
        waited: Duration,
    },
    /// Other waiters use another number of parties.
    #[error("`{name}` is waited at by others with {theirs} parties, here with {ours}")]
    PartiesDiffer {
        /// The barrier.
        name: Name,
        /// The number of parties of this handle.
        ours: u32,
        /// The number of parties of the waiters.
        theirs: u32,
    },
    /// The number of parties is 0; a barrier has at least one. No request was sent.
    #[error("the barrier `{name}` has at least one party")]
    InvalidArgument {
        /// The barrier.
        name: Name,
    },
    /// A request failed.
    #[error(transparent)]
    Failed(#[from] RequestError),
}

impl From<WaitError> for BarrierError {
    fn from(error: WaitError) -> Self {
        match error {
            WaitError::TimedOut { name, waited } => BarrierError::TimedOut { name, waited },
            WaitError::Failed(error) => BarrierError::Failed(error),
        }
    }
}

impl From<InvalidName> for BarrierError {
    fn from(invalid: InvalidName) -> Self {
        BarrierError::Failed(invalid.into())
    }
}
