//! Streams that all processes share, in the wire format of Redisson's RStream.
//!
//! Entries are appended at the end. Any process can read them by id, and groups deliver each entry
//! to one of their consumers, at least once.
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
//! let consumer = orders.group("billing").consumer("one");
//! let mut deliveries = consumer.create_if_missing(Start::Beginning);
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
//! | `name` | stream: encoded fields and values; Redisson's | none, unless set |
//! | channel `redgrid_stream__channel:{name}` | the id of each entry that is added through this library | |
//!
//! # Guarantees
//!
//! - A change is sent once. If its reply is lost, the call returns [`Failure::OutcomeUnknown`] and
//!   is not repeated. With [`Add::exactly_once`] the request is sent again, and still adds one
//!   entry.
//! - A request for new entries that arrives after its caller has stopped waiting delivers no
//!   entries.
//! - A [`Consumer`] receives each entry of its group at least once, also after lost replies, a
//!   crash of its process, or a failover that reverts acknowledgements. Entries that a primary has
//!   lost in a failover are not delivered.
//! - No connection is blocked while a caller waits for entries. An entry that is added through this
//!   library wakes the waiters; entries that others add are found within a second.
//! - [`Entries`] and consumers hold one page of entries at a time.
//! - An entry that cannot be decoded is an error of this entry only. Reads of a group return the
//!   other entries, and [`Entries`] and consumers continue after it. [`Range`] and [`Read`] fail,
//!   and can be repeated.

#![cfg_attr(docsrs, feature(doc_cfg))]

mod add;
mod claim;
mod consumer;
mod create;
mod delivery;
mod entry;
mod error;
mod group;
mod id;
mod info;
mod new_entries;
mod outstanding;
mod pages;
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
pub use redgrid_core::{Client, Config, Failure, Name, ServerError};
pub use references::{References, Removed};
pub use stream::Stream;
