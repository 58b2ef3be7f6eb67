//! An entry in the hands of a consumer.

use std::ops::Deref;
use std::sync::Arc;

use redgrid_core::object::{ObjectError, Place};

use crate::entry::Entry;

/// Where a delivery is acknowledged.
#[derive(Debug, Clone)]
pub(crate) struct Origin {
    pub(crate) place: Place,
    pub(crate) group: Arc<str>,
}

/// An entry that was given to a consumer; made by [`Consumer`](crate::Consumer). Dropped without [`ack`](Delivery::ack) it stays pending.
#[derive(Debug, Clone)]
pub struct Delivery<K, V> {
    pub(crate) entry: Entry<K, V>,
    pub(crate) attempt: u64,
    pub(crate) origin: Origin,
    /// While somebody has it, its consumer does not give it again.
    pub(crate) _held: Arc<()>,
}

impl<K, V> Delivery<K, V> {
    /// How often the entry was given out, this time included: 1 of a new one. Of one that is given again to a consumer that has more than
    /// 1,000 others pending it may be more than is told.
    pub fn attempt(&self) -> u64 {
        self.attempt
    }

    /// The entry.
    pub fn entry(&self) -> &Entry<K, V> {
        &self.entry
    }

    /// The entry, of which no acknowledgement is sent. Its consumer may give it again: see [`Consumer`](crate::Consumer).
    pub fn into_entry(self) -> Entry<K, V> {
        self.entry
    }

    /// Acknowledges it: it is pending no more. Once or more is the same, so it is sent again where an answer is lost.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] says what is true then. What is not acknowledged comes again.
    ///
    /// # Cancel safety
    ///
    /// What has left is carried out although nobody waits for it.
    pub async fn ack(&self) -> Result<(), ObjectError> {
        let Origin { place, group } = &self.origin;
        let request = place.command("XACK")?.arg(group.to_string()).arg(self.entry.id.bytes());
        place.change(request.idempotent()).await
    }
}

impl<K, V> Deref for Delivery<K, V> {
    type Target = Entry<K, V>;

    fn deref(&self) -> &Entry<K, V> {
        &self.entry
    }
}
