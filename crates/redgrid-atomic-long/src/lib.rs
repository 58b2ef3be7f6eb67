//! Atomic numbers on Redis and Valkey, shared with Java services that use Redisson.
//!
//! ```no_run
//! # async fn demo() -> Result<(), Box<dyn std::error::Error>> {
//! use redgrid_atomic_long::{AtomicDouble, AtomicLong, Client};
//!
//! let client = Client::connect("redis://127.0.0.1:6379").await?;
//! let hits = AtomicLong::new(&client, "hits").increment().await?;
//! let balance = AtomicDouble::new(&client, "balance").add(0.25).await?;
//! # Ok(()) }
//! ```
//!
//! For numbers that are changed often and read seldom, use a [`LongAdder`] or a [`DoubleAdder`]:
//! each process counts in its own memory, and a sum asks all of them.
//!
//! # Guarantees
//!
//! - Exact over all of i64: no whole number passes through floating point. A sum that overflows is
//!   an error of that call only, and changes nothing.
//! - Concurrent additions of several tasks of a process are sent as one command. Each call returns
//!   the number after its own addition.
//! - A change is sent once: after a lost reply it is `OutcomeUnknown`, and never silently executed
//!   twice. With [`exactly_once`](Atomic::exactly_once) it is sent until it is answered, and
//!   executed once.

#![cfg_attr(docsrs, feature(doc_cfg))]

mod add;
mod adder;
mod atomic;
mod atomic_number;
mod batch;
mod change;
mod comparison;
mod error;
mod lifetime;
mod number;
mod update;

pub use add::Add;
pub use adder::{AdderError, AdderNumber, Amount, DoubleAdder, LongAdder, Reset, Sum};
pub use atomic::{Atomic, AtomicDouble, AtomicLong};
pub use atomic_number::{AtomicNumber, Value};
pub use comparison::Comparison;
pub use error::AtomicError;
pub use redgrid_core::object::Lifetime;
pub use redgrid_core::{Client, Config, Failure, ServerError};
