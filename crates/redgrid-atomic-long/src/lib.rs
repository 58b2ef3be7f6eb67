//! Numbers that all processes share, on Redis and Valkey, and with Java services that use Redisson.
//!
//! Use an [`AtomicLong`] or an [`AtomicDouble`] to count, to limit, or to draw numbers.
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
//! each process counts in its own memory, and a sum requests the counts of all processes.
//!
//! # Guarantees
//!
//! - Whole numbers are exact over all of i64: none passes through floating point. A sum that
//!   overflows is an error of that call only, and changes nothing.
//! - Concurrent additions of several tasks of a process are sent as one command. Each call returns
//!   the number after its own addition.
//! - A change is sent once: after a lost reply it is `OutcomeUnknown`, and never silently executed
//!   twice. With [`exactly_once`](Atomic::exactly_once) it is sent until it is answered, and
//!   executed once.
//!
//! # Keys
//!
//! | key or channel | type | lifetime |
//! |---|---|---|
//! | `name` | string: the number in decimal; Redisson's | none, or [`Add::expires_in`] |
//! | `redgrid_once:{name}:<client id>` | string: the client's last change with [`exactly_once`](Atomic::exactly_once), and its reply | 30 s and twice `response_timeout` |
//! | `{name}:<round>:counter`, `{name}:<round>:semaphore` of an adder | strings: the sum of a round, and the number of replies; Redisson's | 10 minutes; deleted when all have replied |
//! | `redgrid_adder_round:{name}:<round>` | string: whether a round is open | 10 minutes |
//! | `redgrid_adder:{name}` | hash: the saved total of an adder | none |
//! | `redgrid_adder_saved:{name}:<member>` | string: the amount that a member has saved to it | three days, renewed |
//! | `{name}:adder-topic` | channel: requests for sums and resets; Redisson's | |
//!
//! A namespace precedes the name, also inside the braces.

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
