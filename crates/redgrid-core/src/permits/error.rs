//! Errors of acquiring, returning and managing permits.

use std::time::Duration;

use crate::connection::CommitError;
use crate::error::ServerError;
use crate::lock::LostReason;
use crate::name::{InvalidName, Name};

/// Reason why permits were not acquired.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum AcquireError {
    /// The timeout passed while there were too few permits. Nothing is held.
    #[error("`{name}` had too few permits for {waited:?}")]
    TimedOut {
        /// Name of the semaphore.
        name: Name,
        /// How long the caller waited.
        waited: Duration,
    },
    /// No permits were ever set, or the semaphore was deleted, and this handle gives no number.
    ///
    /// Nothing is held.
    #[error("`{name}` has not been given any permits yet")]
    NotInitialised {
        /// Name of the semaphore.
        name: Name,
    },
    /// The semaphore has another number of permits than this handle gives. Nothing is held.
    ///
    /// Another process gives another number, the number was changed, or plain permits of the
    /// semaphore are held: those are missing from `found`.
    #[error(
        "`{name}` has {found} permits and was given {expected}: use one number in all processes, and no plain permits \
         beside leased ones"
    )]
    PermitsDiffer {
        /// Name of the semaphore.
        name: Name,
        /// The number that this handle gives.
        expected: u64,
        /// The number on the server: available permits, and held ones with a lease.
        found: i64,
    },
    /// The handle was closed. Nothing is held.
    #[error("`{name}` is closed")]
    Closed {
        /// Name of the semaphore.
        name: Name,
    },
    /// No server was reached in time. Nothing is held.
    #[error("could not ask for permits of `{name}`")]
    Unavailable {
        /// Name of the semaphore.
        name: Name,
        /// The last obstacle.
        #[source]
        source: ServerError,
    },
    /// The server does not accept this client's password, user or certificate, or its own
    /// certificate is refused. Nothing is held.
    #[error("not authorized to ask for permits of `{name}`")]
    Unauthorized {
        /// Name of the semaphore.
        name: Name,
        /// The server's message, or what is wrong with the certificate.
        #[source]
        source: ServerError,
    },
    /// The server refused the request: wrong type under the name, no permission, no memory. Nothing
    /// is held.
    #[error("the server refused permits of `{name}`")]
    Refused {
        /// Name of the semaphore.
        name: Name,
        /// The server's message and its class.
        #[source]
        source: ServerError,
    },
    /// The request was sent and not answered.
    ///
    /// It is sent until it is answered, for 30 s. Permits that it took are returned then. If it is
    /// never answered, leased permits are available again at the end of their lease, and others may
    /// be lost.
    #[error("asked for permits of `{name}` and got no answer; the outcome is unknown")]
    OutcomeUnknown {
        /// Name of the semaphore.
        name: Name,
        /// What happened to the reply.
        #[source]
        source: ServerError,
    },
    /// Granted, but not confirmed to be as durable as requested in time.
    ///
    /// The permits were returned; nothing is held.
    #[error("permits of `{name}` were granted and not made as durable as asked; they were given back")]
    NotDurable {
        /// Name of the semaphore.
        name: Name,
        /// What is missing.
        #[source]
        source: CommitError,
    },
    /// The client is shutting down. Nothing is held.
    #[error("the client is shutting down; no permits of `{name}` were acquired")]
    ShuttingDown {
        /// Name of the semaphore.
        name: Name,
    },
    /// The name cannot be used. No request was sent.
    #[error(transparent)]
    InvalidName(#[from] InvalidName),
    /// An option has a value that is not allowed. No request was sent.
    #[error("invalid {option} for `{name}`: expected {expected}, got {got}")]
    InvalidArgument {
        /// Name of the semaphore.
        name: Name,
        /// The option.
        option: &'static str,
        /// What is allowed.
        expected: &'static str,
        /// The value that was given.
        got: String,
    },
}

/// Reason why a release did not return permits that were held until then.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum ReleaseError {
    /// Some of the permits had been lost before: others may have had them.
    #[error("a permit of `{name}` had been lost before it was released: {reason}")]
    Lost {
        /// Name of the semaphore.
        name: Name,
        /// How the permit was lost.
        reason: LostReason,
    },
    /// The server did not confirm the release in time.
    ///
    /// The release is sent again, so do not return the permits in another way. Leased permits are
    /// available again at the end of their lease at the latest.
    #[error("released permits of `{name}` and got no answer")]
    OutcomeUnknown {
        /// Name of the semaphore.
        name: Name,
        /// What happened to the reply.
        #[source]
        source: ServerError,
    },
    /// The server refused the release.
    ///
    /// The client keeps the permits and sends the release again, up to every 30 s. Do not return
    /// them in another way. Leased permits are available again at the end of their lease at the
    /// latest.
    #[error("the server refused to take permits of `{name}` back")]
    Refused {
        /// Name of the semaphore.
        name: Name,
        /// The server's message and its class.
        #[source]
        source: ServerError,
    },
}

/// Reason why a semaphore was not set, changed, deleted or read.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum SemaphoreError {
    /// No server was reached in time. Nothing is changed.
    #[error("could not ask for the semaphore `{name}`")]
    Unavailable {
        /// Name of the semaphore.
        name: Name,
        /// The last obstacle.
        #[source]
        source: ServerError,
    },
    /// The server does not accept this client's password, user or certificate, or its own
    /// certificate is refused. Nothing is changed.
    #[error("not authorized to ask for the semaphore `{name}`")]
    Unauthorized {
        /// Name of the semaphore.
        name: Name,
        /// The server's message, or what is wrong with the certificate.
        #[source]
        source: ServerError,
    },
    /// The client is shut down. Nothing is changed.
    #[error("the client is shut down; nothing was asked of the semaphore `{name}`")]
    ShuttingDown {
        /// Name of the semaphore.
        name: Name,
    },
    /// The server refused the request: wrong type under the name, no permission, no memory. Nothing
    /// is changed.
    #[error("the server refused what was asked of the semaphore `{name}`")]
    Refused {
        /// Name of the semaphore.
        name: Name,
        /// The server's message and its class.
        #[source]
        source: ServerError,
    },
    /// The request was sent and not answered.
    ///
    /// The change may be made, once; it is sent again for 30 s at most.
    #[error("asked for the semaphore `{name}` and got no answer; the outcome is unknown")]
    OutcomeUnknown {
        /// Name of the semaphore.
        name: Name,
        /// What happened to the reply.
        #[source]
        source: ServerError,
    },
    /// The name cannot be used. No request was sent.
    #[error(transparent)]
    InvalidName(#[from] InvalidName),
    /// A value is not allowed. No request was sent.
    #[error("invalid {option} for the semaphore `{name}`: expected {expected}, got {got}")]
    InvalidArgument {
        /// Name of the semaphore.
        name: Name,
        /// The option.
        option: &'static str,
        /// What is allowed.
        expected: &'static str,
        /// The value that was given.
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
