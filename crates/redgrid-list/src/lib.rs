//! Lists that all processes share, in the wire format of Redisson's RList.
//!
//! ```no_run
//! # #[cfg(feature = "json")]
//! # async fn demo() -> Result<(), Box<dyn std::error::Error>> {
//! use redgrid_list::{Client, List};
//!
//! let client = Client::connect("redis://127.0.0.1:6379").await?;
//! let stops: List<String> = List::new(&client, "stops");
//! stops.push_many(["A", "C"].map(String::from).iter()).await?;
//! stops.insert(1, &"B".to_owned()).await?;
//! assert_eq!(stops.range(1..).await?, ["B", "C"]);
//! let mut all = stops.stream();
//! while let Some(stop) = all.try_next().await? {
//!     println!("{stop}");
//! }
//! # Ok(()) }
//! ```
//!
//! # Keys
//!
//! | key | type | lifetime |
//! |---|---|---|
//! | `name` | list: elements as their codec writes them; Redisson's | none, unless set |
//! | `__redisson_list_cursor_{name}`, or the name of a cursor | string: where [`List::shared_stream`] goes on; Redisson's | an hour behind the last page |
//!
//! # Promises
//!
//! - A change is sent once. Where its answer is lost it ends [`ObjectError::OutcomeUnknown`], and is not made a second time.
//! - What one call does in the middle of a list is one step, whatever the elements are: none is taken for a mark.
//! - Indices count from 0 and are told when they are beyond the end: `None` of what reads, [`ObjectError::OutOfBounds`] of what changes.
//! - Elements are equal whose bytes are.
//! - A stream holds a page at a time, whatever the size of the list.
//! - What can not be decoded is an error about this one element, which stays; a stream goes on behind it.

mod change;
mod list;
mod place;
mod push;
mod read;
mod remove;
mod sort;
mod stream;
mod update;

pub use list::List;
pub use redgrid_codecs as codecs;
pub use redgrid_codecs::{Codec, Decode, Encode, Numeric};
pub use redgrid_core::object::{Ending, Lifetime, Object, ObjectError};
pub use redgrid_core::{Client, Config, Name, ServerError};
pub use remove::Occurrences;
pub use sort::Sort;
pub use stream::Elements;
