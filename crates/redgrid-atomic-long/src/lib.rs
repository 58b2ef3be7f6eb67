//! Atomic numbers on Redis and Valkey, shared with Java services that use Redisson.
//!
//! ```no_run
//! # async fn demo() -> Result<(), Box<dyn std::error::Error>> {
//! use redgrid_atomic_long::{AtomicLong, Client};
//!
//! let client = Client::connect("redis://127.0.0.1:6379").await?;
//! let hits = AtomicLong::new(&client, "hits");
//! let so_many = hits.increment().await?;
//! # Ok(()) }
//! ```
//!
//! What is counted often and asked for seldom is a [`LongAdder`] or a [`DoubleAdder`]: each process counts in its own memory, and a
//! sum asks all of them.
//!
//! # What it promises
//!
//! - Exact over all of i64: no number passes through floating point on its way. A sum beyond that is an error, of that call only.
//! - What several tasks of a process add at the same time leaves as one command, and each is told the number after its own.
//! - A change is sent once: after a lost answer it is `OutcomeUnknown`, never silently made twice. With
//!   [`AtomicLong::exactly_once`] it is sent until it is answered, and made once.

mod add;
mod adder;
mod adds;
mod double;
mod error;
mod long;
mod number;

pub use add::Add;
pub use adder::{AdderError, Amount, DoubleAdder, LongAdder, Reset, Sum};
pub use double::AtomicDouble;
pub use error::AtomicError;
pub use long::{AtomicLong, Comparison};
pub use redgrid_core::{Client, Config, ServerError};
