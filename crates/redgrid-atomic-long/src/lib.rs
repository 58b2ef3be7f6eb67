//! Atomic numbers on Redis and Valkey, shared with Java services that use Redisson.
//!
//! ```no_run
//! # async fn demo() -> Result<(), Box<dyn std::error::Error>> {
//! use redgrid_atomic_long::{AtomicDouble, AtomicLong, Client};
//!
//! let client = Client::connect("redis://127.0.0.1:6379").await?;
//! let so_many = AtomicLong::new(&client, "hits").increment().await?;
//! let balance = AtomicDouble::new(&client, "balance").add(0.25).await?;
//! # Ok(()) }
//! ```
//!
//! What is counted often and asked for seldom is a [`LongAdder`] or a [`DoubleAdder`]: each process counts in its own memory, and a
//! sum asks all of them.
//!
//! # What it promises
//!
//! - Exact over all of i64: no whole number passes through floating point on its way. A sum beyond all numbers is an error, of that
//!   call only, and nothing is changed by it.
//! - What several tasks of a process add at the same time leaves as one command, and each is told the number after its own.
//! - A change is sent once: after a lost answer it is `OutcomeUnknown`, never silently made twice. With
//!   [`exactly_once`](Atomic::exactly_once) it is sent until it is answered, and made once.

mod add;
mod adder;
mod adds;
mod atomic;
mod change;
mod comparison;
mod error;
mod lifetime;
mod line;
mod number;
mod numeral;
mod update;

pub use add::Add;
pub use adder::{AdderError, Amount, DoubleAdder, LongAdder, Reset, Sum};
pub use atomic::{Atomic, AtomicDouble, AtomicLong};
pub use comparison::Comparison;
pub use error::AtomicError;
pub use numeral::{Numeral, Value};
pub use redgrid_core::object::Lifetime;
pub use redgrid_core::{Client, Config, ServerError};
