//! The request that acquires several keys, and the meaning of its reply.

use std::sync::Arc;

use bytes::Bytes;

use super::attempt::{AcquireReply, failure_of, parse_reply};
use super::lock_state::LockId;
use super::protocol::{LockKeys, LockProtocol};
use super::terms::AcquireRequest;
use crate::clock::Instant;
use crate::connection::{Client, Progress, RequestOutcome};
use crate::error::ServerError;
/// An acquire of several keys of one lock kind and hash slot.
pub(super) struct MultiRequest {
    pub(super) client: Client,
    pub(super) kind: &'static dyn LockProtocol,
    pub(super) targets: Vec<Arc<LockKeys>>,
    pub(super) request: AcquireRequest,
    pub(super) until: Instant,
    pub(super) progress: Arc<Progress>,
}

impl MultiRequest {
    pub(super) fn key(&self, at: usize) -> LockId {
        LockId::of(self.kind, &self.targets[at])
    }

    pub(super) fn name(&self, at: usize) -> crate::Name {
        self.targets[at].name.clone()
    }
}

/// One request for all keys that are wanted.
pub(super) struct MultiCall {
    /// Index, id and holder field of each key.
    pub(super) claims: Vec<(usize, u64, Bytes)>,
    pub(super) asked: RequestOutcome,
}

impl MultiCall {
    /// Returns the parsed reply, and the index of the key that it concerns.
    pub(super) fn verdict(&self) -> (AcquireReply, usize) {
        let reply = || self.asked.result.clone();
        // The reply of the script for a single key has no index.
        let place = |nth: u64| {
            let at = usize::try_from(nth).ok().and_then(|nth| self.claims.get(nth.checked_sub(1)?));
            at.map_or(self.claims[0].0, |claim| claim.0)
        };
        let refused = reply().and_then(|reply| reply.into_typed::<(i64, u64, u64, String)>());
        if let Ok((REFUSED, _, nth, text)) = refused {
            return (AcquireReply::Failed(failure_of(ServerError::refused(text))), place(nth));
        }
        let nth = reply().and_then(|reply| reply.into_typed::<(i64, u64, i64, u64)>()).map_or(1, |(.., nth)| nth);
        (parse_reply(&self.asked), place(nth))
    }

    /// Returns each key with its holder field.
    pub(super) fn fields(&self, look: &MultiRequest) -> Vec<(Arc<LockKeys>, Bytes)> {
        self.claims.iter().map(|(at, _, field)| (Arc::clone(&look.targets[*at]), field.clone())).collect()
    }
}

/// Status of a reply that rejects all keys because of one.
const REFUSED: i64 = 3;
