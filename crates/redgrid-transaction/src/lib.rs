//! Transactions over buckets, maps and sets: what they read is compared and what they write is written in one step, or nothing is.
//!
//! ```no_run
//! # #[cfg(feature = "json")]
//! # async fn demo() -> Result<(), Box<dyn std::error::Error>> {
//! use redgrid_transaction::{Client, Transaction, TransactionError};
//!
//! let client = Client::connect("redis://127.0.0.1:6379").await?;
//! let transfer = Transaction::new(&client).run(|tx| async move {
//!     let accounts = tx.map::<String, i64>("accounts");
//!     let (from, to) = (accounts.get("anna").await?, accounts.get("ben").await?);
//!     accounts.set("anna", &(from.unwrap_or(0) - 10))?;
//!     accounts.set("ben", &(to.unwrap_or(0) + 10))?;
//!     Ok::<_, TransactionError>(())
//! });
//! transfer.await?;
//! # Ok(()) }
//! ```
//!
//! # Promises
//!
//! A transaction has no locks. It reads from the primary, remembers what it has read, and buffers what it writes; its commit is one script that compares
//! the one and writes the other. Values are equal whose bytes are.
//!
//! | | [`ReadCommitted`](Isolation::ReadCommitted) | [`Serializable`](Isolation::Serializable) |
//! |---|---|---|
//! | dirty read: what is not committed is read | never | never |
//! | dirty write, half a commit | never | never |
//! | lost update of what is read and then written | never: [`Conflict`](TransactionError::Conflict) | never |
//! | another answer to the same question (non-repeatable read) | never: it is asked once | never |
//! | what is read of two elements was never so at one moment (read skew) | may be | may be until the commit, which ends in a conflict then |
//! | write skew: two write what each has found the other not to have written | may be | never |
//! | phantom: a number or the whole of elements has changed | may be, where nothing of it is cleared | never |
//!
//! - **All or nothing**, whoever is killed and wherever: a commit is one script. A failover keeps it as a whole or loses it as a whole, as
//!   replication does with anything that was acknowledged.
//! - **Once**: a commit whose answer is lost is asked for again, and tells what it has done. Where no answer comes at all it ends
//!   [`OutcomeUnknown`](TransactionError::OutcomeUnknown), and is written as a whole within half a minute, or not at all.
//! - **Nothing is left behind**: a process that dies has written nothing and locked nothing.
//! - **Redisson's transactions** are kept out as they keep each other out: a commit writes nothing that one of them has locked, and waits for it.
//! - In a cluster all objects are of one slot; others are refused, typed [`OtherSlot`](TransactionError::OtherSlot), before anything is asked.
//!
//! # Keys
//!
//! | key | type | lifetime |
//! |---|---|---|
//! | those of the objects | of a bucket, a map, a set; Redisson's | none, unless set |
//! | `redgrid_once:{name}:<client id>`, of the first of them | string: the number of the client's last commit, and what became of it | under a minute |
//! | `name:transaction_lock`, `{name}:<hash>:lock` | Redisson's locks: only looked at | its own |

mod bucket;
mod commit;
mod error;
mod map;
mod map_set;
mod run;
mod set;
mod state;
mod transaction;

pub use bucket::TransactionBucket;
pub use error::TransactionError;
pub use map::TransactionMap;
pub use redgrid_codecs as codecs;
pub use redgrid_codecs::{Codec, Decode, Encode};
pub use redgrid_core::object::ObjectError;
pub use redgrid_core::{Client, Config, Name, ServerError};
pub use set::TransactionSet;
pub use state::{MAX_BYTES, MAX_ELEMENTS};
pub use transaction::{Isolation, Transaction};
