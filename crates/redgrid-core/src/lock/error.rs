//! Errors of acquiring, releasing, extending, detaching and attaching.
//!
//! Each variant describes the state on the server after the failure.

use std::time::Duration;

use redgrid_client::internal::Core;
use redgrid_client::{CommitError, ServerError};

use crate::failure::{Failure, Operation};
use crate::name::Name;

/// Describes the holder of a lock in an error message.
fn holder(by_this_client: bool) -> &'static str {
    if by_this_client { "this client itself (another task, or a guard that the caller has)" } else { "others" }
}

/// Reason why a hold could not be acquired.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum AcquireError {
    /// The timeout passed while the lock was taken. The caller holds nothing.
    #[error("`{name}` was still held by {} after {waited:?}", holder(*.by_this_client))]
    TimedOut {
        /// Name of the lock.
        name: Name,
        /// How long the caller waited.
        waited: Duration,
        /// Whether a guard of this client held the lock: that of another task, or the caller's own.
        by_this_client: bool,
    },
    /// The lock was granted, but its requested durability was not confirmed in time.
    ///
    /// The grant is released, so the caller holds nothing.
    #[error("`{name}` was granted, but its durability was not confirmed, so it was released: {source}")]
    NotDurable {
        /// Name of the lock.
        name: Name,
        /// Reason why the durability is not confirmed.
        #[source]
        source: CommitError,
    },
    /// The holder that makes the request has lost its hold of the lock.
    #[error("cannot acquire `{name}` again: the holder has lost it")]
    Lost {
        /// Name of the lock.
        name: Name,
    },
    /// The holder already has the lock, and the lock is not reentrant. The holder keeps it.
    #[error("cannot acquire `{name}` again: the caller already holds it, and the lock is not reentrant")]
    AlreadyHeld {
        /// Name of the lock.
        name: Name,
    },
    /// The caller would wait for its own hold. There are two cases. The holder of the current scope
    /// has the lock, but the request is made without this holder. Or the request is for the write
    /// lock of a key, and its holder already has the read lock of that key.
    #[error("cannot wait for `{name}`: the caller's own scope holds it (pass its holder)")]
    WouldDeadlock {
        /// Name of the lock.
        name: Name,
    },
    /// The request failed for a reason that is not specific to locks.
    ///
    /// After [`Failure::OutcomeUnknown`] the lock may be held for a while. The client then releases
    /// the lock in the background. The lock is free at the latest when its lease ends. After all
    /// other failures, the request holds nothing.
    #[error(transparent)]
    Failed(#[from] Failure),
}

impl AcquireError {
    /// Returns the [`Operation`] for the errors of an acquire of `name`.
    pub fn operation(name: &Name) -> Operation {
        Operation::new("acquire", name)
    }

    /// Returns the error for an acquire option with an invalid duration. No request was sent.
    pub fn invalid_argument(name: &Name, option: &'static str, expected: &'static str, got: Duration) -> Self {
        Failure::invalid_argument(name, option, expected, format!("{got:?}")).into()
    }

    /// Converts the error of a request about `name` into the error of an acquire.
    pub fn of_request(name: &Name, error: ServerError) -> Self {
        let operation = AcquireError::operation(name);
        match matches!(error, ServerError::Refused { code, .. } if code.is_passing()) {
            true => Failure::Unavailable { operation, source: error }.into(),
            false => Failure::of_change(operation, error.of_object()).into(),
        }
    }
}

crate::from_invalid_name!(AcquireError);

/// Reason why an acquire request failed. `into_error` adds the name of the lock.
#[derive(Debug, Clone)]
pub(super) enum AcquireFailure {
    /// The request was certainly not executed.
    NotDone(ServerError),
    Unknown(ServerError),
    /// Another request of the same holder was granted, and this request does not re-enter.
    AlreadyHeld,
    /// Another request of the same holder was granted. This request re-enters that hold when its
    /// caller polls next.
    Reenters,
    /// The grant was not as durable as requested, and was released.
    NotDurable(CommitError),
    ShuttingDown,
}

