//! Maps and sets that all processes share and whose entries have a lifetime, in the wire format of Redisson.
//!
//! ```no_run
//! # #[cfg(feature = "json")]
//! # async fn demo() -> Result<(), Box<dyn std::error::Error>> {
//! use std::time::Duration;
//! use redgrid_cache::{Client, Limit, MapCache};
//!
//! let client = Client::connect("redis://127.0.0.1:6379").await?;
//! let sessions: MapCache<String, u64> = MapCache::new(&client, "sessions");
//! sessions.set_limit(Limit::least_recently_used(10_000)).await?;
//! sessions.set("4711", &42).expires_in(Duration::from_secs(3600)).idle_for(Duration::from_secs(600)).await?;
//! assert_eq!(sessions.get("4711").await?, Some(42));
//! # Ok(()) }
//! ```
//!
//! # Which one
//!
//! | | [`MapCache`] | [`NativeMapCache`] | [`SetCache`] |
//! |---|---|---|---|
//! | on the wire | Redisson's `RMapCache` | Redisson's `RMapCacheNative`, a plain hash | Redisson's `RSetCache` |
//! | servers | all | Redis 7.4, Valkey 9 | all |
//! | idle time, limit, events of entries | yes | no | no |
//! | what is over is taken out by | whoever asks for anything, 100 at a time | the server | whoever writes, 100 at a time |
//!
//! # Keys
//!
//! | key | type | lifetime |
//! |---|---|---|
//! | `name` | hash: keys and packed values, of a native one plain values; of a set cache a sorted set of values by their ends; Redisson's | none, unless set |
//! | `redisson__timeout__set:{name}` | sorted set: when the lifetimes of keys are over; Redisson's | that of `name`; gone with the last |
//! | `redisson__idle__set:{name}` | sorted set: when keys will have been unused for their idle time; Redisson's | that of `name`; gone with the last |
//! | `redisson__map_cache__last_access__set:{name}` | sorted set: when keys were used, or how often; only with a limit; Redisson's | that of `name`; gone with the last |
//! | `{name}:redisson_options` | hash: the limit, and whether somebody listens; Redisson's | that of `name`; else none: it stays with an empty map |
//! | `redisson__map__lease:{name}:<key>` | string: Redisson's, who loads a key; ended here by each change of that key | Redisson's |
//!
//! # Promises
//!
//! - What is over is not found from the millisecond on at which it is, by the clock of the server: no task has to run for that. Redisson goes by the
//!   clocks of its own hosts: where they are ahead, entries end so much earlier for Java, and what Java puts lives so much longer here.
//! - Nothing is over before its time but by the limit.
//! - A change is sent once: where its answer is lost it ends [`ObjectError::OutcomeUnknown`], and is not made a second time.
//! - Each call takes out 100 entries that are over, so that none is slow for long; what nobody asks for stays until somebody does, or a
//!   client of Redisson sweeps.
//! - Keys are equal whose bytes are.

mod cache;
mod events;
mod expire;
mod layout;
mod limit;
mod put;
mod read;
mod remove;
mod scan;
mod set_cache;
mod update;

pub use cache::{Cache, MapCache, NativeMapCache};
pub use events::{EntryEvent, Events, Listen, Notice};
pub use expire::Expire;
pub use layout::{Layout, Native, Packed};
pub use limit::{Limit, Use};
pub use put::{Insert, Set, SetMany};
pub use redgrid_codecs as codecs;
pub use redgrid_codecs::{Codec, Decode, Encode};
pub use redgrid_core::object::{Lifetime, Object, ObjectError, Scan};
pub use redgrid_core::{Client, Config, Name, ServerError};
pub use set_cache::{SetCache, SetInsert};
