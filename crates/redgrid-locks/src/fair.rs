//! The scripts of a fair lock, and the requests that call them.
//!
//! The queue has Redisson's format. The header of each script is its contract.

use std::time::Duration;

use bytes::Bytes;
use redgrid_core::author::{LockProtocol, ServerQueue};
use redgrid_core::lock::{HoldArgs, LockKeys, PassArgs, ReleaseAfterPass, TakeoverFrom};
use redgrid_core::name::companion;
use redgrid_core::{BulkScript, Request, Script};

use crate::scripts::{PLAIN, millis};

/// Returns the text of a script, preceded by the functions that all of them share.
macro_rules! with_queue {
    ($file:literal) => {
        concat!(include_str!("scripts/fair_queue.lua"), include_str!($file))
    };
}

static ENTER: Script<4> = Script::new("fair/acquire", with_queue!("scripts/fair_acquire.lua"));
static KEEP: Script<4> = Script::new("fair/keepalive", with_queue!("scripts/fair_keepalive.lua"));
static PASS: Script<4> = Script::new("fair/pass", with_queue!("scripts/fair_pass.lua"));
static WAKE: Script<4> = Script::new("fair/wake", with_queue!("scripts/fair_wake.lua"));
static RELEASE: BulkScript = BulkScript::new("fair/release", with_queue!("scripts/fair_release.lua"));

/// The protocol of an exclusive lock that is granted in the order of arrival at the server. On the
/// wire it is Redisson's `RFairLock`.
pub(crate) struct Fair;

pub(crate) static FAIR: Fair = Fair;

/// Returns the keys of the queue, followed by the `fair_wait` of the client in ms, as text.
///
/// The wait is part of the keys, so that all users of the same [`LockKeys`] use the same wait.
pub(crate) fn more(key: &[u8], wait: Duration) -> Box<[Bytes]> {
    let keys = ["redisson_lock_queue", "redisson_lock_timeout", "redgrid_fair"].map(|prefix| companion(prefix, key));
    keys.into_iter().chain([millis(wait).to_string().into()]).collect()
}

fn keys(target: &LockKeys) -> [Bytes; 4] {
    let key = |at: usize| target.more.get(at).cloned().unwrap_or_default();
    [target.key.clone(), key(0), key(1), key(2)]
}

fn fair_wait(target: &LockKeys) -> Bytes {
    target.more.get(3).cloned().unwrap_or_default()
}

/// Acquires the lock or enqueues the request. If `position_ttl` is zero, nothing is enqueued.
fn enter(claim: HoldArgs<'_>, position_ttl: Duration) -> Request {
    let request = ENTER.with(keys(claim.target)).arg(claim.field.clone()).int(millis(claim.lease)).deadline_arg();
    let request = request.arg(fair_wait(claim.target)).int(millis(position_ttl));
    request.publish_arg().arg(claim.target.channel.clone()).idempotent()
}

/// Releases holds or queue positions. If a claim has a lease, its lock stays taken for that time.
fn release_or_retain(claims: &[HoldArgs<'_>]) -> Request {
    let request = RELEASE.with(claims.iter().flat_map(|claim| keys(claim.target))).publish_arg();
    let add = |request: Request, claim: &HoldArgs<'_>| {
        let request = request.arg(claim.field.clone()).int(millis(claim.lease));
        request.arg(claim.target.channel.clone()).arg(fair_wait(claim.target))
    };
    claims.iter().fold(request, add).idempotent()
}

/// Notifies the first waiter if the lock is free.
pub(crate) fn wake(target: &LockKeys) -> Request {
    let request = WAKE.with(keys(target)).arg(fair_wait(target)).publish_arg();
    request.arg(target.channel.clone()).idempotent()
}

impl LockProtocol for Fair {
    fn name(&self) -> &'static str {
        "fair"
    }

    /// The server decides which waiter is next.
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
        release_or_retain(&[HoldArgs { lease: Duration::ZERO, ..claim }])
    }

    fn release_yielding(&self, claim: HoldArgs<'_>) -> Request {
        self.release(claim)
    }

    fn retain(&self, claim: HoldArgs<'_>) -> Request {
        release_or_retain(&[claim])
    }

    fn extend(&self, claim: HoldArgs<'_>) -> Request {
        PLAIN.extend(claim)
    }

    fn renew(&self, claims: &[HoldArgs<'_>]) -> Request {
        PLAIN.renew(claims)
    }

    fn release_many(&self, claims: &[HoldArgs<'_>]) -> Request {
        let released: Vec<_> = claims.iter().map(|claim| HoldArgs { lease: Duration::ZERO, ..*claim }).collect();
        release_or_retain(&released)
    }
}

impl ServerQueue for Fair {
    fn enter(&self, claim: HoldArgs<'_>, position_ttl: Duration) -> Request {
        enter(claim, position_ttl)
    }

    fn keep(&self, target: &LockKeys, positions: &[Bytes], position_ttl: Duration, all: bool) -> Request {
        let request = KEEP.with(keys(target)).arg(fair_wait(target)).int(millis(position_ttl)).int(i64::from(all));
        let request = request.publish_arg().arg(target.channel.clone());
        positions.iter().fold(request, |request, position| request.arg(position.clone())).idempotent()
    }

    fn pass(&self, claim: HoldArgs<'_>, args: &PassArgs<'_>) -> Request {
        let request = PASS.with(keys(claim.target)).arg(claim.field.clone()).deadline_arg();
        let release_mode = match args.gives_back {
            ReleaseAfterPass::No => 0,
            ReleaseAfterPass::UnlessNext => 1,
            ReleaseAfterPass::Yes => 2,
        };
        let request = request.arg(fair_wait(claim.target)).int(millis(args.kept)).int(release_mode);
        let request = request.publish_arg().arg(claim.target.channel.clone());
        let request = request.int(i64::try_from(args.served.len()).unwrap_or(i64::MAX));
        let positions = args.served.iter().chain(args.new);
        positions.fold(request, |request, position| request.arg(position.clone())).late_reply_has_time().idempotent()
    }

    fn channel(&self, target: &LockKeys, position: &Bytes) -> Bytes {
        [&target.channel, &b":"[..], position].concat().into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_script_states_its_contract() {
        for script in [ENTER.body(), KEEP.body(), PASS.body(), WAKE.body(), RELEASE.body()] {
            for part in ["-- KEYS", "-- Returns", "-- Work:", "ent twice"] {
                assert!(script.text().contains(part), "{}: {part}", script.name());
            }
        }
    }

    #[test]
    fn queue_keys_are_redissons() {
        let queue_keys = more(b"a", Duration::from_secs(30));
        assert_eq!(queue_keys[..2], ["redisson_lock_queue:{a}", "redisson_lock_timeout:{a}"]);
        assert_eq!(queue_keys[2..], ["redgrid_fair:{a}", "30000"]);
    }
}
