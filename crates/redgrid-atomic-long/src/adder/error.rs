//! The errors of adders. Each variant states what is true afterwards.

use std::time::Duration;

use redgrid_core::{Failure, Name, Operation, ServerError};

use super::adder_number::Amount;

/// The error of an operation of an adder: a sum, a reset, an addition, or its end.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum AdderError {
    /// Not all members answered in time: one is suspended or has lost its connection.
    ///
    /// After a reset, members that did not answer may be reset, too.
    #[error("{answered} of {expected} members of the adder `{name}` answered within {within:?}")]
    Partial {
        /// The adder.
        name: Name,
        /// The number of members that answered.
        answered: u64,
        /// The number of members that received the request.
        expected: u64,
        /// The sum of the answers; 0 for a reset.
        so_far: Amount,
        /// The timeout of the call.
        within: Duration,
    },
    /// The request failed for a reason that all objects share. Some members may have been reset.
    ///
    /// If the call was an addition, nothing was added.
    #[error(transparent)]
    Failed(#[from] Failure),
    /// The sum is outside of the range of the type. If the call was an addition, nothing was added.
    #[error("the sum of the adder `{name}` is out of range")]
    Overflow {
        /// The adder.
        name: Name,
    },
    /// A key of the adder has an unexpected value.
    #[error("a key of the adder `{name}` has an unexpected value: expected {expected}, got `{got}`")]
    NotANumber {
        /// The adder.
        name: Name,
        /// What was expected.
        expected: &'static str,
        /// The value.
        got: String,
    },
    /// This client has an adder of the other type with that name. Nothing was added.
    #[error("this client already uses the adder `{name}` as a {is}")]
    OtherKind {
        /// The adder.
        name: Name,
        /// The type.
        is: &'static str,
    },
    /// The count since the last save could not be saved.
    #[error("cannot save the count of the adder `{name}`: {source}")]
    NotSaved {
        /// The adder.
        name: Name,
        /// The error of the last attempt.
        #[source]
        source: ServerError,
    },
}

impl AdderError {
    /// Returns the error of a sum or a reset.
    pub(super) fn of(name: &Name, source: ServerError) -> Self {
        match source {
            ServerError::Decode { expected, got } => AdderError::NotANumber { name: name.clone(), expected, got },
            source => Failure::of_read(Operation::new("read the adder", name), source).into(),
        }
    }
}

redgrid_core::from_invalid_name!(AdderError);
