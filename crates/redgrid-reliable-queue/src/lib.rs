//! Queues with acknowledgements on Redis and Valkey. Each message is delivered to one consumer at a
//! time, and again unless it is settled within its visibility, even if the consumer dies.
//! Comparable to Redisson's RReliableQueue (PRO) and to SQS.
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
//!     Ok(text) if text.starts_with("order") => order.ack().await?, // done: it is removed
//!     Ok(_) => order.nack(Duration::from_secs(10)).await?,          // again, in 10 s
//!     Err(_) => order.reject("no order").await?,                    // dead letter: see `dead`
//! }
//! # Ok(()) }
//! ```
//!
//! # Keys
//!
//! All keys are in the slot of the name, without a lifetime unless [`ReliableQueue::object`] sets
//! one:
//!
//! | key | type |
//! |---|---|
//! | `redgrid_reliable_queue:{name}` | hash: settings, a pause, the number of the last message, counters |
//! | `redgrid_reliable_queue_bodies:{name}` | hash: messages' headers and values |
//! | `redgrid_reliable_queue_states:{name}` | hash: the number of attempts of each, its receipt |
//! | `redgrid_reliable_queue_ready:{name}`, `…_delayed`, `…_flight`, `…_dead` | sorted sets: one of them has the message |
//! | `redgrid_reliable_queue_ends:{name}` | sorted set: when lifetimes end |
//! | `redgrid_reliable_queue_once:{name}`, `…_until` | hash and sorted set: deduplication ids, as long as the last of them counts |
//! | `redgrid_once:redgrid_reliable_queue:{name}:<client>`, and with `:receive` | strings: the reply to a client's last change, and its last deliveries; some minutes |
//!
//! # Guarantees
//!
//! - A pushed message is delivered until it is acknowledged, removed or a dead letter, or its
//!   lifetime ends. This needs no running client: the next receive finds messages that were not
//!   settled in time.
//! - It is delivered to one consumer at a time. It is delivered again if its visibility ended, if
//!   it was returned, or if a failover lost writes that were not replicated. [`Delivery::attempt`]
//!   counts the deliveries. While the client lives, a delivery whose reply is lost does not count.
//! - A push, an acknowledgement and every other change is executed exactly once, even if it is
//!   retried.
//! - After [`ReliableQueue::pause`] has returned, the server delivers no message to any process
//!   until [`ReliableQueue::resume`].
//! - Higher priorities are delivered first; within a priority, messages keep the order of their
//!   pushes, also if they are returned.

#![cfg_attr(docsrs, feature(doc_cfg))]

mod browse;
mod configure;
mod count;
mod counts;
mod dead;
mod delivery;
mod error;
mod list;
mod message;
mod pause;
mod push;
mod queue;
mod queue_client;
mod receive;
mod settings;
mod trace;

pub use dead::DeadLetters;
pub use delivery::Delivery;
pub use error::QueueError;
pub use message::Message;
pub use push::{Push, PushMany, Pushed};
pub use queue::ReliableQueue;
pub use receive::{Receive, ReceiveMany};
pub use redgrid_codecs as codecs;
pub use redgrid_codecs::{Codec, Decode, Encode};
pub use redgrid_core::object::{ExpireCondition, Lifetime, Object, ObjectError};
pub use redgrid_core::{Client, Config, Failure, Name, ServerError};
#[doc(inline)]
pub use redgrid_work::{
    Counts, InvalidId, MessageGroup, MessageId, MessagePage, MessageState, MessageSummary, Receipt, Totals,
    TraceContext, TracePropagator,
};
pub use settings::QueueSettings;
