//! What differs between kinds of holds: the scripts that take, renew and give back.

use std::time::Duration;

use bytes::Bytes;

use crate::connection::Request;
use crate::name::Name;

/// The name that is held, with its key and the channel on which a release is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LockKeys {
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
pub struct HoldArgs<'a> {
    /// What is held.
    pub target: &'a LockKeys,
    /// The holder field, new for each grant: `<client id>:<number>`.
    pub field: &'a Bytes,
    /// The lease that is asked for; zero where a renewal is only to look.
    pub lease: Duration,
}

/// How somebody comes to ask, beyond what is asked for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AcquireContext {
    /// The holder field of another hold on the same key under which this one is to be: a writer that reads, a reader that
    /// is to write.
    pub under: Option<Bytes>,
    /// Since when it waits, in microseconds of the server's time; zero for who has just come.
    pub since: u64,
    /// It waits when the name is taken, and does not only look.
    pub waits: bool,
}

/// From whom a name may be taken by force.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TakeoverFrom {
    /// From all who hold it; it is taken as well where it is free.
    Anybody,
    /// From all who hold it; a free name is left alone.
    Holders,
    /// Only while this holder field is among those who hold it; otherwise it is left alone.
    Holder(Bytes),
}

/// How one kind of hold is taken, renewed and given back. A table per kind, static.
///
/// Every script is idempotent: it recognises its own earlier success by the holder field.
pub trait LockProtocol: Send + Sync + 'static {
    /// What the kind is called; with the key, it tells holds apart.
    fn name(&self) -> &'static str;

    /// Whether a grant of the server may pass from task to task of this process, for a stretch.
    fn hands_over_locally(&self) -> bool {
        true
    }

    /// How many names are taken together, where that can be.
    fn multi_key(&self) -> Option<&dyn MultiKeyProtocol> {
        None
    }

    /// How its waiters stand in a queue on the server; `None` for a kind that has no such queue.
    fn queue(&self) -> Option<&dyn ServerQueue> {
        None
    }

    /// Whether tasks of this process share a grant of the server: those that come within its stretch.
    fn is_shared(&self) -> bool {
        false
    }

    /// The name of the kind that is held on the same key beside this one: readers and writers.
    fn paired_mode(&self) -> Option<&'static str> {
        None
    }

    /// As `acquire`, for kinds that regard how somebody comes.
    fn enter(&self, claim: HoldArgs<'_>, entrance: &AcquireContext) -> Request {
        let _ = entrance;
        self.acquire(claim)
    }

    /// How often a client whose request waits says so, where others are to step back for it.
    fn announces_every(&self) -> Option<Duration> {
        None
    }

    /// Says that the client of this id waits. Each word has a higher number than those before it, acquires included: theirs is
    /// in the holder field.
    fn announce(&self, target: &LockKeys, client: &str, number: u64) -> Option<Request> {
        let _ = (target, client, number);
        None
    }

    /// Says that it waits no more, unless a word with a higher number has come before this one.
    fn withdraw(&self, target: &LockKeys, client: &str, number: u64) -> Option<Request> {
        let _ = (target, client, number);
        None
    }

    /// Asks who holds, for `bury`. `None` for a kind whose dead holders end with the name's own lifetime.
    fn holders(&self, target: &LockKeys) -> Option<Request> {
        let _ = target;
        None
    }

    /// Takes the dead out of those whom the answer to `holders` has told of. Who waits does so now and then.
    fn evict_expired(&self, target: &LockKeys, holders: &[Bytes]) -> Vec<Request> {
        let _ = (target, holders);
        Vec::new()
    }

    /// Takes the name if it is free. Answers `{status, time, left}`: status 1 granted, 0 busy, 2 too late; `time` is the
    /// server's, in microseconds since 1970, as a number or as text; `left` is the holder's PTTL when busy. A fourth element is
    /// the token of the grant, which otherwise is `time`; only a kind that does not hand over may have tokens of its own. A
    /// number alone is the time of a grant from nobody.
    fn acquire(&self, claim: HoldArgs<'_>) -> Request;

    /// Takes the name whoever has it, and tells the redgrid holders that lose it on their channel, `notices` followed by
    /// the client's id and `}`. Answers as `acquire` does, with the number of holders that lost it as `left`; status 0 where
    /// `from` does not allow it. The comparison and the taking are one step on the server.
    fn take_over(&self, claim: HoldArgs<'_>, notices: &str, from: &TakeoverFrom) -> Request;

    /// Takes over what `former` holds, a field that its process has detached: from here on it is this claim's. Answers
    /// `{status, time, left}`: status 1 it is ours for `left` milliseconds, 0 it is not `former`'s any more, 2 too late. A
    /// lease of zero leaves the key's lifetime as it is. `None` for a kind that can not be handed to another process.
    fn adopt(&self, _claim: HoldArgs<'_>, _former: &Bytes) -> Option<Request> {
        None
    }

    /// Gives the name back. Answers 0 when it was not ours, otherwise one more than the subscribers that were told. Where the
    /// message was refused it answers `{status, 2}`, with the subscribers that did not get it.
    fn release(&self, claim: HoldArgs<'_>) -> Request;

    /// The same at the end of a stretch, while others of this process wait. Answers `{status, waiting}`: the status as that
    /// of `release`; `waiting` is 1 when a waiter cannot be reached by messages, 2 when the message was refused.
    fn release_yielding(&self, claim: HoldArgs<'_>) -> Request;

    /// Keeps the name taken for another `claim.lease` by a field of its own: it is ours no more, and no late renewal finds
    /// our field. Answers 1, or 0 when it was not ours.
    fn retain(&self, claim: HoldArgs<'_>) -> Request;

    /// Ends what [`HoldKind::linger`] keeps, where the lifetime of the key may not: others who are in lengthen it. Sent more than
    /// once.
    fn end_retained(&self, _claim: HoldArgs<'_>) -> Option<Request> {
        None
    }

    /// Sets the lease, shorter too. Answers `{status, time}`: status 1 done, 0 not ours, 2 too late.
    fn extend(&self, claim: HoldArgs<'_>) -> Request;

    /// Lengthens many leases, never shortens one. Answers a list: 1 renewed, 0 not ours, anything else not known.
    fn renew(&self, claims: &[HoldArgs<'_>]) -> Request;

    /// Gives many back. Answers a list as `release` does; -1 for one that cannot be written, and -2 less the subscribers
    /// for one whose message was refused.
    fn release_many(&self, claims: &[HoldArgs<'_>]) -> Request;
}

/// A kind of hold of which many are taken by one script.
pub trait MultiKeyProtocol {
    /// Takes all of the names, which share a slot, or none. Answers as [`HoldKind::acquire`] does, and when busy with the
    /// number of the name that is taken as a fourth element, from 1. The token of each grant is `time`. What is refused because
    /// of one name is `{3, time, number, text}`, with the server's words.
    fn acquire_many(&self, claims: &[HoldArgs<'_>]) -> Request;
}

/// What a process has to say of its places while the name is its own.
#[derive(Debug, Clone, Copy)]
pub struct PassArgs<'a> {
    /// Those that were served inside the process, and leave the queue.
    pub served: &'a [Bytes],
    /// Those that line up, in their order.
    pub new: &'a [Bytes],
    /// How long these are kept without another word.
    pub kept: Duration,
    /// When the name is given back.
    pub gives_back: ReleaseAfterPass,
}

/// When a word of a process that has a name gives it back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReleaseAfterPass {
    /// Not at all: somebody is inside.
    No,
    /// Unless a place of the process is next.
    UnlessNext,
    /// In any case.
    Yes,
}

/// The queue of a kind whose waiters stand in line on the server, each under the holder field that it will hold with.
///
/// `release` and its kin also give up places: what they are told of is a holder or a place. `acquire` is one look, and makes no
/// place.
pub trait ServerQueue: Send + Sync {
    /// Takes the name if it is free and nobody is before, else a place, kept for `kept` without another word. Answers as
    /// `acquire` does; `left` is the holder's PTTL for the head of the queue, -1 for others.
    fn enter(&self, claim: HoldArgs<'_>, kept: Duration) -> Request;

    /// Keeps places, throws out dead ones, with `all` looks after the whole queue. Answers `{time, left, first, kept, …}`:
    /// `left` is the PTTL of the name, -2 when it is free; `first` the number of the place that is the head, counted from 1,
    /// or 0; `kept` 1 for each place that is in the queue, otherwise 0.
    fn keep(&self, target: &LockKeys, places: &[Bytes], kept: Duration, all: bool) -> Request;

    /// Goes on holding under `claim`'s field for the next places of this process, and takes in what has come of them meanwhile. Answers
    /// `{1, time, number, …}` with the numbers of its places at the head of the queue; `{0, time}` where the name is not this
    /// holder's; `{3, time}` where it was given back; `{-1, time}` too late.
    fn pass(&self, claim: HoldArgs<'_>, along: &PassArgs<'_>) -> Request;

    /// Where a place is told that it is next.
    fn channel(&self, target: &LockKeys, place: &Bytes) -> Bytes;
}
