//! A map in front of a store: read-through, write-through, write-behind.

mod batch;
mod builder;
mod flush;
mod key_lock;
mod load;
mod queue;
mod store;
mod store_call;
mod write;
mod write_behind;
mod write_task;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use redgrid_core::Name;
use redgrid_core::object::ObjectError;

pub use self::builder::BackedMapBuilder;
use self::builder::StoreOptions;
pub use self::load::Loaded;
use self::load::PendingLoads;
use self::queue::Queue;
pub use self::store::{BackedError, Loader, Storable, StoreError, StoreTimeout, Writer};
pub use self::write_behind::{Loss, WriteBehind, WriteBehindStats};
use self::write_task::InFlightChanges;
use crate::map::Map;

/// A map in front of a store; created by [`Map::backed`]. Missing entries are loaded from the
/// store, and changes are written to it.
///
/// It is cheap to clone; clones share one queue and their loads. Calls take ownership of keys and
/// values: a started change continues in its own task until map and store agree, even if the caller
/// is dropped. It must be used within a tokio runtime.
///
/// # Promises
///
/// - **Reading.** An entry of the map is returned as it is. A missing one is loaded and inserted,
///   unless another client has inserted one meanwhile. One load per key runs at a time for all
///   clones; with `exclusive` (feature `locks`) in all processes. There is no negative caching: a
///   key that the store does not have is loaded again by the next read.
/// - **Writing through.** The map is changed first, then the store, and the call returns when both
///   have the change. If the store rejects it, the map is changed back, unless another client has
///   changed it meanwhile. Until then other clients see a value that is not stored yet. Changes of
///   a key by this process reach map and store in the same order. With `exclusive` (feature
///   `locks`) this holds across processes; without it, the store may end with another process's
///   value than the map. A shutdown of the client waits for these changes.
/// - **Writing behind.** The map is changed, and the call returns. The store follows within the
///   delay, with the newest value of each key. Pending changes are in the memory of this process:
///   if it dies, at most [`WriteBehind::capacity`] keys are lost. A shutdown of the client writes
///   pending changes within a time limit. Unwritten changes are counted and reported.
/// - **Lost replies.** If the map's reply to a change is lost, the map is read, and the store
///   receives the part of the change that was made.
/// - **Other writers.** Some changes do not reach the store: those through [`BackedMap::map`],
///   those of other processes that have no writer, and entries that vanish with a whole map
///   (`clear`, a lifetime).
pub struct BackedMap<K, V, KC, VC>(Arc<Inner<K, V, KC, VC>>);

struct Inner<K, V, KC, VC> {
    map: Map<K, V, KC, VC>,
    loader: Option<Arc<dyn Loader<K, V>>>,
    mode: Mode<K, V>,
    store_options: StoreOptions,
    pending_loads: PendingLoads,
    changes_in_flight: InFlightChanges,
}

/// How changes reach the store.
enum Mode<K, V> {
    /// There is no writer: changes stay in the map.
    NoWriter,
    WriteThrough(Arc<dyn Writer<K, V>>),
    WriteBehind(Queue<K, V>),
}

impl<K, V, KC, VC> BackedMap<K, V, KC, VC> {
    /// Returns the map itself. Its reads do not load, and its changes are not written to the store.
    pub fn map(&self) -> &Map<K, V, KC, VC> {
        &self.0.map
    }

    /// Returns the numbers of pending, written and lost keys of the write-behind queue.
    ///
    /// All are 0 for a map that writes through.
    pub fn write_behind_stats(&self) -> WriteBehindStats {
        match &self.0.mode {
            Mode::WriteBehind(queue) => queue.stats(),
            Mode::NoWriter | Mode::WriteThrough(_) => WriteBehindStats::default(),
        }
    }

    /// Writes all changes that are pending now, without waiting for the delay. Returns whether all
    /// of them were written or reported as lost `within` this time.
    ///
    /// A map that writes through waits until no change is in flight.
    ///
    /// # Cancel safety
    ///
    /// Pending changes are written even if the future is dropped.
    pub async fn flush(&self, within: Duration) -> bool {
        match &self.0.mode {
            Mode::WriteBehind(queue) => queue.flush(within).await,
            Mode::NoWriter | Mode::WriteThrough(_) => self.0.changes_in_flight.wait_until_none(within).await,
        }
    }
}

impl<K, V, KC: redgrid_codecs::Codec, VC: redgrid_codecs::Codec> Inner<K, V, KC, VC> {
    fn name(&self) -> Result<Name, ObjectError> {
        Ok(self.map.object_ref.name_and_key()?.0.clone())
    }
}

impl<K, V, KC, VC> Clone for BackedMap<K, V, KC, VC> {
    fn clone(&self) -> Self {
        BackedMap(Arc::clone(&self.0))
    }
}

impl<K, V, KC: fmt::Debug, VC: fmt::Debug> fmt::Debug for BackedMap<K, V, KC, VC> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mode = match &self.0.mode {
            Mode::NoWriter => "none",
            Mode::WriteThrough(_) => "through",
            Mode::WriteBehind(_) => "behind",
        };
        let mut debug = f.debug_struct("BackedMap");
        debug.field("map", &self.0.map).field("loader", &self.0.loader.is_some()).field("writes", &mode).finish()
    }
}
