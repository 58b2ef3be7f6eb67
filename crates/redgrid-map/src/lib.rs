//! Maps that all processes share, in the wire format of Redisson's RMap.
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
//! | `redgrid_fence:{name}`, `redgrid_fence:{name}:<client id>:<number>` | strings: what [`Map::set_fenced`] remembers | those of a [`Fence`] |
//!
//! # Promises
//!
//! - A change is sent once. Where its answer is lost it ends [`ObjectError::OutcomeUnknown`], and is not made a second time.
//! - Keys are equal whose bytes are: a codec that writes one value in two ways is none for keys.
//! - A stream holds a page at a time, whatever the size of the map.
//! - What can not be decoded is an error about this one entry, which stays; a stream goes on behind it.

mod add;
mod backed;
mod compare;
mod insert;
#[cfg(feature = "locks")]
mod locked;
mod map;
#[cfg(feature = "locks")]
mod of_key;
mod read;
mod remove;
mod scan;
mod set;
mod update;

pub use async_trait::async_trait;
pub use backed::{
    BackedError, BackedMap, Backing, Behind, Fault, Loaded, Loader, Loss, TookTooLong, WriteBehind, Writer,
};
pub use futures_util::stream::BoxStream;
#[cfg(feature = "locks")]
pub use locked::{ComputeError, Locked};
pub use map::Map;
pub use redgrid_codecs as codecs;
pub use redgrid_codecs::{Codec, Decode, Encode, Numeric};
pub use redgrid_core::fence::{Fence, FenceError};
pub use redgrid_core::object::{Ending, Lifetime, Object, ObjectError};
pub use redgrid_core::{Client, Config, Name, ServerError, Token};
pub use scan::Scan;
