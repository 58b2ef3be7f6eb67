//! Deletion by a pattern.

use std::collections::BTreeMap;

use bytes::Bytes;
use futures_util::{StreamExt, stream};
use redgrid_core::{Request, ServerError};

use crate::many::{Deed, Outcomes, UNDER_WAY, each};
use crate::row::row;
use crate::walk::{Shown, Wanted};
use crate::{Key, Keys, KeysError, NotDone};

impl Keys {
    /// Deletes the objects whose names match a pattern, with all that belongs to them, also what is left of objects that are not there
    /// any more; tells how many. Fences and counters of tokens stay.
    ///
    /// It goes a page at a time through all keys, and the servers free the memory in the background. What is made meanwhile may be
    /// deleted or not. `*` is everything; see [`Listing::matching`](crate::Listing::matching) for patterns.
    ///
    /// # Errors
    ///
    /// [`KeysError::Partial`] says how many are gone, and of which it is not known. It ends with the page that has one of those; what
    /// comes behind is not deleted then.
    ///
    /// # Cancel safety
    ///
    /// What has left is carried out although nobody waits for it; what comes behind is not deleted.
    #[doc(alias = "deleteByPattern")]
    #[doc(alias = "unlinkByPattern")]
    pub async fn delete_by_pattern(&self, pattern: impl Into<Bytes>) -> Result<u64, KeysError> {
        let mut walk = self.all().matching(pattern).into_walk()?;
        let mut gone = 0;
        while let Some(page) = next(&mut walk, gone).await? {
            let namespace = self.client.namespace().as_str();
            let mut objects: BTreeMap<Bytes, Key> = BTreeMap::new();
            let mut single = Vec::new();
            for key in page.into_iter().filter(|key| !key.outlives()) {
                let object = key.object(namespace);
                // What has the id of a client in it is in no row.
                if key.is_companion() && !row(&object).contains(key.wire()) {
                    single.push(key.clone());
                }
                objects.insert(object, key);
            }
            let ids = tally(removed(self, single).await);
            let named = tally(each(&self.client, objects.into_values().collect(), &Deed::Remove("UNLINK")).await);
            gone += named.0;
            let failed: Vec<_> = ids.1.into_iter().chain(named.1).collect();
            if !failed.is_empty() {
                return Err(KeysError::Partial { done: gone, failed });
            }
        }
        Ok(gone)
    }

    /// Deletes every key under the namespace.
    pub(crate) async fn clear(&self) -> Result<u64, KeysError> {
        let wanted = Wanted { shown: Shown::All, pattern: None, kind: None, page: 500 };
        let mut walk = crate::walk::Walk::new(&self.client, wanted);
        let mut gone = 0;
        while let Some(page) = next(&mut walk, gone).await? {
            let (done, failed) = tally(removed(self, page).await);
            gone += done;
            if !failed.is_empty() {
                return Err(KeysError::Partial { done: gone, failed });
            }
        }
        Ok(gone)
    }
}

/// The next page; where it can not be had, what is known of those before.
async fn next(walk: &mut crate::walk::Walk, gone: u64) -> Result<Option<Vec<Key>>, KeysError> {
    match walk.page().await {
        Err(error) if gone > 0 => Err(KeysError::Stopped { done: gone, source: Box::new(error) }),
        answer => answer,
    }
}

/// Unlinks keys as they are on the server, each by itself.
async fn removed(keys: &Keys, all: Vec<Key>) -> Outcomes {
    let removed = stream::iter(all).map(async |key| {
        let told = keys.client.run::<i64>(Request::command("UNLINK").key(key.wire().clone())).await;
        (key, told)
    });
    removed.buffer_unordered(UNDER_WAY).collect().await
}

fn tally(outcomes: Vec<(Key, Result<i64, ServerError>)>) -> (u64, Vec<NotDone>) {
    let mut failed = Vec::new();
    let mut done = 0;
    for (key, told) in outcomes {
        match told {
            Ok(told) => done += u64::from(told > 0),
            Err(source) => failed.push(NotDone { key, source }),
        }
    }
    (done, failed)
}
