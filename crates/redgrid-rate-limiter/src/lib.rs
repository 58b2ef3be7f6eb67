//! Rate limiters on Redis and Valkey, shared by all processes that use the same server.
//!
//! Use one to limit how often all processes together call a paid API, or answer requests.
//!
//! [`RateLimiter`] is a sliding log, which Java services can use too, with Redisson.
//! [`GcraLimiter`] is the generic cell rate algorithm.
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
//! # Guarantees
//!
//! - There are never more permits than the rate allows, by the server's clock: in any period of its
//!   length for a [`RateLimiter`], and `burst + t × rate` in any time t for a [`GcraLimiter`].
//! - Permits are taken once, even if a reply is lost and the request is sent again.
//! - Callers of one client are served in the order of their calls. One request at a time is sent
//!   for all of them. Waiting callers sleep until the time that the server announced, and are
//!   notified when permits are given back or the rate changes.
//! - Between clients there is no order: the first request after permits are free takes them.
//!
//! After a failover, permits that were taken within the replication lag are free again. If a
//! server's clock is set back, one more period, or one more burst, is needed to recover.
//!
//! # Keys
//!
//! | key or channel | type | lifetime |
//! |---|---|---|
//! | `name` | hash: `rate`, `interval` in milliseconds, `type`, `keepAliveTime` | none, or [`Rate::keep_alive`] from the last use, or [`RateLimiter::expire`] |
//! | `{name}:value`, `{name}:permits` | string: number of free permits; sorted set: the log | that of `name` |
//! | `{name}:value:<client id>`, `{name}:permits:<client id>`, `redgrid_rate:{name}:<client id>` | those of one client, and the rate for which its number is right | that of `name`; without one, twice the rate's period and a minute |
//! | `name` of a [`GcraLimiter`] | string: when all permits are replenished | until then |
//! | `redgrid_once:{name}:<client id>` | string: the client's last request and its reply | 30 s and twice `response_timeout` |
//! | `redgrid_rate__channel:{name}` | channel: `0` after permits were given back or the rate changed | |
//!
//! A namespace precedes the name, also inside the braces.

#![cfg_attr(docsrs, feature(doc_cfg))]

mod acquire;
mod error;
mod gcra;
mod keys;
mod limiter;
mod log;
mod rate;
mod reply;
mod take;
mod waiters;

pub use acquire::{Acquire, Taken};
pub use error::LimitError;
pub use gcra::{AcquireGcra, GcraLimiter};
pub use limiter::{RateLimiter, SetRate};
pub use rate::{Quota, Rate, RateKind};
pub use redgrid_core::{Client, Config, Failure, ServerError};
