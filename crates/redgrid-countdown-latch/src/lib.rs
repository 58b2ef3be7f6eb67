//! Count-down latches on Redis and Valkey, shared with Java services that use Redisson: whoever waits goes on when so many
//! things are done, wherever they are done.
//!
//! ```no_run
//! # async fn demo() -> Result<(), Box<dyn std::error::Error>> {
//! use redgrid_countdown_latch::{Client, CountDownLatch};
//!
//! let client = Client::connect("redis://127.0.0.1:6379").await?;
//! let done = CountDownLatch::new(&client, "import:42");
//!
//! done.try_set_count(3).await?;  // once, by whoever begins
//! done.count_down().await?;      // by each of three workers
//! done.wait().await?;            // by whoever needs all three
//! # Ok(()) }
//! ```
//!
//! # What it promises
//!
//! - A count-down counts exactly once, although its answer is lost and it is sent again. So do setting and deleting. Those of a
//!   client that come while one is under way go together, in one request.
//! - Whoever waits goes on when the count is 0, deleted or at the end of its lifetime, also when every message is lost: then
//!   within `poll_interval`, or within five of them where the latch was set again meanwhile; later where a client polls more
//!   names than its `poll_budget` is for.
//! - A latch that was never set is open: who waits before the first [`CountDownLatch::try_set_count`] goes on at once, as with
//!   Redisson.
//! - A latch that is set again begins a new round. Whoever waited for the round before goes on; whoever waits for the new one
//!   is not let go by what is left of the old.
//! - All who wait for one latch through one client share one subscription and its looks. The message of a round's end names the
//!   round, as does the answer of the count-down that ends it through this client: either is enough for those who are in that round. A
//!   message of Redisson's does not, and is followed by a look for all.
//!
//! What a failover loses, it loses: `docs/countdown-latch.md` says what that means.
//!
//! # Keys
//!
//! | key or channel | type | lifetime |
//! |---|---|---|
//! | `name` | string: the count, in decimal | none, or [`TrySetCount::expires_in`]; gone at 0 |
//! | `redgrid_latch:{name}` | string: the number of the round, `-` before that of one that is over | the latch's, at most a day, renewed while somebody waits; a minute after the end |
//! | `redgrid_once:{name}:<client id>` | string: the client's last change and its answer | 30 s and twice `response_timeout` |
//! | `redisson_countdownlatch__channel__{name}` | channel: `0` when the latch opens, `1` when it is set. Not in a cluster for a name with a hash tag, which Redisson can not use there | |
//! | `redgrid_latch__channel:{name}` | channel: the number of the round that is over | |
//!
//! A namespace goes in front of the name, inside the braces too.

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