impl AcquireFailure {
    /// Converts the failure of a request that was sent more than once. A failure that means "not
    /// executed" becomes `Unknown`, because an earlier transmission may have been executed.
    pub(super) fn unknown(self) -> AcquireFailure {
        match self {
            AcquireFailure::NotDone(source) => AcquireFailure::Unknown(source),
            other => other,
        }
    }

    pub(super) fn too_late_twice() -> AcquireFailure {
        let why = "the request reached the server too late, twice: the server's clock jumps";
        AcquireFailure::NotDone(ServerError::not_sent(why))
    }

    pub(super) fn into_error(self, core: &Core, name: &Name) -> AcquireError {
        match self {
            AcquireFailure::AlreadyHeld | AcquireFailure::Reenters => AcquireError::AlreadyHeld { name: name.clone() },
            AcquireFailure::NotDurable(source) => AcquireError::NotDurable { name: name.clone(), source },
            AcquireFailure::Unknown(source) => {
                Failure::OutcomeUnknown { operation: AcquireError::operation(name), source }.into()
            }
            AcquireFailure::NotDone(source) => AcquireError::of_request(name, source),
            AcquireFailure::ShuttingDown => AcquireError::of_request(name, core.life.why()),
        }
    }
}

impl From<ServerError> for AcquireFailure {
    fn from(error: ServerError) -> AcquireFailure {
        match error {
            ServerError::ShuttingDown => AcquireFailure::ShuttingDown,
            error if error.is_not_done() => AcquireFailure::NotDone(error),
            error => AcquireFailure::Unknown(error),
        }
    }
}

/// Error of a release: the hold had ended before, or its release is not confirmed or was refused.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum ReleaseError {
    /// The hold had ended before its release, so others may have held the lock meanwhile.
    #[error("`{name}` had been lost before it was released: {reason}")]
    Lost {
        /// Name of the lock.
        name: Name,
        /// How the hold ended.
        reason: LostReason,
    },
    /// The server did not confirm the release. The hold ends with its lease at the latest.
    #[error("the release of `{name}` is not confirmed; it is free at the latest when its lease ends: {source}")]
    OutcomeUnknown {
        /// Name of the lock.
        name: Name,
        /// The reason why the outcome is unknown.
        #[source]
        source: ServerError,
    },
    /// The server refused the release. The hold ends with its lease.
    ///
    /// If a permission was missing, the release is repeated in the background until the lease ends,
    /// in case the permission is granted again.
    #[error("cannot release `{name}`; it stays held until its lease ends: {source}")]
    Refused {
        /// Name of the lock.
        name: Name,
        /// The error of the server.
        #[source]
        source: ServerError,
    },
}

impl ReleaseError {
    /// Returns the error of a release that was not answered in time. The release continues in the
    /// background.
    pub(super) fn unanswered(name: Name) -> Self {
        let source = ServerError::unknown("no answer came in time; the release goes on until the lease ends");
        ReleaseError::OutcomeUnknown { name, source }
    }
}

/// Reason why a lease was not changed.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum ExtendError {
    /// The hold has ended.
    #[error("`{name}` is no longer held: {reason}")]
    Lost {
        /// Name of the lock.
        name: Name,
        /// How the hold ended.
        reason: LostReason,
    },
    /// The request was not sent, or was refused.
    ///
    /// The lease on the server is unchanged. If a shorter lease was requested, this process treats
    /// the hold as if it had the shorter lease.
    #[error("cannot change the lease of `{name}`: {source}")]
    NotExtended {
        /// Name of the lock.
        name: Name,
        /// The reason.
        #[source]
        source: ServerError,
    },
    /// No valid reply arrived. The hold is valid until the old or the new lease ends, whichever is
    /// earlier.
    #[error("tried to change the lease of `{name}`, the outcome is unknown: {source}")]
    OutcomeUnknown {
        /// Name of the lock.
        name: Name,
        /// The reason why the outcome is unknown.
        #[source]
        source: ServerError,
    },
    /// The primary has the new lease, but its requested durability was not confirmed in time.
    ///
    /// The hold is valid until the old or the new lease ends, whichever is earlier.
    #[error("the lease of `{name}` was changed, but its durability was not confirmed: {source}")]
    NotDurable {
        /// Name of the lock.
        name: Name,
        /// Reason why the durability is not confirmed.
        #[source]
        source: CommitError,
    },
    /// The lease is out of range.
    #[error("invalid lease for `{name}`: expected {expected}, got {got:?}")]
    InvalidArgument {
        /// Name of the lock.
        name: Name,
        /// What is allowed.
        expected: &'static str,
        /// The value that was given.
        got: Duration,
    },
}

