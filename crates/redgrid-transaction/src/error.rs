//! What can be wrong with a transaction, and what is true then.

use std::time::Duration;

use redgrid_core::object::ObjectError;
use redgrid_core::{Name, ServerError};

/// Why a transaction has read nothing, or is not committed. But for [`OutcomeUnknown`](TransactionError::OutcomeUnknown), nothing of it is
/// written, and nothing will be.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum TransactionError {
    /// Others have changed what it has read. To be done again from its beginning: [`Transaction::run`](crate::Transaction::run) does.
    #[error("`{name}` was changed by others since this transaction has read it")]
    Conflict {
        /// The first object of which it is true.
        name: Name,
    },
    /// Another transaction, of Redisson, has the lock of what this one was to write until its time was over; or somebody has the lock of that key.
    #[error("`{name}` was still locked by another transaction after {waited:?}")]
    Locked {
        /// The object.
        name: Name,
        /// How long was waited.
        waited: Duration,
    },
    /// Its time was over before it was committed.
    #[error("the transaction has taken {taken:?}, and has {limit:?}")]
    TimedOut {
        /// Since it was begun.
        taken: Duration,
        /// What it has: [`Transaction::timeout`](crate::Transaction::timeout).
        limit: Duration,
    },
    /// It is committed or rolled back, or that was tried.
    #[error("the transaction is over")]
    Over,
    /// In a cluster all objects of a transaction share a slot: give them one hash tag, as `{order:42}:lines`.
    #[error("`{name}` and `{other}` are in different slots; objects of one transaction share a hash tag")]
    OtherSlot {
        /// What it was to have to do with.
        name: Name,
        /// What it has to do with already.
        other: Name,
    },
    /// What is under the name is of another type.
    #[error("`{name}` is no {expected}, but {found}")]
    WrongType {
        /// The object.
        name: Name,
        /// What it was taken for.
        expected: &'static str,
        /// What it is.
        found: String,
    },
    /// It has to do with too much: the server does it in one step, and serves nobody else meanwhile.
    #[error("a transaction has up to {limit} {what}, and this would have {got}")]
    TooLarge {
        /// Elements or bytes.
        what: &'static str,
        /// How many it may have.
        limit: usize,
        /// How many there would be.
        got: usize,
    },
    /// An object was not read, or a value can not be written; it says why.
    #[error(transparent)]
    Object(#[from] ObjectError),
    /// The server refused, or could not be asked in time.
    #[error("the transaction is not committed")]
    NotCommitted(#[source] ServerError),
    /// The server does not accept this client's password, user or certificate, or its own
    /// certificate is refused.
    #[error("not authorized to commit the transaction")]
    Unauthorized(#[source] ServerError),
    /// The client is shut down.
    #[error("the client is shut down; the transaction is not committed")]
    ShuttingDown,
    /// No answer came: it is written as a whole, or will be within half a minute, or nothing of it is.
    #[error("no answer to the commit: the transaction is written as a whole, or not at all")]
    OutcomeUnknown(#[source] ServerError),
}

impl TransactionError {
    pub(crate) fn too_large(what: &'static str, limit: usize, got: usize) -> Self {
        TransactionError::TooLarge { what, limit, got }
    }

    /// What became of a commit. Its answer has one form: another one is of what was carried out.
    pub(crate) fn of_commit(source: ServerError) -> Self {
        match source {
            ServerError::ShuttingDown => TransactionError::ShuttingDown,
            ServerError::Unauthorized { .. } => TransactionError::Unauthorized(source),
            source if source.is_not_done() => TransactionError::NotCommitted(source),
            source => TransactionError::OutcomeUnknown(source),
        }
    }
}
