//! Options of a map in front of a store.

use std::sync::Arc;
use std::time::Duration;

use redgrid_codecs::{Codec, Decode, Encode};
use redgrid_core::object::ObjectError;

use super::queue::Queue;
use super::store::{Loader, Storable, Writer};
use super::write_behind::{Loss, WriteBehind};
use super::{BackedMap, Inner, Mode};
use crate::map::Map;

/// Number of attempts of a write: 1, Redisson's default.
const ATTEMPTS: u32 = 1;

/// Pause between two attempts: 100 ms, Redisson's default.
const RETRY_INTERVAL: Duration = Duration::from_millis(100);

/// Time limit of one call to a store: 10 s. It is longer than databases take for a row, and shorter
/// than people wait.
const STORE_TIMEOUT: Duration = Duration::from_secs(10);

/// Builder of a map in front of a store; created by [`Map::backed`].
#[must_use = "does nothing until `build` is called"]
pub struct BackedMapBuilder<K, V, KC, VC> {
    map: Map<K, V, KC, VC>,
    pub(super) loader: Option<Arc<dyn Loader<K, V>>>,
    writer: Option<Arc<dyn Writer<K, V>>>,
    write_behind: Option<WriteBehind>,
    on_loss: Option<OnLoss<K>>,
    store_options: StoreOptions,
}

pub(super) type OnLoss<K> = Arc<dyn Fn(Loss<K>) + Send + Sync>;

/// Options of every call to a store.
#[derive(Debug, Clone, Copy)]
pub(super) struct StoreOptions {
    pub(super) attempts: u32,
    pub(super) retry_interval: Duration,
    pub(super) store_timeout: Duration,
    #[cfg_attr(not(feature = "locks"), expect(dead_code, reason = "there are no locks"))]
    pub(super) exclusive: bool,
}

impl StoreOptions {
    /// Returns the longest time of a write, with all its attempts.
    pub(super) fn max_write_time(&self) -> Duration {
        (self.store_timeout + self.retry_interval) * self.attempts
    }
}

impl<K, V, KC: Codec, VC: Codec> Map<K, V, KC, VC> {
    /// Returns a builder of a map in front of a store. Missing entries are loaded, and changes are
    /// written, through or behind.
    ///
    /// ```no_run
    /// # #[cfg(feature = "json")]
    /// # fn demo<S>(prices: redgrid_map::Map<String, u64>, store: S) -> Result<(), redgrid_map::ObjectError>
    /// # where S: redgrid_map::Loader<String, u64> + redgrid_map::Writer<String, u64> + Clone {
    /// use redgrid_map::WriteBehind;
    ///
    /// let backed = prices.backed().loader(store.clone()).writer(store);
    /// let prices = backed.write_behind(WriteBehind::default()).build()?;
    /// # Ok(()) }
    /// ```
    #[doc(alias = "MapOptions")]
    pub fn backed(&self) -> BackedMapBuilder<K, V, KC, VC> {
        let store_options = StoreOptions {
            attempts: ATTEMPTS,
            retry_interval: RETRY_INTERVAL,
            store_timeout: STORE_TIMEOUT,
            exclusive: false,
        };
        BackedMapBuilder {
            map: self.clone(),
            loader: None,
            writer: None,
            write_behind: None,
            on_loss: None,
            store_options,
        }
    }
}

impl<K, V, KC: Codec, VC: Codec> BackedMapBuilder<K, V, KC, VC> {
    /// Loads entries that are not in the map from the store.
    #[doc(alias = "loaderAsync")]
    pub fn loader(self, loader: impl Loader<K, V>) -> Self
    where
        K: Send + Sync + 'static,
        V: 'static,
    {
        BackedMapBuilder { loader: Some(Arc::new(loader)), ..self }
    }

    /// Writes changes to the store. A call that changes the map returns after the write, unless
    /// [`BackedMapBuilder::write_behind`] is set.
    #[doc(alias = "writerAsync")]
    pub fn writer(self, writer: impl Writer<K, V>) -> Self
    where
        K: Send + Sync + 'static,
        V: Send + Sync + 'static,
    {
        BackedMapBuilder { writer: Some(Arc::new(writer)), ..self }
    }

