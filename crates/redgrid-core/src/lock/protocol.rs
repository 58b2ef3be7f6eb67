//! What differs between lock kinds: the scripts that acquire, renew and release.

use std::time::Duration;

use bytes::Bytes;

use crate::connection::Request;
use crate::name::Name;

/// The key of a lock, with its companion keys and the channel of its releases.
#[derive(Debug, Clone, PartialEq, Eq)]
// Exhaustive: only authors of objects use it.
pub struct LockKeys {
    /// The name as the user gave it.
    pub name: Name,
    /// The key, including the namespace.
    pub key: Bytes,
    /// The channel on which a release is published.
    pub channel: Bytes,
    /// The key that flags waiters without a subscription.
    pub poll_waiter_flag: Bytes,
    /// Further keys of the lock kind, in the hash slot of `key`.
    pub more: Box<[Bytes]>,
}

/// The arguments of a script for one hold.
#[derive(Debug, Clone, Copy)]
// Exhaustive: only authors of objects use it.
pub struct HoldArgs<'a> {
    /// The keys of the lock.
    pub target: &'a LockKeys,
    /// The holder field, new for each grant: `<client id>:<number>`.
    pub field: &'a Bytes,
    /// The requested lease; zero for a renewal that only verifies the hold.
    pub lease: Duration,
}

/// How a request arrives, apart from its options.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
// Exhaustive: only authors of objects use it.
pub struct AcquireContext {
    /// Holder field of another hold on the same key from which this request converts.
    ///
    /// For example a write lock from which a read lock is acquired, or a read lock that is to
    /// become a write lock.
    pub under: Option<Bytes>,
    /// Server time since which the request waits, in microseconds; zero for a new request.
    pub since: u64,
    /// Whether the request waits if the lock is taken; `false` for a try-only request.
    pub waits: bool,
}

/// From which holders a lock may be taken over.
#[derive(Debug, Clone, PartialEq, Eq)]
// Exhaustive: only authors of objects use it.
pub enum TakeoverFrom {
    /// From all holders. A free lock is acquired.
    Anybody,
    /// From all holders. A free lock is left alone.
    Holders,
    /// Only while this holder field is one of the holders; otherwise the lock is left alone.
    Holder(Bytes),
}

