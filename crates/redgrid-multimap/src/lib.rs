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
//! | `name` | hash: keys as their codec writes them, and the hash of each; Redisson's | none |
//! | `{name}:<hash>` | set or list: the values of a key as their codec writes them; Redisson's | none; gone with the last value |
//!
//! # Promises
//!
//! - What concerns one key is one step. A change is sent once: where its answer is lost it ends [`ObjectError::OutcomeUnknown`].
//! - What concerns all keys ([`Multimap::clear`], [`Multimap::len`]) goes by pages of keys, so that the server is never busy with it for long: each
//!   page is as it is at one moment.
//! - Keys are equal whose bytes are, and so are values.

mod all;
mod change;
mod kind;
mod multimap;
mod read;

pub use all::Stream;
pub use kind::{Kind, Lists, Sets};
pub use multimap::{ListMultimap, Multimap, SetMultimap};
pub use redgrid_codecs as codecs;
pub use redgrid_codecs::{Codec, Decode, Encode};
pub use redgrid_core::object::{ObjectError, Scan};
pub use redgrid_core::{Client, Config, Name, ServerError};
