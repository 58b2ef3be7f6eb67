//! What a store is to a map in front of it, and what can go wrong.

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::StreamExt;
use futures_util::stream::{BoxStream, empty};
use redgrid_core::Name;
use redgrid_core::object::ObjectError;

/// What a store says went wrong: any error.
pub type Fault = Box<dyn Error + Send + Sync>;

/// Reads from a store what is not in the map.
///
/// ```
/// use std::collections::BTreeMap;
/// use redgrid_map::{Fault, Loader, async_trait};
///
/// struct Prices(BTreeMap<String, u64>);
///
/// #[async_trait]
/// impl Loader<String, u64> for Prices {
///     async fn load(&self, key: &String) -> Result<Option<u64>, Fault> {
///         Ok(self.0.get(key).copied())
///     }
/// }
/// ```
#[async_trait]
#[doc(alias = "MapLoader")]
#[doc(alias = "MapLoaderAsync")]
pub trait Loader<K: Send + Sync + 'static, V: 'static>: Send + Sync + 'static {
    /// What the store has of a key; `None` where it has nothing. It is dropped where it takes longer than
    /// [`Backing::store_timeout`](crate::Backing::store_timeout).
    async fn load(&self, key: &K) -> Result<Option<V>, Fault>;

    /// All keys of the store, for [`BackedMap::load_all`](crate::BackedMap::load_all); none unless it says so.
    #[doc(alias = "loadAllKeys")]
    fn keys(&self) -> BoxStream<'_, Result<K, Fault>> {
        empty().boxed()
    }
}

/// Writes to a store what is changed in the map.
///
/// Both may be called again with what they have done already: after an error, and after a call that was dropped because it took
/// too long. Of one key never two calls run at a time in one process.
#[async_trait]
#[doc(alias = "MapWriter")]
#[doc(alias = "MapWriterAsync")]
pub trait Writer<K: Send + Sync + 'static, V: Send + Sync + 'static>: Send + Sync + 'static {
    /// Gives keys their values. No key is in it twice.
    async fn write(&self, entries: &[(K, V)]) -> Result<(), Fault>;

    /// Removes keys, which the store may not have.
    async fn delete(&self, keys: &[K]) -> Result<(), Fault>;
}

/// A store that took longer than it may: whether it has done what was asked is not known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the store took longer than {0:?}")]
pub struct TookTooLong(pub Duration);

/// What can be wrong with a map and its store, and what is true then.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum BackedError {
    /// The map was not read or changed; it says what is true. Where it is `OutcomeUnknown`, the map may have the change and the store has not.
    #[error(transparent)]
    Object(#[from] ObjectError),
    /// The store could not be read. The map is unchanged.
    #[error("the store of `{name}` could not be read")]
    NotLoaded {
        /// The map.
        name: Name,
        /// What the store said, or [`TookTooLong`].
        #[source]
        source: Arc<dyn Error + Send + Sync>,
    },
    /// The store did not take a change, each time it was tried; the map has again what it had, unless others have changed it
    /// meanwhile. After [`TookTooLong`] the store may have it all the same.
    #[error("the store of `{name}` did not take a change, {attempts} times; the map was changed back")]
    NotStored {
        /// The map.
        name: Name,
        /// How often it was tried.
        attempts: u32,
        /// What the store said last.
        #[source]
        source: Arc<dyn Error + Send + Sync>,
    },
    /// The same, and the map could not be changed back: it has, or may have, what the store has not.
    #[error(
        "the store of `{name}` did not take a change, {attempts} times, and the map could not be changed back: {undo}"
    )]
    Divided {
        /// The map.
        name: Name,
        /// How often it was tried.
        attempts: u32,
        /// Why the map was not changed back.
        undo: Arc<ObjectError>,
        /// What the store said last.
        #[source]
        source: Arc<dyn Error + Send + Sync>,
    },
    /// So many changes wait for the store that no other may. Nothing is changed.
    #[error("{capacity} changes of `{name}` waited for its store, and none was taken within {waited:?}")]
    Full {
        /// The map.
        name: Name,
        /// How many may wait.
        capacity: usize,
        /// How long this one did.
        waited: Duration,
    },
    /// Others of this process were at the key, or at its store, all the time. Nothing is changed.
    #[error("a key of `{name}` was in use by others of this process for {waited:?}")]
    Busy {
        /// The map.
        name: Name,
        /// How long.
        waited: Duration,
    },
    /// The client is shut down, and what waits for the store is written no more. Nothing is changed.
    #[error("the client of `{name}` is shut down")]
    Closed {
        /// The map.
        name: Name,
    },
    /// The runtime of tokio ended meanwhile. What is done of the change is not known.
    #[error("the runtime ended before a change of `{name}` was done")]
    Ended {
        /// The map.
        name: Name,
    },
    /// The key's lock was not to be had. Nothing is changed.
    #[cfg(feature = "locks")]
    #[error("the lock of a key was not acquired")]
    NotLocked(#[from] redgrid_locks::AcquireError),
}
