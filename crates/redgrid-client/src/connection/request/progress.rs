//! The send state of a request, and the obstacle to its next transmission.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use crate::connection::Server;
use crate::error::ServerError;
use crate::sync::Mutex;

/// The send state of a request, for a caller that stops waiting before the reply arrives.
#[derive(Debug, Default)]
pub struct Progress {
    stage: AtomicU8,
    obstacle: Mutex<Option<Obstacle>>,
}

/// An obstacle to a transmission of a request.
#[derive(Clone)]
pub(super) enum Obstacle {
    /// The server refused the request or this client, or too many requests are in flight.
    Error(ServerError),
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
    /// A transmission got no answer. So the request may be executed, whatever happens to later
    /// transmissions.
    const UNANSWERED: u8 = 2;
    const ABANDONED: u8 = 3;

    fn step(&self, from: u8, to: u8) -> Result<u8, u8> {
        self.stage.compare_exchange(from, to, Ordering::Relaxed, Ordering::Relaxed)
    }

    /// Notes that a transmission is about to be sent; returns false if the request was abandoned.
    pub fn begin(&self) -> bool {
        self.step(Self::NOT_SENT, Self::SENT) != Err(Self::ABANDONED)
    }

    /// Notes that the last transmission was not executed. The request then counts as not sent. But
    /// if an earlier transmission is unanswered, the state does not change.
    pub fn not_done(&self) {
        let _ = self.step(Self::SENT, Self::NOT_SENT);
    }

    /// Notes that nothing was executed and no transmission is in flight.
    ///
    /// The next transmission is treated like the first one.
    pub fn settled(&self) {
        let _ = self.step(Self::SENT, Self::NOT_SENT);
        let _ = self.step(Self::UNANSWERED, Self::NOT_SENT);
        self.waits(None);
    }

    /// Notes that a transmission was sent and got no answer.
    pub fn unanswered(&self) {
        let _ = self.step(Self::SENT, Self::UNANSWERED);
    }

    /// Notes a reply. It is valid for the whole request, even if an earlier transmission is
    /// unanswered.
    pub(super) fn answered(&self) {
        let _ = self.step(Self::UNANSWERED, Self::SENT);
    }

    /// Abandons the request if nothing was sent. After that, no transmission follows. Returns
    /// whether the request is abandoned.
    pub fn abandon(&self) -> bool {
        matches!(self.step(Self::NOT_SENT, Self::ABANDONED), Ok(_) | Err(Self::ABANDONED))
    }

    /// Returns whether the server has executed a transmission, or may execute one.
    pub fn is_sent(&self) -> bool {
        matches!(self.stage.load(Ordering::Relaxed), Self::SENT | Self::UNANSWERED)
    }

    pub(super) fn refused(&self, error: &ServerError) {
        self.not_done();
        self.waits(Some(Obstacle::Error(error.clone())));
    }

    pub(super) fn waits(&self, obstacle: Option<Obstacle>) {
        *self.obstacle.lock() = obstacle;
    }

    /// Returns the server's refusal of the last transmission, or the reason why nothing was sent.
    ///
    /// Returns `None` if the node could not be reached; [`Server::unreached`] has the reason in
    /// this case.
    pub fn refusal(&self) -> Option<ServerError> {
        match &*self.obstacle.lock() {
            Some(Obstacle::Error(error)) => Some(error.clone()),
            _ => None,
        }
    }

    /// Returns the error that describes the state at the deadline.
    pub fn at_the_end(&self) -> ServerError {
        if self.is_sent() {
            return ServerError::unknown("no answer came in time");
        }
        let obstacle = self.obstacle.lock().clone();
        match obstacle {
            Some(Obstacle::Error(error)) => error,
            Some(Obstacle::Node(node)) if node.current_connection_id().is_none() => node.unreached(),
            _ => ServerError::not_sent("there was no contact in time"),
        }
    }
}
