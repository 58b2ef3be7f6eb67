//! How a map and its store belong together.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use redgrid_codecs::{Codec, Decode, Encode};
use redgrid_core::object::ObjectError;

use super::behind::{Loss, WriteBehind};
use super::queue::Queue;
use super::store::{Loader, Writer};
use super::{BackedMap, Inner, Mode};
use crate::map::Map;

/// How often a store is tried: once, as Redisson's default.
const ATTEMPTS: u32 = 1;

/// The pause between two tries: 100 ms, Redisson's default.
const RETRY_INTERVAL: Duration = Duration::from_millis(100);

/// How long one call of a store may take: beyond what databases take for a row, and below what people wait for.
const STORE_TIMEOUT: Duration = Duration::from_secs(10);

/// How a map stands in front of a store; made by [`Map::backed`].
#[must_use = "there is no map before it is built"]
pub struct Backing<K, V, KC, VC> {
    map: Map<K, V, KC, VC>,
    pub(super) loader: Option<Arc<dyn Loader<K, V>>>,
    writer: Option<Arc<dyn Writer<K, V>>>,
    behind: Option<WriteBehind>,
    on_loss: Option<OnLoss<K>>,
    terms: Terms,
}

pub(super) type OnLoss<K> = Arc<dyn Fn(Loss<K>) + Send + Sync>;

/// What holds for every call of a store.
#[derive(Debug, Clone, Copy)]
pub(super) struct Terms {
    pub(super) attempts: u32,
    pub(super) retry_interval: Duration,
    pub(super) store_timeout: Duration,
    #[cfg_attr(not(feature = "locks"), expect(dead_code, reason = "there are no locks"))]
    pub(super) exclusive: bool,
}

impl Terms {
    /// How long a write may take with all its tries.
    pub(super) fn whole(&self) -> Duration {
        (self.store_timeout + self.retry_interval) * self.attempts
    }
}

impl<K, V, KC: Codec, VC: Codec> Map<K, V, KC, VC> {
    /// The map in front of a store: what is missing is loaded, and what is changed is written, through or behind.
    ///
    /// ```no_run
    /// # #[cfg(feature = "json")]
    /// # fn demo<S>(prices: redgrid_map::Map<String, u64>, store: S) -> Result<(), redgrid_map::ObjectError>
    /// # where S: redgrid_map::Loader<String, u64> + redgrid_map::Writer<String, u64> + Clone {
    /// use redgrid_map::WriteBehind;
    ///
    /// let prices = prices.backed().loader(store.clone()).writer(store).write_behind(WriteBehind::default()).build()?;
    /// # Ok(()) }
    /// ```
    #[doc(alias = "MapOptions")]
    pub fn backed(&self) -> Backing<K, V, KC, VC> {
        let terms = Terms {
            attempts: ATTEMPTS,
            retry_interval: RETRY_INTERVAL,
            store_timeout: STORE_TIMEOUT,
            exclusive: false,
        };
        Backing { map: self.clone(), loader: None, writer: None, behind: None, on_loss: None, terms }
    }
}

impl<K, V, KC: Codec, VC: Codec> Backing<K, V, KC, VC> {
    /// Reads from the store what is not in the map.
    #[doc(alias = "loaderAsync")]
    pub fn loader(self, loader: impl Loader<K, V>) -> Self
    where
        K: Send + Sync + 'static,
        V: 'static,
    {
        Backing { loader: Some(Arc::new(loader)), ..self }
    }

    /// Writes to the store what is changed, before the call returns unless [`Backing::write_behind`] is set.
    #[doc(alias = "writerAsync")]
    pub fn writer(self, writer: impl Writer<K, V>) -> Self
    where
        K: Send + Sync + 'static,
        V: Send + Sync + 'static,
    {
        Backing { writer: Some(Arc::new(writer)), ..self }
    }

