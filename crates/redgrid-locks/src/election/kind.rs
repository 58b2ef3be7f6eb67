//! The scripts of an election: those of a lock, and beside it what its leader proclaims.

use bytes::Bytes;
use redgrid_core::lock::{HoldArgs, LockKeys, LockProtocol, TakeoverFrom};
use redgrid_core::{BulkScript, Request, Script, Token};

use crate::scripts::{PLAIN, millis};

static PROCLAIM: Script<2> = Script::new("leader/proclaim", include_str!("../scripts/leader_proclaim.lua"));
static LOOK: Script<2> = Script::new("leader/look", include_str!("../scripts/leader_look.lua"));
static RESIGN: Script<3> = Script::new("leader/resign", include_str!("../scripts/leader_resign.lua"));
static RENEW: BulkScript = BulkScript::new("leader/renew", include_str!("../scripts/leader_renew.lua"));
static RESIGN_MANY: BulkScript =
    BulkScript::new("leader/resign-many", include_str!("../scripts/leader_resign_many.lua"));

/// A lock whose holder leads. It does not pass from task to task in silence: each leader has a term and a name of its own.
pub(super) struct Leading;

pub(super) static LEADING: Leading = Leading;

/// Where the leader proclaims itself.
fn leader(target: &LockKeys) -> Bytes {
    target.more.first().cloned().unwrap_or_default()
}

/// Where that is told.
pub(super) fn observed(target: &LockKeys) -> Bytes {
    target.more.get(1).cloned().unwrap_or_default()
}

pub(super) fn look(target: &LockKeys) -> Request {
    LOOK.with([target.key.clone(), leader(target)]).idempotent()
}

pub(super) fn proclaim(target: &LockKeys, field: &[u8], term: Token, id: Bytes) -> Request {
    let request = PROCLAIM.with([target.key.clone(), leader(target)]).arg(field.to_vec()).arg(term.to_string());
    request.arg(id).publish_here().arg(observed(target)).idempotent()
}

fn pairs(script: &'static BulkScript, claims: &[HoldArgs<'_>]) -> Request {
    script.with(claims.iter().flat_map(|claim| [claim.target.key.clone(), leader(claim.target)]))
}

impl LockProtocol for Leading {
    fn name(&self) -> &'static str {
        "election"
    }

    fn hands_over_locally(&self) -> bool {
        false
    }

    fn acquire(&self, claim: HoldArgs<'_>) -> Request {
        PLAIN.acquire(claim)
    }

    fn take_over(&self, claim: HoldArgs<'_>, notices: &str, from: &TakeoverFrom) -> Request {
        PLAIN.take_over(claim, notices, from)
    }

    fn release(&self, claim: HoldArgs<'_>) -> Request {
        self.release_yielding(claim)
    }

    fn release_yielding(&self, claim: HoldArgs<'_>) -> Request {
        let target = claim.target;
        let request =
            RESIGN.with([target.key.clone(), leader(target), target.poll_waiter_flag.clone()]).arg(claim.field.clone());
        request.publish_here().arg(target.channel.clone()).arg(observed(target)).idempotent()
    }

    fn retain(&self, claim: HoldArgs<'_>) -> Request {
        PLAIN.retain(claim)
    }

    fn extend(&self, claim: HoldArgs<'_>) -> Request {
        PLAIN.extend(claim)
    }

    fn renew(&self, claims: &[HoldArgs<'_>]) -> Request {
        let add = |request: Request, claim: &HoldArgs<'_>| request.arg(claim.field.clone()).int(millis(claim.lease));
        claims.iter().fold(pairs(&RENEW, claims), add).idempotent()
    }

    fn release_many(&self, claims: &[HoldArgs<'_>]) -> Request {
        let add = |request: Request, claim: &HoldArgs<'_>| {
            request.arg(claim.field.clone()).arg(claim.target.channel.clone()).arg(observed(claim.target))
        };
        claims.iter().fold(pairs(&RESIGN_MANY, claims).publish_here(), add).idempotent()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_script_tells_its_contract() {
        for body in [PROCLAIM.body(), LOOK.body(), RESIGN.body(), RENEW.body(), RESIGN_MANY.body()] {
            for part in ["-- KEYS", "-- Returns", "-- Work:", "ent twice"] {
                assert!(body.text().contains(part), "{}: {part}", body.name());
            }
        }
    }
}