/// How one kind of lock is acquired, renewed and released: one static table per kind.
///
/// Every script is idempotent: it recognises its own earlier success by the holder field.
pub trait LockProtocol: Send + Sync + 'static {
    /// Returns the name of the lock kind. Kind and key together identify a lock.
    fn name(&self) -> &'static str;

    /// Returns whether tasks may hand a grant over within this process, for the hand-over window.
    fn hands_over_locally(&self) -> bool {
        true
    }

    /// Returns the protocol of multi-key acquires; `None` if the kind has none.
    fn multi_key(&self) -> Option<&dyn MultiKeyProtocol> {
        None
    }

    /// Returns the server's queue of waiters; `None` if the kind has none.
    fn queue(&self) -> Option<&dyn ServerQueue> {
        None
    }

    /// Returns whether tasks of this process share a grant: requests within its hand-over window
    /// join it.
    fn is_shared(&self) -> bool {
        false
    }

    /// Returns the name of the kind that is held on the same key beside this one (readers and
    /// writers).
    fn paired_mode(&self) -> Option<&'static str> {
        None
    }

    /// Acquires like `acquire`, for kinds that depend on how the request arrives.
    fn enter(&self, claim: HoldArgs<'_>, context: &AcquireContext) -> Request {
        let _ = context;
        self.acquire(claim)
    }

    /// Returns how often a client announces its waiting request, for kinds where others step back
    /// for it.
    fn announces_every(&self) -> Option<Duration> {
        None
    }

    /// Announces that the client with this id has a waiting request.
    ///
    /// Each announcement has a higher number than those before it. That includes acquires, whose
    /// number is in the holder field.
    fn announce(&self, target: &LockKeys, client: &str, number: u64) -> Option<Request> {
        let _ = (target, client, number);
        None
    }

    /// Withdraws the announcement, unless one with a higher number arrived before.
    fn withdraw(&self, target: &LockKeys, client: &str, number: u64) -> Option<Request> {
        let _ = (target, client, number);
        None
    }

    /// Requests the list of holders for [`evict_expired`](LockProtocol::evict_expired).
    ///
    /// `None` for kinds whose crashed holders expire with the key.
    fn holders(&self, target: &LockKeys) -> Option<Request> {
        let _ = target;
        None
    }

    /// Removes the holders with expired leases among those that `holders` returned.
    ///
    /// Waiters call it periodically.
    fn evict_expired(&self, target: &LockKeys, holders: &[Bytes]) -> Vec<Request> {
        let _ = (target, holders);
        Vec::new()
    }

    /// Acquires the lock if it is free.
    ///
    /// The reply is `{status, time, left}`:
    ///
    /// | element | meaning |
    /// |---|---|
    /// | `status` | 1 granted, 0 busy, 2 too late |
    /// | `time` | server time in microseconds since 1970, as a number or as text |
    /// | `left` | PTTL of the holder if the lock is busy |
    ///
    /// A fourth element is the token of the grant, which otherwise is `time`. Only kinds without
    /// local hand-over may have tokens of their own. A reply that is a single number is the time of
    /// a grant that took the lock from no other holder.
    fn acquire(&self, claim: HoldArgs<'_>) -> Request;

    /// Acquires the lock whether it is free or held, in one step with the comparison to `from`.
    ///
    /// Redgrid holders that lose the lock are notified on their channel: `notices` followed by the
    /// client's id and `}`. The reply is that of `acquire`, with the number of holders that lost
    /// the lock as `left`. The status is 0 if `from` does not allow the takeover.
    fn take_over(&self, claim: HoldArgs<'_>, notices: &str, from: &TakeoverFrom) -> Request;

    /// Takes over the hold of `former`, a holder field that its process detached.
    ///
    /// From then on the hold belongs to this claim. The reply is `{status, time, left}`. Status 1
    /// means taken over for `left` milliseconds, 0 that `former` no longer holds, and 2 too late. A
    /// lease of zero keeps the lifetime of the key. `None` for kinds that cannot be handed to
    /// another process.
    fn adopt(&self, _claim: HoldArgs<'_>, _former: &Bytes) -> Option<Request> {
        None
    }

    /// Releases the lock.
    ///
    /// The reply is 0 if the lock was not held by this field, otherwise one more than the number of
    /// notified subscribers. If the server rejected the message, the reply is `{status, 2}`; its
    /// subscribers did not receive it.
    fn release(&self, claim: HoldArgs<'_>) -> Request;

    /// Releases the lock at the end of the hand-over window, while requests of this process wait.
    ///
    /// The reply is `{status, waiting}`, with the status of `release`. `waiting` is 1 if a waiter
    /// cannot be reached by messages, and 2 if the server rejected the message.
    fn release_yielding(&self, claim: HoldArgs<'_>) -> Request;

    /// Keeps the lock taken for another `claim.lease`, by a holder field of its own.
    ///
    /// The hold has ended then, and no late renewal finds its field. The reply is 1, or 0 if the
    /// lock was not held.
    fn retain(&self, claim: HoldArgs<'_>) -> Request;

    /// Ends what [`retain`](LockProtocol::retain) keeps, for kinds where the lifetime of the key
    /// may not.
    ///
    /// There, further holders extend the key's lifetime. The request is sent more than once.
    fn end_retained(&self, _claim: HoldArgs<'_>) -> Option<Request> {
        None
    }

    /// Sets the lease, which may also be shorter.
    ///
    /// The reply is `{status, time}`: status 1 if done, 0 if the lock is not held, 2 if too late.
    fn extend(&self, claim: HoldArgs<'_>) -> Request;

    /// Extends several leases and never shortens one.
    ///
    /// The reply is a list: 1 renewed, 0 not held, any other number unknown.
    fn renew(&self, claims: &[HoldArgs<'_>]) -> Request;

    /// Releases several locks.
    ///
    /// The reply is a list of statuses as in `release`. It is -1 for a key that cannot be written,
    /// and -2 minus the number of subscribers for a key whose message was rejected.
    fn release_many(&self, claims: &[HoldArgs<'_>]) -> Request;
}

/// A lock kind of which one script acquires several keys.
pub trait MultiKeyProtocol {
    /// Acquires all of the keys, which share a hash slot, or none.
    ///
    /// The reply is that of [`LockProtocol::acquire`]. If busy, its fourth element is the number of
    /// the key that is taken, counted from 1. The token of each grant is `time`. A rejection
    /// because of one key is `{3, time, number, text}`, with the error text of the server.
    fn acquire_many(&self, claims: &[HoldArgs<'_>]) -> Request;
}

/// What a process reports about its queue positions while it holds the lock.
#[derive(Debug, Clone, Copy)]
// Exhaustive: only authors of objects use it.
pub struct PassArgs<'a> {
    /// Positions that were served inside the process and leave the queue.
    pub served: &'a [Bytes],
    /// Positions that are enqueued, in order.
    pub new: &'a [Bytes],
    /// How long the new positions, and those in the reply, are kept without a further request.
    pub kept: Duration,
    /// When the lock is released.
    pub gives_back: ReleaseAfterPass,
}

/// When a pass request releases the lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
// Exhaustive: only authors of objects use it.
pub enum ReleaseAfterPass {
    /// Never: a task of the process holds the lock.
    No,
    /// Unless a position of this process is next.
    UnlessNext,
    /// Always.
    Yes,
}

/// The server's queue of a lock kind. Each waiter has a position under its future holder field.
///
/// `release` and its variants also remove positions: their field may be a holder or a position.
/// `acquire` is a single attempt and creates no position.
pub trait ServerQueue: Send + Sync {
    /// Acquires the lock if it is free and no other position is first, or enqueues the request.
    ///
    /// A position is kept for `kept` without a further request. The reply is that of `acquire`. Its
    /// `left` is the PTTL of the holder for the head of the queue, and -1 for other positions.
    fn enter(&self, claim: HoldArgs<'_>, kept: Duration) -> Request;

    /// Keeps positions alive and removes expired ones; with `all` it checks the whole queue.
    ///
    /// The reply is `{time, left, first, kept, …}`:
    ///
    /// | element | meaning |
    /// |---|---|
    /// | `left` | PTTL of the lock, -2 if it is free |
    /// | `first` | number of the position at the head, counted from 1, or 0 |
    /// | `kept` | for each position: 1 if it is in the queue, otherwise 0 |
    fn keep(&self, target: &LockKeys, places: &[Bytes], kept: Duration, all: bool) -> Request;

    /// Keeps the lock under `claim`'s field for the next positions of this process, and enqueues
    /// new ones.
    ///
    /// The reply is one of:
    ///
    /// | reply | meaning |
    /// |---|---|
    /// | `{1, time, number, …}` | held; numbers of its positions at the head of the queue |
    /// | `{0, time}` | the lock is not held under this field |
    /// | `{3, time}` | the lock was released |
    /// | `{-1, time}` | too late |
    fn pass(&self, claim: HoldArgs<'_>, along: &PassArgs<'_>) -> Request;

    /// Returns the channel on which a position is notified that it is next.
    fn channel(&self, target: &LockKeys, place: &Bytes) -> Bytes;
}
