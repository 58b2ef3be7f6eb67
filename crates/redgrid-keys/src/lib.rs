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
//! - A stream returns every key that exists during the whole stream at least once. This holds on
//!   every topology, even if nodes are replaced or slots move meanwhile; in that case keys may be
//!   returned twice. If a stream cannot guarantee this, it ends with an error.
//! - A client with a namespace sees, counts and deletes only keys in the namespace.
//! - Deleting an object also deletes the keys that belong to it: the queue of a fair lock, the
//!   leases of a semaphore. Keys that protect against late requests are kept: fences and token
//!   counters.
//! - A change is sent once. An error states for which names the change is known to be done or not
//!   done.
//! - Memory is bounded: a stream holds one page at a time, as does a deletion by pattern.
//!
//! This crate has no keys of its own.

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
mod unless_lock;

pub use error::{KeysError, NotDone};
pub use flush::FlushScope;
pub use key::{Key, Kind, ToKey};
pub use keys::Keys;
pub use listing::Listing;
pub use redgrid_core::object::{Lifetime, Object, ObjectError};
pub use redgrid_core::{Client, Config, Failure, InvalidName, Name, NodeId, ServerError};
pub use unless_lock::UnlessLock;

/// The Lua functions that recognize a held lock by its fields. Scripts of `redgrid-inspect` begin
/// with them.
#[doc(hidden)]
pub const HOLDERS_LUA: &str = include_str!("scripts/holders.lua");
