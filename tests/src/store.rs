//! An in-memory store for backed maps, controlled by the test.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::StreamExt;
use redgrid_map::codecs::Json;
use redgrid_map::{BackedMapBuilder, BoxStream, Loader, Map, StoreError, WriteBehind, Writer, async_trait};
use redgrid_testkit::wait_until;
use tokio::sync::Notify;

use crate::SOON;

/// A delay longer than any test: an event that happens earlier was not caused by a timer.
pub const NEVER: Duration = Duration::from_secs(600);

/// A store in memory, controlled by the test.
#[derive(Default)]
pub struct Store {
    /// The entries of the store.
    pub has: Mutex<BTreeMap<String, u64>>,
    /// Every write and removal of a key, in order.
    pub history: Mutex<Vec<(String, Option<u64>)>>,
    /// Number of reads.
    pub loads: AtomicU32,
    /// Number of writes.
    pub writes: AtomicU32,
    /// Whether the store does not list its keys.
    pub silent: AtomicBool,
    /// How many further calls fail.
    failing: AtomicU32,
    /// Whether calls panic.
    pub panics: AtomicBool,
    /// Whether calls wait until the store is opened.
    shut: AtomicBool,
    opened: Notify,
    /// Number of calls that have arrived.
    came: AtomicU32,
}

impl Store {
    /// Creates a store with these entries.
    pub fn with(entries: impl IntoIterator<Item = (&'static str, u64)>) -> Arc<Store> {
        let store = Store::default();
        store.has.lock().unwrap().extend(entries.into_iter().map(|(key, value)| (key.to_owned(), value)));
        Arc::new(store)
    }

    /// Returns the value of a key.
    pub fn get(&self, key: &str) -> Option<u64> {
        self.has.lock().unwrap().get(key).copied()
    }

    /// Returns the number of calls.
    pub fn calls(&self) -> u32 {
        self.came.load(Ordering::SeqCst)
    }

    /// Makes calls wait.
    pub fn shut(&self) {
        self.shut.store(true, Ordering::SeqCst);
    }

    /// Lets waiting calls continue.
    pub fn open(&self) {
        self.shut.store(false, Ordering::SeqCst);
        self.opened.notify_waiters();
    }

    /// Makes this many calls fail.
    pub fn fail(&self, times: u32) {
        self.failing.store(times, Ordering::SeqCst);
    }

    /// Waits until this many calls have arrived.
    pub async fn until_came(&self, calls: u32) {
        wait_until(SOON, async || self.came.load(Ordering::SeqCst) >= calls).await;
    }

    async fn door(&self) -> Result<(), StoreError> {
        let opened = self.opened.notified();
        self.came.fetch_add(1, Ordering::SeqCst);
        if self.shut.load(Ordering::SeqCst) {
            opened.await;
        }
        assert!(!self.panics.load(Ordering::SeqCst), "the store panics");
        let failing = self.failing.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |times| times.checked_sub(1));
        if failing.is_ok() { Err("the store is down".into()) } else { Ok(()) }
    }
}

/// The store as the loader and the writer of a map.
#[derive(Clone)]
pub struct Shop(pub Arc<Store>);

#[async_trait]
impl Loader<String, u64> for Shop {
    async fn load(&self, key: &String) -> Result<Option<u64>, StoreError> {
        self.0.loads.fetch_add(1, Ordering::SeqCst);
        self.0.door().await?;
        Ok(self.0.get(key))
    }

    fn keys(&self) -> BoxStream<'_, Result<String, StoreError>> {
        if self.0.silent.load(Ordering::SeqCst) {
            return futures_util::stream::pending().boxed();
        }
        let keys: Vec<_> = self.0.has.lock().unwrap().keys().cloned().map(Ok).collect();
        futures_util::stream::iter(keys).boxed()
    }
}

#[async_trait]
impl Writer<String, u64> for Shop {
    async fn write(&self, entries: &[(String, u64)]) -> Result<(), StoreError> {
        self.0.writes.fetch_add(1, Ordering::SeqCst);
        self.0.door().await?;
        self.0.has.lock().unwrap().extend(entries.iter().cloned());
        self.0.history.lock().unwrap().extend(entries.iter().map(|(key, value)| (key.clone(), Some(*value))));
        Ok(())
    }

    async fn delete(&self, keys: &[String]) -> Result<(), StoreError> {
        self.0.writes.fetch_add(1, Ordering::SeqCst);
        self.0.door().await?;
        let mut has = self.0.has.lock().unwrap();
        for key in keys {
            has.remove(key);
            self.0.history.lock().unwrap().push((key.clone(), None));
        }
        Ok(())
    }
}

/// Converts a name to a key.
pub fn key(name: &str) -> String {
    name.to_owned()
}

/// Returns the builder of the map `m`, backed by a store.
pub fn before(client: &redgrid_core::Client, store: &Arc<Store>) -> BackedMapBuilder<String, u64, Json, Json> {
    let shop = Shop(Arc::clone(store));
    Map::<String, u64>::new(client, "m").backed().loader(shop.clone()).writer(shop)
}

/// Returns write-behind options with this delay.
pub fn behind(delay: Duration) -> WriteBehind {
    WriteBehind { delay, ..WriteBehind::default() }
}
