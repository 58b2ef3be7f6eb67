//! A holder in the JSON lines of `watch`.

use redgrid::locks::LockHolder;
use serde::Serialize;

/// A holder of a lock. The fields are those of the JSON line, in its order.
#[derive(Debug, Serialize)]
pub(crate) struct Holder {
    /// The client's id, or the whole field if it has another form.
    pub(crate) client: String,
    /// The number of the grant, or of Redisson's thread.
    pub(crate) number: Option<u64>,
    /// How often it has entered.
    pub(crate) entries: u64,
}

impl From<LockHolder> for Holder {
    fn from(one: LockHolder) -> Self {
        Holder { client: one.client, number: one.number, entries: one.entries }
    }
}
