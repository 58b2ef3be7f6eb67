//! The errors of transactions. Each variant states what holds after the error.

use std::time::Duration;

use redgrid_core::object::ObjectError;
use redgrid_core::{Failure, Name, Operation, ServerError};

/// The error of a read in a transaction, or of its commit.
///
/// The transaction writes nothing, neither now nor later, except possibly after
/// [`Failure::OutcomeUnknown`].
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum TransactionError {
    /// Other clients have changed elements that the transaction has read. Retry it from the
    /// beginning, as [`Transaction::run`](crate::Transaction::run) does.
    #[error("other clients changed `{name}` after this transaction had read it")]
    Conflict {
        /// The first changed object.
        name: Name,
    },
    /// Until the timeout, a transaction of Redisson held the lock of elements that this transaction
    /// writes, or another user held a lock with that key.
    #[error("`{name}` was still locked by another transaction after {waited:?}")]
    Locked {
        /// The object.
        name: Name,
        /// How long the commit waited.
        waited: Duration,
    },
    /// The timeout passed before the commit.
    #[error("the transaction has taken {taken:?}, longer than its timeout of {limit:?}")]
    TimedOut {
        /// The time since the transaction began.
        taken: Duration,
        /// The timeout: [`Transaction::timeout`](crate::Transaction::timeout).
        limit: Duration,
    },
    /// The transaction is committed or rolled back, or a commit was attempted.
    #[error("the transaction has already ended")]
    Over,
    /// The objects are in different slots. In a cluster all objects of a transaction must share a
    /// slot: give them one hash tag, as in `{order:42}:lines`.
    #[error("`{name}` and `{other}` are in different slots (give the objects of a transaction one hash tag)")]
    OtherSlot {
        /// The added object.
        name: Name,
        /// An object that the transaction already has.
        other: Name,
    },
    /// The object has another type.
    #[error("`{name}` is not a {expected}, but {found}")]
    WrongType {
        /// The object.
        name: Name,
        /// The expected type.
        expected: &'static str,
        /// The actual type.
        found: String,
    },
    /// The transaction is too large. The limits exist because the server executes it in one step,
    /// and no other request meanwhile.
    #[error("a transaction has at most {limit} {what}, this one would have {got}")]
    TooLarge {
        /// The quantity that exceeds its limit: elements, bytes or objects.
        what: &'static str,
        /// The maximum.
        limit: usize,
        /// The amount that the transaction would have.
        got: usize,
    },
    /// An object could not be read, or a value could not be encoded.
    #[error(transparent)]
    Object(#[from] ObjectError),
    /// The commit failed for a reason that applies to all objects. The transaction is not written.
    ///
    /// [`Failure::OutcomeUnknown`] is the exception: the transaction is written as a whole, up to
    /// half a minute later, or not at all.
    #[error(transparent)]
    Failed(#[from] Failure),
}

impl TransactionError {
    pub(crate) fn too_large(what: &'static str, limit: usize, got: usize) -> Self {
        TransactionError::TooLarge { what, limit, got }
    }

    /// Returns the error of a commit. A reply of an unexpected form means that the commit was
    /// executed.
    pub(crate) fn of_commit(source: ServerError) -> Self {
        Failure::of_change(Operation::without_object("commit the transaction"), source).into()
    }
}
