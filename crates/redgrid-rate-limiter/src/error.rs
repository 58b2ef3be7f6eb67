//! The errors of rate limiters. Each variant states what is true afterwards.

use std::time::Duration;

use redgrid_core::author::ClientExt;
use redgrid_core::{Client, Failure, Name, Operation, ServerError};

/// The error of a call that takes permits, or reads or changes a limiter.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum LimitError {
    /// No rate is set, or it was deleted or has expired. Nothing is taken.
    #[error("no rate is set for `{name}`")]
    RateNotSet {
        /// The limiter.
        name: Name,
    },
    /// The call requests more permits than are ever available at once. Nothing is taken.
    #[error("cannot take {permits} permits of `{name}` at once: its limit is {most}")]
    TooManyPermits {
        /// The limiter.
        name: Name,
        /// The requested number.
        permits: u64,
        /// The maximum at once: the rate, or the burst.
        most: u64,
    },
    /// The timeout passed first.
    ///
    /// Either no permits are taken, or they are returned when the reply arrives, or they count
    /// until they expire.
    #[error("`{name}` was still at its limit after {waited:?}")]
    TimedOut {
        /// The limiter.
        name: Name,
        /// How long the call waited.
        waited: Duration,
    },
    /// The request failed for a reason that all objects share.
    ///
    /// Nothing is taken or changed, with two exceptions. After [`Failure::OutcomeUnknown`] the
    /// request may be executed, once: permits that were taken are returned when the reply arrives,
    /// or count until they expire. After [`Failure::ShuttingDown`] permits that were taken count
    /// until they expire.
    #[error(transparent)]
    Failed(#[from] Failure),
}

impl LimitError {
    pub(crate) fn of(client: &Client, name: &Name, source: ServerError) -> Self {
        let operation = LimitError::operation(name);
        // If the client is shut down, the error names the shutdown as the cause.
        let source = if source.is_not_sent() && client.is_shut_down() { client.ended() } else { source };
        match source {
            ServerError::Decode { .. } => Failure::Refused { operation, source }.into(),
            source => Failure::of_change(operation, source).into(),
        }
    }

    /// Returns the operation that a failure names.
    pub(crate) fn operation(name: &Name) -> Operation {
        Operation::new("use the limiter", name)
    }

    pub(crate) fn argument(name: &Name, option: &'static str, expected: &'static str, got: impl ToString) -> Self {
        Failure::invalid_argument(name, option, expected, got.to_string()).into()
    }
}

redgrid_core::from_invalid_name!(LimitError);
