//! Maps and sets that all processes share, with lifetimes of entries, in the wire format of
//! Redisson.
//!
//! Use them for sessions, login codes, or messages that were handled already.
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
//! let login = sessions.set("4711", &42).expires_in(Duration::from_secs(3600));
//! login.idle_for(Duration::from_secs(600)).await?;
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
//! | expired entries are removed by | any call, 100 at a time | the server | any write, 100 at a time |
//!
//! # Keys
//!
//! | key | type | lifetime |
//! |---|---|---|
//! | `name` | map cache: hash of keys and packed values; native: hash of keys and plain values; set cache: sorted set of values, scored by expiry; Redisson's | none, unless set |
//! | `redisson__timeout__set:{name}` | sorted set: when the lifetime of each key ends; Redisson's | that of `name`; deleted with the last entry |
//! | `redisson__idle__set:{name}` | sorted set: when the idle time of each key ends unless it is accessed; Redisson's | that of `name`; deleted with the last entry |
//! | `redisson__map_cache__last_access__set:{name}` | sorted set: time or number of accesses of each key; only with a limit; Redisson's | that of `name`; deleted with the last entry |
//! | `{name}:redisson_options` | hash: the limit, and whether there are listeners; Redisson's | that of `name`; otherwise none: it outlives the last entry |
//! | `redisson__map__lease:{name}:<key>` | string: the client that loads a key; Redisson's; each change of that key from here deletes it | Redisson's |
//!
//! # Guarantees
//!
//! - An expired entry is not found from the millisecond of its expiry on, by the server's clock. No
//!   background task is needed for that. Redisson uses the clocks of its own hosts. If these are
//!   ahead, Java sees entries expire earlier by the difference, and entries that Java puts live
//!   longer here.
//! - No entry is removed before its expiry, except by the limit.
//! - A change is sent once. If its reply is lost, the call returns [`Failure::OutcomeUnknown`]
//!   and is not repeated.
//! - Each call removes up to 100 expired entries, so that no call is slow for long. Expired entries
//!   stay in memory until the next call, or until a Redisson client removes them.
//! - Keys are equal if their encoded bytes are equal.

#![cfg_attr(docsrs, feature(doc_cfg))]

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
pub use limit::{EvictionOrder, Limit};
pub use put::{Insert, Set, SetMany};
pub use redgrid_codecs as codecs;
pub use redgrid_codecs::{Codec, Decode, Encode};
pub use redgrid_core::object::{Lifetime, Object, ObjectError, Scan};
pub use redgrid_core::{Client, Config, Failure, Name, ServerError};
pub use set_cache::{SetCache, SetInsert};
