//! Reads which client holds a lock, for the tracing spans of acquires that wait long.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt as _;
use futures_util::future::Shared;
use redgrid_client::internal::once;
use redgrid_client::{Code, FromReply, Request};

use super::acquire::PendingAcquire;
use super::table::{State, Table};
use crate::clock::Instant;

/// How long an acquire waits before the holder of the lock is read: 1 s, or half of the acquire's
/// timeout if that is shorter. Within this time, all acquires of a lock share one lookup.
const LONG_WAIT: Duration = Duration::from_secs(1);

/// Largest number of fields that are read. One field is not enough, because a read-write lock has a
/// field for its mode, and one for each reader.
const MAX_FIELDS: i64 = 4;

/// A lookup of the holder, shared by the acquires of one lock. Its result is the client's id, or
/// `None` if the id is not known.
pub(super) type HolderLookup = Shared<Pin<Box<dyn Future<Output = Option<Arc<str>>> + Send>>>;

impl PendingAcquire {
    /// Returns when the holder is to be read, for a wait that continues at `from`;
    /// [`Instant::MAX`] if no span records the holder.
    pub(super) fn lookup_at(&self, from: Instant) -> Instant {
        if !self.is_traced || self.request.once {
            return Instant::MAX;
        }
        from + self.request.wait.map_or(LONG_WAIT, |wait| LONG_WAIT.min(wait / 2))
    }

    /// Starts a lookup of the holder, or joins the lookup of another acquire. Returns `None` if the
    /// lock is not known to be taken: then the acquire waits for the server.
    pub(super) fn holder_lookup(&self, now: Instant) -> Option<HolderLookup> {
        let table = self.table();
        if !self.status.is_busy() {
            return None;
        }
        let mut state = table.state();
        let State { locks, holder_lookups, .. } = &mut *state;
        if locks.get(&self.key)?.server_lease.is_some() {
            let own: Arc<str> = self.client.id().into();
            return Some(lookup(std::future::ready(Some(own))));
        }
        if let Some((begun, current)) = holder_lookups.get(&self.key)
            && now < *begun + LONG_WAIT
        {
            return Some(current.clone());
        }
        let started = lookup(Arc::clone(table).read_holder(self.key.key().clone()));
        holder_lookups.insert(self.key.clone(), (now, started.clone()));
        Some(started)
    }
}

impl Table {
    /// Reads the holder in one attempt. If the server denies the command, no holder is read any
    /// more.
    async fn read_holder(self: Arc<Self>, key: Bytes) -> Option<Arc<str>> {
        if !self.reads_holders.load(Ordering::Relaxed) {
            return None;
        }
        let request = Request::command("HRANDFIELD").key(key).int(MAX_FIELDS).idempotent();
        let limit = self.now() + self.core.settings.response_timeout;
        // The lock has no known holder if it cannot be read. The acquire itself reports failures.
        match once(&*self.core.topology, request, limit).await.result {
            Ok(reply) => Vec::<Bytes>::from_reply(reply).ok()?.iter().find_map(|field| client_of(field)),
            Err(error) => {
                if error.code() == Some(Code::NoPermission) {
                    self.reads_holders.store(false, Ordering::Relaxed);
                }
                None
            }
        }
    }
}

fn lookup(work: impl Future<Output = Option<Arc<str>>> + Send + 'static) -> HolderLookup {
    let work: Pin<Box<dyn Future<Output = _> + Send>> = Box::pin(work);
    work.shared()
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
