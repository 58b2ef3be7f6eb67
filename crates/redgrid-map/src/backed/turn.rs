//! Whose turn it is at a key, in this process and, where that is asked for, in all of them; and calls of a store, within their time.

#[cfg(feature = "locks")]
use std::convert::Infallible;
use std::error::Error;
use std::future::pending;
use std::sync::Arc;

use bytes::Bytes;
use redgrid_codecs::Codec;
use tokio::sync::{Mutex, OwnedMutexGuard};
use tokio::task::AbortHandle;

use super::Inner;
use super::builder::Terms;
use super::store::{BackedError, Fault, TookTooLong, Writer};

/// One for each key of a map, for all its handles of a client.
#[derive(Default)]
struct AtKey(Arc<Mutex<()>>);

/// The right to be at a key of map and store.
pub(super) struct Turn {
    _here: OwnedMutexGuard<()>,
    _at_key: Arc<AtKey>,
    #[cfg(feature = "locks")]
    everywhere: Option<redgrid_locks::LockGuard>,
}

impl Turn {
    /// Ends it; who goes next in another process may be in when this returns.
    pub(super) async fn over(self) {
        #[cfg(feature = "locks")]
        if let Some(guard) = self.everywhere {
            // What was done is done. A lock that is not given back ends with its lease.
            let _ = guard.release().await;
        }
    }
}

impl<K, V, KC: Codec, VC: Codec> Inner<K, V, KC, VC> {
    /// Waits for the turn: as long as two before may take with a store that hangs.
    pub(super) async fn turn(&self, field: &Bytes) -> Result<Turn, BackedError> {
        let (name, map) = self.map.place.named()?;
        let client = self.map.place.client();
        // What has a 0 in it is no name: nobody else's.
        let at_key = client.shared(&[&map[..], b"\0", &field[..]].concat().into(), AtKey::default);
        let bound = 2 * (self.terms.whole() + client.patience());
        let Ok(here) = tokio::time::timeout(bound, Arc::clone(&at_key.0).lock_owned()).await else {
            return Err(BackedError::Busy { name: name.clone(), waited: bound });
        };
        #[cfg(feature = "locks")]
        let everywhere = match self.terms.exclusive {
            true => Some(self.map.lock_of(field)?.acquire().timeout(bound).await?),
            false => None,
        };
        Ok(Turn {
            _here: here,
            _at_key: at_key,
            #[cfg(feature = "locks")]
            everywhere,
        })
    }
}

/// Completes when the lock of one of these keys is lost; never without locks.
pub(super) async fn lost(turns: &[Turn]) -> Arc<dyn Error + Send + Sync> {
    #[cfg(feature = "locks")]
    {
        let guards = turns.iter().filter_map(|turn| turn.everywhere.as_ref());
        let losses: Vec<_> = guards.map(|guard| Box::pin(guard.run(pending::<Infallible>()))).collect();
        if !losses.is_empty() {
            match futures_util::future::select_all(losses).await.0 {
                Err(lost) => return Arc::new(lost),
                Ok(never) => match never {},
            }
        }
    }
    let _ = turns;
    pending().await
}

/// A call of a store: in a task, so that a panic of it is an error like others; it ends with its time and with who waits for it.
pub(super) async fn within<T: Send + 'static>(
    terms: &Terms,
    call: impl Future<Output = Result<T, Fault>> + Send + 'static,
) -> Result<T, Arc<dyn Error + Send + Sync>> {
    let task = tokio::spawn(call);
    let _ends = Ends(task.abort_handle());
    match tokio::time::timeout(terms.store_timeout, task).await {
        Ok(Ok(Ok(done))) => Ok(done),
        Ok(Ok(Err(fault))) => Err(fault.into()),
        Ok(Err(panic)) => Err(Arc::new(panic)),
        Err(_) => Err(Arc::new(TookTooLong(terms.store_timeout))),
    }
}

/// Ends a task when it is dropped.
struct Ends(AbortHandle);

impl Drop for Ends {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// One way of a change to a store: it is shared with the task that tries it.
pub(super) enum Batch<K, V> {
    Write(Arc<Vec<(K, V)>>),
    Delete(Arc<Vec<K>>),
}

impl<K: Send + Sync + 'static, V: Send + Sync + 'static> Batch<K, V> {
    /// What becomes of keys that all get values, or are all removed.
    pub(super) fn of(changes: impl IntoIterator<Item = (K, Option<V>)>) -> Self {
        let (mut written, mut removed) = (Vec::new(), Vec::new());
        for (key, value) in changes {
            match value {
                Some(value) => written.push((key, value)),
                None => removed.push(key),
            }
        }
        if written.is_empty() { Batch::Delete(Arc::new(removed)) } else { Batch::Write(Arc::new(written)) }
    }

    pub(super) async fn tried(
        &self,
        terms: &Terms,
        writer: &Arc<dyn Writer<K, V>>,
    ) -> Result<(), Arc<dyn Error + Send + Sync>> {
        let writer = Arc::clone(writer);
        match self {
            Batch::Write(entries) => {
                let entries = Arc::clone(entries);
                within(terms, async move { writer.write(&entries).await }).await
            }
            Batch::Delete(keys) => {
                let keys = Arc::clone(keys);
                within(terms, async move { writer.delete(&keys).await }).await
            }
        }
    }

    /// Tries it as often as it may be.
    pub(super) async fn stored(
        &self,
        terms: &Terms,
        writer: &Arc<dyn Writer<K, V>>,
    ) -> Result<(), Arc<dyn Error + Send + Sync>> {
        let mut tries = 1;
        loop {
            match self.tried(terms, writer).await {
                Err(_) if tries < terms.attempts => tokio::time::sleep(terms.retry_interval).await,
                done => return done,
            }
            tries += 1;
        }
    }
}
