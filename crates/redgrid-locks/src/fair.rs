//! The scripts of a fair lock, and their calls. Its queue is Redisson's; each script's header is its contract.

use std::time::Duration;

use bytes::Bytes;
use redgrid_core::lock::{HoldArgs, LockKeys, LockProtocol, PassArgs, ReleaseAfterPass, ServerQueue, TakeoverFrom};
use redgrid_core::name::companion;
use redgrid_core::{BulkScript, Request, Script};

use crate::scripts::{PLAIN, millis};

/// A script with what all of them have in common in front of it.
macro_rules! with_queue {
    ($file:literal) => {
        concat!(include_str!("scripts/fair_queue.lua"), include_str!($file))
    };
}

static ENTER: Script<4> = Script::new("fair/enter", with_queue!("scripts/fair_enter.lua"));
static KEEP: Script<4> = Script::new("fair/keep", with_queue!("scripts/fair_keep.lua"));
static PASS: Script<4> = Script::new("fair/pass", with_queue!("scripts/fair_pass.lua"));
static RELEASE: BulkScript = BulkScript::new("fair/release", with_queue!("scripts/fair_release.lua"));

/// A lock of one holder at a time in the order of arrival at the server, Redisson's RFairLock on the wire.
pub(crate) struct Fair;

pub(crate) static FAIR: Fair = Fair;

/// The keys of the queue, and, as text, what a place in it is worth: it goes with the keys, as all who share them share it.
pub(crate) fn more(key: &[u8], wait: Duration) -> Box<[Bytes]> {
    let keys = ["redisson_lock_queue", "redisson_lock_timeout", "redgrid_fair"].map(|prefix| companion(prefix, key));
    keys.into_iter().chain([millis(wait).to_string().into()]).collect()
}

fn keys(target: &LockKeys) -> [Bytes; 4] {
    let key = |at: usize| target.more.get(at).cloned().unwrap_or_default();
    [target.key.clone(), key(0), key(1), key(2)]
}

fn wait(target: &LockKeys) -> Bytes {
    target.more.get(3).cloned().unwrap_or_default()
}

fn enter(claim: HoldArgs<'_>, kept: Duration) -> Request {
    let request = ENTER.with(keys(claim.target)).arg(claim.field.clone()).int(millis(claim.lease)).not_after_here();
    let request = request.arg(wait(claim.target)).int(millis(kept));
    request.publish_here().arg(claim.target.channel.clone()).idempotent()
}

/// Gives back what is held, or a place; with a lease it stays taken for so long.
fn give_back(claims: &[HoldArgs<'_>]) -> Request {
    let request = RELEASE.with(claims.iter().flat_map(|claim| keys(claim.target))).publish_here();
    let add = |request: Request, claim: &HoldArgs<'_>| {
        let request = request.arg(claim.field.clone()).int(millis(claim.lease));
        request.arg(claim.target.channel.clone()).arg(wait(claim.target))
    };
    claims.iter().fold(request, add).idempotent()
}

impl LockProtocol for Fair {
    fn name(&self) -> &'static str {
        "fair"
    }

    /// The server decides who is next.
    fn hands_over_locally(&self) -> bool {
        false
    }

    fn queue(&self) -> Option<&dyn ServerQueue> {
        Some(self)
    }

    fn acquire(&self, claim: HoldArgs<'_>) -> Request {
        enter(claim, Duration::ZERO)
    }

    fn take_over(&self, claim: HoldArgs<'_>, notices: &str, from: &TakeoverFrom) -> Request {
        PLAIN.take_over(claim, notices, from)
    }

    fn release(&self, claim: HoldArgs<'_>) -> Request {
        give_back(&[HoldArgs { lease: Duration::ZERO, ..claim }])
    }

    fn release_yielding(&self, claim: HoldArgs<'_>) -> Request {
        self.release(claim)
    }

    fn retain(&self, claim: HoldArgs<'_>) -> Request {
        give_back(&[claim])
    }

    fn extend(&self, claim: HoldArgs<'_>) -> Request {
        PLAIN.extend(claim)
    }

    fn renew(&self, claims: &[HoldArgs<'_>]) -> Request {
        PLAIN.renew(claims)
    }

    fn release_many(&self, claims: &[HoldArgs<'_>]) -> Request {
        let freed: Vec<_> = claims.iter().map(|claim| HoldArgs { lease: Duration::ZERO, ..*claim }).collect();
        give_back(&freed)
    }
}

impl ServerQueue for Fair {
    fn enter(&self, claim: HoldArgs<'_>, kept: Duration) -> Request {
        enter(claim, kept)
    }

    fn keep(&self, target: &LockKeys, places: &[Bytes], kept: Duration, all: bool) -> Request {
        let request = KEEP.with(keys(target)).arg(wait(target)).int(millis(kept)).int(i64::from(all));
        let request = request.publish_here().arg(target.channel.clone());
        places.iter().fold(request, |request, place| request.arg(place.clone())).idempotent()
    }

    fn pass(&self, claim: HoldArgs<'_>, along: &PassArgs<'_>) -> Request {
        let request = PASS.with(keys(claim.target)).arg(claim.field.clone()).not_after_here();
        let gives_back = match along.gives_back {
            ReleaseAfterPass::No => 0,
            ReleaseAfterPass::UnlessNext => 1,
            ReleaseAfterPass::Yes => 2,
        };
        let request = request.arg(wait(claim.target)).int(millis(along.kept)).int(gives_back);
        let request = request.publish_here().arg(claim.target.channel.clone());
        let request = request.int(i64::try_from(along.served.len()).unwrap_or(i64::MAX));
        let places = along.served.iter().chain(along.new);
        places.fold(request, |request, place| request.arg(place.clone())).tells_time().idempotent()
    }

    fn channel(&self, target: &LockKeys, place: &Bytes) -> Bytes {
        [&target.channel, &b":"[..], place].concat().into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_script_tells_its_contract() {
        for body in [ENTER.body(), KEEP.body(), PASS.body(), RELEASE.body()] {
            for part in ["-- KEYS", "-- Returns", "-- Work:", "ent twice"] {
                assert!(body.text().contains(part), "{}: {part}", body.name());
            }
        }
    }

    #[test]
    fn keys_and_channels_are_redissons() {
        let more = more(b"a", Duration::from_secs(30));
        assert_eq!(more[..2], ["redisson_lock_queue:{a}", "redisson_lock_timeout:{a}"]);
        assert_eq!(more[2..], ["redgrid_fair:{a}", "30000"]);
    }
}
