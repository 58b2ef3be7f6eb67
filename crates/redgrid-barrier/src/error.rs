//! The errors of requests and of waits. Each variant states what is true afterwards.

use std::time::Duration;

use redgrid_core::{Failure, Name, Operation, ServerError};

/// Returns the failure of a request.
///
/// If the server is temporarily unable to execute it, the failure is [`Failure::Unavailable`]: the
/// server is loading its data, accepts no writes, or the slot is migrating.
pub(crate) fn failure(name: &Name, source: ServerError) -> Failure {
    let operation = Operation::new("use", name);
    match source {
        ServerError::Refused { code, .. } if code.is_passing() => Failure::Unavailable { operation, source },
        source => Failure::of_change(operation, source),
    }
}

/// Returns the failure of a call that the shutdown of its client has ended.
pub(crate) fn shutting_down(name: &Name) -> Failure {
    Failure::ShuttingDown { operation: Operation::new("use", name) }
}

/// Converts the failure of a read. A read changes nothing, so a missing reply is not
/// `OutcomeUnknown`.
pub(crate) fn of_read(failure: Failure) -> Failure {
    match failure {
        Failure::OutcomeUnknown { operation, source } => Failure::Unavailable { operation, source },
        other => other,
    }
}

/// Returns whether a repeated request may succeed.
pub(crate) fn is_passing(failure: &Failure) -> bool {
    matches!(failure, Failure::Unavailable { .. } | Failure::OutcomeUnknown { .. })
}

/// The error of a wait.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum WaitError {
    /// The timeout passed before the wait was done. The waiter was removed.
    ///
    /// If the server does not confirm the removal soon, the removal goes on in the background. At
    /// the latest, the waiter is removed when its lease ends.
    #[error("the wait for `{name}` timed out after {waited:?}")]
    TimedOut {
        /// The object.
        name: Name,
        /// How long the wait lasted.
        waited: Duration,
    },
    /// A request failed.
    ///
    /// After [`Failure::OutcomeUnknown`] the waiter is removed in the background, at the latest
    /// when its lease ends.
    #[error(transparent)]
    Failed(#[from] Failure),
}

/// The error of a wait at a [`Barrier`](crate::Barrier) or a
/// [`DoubleBarrier`](crate::DoubleBarrier).
///
/// The party was removed. If the server does not confirm the removal soon, the removal goes on in
/// the background. At the latest, the party is removed when its lease ends. Until then the barrier
/// may open with it.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum BarrierError {
    /// The timeout passed before all parties arrived.
    #[error("not all parties arrived at the barrier `{name}` within {waited:?}")]
    TimedOut {
        /// The barrier.
        name: Name,
        /// How long the wait lasted.
        waited: Duration,
    },
    /// Other waiters use another number of parties.
    #[error("other waiters at the barrier `{name}` expect {theirs} parties, this one expects {ours}")]
    PartiesDiffer {
        /// The barrier.
        name: Name,
        /// The number of parties of this handle.
        ours: u32,
        /// The number of parties of the waiters.
        theirs: u32,
    },
    /// A request failed, or the number of parties is 0: [`Failure::InvalidArgument`].
    #[error(transparent)]
    Failed(#[from] Failure),
}

impl From<WaitError> for BarrierError {
    fn from(error: WaitError) -> Self {
        match error {
            WaitError::TimedOut { name, waited } => BarrierError::TimedOut { name, waited },
            WaitError::Failed(error) => BarrierError::Failed(error),
        }
    }
}

redgrid_core::from_invalid_name!(WaitError, BarrierError);
