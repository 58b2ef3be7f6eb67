//! The protocols of readers and writers, and the requests that call their scripts.
//!
//! The header of each script is its contract.

use std::time::Duration;

use bytes::Bytes;
use redgrid_core::author::{LockProtocol, ReadWriteMode};
use redgrid_core::lock::{AcquireContext, HoldArgs, LockKeys, TakeoverFrom};
use redgrid_core::{BulkScript, Request, Script};

use crate::inspect::{INSPECT, MAX_HOLDERS};
use crate::scripts::{RENEW, RETAINED, millis, with_takeover_from};

static READ: Script<3> = Script::new("rw/read", include_str!("../scripts/rw_read.lua"));
static WRITE: Script<2> = Script::new("rw/write", include_str!("../scripts/rw_write.lua"));
static ANNOUNCE: Script<1> = Script::new("rw/announce", include_str!("../scripts/rw_announce.lua"));
static WITHDRAW: Script<2> = Script::new("rw/withdraw", include_str!("../scripts/rw_withdraw.lua"));
static RELEASE_READ: Script<3> = Script::new("rw/release-read", include_str!("../scripts/rw_release_read.lua"));
static RELEASE_WRITE: Script<2> = Script::new("rw/release-write", include_str!("../scripts/rw_release_write.lua"));
static RELEASE_MANY: BulkScript = BulkScript::new("rw/release-many", include_str!("../scripts/rw_release_many.lua"));
static EXTEND: Script<2> = Script::new("rw/extend", include_str!("../scripts/rw_extend.lua"));
static RETAIN: Script<3> = Script::new("rw/retain", include_str!("../scripts/rw_retain.lua"));
static RENEW_READS: BulkScript = BulkScript::new("rw/renew", include_str!("../scripts/rw_renew.lua"));
static TAKE_OVER: Script<1> = Script::new("rw/takeover", include_str!("../scripts/rw_takeover.lua"));
static EVICT_READER: Script<3> = Script::new("rw/evict-reader", include_str!("../scripts/rw_evict_reader.lua"));
static EVICT_EXPIRED: BulkScript = BulkScript::new("rw/evict-expired", include_str!("../scripts/rw_evict_expired.lua"));

/// Lifetime of the announcement of a waiting writer: 1 s. Readers wait that long for a crashed
/// writer.
const ANNOUNCEMENT_TTL: Duration = Duration::from_secs(1);

/// Interval of the announcements: 300 ms. The loss of a single one leaves no gap.
pub(crate) const ANNOUNCEMENT_INTERVAL: Duration = Duration::from_millis(300);

/// Maximum number of readers whose leases one script checks: 100. Such a script keeps the server
/// busy for about 0.1 ms.
const EVICTION_CHUNK: usize = 100;

/// Maximum number of entries of a Redisson reader whose leases are checked: 20. With more, the
/// reader stays until the lifetime of the lock ends.
const MAX_ENTRIES: usize = 20;

/// The protocol of readers: many at a time.
pub(crate) struct Reading;
/// The protocol of the writer: one, and no reader except itself.
pub(crate) struct Writing;

pub(crate) static READING: Reading = Reading;
pub(crate) static WRITING: Writing = Writing;

/// Returns the key of the announcements: the first further key of a read-write lock.
fn announcements_key(target: &LockKeys) -> Bytes {
    target.more.first().cloned().unwrap_or_else(|| target.poll_waiter_flag())
}

/// Returns the key that exists while a reader's lease lasts.
///
/// Redisson has one key for each entry of a reader. Redgrid readers enter once.
fn timeout_key(claim: &HoldArgs<'_>) -> Bytes {
    timeout_key_of(&claim.target.key, claim.field, 1)
}

fn timeout_key_of(key: &[u8], field: &[u8], entry: usize) -> Bytes {
    let braces: [&[u8]; 2] = if key.contains(&b'{') { [b"", b""] } else { [b"{", b"}"] };
    [braces[0], key, braces[1], b":", field, b":rwlock_timeout:", entry.to_string().as_bytes()].concat().into()
}

/// The end of the field of a writer.
pub(super) const WRITER: &str = ":write";

/// Returns the holder field of a writer, whose suffix distinguishes it from a reader.
fn writer_field(field: &[u8]) -> Bytes {
    [field, WRITER.as_bytes()].concat().into()
}

/// Returns the field that keeps a lock taken after its holder has released it.
fn retained_field(field: &[u8]) -> Bytes {
    [field, RETAINED.as_bytes()].concat().into()
}

