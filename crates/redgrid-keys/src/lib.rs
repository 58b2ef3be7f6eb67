//! All that is on the servers, as a whole: streams of objects, counts, deletion with companions, lifetimes in bulk.
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
//! # Promises
//!
//! - What is there from the beginning of a stream to its end comes at least once, on every topology, also when nodes are replaced or
//!   slots move meanwhile. Some may come twice then. Where that can not be had the stream ends with an error.
//! - A client with a namespace sees, counts and deletes what is under it, and nothing else.
//! - What belongs to an object goes with it: the queue of a fair lock, the leases of a semaphore. What protects from those who are late
//!   stays: fences, and counters of tokens.
//! - A change is sent once. An error says which names are known to be done and which are not.
//! - Memory is bounded: a stream has a page at a time, and so has whoever deletes by a pattern.

mod error;
mod flush;
mod glob;
mod key;
mod keys;
mod listing;
mod many;
mod multimap;
mod random;
mod row;
mod sweep;
mod view;
mod walk;

pub use error::{KeysError, NotDone};
pub use flush::Everything;
pub use key::{Key, Kind, ToKey};
pub use keys::Keys;
pub use listing::Listing;
pub use redgrid_core::object::{Lifetime, Object, ObjectError};
pub use redgrid_core::{Client, Config, InvalidName, Name, NodeId, ServerError};
