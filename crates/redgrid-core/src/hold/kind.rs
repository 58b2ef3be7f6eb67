//! What differs between kinds of holds: the scripts that take, renew and give back.

use std::time::Duration;

use bytes::Bytes;

use crate::connection::Request;
use crate::name::Name;

/// The name that is held, with its key and the channel on which a release is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// The name as the user gave it.
    pub name: Name,
    /// The key, namespace included.
    pub key: Bytes,
    /// Where a release is published.
    pub channel: Bytes,
    /// The key by which waiters without a subscription tell that they are there.
    pub mark: Bytes,
    /// Further keys of the kind, in the slot of `key`.
    pub more: Box<[Bytes]>,
}

/// One hold as its scripts see it.
#[derive(Debug, Clone, Copy)]
pub struct Claim<'a> {
    /// What is held.
    pub target: &'a Target,
    /// The holder field, new for each grant: `<client id>:<number>`.
    pub field: &'a Bytes,
    /// The lease that is asked for; zero where a renewal is only to look.
    pub lease: Duration,
}

/// How one kind of hold is taken, renewed and given back. A table per kind, static.
///
/// Every script is idempotent: it recognises its own earlier success by the holder field.
pub trait HoldKind: Send + Sync + 'static {
    /// What the kind is called; with the key, it tells holds apart.
    fn name(&self) -> &'static str;

    /// Whether a grant of the server may pass from task to task of this process, for a stretch.
    fn hands_over(&self) -> bool {
        true
    }

    /// Takes the name if it is free. Answers `{status, time, left}`: status 1 granted, 0 busy, 2 too late; `time` is the
    /// server's, in microseconds since 1970, as text; `left` is the holder's PTTL when busy. A fourth element is the token
    /// of the grant, which otherwise is `time`; only a kind that does not hand over may have tokens of its own.
    fn acquire(&self, claim: Claim<'_>) -> Request;

    /// Takes the name whoever has it, and tells the redgrid holders that lose it on their channel, `notices` followed by
    /// the client's id and `}`. Answers as `acquire` does, with the number of holders that lost it as `left`; status 0 where
    /// it was free and `only_if_held`.
    fn seize(&self, claim: Claim<'_>, notices: &str, only_if_held: bool) -> Request;

    /// Takes over what `former` holds, a field that its process has detached: from here on it is this claim's. Answers
    /// `{status, time, left}`: status 1 it is ours for `left` milliseconds, 0 it is not `former`'s any more, 2 too late. A
    /// lease of zero leaves the key's lifetime as it is. `None` for a kind that can not be handed to another process.
    fn adopt(&self, _claim: Claim<'_>, _former: &Bytes) -> Option<Request> {
        None
    }

    /// Gives the name back. Answers 0 when it was not ours, otherwise one more than the subscribers that were told.
    fn release(&self, claim: Claim<'_>) -> Request;

    /// The same at the end of a stretch, while others of this process wait. Answers `{status, waiting}`: the status as that
    /// of `release`, and 1 when somebody waits who can not be told.
    fn give_way(&self, claim: Claim<'_>) -> Request;

    /// Leaves the name taken for another `claim.lease` and ours no more. Answers 1, or 0 when it was not ours.
    fn linger(&self, claim: Claim<'_>) -> Request;

    /// Sets the lease, shorter too. Answers `{status, time}`: status 1 done, 0 not ours, 2 too late.
    fn extend(&self, claim: Claim<'_>) -> Request;

    /// Lengthens many leases, never shortens one. Answers a list: 1 renewed, 0 not ours, anything else not known.
    fn renew(&self, claims: &[Claim<'_>]) -> Request;

    /// Gives many back. Answers a list as `release` does.
    fn release_many(&self, claims: &[Claim<'_>]) -> Request;
}
