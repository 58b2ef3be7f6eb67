//! Maps, sets, bit sets and Bloom filters that are spread over the slots of a cluster: one object, with a part of it at every node.
//!
//! ```no_run
//! # #[cfg(all(feature = "json", feature = "map", feature = "set", feature = "bits"))]
//! # async fn demo() -> Result<(), Box<dyn std::error::Error>> {
//! use redgrid_sharded::{Client, Config, ShardedBitSet, ShardedBloomFilter, ShardedMap, ShardedSet};
//!
//! let client = Client::connect(Config::cluster(["10.0.0.1:7000", "10.0.0.2:7000"])?).await?;
//! let carts: ShardedMap<u64, String> = ShardedMap::new(&client, "carts").with_shards(64);
//! carts.insert(&42, &"apples".to_owned()).await?; // one command, to one part
//! let all = carts.len().await?; // one command to each part
//!
//! let online: ShardedSet<u64> = ShardedSet::new(&client, "online");
//! online.insert(&42).await?;
//! let seen = ShardedBitSet::new(&client, "seen").with_size(1 << 36);
//! seen.set(60_000_000_000, true).await?; // beyond what one key of a server holds
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
//! | `{name}:shards` | hash: `kind`, `shards`, of a bit set `size`, of a filter `expectedInsertions` and `falseProbability` | none, unless set; goes with `delete` |
//! | `name:{tag}`, one for each part | what the plain object has: a hash, a set, a string | none, unless set |
//! | `name:{tag}:config` of a filter | hash: what the part is, as of a plain filter | none, unless set |
//!
//! The tags are three characters each, the same for all objects with so many parts; part `n` of `N` is in slot `n × 16384 / N`.
//!
//! # Promises
//!
//! - How an object is divided is decided once, by its first change, and in one step. Who asks for another division is refused, typed, and who asks for
//!   none takes what there is.
//! - What concerns one key, value or index concerns one part, and is what it is in the plain object: one step, sent once.
//! - What concerns all parts asks 64 of them at a time. It is not one step. What failed is [`ObjectError::Shards`], which names the parts.
//! - A stream holds a page of one part at a time, whatever the size of all.

#[cfg(feature = "bits")]
mod bit_set;
#[cfg(feature = "bits")]
mod bloom_filter;
mod layout;
#[cfg(feature = "map")]
mod map;
mod object;
#[cfg(feature = "bits")]
mod ones;
#[cfg(any(feature = "map", feature = "set"))]
mod scan;
#[cfg(feature = "set")]
mod set;
mod spread;
mod tags;
#[cfg(any(feature = "bits", feature = "map", feature = "set"))]
mod through;

#[cfg(feature = "bits")]
pub use bit_set::ShardedBitSet;
#[cfg(feature = "bits")]
pub use bloom_filter::{ShardedBloomFilter, ShardedFilterConfig};
#[cfg(feature = "map")]
pub use map::ShardedMap;
pub use object::ShardedObject;
#[cfg(feature = "bits")]
pub use ones::ShardedOnes;
pub use redgrid_codecs as codecs;
pub use redgrid_codecs::{Codec, Decode, Encode, Numeric};
pub use redgrid_core::object::{Lifetime, Object, ObjectError};
pub use redgrid_core::{Client, Config, Name, ServerError};
#[cfg(any(feature = "map", feature = "set"))]
pub use scan::ShardedScan;
#[cfg(feature = "set")]
pub use set::ShardedSet;
