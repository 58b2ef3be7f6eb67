//! The errors of latches. Each variant states what is true afterwards.

use std::time::Duration;

use redgrid_core::{Failure, LIFETIMES_EXPECTED, Name, Operation, ServerError};

/// The error of a call that sets, counts down, deletes or reads a latch.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum LatchError {
    /// The request failed for a reason that all objects share.
    ///
    /// Nothing is changed, except after [`Failure::OutcomeUnknown`]: then the request may be
    /// executed, once. It is sent again for 30 s at most. A value under the name that is not a
    /// count is [`Failure::Refused`] when it is read.
    #[error(transparent)]
    Failed(#[from] Failure),
    /// The count is invalid. No request was sent.
    #[error("invalid count for the latch `{name}`: expected 1 to {}, got {got}", i64::MAX)]
    InvalidCount {
        /// The latch.
        name: Name,
        /// The given value.
        got: u64,
    },
    /// The lifetime is invalid. No request was sent.
    #[error("invalid lifetime for the latch `{name}`: expected {LIFETIMES_EXPECTED}, got {got:?}")]
    InvalidLifetime {
        /// The latch.
        name: Name,
        /// The given value.
        got: Duration,
    },
}

impl LatchError {
    /// Returns the error of a change.
    pub(crate) fn of_change(name: &Name, source: ServerError) -> Self {
        Failure::of_change(Operation::new("change the latch", name), source.of_object()).into()
    }

    /// Returns the error of a read.
    pub(crate) fn of_read(name: &Name, source: ServerError) -> Self {
        Failure::of_read(Operation::new("read the latch", name), source.of_object()).into()
    }
}

/// The error of a wait that ended before the latch was open. The latch is as it was.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum WaitError {
    /// The timeout passed, and the count was not 0 when it was last read.
    ///
    /// That read was at most five `poll_interval`s and a second ago.
    #[error("the latch `{name}` was still closed after {waited:?}")]
    TimedOut {
        /// The latch.
        name: Name,
        /// How long the wait lasted.
        waited: Duration,
    },
    /// The request failed for a reason that all objects share.
    ///
    /// It is [`Failure::Unavailable`] after `response_timeout × (retries + 1)` without a reply, or
    /// at the timeout of the wait.
    #[error(transparent)]
    Failed(#[from] Failure),
}

impl WaitError {
    pub(crate) fn of(name: &Name, source: ServerError) -> Self {
        Failure::of_read(Operation::new("wait for the latch", name), source.of_object()).into()
    }
}

redgrid_core::from_invalid_name!(LatchError, WaitError);
