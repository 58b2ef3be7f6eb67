//! What acquiring, releasing and extending can end in. Each variant says what is now true on the server.

use std::time::Duration;

use crate::connection::CommitError;
use crate::error::ServerError;
use crate::name::Name;

/// Who held a name, for the words of an error.
fn holder(by_this_client: bool) -> &'static str {
    if by_this_client { "this client itself (another task, or a guard that the caller has)" } else { "others" }
}

/// Why a hold could not be acquired.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum AcquireError {
    /// The wait ran out while others held it. Nothing is held.
    #[error("`{name}` was still held by {} after {waited:?}", holder(*.by_this_client))]
    TimedOut {
        /// What was asked for.
        name: Name,
        /// How long.
        waited: Duration,
        /// Whether a guard of this very client held it: of another task, or the caller's own.
        by_this_client: bool,
    },
    /// No server could be asked in time. Nothing is held.
    #[error("could not ask for `{name}`")]
    Unavailable {
        /// What was asked for.
        name: Name,
        /// What stood in the way last.
        #[source]
        source: ServerError,
    },
    /// The server does not accept this client's password, user or certificate, or its own
    /// certificate is refused. Nothing is held.
    #[error("not authorized to ask for `{name}`")]
    Unauthorized {
        /// What was asked for.
        name: Name,
        /// The words of the server, or what is wrong with the certificate.
        #[source]
        source: ServerError,
    },
    /// The server refused the request: wrong type under the name, no permission, no memory. Nothing is held.
    #[error("the server refused to grant `{name}`")]
    Refused {
        /// What was asked for.
        name: Name,
        /// The server's words and their class.
        #[source]
        source: ServerError,
    },
    /// Asked, and no answer came. It may be held for a moment; giving it back is under way, and its lease ends it at the
    /// latest.
    #[error("asked for `{name}` and got no answer; the outcome is unknown")]
    OutcomeUnknown {
        /// What was asked for.
        name: Name,
        /// What happened to the answer.
        #[source]
        source: ServerError,
    },
    /// Granted, and not proven to be as durable as asked in time. It was given back; nothing is held.
    #[error("`{name}` was granted and not made as durable as asked; it was given back")]
    NotDurable {
        /// What was asked for.
        name: Name,
        /// What is missing.
        #[source]
        source: CommitError,
    },
    /// The holder that asks to enter again has lost what it held.
    #[error("the holder that asks for `{name}` again has lost it")]
    Lost {
        /// What was asked for.
        name: Name,
    },
    /// The holder that asks has it already, and the lock is one that nobody enters twice. It goes on to hold it.
    #[error("the holder that asks for `{name}` again holds it, and nobody enters this lock twice")]
    AlreadyHeld {
        /// What was asked for.
        name: Name,
    },
    /// The caller would wait for itself: its scope's holder holds what it asks for as somebody else.
    #[error("waiting for `{name}` would never end: the caller's own scope holds it")]
    WouldDeadlock {
        /// What was asked for.
        name: Name,
    },
    /// The client is shutting down. Nothing is held.
    #[error("the client is shutting down; `{name}` was not acquired")]
    ShuttingDown {
        /// What was asked for.
        name: Name,
    },
    /// The name can not be used. Nothing was asked.
    #[error(transparent)]
    InvalidName(#[from] crate::name::InvalidName),
    /// An option has a value that can not be. Nothing was asked.
    #[error("invalid {option} for `{name}`: expected {expected}, got {got:?}")]
    InvalidArgument {
        /// What was to be asked for.
        name: Name,
        /// The option.
        option: &'static str,
        /// What is allowed.
        expected: &'static str,
        /// What was given.
        got: Duration,
    },
}

/// Why a release did not end a hold that was ours until then.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum ReleaseError {
    /// It had ended without us: others may have been in.
    #[error("`{name}` had been lost before it was released: {reason}")]
    Lost {
        /// What was held.
        name: Name,
        /// How it ended.
        reason: LostReason,
    },
    /// The server did not confirm; the lease ends it at the latest.
    #[error("released `{name}` and got no answer; its lease ends it at the latest")]
    OutcomeUnknown {
        /// What was held.
        name: Name,
        /// What happened to the answer.
        #[source]
        source: ServerError,
    },
    /// The server refused the release; the lease ends it. Where the user had no permission, it is
    /// sent again until then, in the background, in case permissions come back.
    #[error("the server refused to release `{name}`; its lease ends it")]
    Refused {
        /// What was held.
        name: Name,
        /// The server's words and their class.
        #[source]
        source: ServerError,
    },
}

