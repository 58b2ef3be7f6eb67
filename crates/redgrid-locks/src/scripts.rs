//! The scripts of a lock on Redisson's hash, and their calls. Each script's header is its contract.

use std::time::Duration;

use bytes::Bytes;
use redgrid_core::lock::{HoldArgs, LockProtocol, MultiKeyProtocol, TakeoverFrom};
use redgrid_core::{BatchPhase, BatchScript, BulkScript, Request, Script};

static ACQUIRE: Script<1> = Script::new("lock/acquire", include_str!("scripts/acquire.lua"));
static ACQUIRE_MANY: BulkScript = BulkScript::new("lock/acquire-many", include_str!("scripts/acquire_many.lua"));
static ACQUIRE_FENCED: Script<2> = Script::new("lock/acquire-fenced", include_str!("scripts/acquire_fenced.lua"));
static ACQUIRE_VOTE: BulkScript = BulkScript::new("lock/acquire-vote", include_str!("scripts/acquire_vote.lua"));
static SEIZE: BulkScript = BulkScript::new("lock/seize", include_str!("scripts/seize.lua"));
static RELEASE: Script<1> = Script::new("lock/release", include_str!("scripts/release.lua"));
static GIVE_WAY: Script<2> = Script::new("lock/give-way", include_str!("scripts/give_way.lua"));
static LINGER: Script<1> = Script::new("lock/linger", include_str!("scripts/linger.lua"));
static EXTEND: Script<1> = Script::new("lock/extend", include_str!("scripts/extend.lua"));
static ATTACH: Script<1> = Script::new("lock/attach", include_str!("scripts/attach.lua"));
pub(crate) static RENEW: BulkScript = BulkScript::new("lock/renew", include_str!("scripts/renew.lua"));
/// Of `RELEASE` and `ACQUIRE`, which have two arguments each of their own.
static JOINT: BatchScript = BatchScript::new("lock/joint", include_str!("scripts/joint.lua"), 2);
static RELEASE_MANY: BulkScript = BulkScript::new("lock/release-many", include_str!("scripts/release_many.lua"));

/// What follows the holder in the field that keeps a lock taken for its `hold_at_least` after a release.
pub(crate) const KEPT: &str = ":kept";

/// A lock of one holder in a hash of its own: Redisson's RLock on the wire, and what differs from it in a point.
pub(crate) struct OneHolder {
    name: &'static str,
    /// Its tokens are counted in the first of the target's further keys.
    counts_tokens: bool,
    /// Its releases are published.
    tells: bool,
    /// Its server is one of several that decide, and has its birth mark in the first of the target's further keys.
    votes: bool,
}

pub(crate) static PLAIN: OneHolder = OneHolder { name: "lock", counts_tokens: false, tells: true, votes: false };
/// Redisson's RFencedLock.
pub(crate) static FENCED: OneHolder = OneHolder { name: "fenced", counts_tokens: true, tells: true, votes: false };
/// Redisson's RSpinLock.
pub(crate) static SPIN: OneHolder = OneHolder { name: "spin", counts_tokens: false, tells: false, votes: false };
/// At one server of a quorum; with tokens, their counter is the second of the further keys.
pub(crate) static VOTE: OneHolder = OneHolder { name: "quorum", counts_tokens: false, tells: true, votes: true };
/// A name of its own, so that a request for a token is never answered by a vote without one.
pub(crate) static VOTE_COUNTED: OneHolder =
    OneHolder { name: "quorum-fenced", counts_tokens: true, tells: true, votes: true };

impl OneHolder {
    /// Adds where a release is told, if it is.
    fn told(&self, request: Request, claim: HoldArgs<'_>) -> Request {
        if self.tells { request.publish_here().arg(claim.target.channel.clone()) } else { request }
    }
}

fn one(script: &'static Script<1>, claim: HoldArgs<'_>) -> Request {
    script.with([claim.target.key.clone()]).arg(claim.field.clone())
}

