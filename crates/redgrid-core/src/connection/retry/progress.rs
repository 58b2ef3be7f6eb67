//! How far a request has come, and what stands in its way.

use std::fmt;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex};

use crate::connection::Server;
use crate::error::ServerError;

/// How far a request has come, for a caller who leaves before it is answered.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    stage: AtomicU8,
    /// What stands in the way of the next copy.
    obstacle: Mutex<Option<Obstacle>>,
}

/// What stands in the way of a copy of a request.
#[derive(Clone)]
pub(super) enum Obstacle {
    /// It was refused for a moment, or there is no room for it.
    Error(ServerError),
    /// There is no connection to this node.
    Node(Arc<dyn Server>),
}

impl fmt::Debug for Obstacle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Obstacle::Error(error) => error.fmt(f),
            Obstacle::Node(node) => write!(f, "no connection to {}", node.id()),
        }
    }
}

impl Progress {
    const NOT_SENT: u8 = 0;
    const SENT: u8 = 1;
    /// A copy got no answer: nothing that becomes of later ones changes that it may be carried out.
    const UNANSWERED: u8 = 2;
    const ABANDONED: u8 = 3;

    fn step(&self, from: u8, to: u8) -> Result<u8, u8> {
        self.stage.compare_exchange(from, to, Ordering::Relaxed, Ordering::Relaxed)
    }

    /// A copy is about to leave; false where it was given up before.
    pub(crate) fn begin(&self) -> bool {
        self.step(Self::NOT_SENT, Self::SENT) != Err(Self::ABANDONED)
    }

    /// The copy did not leave, or did nothing; nor did one before it.
    pub(crate) fn not_done(&self) {
        let _ = self.step(Self::SENT, Self::NOT_SENT);
    }

    /// The last copy did nothing, as it came too late; one before it may have done something.
    pub(in crate::connection) fn came_late(&self, repeated: bool) {
        match repeated {
            true => self.unanswered(),
            false => self.not_done(),
        }
    }

    /// The answer to the last copy says that nothing was done, and no copy is under way: the next
    /// request begins anew.
    pub(crate) fn settled(&self) {
        let _ = self.step(Self::SENT, Self::NOT_SENT);
        let _ = self.step(Self::UNANSWERED, Self::NOT_SENT);
    }

    /// A copy that left got no answer.
    pub(crate) fn unanswered(&self) {
        let _ = self.step(Self::SENT, Self::UNANSWERED);
    }

    /// An answer came that counts for all copies.
    pub(super) fn answered(&self) {
        let _ = self.step(Self::UNANSWERED, Self::SENT);
    }

    /// Gives it up, if no copy has left: then none will.
    pub(crate) fn abandon(&self) -> bool {
        matches!(self.step(Self::NOT_SENT, Self::ABANDONED), Ok(_) | Err(Self::ABANDONED))
    }

    /// Whether a copy may have reached a server that may carry it out, or has.
    pub(crate) fn is_sent(&self) -> bool {
        matches!(self.stage.load(Ordering::Relaxed), Self::SENT | Self::UNANSWERED)
    }

    pub(super) fn refused(&self, error: &ServerError) {
        self.not_done();
        self.waits(Some(Obstacle::Error(error.clone())));
    }

    pub(super) fn waits(&self, obstacle: Option<Obstacle>) {
        *self.obstacle.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) = obstacle;
    }

    /// What is true when the time is over.
    pub(crate) fn at_the_end(&self) -> ServerError {
        if self.is_sent() {
            return ServerError::unknown("no answer came in time");
        }
        let obstacle = self.obstacle.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).clone();
        match obstacle {
            Some(Obstacle::Error(error)) => error,
            Some(Obstacle::Node(node)) if node.current_connection_id().is_none() => node.unreached(),
            _ => ServerError::not_sent("there was no contact in time"),
        }
    }
}
