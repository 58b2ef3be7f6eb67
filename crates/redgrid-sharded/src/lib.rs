//! Maps, sets, bit sets and Bloom filters that are sharded over the slots of a cluster: one object,
//! with shards on every node.
//!
//! Use them when one object is too large, or too busy, for one node.
//!
//! ```no_run
//! # #[cfg(all(feature = "json", feature = "map", feature = "set", feature = "bits"))]
//! # async fn demo() -> Result<(), Box<dyn std::error::Error>> {
//! use redgrid_sharded::{Client, Config};
//! use redgrid_sharded::{ShardedBitSet, ShardedBloomFilter, ShardedMap, ShardedSet};
//!
//! let client = Client::connect(Config::cluster(["10.0.0.1:7000", "10.0.0.2:7000"])?).await?;
//! let carts: ShardedMap<u64, String> = ShardedMap::new(&client, "carts").with_shards(64);
//! carts.insert(&42, &"apples".to_owned()).await?; // one command, to one shard
//! let all = carts.len().await?; // one command to each shard
//!
//! let online: ShardedSet<u64> = ShardedSet::new(&client, "online");
//! online.insert(&42).await?;
//! let seen = ShardedBitSet::new(&client, "seen").with_size(1 << 36);
//! seen.set(56_000_000_000, true).await?; // beyond what one key of a server holds
//! let urls: ShardedBloomFilter<String> = ShardedBloomFilter::new(&client, "urls");
//! urls.try_init(1_000_000_000, 0.01).await?;
//! println!("{all} carts");
//! # Ok(()) }
//! ```
//!
//! # Keys
//!
//! | key | type | lifetime |
//! |---|---|---|
//! | `{name}:shards` | hash: `kind`, `shards`, for a bit set `size`, for a filter `expectedInsertions` and `falseProbability` | none; deleted by `delete` |
//! | `name:{tag}`, one for each shard | that of the plain object: a hash, a set, a string | none, unless set |
//! | `name:{tag}:config` of a filter | hash: the configuration of the shard, like that of a plain filter | none, unless set |
//!
//! A tag has three or four characters. All objects with the same number of shards have the same
//! tags. Shard `n` of `N` is in slot `n × 16384 / N`.
//!
//! # Guarantees
//!
//! - The shard layout of an object is stored once, by its first change, in one step. A handle that
//!   requests another layout gets a typed error. A handle that requests no layout uses the stored
//!   one.
//! - A call for one key, value or index concerns one shard, with the guarantees of the plain
//!   object: it is one step, and sent once.
//! - A call for all shards has up to 64 requests in flight. It is not one step. Its error is
//!   [`ObjectError::Shards`], which names the failed shards.
//! - A stream holds one page of one shard at a time, whatever the size of the object.

#![cfg_attr(docsrs, feature(doc_cfg))]

#[cfg(feature = "bits")]
mod bit_set;
#[cfg(feature = "bits")]
mod bloom_filter;
#[cfg(any(feature = "bits", feature = "map", feature = "set"))]
mod concat_streams;
#[cfg(any(feature = "bits", feature = "map", feature = "set"))]
mod fan_out;
#[cfg(any(feature = "bits", feature = "map", feature = "set"))]
mod layout;
#[cfg(feature = "map")]
mod map;
#[cfg(any(feature = "bits", feature = "map", feature = "set"))]
mod methods;
#[cfg(any(feature = "bits", feature = "map", feature = "set"))]
mod object;
#[cfg(feature = "bits")]
mod ones;
#[cfg(any(feature = "map", feature = "set"))]
mod scan;
#[cfg(feature = "set")]
mod set;
#[cfg(any(feature = "bits", feature = "map", feature = "set"))]
mod sharded;
#[cfg(any(feature = "bits", feature = "map", feature = "set"))]
mod tags;

#[cfg(feature = "bits")]
pub use bit_set::ShardedBitSet;
#[cfg(feature = "bits")]
pub use bloom_filter::{ShardedBloomFilter, ShardedFilterConfig};
#[cfg(feature = "map")]
pub use map::ShardedMap;
#[cfg(any(feature = "bits", feature = "map", feature = "set"))]
pub use object::ShardedObject;
#[cfg(feature = "bits")]
pub use ones::ShardedOnes;
pub use redgrid_codecs as codecs;
pub use redgrid_codecs::{Codec, Decode, Encode, Numeric};
pub use redgrid_core::object::{Lifetime, Object, ObjectError};
pub use redgrid_core::{Client, Config, Failure, Name, ServerError};
#[cfg(any(feature = "map", feature = "set"))]
pub use scan::ShardedScan;
#[cfg(feature = "set")]
pub use set::ShardedSet;

#[cfg(all(test, feature = "bits", feature = "json", feature = "map", feature = "set"))]
mod tests {
    use super::*;

    fn is_send<T: Send>(_: T) {}

    /// Checks that the futures of calls with many items can be spawned as tasks.
    #[expect(dead_code, reason = "it is enough that it compiles")]
    fn futures_are_send(
        map: &'static ShardedMap<String, u64>,
        set: &'static ShardedSet<String>,
        bits: &'static ShardedBitSet,
        filter: &'static ShardedBloomFilter<String>,
        strings: &'static [String],
    ) {
        is_send(map.get_many(strings));
        is_send(map.remove_many(["a"]));
        is_send(set.insert_many(["a"]));
        is_send(set.contains_each(strings));
        is_send(bits.get_many([1, 2]));
        is_send(filter.add_many(["a"]));
        is_send(filter.contains_many(strings));
    }
}
