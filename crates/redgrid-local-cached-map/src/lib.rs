//! Maps shared by all processes, with a cache in each process. On the wire they are Redisson's
//! RLocalCachedMap.
//!
//! Use one for data that is read often and changed seldom: reads need no request, and a change
//! invalidates the cached value in every process.
//!
//! ```no_run
//! # #[cfg(feature = "json")]
//! # async fn demo() -> Result<(), Box<dyn std::error::Error>> {
//! use redgrid_local_cached_map::{Client, LocalCachedMap};
//!
//! let client = Client::connect("redis://127.0.0.1:6379").await?;
//! let prices: LocalCachedMap<String, u32> = LocalCachedMap::new(&client, "prices");
//! prices.set("P0001", &1999).await?;
//! prices.get("P0001").await?; // reads from the server
//! prices.get("P0001").await?; // reads from the cache
//! println!("{:.0} % from the cache", 100.0 * prices.stats().hit_ratio());
//! # Ok(()) }
//! ```
//!
//! # Keys and channels
//!
//! | key or channel | type | lifetime |
//! |---|---|---|
//! | `name` | hash: keys and values as their codecs write them; Redisson's | none, unless set |
//! | `{name}:topic` | channel: changed keys; Redisson's | |
//! | `redgrid_near:{name}:<client id>` | channel: heartbeats, from this client to itself | |
//!
//! # Guarantees
//!
//! - Every change by these methods is published to all caches of the map, in the same step in which
//!   it is made.
//! - **Bounded staleness, for published changes.** A returned value was current on the server at
//!   some moment at most [`Options::max_stale`] before the read began. As long as messages arrive,
//!   a value is invalidated as soon as the message of its change arrives. The bound holds whatever
//!   happens to connections. Four times per bound the cache sends itself a heartbeat, which arrives
//!   after all earlier messages. Cached values are returned only while heartbeats come back. One
//!   exception, as for any read: until the client detects that a primary was replaced, it may read
//!   older values from the former primary.
//! - **Unpublished changes.** Writes by other means ([`Map`], a transaction, HSET) are not
//!   published. Their staleness is bounded only by [`Options::time_to_live`], which is not set by
//!   default.
//! - **Deletion and renaming.** They are detected within another quarter of the bound, unless the
//!   map is created again meanwhile. If a heartbeat has reported the map's expiry, no cached value
//!   is returned after that time.
//! - Within one process and client, a read that begins after a write has returned sees that write
//!   or a later one.
//! - A value that was read while its key was changed is not cached. No cached value outlives an
//!   interruption of the subscription.
//! - While it is not certain that the cache receives all messages, it is bypassed: reads go to the
//!   server, always to its primary.

#![cfg_attr(docsrs, feature(doc_cfg))]

mod listen;
mod map;
mod message;
mod near;
mod options;
mod read;
mod stats;
mod update;
mod views;
mod write;

pub use map::LocalCachedMap;
pub use options::Options;
pub use redgrid_codecs as codecs;
pub use redgrid_codecs::{Codec, Decode, Encode, Numeric};
pub use redgrid_core::object::{ExpireCondition, Lifetime, Object, ObjectError, Scan};
pub use redgrid_core::{Client, Config, Failure, Name, ServerError};
pub use redgrid_map::Map;
pub use stats::Stats;