fn lock_key(claim: &HoldArgs<'_>) -> Bytes {
    claim.target.key.clone()
}

/// Announces that `waiter` waits to write, so that new readers wait behind it.
///
/// The waiter is the id of a client, or the field of a reader that upgrades.
pub(crate) fn announce_request(target: &LockKeys, waiter: Bytes, number: u64) -> Request {
    ANNOUNCE
        .with([announcements_key(target)])
        .arg(waiter)
        .int(millis(ANNOUNCEMENT_TTL))
        .int(saturating_i64(number))
        .idempotent()
}

/// Withdraws the announcement of `waiter`, unless one with a higher number was made.
pub(crate) fn withdraw_request(target: &LockKeys, waiter: Bytes, number: u64) -> Request {
    let request =
        WITHDRAW.with([announcements_key(target), target.key.clone()]).arg(waiter).int(saturating_i64(number));
    request.publish_arg().arg(target.channel.clone()).idempotent()
}

fn saturating_i64(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// Reads the holders, for [`evict_expired_requests`].
pub(crate) fn holders_request(target: &LockKeys) -> Request {
    INSPECT.with([target.key.clone()]).int(MAX_HOLDERS).idempotent()
}

/// Removes the readers with expired leases among `holders`, the reply to [`holders_request`].
pub(crate) fn evict_expired_requests(target: &LockKeys, holders: &[Bytes]) -> Vec<Request> {
    // The reply begins with the lifetime of the lock and the number of its fields. A writer has no
    // other lease, and ends with that lifetime.
    let fields = holders.get(2..).unwrap_or_default().chunks_exact(2);
    let reader = |pair: &[Bytes]| {
        let entries = std::str::from_utf8(&pair[1]).ok()?.parse::<usize>().ok()?;
        let is_checked =
            (1..=MAX_ENTRIES).contains(&entries) && pair[0] != "mode" && !pair[0].ends_with(WRITER.as_bytes());
        is_checked.then(|| (pair[0].clone(), entries))
    };
    let readers: Vec<(Bytes, usize)> = fields.filter_map(reader).collect();
    readers.chunks(EVICTION_CHUNK).map(|readers| evict_expired_request(target, readers)).collect()
}

/// Removes the read of one holder.
///
/// It is sent once: a second transmission could not determine whether the first one had removed the
/// read.
pub(crate) fn evict_reader_request(target: &LockKeys, reader: &Bytes, notices: &str) -> Request {
    let claim = HoldArgs { target, field: reader, lease: Duration::ZERO };
    let request =
        EVICT_READER.with([lock_key(&claim), timeout_key(&claim), announcements_key(target)]).arg(reader.clone());
    request.arg(notices.to_owned()).publish_arg().arg(target.channel.clone())
}

fn evict_expired_request(target: &LockKeys, readers: &[(Bytes, usize)]) -> Request {
    let timeout_keys =
        readers.iter().flat_map(|(field, entries)| (1..=*entries).map(move |n| timeout_key_of(&target.key, field, n)));
    let request = EVICT_EXPIRED.with(std::iter::once(target.key.clone()).chain(timeout_keys)).publish_arg();
    let request = request.arg(target.channel.clone());
    let add = |request: Request, (field, entries): &(Bytes, usize)| request.arg(field.clone()).arg(entries.to_string());
    readers.iter().fold(request, add).idempotent()
}

impl LockProtocol for Reading {
    fn name(&self) -> &'static str {
        "read lock"
    }

    fn read_write(&self) -> Option<&dyn ReadWriteMode> {
        Some(self)
    }

    fn acquire(&self, claim: HoldArgs<'_>) -> Request {
        self.enter(claim, &AcquireContext::default())
    }

    /// Readers take no lock over: this returns an ordinary acquire.
    fn take_over(&self, claim: HoldArgs<'_>, _notices: &str, _from: &TakeoverFrom) -> Request {
        self.acquire(claim)
    }

    fn release(&self, claim: HoldArgs<'_>) -> Request {
        let request = RELEASE_READ
            .with([lock_key(&claim), timeout_key(&claim), announcements_key(claim.target)])
            .arg(claim.field.clone());
        request.publish_arg().arg(claim.target.channel.clone()).idempotent()
    }

    /// Releases as `release` does: readers of a process do not wait for each other.
    fn release_yielding(&self, claim: HoldArgs<'_>) -> Request {
        self.release(claim)
    }

    fn retain(&self, claim: HoldArgs<'_>) -> Request {
        let retained = timeout_key_of(&claim.target.key, &retained_field(claim.field), 1);
        let request = RETAIN.with([lock_key(&claim), timeout_key(&claim), retained]).arg(claim.field.clone());
        request.int(millis(claim.lease)).publish_arg().arg(claim.target.channel.clone()).idempotent()
    }

    fn extend(&self, claim: HoldArgs<'_>) -> Request {
        let request = EXTEND.with([lock_key(&claim), timeout_key(&claim)]).arg(claim.field.clone());
        request.int(millis(claim.lease)).deadline_arg()
    }

    fn renew(&self, claims: &[HoldArgs<'_>]) -> Request {
        let request = RENEW_READS.with(claims.iter().flat_map(|claim| [lock_key(claim), timeout_key(claim)]));
        let add = |request: Request, claim: &HoldArgs<'_>| request.arg(claim.field.clone()).int(millis(claim.lease));
        claims.iter().fold(request, add).idempotent()
    }

    fn release_many(&self, claims: &[HoldArgs<'_>]) -> Request {
        let request =
            RELEASE_MANY.with(claims.iter().flat_map(|claim| [lock_key(claim), timeout_key(claim)])).publish_arg();
        let add =
            |request: Request, claim: &HoldArgs<'_>| request.arg(claim.field.clone()).arg(claim.target.channel.clone());
        claims.iter().fold(request, add).idempotent()
    }
}

impl LockProtocol for Writing {
    fn name(&self) -> &'static str {
        "write lock"
    }

    fn read_write(&self) -> Option<&dyn ReadWriteMode> {
        Some(self)
    }

    fn acquire(&self, claim: HoldArgs<'_>) -> Request {
        self.enter(claim, &AcquireContext::default())
    }

    fn take_over(&self, claim: HoldArgs<'_>, notices: &str, from: &TakeoverFrom) -> Request {
        let request =
            TAKE_OVER.with([lock_key(&claim)]).arg(writer_field(claim.field)).int(millis(claim.lease)).deadline_arg();
        with_takeover_from(request, notices, from, |holder| writer_field(holder)).idempotent()
    }

    fn release(&self, claim: HoldArgs<'_>) -> Request {
        self.release_yielding(claim)
    }

    fn release_yielding(&self, claim: HoldArgs<'_>) -> Request {
        let request =
            RELEASE_WRITE.with([lock_key(&claim), claim.target.poll_waiter_flag()]).arg(writer_field(claim.field));
        request.publish_arg().arg(claim.target.channel.clone()).idempotent()
    }

    fn retain(&self, claim: HoldArgs<'_>) -> Request {
        let request =
            RETAIN.with([lock_key(&claim), lock_key(&claim), lock_key(&claim)]).arg(writer_field(claim.field));
        request.int(millis(claim.lease)).publish_arg().arg(claim.target.channel.clone()).idempotent()
    }

    fn extend(&self, claim: HoldArgs<'_>) -> Request {
        let request = EXTEND.with([lock_key(&claim), lock_key(&claim)]).arg(writer_field(claim.field));
        request.int(millis(claim.lease)).deadline_arg()
    }

    fn renew(&self, claims: &[HoldArgs<'_>]) -> Request {
        let request = RENEW.with(claims.iter().map(lock_key));
        let add =
            |request: Request, claim: &HoldArgs<'_>| request.arg(writer_field(claim.field)).int(millis(claim.lease));
        claims.iter().fold(request, add).idempotent()
    }

    fn release_many(&self, claims: &[HoldArgs<'_>]) -> Request {
        let request =
            RELEASE_MANY.with(claims.iter().flat_map(|claim| [lock_key(claim), lock_key(claim)])).publish_arg();
        let add = |request: Request, claim: &HoldArgs<'_>| {
            request.arg(writer_field(claim.field)).arg(claim.target.channel.clone())
        };
        claims.iter().fold(request, add).idempotent()
    }
}

impl ReadWriteMode for Reading {
    fn is_shared(&self) -> bool {
        true
    }

    fn paired_mode(&self) -> &'static str {
        WRITING.name()
    }

    fn enter(&self, claim: HoldArgs<'_>, context: &AcquireContext) -> Request {
        let request = READ
            .with([lock_key(&claim), timeout_key(&claim), announcements_key(claim.target)])
            .arg(claim.field.clone());
        let converted_from = context.under.as_ref().map_or_else(Bytes::new, |field| writer_field(field));
        let since = i64::try_from(context.since).unwrap_or(i64::MAX);
        let request = request.int(millis(claim.lease)).deadline_arg().arg(converted_from).int(since);
        request.int(i64::from(context.waits)).idempotent()
    }
}

impl ReadWriteMode for Writing {
    fn paired_mode(&self) -> &'static str {
        READING.name()
    }

    fn announces_every(&self) -> Option<Duration> {
        Some(ANNOUNCEMENT_INTERVAL)
    }

    fn announce(&self, target: &LockKeys, client: &str, number: u64) -> Option<Request> {
        Some(announce_request(target, Bytes::copy_from_slice(client.as_bytes()), number))
    }

    fn withdraw(&self, target: &LockKeys, client: &str, number: u64) -> Option<Request> {
        Some(withdraw_request(target, Bytes::copy_from_slice(client.as_bytes()), number))
    }

    fn holders(&self, target: &LockKeys) -> Option<Request> {
        Some(holders_request(target))
    }

    fn evict_expired(&self, target: &LockKeys, holders: &[Bytes]) -> Vec<Request> {
        evict_expired_requests(target, holders)
    }

    fn enter(&self, claim: HoldArgs<'_>, context: &AcquireContext) -> Request {
        let request = WRITE.with([lock_key(&claim), announcements_key(claim.target)]).arg(writer_field(claim.field));
        let client =
            claim.field.iter().rposition(|byte| *byte == b':').map_or(&claim.field[..], |at| &claim.field[..at]);
        let converted_from = context.under.clone().unwrap_or_default();
        // A reader that upgrades announces itself under its own field.
        let waiter = if converted_from.is_empty() { Bytes::copy_from_slice(client) } else { converted_from.clone() };
        let announcement_ttl = if context.waits { millis(ANNOUNCEMENT_TTL) } else { 0 };
        let request = request.int(millis(claim.lease)).deadline_arg().arg(converted_from);
        request.arg(waiter).int(announcement_ttl).idempotent()
    }

    /// The retained field must be removed explicitly: the holder may still read, and its renewals
    /// then keep the key of the lock alive.
    fn end_retained(&self, claim: HoldArgs<'_>) -> Option<Request> {
        let retained = retained_field(&writer_field(claim.field));
        let request = RELEASE_WRITE.with([lock_key(&claim), claim.target.poll_waiter_flag()]).arg(retained);
        Some(request.publish_arg().arg(claim.target.channel.clone()).idempotent())
    }
}

