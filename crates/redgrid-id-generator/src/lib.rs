//! Unique ids from Redis and Valkey, for all processes that use the same server.
//!
//! Use a [`TimeOrderedId`] for ids that increase with time, and an [`IdGenerator`] for small
//! numbers.
//!
//! ```no_run
//! # async fn demo() -> Result<(), Box<dyn std::error::Error>> {
//! use redgrid_id_generator::{Client, IdGenerator, TimeOrderedId};
//!
//! let client = Client::connect("redis://127.0.0.1:6379").await?;
//! let order = TimeOrderedId::new(&client, "order").next().await?; // rises with time
//! let ticket = IdGenerator::new(&client, "ticket").next().await?; // small numbers, in blocks
//! # Ok(()) }
//! ```
//!
//! # Guarantees
//!
//! - No id is issued twice, as long as the server loses no acknowledged counter.
//!   `docs/objects/ids.md` describes the consequences of such a loss.
//! - The ids of one client increase, over all its tasks. Numbers may be skipped: ids that a process
//!   has in memory when it ends are never issued.
//! - One request fetches many ids, for all waiting calls together, and ahead of demand.
//! - No call waits without limit: without a reply it ends after `response_timeout × (retries + 1)`.
//!
//! # Keys
//!
//! | key | type | lifetime |
//! |---|---|---|
//! | `name` of an [`IdGenerator`] | string: the first id of the next block; Redisson's | none |
//! | `{name}:allocation` of an [`IdGenerator`] | string: the size of a block; Redisson's | none |
//! | `icr:<name>:<year>:<month>:<day>` of a [`TimeOrderedId`] | string: the last number of the day | until two days after the day |
//!
//! A namespace precedes the name.

#![cfg_attr(docsrs, feature(doc_cfg))]

mod block;
mod calendar;
mod day_counter;
mod error;
mod id_generator;
mod prefetch;
mod series;
mod size;
mod time_ordered;

pub use error::IdError;
pub use id_generator::IdGenerator;
pub use redgrid_core::{Client, Config, Failure, ServerError};
pub use time_ordered::{DecodedId, TimeOrderedId};