impl ExtendError {
    /// Converts the error of a request that changes the length of a lease.
    pub(crate) fn of(name: Name, source: ServerError) -> Self {
        match source {
            ServerError::Unknown { .. } | ServerError::Decode { .. } => ExtendError::OutcomeUnknown { name, source },
            _ => ExtendError::NotExtended { name, source },
        }
    }
}

/// Reason why a hold was not detached from its process.
///
/// If the error does not say that the hold is lost, the hold continues.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum DetachError {
    /// Other guards of the same hold are alive, for example because the hold was re-entered. After
    /// the detach, these guards would still be valid in this process.
    #[error("cannot detach `{name}`: it has other guards in this process")]
    Shared {
        /// Name of the lock.
        name: Name,
    },
    /// The hold has ended.
    #[error("`{name}` is no longer held: {reason}")]
    Lost {
        /// Name of the lock.
        name: Name,
        /// How the hold ended.
        reason: LostReason,
    },
    /// The renewal before the detach has failed. It would have given the other process time to
    /// attach the hold.
    #[error("cannot detach `{name}`: {source}")]
    NotRenewed {
        /// Name of the lock.
        name: Name,
        /// The reason.
        #[source]
        source: ExtendError,
    },
    /// There is no contact with the server. So it is not known when the fixed lease ends by the
    /// server's clock.
    #[error("cannot detach `{name}`, the end of its lease is not known: {source}")]
    Unavailable {
        /// Name of the lock.
        name: Name,
        /// The reason.
        #[source]
        source: ServerError,
    },
    /// Holds of this kind cannot be handed to another process.
    #[error("cannot detach `{name}`: a {kind} cannot be handed to another process")]
    Unsupported {
        /// Name of the lock.
        name: Name,
        /// The kind.
        kind: &'static str,
    },
}

/// Reason why a detached hold was not attached.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum AttachError {
    /// The detached hold is gone: it was attached before, taken by force, or its lease has ended.
    ///
    /// Nothing is held.
    #[error("cannot attach `{name}`: it was attached elsewhere or taken, or its lease has ended")]
    Gone {
        /// Name of the lock.
        name: Name,
    },
    /// The hold was detached from another lock. No request was sent.
    #[error("cannot attach `{name}`: the detached hold belongs to `{detached}`")]
    OtherLock {
        /// Name of the lock.
        name: Name,
        /// Kind and name of the detached hold.
        detached: String,
    },
    /// Attaching failed for a reason that can also make an acquire fail.
    ///
    /// If the outcome is unknown, this process may have taken the hold over. In that case the hold
    /// is being released.
    #[error(transparent)]
    Failed(#[from] AcquireError),
}

/// How a hold ended without being released.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LostReason {
    /// The deadline passed before a renewal was confirmed, or a fixed lease ended.
    Expired,
    /// The server no longer has the hold: it was deleted or taken, or the server restarted empty.
    Gone,
    /// Another redgrid client took the lock by force.
    Forced,
    /// This client was shut down.
    ShutDown,
}

impl LostReason {
    /// All reasons.
    #[cfg(all(test, feature = "metrics"))]
    pub(crate) const ALL: [LostReason; 4] =
        [LostReason::Expired, LostReason::Gone, LostReason::Forced, LostReason::ShutDown];

    /// Returns the label of this reason in metrics.
    pub(crate) fn label(self) -> &'static str {
        match self {
            LostReason::Expired => "expired",
            LostReason::Gone => "gone",
            LostReason::Forced => "forced",
            LostReason::ShutDown => "shut_down",
        }
    }
}

impl std::fmt::Display for LostReason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            LostReason::Expired => "its lease was not confirmed in time",
            LostReason::Gone => "the server no longer has this hold",
            LostReason::Forced => "it was taken by force",
            LostReason::ShutDown => "the client was shut down",
        })
    }
}
