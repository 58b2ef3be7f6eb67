//! Lists that all processes share, in the wire format of Redisson's RList.
//!
//! Use a [`List`] for an ordered sequence that processes change by index, by value, or page by
//! page.
//!
//! ```no_run
//! # #[cfg(feature = "json")]
//! # async fn demo() -> Result<(), Box<dyn std::error::Error>> {
//! use redgrid_list::{Client, List};
//!
//! let client = Client::connect("redis://127.0.0.1:6379").await?;
//! let stops: List<String> = List::new(&client, "stops");
//! stops.push_many(["A", "C"].map(String::from).iter()).await?;
//! stops.insert(1, "B").await?;
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
//! | `__redisson_list_cursor_{name}`, always with these braces, except in a cluster if the name has a hash tag; or the name of a cursor | string: the next index of [`List::shared_stream`]; Redisson's | an hour after the last page |
//!
//! # Guarantees
//!
//! - A change is sent once. If its reply is lost, the call returns [`Failure::OutcomeUnknown`]
//!   and is not repeated.
//! - A change in several steps that fails after the first step returns [`ObjectError::Partial`],
//!   with the number of elements that were certainly added or removed.
//! - A change of one call in the middle of a list is one step, whatever the elements are: scripts
//!   mark positions with a placeholder that differs from all elements.
//! - Indices count from 0. For an index beyond the end, reads return `None`, and changes return
//!   [`ObjectError::OutOfBounds`].
//! - Elements are equal if their encoded bytes are equal.
//! - A stream holds one page at a time, whatever the size of the list.
//! - An element that cannot be decoded is an error of this element only. The element stays in the
//!   list, and a stream continues after it.

#![cfg_attr(docsrs, feature(doc_cfg))]

mod change;
mod index;
mod list;
mod push;
mod read;
mod remove;
mod sort;
mod stream;
mod update;

pub use list::List;
pub use redgrid_codecs as codecs;
pub use redgrid_codecs::{Codec, Decode, Encode, Numeric};
pub use redgrid_core::object::{ExpireCondition, Lifetime, Object, ObjectError};
pub use redgrid_core::{Client, Config, Failure, Name, ServerError};
pub use remove::Occurrences;
pub use sort::Sort;
pub use stream::Elements;
