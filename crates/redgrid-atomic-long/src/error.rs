//! The errors of numbers. Each variant states what is true afterwards.

use redgrid_core::object::ObjectError;
use redgrid_core::{Failure, Name, Operation, ServerError};

use crate::atomic_number::Value;

/// The error of reading or changing a number.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum AtomicError {
    /// The request failed for a reason that all objects share.
    ///
    /// Nothing was changed, unless it is [`Failure::OutcomeUnknown`]: then a change may have been
    /// executed, once.
    #[error(transparent)]
    Failed(#[from] Failure),
    /// The sum is outside of the range of the type. Nothing was changed.
    #[error("cannot add {by} to `{name}`: the sum is out of range")]
    Overflow {
        /// The number.
        name: Name,
        /// The summand.
        by: Value,
    },
    /// The sum is outside of the requested bounds. Nothing was changed.
    #[error("cannot change `{name}`: it is {value}, and would be out of bounds")]
    OutOfBounds {
        /// The number.
        name: Name,
        /// The current number.
        value: Value,
    },
    /// The value under the name was read, and is not a number of this type. Nothing was changed.
    #[error("the value of `{name}` is not a number of this type: expected {expected}, got `{got}`")]
    NotANumber {
        /// The number.
        name: Name,
        /// What was expected.
        expected: &'static str,
        /// The value.
        got: String,
    },
    /// Other clients changed the number before each attempt of the update, until its time was over.
    /// Nothing was changed.
    #[error("cannot update `{name}`: other clients changed it before each of {times} attempts")]
    Contended {
        /// The number.
        name: Name,
        /// The number of attempts.
        times: u32,
    },
}

impl AtomicError {
    pub(crate) fn of(name: &Name, source: ServerError) -> Self {
        match source {
            ServerError::Decode { expected, got } => AtomicError::NotANumber { name: name.clone(), expected, got },
            source => Failure::of_change(Operation::new("change the number", name), source).into(),
        }
    }

    /// Converts the error of a compare-and-set loop about `name`.
    pub(crate) fn of_cas_loop(name: &Name, error: ObjectError) -> Self {
        match error {
            ObjectError::Failed(failure) => failure.into(),
            ObjectError::Contended { name, times } => AtomicError::Contended { name, times },
            ObjectError::Unexpected { name, source } => AtomicError::of(&name, source),
            other => AtomicError::of(name, ServerError::Unknown { reason: other.to_string().into() }),
        }
    }
}

redgrid_core::from_invalid_name!(AtomicError);
