//! Count-down latches on Redis and Valkey, shared with Java services that use Redisson.
//!
//! Use one when tasks wait until a number of operations, in any process, is done.
//!
//! ```no_run
//! # async fn demo() -> Result<(), Box<dyn std::error::Error>> {
//! use redgrid_countdown_latch::{Client, CountDownLatch};
//!
//! let client = Client::connect("redis://127.0.0.1:6379").await?;
//! let done = CountDownLatch::new(&client, "import:42");
//!
//! done.try_set_count(3).await?;  // once, by the first process
//! done.count_down().await?;      // by each of three workers
//! done.wait().await?;            // by tasks that need all three
//! # Ok(()) }
//! ```
//!
//! # Guarantees
//!
//! - A count-down is executed exactly once, even if its reply is lost and the request is retried.
//!   So are setting and deleting. Concurrent count-downs of a client are combined into one request.
//! - A wait completes when the count is 0, deleted, or at the end of its lifetime. If every message
//!   is lost, it completes within `poll_interval`, or within five of them if the latch was set
//!   again meanwhile. It takes longer if a client polls more names than its `poll_budget` allows.
//! - A latch that was never set is open: waits before the first [`CountDownLatch::try_set_count`]
//!   complete at once, as with Redisson.
//! - Setting a latch again begins a new round. It completes the waits for the previous round; late
//!   messages of the previous round do not complete waits for the new one.
//! - All waits for one latch through one client share one subscription and its polls. The message
//!   about a round's end has the round's number, as does the reply to the count-down that ends it.
//!   Either completes the waits for that round. Redisson's messages have no number, and cause a
//!   poll.
//!
//! `docs/objects/countdown-latch.md` describes what a failover can lose.
//!
//! # Keys
//!
//! | key or channel | type | lifetime |
//! |---|---|---|
//! | `name` | string: the count, in decimal | none, or [`TrySetCount::expires_in`]; gone at 0 |
//! | `redgrid_latch:{name}` | string: the number of the round, with `-` in front once the round is over | the latch's, at most a day, renewed while tasks wait; a minute after the end |
//! | `redgrid_once:{name}:<client id>` | string: the client's last change and its reply | 30 s and twice `response_timeout` |
//! | `redisson_countdownlatch__channel__{name}` | channel: `0` when the latch opens, `1` when it is set. Not in a cluster for a name with a hash tag, which Redisson cannot use there | |
//! | `redgrid_latch__channel:{name}` | channel: the number of the round that is over | |
//!
//! A namespace precedes the name, also inside the braces.

#![cfg_attr(docsrs, feature(doc_cfg))]

mod batch;
mod error;
mod keys;
mod latch;
mod round_tracker;
mod scripts;
mod set;
mod wait;
mod waiters;

pub use error::{LatchError, WaitError};
pub use latch::CountDownLatch;
pub use redgrid_core::{Client, Config, Failure, ServerError};
pub use set::TrySetCount;
pub use wait::Wait;