    /// Has changes wait in this process, and writes many at a time: the call returns when the map has it.
    #[doc(alias = "writeMode")]
    #[doc(alias = "writeBehindBatchSize")]
    #[doc(alias = "writeBehindDelay")]
    pub fn write_behind(self, behind: WriteBehind) -> Self {
        Backing { behind: Some(behind), ..self }
    }

    /// Called with what was changed in the map and is not written behind it: after the last try, and at the end of a shutdown.
    pub fn on_loss(self, told: impl Fn(Loss<K>) + Send + Sync + 'static) -> Self {
        Backing { on_loss: Some(Arc::new(told)), ..self }
    }

    /// How often a write is tried, 1 to 1,000; once unless it is said. Loads are tried once.
    #[doc(alias = "writeRetryAttempts")]
    pub fn attempts(mut self, attempts: u32) -> Self {
        self.terms.attempts = attempts;
        self
    }

    /// The pause between two tries, up to an hour; 100 ms unless it is said.
    #[doc(alias = "writeRetryInterval")]
    pub fn retry_interval(mut self, interval: Duration) -> Self {
        self.terms.retry_interval = interval;
        self
    }

    /// How long one call of the store may take before it is dropped, 1 ms to an hour; 10 s unless it is said. A longer one holds up
    /// those behind it for longer, where a store hangs.
    pub fn store_timeout(mut self, timeout: Duration) -> Self {
        self.terms.store_timeout = timeout;
        self
    }

    /// Loads and writes under the [lock of the key](Map::lock): one process at a time is at a key of the store, Redisson's loads
    /// included, for an acquire and a release more.
    #[cfg(feature = "locks")]
    pub fn exclusive(mut self) -> Self {
        self.terms.exclusive = true;
        self
    }
}

impl<K, V, KC, VC> Backing<K, V, KC, VC>
where
    K: Clone + Send + Sync + 'static,
    V: Clone + Send + Sync + 'static,
    KC: Encode<K>,
    VC: Encode<V> + Decode<V>,
{
    /// The map.
    ///
    /// # Errors
    ///
    /// [`ObjectError::InvalidArgument`] where an option has a value that can not be, [`ObjectError::InvalidName`].
    pub fn build(self) -> Result<BackedMap<K, V, KC, VC>, ObjectError> {
        let Backing { map, loader, writer, behind, on_loss, terms } = self;
        let (name, _) = map.place.named()?;
        let invalid = |option, expected: &str, got| {
            Err(ObjectError::InvalidArgument { name: name.clone(), option, expected: expected.into(), got })
        };
        let hour = Duration::from_secs(3600);
        if !(1..=1000).contains(&terms.attempts) {
            return invalid("attempts", "1 to 1,000", terms.attempts.to_string());
        }
        if terms.retry_interval > hour {
            return invalid("retry_interval", "up to an hour", format!("{:?}", terms.retry_interval));
        }
        if !(Duration::from_millis(1)..=hour).contains(&terms.store_timeout) {
            return invalid("store_timeout", "1 ms to an hour", format!("{:?}", terms.store_timeout));
        }
        let mode = match (writer, behind) {
            (None, None) => Mode::Kept,
            (None, Some(_)) => return invalid("write_behind", "a writer beside it", "none".into()),
            (Some(writer), None) => Mode::Through(writer),
            (Some(writer), Some(behind)) => {
                if let Some((option, expected, got)) = behind.unfit() {
                    return invalid(option, expected, got);
                }
                Mode::Behind(Queue::start(map.place.client(), behind, terms, writer, on_loss))
            }
        };
        Ok(BackedMap(Arc::new(Inner { map, loader, mode, terms, flights: Default::default() })))
    }
}

impl<K, V, KC, VC> fmt::Debug for Backing<K, V, KC, VC> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Backing");
        shown.field("loader", &self.loader.is_some()).field("writer", &self.writer.is_some());
        shown.field("behind", &self.behind).field("terms", &self.terms).finish_non_exhaustive()
    }
}
