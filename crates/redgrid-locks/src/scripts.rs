//! The scripts of a lock on Redisson's hash, and the requests that call them.
//!
//! The header of each script is its contract.

use std::time::Duration;

use bytes::Bytes;
use redgrid_core::author::{LockProtocol, MultiKeyProtocol};
use redgrid_core::lock::{HoldArgs, TakeoverFrom};
use redgrid_core::{BatchPhase, BatchScript, BulkScript, Request, Script};

static ACQUIRE: Script<1> = Script::new("lock/acquire", include_str!("scripts/acquire.lua"));
static ACQUIRE_FENCED: Script<2> = Script::new("lock/acquire-fenced", include_str!("scripts/acquire_fenced.lua"));
static ACQUIRE_VOTE: BulkScript = BulkScript::new("lock/acquire-vote", include_str!("scripts/acquire_vote.lua"));
static TAKE_OVER: BulkScript = BulkScript::new("lock/takeover", include_str!("scripts/takeover.lua"));
static RELEASE: Script<1> = Script::new("lock/release", include_str!("scripts/release.lua"));
static RELEASE_YIELDING: Script<2> = Script::new("lock/release-yielding", include_str!("scripts/release_yielding.lua"));
static RETAIN: Script<1> = Script::new("lock/retain", include_str!("scripts/retain.lua"));
static EXTEND: Script<1> = Script::new("lock/extend", include_str!("scripts/extend.lua"));
static ATTACH: Script<1> = Script::new("lock/attach", include_str!("scripts/attach.lua"));
pub(crate) static RENEW: BulkScript = BulkScript::new("lock/renew", include_str!("scripts/renew.lua"));
/// Batches `RELEASE` and `ACQUIRE`, which have two arguments of their own each.
static BATCH: BatchScript = BatchScript::new("lock/batch", include_str!("scripts/batch.lua"), 2);
static RELEASE_MANY: BulkScript = BulkScript::new("lock/release-many", include_str!("scripts/release_many.lua"));

/// Suffix of the holder field that keeps a lock taken for its `hold_at_least` after a release.
pub(crate) const RETAINED: &str = ":kept";

/// The protocol of an exclusive lock in a hash of its own. On the wire it is Redisson's RLock, with
/// its variants.
pub(crate) struct ExclusiveLock {
    name: &'static str,
    /// Whether tokens are counted, in the first of the further keys, or in the second if `votes`.
    counts_tokens: bool,
    /// Whether releases are published.
    publishes_releases: bool,
    /// Whether the server is one of a quorum. Its incarnation mark is the first of the further
    /// keys.
    votes: bool,
}

pub(crate) static PLAIN: ExclusiveLock =
    ExclusiveLock { name: "lock", counts_tokens: false, publishes_releases: true, votes: false };
/// Redisson's RFencedLock.
pub(crate) static FENCED: ExclusiveLock =
    ExclusiveLock { name: "fenced", counts_tokens: true, publishes_releases: true, votes: false };
/// Redisson's RSpinLock.
pub(crate) static SPIN: ExclusiveLock =
    ExclusiveLock { name: "spin", counts_tokens: false, publishes_releases: false, votes: false };
/// A lock at one server of a quorum.
pub(crate) static VOTE: ExclusiveLock =
    ExclusiveLock { name: "quorum", counts_tokens: false, publishes_releases: true, votes: true };
/// A lock at one server of a quorum, with a token counter as the second of the further keys.
///
/// Its name differs from that of [`VOTE`], so that a request for a token is never granted by a vote
/// without one.
pub(crate) static VOTE_COUNTED: ExclusiveLock =
    ExclusiveLock { name: "quorum-fenced", counts_tokens: true, publishes_releases: true, votes: true };

impl ExclusiveLock {
    /// Adds the arguments of the release message, if releases are published.
    fn with_release_message(&self, request: Request, claim: HoldArgs<'_>) -> Request {
        if self.publishes_releases { request.publish_arg().arg(claim.target.channel.clone()) } else { request }
    }
}

/// Calls a script on one lock, with the holder field as the first argument.
fn on_lock(script: &'static Script<1>, claim: HoldArgs<'_>) -> Request {
    script.with([claim.target.key.clone()]).arg(claim.field.clone())
}

/// Adds the arguments that say from which holders a lock may be taken over. `field` maps a holder
/// to its field on the server.
pub(crate) fn with_takeover_from(
    request: Request,
    notices: &str,
    from: &TakeoverFrom,
    field: impl FnOnce(&Bytes) -> Bytes,
) -> Request {
    let request = request.int(i64::from(*from != TakeoverFrom::Anybody)).arg(notices.to_owned());
    match from {
        TakeoverFrom::Holder(holder) => request.arg(field(holder)),
        TakeoverFrom::Anybody | TakeoverFrom::Holders => request,
    }
}

/// Returns a lease in milliseconds, rounded up.
///
/// The server then never ends a lease before the deadline that was computed from it.
pub(crate) fn millis(lease: Duration) -> i64 {
    i64::try_from(lease.as_nanos().div_ceil(1_000_000)).unwrap_or(i64::MAX)
}

