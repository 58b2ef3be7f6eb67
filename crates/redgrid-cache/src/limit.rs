//! The maximum number of entries.

use redgrid_codecs::Codec;
use redgrid_core::object::ObjectError;

use crate::cache::Cache;
use crate::layout::{LIMIT, Packed, packed};

/// The maximum number of entries of a map, and its eviction order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limit {
    /// The maximum number of entries, 1 to 2,147,483,647, as Redisson counts them.
    pub entries: u32,
    /// Which entries are evicted first.
    pub order: EvictionOrder,
}

/// Which entries are evicted first if there are more than the limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[doc(alias = "EvictionMode")]
#[non_exhaustive]
pub enum EvictionOrder {
    /// The least recently used ones.
    #[doc(alias = "LRU")]
    LeastRecentlyUsed,
    /// The least frequently used ones.
    #[doc(alias = "LFU")]
    LeastFrequentlyUsed,
}

impl Limit {
    /// Returns a limit that evicts the least recently used entries first.
    pub fn least_recently_used(entries: u32) -> Limit {
        Limit { entries, order: EvictionOrder::LeastRecentlyUsed }
    }

    /// Returns a limit that evicts the least frequently used entries first.
    pub fn least_frequently_used(entries: u32) -> Limit {
        Limit { entries, order: EvictionOrder::LeastFrequentlyUsed }
    }
}

impl<K, V, KC: Codec, VC: Codec> Cache<K, V, KC, VC, Packed> {
    /// Limits the number of entries: each insertion beyond the limit evicts another entry. It is
    /// Redisson's limit, too.
    ///
    /// If there are more entries already, this call evicts up to 100. Each later script that
    /// inserts evicts up to 100, and one more for each new entry. Expired entries go first, then
    /// those of which an access is recorded, then those that were not accessed since the limit was
    /// set.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] states what failed and whether anything may have changed.
    /// [`Failure::InvalidArgument`](crate::Failure::InvalidArgument) for 0 and for more than
    /// 2,147,483,647.
    ///
    /// # Cancel safety
    ///
    /// A request that was already sent is executed even if the future is dropped.
    #[doc(alias = "setMaxSize")]
    pub async fn set_limit(&self, limit: Limit) -> Result<(), ObjectError> {
        self.send_limit(false, limit).await.map(drop)
    }

    /// Limits the number of entries if there is no limit. Returns whether it was set.
    ///
    /// # Errors and cancel safety
    ///
    /// As for [`Cache::set_limit`].
    #[doc(alias = "trySetMaxSize")]
    pub async fn try_set_limit(&self, limit: Limit) -> Result<bool, ObjectError> {
        self.send_limit(true, limit).await
    }

    /// Removes the limit.
    ///
    /// # Errors and cancel safety
    ///
    /// As for [`Cache::set_limit`].
    pub async fn clear_limit(&self) -> Result<(), ObjectError> {
        self.object_ref.change(packed(&LIMIT, &self.object_ref, [])?.int(0).int(0).arg("LRU")).await
    }

    /// Returns the limit; `None` if there is none.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] states what failed and whether anything may have changed.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    pub async fn limit(&self) -> Result<Option<Limit>, ObjectError> {
        let options =
            redgrid_core::object::layouts::map_cache(self.object_ref.name_and_key()?.1).pop().unwrap_or_default();
        let request = redgrid_core::Request::command("HMGET").key(options).arg("max-size").arg("mode");
        let (entries, mode): (Option<u64>, Option<String>) = self.object_ref.read_primary(request).await?;
        let order = if mode.as_deref() == Some("LFU") {
            EvictionOrder::LeastFrequentlyUsed
        } else {
            EvictionOrder::LeastRecentlyUsed
        };
        let entries = entries.and_then(|entries| u32::try_from(entries).ok()).filter(|entries| *entries > 0);
        Ok(entries.map(|entries| Limit { entries, order }))
    }

    async fn send_limit(&self, only_if_unlimited: bool, limit: Limit) -> Result<bool, ObjectError> {
        if i32::try_from(limit.entries).is_err() || limit.entries == 0 {
            return Err(self.object_ref.invalid("limit", "1 to 2147483647 entries", limit.entries));
        }
        let mode = match limit.order {
            EvictionOrder::LeastRecentlyUsed => "LRU",
            EvictionOrder::LeastFrequentlyUsed => "LFU",
        };
        let request =
            packed(&LIMIT, &self.object_ref, [])?.int(only_if_unlimited.into()).int(limit.entries.into()).arg(mode);
        self.object_ref.change(request).await
    }
}
