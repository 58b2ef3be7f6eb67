//! A map in front of a store: read-through, write-through, write-behind.

mod behind;
mod builder;
mod emptying;
mod load;
mod many;
mod queue;
mod store;
mod turn;
mod write;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use redgrid_core::Name;
use redgrid_core::object::ObjectError;

pub use self::behind::{Behind, Loss, WriteBehind};
pub use self::builder::Backing;
use self::builder::Terms;
use self::load::Flights;
pub use self::load::Loaded;
use self::queue::Queue;
pub use self::store::{BackedError, Fault, Loader, TookTooLong, Writer};
use crate::map::Map;

/// A map in front of a store, which it reads what is missing from and writes what is changed to; made by [`Map::backed`].
///
/// Cheap to clone; clones have the same queue and the same loads. Calls take keys and values as they own them: what has begun goes on in a task of its own
/// until map and store agree, although nobody waits for it any more. It is to be used within a runtime of tokio.
///
/// # What it promises
///
/// - **Reading.** What the map has is the answer. What it has not is loaded and put in, unless somebody else was quicker. Of a key one load runs at a time, for
///   all tasks that have clones of this; across processes with `exclusive` (feature `locks`). That a store has nothing is not remembered.
/// - **Writing through.** The map is changed first, then the store, and the call returns when both have it. Where the store does not take it, the map is changed back,
///   unless others have changed it meanwhile. In between others see what is not stored yet. Changes of a key by this process reach map and store in
///   one order; across processes with `exclusive` (feature `locks`), else the store may end with another process's value than the map.
/// - **Writing behind.** The map is changed, and the call returns; the store follows within the delay, of each key with its newest value. What waits is in the memory of this process:
///   at most [`WriteBehind::capacity`] keys are lost when it dies. A shutdown of the client writes what waits, within a bound. What is not written is counted and told.
/// - **Around it.** Changes by [`BackedMap::map`], by other processes that do not write, and entries that vanish with a whole map (`clear`, a lifetime) do not reach the store.
pub struct BackedMap<K, V, KC, VC>(Arc<Inner<K, V, KC, VC>>);

struct Inner<K, V, KC, VC> {
    map: Map<K, V, KC, VC>,
    loader: Option<Arc<dyn Loader<K, V>>>,
    mode: Mode<K, V>,
    terms: Terms,
    flights: Flights,
}

/// Where changes go.
enum Mode<K, V> {
    /// Nowhere else.
    Kept,
    Through(Arc<dyn Writer<K, V>>),
    Behind(Queue<K, V>),
}

impl<K, V, KC, VC> BackedMap<K, V, KC, VC> {
    /// The map alone: what it reads is not loaded, and what it changes is not written to the store.
    pub fn map(&self) -> &Map<K, V, KC, VC> {
        &self.0.map
    }

    /// What waits to be written behind, what has been, and what never will; nothing of a map that writes through.
    pub fn behind(&self) -> Behind {
        match &self.0.mode {
            Mode::Behind(queue) => queue.behind(),
            Mode::Kept | Mode::Through(_) => Behind::default(),
        }
    }

    /// Writes what waits at the moment, at once; tells whether all that was waiting is written or told as lost `within` this time.
    ///
    /// # Cancel safety
    ///
    /// What waits is written although nobody waits for it.
    pub async fn flush(&self, within: Duration) -> bool {
        match &self.0.mode {
            Mode::Behind(queue) => queue.flush(within).await,
            Mode::Kept | Mode::Through(_) => true,
        }
    }
}

impl<K, V, KC: redgrid_codecs::Codec, VC: redgrid_codecs::Codec> Inner<K, V, KC, VC> {
    fn name(&self) -> Result<Name, ObjectError> {
        Ok(self.map.place.named()?.0.clone())
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
            Mode::Kept => "kept",
            Mode::Through(_) => "through",
            Mode::Behind(_) => "behind",
        };
        let mut shown = f.debug_struct("BackedMap");
        shown.field("map", &self.0.map).field("loader", &self.0.loader.is_some()).field("writes", &mode).finish()
    }
}
