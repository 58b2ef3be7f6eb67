//! Calls to a store, with their time limit and their attempts.

use std::error::Error;
use std::sync::Arc;

use tokio::task::AbortHandle;

use super::builder::StoreOptions;
use super::store::{StoreError, StoreTimeout, Writer};

/// Runs one call to a store in a task, so that a panic of the store is an error like any other.
///
/// The call ends at its time limit, and when the returned future is dropped.
pub(super) async fn call_store<T: Send + 'static>(
    store_options: &StoreOptions,
    call: impl Future<Output = Result<T, StoreError>> + Send + 'static,
) -> Result<T, Arc<dyn Error + Send + Sync>> {
    let task = tokio::spawn(call);
    let _abort = AbortOnDrop(task.abort_handle());
    match tokio::time::timeout(store_options.store_timeout, task).await {
        Ok(Ok(Ok(value))) => Ok(value),
        Ok(Ok(Err(fault))) => Err(fault.into()),
        Ok(Err(panic)) => Err(Arc::new(panic)),
        Err(_) => Err(Arc::new(StoreTimeout(store_options.store_timeout))),
    }
}

/// Aborts a task when it is dropped.
struct AbortOnDrop(AbortHandle);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// One write to a store, shared with the tasks of its attempts.
pub(super) enum StoreWrite<K, V> {
    Write(Arc<Vec<(K, V)>>),
    Delete(Arc<Vec<K>>),
}

impl<K: Send + Sync + 'static, V: Send + Sync + 'static> StoreWrite<K, V> {
    /// Returns the write for changes that are either all values or all removals.
    pub(super) fn of(changes: impl IntoIterator<Item = (K, Option<V>)>) -> Self {
        let (mut written, mut removed) = (Vec::new(), Vec::new());
        for (key, value) in changes {
            match value {
                Some(value) => written.push((key, value)),
                None => removed.push(key),
            }
        }
        if written.is_empty() { StoreWrite::Delete(Arc::new(removed)) } else { StoreWrite::Write(Arc::new(written)) }
    }

    async fn attempt(
        &self,
        store_options: &StoreOptions,
        writer: &Arc<dyn Writer<K, V>>,
    ) -> Result<(), Arc<dyn Error + Send + Sync>> {
        let writer = Arc::clone(writer);
        match self {
            StoreWrite::Write(entries) => {
                let entries = Arc::clone(entries);
                call_store(store_options, async move { writer.write(&entries).await }).await
            }
            StoreWrite::Delete(keys) => {
                let keys = Arc::clone(keys);
                call_store(store_options, async move { writer.delete(&keys).await }).await
            }
        }
    }

    /// Writes to the store, with as many attempts as the options allow.
    pub(super) async fn run(
        &self,
        store_options: &StoreOptions,
        writer: &Arc<dyn Writer<K, V>>,
    ) -> Result<(), Arc<dyn Error + Send + Sync>> {
        let mut attempts = 1;
        loop {
            match self.attempt(store_options, writer).await {
                Err(_) if attempts < store_options.attempts => {
                    tokio::time::sleep(store_options.retry_interval).await;
                }
                result => return result,
            }
            attempts += 1;
        }
    }
}
