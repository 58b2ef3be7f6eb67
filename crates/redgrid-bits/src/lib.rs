//! Bit sets, Bloom filters and HyperLogLogs that all processes share, in the wire format of
//! Redisson.
//!
//! Use a [`BitSet`] for flags and small integers, a [`BloomFilter`] for known elements, and a
//! [`HyperLogLog`] for the number of different elements.
//!
//! ```no_run
//! # #[cfg(feature = "json")]
//! # async fn demo() -> Result<(), Box<dyn std::error::Error>> {
//! use redgrid_bits::{BitSet, BloomFilter, Client, HyperLogLog};
//!
//! let client = Client::connect("redis://127.0.0.1:6379").await?;
//! let seats = BitSet::new(&client, "seats");
//! let was_taken = seats.set(17, true).await?; // true: another client was faster
//! let taken = seats.count().await?;
//!
//! let seen: BloomFilter<String> = BloomFilter::new(&client, "seen");
//! seen.try_init(1_000_000, 0.01).await?;
//! if seen.add("https://example.org/").await? {
//!     // not seen before, for certain
//! }
//!
//! let visitors: HyperLogLog<u64> = HyperLogLog::new(&client, "visitors");
//! visitors.add(&42).await?;
//! println!("{taken} seats, was taken: {was_taken}; about {} visitors", visitors.count().await?);
//! # Ok(()) }
//! ```
//!
//! # Keys
//!
//! | key | type | lifetime |
//! |---|---|---|
//! | `name` of a [`BitSet`] | string: bit 0 is the highest of the first byte; Redisson's | none, unless set |
//! | `redgrid_bits:{name}:1`, `:2`, `:3` | strings: temporary results of combining bit sets | deleted at the end of the script |
//! | `name` of a [`BloomFilter`] | string: its bits; Redisson's | none, unless set |
//! | `{name}:config` | hash: `size`, `hashIterations`, `expectedInsertions`, `falseProbability`; Redisson's | none, unless set |
//! | `name` of a [`HyperLogLog`] | string: the server's own; Redisson's | none, unless set |
//!
//! # Guarantees
//!
//! - A change is sent once. If its reply is lost, the call returns [`Failure::OutcomeUnknown`]
//!   and is not repeated.
//! - No call blocks the server for longer than one pass over the string takes. A write of more than
//!   a mebibyte is split.
//! - If the size of a filter was changed, the server detects the change before it reads or adds
//!   elements.

#![cfg_attr(docsrs, feature(doc_cfg))]

mod bit_set;
mod bloom_filter;
mod combine;
mod fields;
mod hyper_log_log;
mod ones;
mod shape;

pub use bit_set::BitSet;
pub use bloom_filter::BloomFilter;
pub use fields::{Field, FieldOp, Overflow};
pub use hyper_log_log::HyperLogLog;
pub use ones::Ones;
pub use redgrid_codecs as codecs;
pub use redgrid_codecs::{Codec, Encode};
pub use redgrid_core::object::{ExpireCondition, Lifetime, Object, ObjectError};
pub use redgrid_core::{Client, Config, Failure, Name, ServerError};
pub use shape::FilterConfig;
