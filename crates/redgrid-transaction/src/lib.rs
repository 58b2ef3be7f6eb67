//! Transactions over buckets, maps and sets. A commit compares the reads and executes the writes in
//! one step, or writes nothing.
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
//! # Guarantees
//!
//! A transaction uses optimistic concurrency control, without locks. It reads from the primary,
//! records its reads, and buffers its writes. Its commit is one script that compares the reads and
//! executes the writes. The bytes of values are compared.
//!
//! | anomaly | [`ReadCommitted`](Isolation::ReadCommitted) | [`Serializable`](Isolation::Serializable) |
//! |---|---|---|
//! | dirty read: reads uncommitted values | never | never |
//! | dirty write, half a commit | never | never |
//! | lost update of a value that was read and is written | never: [`Conflict`](TransactionError::Conflict) | never |
//! | non-repeatable read: two reads of a value differ | never: it is read once | never |
//! | read skew: two values are from different moments | possible | possible until the commit, which then reports a conflict |
//! | write skew: two transactions each read what the other writes | possible | never |
//! | phantom: the number or the set of elements has changed | possible, unless the object is cleared | never |
//! - **Atomic**, even if the process is killed: a commit is one script. A failover keeps it as a
//!   whole or loses it as a whole, like any acknowledged write under replication.
//! - **Exactly once**: a commit with a lost reply is sent again, and returns the stored reply. If
//!   there is no reply at all, the result is [`OutcomeUnknown`](crate::Failure::OutcomeUnknown),
//!   and the commit is written as a whole within half a minute, or not at all.
//! - **Nothing is left behind**: a process that dies before the commit has written nothing and
//!   locked nothing.
//! - **Redisson's transactions** are respected: if one of them has locked an element that a commit
//!   writes, the commit waits for it.
//! - In a cluster all objects of a transaction must be in one slot. Others are refused with
//!   [`OtherSlot`](TransactionError::OtherSlot) before any request is sent.
//!
//! # Keys
//!
//! | key | type | lifetime |
//! |---|---|---|
//! | the keys of the objects | bucket, map or set, as in Redisson | none, unless set |
//! | `redgrid_once:{name}:<client id>`, of the first object | string: the number of the client's last commit, and its reply | under a minute |
//! | `name:transaction_lock`, `{name}:<hash>:lock` | Redisson's locks: only read | its own |

#![cfg_attr(docsrs, feature(doc_cfg))]

mod bucket;
mod commit;
mod error;
mod map;
mod map_set;
mod object;
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
pub use redgrid_core::{Client, Config, Failure, Name, ServerError};
pub use set::TransactionSet;
pub use state::{MAX_BYTES, MAX_ELEMENTS};
pub use transaction::{Isolation, Transaction};
