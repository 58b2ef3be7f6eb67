//! Maps with lifetimes of their entries.

use std::time::Duration;

use bytes::Bytes;
use redgrid_core::object::layouts;
use redgrid_keys::Key;

use crate::error::InspectError;
use crate::inspector::Inspector;
use crate::scripts::MAP_CACHE;

/// A `MapCache` as the server sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct MapCacheView {
    /// The name, without the namespace. Bytes of a name that is not UTF-8 are escaped.
    pub name: String,
    /// The number of entries, with those that have expired and are not removed yet.
    pub len: u64,
    /// The entries with a lifetime.
    pub lifetimes: CacheEnds,
    /// The entries with an idle time. An entry may have both.
    pub idle_times: CacheEnds,
    /// The limit of the number of entries. `None` if there is none.
    pub limit: Option<CacheLimit>,
    /// The remaining lifetime of the whole cache. `None` if it has none.
    pub lifetime: Option<Duration>,
}

/// When entries of a cache end.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CacheEnds {
    /// The number of entries that end.
    pub entries: u64,
    /// The number of entries that have ended. They are not found any more; later requests remove
    /// them, 100 at a time.
    pub over: u64,
    /// The time until the next end. `None` if there is none.
    pub next: Option<Duration>,
}

/// The limit of the number of entries of a cache.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct CacheLimit {
    /// The maximum number of entries.
    pub entries: u64,
    /// Which entries are evicted first: `LRU`, the least recently used ones, or `LFU`, the least
    /// frequently used ones.
    pub mode: String,
}

impl Inspector {
    /// Reads a `MapCache`; `None` if there is none. Its name consists of any bytes.
    ///
    /// A cache without lifetimes, idle times and a limit is a map. A `NativeMapCache` is one, too,
    /// and a `SetCache` is a sorted set. No entry is read.
    ///
    /// # Errors
    ///
    /// [`InspectError::Failed`] if no server answers, or the user may not read the cache.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    pub async fn map_cache(&self, name: impl AsRef<[u8]>) -> Result<Option<MapCacheView>, InspectError> {
        let key = Key::of_name_bytes(&self.client, name);
        let name = key.to_string();
        let failed = |source| InspectError::of_object("read the cache", &name, source);
        let mut keys = layouts::map_cache(key.wire());
        // The times of the last uses say nothing about the cache.
        keys.remove(LAST_USES);
        let reply: Vec<Bytes> = self.client.run(MAP_CACHE.with(keys).idempotent()).await.map_err(failed)?;
        Ok(parse(&name, &reply))
    }
}

/// The index of the key with the times of the last uses.
const LAST_USES: usize = 3;

fn parse(name: &str, reply: &[Bytes]) -> Option<MapCacheView> {
    let [left, len, lifetimes, over, next, idle, idle_over, idle_next, max, mode] = reply else { return None };
    let ends = |entries: &Bytes, over: &Bytes, next: &Bytes| CacheEnds {
        entries: number(entries).unwrap_or_default(),
        over: number(over).unwrap_or_default(),
        next: number(next).map(Duration::from_millis),
    };
    let mode = String::from_utf8_lossy(mode);
    // Redisson writes 0 for no limit, and no mode for LRU.
    let mode = if mode.is_empty() { "LRU" } else { &*mode };
    let limit = number(max).filter(|max| *max > 0).map(|entries| CacheLimit { entries, mode: mode.to_owned() });
    Some(MapCacheView {
        name: name.to_owned(),
        len: number(len)?,
        lifetimes: ends(lifetimes, over, next),
        idle_times: ends(idle, idle_over, idle_next),
        limit,
        lifetime: number(left).map(Duration::from_millis),
    })
}

fn number(text: &[u8]) -> Option<u64> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view(reply: [&str; 10]) -> Option<MapCacheView> {
        parse("sessions", &reply.map(|part| Bytes::copy_from_slice(part.as_bytes())))
    }

    #[test]
    fn ends_and_limits_are_read() {
        let cache = view(["-1", "12", "10", "3", "250", "2", "0", "9000", "500", "LFU"]).expect("a cache");
        let lifetimes = CacheEnds { entries: 10, over: 3, next: Some(Duration::from_millis(250)) };
        let idle_times = CacheEnds { entries: 2, over: 0, next: Some(Duration::from_secs(9)) };
        assert_eq!((cache.len, cache.lifetimes, cache.idle_times), (12, lifetimes, idle_times));
        assert_eq!(cache.limit, Some(CacheLimit { entries: 500, mode: "LFU".into() }));
        let unlimited = view(["5000", "1", "1", "1", "", "0", "0", "", "0", ""]).expect("a cache");
        assert_eq!((unlimited.limit, unlimited.idle_times), (None, CacheEnds::default()));
        assert_eq!(unlimited.lifetime, Some(Duration::from_secs(5)));
        let recent = view(["-1", "1", "0", "0", "", "0", "0", "", "9", ""]).expect("a cache");
        assert_eq!(recent.limit.map(|limit| limit.mode), Some("LRU".to_owned()));
        assert_eq!(parse("sessions", &[]), None);
    }

    #[test]
    fn the_key_that_is_left_out_is_that_of_the_last_uses() {
        let key = &layouts::map_cache(b"a")[LAST_USES];
        assert_eq!(&key[..], b"redisson__map_cache__last_access__set:{a}");
    }
}
