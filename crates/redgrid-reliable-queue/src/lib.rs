//! Queues on Redis and Valkey whose messages are acknowledged: each is given to one consumer at a time, and comes back unless it is settled
//! within its visibility, whatever becomes of the consumer. What Redisson sells as RReliableQueue, and SQS has as a service.
//!
//! ```no_run
//! # #[cfg(feature = "json")]
//! # async fn demo() -> Result<(), Box<dyn std::error::Error>> {
//! use std::time::Duration;
//! use redgrid_reliable_queue::{Client, ReliableQueue};
//!
//! let client = Client::connect("redis://127.0.0.1:6379").await?;
//! let orders: ReliableQueue<String> = ReliableQueue::new(&client, "orders");
//! orders.push("order 7").priority(5).deduplicate("order-7").await?;
//!
//! let order = orders.receive().visibility(Duration::from_secs(60)).await?;
//! match order.value() {
//!     Ok(text) if text.starts_with("order") => order.ack().await?, // done: it is over
//!     Ok(_) => order.nack(Duration::from_secs(10)).await?,          // again, in 10 s
//!     Err(_) => order.reject("no order").await?,                    // never again: see `dead`
//! }
//! # Ok(()) }
//! ```
//!
//! # Keys
//!
//! All in the slot of the name, with no lifetime unless one is set by [`ReliableQueue::object`]:
//!
//! | key | type |
//! |---|---|
//! | `redgrid_reliable_queue:{name}` | hash: settings, the number of the last message, what was counted |
//! | `redgrid_reliable_queue_bodies:{name}` | hash: messages' headers and values |
//! | `redgrid_reliable_queue_states:{name}` | hash: how often each was tried, its receipt |
//! | `redgrid_reliable_queue_ready:{name}`, `…_delayed`, `…_flight`, `…_dead` | sorted sets: one of them has the message |
//! | `redgrid_reliable_queue_ends:{name}` | sorted set: when lifetimes are over |
//! | `redgrid_reliable_queue_once:{name}`, `…_until` | hash and sorted set: deduplication ids, as long as the last of them counts |
//! | `redgrid_once:redgrid_reliable_queue:{name}:<client>`, and the same with `:receive` | strings: the answer to a client's last change, and what it was given last; some minutes |
//!
//! # Promises
//!
//! - A message that was pushed is given to somebody until it is acknowledged, removed, dead, or its lifetime is over. No client has to live
//!   for that: what was not settled in time is found by the next who receives.
//! - It is given to one at a time. It is given again where its visibility ended, it was given back, or a failover lost what the old primary had not
//!   passed on; [`Delivery::attempt`] counts. An answer that is lost is no attempt while the client lives.
//! - A push, an acknowledgement and every other change acts once, however often it is sent.
//! - Higher priorities first, and in each the order of the pushes; who comes back takes its old place.

#![cfg_attr(docsrs, feature(doc_cfg))]

mod ask;
mod body;
mod changes;
mod configure;
mod counts;
mod dead;
mod delivery;
mod desk;
mod error;
mod keys;
mod look;
mod message;
mod push;
mod queue;
mod receive;
mod receivers;
mod settings;

pub use counts::{Counts, Totals};
pub use dead::DeadLetters;
pub use delivery::Delivery;
pub use error::QueueError;
pub use message::{InvalidId, Message, MessageId, MessageState, Receipt};
pub use push::{Push, PushMany, Pushed};
pub use queue::ReliableQueue;
pub use receive::{Receive, ReceiveMany};
pub use redgrid_codecs as codecs;
pub use redgrid_codecs::{Codec, Decode, Encode};
pub use redgrid_core::object::{ExpireCondition, Lifetime, Object, ObjectError};
pub use redgrid_core::{Client, Config, Failure, Name, ServerError};
pub use settings::QueueSettings;