/// Adds from whom a name may be taken; `field` is what a holder has on the server.
pub(crate) fn seized_from(
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

pub(crate) fn millis(lease: Duration) -> i64 {
    // Rounded up, so that the server never ends a lease before the deadline that was counted from it.
    i64::try_from(lease.as_nanos().div_ceil(1_000_000)).unwrap_or(i64::MAX)
}

impl LockProtocol for OneHolder {
    fn name(&self) -> &'static str {
        self.name
    }

    /// A token that is counted is the server's to give.
    fn hands_over_locally(&self) -> bool {
        !self.counts_tokens && !self.votes
    }

    /// A counter is read for one at a time.
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
                let request = one(&ACQUIRE, claim).int(millis(claim.lease)).not_after_here();
                return request.joins(&JOINT, BatchPhase::Acquire).idempotent();
            }
        };
        request.int(millis(claim.lease)).not_after_here().idempotent()
    }

    fn take_over(&self, claim: HoldArgs<'_>, notices: &str, from: &TakeoverFrom) -> Request {
        let counter = claim.target.more.first().filter(|_| self.counts_tokens && !self.votes);
        let keys = std::iter::once(&claim.target.key).chain(counter).cloned();
        let request = SEIZE.with(keys).arg(claim.field.clone()).int(millis(claim.lease)).not_after_here();
        seized_from(request, notices, from, Bytes::clone).idempotent()
    }

    /// One vote of several goes to nobody alone.
    fn adopt(&self, claim: HoldArgs<'_>, former: &Bytes) -> Option<Request> {
        if self.votes {
            return None;
        }
        let request = one(&ATTACH, claim).arg(former.clone()).int(millis(claim.lease));
        Some(request.not_after_here().idempotent())
    }

    fn release(&self, claim: HoldArgs<'_>) -> Request {
        let request = one(&RELEASE, claim);
        // In this order it is an argument less in most places.
        let request = if self.tells { request.arg(claim.target.channel.clone()).sharded_here() } else { request };
        request.joins(&JOINT, BatchPhase::Release).idempotent()
    }

    fn release_yielding(&self, claim: HoldArgs<'_>) -> Request {
        let request =
            GIVE_WAY.with([claim.target.key.clone(), claim.target.poll_waiter_flag.clone()]).arg(claim.field.clone());
        self.told(request, claim).idempotent()
    }

    fn retain(&self, claim: HoldArgs<'_>) -> Request {
        self.told(one(&LINGER, claim).int(millis(claim.lease)), claim).idempotent()
    }

    fn extend(&self, claim: HoldArgs<'_>) -> Request {
        one(&EXTEND, claim).int(millis(claim.lease)).not_after_here()
    }

    fn renew(&self, claims: &[HoldArgs<'_>]) -> Request {
        let request = RENEW.with(claims.iter().map(|claim| claim.target.key.clone()));
        // Most leases are alike: written once for all of a row, and not for each.
        let rows = claims.chunk_by(|one, next| one.lease == next.lease).map(|row| {
            let lease = Bytes::from(millis(row[0].lease).to_string());
            row.iter().map(move |claim| (claim.field.clone(), lease.clone()))
        });
        rows.flatten().fold(request, |request, (field, lease)| request.arg(field).arg(lease)).idempotent()
    }

    fn release_many(&self, claims: &[HoldArgs<'_>]) -> Request {
        let request = RELEASE_MANY.with(claims.iter().map(|claim| claim.target.key.clone())).publish_here();
        let add = |request: Request, claim: &HoldArgs<'_>| {
            let channel = if self.tells { claim.target.channel.clone() } else { Bytes::new() };
            request.arg(claim.field.clone()).arg(channel)
        };
        claims.iter().fold(request, add).idempotent()
    }
}

impl MultiKeyProtocol for OneHolder {
    fn acquire_many(&self, claims: &[HoldArgs<'_>]) -> Request {
        let lease = claims.iter().map(|claim| claim.lease).max().unwrap_or_default();
        let request = ACQUIRE_MANY.with(claims.iter().map(|claim| claim.target.key.clone()));
        let request = request.int(millis(lease)).not_after_here();
        claims.iter().fold(request, |request, claim| request.arg(claim.field.clone())).idempotent()
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
    fn every_script_tells_its_contract() {
        for body in [
            ACQUIRE.body(),
            ACQUIRE_MANY.body(),
            ACQUIRE_FENCED.body(),
            ACQUIRE_VOTE.body(),
            SEIZE.body(),
            RELEASE.body(),
            GIVE_WAY.body(),
            LINGER.body(),
            EXTEND.body(),
            ATTACH.body(),
            RENEW.body(),
            RELEASE_MANY.body(),
            JOINT.body(),
        ] {
            for part in ["-- KEYS", "-- Returns", "-- Work:", "ent twice"] {
                assert!(body.text().contains(part), "{}: {part}", body.name());
            }
        }
    }
}
