//! Reads which client holds a lock, for the tracing span of an acquire that waits long.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use redgrid_client::Request;

use super::acquire::PendingAcquire;
use crate::observe::HolderLookup;

/// How long an acquire waits before the holder of the lock is read: 1 s, or half of the acquire's
/// timeout if that is shorter. Most waits end earlier and cost no request.
const LONG_WAIT: Duration = Duration::from_secs(1);

/// Largest number of fields that are read. One field is not enough, because a read-write lock has a
/// field for its mode, and one for each reader.
const MAX_FIELDS: i64 = 4;

impl PendingAcquire {
    /// Returns the future that waits, then reads the holder; `None` for a try-only request, which
    /// does not wait.
    pub(super) fn holder_lookup(&self) -> Option<HolderLookup> {
        if self.request.once {
            return None;
        }
        let delay = self.request.wait.map_or(LONG_WAIT, |wait| LONG_WAIT.min(wait / 2));
        let (client, key, at) = (self.client.clone(), self.key.key().clone(), self.entered + delay);
        let (clock, status) = (self.table().core.clock.clone(), Arc::clone(&self.status));
        Some(Box::pin(async move {
            clock.wait_until(at).await;
            if !status.is_busy() {
                // The acquire waits for the server, not for a holder.
                return None;
            }
            let request = Request::command("HRANDFIELD").key(key).int(MAX_FIELDS).idempotent();
            // A lock that cannot be read has no known holder. The acquire itself reports failures.
            let fields: Vec<Bytes> = client.run(request).await.unwrap_or_default();
            fields.iter().find_map(|field| client_of(field))
        }))
    }
}

/// Returns the client's id in a holder field, `<client id>:<number>`; `None` for other fields.
fn client_of(field: &[u8]) -> Option<String> {
    let (id, _) = std::str::from_utf8(field).ok()?.split_once(':')?;
    let is_part = |(part, length): (&str, usize)| part.len() == length && part.bytes().all(|b| b.is_ascii_hexdigit());
    let is_uuid = id.split('-').count() == 5 && id.split('-').zip([8, 4, 4, 4, 12]).all(is_part);
    is_uuid.then(|| id.to_owned())
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
