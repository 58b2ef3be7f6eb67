//! Maps that all processes share, whose values each keeps for itself until they are changed: Redisson's RLocalCachedMap.
//!
//! ```no_run
//! # #[cfg(feature = "json")]
//! # async fn demo() -> Result<(), Box<dyn std::error::Error>> {
//! use redgrid_local_cached_map::{Client, LocalCachedMap};
//!
//! let client = Client::connect("redis://127.0.0.1:6379").await?;
//! let prices: LocalCachedMap<String, u32> = LocalCachedMap::new(&client, "prices");
//! prices.set("P0001", &1999).await?;
//! prices.get("P0001").await?; // asks the server
//! prices.get("P0001").await?; // does not
//! println!("{:.0} % without the server", 100.0 * prices.stats().hit_ratio());
//! # Ok(()) }
//! ```
//!
//! # Keys and channels
//!
//! | key or channel | type | lifetime |
//! |---|---|---|
//! | `name` | hash: keys and values as their codecs write them; Redisson's | none, unless set |
//! | `{name}:topic` | channel: which keys were changed; Redisson's | |
//! | `redgrid_near:{name}:<client id>` | channel: pulses, of this client to itself | |
//!
//! # Promises
//!
//! - Every change by these methods tells all who keep the map, in the same step in which it is made.
//! - **A value is at most so stale, where changes are told:** it was the server's at some moment not longer ago than [`Options::max_stale`]
//!   before the read began. What is written in another way ([`Map`], a transaction, HSET) is told to nobody, and has no bound but the entry's own
//!   time ([`Options::time_to_live`]: none unless set). As long as messages arrive, a value goes as soon as the message of its change
//!   arrives. The bound holds whatever becomes of connections, as every fourth of it the cache sends itself a message behind all others,
//!   and gives out nothing when none comes back; only a primary that was replaced and does not know it is believed as long as the client
//!   believes it, as with any read. That the map is deleted or renamed is seen within a fourth of the bound more, unless it is made anew
//!   meanwhile; a map whose end a pulse has told is not read behind it.
//! - In one process and client a read that begins after a write has returned sees that write, or a later one.
//! - What was read while its key was changed is not kept, and nothing outlives a break of the subscription.
//! - A cache that is not certain to hear is passed by: reads ask the server, always its primary.

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
pub use redgrid_core::object::{Ending, Lifetime, Object, ObjectError, Scan};
pub use redgrid_core::{Client, Config, Name, ServerError};
pub use redgrid_map::Map;
pub use stats::Stats;
