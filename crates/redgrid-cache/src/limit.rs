//! How many entries there are at most.

use redgrid_codecs::Codec;
use redgrid_core::object::ObjectError;

use crate::cache::Cache;
use crate::layout::{LIMIT, Packed, packed};

/// How many entries a map has at most, and which go first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limit {
    /// How many, 1 to 2,147,483,647, as Redisson counts them.
    pub entries: u32,
    /// Which go first.
    pub by: Use,
}

/// Which entries go first where there are more than the limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[doc(alias = "EvictionMode")]
pub enum Use {
    /// Those whose last use is longest ago.
    #[doc(alias = "LRU")]
    Last,
    /// Those that were used least often.
    #[doc(alias = "LFU")]
    Count,
}

impl Limit {
    /// So many entries, of which those go first whose last use is longest ago.
    pub fn least_recently_used(entries: u32) -> Limit {
        Limit { entries, by: Use::Last }
    }

    /// So many entries, of which those go first that were used least often.
    pub fn least_frequently_used(entries: u32) -> Limit {
        Limit { entries, by: Use::Count }
    }
}

impl<K, V, KC: Codec, VC: Codec> Cache<K, V, KC, VC, Packed> {
    /// Has it keep so many entries at most: whoever inserts one more takes out another. Where there are more already, 100 go with this, and with each script that
    /// inserts 100 and one for each entry that is new: what is over, then those whose use is known, then those that were not used since there is a limit. It is Redisson's limit too.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] says what is true then; [`ObjectError::InvalidArgument`] of 0 and of more than 2,147,483,647.
    ///
    /// # Cancel safety
    ///
    /// What has left is carried out although nobody waits for it.
    #[doc(alias = "setMaxSize")]
    pub async fn set_limit(&self, limit: Limit) -> Result<(), ObjectError> {
        self.limited(false, limit).await.map(drop)
    }

    /// The same if it has none; tells whether it did.
    ///
    /// # Errors
    ///
    /// As [`Cache::set_limit`].
    ///
    /// # Cancel safety
    ///
    /// As [`Cache::set_limit`].
    #[doc(alias = "trySetMaxSize")]
    pub async fn try_set_limit(&self, limit: Limit) -> Result<bool, ObjectError> {
        self.limited(true, limit).await
    }

    /// Has it keep as many entries as come.
    ///
    /// # Errors
    ///
    /// As [`Cache::set_limit`].
    ///
    /// # Cancel safety
    ///
    /// As [`Cache::set_limit`].
    pub async fn clear_limit(&self) -> Result<(), ObjectError> {
        self.place.change(packed(&LIMIT, &self.place, [])?.int(0).int(0).arg("LRU")).await
    }

    /// How many entries it keeps at most.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] says what is true then.
    ///
    /// # Cancel safety
    ///
    /// Dropping it changes nothing.
    pub async fn limit(&self) -> Result<Option<Limit>, ObjectError> {
        let options = redgrid_core::object::layouts::map_cache(self.place.named()?.1).pop().unwrap_or_default();
        let request = redgrid_core::Request::command("HMGET").key(options).arg("max-size").arg("mode");
        let (entries, mode): (Option<u64>, Option<String>) = self.place.ask(request).await?;
        let by = if mode.as_deref() == Some("LFU") { Use::Count } else { Use::Last };
        let entries = entries.and_then(|entries| u32::try_from(entries).ok()).filter(|entries| *entries > 0);
        Ok(entries.map(|entries| Limit { entries, by }))
    }

    async fn limited(&self, only_without: bool, limit: Limit) -> Result<bool, ObjectError> {
        if i32::try_from(limit.entries).is_err() || limit.entries == 0 {
            return Err(self.place.invalid("limit", "1 to 2147483647 entries", limit.entries));
        }
        let mode = match limit.by {
            Use::Last => "LRU",
            Use::Count => "LFU",
        };
        let request = packed(&LIMIT, &self.place, [])?.int(only_without.into()).int(limit.entries.into()).arg(mode);
        self.place.change(request).await
    }
}
