//! What asking and waiting can end in. Each variant says what is true then.

use std::time::Duration;

use redgrid_core::name::InvalidName;
use redgrid_core::{Name, ServerError};

/// Why the server did not do what it was asked for.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum AskError {
    /// No server could be asked in time, or it does nothing for now: it loads its data, takes no writes, the slot moves. Nothing was done.
    #[error("could not ask for `{name}`")]
    Unavailable {
        /// What it was about.
        name: Name,
        /// What stood in the way last.
        #[source]
        source: ServerError,
    },
    /// The server does not accept this client's password, user or certificate, or its own
    /// certificate is refused. Nothing was done.
    #[error("not authorized to ask for `{name}`")]
    Unauthorized {
        /// What it was about.
        name: Name,
        /// The words of the server, or what is wrong with the certificate.
        #[source]
        source: ServerError,
    },
    /// The server refused: wrong type under the name, no permission, no memory. Nothing was done.
    #[error("the server refused what was asked of `{name}`")]
    Refused {
        /// What it was about.
        name: Name,
        /// The server's words and their class.
        #[source]
        source: ServerError,
    },
    /// Asked, and no answer came that says what was done. Who waits is being taken out in the background, and its lease ends it at the latest; what is
    /// not waiting may or may not have been done.
    #[error("asked for `{name}` and got no answer; the outcome is unknown")]
    OutcomeUnknown {
        /// What it was about.
        name: Name,
        /// What happened to the answer.
        #[source]
        source: ServerError,
    },
    /// The client is shutting down.
    #[error("the client is shutting down; `{name}` is not asked for any more")]
    ShuttingDown {
        /// What it was about.
        name: Name,
    },
    /// The name can not be used. Nothing was asked.
    #[error(transparent)]
    InvalidName(#[from] InvalidName),
}

impl AskError {
    pub(crate) fn of(name: &Name, source: ServerError) -> Self {
        let name = name.clone();
        match source {
            ServerError::Refused { code, .. } if !code.is_passing() => AskError::Refused { name, source },
            ServerError::Unknown { .. } | ServerError::Decode { .. } => AskError::OutcomeUnknown { name, source },
            ServerError::Unauthorized { .. } => AskError::Unauthorized { name, source },
            ServerError::ShuttingDown => AskError::ShuttingDown { name },
            _ => AskError::Unavailable { name, source },
        }
    }

    /// The error of a request that changes nothing: where no answer came, nothing was done either.
    pub(crate) fn of_read(self) -> Self {
        match self {
            AskError::OutcomeUnknown { name, source } => AskError::Unavailable { name, source },
            other => other,
        }
    }

    /// Whether it may be otherwise a little later.
    pub(crate) fn is_passing(&self) -> bool {
        matches!(self, AskError::Unavailable { .. } | AskError::OutcomeUnknown { .. })
    }
}

/// Why waiting ended without what was waited for.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum WaitError {
    /// The time was over first. It was taken out; where no answer said so soon, it is being taken out, and its lease ends it at the latest.
    #[error("waited {waited:?} for `{name}`")]
    TimedOut {
        /// What was waited for.
        name: Name,
        /// How long.
        waited: Duration,
    },
    /// The server could not be asked.
    #[error(transparent)]
    Failed(#[from] AskError),
}

impl From<InvalidName> for WaitError {
    fn from(invalid: InvalidName) -> Self {
        WaitError::Failed(invalid.into())
    }
}

/// Why somebody did not get through a barrier. It was taken out; where no answer said so soon, it is being taken out in the background, and
/// its lease ends it at the latest. Until then the others may go on with it.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum BarrierError {
    /// The time was over before all were there.
    #[error("waited {waited:?} for the others at `{name}`")]
    TimedOut {
        /// The barrier.
        name: Name,
        /// How long.
        waited: Duration,
    },
    /// Others wait for another number of parties.
    #[error("`{name}` is waited at by others with {theirs} parties, here with {ours}")]
    PartiesDiffer {
        /// The barrier.
        name: Name,
        /// What was said here.
        ours: u32,
        /// What was said by those who wait.
        theirs: u32,
    },
    /// A barrier has at least one party. Nothing was asked.
    #[error("the barrier `{name}` has at least one party")]
    InvalidArgument {
        /// The barrier.
        name: Name,
    },
    /// The server could not be asked.
    #[error(transparent)]
    Failed(#[from] AskError),
}

impl From<WaitError> for BarrierError {
    fn from(error: WaitError) -> Self {
        match error {
            WaitError::TimedOut { name, waited } => BarrierError::TimedOut { name, waited },
            WaitError::Failed(error) => BarrierError::Failed(error),
        }
    }
}

impl From<InvalidName> for BarrierError {
    fn from(invalid: InvalidName) -> Self {
        BarrierError::Failed(invalid.into())
    }
}
