//! Locks of single keys of a map and its store, in this process and optionally in all processes.

#[cfg(feature = "locks")]
use std::convert::Infallible;
use std::error::Error;
use std::future::pending;
use std::sync::Arc;

use bytes::Bytes;
use redgrid_codecs::Codec;
use redgrid_core::author::ClientExt;
use tokio::sync::{Mutex, OwnedMutexGuard};

use super::Inner;
use super::store::BackedError;

/// The mutex of one key of a map, shared by all handles of a client.
#[derive(Default)]
struct KeyMutex(Arc<Mutex<()>>);

/// Exclusive access to a key of map and store.
pub(super) struct KeyGuard {
    _local: OwnedMutexGuard<()>,
    _mutex: Arc<KeyMutex>,
    #[cfg(feature = "locks")]
    distributed: Option<redgrid_locks::LockGuard>,
}

impl KeyGuard {
    /// Releases the key. When this returns, another process may have acquired the lock.
    pub(super) async fn release(self) {
        #[cfg(feature = "locks")]
        if let Some(guard) = self.distributed {
            // The key is no longer needed. A lock that cannot be released ends with its lease.
            let _ = guard.release().await;
        }
    }
}

impl<K, V, KC: Codec, VC: Codec> Inner<K, V, KC, VC> {
    /// Locks a key. The wait is limited to the time that two earlier calls take if the store hangs.
    pub(super) async fn lock_key(&self, field: &Bytes) -> Result<KeyGuard, BackedError> {
        let (name, map) = self.map.object_ref.name_and_key()?;
        let client = self.map.object_ref.client();
        // Names contain no zero byte, so this registry key is not that of another object.
        let mutex = client.shared(&[&map[..], b"\0", &field[..]].concat().into(), KeyMutex::default);
        let max_wait = 2 * (self.store_options.max_write_time() + client.patience());
        let Ok(local) = tokio::time::timeout(max_wait, Arc::clone(&mutex.0).lock_owned()).await else {
            return Err(BackedError::Busy { name: name.clone(), waited: max_wait });
        };
        #[cfg(feature = "locks")]
        let distributed = if self.store_options.exclusive {
            Some(self.map.lock_of_field(field)?.acquire().timeout(max_wait).await?)
        } else {
            None
        };
        Ok(KeyGuard {
            _local: local,
            _mutex: mutex,
            #[cfg(feature = "locks")]
            distributed,
        })
    }
}

/// Completes when the distributed lock of one of these keys is lost; never if there is none.
pub(super) async fn lock_lost(guards: &[KeyGuard]) -> Arc<dyn Error + Send + Sync> {
    #[cfg(feature = "locks")]
    {
        let locks = guards.iter().filter_map(|guard| guard.distributed.as_ref());
        let losses: Vec<_> = locks.map(|lock| Box::pin(lock.run(pending::<Infallible>()))).collect();
        if !losses.is_empty() {
            match futures_util::future::select_all(losses).await.0 {
                Err(lost) => return Arc::new(lost),
                Ok(never) => match never {},
            }
        }
    }
    let _ = guards;
    pending().await
}
