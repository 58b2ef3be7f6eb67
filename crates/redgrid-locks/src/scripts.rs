//! The scripts of a lock on Redisson's hash, and their calls. Each script's header is its contract.

use std::time::Duration;

use bytes::Bytes;
use redgrid_core::hold::{Claim, HoldKind};
use redgrid_core::{BulkScript, Request, Script};

static ACQUIRE: Script<1> = Script::new("lock/acquire", include_str!("scripts/acquire.lua"));
static SEIZE: Script<1> = Script::new("lock/seize", include_str!("scripts/seize.lua"));
static RELEASE: Script<1> = Script::new("lock/release", include_str!("scripts/release.lua"));
static GIVE_WAY: Script<2> = Script::new("lock/give-way", include_str!("scripts/give_way.lua"));
static LINGER: Script<1> = Script::new("lock/linger", include_str!("scripts/linger.lua"));
static EXTEND: Script<1> = Script::new("lock/extend", include_str!("scripts/extend.lua"));
static ATTACH: Script<1> = Script::new("lock/attach", include_str!("scripts/attach.lua"));
pub(crate) static RENEW: BulkScript = BulkScript::new("lock/renew", include_str!("scripts/renew.lua"));
static RELEASE_MANY: BulkScript = BulkScript::new("lock/release-many", include_str!("scripts/release_many.lua"));

/// A lock of one holder, Redisson's RLock on the wire.
pub(crate) struct Plain;

pub(crate) static PLAIN: Plain = Plain;

fn one(script: &'static Script<1>, claim: Claim<'_>) -> Request {
    script.with([claim.target.key.clone()]).arg(claim.field.clone())
}

pub(crate) fn millis(lease: Duration) -> i64 {
    // Rounded up, so that the server never ends a lease before the deadline that was counted from it.
    i64::try_from(lease.as_nanos().div_ceil(1_000_000)).unwrap_or(i64::MAX)
}

impl HoldKind for Plain {
    fn name(&self) -> &'static str {
        "lock"
    }

    fn acquire(&self, claim: Claim<'_>) -> Request {
        one(&ACQUIRE, claim).int(millis(claim.lease)).not_after_here().idempotent()
    }

    fn seize(&self, claim: Claim<'_>, notices: &str, only_if_held: bool) -> Request {
        let request = one(&SEIZE, claim).int(millis(claim.lease)).not_after_here();
        request.int(i64::from(only_if_held)).arg(notices.to_owned()).idempotent()
    }

    fn adopt(&self, claim: Claim<'_>, former: &Bytes) -> Option<Request> {
        let request = one(&ATTACH, claim).arg(former.clone()).int(millis(claim.lease));
        Some(request.not_after_here().idempotent())
    }

    fn release(&self, claim: Claim<'_>) -> Request {
        one(&RELEASE, claim).publish_here().arg(claim.target.channel.clone()).idempotent()
    }

    fn give_way(&self, claim: Claim<'_>) -> Request {
        let request = GIVE_WAY.with([claim.target.key.clone(), claim.target.mark.clone()]).arg(claim.field.clone());
        request.publish_here().arg(claim.target.channel.clone()).idempotent()
    }

    fn linger(&self, claim: Claim<'_>) -> Request {
        let request = one(&LINGER, claim).int(millis(claim.lease));
        request.publish_here().arg(claim.target.channel.clone()).idempotent()
    }

    fn extend(&self, claim: Claim<'_>) -> Request {
        one(&EXTEND, claim).int(millis(claim.lease)).not_after_here()
    }

    fn renew(&self, claims: &[Claim<'_>]) -> Request {
        let request = RENEW.with(claims.iter().map(|claim| claim.target.key.clone()));
        let add = |request: Request, claim: &Claim<'_>| request.arg(claim.field.clone()).int(millis(claim.lease));
        claims.iter().fold(request, add).idempotent()
    }

    fn release_many(&self, claims: &[Claim<'_>]) -> Request {
        let request = RELEASE_MANY.with(claims.iter().map(|claim| claim.target.key.clone())).publish_here();
        let add =
            |request: Request, claim: &Claim<'_>| request.arg(claim.field.clone()).arg(claim.target.channel.clone());
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
    fn every_script_tells_its_contract() {
        for body in [
            ACQUIRE.body(),
            SEIZE.body(),
            RELEASE.body(),
            GIVE_WAY.body(),
            LINGER.body(),
            EXTEND.body(),
            ATTACH.body(),
            RENEW.body(),
            RELEASE_MANY.body(),
        ] {
            for part in ["-- KEYS", "-- Returns", "-- Work:", "ent twice"] {
                assert!(body.text().contains(part), "{}: {part}", body.name());
            }
        }
    }
}
