//! Errors of acquiring, returning and managing permits.

use std::time::Duration;

use redgrid_client::{CommitError, ServerError};

use crate::failure::{Failure, Operation};
use crate::lock::LostReason;
use crate::name::Name;

/// Reason why permits were not acquired.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum AcquireError {
    /// The timeout passed while there were too few permits. Nothing is held.
    #[error("`{name}` still had too few permits after {waited:?}")]
    TimedOut {
        /// Name of the semaphore.
        name: Name,
        /// How long the caller waited.
        waited: Duration,
    },
    /// The number of permits is not set on the server, and this handle was created without a number
    /// of permits. The semaphore is new, or was deleted.
    ///
    /// Nothing is held.
    #[error("the number of permits of `{name}` is not set")]
    NotInitialised {
        /// Name of the semaphore.
        name: Name,
    },
    /// The number of permits on the server differs from the number with which this handle was
    /// created. Nothing is held.
    ///
    /// Possible causes: another process uses another number; the number was changed; or there are
    /// held permits without a lease, which `found` does not include.
    #[error(
        "`{name}` has {found} permits, but this handle gives {expected}: use one number in all processes, and no \
         plain permits together with leased ones"
    )]
    PermitsDiffer {
        /// Name of the semaphore.
        name: Name,
        /// The number with which this handle was created.
        expected: u64,
        /// The number on the server: available permits, and held permits with a lease.
        found: i64,
    },
    /// The handle was closed. Nothing is held.
    #[error("`{name}` is closed")]
    Closed {
        /// Name of the semaphore.
        name: Name,
    },
    /// The permits were granted, but the requested durability was not confirmed in time.
    ///
    /// The permits were returned; nothing is held.
    #[error("permits of `{name}` were granted without confirmed durability, so they were returned: {source}")]
    NotDurable {
        /// Name of the semaphore.
        name: Name,
        /// The reason why the durability is not confirmed.
        #[source]
        source: CommitError,
    },
    /// The request failed for a reason that all objects share.
    ///
    /// Only after [`Failure::OutcomeUnknown`], permits may be held. The client then sends the
    /// request again until it is answered, for 30 s at most, and returns the permits that the
    /// request took. If it is never answered, leased permits are available again at the end of
    /// their lease, and permits without a lease may be lost.
    #[error(transparent)]
    Failed(#[from] Failure),
}

impl AcquireError {
    /// Returns the text about the failed operation: an acquire of permits of `name`.
    fn operation(name: &Name) -> Operation {
        Operation::new("acquire permits of", name)
    }

    /// Returns the error of a request for permits of `name` that ended with `error`.
    pub(super) fn of(name: &Name, error: ServerError) -> Self {
        Failure::of_change(Self::operation(name), error.of_object()).into()
    }
}

/// Reason why a release has not returned all its permits, or may not have returned them.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum ReleaseError {
    /// Some of the permits had been lost before the release: another caller may have acquired them
    /// meanwhile.
    #[error("a permit of `{name}` had been lost before it was released: {reason}")]
    Lost {
        /// Name of the semaphore.
        name: Name,
        /// How the permit was lost.
        reason: LostReason,
    },
    /// The server did not confirm the release in time.
    ///
    /// The client sends the release again, so do not return the permits in another way. Leased
    /// permits are available again at the end of their lease at the latest. A release of permits
    /// without a lease is sent again for 30 s at most. If it is never answered, these permits may
    /// be lost.
    #[error("the release of permits of `{name}` is not confirmed; it may be sent again: {source}")]
    OutcomeUnknown {
        /// Name of the semaphore.
        name: Name,
        /// The reason why the outcome is unknown.
        #[source]
        source: ServerError,
    },
    /// The server refused the release.
    ///
    /// The client sends the release again, with growing pauses of at most 30 s. Until the server
    /// accepts it, the permits stay held. Do not return the permits in another way. Leased permits
    /// are available again at the end of their lease at the latest.
    #[error("cannot release permits of `{name}`; the release is sent again: {source}")]
    Refused {
        /// Name of the semaphore.
        name: Name,
        /// The server's message and its class.
        #[source]
        source: ServerError,
    },
}

crate::from_invalid_name!(AcquireError);
