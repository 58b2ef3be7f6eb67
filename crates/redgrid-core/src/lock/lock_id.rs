//! The identifier of a lock state in the table.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use bytes::Bytes;

use super::protocol::{LockKeys, LockProtocol};
use crate::observe::count::Labels;

/// Identifies a [`LockState`](super::table::LockState): the lock kind, the key, and the number of
/// the grant.
///
/// A key can have several grants at a time: those of readers and of conversions. Each of these has
/// a number of its own. The grant of any other request has number 0.
///
/// Of the [`LockKeys`], only the key is compared. The id stores an `Arc` of the whole struct,
/// because this `Arc` is smaller than a copy of the key.
#[derive(Clone)]
pub(super) struct LockId {
    pub(super) kind: &'static str,
    pub(super) keys: Arc<LockKeys>,
    pub(super) grant: u64,
}

impl LockId {
    pub(super) fn of(kind: &dyn LockProtocol, keys: &Arc<LockKeys>) -> Self {
        LockId { kind: kind.name(), keys: Arc::clone(keys), grant: 0 }
    }

    /// Returns the labels of the lock in metrics.
    pub(super) fn labels(&self) -> Labels {
        Labels { kind: self.kind, family: self.keys.family }
    }

    pub(super) fn key(&self) -> &Bytes {
        &self.keys.key
    }
}

impl PartialEq for LockId {
    fn eq(&self, other: &Self) -> bool {
        let same_key = || Arc::ptr_eq(&self.keys, &other.keys) || self.key() == other.key();
        self.grant == other.grant && self.kind == other.kind && same_key()
    }
}

impl Eq for LockId {}

impl Hash for LockId {
    fn hash<H: Hasher>(&self, state: &mut H) {
        // Different lock kinds rarely use the same key, so the hash leaves the kind out.
        state.write(self.key());
        state.write_u64(self.grant);
    }
}
