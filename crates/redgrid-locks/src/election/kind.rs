//! The scripts of an election: those of a lock, and those of the leader's proclamation.

use bytes::Bytes;
use redgrid_core::author::LockProtocol;
use redgrid_core::lock::{HoldArgs, LockKeys, TakeoverFrom};
use redgrid_core::{BulkScript, Request, Script, Token};

use crate::scripts::{PLAIN, millis};

static PROCLAIM: Script<2> = Script::new("leader/proclaim", include_str!("../scripts/leader_proclaim.lua"));
static INSPECT: Script<2> = Script::new("leader/inspect", include_str!("../scripts/leader_inspect.lua"));
static RESIGN: Script<3> = Script::new("leader/resign", include_str!("../scripts/leader_resign.lua"));
static RENEW: BulkScript = BulkScript::new("leader/renew", include_str!("../scripts/leader_renew.lua"));
static RESIGN_MANY: BulkScript =
    BulkScript::new("leader/resign-many", include_str!("../scripts/leader_resign_many.lua"));

/// The protocol of an election's lock: its holder is the leader.
///
/// It is not handed over locally: each leader has its own term and id.
pub(super) struct Leading;

pub(super) static LEADING: Leading = Leading;

/// Returns the key of the leader's proclamation.
fn leader_key(target: &LockKeys) -> Bytes {
    target.more.first().cloned().unwrap_or_default()
}

/// Returns the channel on which proclamations and resignations are published.
pub(super) fn observer_channel(target: &LockKeys) -> Bytes {
    target.more.get(1).cloned().unwrap_or_default()
}

/// Reads the leader.
pub(super) fn leader_request(target: &LockKeys) -> Request {
    INSPECT.with([target.key.clone(), leader_key(target)]).idempotent()
}

/// Proclaims the leader that holds `field`.
pub(super) fn proclaim_request(target: &LockKeys, field: Bytes, term: Token, id: Bytes) -> Request {
    let request = PROCLAIM.with([target.key.clone(), leader_key(target)]).arg(field).arg(term.to_string());
    request.arg(id).publish_arg().arg(observer_channel(target)).idempotent()
}

/// Calls a script on several elections, with two keys for each.
fn on_elections(script: &'static BulkScript, claims: &[HoldArgs<'_>]) -> Request {
    script.with(claims.iter().flat_map(|claim| [claim.target.key.clone(), leader_key(claim.target)]))
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
            RESIGN.with([target.key.clone(), leader_key(target), target.poll_waiter_flag()]).arg(claim.field.clone());
        request.publish_arg().arg(target.channel.clone()).arg(observer_channel(target)).idempotent()
    }

    fn retain(&self, claim: HoldArgs<'_>) -> Request {
        PLAIN.retain(claim)
    }

    fn extend(&self, claim: HoldArgs<'_>) -> Request {
        PLAIN.extend(claim)
    }

    fn renew(&self, claims: &[HoldArgs<'_>]) -> Request {
        let add = |request: Request, claim: &HoldArgs<'_>| request.arg(claim.field.clone()).int(millis(claim.lease));
        claims.iter().fold(on_elections(&RENEW, claims), add).idempotent()
    }

    fn release_many(&self, claims: &[HoldArgs<'_>]) -> Request {
        let add = |request: Request, claim: &HoldArgs<'_>| {
            request.arg(claim.field.clone()).arg(claim.target.channel.clone()).arg(observer_channel(claim.target))
        };
        claims.iter().fold(on_elections(&RESIGN_MANY, claims).publish_arg(), add).idempotent()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_script_states_its_contract() {
        for script in [PROCLAIM.body(), INSPECT.body(), RESIGN.body(), RENEW.body(), RESIGN_MANY.body()] {
            for part in ["-- KEYS", "-- Returns", "-- Work:", "ent twice"] {
                assert!(script.text().contains(part), "{}: {part}", script.name());
            }
        }
    }
}
