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

    /// How many names are taken together, where that can be.
    fn together(&self) -> Option<&dyn Together> {
        None
    }

    /// Takes the name if it is free. Answers `{status, time, left}`: status 1 granted, 0 busy, 2 too late; `time` is the
    /// server's, in microseconds since 1970, as text; `left` is the holder's PTTL when busy. A fourth element is the token
    /// of the grant, which otherwise is `time`; only a kind that does not hand over may have tokens of its own.
    fn acquire(&self, claim: Claim<'_>) -> Request;

    /// Takes the name whoever has it, and tells the redgrid holders that lose it on their channel, `notices` followed by
    /// the client's id and `}`. Answers as `acquire` does, with the number of holders that lost it as `left`; status 0 where
    /// it was free and `only_if_held`.
    fn seize(&self, claim: Claim<'_>, notices: &str, only_if_held: bool) -> Request;

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

    /// Gives many back. Answers a list as `release` does; -1 for one that can not be written.
    fn release_many(&self, claims: &[Claim<'_>]) -> Request;
}

/// A kind of hold of which many are taken by one script.
pub trait Together {
    /// Takes all of the names, which share a slot, or none. Answers as [`HoldKind::acquire`] does, and when busy with the
    /// number of the name that is taken as a fourth element, from 1. The token of each grant is `time`.
    fn acquire_many(&self, claims: &[Claim<'_>]) -> Request;
}
