//! Several keys at once: one script acquires all of them or none, and one releases them.

mod acquire;
mod release;

use redgrid_client::Request;

pub use self::acquire::MultiOutcome;
pub use self::release::MultiGrant;
use super::protocol::HoldArgs;

/// A lock kind with a script that acquires several keys at once.
pub trait MultiKeyProtocol {
    /// Acquires all of the keys, which share a hash slot, or none.
    ///
    /// The reply is that of [`LockProtocol::acquire`](super::protocol::LockProtocol::acquire). If
    /// busy, its fourth element is the number of the key that is taken, counted from 1. The token
    /// of each grant is `time`. A rejection because of one key is `{3, time, number, text}`, with
    /// the error text of the server.
    fn acquire_many(&self, claims: &[HoldArgs<'_>]) -> Request;
}
