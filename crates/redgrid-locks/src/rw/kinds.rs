//! Readers and writers as kinds of holds, and the calls of their scripts. Each script's header is its contract.

use std::time::Duration;

use bytes::Bytes;
use redgrid_core::lock::{AcquireContext, HoldArgs, LockKeys, LockProtocol, TakeoverFrom};
use redgrid_core::{BulkScript, Request, Script};

use crate::inspect::{INSPECT, MOST};
use crate::scripts::{KEPT, RENEW, millis, seized_from};

static READ: Script<3> = Script::new("rw/read", include_str!("../scripts/rw_read.lua"));
static WRITE: Script<2> = Script::new("rw/write", include_str!("../scripts/rw_write.lua"));
static ANNOUNCE: Script<1> = Script::new("rw/announce", include_str!("../scripts/rw_announce.lua"));
static WITHDRAW: Script<2> = Script::new("rw/withdraw", include_str!("../scripts/rw_withdraw.lua"));
static END_READ: Script<3> = Script::new("rw/end-read", include_str!("../scripts/rw_end_read.lua"));
static END_WRITE: Script<2> = Script::new("rw/end-write", include_str!("../scripts/rw_end_write.lua"));
static END_MANY: BulkScript = BulkScript::new("rw/end-many", include_str!("../scripts/rw_end_many.lua"));
static LEASE: Script<2> = Script::new("rw/lease", include_str!("../scripts/rw_lease.lua"));
static LINGER: Script<3> = Script::new("rw/linger", include_str!("../scripts/rw_linger.lua"));
static RENEW_READS: BulkScript = BulkScript::new("rw/renew", include_str!("../scripts/rw_renew.lua"));
static SEIZE: Script<1> = Script::new("rw/seize", include_str!("../scripts/rw_seize.lua"));
static EVICT: Script<3> = Script::new("rw/evict", include_str!("../scripts/rw_evict.lua"));
static BURY: BulkScript = BulkScript::new("rw/bury", include_str!("../scripts/rw_bury.lua"));

/// How long a waiting writer is believed to live without saying so again: 1 s. Readers wait so long for one that died.
const BELIEVED: Duration = Duration::from_secs(1);

/// How often it says so: one word that is lost is not yet a gap.
pub(crate) const SAYS: Duration = Duration::from_millis(300);

/// Readers that one script looks at, whether they are dead. The server is busy for about 0.1 ms with it.
const LOOKED_AT: usize = 100;

/// A reader of Redisson that has entered more often is left to its lock's lifetime.
const DEEPEST: usize = 20;

/// Who reads: many at a time.
pub(crate) struct Reading;
/// Who writes: one, and no reader but itself.
pub(crate) struct Writing;

pub(crate) static READING: Reading = Reading;
pub(crate) static WRITING: Writing = Writing;

/// Where the clients of waiting writers are: the first further key of a read-write lock.
fn waiting(target: &LockKeys) -> Bytes {
    target.more.first().cloned().unwrap_or_else(|| target.poll_waiter_flag.clone())
}

/// The key that is there while a reader's lease lasts. Redisson has one for each time a reader has entered; ours enter once.
fn level(claim: &HoldArgs<'_>) -> Bytes {
    level_of(&claim.target.key, claim.field, 1)
}

fn level_of(key: &[u8], field: &[u8], entry: usize) -> Bytes {
    let braces: [&[u8]; 2] = if key.contains(&b'{') { [b"", b""] } else { [b"{", b"}"] };
    [braces[0], key, braces[1], b":", field, b":rwlock_timeout:", entry.to_string().as_bytes()].concat().into()
}

/// A writer's field, by which Redisson tells it from a reader's.
fn writer(field: &[u8]) -> Bytes {
    [field, b":write"].concat().into()
}

/// The field that keeps a lock taken after its holder has gone.
fn kept(field: &[u8]) -> Bytes {
    [field, KEPT.as_bytes()].concat().into()
}

fn lock(claim: &HoldArgs<'_>) -> Bytes {
    claim.target.key.clone()
}

