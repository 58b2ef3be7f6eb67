//! The interface of a store behind a map, and its errors.

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::StreamExt;
use futures_util::stream::{BoxStream, empty};
use redgrid_core::Name;
use redgrid_core::object::ObjectError;

/// A key or a value of a [`BackedMap`](crate::BackedMap): the store receives it in other tasks.
pub trait Storable: Clone + Send + Sync + 'static {}

impl<T: Clone + Send + Sync + 'static> Storable for T {}

/// The error of a store: any error.
pub type StoreError = Box<dyn Error + Send + Sync>;

/// Loads entries that are not in the map from a store.
///
/// ```
/// use std::collections::BTreeMap;
/// use redgrid_map::{StoreError, Loader, async_trait};
///
/// struct Prices(BTreeMap<String, u64>);
///
/// #[async_trait]
/// impl Loader<String, u64> for Prices {
///     async fn load(&self, key: &String) -> Result<Option<u64>, StoreError> {
///         Ok(self.0.get(key).copied())
///     }
/// }
/// ```
#[async_trait]
#[doc(alias = "MapLoader")]
#[doc(alias = "MapLoaderAsync")]
pub trait Loader<K: Send + Sync + 'static, V: 'static>: Send + Sync + 'static {
    /// Returns the store's value of a key; `None` if the store does not have it.
    ///
    /// The future is dropped if it exceeds
    /// [`BackedMapBuilder::store_timeout`](crate::BackedMapBuilder::store_timeout).
    async fn load(&self, key: &K) -> Result<Option<V>, StoreError>;

    /// Returns all keys of the store, for [`BackedMap::load_all`](crate::BackedMap::load_all). The
    /// default is none.
    ///
    /// Each key of the stream may take as long as a call.
    #[doc(alias = "loadAllKeys")]
    fn keys(&self) -> BoxStream<'_, Result<K, StoreError>> {
        empty().boxed()
    }
}

/// Writes changes of the map to a store.
///
/// Both methods must be idempotent: they may be called again with the same arguments after an
/// error, and after a call that was dropped because of its time limit. In one process two calls for
/// one key never run at the same time.
#[async_trait]
#[doc(alias = "MapWriter")]
#[doc(alias = "MapWriterAsync")]
pub trait Writer<K: Send + Sync + 'static, V: Send + Sync + 'static>: Send + Sync + 'static {
    /// Sets the values of keys. No key occurs twice.
    async fn write(&self, entries: &[(K, V)]) -> Result<(), StoreError>;

    /// Removes keys. The store may not have them.
    async fn delete(&self, keys: &[K]) -> Result<(), StoreError>;
}

/// A call to the store exceeded its time limit. Whether the call took effect is unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the store took longer than {0:?}")]
#[non_exhaustive]
pub struct StoreTimeout(pub Duration);

/// The error of a map in front of a store. Each variant states what is true afterwards.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum BackedError {
    /// A request to the map failed. The contained error states whether anything may have changed.
    ///
    /// After `OutcomeUnknown` the map may have the change. The map was read again, and the part of
    /// the change that the map has was passed to the store. Exceptions are a `compare_and_remove`,
    /// and an `alter` that removes: they were not passed to the store.
    ///
    /// After `Decode` of a change, map and store have the change, and the previous value cannot be
    /// decoded.
    #[error(transparent)]
    Object(#[from] ObjectError),
    /// The store could not be read. The map is unchanged.
    #[error("cannot read the store of `{name}`: {source}")]
    NotLoaded {
        /// The map.
        name: Name,
        /// The store's error, or [`StoreTimeout`].
        #[source]
        source: Arc<dyn Error + Send + Sync>,
    },
    /// The store rejected a change in every attempt. The map has its previous value again, unless
    /// another client has changed it meanwhile.
    ///
    /// After [`StoreTimeout`] the store may have the change nevertheless.
    #[error("the store of `{name}` rejected a change {attempts} times, the map was changed back: {source}")]
    NotStored {
        /// The map.
        name: Name,
        /// The number of attempts.
        attempts: u32,
        /// The store's last error.
        #[source]
        source: Arc<dyn Error + Send + Sync>,
    },
    /// The store rejected a change in every attempt, and the map could not be changed back. The map
    /// has, or may have, a value that the store does not have.
    #[error(
        "the store of `{name}` rejected a change {attempts} times ({source}), and the map cannot be changed back: {undo}"
    )]
    Divided {
        /// The map.
        name: Name,
        /// The number of attempts.
        attempts: u32,
        /// Why the map was not changed back.
        undo: Arc<ObjectError>,
        /// The store's last error.
        #[source]
        source: Arc<dyn Error + Send + Sync>,
    },
    /// The queue of pending changes is full. Nothing is changed.
    #[error("the store of `{name}` accepted none of {capacity} waiting changes within {waited:?}")]
    Full {
        /// The map.
        name: Name,
        /// The capacity of the queue.
        capacity: usize,
        /// How long this change waited.
        waited: Duration,
    },
    /// Other calls of this process used the key, or its store, all the time. Nothing is changed.
    #[error("other calls of this process used a key of `{name}` for {waited:?}")]
    Busy {
        /// The map.
        name: Name,
        /// How long the call waited.
        waited: Duration,
    },
    /// The client is shut down. Nothing is changed.
    #[error("the client of `{name}` is shut down")]
    Closed {
        /// The map.
        name: Name,
    },
    /// The client or the tokio runtime ended meanwhile. It is unknown how much of the change was
    /// done.
    #[error("the client or the runtime ended before a change of `{name}` was completed")]
    Ended {
        /// The map.
        name: Name,
    },
    /// The key's lock was not acquired. Nothing is changed.
    #[cfg(feature = "locks")]
    #[error("cannot lock a key: {0}")]
    NotLocked(#[from] redgrid_locks::AcquireError),
}
