//! The request that reports the served positions of this process, and enqueues new ones.

use std::collections::VecDeque;
use std::sync::Arc;

use super::protocol::ServerQueue;
use super::server_lease::ServerLease;
use super::terms::AcquireRequest;
use super::waiter::{RequestStatus, Waiter};
use crate::connection::Reply;
use crate::error::ServerError;
/// One pass request.
pub(super) struct PassRequest {
    pub(super) server_lease: Arc<ServerLease>,
    pub(super) queue: &'static dyn ServerQueue,
    pub(super) served: Vec<u64>,
    pub(super) new: Vec<New>,
    /// No local task is inside: the lock is released unless a position of this process is next.
    pub(super) frees: bool,
}

/// A request to be enqueued.
pub(super) struct New {
    pub(super) request: u64,
    pub(super) number: u64,
    pub(super) status: Arc<RequestStatus>,
    pub(super) wanted: Arc<AcquireRequest>,
}

impl New {
    /// Marks the position of this waiter as requested, and returns what the pass request needs.
    pub(super) fn of(entry: &Waiter) -> New {
        entry.status.position.asked();
        let number = entry.status.position.number(entry.id);
        New { request: entry.id, number, status: Arc::clone(&entry.status), wanted: Arc::clone(&entry.request) }
    }
}

/// Parsed reply to a pass request.
pub(super) enum PassReply {
    Held(VecDeque<u64>),
    GivenBack,
    NotOurs,
}

impl PassReply {
    pub(super) fn read(reply: Reply) -> Result<PassReply, ServerError> {
        let parts: Vec<u64> = reply.into_typed()?;
        match &parts[..] {
            [1, _, next @ ..] => Ok(PassReply::Held(next.iter().copied().collect())),
            [0, ..] => Ok(PassReply::NotOurs),
            [3, ..] => Ok(PassReply::GivenBack),
            _ => Err(ServerError::unknown("an answer of another kind")),
        }
    }
}