    /// Queues changes in this process and writes them in batches. The call returns when the map has
    /// the change.
    #[doc(alias = "writeMode")]
    #[doc(alias = "writeBehindBatchSize")]
    #[doc(alias = "writeBehindDelay")]
    pub fn write_behind(self, write_behind: WriteBehind) -> Self {
        BackedMapBuilder { write_behind: Some(write_behind), ..self }
    }

    /// Sets a callback for changes of the map that will not be written behind.
    ///
    /// It is called after the last attempt, and at the end of a shutdown.
    pub fn on_loss(self, callback: impl Fn(Loss<K>) + Send + Sync + 'static) -> Self {
        BackedMapBuilder { on_loss: Some(Arc::new(callback)), ..self }
    }

    /// Sets the number of attempts of a write, 1 to 1,000. The default is 1. Loads are attempted
    /// once.
    #[doc(alias = "writeRetryAttempts")]
    pub fn attempts(mut self, attempts: u32) -> Self {
        self.store_options.attempts = attempts;
        self
    }

    /// Sets the pause between two attempts, up to an hour. The default is 100 ms.
    #[doc(alias = "writeRetryInterval")]
    pub fn retry_interval(mut self, interval: Duration) -> Self {
        self.store_options.retry_interval = interval;
        self
    }

    /// Sets the time limit of one call to the store, 1 ms to an hour. The default is 10 s.
    ///
    /// A call that exceeds it is dropped. With a longer limit, a hanging store blocks the following
    /// calls for longer.
    pub fn store_timeout(mut self, timeout: Duration) -> Self {
        self.store_options.store_timeout = timeout;
        self
    }

    /// Loads and writes under the [lock of the key](Map::lock).
    ///
    /// Only one process at a time accesses a key of the store, Redisson's loads included. This
    /// costs an additional acquire and release. If the lock is lost, the call to the store fails.
    ///
    /// A caller that already holds the lock of a key must not use that key here: it would wait for
    /// itself.
    #[cfg(feature = "locks")]
    pub fn exclusive(mut self) -> Self {
        self.store_options.exclusive = true;
        self
    }
}

impl<K: Storable, V: Storable, KC: Encode<K>, VC: Encode<V> + Decode<V>> BackedMapBuilder<K, V, KC, VC> {
    /// Returns the map.
    ///
    /// **Create one per name in a process, and clone it** if it writes behind. Each has its own
    /// queue, so with two of them the store may receive an older value last.
    ///
    /// # Errors
    ///
    /// [`Failure::InvalidArgument`](crate::Failure::InvalidArgument) if an option is out of range;
    /// [`Failure::InvalidName`](crate::Failure::InvalidName).
    pub fn build(self) -> Result<BackedMap<K, V, KC, VC>, ObjectError> {
        let BackedMapBuilder { map, loader, writer, write_behind, on_loss, store_options } = self;
        let (name, _) = map.object_ref.name_and_key()?;
        let invalid = |option, expected: &'static str, got: String| {
            Err(ObjectError::invalid_argument(name, option, expected, got))
        };
        let hour = Duration::from_secs(3600);
        if !(1..=1000).contains(&store_options.attempts) {
            return invalid("attempts", "1 to 1,000", store_options.attempts.to_string());
        }
        if store_options.retry_interval > hour {
            return invalid("retry_interval", "up to an hour", format!("{:?}", store_options.retry_interval));
        }
        if !(Duration::from_millis(1)..=hour).contains(&store_options.store_timeout) {
            return invalid("store_timeout", "1 ms to an hour", format!("{:?}", store_options.store_timeout));
        }
        let mode = match (writer, write_behind) {
            (None, None) => Mode::NoWriter,
            (None, Some(_)) => return invalid("write_behind", "a writer too", "none".into()),
            (Some(writer), None) => Mode::WriteThrough(writer),
            (Some(writer), Some(write_behind)) => {
                if let Some((option, expected, got)) = write_behind.first_invalid() {
                    return invalid(option, expected, got);
                }
                Mode::WriteBehind(Queue::start(map.object_ref.client(), write_behind, store_options, writer, on_loss))
            }
        };
        Ok(BackedMap(Arc::new(Inner {
            map,
            loader,
            mode,
            store_options,
            pending_loads: Default::default(),
            changes_in_flight: Default::default(),
        })))
    }
}

redgrid_core::debug_fields!([K, V, KC, VC] BackedMapBuilder<K, V, KC, VC>, |it|
    loader: it.loader.is_some(), writer: it.writer.is_some(), write_behind: it.write_behind,
    store_options: it.store_options
);