/// Has more readers step back for `mark`, or has them wait no longer.
pub(crate) fn announce(target: &LockKeys, mark: Bytes, number: u64) -> Request {
    ANNOUNCE.with([waiting(target)]).arg(mark).int(millis(BELIEVED)).int(whole(number)).idempotent()
}

pub(crate) fn withdraw(target: &LockKeys, mark: Bytes, number: u64) -> Request {
    let request = WITHDRAW.with([waiting(target), target.key.clone()]).arg(mark).int(whole(number));
    request.publish_here().arg(target.channel.clone()).idempotent()
}

fn whole(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// Asks who is in, for [`bury`].
pub(crate) fn holders(target: &LockKeys) -> Request {
    INSPECT.with([target.key.clone()]).int(MOST).idempotent()
}

/// Takes those out of the lock who died inside, as far as `holders` has told of them.
pub(crate) fn bury(target: &LockKeys, holders: &[Bytes]) -> Vec<Request> {
    // The lifetime of the lock goes before them; a writer ends with that.
    let fields = holders.get(2..).unwrap_or_default().chunks_exact(2);
    let reader = |pair: &[Bytes]| {
        let entries = std::str::from_utf8(&pair[1]).ok()?.parse::<usize>().ok()?;
        let looked_at = (1..=DEEPEST).contains(&entries) && pair[0] != "mode" && !pair[0].ends_with(b":write");
        looked_at.then(|| (pair[0].clone(), entries))
    };
    let readers: Vec<(Bytes, usize)> = fields.filter_map(reader).collect();
    readers.chunks(LOOKED_AT).map(|readers| bury_of(target, readers)).collect()
}

/// Takes the read of one holder away. Sent once: a second copy could not tell whether the first one had done it.
pub(crate) fn evict(target: &LockKeys, reader: &Bytes, notices: &str) -> Request {
    let claim = HoldArgs { target, field: reader, lease: Duration::ZERO };
    let request = EVICT.with([lock(&claim), level(&claim), waiting(target)]).arg(reader.clone());
    request.arg(notices.to_owned()).publish_here().arg(target.channel.clone())
}

fn bury_of(target: &LockKeys, readers: &[(Bytes, usize)]) -> Request {
    let levels =
        readers.iter().flat_map(|(field, entries)| (1..=*entries).map(move |n| level_of(&target.key, field, n)));
    let request = BURY.with(std::iter::once(target.key.clone()).chain(levels)).publish_here();
    let request = request.arg(target.channel.clone());
    let add = |request: Request, (field, entries): &(Bytes, usize)| request.arg(field.clone()).arg(entries.to_string());
    readers.iter().fold(request, add).idempotent()
}

impl LockProtocol for Reading {
    fn name(&self) -> &'static str {
        "read lock"
    }

    fn is_shared(&self) -> bool {
        true
    }

    fn paired_mode(&self) -> Option<&'static str> {
        Some(WRITING.name())
    }

    fn enter(&self, claim: HoldArgs<'_>, entrance: &AcquireContext) -> Request {
        let request = READ.with([lock(&claim), level(&claim), waiting(claim.target)]).arg(claim.field.clone());
        let under = entrance.under.as_ref().map_or_else(Bytes::new, |field| writer(field));
        let since = i64::try_from(entrance.since).unwrap_or(i64::MAX);
        let request = request.int(millis(claim.lease)).not_after_here().arg(under).int(since);
        request.int(i64::from(entrance.waits)).idempotent()
    }

    fn acquire(&self, claim: HoldArgs<'_>) -> Request {
        self.enter(claim, &AcquireContext::default())
    }

    /// A reader takes nothing from anybody.
    fn take_over(&self, claim: HoldArgs<'_>, _notices: &str, _from: &TakeoverFrom) -> Request {
        self.acquire(claim)
    }

    fn release(&self, claim: HoldArgs<'_>) -> Request {
        let request = END_READ.with([lock(&claim), level(&claim), waiting(claim.target)]).arg(claim.field.clone());
        request.publish_here().arg(claim.target.channel.clone()).idempotent()
    }

    /// Readers of this process do not wait for each other.
    fn release_yielding(&self, claim: HoldArgs<'_>) -> Request {
        self.release(claim)
    }

    fn retain(&self, claim: HoldArgs<'_>) -> Request {
        let kept = level_of(&claim.target.key, &kept(claim.field), 1);
        let request = LINGER.with([lock(&claim), level(&claim), kept]).arg(claim.field.clone());
        request.int(millis(claim.lease)).publish_here().arg(claim.target.channel.clone()).idempotent()
    }

    fn extend(&self, claim: HoldArgs<'_>) -> Request {
        let request = LEASE.with([lock(&claim), level(&claim)]).arg(claim.field.clone());
        request.int(millis(claim.lease)).not_after_here()
    }

    fn renew(&self, claims: &[HoldArgs<'_>]) -> Request {
        let request = RENEW_READS.with(claims.iter().flat_map(|claim| [lock(claim), level(claim)]));
        let add = |request: Request, claim: &HoldArgs<'_>| request.arg(claim.field.clone()).int(millis(claim.lease));
        claims.iter().fold(request, add).idempotent()
    }

    fn release_many(&self, claims: &[HoldArgs<'_>]) -> Request {
        let request = END_MANY.with(claims.iter().flat_map(|claim| [lock(claim), level(claim)])).publish_here();
        let add =
            |request: Request, claim: &HoldArgs<'_>| request.arg(claim.field.clone()).arg(claim.target.channel.clone());
        claims.iter().fold(request, add).idempotent()
    }
}

impl LockProtocol for Writing {
    fn name(&self) -> &'static str {
        "write lock"
    }

    fn paired_mode(&self) -> Option<&'static str> {
        Some(READING.name())
    }

    fn announces_every(&self) -> Option<Duration> {
        Some(SAYS)
    }

    fn announce(&self, target: &LockKeys, client: &str, number: u64) -> Option<Request> {
        Some(announce(target, Bytes::copy_from_slice(client.as_bytes()), number))
    }

    fn withdraw(&self, target: &LockKeys, client: &str, number: u64) -> Option<Request> {
        Some(withdraw(target, Bytes::copy_from_slice(client.as_bytes()), number))
    }

    fn holders(&self, target: &LockKeys) -> Option<Request> {
        Some(holders(target))
    }

    fn evict_expired(&self, target: &LockKeys, holders: &[Bytes]) -> Vec<Request> {
        bury(target, holders)
    }

    fn enter(&self, claim: HoldArgs<'_>, entrance: &AcquireContext) -> Request {
        let request = WRITE.with([lock(&claim), waiting(claim.target)]).arg(writer(claim.field));
        let client =
            claim.field.iter().rposition(|byte| *byte == b':').map_or(&claim.field[..], |at| &claim.field[..at]);
        let under = entrance.under.clone().unwrap_or_default();
        // A reader that is to write has said so for itself.
        let mark = if under.is_empty() { Bytes::copy_from_slice(client) } else { under.clone() };
        let waits = if entrance.waits { millis(BELIEVED) } else { 0 };
        let request = request.int(millis(claim.lease)).not_after_here().arg(under);
        request.arg(mark).int(waits).idempotent()
    }

    fn acquire(&self, claim: HoldArgs<'_>) -> Request {
        self.enter(claim, &AcquireContext::default())
    }

    fn take_over(&self, claim: HoldArgs<'_>, notices: &str, from: &TakeoverFrom) -> Request {
        let request = SEIZE.with([lock(&claim)]).arg(writer(claim.field)).int(millis(claim.lease)).not_after_here();
        seized_from(request, notices, from, |holder| writer(holder)).idempotent()
    }

    fn release(&self, claim: HoldArgs<'_>) -> Request {
        self.release_yielding(claim)
    }

    fn release_yielding(&self, claim: HoldArgs<'_>) -> Request {
        let request = END_WRITE.with([lock(&claim), claim.target.poll_waiter_flag.clone()]).arg(writer(claim.field));
        request.publish_here().arg(claim.target.channel.clone()).idempotent()
    }

    fn retain(&self, claim: HoldArgs<'_>) -> Request {
        let request = LINGER.with([lock(&claim), lock(&claim), lock(&claim)]).arg(writer(claim.field));
        request.int(millis(claim.lease)).publish_here().arg(claim.target.channel.clone()).idempotent()
    }

    /// Its holder may read, and have the key renewed for that.
    fn end_retained(&self, claim: HoldArgs<'_>) -> Option<Request> {
        let kept = kept(&writer(claim.field));
        let request = END_WRITE.with([lock(&claim), claim.target.poll_waiter_flag.clone()]).arg(kept);
        Some(request.publish_here().arg(claim.target.channel.clone()).idempotent())
    }

    fn extend(&self, claim: HoldArgs<'_>) -> Request {
        let request = LEASE.with([lock(&claim), lock(&claim)]).arg(writer(claim.field));
        request.int(millis(claim.lease)).not_after_here()
    }

    fn renew(&self, claims: &[HoldArgs<'_>]) -> Request {
        let request = RENEW.with(claims.iter().map(lock));
        let add = |request: Request, claim: &HoldArgs<'_>| request.arg(writer(claim.field)).int(millis(claim.lease));
        claims.iter().fold(request, add).idempotent()
    }

    fn release_many(&self, claims: &[HoldArgs<'_>]) -> Request {
        let request = END_MANY.with(claims.iter().flat_map(|claim| [lock(claim), lock(claim)])).publish_here();
        let add =
            |request: Request, claim: &HoldArgs<'_>| request.arg(writer(claim.field)).arg(claim.target.channel.clone());
        claims.iter().fold(request, add).idempotent()
    }
}

#[cfg(test)]
mod tests {
    use redgrid_core::Name;

    use super::*;

    #[test]
    fn level_keys_are_named_as_redisson_names_them() {
        for (key, expected) in [("R", "{R}:id:7:rwlock_timeout:1"), ("a{R}", "a{R}:id:7:rwlock_timeout:1")] {
            let (name, key) = (Name::new(key).unwrap(), Bytes::from(key));
            let target =
                LockKeys { name, key, channel: Bytes::new(), poll_waiter_flag: Bytes::new(), more: Box::default() };
            let field = Bytes::from("id:7");
            assert_eq!(level(&HoldArgs { target: &target, field: &field, lease: Duration::ZERO }), expected);
        }
    }

    #[test]
    fn the_dead_are_looked_for_among_readers_and_at_each_of_their_entries() {
        let (name, key) = (Name::new("R").unwrap(), Bytes::from("R"));
        let target =
            LockKeys { name, key, channel: Bytes::new(), poll_waiter_flag: Bytes::new(), more: Box::default() };
        let said =
            ["30000", "5", "mode", "read", "id:7", "1", "id:8:write", "1", "java:3", "2", "odd", "x"].map(Bytes::from);
        let requests = bury(&target, &said);
        assert_eq!(requests.len(), 1);
        let keys = ["R", "{R}:id:7:rwlock_timeout:1", "{R}:java:3:rwlock_timeout:1", "{R}:java:3:rwlock_timeout:2"];
        assert_eq!(requests[0].touched(), keys.map(Bytes::from));
        assert!(bury(&target, &[]).is_empty());
    }

    #[test]
    fn every_script_tells_its_contract() {
        let scripts = [
            READ.body(),
            WRITE.body(),
            ANNOUNCE.body(),
            WITHDRAW.body(),
            END_READ.body(),
            END_WRITE.body(),
            END_MANY.body(),
            LEASE.body(),
            LINGER.body(),
            RENEW_READS.body(),
            SEIZE.body(),
            EVICT.body(),
            BURY.body(),
        ];
        for body in scripts {
            for part in ["-- KEYS", "-- Returns", "-- Work:", "ent twice"] {
                assert!(body.text().contains(part), "{}: {part}", body.name());
            }
        }
    }
}