#[cfg(test)]
mod tests {
    use redgrid_core::Name;

    use super::*;

    #[test]
    fn timeout_keys_are_named_as_in_redisson() {
        for (key, expected) in [("R", "{R}:id:7:rwlock_timeout:1"), ("a{R}", "a{R}:id:7:rwlock_timeout:1")] {
            let (name, key) = (Name::new(key).unwrap(), Bytes::from(key));
            let target = LockKeys { name, key, channel: Bytes::new(), more: Box::default(), family: "" };
            let field = Bytes::from("id:7");
            assert_eq!(timeout_key(&HoldArgs { target: &target, field: &field, lease: Duration::ZERO }), expected);
        }
    }

    #[test]
    fn expired_leases_are_checked_for_each_entry_of_each_reader() {
        let (name, key) = (Name::new("R").unwrap(), Bytes::from("R"));
        let target = LockKeys { name, key, channel: Bytes::new(), more: Box::default(), family: "" };
        let reply =
            ["30000", "5", "mode", "read", "id:7", "1", "id:8:write", "1", "java:3", "2", "odd", "x"].map(Bytes::from);
        let requests = evict_expired_requests(&target, &reply);
        assert_eq!(requests.len(), 1);
        let keys = ["R", "{R}:id:7:rwlock_timeout:1", "{R}:java:3:rwlock_timeout:1", "{R}:java:3:rwlock_timeout:2"];
        assert_eq!(requests[0].all_keys(), keys.map(Bytes::from));
        assert!(evict_expired_requests(&target, &[]).is_empty());
    }

    #[test]
    fn every_script_states_its_contract() {
        let scripts = [
            READ.body(),
            WRITE.body(),
            ANNOUNCE.body(),
            WITHDRAW.body(),
            RELEASE_READ.body(),
            RELEASE_WRITE.body(),
            RELEASE_MANY.body(),
            EXTEND.body(),
            RETAIN.body(),
            RENEW_READS.body(),
            TAKE_OVER.body(),
            EVICT_READER.body(),
            EVICT_EXPIRED.body(),
        ];
        for script in scripts {
            for part in ["-- KEYS", "-- Returns", "-- Work:", "ent twice"] {
                assert!(script.text().contains(part), "{}: {part}", script.name());
            }
        }
    }
}
