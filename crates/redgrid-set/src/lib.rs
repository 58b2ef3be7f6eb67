//! Sets that all processes share, in the wire format of Redisson: an unordered one, and three
//! sorted ones.
//!
//! ```no_run
//! # #[cfg(feature = "json")]
//! # async fn demo() -> Result<(), Box<dyn std::error::Error>> {
//! use redgrid_set::{Client, ScoredSortedSet, Set, SortedSet};
//!
//! let client = Client::connect("redis://127.0.0.1:6379").await?;
//! let seen: Set<String> = Set::new(&client, "seen");
//! if seen.insert("order 42").await? {
//!     println!("order 42 is new");
//! }
//! let scores: ScoredSortedSet<String> = ScoredSortedSet::new(&client, "scores");
//! scores.add_score("ada", 5.0).await?;
//! let best: Vec<(String, f64)> = scores.by_rank(..3).rev().entries().await?;
//! let due: SortedSet<(u64, String)> = SortedSet::new(&client, "due");
//! due.insert(&(1_700_000_000, "mail".to_owned())).await?;
//! let first = due.pop_first().await?;
//! # Ok(()) }
//! ```
//!
//! # Keys
//!
//! | key | type | lifetime |
//! |---|---|---|
//! | `name` of a [`Set`] | set: values as their codec writes them; Redisson's RSet | none, unless set |
//! | `name` of a [`ScoredSortedSet`] | sorted set: values as their codec writes them, and scores; Redisson's RScoredSortedSet | none, unless set |
//! | `name` of a [`LexSortedSet`] | sorted set: text, each with the score 0; Redisson's RLexSortedSet | none, unless set |
//! | `name` of a [`SortedSet`] | sorted set: values as an [`Ordered`] codec writes them, each with the score 0 | none, unless set |
//!
//! # Guarantees
//!
//! - A change is sent once. If its reply is lost, the call returns [`Failure::OutcomeUnknown`] and
//!   is not repeated. Values that the request popped are lost.
//! - Values are equal if their encoded bytes are equal. A codec that encodes equal values
//!   differently is not suitable for sets.
//! - A stream holds one page at a time, whatever the size of the set.
//! - A value that cannot be decoded is an error of this value only; a stream continues after it. A
//!   call that reads or removes many values at once fails as a whole, but the values are removed
//!   nevertheless: a `pop_…_many` removes all of its values.

#![cfg_attr(docsrs, feature(doc_cfg))]

mod atomic;
mod combine;
mod common;
mod elements;
mod set;
mod sorted;

pub use combine::Combination;
pub use redgrid_codecs as codecs;
pub use redgrid_codecs::{Codec, Decode, Encode, Natural, Ordered};
pub use redgrid_core::object::{ExpireCondition, Lifetime, Object, ObjectError, Scan};
pub use redgrid_core::{Client, Config, Failure, Name, ServerError};
pub use set::Set;
pub use sorted::{Aggregate, InOrder, LexSortedSet, Only, Range, ScoredCombination, ScoredSortedSet, SortedSet};
