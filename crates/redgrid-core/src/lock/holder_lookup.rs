//! Reads which client holds a lock, for the tracing spans of acquires that wait long.

use std::future::ready;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Shared};
use redgrid_client::internal::{Core, once};
use redgrid_client::{Code, FromReply, Request};

use super::acquire::PendingAcquire;
use crate::clock::Instant;

/// How long an acquire waits before the holder of the lock is read: 1 s, or half of the acquire's
/// timeout if that is shorter.
const LONG_WAIT: Duration = Duration::from_secs(1);

/// How long acquires of a lock share one lookup, counted from its start: 100 ms.
const SHARED: Duration = Duration::from_millis(100);

/// Largest number of fields that are read: a read-write lock has a field for its mode, and one for
/// each reader.
const MAX_FIELDS: i64 = 4;

/// A lookup of the holder of one lock, shared by the acquires of this client. A background task
/// polls it, too. Its result is the id of the client that holds the lock, or `None` if that is not
/// known.
pub(super) type HolderRead = Shared<BoxFuture<'static, Option<Arc<str>>>>;

impl PendingAcquire {
    /// Returns the time at which the holder is to be read, counted from `from`; [`Instant::MAX`] if
    /// no span records the holder.
    pub(super) fn lookup_at(&self, from: Instant) -> Instant {
        if !self.is_traced || self.request.options.once {
            return Instant::MAX;
        }
        from + self.request.options.wait.map_or(LONG_WAIT, |wait| LONG_WAIT.min(wait / 2))
    }

    /// Starts a lookup of the holder, or joins the lookup of another acquire. Returns `None` if the
    /// lock is not known to be taken: then the acquire waits for the server. Also returns `None` if
    /// the holder cannot be read.
    pub(super) fn holder_lookup(&self, now: Instant) -> Option<HolderRead> {
        let table = self.table();
        if !self.request.is_busy() {
            return None;
        }
        let mut state = table.state();
        if state.locks.get(&self.key).is_some_and(|lock| lock.server_lease.is_some()) {
            return Some(ready(Some(self.answer.client.id().into())).boxed().shared());
        }
        if state.closed || !table.reads_holders.load(Ordering::Relaxed) {
            return None;
        }
        let key = self.key.key();
        if let Some((_, current)) = state.holder_lookups.get(key).filter(|(began, _)| now < *began + SHARED) {
            return Some(current.clone());
        }
        let (core, is_allowed) = (Arc::clone(&table.core), Arc::clone(&table.reads_holders));
        let lookup = read_holder(core, is_allowed, key.clone()).boxed().shared();
        let replaced = state.holder_lookups.insert(key.clone(), (now, lookup.clone()));
        drop(state);
        drop(replaced);
        // The task ends the lookup even if no caller polls it.
        table.core.spawn_background(lookup.clone().map(drop).boxed());
        Some(lookup)
    }
}

/// Reads the holder in one attempt. If the server denies the command, no holder is read any more.
async fn read_holder(core: Arc<Core>, is_allowed: Arc<AtomicBool>, key: Bytes) -> Option<Arc<str>> {
    let request = Request::command("HRANDFIELD").key(key).int(MAX_FIELDS).idempotent();
    let limit = core.clock.now() + core.settings.response_timeout;
    // The lock has no known holder if it cannot be read. The acquire itself reports failures.
    let outcome = tokio::select! {
        outcome = once(&*core.topology, request, limit) => outcome,
        () = core.life.closing() => return None,
    };
    match outcome.result {
        Ok(reply) => Vec::<Bytes>::from_reply(reply).ok()?.iter().find_map(|field| client_of(field)),
        Err(error) => {
            if error.code() == Some(Code::NoPermission) {
                is_allowed.store(false, Ordering::Relaxed);
            }
            None
        }
    }
}

/// Returns the client's id in a holder field, `<client id>:<number>`; `None` for other fields.
fn client_of(field: &[u8]) -> Option<Arc<str>> {
    let (id, _) = std::str::from_utf8(field).ok()?.split_once(':')?;
    let is_part = |(part, length): (&str, usize)| part.len() == length && part.bytes().all(|b| b.is_ascii_hexdigit());
    let is_uuid = id.split('-').count() == 5 && id.split('-').zip([8, 4, 4, 4, 12]).all(is_part);
    is_uuid.then(|| id.into())
}

#[cfg(test)]
mod tests {
    use super::client_of;

    #[test]
    fn only_fields_of_holders_name_a_client() {
        let id = "0f8fad5b-d9cb-469f-a165-70867728950e";
        for field in [format!("{id}:17"), format!("{id}:17:write")] {
            assert_eq!(client_of(field.as_bytes()).as_deref(), Some(id), "{field}");
        }
        for field in ["mode", id, "0f8fad5b:17", "0f8fad5b-d9cb-469f-a165-70867728950g:17", ":17"] {
            assert_eq!(client_of(field.as_bytes()), None, "{field}");
        }
        assert_eq!(client_of(b"\xff:1"), None);
    }
}
