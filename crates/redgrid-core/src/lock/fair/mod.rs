//! Fair locks: their waiters queue on the server, in the order in which their requests arrive
//! there.
//!
//! | file | contents |
//! |---|---|
//! | `fair_loop` | the loop of a lock: keepalives of its positions, and which waiter is next |
//! | `queue_position` | the position of one request |
//! | `local_pass` | hand-over along the queue, while its first positions belong to this process |
//! | `pass_request` | the request of a local pass |

mod fair_loop;
mod local_pass;
mod pass_request;
mod queue_position;

use std::time::Duration;

use bytes::Bytes;
use redgrid_client::Request;

pub(super) use self::local_pass::LocalPass;
pub(super) use self::queue_position::QueuePosition;
pub use self::queue_position::QueuePositionView;
use super::protocol::{HoldArgs, LockKeys};

/// The arguments of a pass request.
///
/// A process that holds the lock sends pass requests. Such a request removes served positions from
/// the server's queue, enqueues new ones, and returns which positions of the process are next.
#[derive(Debug, Clone, Copy)]
// Not `#[non_exhaustive]`: only implementations of object types use it.
pub struct PassArgs<'a> {
    /// Positions that leave the queue: their waiters got the lock inside the process.
    pub served: &'a [Bytes],
    /// Positions that are enqueued, in order.
    pub new: &'a [Bytes],
    /// How long the server keeps the new positions, and those in the reply, without another
    /// request.
    pub kept: Duration,
    /// When the request releases the lock.
    pub gives_back: ReleaseAfterPass,
}

/// When a pass request releases the lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
// Not `#[non_exhaustive]`: only implementations of object types use it.
pub enum ReleaseAfterPass {
    /// Never: a task of the process holds the lock.
    No,
    /// If no position of this process is next.
    UnlessNext,
    /// Always.
    Yes,
}

/// The server's queue of a lock kind. Each waiter has a position. The name of the position becomes
/// the holder field when the lock is granted.
///
/// For kinds with such a queue, `LockProtocol::release` and its variants also remove positions: the
/// field in their arguments can belong to a holder or to a position. `LockProtocol::acquire` only
/// tries, and creates no position.
pub trait ServerQueue: Send + Sync {
    /// Acquires the lock if it is free and no other position is first; otherwise enqueues the
    /// request.
    ///
    /// The server keeps the position for `kept` without another request. The reply has the same
    /// form as the reply to `acquire`. In it, `left` is the PTTL of the holder if the position is
    /// the head of the queue, and -1 otherwise.
    fn enter(&self, claim: HoldArgs<'_>, kept: Duration) -> Request;

    /// Keeps positions alive and removes expired ones. With `all`, the script checks the whole
    /// queue.
    ///
    /// The reply is `{time, left, first, kept, …}`:
    ///
    /// | element | meaning |
    /// |---|---|
    /// | `left` | PTTL of the lock, -2 if it is free |
    /// | `first` | which of `places` is the head of the queue, from 1; 0 if none of them is |
    /// | `kept` | for each position: 1 if it is in the queue, otherwise 0 |
    fn keep(&self, target: &LockKeys, places: &[Bytes], kept: Duration, all: bool) -> Request;

    /// Removes served positions and enqueues new ones. `along` says whether the request also
    /// releases the lock, which is held under the field of `claim`.
    ///
    /// The reply is one of:
    ///
    /// | reply | meaning |
    /// |---|---|
    /// | `{1, time, number, …}` | held; numbers of this process's positions at the queue's head |
    /// | `{0, time}` | the lock is not held under this field |
    /// | `{3, time}` | the lock was released |
    /// | `{-1, time}` | too late |
    fn pass(&self, claim: HoldArgs<'_>, along: &PassArgs<'_>) -> Request;

    /// Returns the channel on which a position is notified that it is next.
    fn channel(&self, target: &LockKeys, place: &Bytes) -> Bytes;
}
