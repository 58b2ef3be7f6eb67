//! All keys of the servers: streams of objects, counts, deletion with companions, and TTLs in bulk.
//!
//! Use it to list, count, expire or delete objects by their names, without knowing their keys.
//!
//! ```no_run
//! # async fn demo() -> Result<(), Box<dyn std::error::Error>> {
//! use redgrid_keys::{Client, Keys};
//!
//! let client = Client::connect("redis://127.0.0.1:6379").await?;
//! let keys = Keys::new(&client);
//! let mut carts = keys.objects().matching("cart:*");
//! while let Some(cart) = carts.try_next().await? {
//!     println!("{cart}");
//! }
//! println!("{} carts are gone", keys.delete_by_pattern("cart:*").await?);
//! # Ok(()) }
//! ```
//!
//! # Guarantees
//!
//! - A stream returns every key that exists from its beginning to its end at least once. This holds
//!   on every topology, also if nodes are replaced or slots move meanwhile; keys may then be
//!   returned twice. If this is not possible, the stream ends with an error.
//! - A client with a namespace sees, counts and deletes only the keys under it.
//! - The keys that belong to an object are deleted with it: the queue of a fair lock, the leases of
//!   a semaphore. Keys that protect from late requests are kept: fences, and token counters.
//! - A change is sent once. An error contains the names that are known to be done, or not done.
//! - Memory is bounded: a stream holds one page at a time, as does a deletion by pattern.
//!
//! It has no keys of its own.

#![cfg_attr(docsrs, feature(doc_cfg))]

mod bulk;
mod cluster_view;
mod delete_by_pattern;
mod error;
mod flush;
mod glob;
mod key;
mod key_ownership;
mod keys;
mod listing;
mod multimap;
mod random;
mod scan;

pub use error::{KeysError, NotDone};
pub use flush::FlushScope;
pub use key::{Key, Kind, ToKey};
pub use keys::Keys;
pub use listing::Listing;
pub use redgrid_core::object::{Lifetime, Object, ObjectError};
pub use redgrid_core::{Client, Config, Failure, InvalidName, Name, NodeId, ServerError};