/// Why a lease was not changed.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum ExtendError {
    /// The hold has ended.
    #[error("`{name}` is no longer held: {reason}")]
    Lost {
        /// What was held.
        name: Name,
        /// How it ended.
        reason: LostReason,
    },
    /// It was not asked, or refused. The lease is as it was; where a shorter one was asked for, the hold ends by our
    /// clock as if it had been granted.
    #[error("the lease of `{name}` could not be changed")]
    NotExtended {
        /// What is held.
        name: Name,
        /// What stood in the way.
        #[source]
        source: ServerError,
    },
    /// No answer came. Of the old and the new lease, the earlier end is believed.
    #[error("the lease of `{name}` was to be changed and no answer came")]
    OutcomeUnknown {
        /// What is held.
        name: Name,
        /// What happened to the answer.
        #[source]
        source: ServerError,
    },
    /// The primary has the new lease, and it was not proven to be as durable as asked in time. The old one is believed.
    #[error("the lease of `{name}` was changed and not made as durable as asked")]
    NotDurable {
        /// What is held.
        name: Name,
        /// What is missing.
        #[source]
        source: CommitError,
    },
    /// The lease is out of range.
    #[error("invalid lease for `{name}`: expected {expected}, got {got:?}")]
    InvalidArgument {
        /// What is held.
        name: Name,
        /// What is allowed.
        expected: &'static str,
        /// What was given.
        got: Duration,
    },
}

impl ExtendError {
    /// What a failed request means for a lease that was to be changed.
    pub(crate) fn of(name: Name, source: ServerError) -> Self {
        match source {
            ServerError::Unknown { .. } | ServerError::Decode { .. } => ExtendError::OutcomeUnknown { name, source },
            _ => ExtendError::NotExtended { name, source },
        }
    }
}

/// Why a hold was not detached from its process. It is held as before, unless it is lost.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum DetachError {
    /// Other guards of the same hold live: it has entered again, and they would go on believing.
    #[error("`{name}` has other guards in this process")]
    Shared {
        /// What is held.
        name: Name,
    },
    /// The hold has ended.
    #[error("`{name}` is no longer held: {reason}")]
    Lost {
        /// What was held.
        name: Name,
        /// How it ended.
        reason: LostReason,
    },
    /// Its lease was to be renewed once more, so that the other process has time to attach, and was not.
    #[error("the lease of `{name}` could not be renewed before handing it over")]
    NotRenewed {
        /// What is held.
        name: Name,
        /// What stood in the way.
        #[source]
        source: ExtendError,
    },
    /// There is no contact to the server, by whose clock the end of a fixed lease is told.
    #[error("the end of the lease of `{name}` could not be told")]
    Unavailable {
        /// What is held.
        name: Name,
        /// What stands in the way.
        #[source]
        source: ServerError,
    },
    /// Holds of this kind can not be handed to another process.
    #[error("`{name}` is held as a {kind}, which can not be handed to another process")]
    Unsupported {
        /// What is held.
        name: Name,
        /// The kind.
        kind: &'static str,
    },
}

/// Why a detached hold was not attached.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum AttachError {
    /// It is not the detached one's any more: attached before, taken by force, or its lease has ended. Nothing is held.
    #[error("`{name}` is not detached any more: attached elsewhere, taken, or at the end of its lease")]
    Gone {
        /// What was to be attached.
        name: Name,
    },
    /// It was detached from another lock. Nothing was asked.
    #[error("a hold of `{detached}` was to be attached to `{name}`")]
    OtherLock {
        /// What was to be attached.
        name: Name,
        /// What was detached: its kind and name.
        detached: String,
    },
    /// It could not be taken over, for a reason that an acquire has too. Where the outcome is unknown, what may have been taken
    /// over is being given back.
    #[error(transparent)]
    Failed(#[from] AcquireError),
}

/// How a hold ended without being released.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LostReason {
    /// Its deadline passed before a renewal was confirmed, or its fixed lease ran out.
    Expired,
    /// The server says that it is not ours: deleted, taken, or forgotten by a server that restarted empty.
    Gone,
    /// Another redgrid client took it by force.
    Forced,
    /// This client was shut down.
    ShutDown,
}

impl LostReason {
    /// Every reason.
    #[cfg(feature = "metrics")]
    pub(crate) const ALL: [LostReason; 4] =
        [LostReason::Expired, LostReason::Gone, LostReason::Forced, LostReason::ShutDown];

    /// In a word, for the label of a metric.
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
            LostReason::Gone => "the server no longer has it as ours",
            LostReason::Forced => "it was taken by force",
            LostReason::ShutDown => "the client was shut down",
        })
    }
}
