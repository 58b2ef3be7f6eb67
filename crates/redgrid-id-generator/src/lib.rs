//! Unique ids from Redis and Valkey, for all processes that reach the same server.
//!
//! ```no_run
//! # async fn demo() -> Result<(), Box<dyn std::error::Error>> {
//! use redgrid_id_generator::{Client, IdGenerator, TimeOrderedId};
//!
//! let client = Client::connect("redis://127.0.0.1:6379").await?;
//! let order = TimeOrderedId::new(&client, "order").next().await?; // rises with time
//! let ticket = IdGenerator::new(&client, "ticket").next().await?; // small numbers, shared with Redisson
//! # Ok(()) }
//! ```
//!
//! # What it promises
//!
//! - No id is given twice while the server loses no counter that it has acknowledged; docs/ids.md says what happens where it does.
//! - Ids of one client rise, over all its tasks. Numbers may be left out: what a process had in memory when it ended is not given.
//! - A call asks the server once for very many ids, together with all others who wait, and ahead of time.
//! - Nothing waits without end: without an answer a call ends after `response_timeout × (retries + 1)`.

mod block;
mod calendar;
mod days;
mod error;
mod id_generator;
mod series;
mod size;
mod supply;
mod time_ordered;

pub use error::IdError;
pub use id_generator::IdGenerator;
pub use redgrid_core::{Client, Config, ServerError};
pub use time_ordered::{DecodedId, TimeOrderedId};
