//! Several keys at once: one script acquires all of the keys or none, and another script releases
//! them.

mod acquire;
mod release;

use redgrid_client::Request;

pub use self::acquire::MultiOutcome;
pub use self::release::MultiGrant;
use super::protocol::HoldArgs;

/// A lock kind with a script that acquires several keys at once.
pub trait MultiKeyProtocol {
    /// Acquires all of the keys or none. All keys are in one hash slot.
    ///
    /// The reply has the same form as the reply to
    /// [`LockProtocol::acquire`](super::protocol::LockProtocol::acquire). If a key is taken, the
    /// fourth element is the number of that key, counted from 1. The token of each grant is `time`.
    /// If the server rejects a key, the reply is `{3, time, number, text}`, with the number of the
    /// key and the error text.
    fn acquire_many(&self, claims: &[HoldArgs<'_>]) -> Request;
}
