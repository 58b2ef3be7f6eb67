//! Rate limiters on Redis and Valkey: so much, and no more, over all processes that reach one server. A sliding log that Java
//! services use too, by Redisson; and the generic cell rate algorithm.
//!
//! ```no_run
//! # async fn demo() -> Result<(), Box<dyn std::error::Error>> {
//! use std::time::Duration;
//! use redgrid_rate_limiter::{Client, GcraLimiter, Quota, Rate, RateLimiter};
//!
//! let client = Client::connect("redis://127.0.0.1:6379").await?;
//!
//! let mails = RateLimiter::new(&client, "mails");
//! mails.try_set_rate(Rate::overall(100, Duration::from_secs(1))).await?;
//! mails.acquire().await?;
//!
//! let calls = GcraLimiter::new(&client, "calls", Quota::per_second(1000).burst(50));
//! calls.acquire().await?;
//! # Ok(()) }
//! ```
//!
//! # What it promises
//!
//! - Never more than the rate: in any window of its length for a [`RateLimiter`], and `burst + t × rate` in any time t for a
//!   [`GcraLimiter`], by the server's clock.
//! - Permits are taken once, although answers are lost and requests are sent again.
//! - Tasks of one process come in the order in which they asked. One request at a time asks for all of them; who waits sleeps for as
//!   long as the server says, and is asked for again at once when permits go back or the rate is changed.
//! - Between processes nobody is first: who asks first when permits are free has them.
//!
//! What a failover loses, it loses: permits that were taken within the replication lag are free again. A server's clock that is set
//! back costs one window more, or one burst.
//!
//! # Keys
//!
//! | key or channel | type | lifetime |
//! |---|---|---|
//! | `name` | hash: `rate`, `interval` in milliseconds, `type`, `keepAliveTime` | none, or [`Rate::keep_alive`] from its last use, or [`RateLimiter::expire`] |
//! | `{name}:value`, `{name}:permits` | string: how many are free; sorted set: what was taken when | that of `name` |
//! | `{name}:value:<client id>`, `{name}:permits:<client id>`, `redgrid_rate:{name}:<client id>` | the same of one client, and the rate for which it is right | that of `name`; without one, twice the rate's time and a minute |
//! | `name`, of a [`GcraLimiter`] | string: when all is replenished | until then |
//! | `redgrid_once:{name}:<client id>` | string: the client's last request and its answer | 30 s and twice `response_timeout` |
//! | `redgrid_rate__channel:{name}` | channel: `0` when permits went back or the rate changed | |
//!
//! A namespace goes in front of the name, inside the braces too.

#![cfg_attr(docsrs, feature(doc_cfg))]

mod acquire;
mod attend;
mod error;
mod gcra;
mod keys;
mod limiter;
mod log;
mod queue;
mod rate;
mod told;

pub use acquire::{Acquire, Taken};
pub use error::LimitError;
pub use gcra::{AcquireCells, GcraLimiter};
pub use limiter::{RateLimiter, SetRate};
pub use rate::{Quota, Rate, RateKind};
pub use redgrid_core::{Client, Config, Failure, ServerError};
