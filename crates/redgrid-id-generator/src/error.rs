//! The errors of id generators. Each variant states what holds after the error.

use std::time::SystemTime;

use redgrid_core::{Failure, Name, Operation, ServerError, describe_time};

/// The error of a call for an id, or of a change of a generator.
///
/// An id that was not issued may be skipped permanently. No id is issued twice.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum IdError {
    /// The request failed for a reason that applies to all objects.
    ///
    /// No id was issued; numbers may be skipped. After [`Failure::OutcomeUnknown`] a request to
    /// initialize or delete a generator may have been executed.
    #[error(transparent)]
    Failed(#[from] Failure),
    /// No further block of ids fits below 2^63 - 1; the largest id is 2^63 - 2. This is permanent.
    #[error("the generator `{name}` has no block of ids left below 2^63")]
    Exhausted {
        /// The generator.
        name: Name,
    },
    /// All 2^32 - 1 numbers of the day are used. The next day has new numbers.
    #[error("the generator `{name}` has no numbers left for the day of `{key}`")]
    DayExhausted {
        /// The generator.
        name: Name,
        /// The key of the day.
        key: Name,
    },
    /// The server's time is outside of the 2^31 seconds that start at the epoch of the ids.
    #[error("the server's time ({seconds} s since 1970) is outside the range of `{name}`: 2^31 s from {from} s on")]
    TimeOutOfRange {
        /// The generator.
        name: Name,
        /// The server's time, in seconds since 1970.
        seconds: i64,
        /// The epoch of the ids, in seconds since 1970.
        from: i64,
    },
    /// The value of a key is not a valid number. Nothing was changed.
    #[error("the value of `{key}` is not a valid number: expected {expected}, got `{got}`")]
    NotANumber {
        /// The key.
        key: String,
        /// The expected value.
        expected: &'static str,
        /// The first 64 bytes of the value.
        got: String,
    },
}

impl IdError {
    /// Returns the error of a request for ids. If its reply is lost, no id was issued either.
    pub(crate) fn of_ids(name: &Name, source: ServerError) -> Self {
        Failure::of_read(Operation::new("get ids of", name), source).into()
    }

    /// Returns the error of a change of a generator.
    pub(crate) fn of_change(name: &Name, source: ServerError) -> Self {
        Failure::of_change(Operation::new("change the generator", name), source).into()
    }

    pub(crate) fn invalid_time(name: &Name, got: SystemTime) -> Self {
        let expected = "a whole second of the years 1900 to 9999";
        Failure::invalid_argument(name, "epoch", expected, describe_time(got)).into()
    }
}

redgrid_core::from_invalid_name!(IdError);