impl LockProtocol for ExclusiveLock {
    fn name(&self) -> &'static str {
        self.name
    }

    /// Locks with counted tokens are not handed over locally: the server assigns the tokens.
    fn hands_over_locally(&self) -> bool {
        !self.counts_tokens && !self.votes
    }

    /// Locks with counted tokens are acquired one by one: a script reads one counter.
    fn multi_key(&self) -> Option<&dyn MultiKeyProtocol> {
        (!self.counts_tokens && !self.votes).then_some(self)
    }

    fn acquire(&self, claim: HoldArgs<'_>) -> Request {
        let request = match claim.target.more.first().filter(|_| self.counts_tokens || self.votes) {
            Some(_) if self.votes => {
                let keys = std::iter::once(&claim.target.key).chain(&claim.target.more).cloned();
                ACQUIRE_VOTE.with(keys).arg(claim.field.clone())
            }
            Some(token) => ACQUIRE_FENCED.with([claim.target.key.clone(), token.clone()]).arg(claim.field.clone()),
            None => {
                let request = on_lock(&ACQUIRE, claim).int(millis(claim.lease)).deadline_arg();
                return request.batchable(&BATCH, BatchPhase::Acquire).idempotent();
            }
        };
        request.int(millis(claim.lease)).deadline_arg().idempotent()
    }

    fn take_over(&self, claim: HoldArgs<'_>, notices: &str, from: &TakeoverFrom) -> Request {
        let counter = claim.target.more.first().filter(|_| self.counts_tokens && !self.votes);
        let keys = std::iter::once(&claim.target.key).chain(counter).cloned();
        let request = TAKE_OVER.with(keys).arg(claim.field.clone()).int(millis(claim.lease)).deadline_arg();
        with_takeover_from(request, notices, from, Bytes::clone).idempotent()
    }

    /// A single vote of a quorum cannot be handed to another process.
    fn adopt(&self, claim: HoldArgs<'_>, former: &Bytes) -> Option<Request> {
        if self.votes {
            return None;
        }
        let request = on_lock(&ATTACH, claim).arg(former.clone()).int(millis(claim.lease));
        Some(request.deadline_arg().idempotent())
    }

    fn release(&self, claim: HoldArgs<'_>) -> Request {
        let request = on_lock(&RELEASE, claim);
        // The channel comes first, so that only SPUBLISH needs another argument: PUBLISH is the
        // default.
        let request =
            if self.publishes_releases { request.arg(claim.target.channel.clone()).spublish_arg() } else { request };
        request.batchable(&BATCH, BatchPhase::Release).idempotent()
    }

    fn release_yielding(&self, claim: HoldArgs<'_>) -> Request {
        let request =
            RELEASE_YIELDING.with([claim.target.key.clone(), claim.target.poll_waiter_flag()]).arg(claim.field.clone());
        self.with_release_message(request, claim).idempotent()
    }

    fn retain(&self, claim: HoldArgs<'_>) -> Request {
        self.with_release_message(on_lock(&RETAIN, claim).int(millis(claim.lease)), claim).idempotent()
    }

    fn extend(&self, claim: HoldArgs<'_>) -> Request {
        on_lock(&EXTEND, claim).int(millis(claim.lease)).deadline_arg()
    }

    fn renew(&self, claims: &[HoldArgs<'_>]) -> Request {
        let request = RENEW.with(claims.iter().map(|claim| claim.target.key.clone()));
        // Most leases have the same length: format it once for each run of equal leases.
        let runs = claims.chunk_by(|claim, next| claim.lease == next.lease).map(|run| {
            let lease = Bytes::from(millis(run[0].lease).to_string());
            run.iter().map(move |claim| (claim.field.clone(), lease.clone()))
        });
        runs.flatten().fold(request, |request, (field, lease)| request.arg(field).arg(lease)).idempotent()
    }

    fn release_many(&self, claims: &[HoldArgs<'_>]) -> Request {
        let request = RELEASE_MANY.with(claims.iter().map(|claim| claim.target.key.clone())).publish_arg();
        let add = |request: Request, claim: &HoldArgs<'_>| {
            let channel = if self.publishes_releases { claim.target.channel.clone() } else { Bytes::new() };
            request.arg(claim.field.clone()).arg(channel)
        };
        claims.iter().fold(request, add).idempotent()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_is_rounded_up_to_whole_milliseconds() {
        assert_eq!(millis(Duration::from_micros(1_000_001)), 1001);
        assert_eq!(millis(Duration::from_millis(30_000)), 30_000);
        assert_eq!(millis(Duration::ZERO), 0);
    }

    #[test]
    fn every_script_states_its_contract() {
        for script in [
            ACQUIRE.body(),
            ACQUIRE_FENCED.body(),
            ACQUIRE_VOTE.body(),
            TAKE_OVER.body(),
            RELEASE.body(),
            RELEASE_YIELDING.body(),
            RETAIN.body(),
            EXTEND.body(),
            ATTACH.body(),
            RENEW.body(),
            RELEASE_MANY.body(),
            BATCH.body(),
        ] {
            for part in ["-- KEYS", "-- Returns", "-- Work:", "ent twice"] {
                assert!(script.text().contains(part), "{}: {part}", script.name());
            }
        }
    }
}
