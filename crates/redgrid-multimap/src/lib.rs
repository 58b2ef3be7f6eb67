//! Maps that have several values a key and that all processes share, in the wire format of Redisson: a set of values a key, or a list.
//!
//! ```no_run
//! # #[cfg(feature = "json")]
//! # async fn demo() -> Result<(), Box<dyn std::error::Error>> {
//! use redgrid_multimap::{Client, SetMultimap};
//!
//! let client = Client::connect("redis://127.0.0.1:6379").await?;
//! let tags: SetMultimap<String, String> = SetMultimap::new(&client, "tags");
//! tags.insert("post 1", &"rust".to_owned()).await?;
//! tags.insert_many("post 1", &["redis".to_owned(), "rust".to_owned()]).await?;
//! assert_eq!(tags.values_len("post 1").await?, 2);
//! # Ok(()) }
//! ```
//!
//! # Keys
//!
//! | key | type | lifetime |
//! |---|---|---|
//! | `name` | hash: keys as their codec writes them, and the hash of each; Redisson's | none, unless set |
//! | `{name}:<hash>` | set or list: the values of a key as their codec writes them; Redisson's | that of `name`, of native ones that of the key; gone with the last value |
//! | `{name}:redisson_set_multimap_ttl`, `{name}:redisson_list_multimap_ttl` | sorted set: when keys are over, in ms since 1970, of one with lifetimes that is not native; Redisson's | that of `name`; gone with the last |
//!
//! # Promises
//!
//! - What concerns one key is one step. A change is sent once: where its answer is lost it ends [`ObjectError::OutcomeUnknown`].
//! - What concerns all keys ([`Multimap::clear`], [`Multimap::len`]) goes by pages of keys, so that the server is never busy with it for long: each
//!   page is as it is at one moment.
//! - What has a lifetime is nowhere when that is over by the server's clock; who changes the map has some of it taken out ([`SetMultimapCache`]), or the
//!   server does that ([`NativeSetMultimapCache`]).
//! - What concerns the map as a whole ([`Multimap::object`]) is one step for up to 10,000 keys.
//! - Keys are equal whose bytes are, and so are values.

mod all;
mod change;
mod expire;
mod kind;
mod multimap;
pub mod object;
mod read;

pub use all::Stream;
pub use kind::{Expiring, Kind, Lifetimes, Lists, Native, Sets};
pub use multimap::{
    ListMultimap, ListMultimapCache, Multimap, NativeListMultimapCache, NativeSetMultimapCache, SetMultimap,
    SetMultimapCache,
};
pub use object::MultimapObject;
pub use redgrid_codecs as codecs;
pub use redgrid_codecs::{Codec, Decode, Encode};
pub use redgrid_core::object::{Lifetime, ObjectError, Scan};
pub use redgrid_core::{Client, Config, Name, ServerError};
