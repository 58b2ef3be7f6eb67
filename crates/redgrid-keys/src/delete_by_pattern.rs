//! Deletion by a pattern.

use std::collections::BTreeMap;

use bytes::Bytes;
use futures_util::{StreamExt, stream};
use redgrid_core::{IntoArg, Request};

use crate::bulk::{Locks, MAX_IN_FLIGHT, Operation, Outcomes, apply_to_each, tally};
use crate::key_ownership::key_row;
use crate::scan::{Include, Scan, ScanOptions};
use crate::{Key, Keys, KeysError};

impl Keys {
    /// Deletes the objects with names that match a pattern, with all keys that belong to them.
    /// Returns the number of deleted objects.
    ///
    /// Leftover companions of objects that do not exist are deleted, too. Fences and token counters
    /// are kept. All keys are scanned a page at a time, and the servers free the memory in the
    /// background. Objects that are created meanwhile may be deleted or not. `*` matches
    /// everything; see [`Listing::matching`](crate::Listing::matching) for patterns.
    ///
    /// # Errors
    ///
    /// [`KeysError::Partial`] contains the number of deleted objects, and the objects that failed.
    /// The deletion stops after a page with a failed object.
    ///
    /// # Cancel safety
    ///
    /// Requests that were already sent are executed even if the future is dropped. Later pages are
    /// not deleted.
    #[doc(alias = "deleteByPattern")]
    #[doc(alias = "unlinkByPattern")]
    pub async fn delete_by_pattern(&self, pattern: impl IntoArg) -> Result<u64, KeysError> {
        let mut scan = self.all().matching(pattern).into_scan()?;
        let mut deleted = 0;
        while let Some(page) = next_page(&mut scan, deleted).await? {
            let namespace = self.client.namespace().as_str();
            let mut objects: BTreeMap<Bytes, Key> = BTreeMap::new();
            let mut single = Vec::new();
            for key in page.into_iter().filter(|key| !key.outlives()) {
                let object = key.object_key(namespace);
                // A row of keys does not contain keys with the id of a client.
                if key.is_companion() && !key_row(&object).contains(key.wire()) {
                    single.push(key.clone());
                }
                objects.insert(object, key);
            }
            // Only objects are counted, so these keys are not.
            let (_, single_failed) = tally(unlink_each(self, single).await);
            let objects = objects.into_values().collect();
            let outcomes = apply_to_each(&self.client, objects, &Operation::Remove("UNLINK", Locks::Included)).await;
            let (done, objects_failed) = tally(outcomes);
            deleted += done;
            let failed: Vec<_> = single_failed.into_iter().chain(objects_failed).collect();
            if !failed.is_empty() {
                return Err(KeysError::Partial { done: deleted, failed });
            }
        }
        Ok(deleted)
    }

    /// Deletes every key under the namespace.
    pub(crate) async fn delete_all(&self) -> Result<u64, KeysError> {
        let options = ScanOptions { include: Include::All, pattern: None, kind: None, page: 500, rest: 0 };
        let mut scan = Scan::new(&self.client, options);
        let mut deleted = 0;
        while let Some(page) = next_page(&mut scan, deleted).await? {
            let (done, failed) = tally(unlink_each(self, page).await);
            deleted += done;
            if !failed.is_empty() {
                return Err(KeysError::Partial { done: deleted, failed });
            }
        }
        Ok(deleted)
    }
}

/// Returns the next page. An error contains the number of objects that were already deleted, if
/// any.
async fn next_page(scan: &mut Scan, deleted: u64) -> Result<Option<Vec<Key>>, KeysError> {
    match scan.next_page().await {
        Err(error) if deleted > 0 => Err(KeysError::Stopped { done: deleted, source: Box::new(error) }),
        result => result,
    }
}

/// Unlinks keys by their names on the server, each with its own request.
async fn unlink_each(keys: &Keys, all: Vec<Key>) -> Outcomes {
    let unlinked = stream::iter(all).map(async |key| {
        let outcome = keys.client.run::<i64>(Request::command("UNLINK").key(key.wire().clone())).await;
        (key, outcome)
    });
    unlinked.buffer_unordered(MAX_IN_FLIGHT).collect().await
}
