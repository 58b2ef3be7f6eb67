//! A delivered entry.

use std::ops::Deref;
use std::sync::Arc;

use redgrid_core::object::{ObjectError, ObjectRef};

use crate::entry::Entry;

/// The group in which a delivery is acknowledged.
#[derive(Debug, Clone)]
pub(crate) struct Origin {
    pub(crate) object_ref: ObjectRef,
    pub(crate) group: Arc<str>,
}

/// An entry that was delivered to a consumer; made by [`Consumer`](crate::Consumer).
///
/// If it is dropped without [`ack`](Delivery::ack), the entry stays pending.
#[derive(Debug, Clone)]
pub struct Delivery<K, V> {
    pub(crate) entry: Entry<K, V>,
    pub(crate) attempt: u64,
    pub(crate) origin: Origin,
    /// While this exists, the consumer does not deliver the entry again.
    pub(crate) _outstanding: Arc<()>,
}

impl<K, V> Delivery<K, V> {
    /// Returns how often the entry was delivered, including this time: 1 for a new entry.
    ///
    /// For an entry that is delivered again to a consumer with more than 1,000 other pending
    /// entries, the actual number may be larger.
    pub fn attempt(&self) -> u64 {
        self.attempt
    }

    /// Returns the entry.
    pub fn entry(&self) -> &Entry<K, V> {
        &self.entry
    }

    /// Returns the entry without sending an acknowledgement.
    ///
    /// The consumer may deliver it again: see [`Consumer`](crate::Consumer).
    pub fn into_entry(self) -> Entry<K, V> {
        self.entry
    }

    /// Acknowledges the entry: it is no longer pending.
    ///
    /// The request is idempotent, and sent again if its reply is lost.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] states what failed and whether anything may have changed. An entry that is
    /// not acknowledged is delivered again.
    ///
    /// # Cancel safety
    ///
    /// A request that was already sent is executed even if the future is dropped.
    pub async fn ack(&self) -> Result<(), ObjectError> {
        let Origin { object_ref, group } = &self.origin;
        let request = object_ref.command("XACK")?.arg(group.to_string()).arg(self.entry.id.to_bytes());
        object_ref.change(request.idempotent()).await
    }
}

impl<K, V> Deref for Delivery<K, V> {
    type Target = Entry<K, V>;

    fn deref(&self) -> &Entry<K, V> {
        &self.entry
    }
}
