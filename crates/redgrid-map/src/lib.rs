//! Maps shared by all processes, in the wire format of Redisson's RMap.
//!
//! Use a [`Map`] for entries that processes read and change by key, also in front of your own store
//! ([`BackedMap`]).
//!
//! ```no_run
//! # #[cfg(feature = "json")]
//! # async fn demo() -> Result<(), Box<dyn std::error::Error>> {
//! use redgrid_map::{Client, Map};
//!
//! let client = Client::connect("redis://127.0.0.1:6379").await?;
//! let stock: Map<String, u32> = Map::new(&client, "stock");
//! stock.insert("P0001", &10).await?;
//! stock.update("P0001", |left| *left -= 1).await?;
//! let mut entries = stock.entries();
//! while let Some((product, left)) = entries.try_next().await? {
//!     println!("{product}: {left}");
//! }
//! # Ok(()) }
//! ```
//!
//! # Keys
//!
//! | key | type | lifetime |
//! |---|---|---|
//! | `name` | hash: keys and values as their codecs write them; Redisson's | none, unless set |
//! | `redgrid_fence:{name}`, `redgrid_fence:{name}:<client id>:<number>` | strings: the state of the fence that [`Map::set_fenced`] checks | those of a [`Fence`] |
//!
//! # Guarantees
//!
//! - A change is sent once. If its reply is lost, the call returns [`Failure::OutcomeUnknown`]
//!   and is not repeated.
//! - Keys are equal if their encoded bytes are equal. A codec that encodes a value in more than one
//!   way is unsuitable for keys.
//! - A stream holds one page in memory at a time, whatever the size of the map.
//! - An entry that cannot be decoded is an error for this entry only. It stays in the map, and a
//!   stream continues after it.

#![cfg_attr(docsrs, feature(doc_cfg))]

mod add;
mod backed;
mod compare;
#[cfg(feature = "locks")]
mod compute_locked;
mod insert;
#[cfg(feature = "locks")]
mod key_locks;
mod map;
mod read;
mod remove;
mod scan;
mod set;
mod update;

pub use async_trait::async_trait;
pub use backed::{
    BackedError, BackedMap, BackedMapBuilder, Loaded, Loader, Loss, Storable, StoreError, StoreTimeout, WriteBehind,
    WriteBehindStats, Writer,
};
#[cfg(feature = "locks")]
pub use compute_locked::{ComputeError, Locked};
pub use futures_util::stream::BoxStream;
pub use map::Map;
pub use redgrid_codecs as codecs;
pub use redgrid_codecs::{Codec, Decode, Encode, Numeric};
pub use redgrid_core::fence::{Fence, FenceError};
pub use redgrid_core::object::{ExpireCondition, Lifetime, Object, ObjectError, Scan};
pub use redgrid_core::{Client, Config, Failure, Name, ServerError, Token};
