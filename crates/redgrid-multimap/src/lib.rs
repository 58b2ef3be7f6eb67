//! Maps with several values per key, shared by all processes, in the wire format of Redisson. The
//! values of a key are a set or a list.
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
//! | `name` | hash: encoded keys, and the hash of each; Redisson's | none, unless set |
//! | `{name}:<hash>` | set or list: the encoded values of a key; Redisson's | that of `name`, for native multimaps that of the key; deleted with the last value |
//! | `{name}:redisson_set_multimap_ttl`, `{name}:redisson_list_multimap_ttl` | sorted set: expiry of each key in ms since 1970, for multimaps with lifetimes that are not native; Redisson's | that of `name`; deleted with the last entry |
//!
//! # Guarantees
//!
//! - A call about one key is one step. A change is sent once: if its reply is lost, the call
//!   returns [`Failure::OutcomeUnknown`].
//! - Calls about all keys ([`Multimap::clear`], [`Multimap::len`]) process pages of keys, so that
//!   the server is never busy for long. Each page is processed in one step.
//! - An expired key is never found, by the server's clock. Each change of a [`SetMultimapCache`]
//!   removes some expired keys; those of a [`NativeSetMultimapCache`] are removed by the server.
//! - Changes of the whole map ([`Multimap::object`]) are one step for up to 10,000 keys.
//! - Keys are equal if their encoded bytes are equal, and so are values.

#![cfg_attr(docsrs, feature(doc_cfg))]

mod all_keys;
mod change;
mod expire;
mod kind;
mod multimap;
pub mod object;
mod read;

pub use all_keys::Stream;
pub use kind::{Expiring, Kind, Lifetimes, Lists, Native, Sets};
pub use multimap::{
    ListMultimap, ListMultimapCache, Multimap, NativeListMultimapCache, NativeSetMultimapCache, SetMultimap,
    SetMultimapCache,
};
pub use object::MultimapObject;
pub use redgrid_codecs as codecs;
pub use redgrid_codecs::{Codec, Decode, Encode};
pub use redgrid_core::object::{Lifetime, ObjectError, Scan};
pub use redgrid_core::{Client, Config, Failure, Name, ServerError};
