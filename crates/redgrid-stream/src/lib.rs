//! Streams that all processes share, in the wire format of Redisson's RStream: entries that are added at the end, read by anybody, and given
//! out to the consumers of groups, at least once each.
//!
//! ```no_run
//! # #[cfg(feature = "json")]
//! # async fn demo() -> Result<(), Box<dyn std::error::Error>> {
//! use redgrid_stream::{Client, Start, Stream};
//!
//! let client = Client::connect("redis://127.0.0.1:6379").await?;
//! let orders: Stream<String, u64> = Stream::new(&client, "orders");
//! let id = orders.add("book", &2).await?;
//! assert_eq!(orders.range(id..).await?[0].fields, [("book".to_owned(), 2)]);
//!
//! let mut deliveries = orders.group("billing").consumer("one").create_if_missing(Start::Beginning);
//! while let Some(delivery) = deliveries.try_next().await? {
//!     println!("{:?}", delivery.get("book"));
//!     delivery.ack().await?;
//! }
//! # Ok(()) }
//! ```
//!
//! # Keys
//!
//! | key | type | lifetime |
//! |---|---|---|
//! | `name` | stream: fields and values as their codecs write them; Redisson's | none, unless set |
//! | channel `redgrid_stream__channel:{name}` | the id of each entry that is added through this library | |
//!
//! # Promises
//!
//! - A change is sent once, and new entries are given to nobody who does not wait for them any more. Where its answer is lost it ends [`ObjectError::OutcomeUnknown`], and is not made a second time; [`Add::exactly_once`] has
//!   an entry be there once although answers are lost.
//! - A [`Consumer`] gets each entry of its group at least once, also where answers are lost, its process dies or a failover takes things back.
//!   What a primary has lost in a failover, nobody gets.
//! - No connection waits for entries. Who adds through this library wakes those who wait; what others add is found within a second.
//! - Streams over entries, and consumers, hold a page at a time.
//! - What can not be decoded is an error about this one entry: of what a group gives out those beside it are told, and [`Entries`] and consumers
//!   go on behind it; [`Range`] and [`Read`] end with it, and can be asked again.

mod add;
mod arrivals;
mod claim;
mod consumer;
mod create;
mod delivery;
mod entry;
mod error;
mod group;
mod hand;
mod id;
mod info;
mod pending;
mod read;
mod references;
mod stream;

pub use add::{Add, Trim};
pub use claim::Claimed;
pub use consumer::Consumer;
pub use create::{Create, Start};
pub use delivery::Delivery;
pub use entry::Entry;
pub use error::StreamError;
pub use group::{Group, ReadGroup};
pub use id::{EntryId, InvalidEntryId};
pub use info::{ConsumerInfo, GroupInfo, StreamInfo};
pub use pending::{Pending, PendingEntry, PendingSummary};
pub use read::{Entries, Range, Read};
pub use redgrid_codecs as codecs;
pub use redgrid_codecs::{Codec, Decode, Encode};
pub use redgrid_core::object::{Object, ObjectError};
pub use redgrid_core::{Client, Config, Name, ServerError};
pub use references::{References, Removed};
pub use stream::Stream;
