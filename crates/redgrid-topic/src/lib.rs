//! Publish/subscribe topics, in the wire format of Redisson's RTopic, RPatternTopic, RShardedTopic
//! and RReliableTopic.
//!
//! Use them to send messages to several subscribers. Each topic reports messages that a subscriber
//! may have missed.
//!
//! ```no_run
//! # #[cfg(feature = "json")]
//! # async fn demo() -> Result<(), Box<dyn std::error::Error>> {
//! use redgrid_topic::{Client, SubscriptionError, Topic};
//!
//! let client = Client::connect("redis://127.0.0.1:6379").await?;
//! let prices: Topic<u64> = Topic::new(&client, "prices");
//! let mut messages = prices.subscribe().await?; // receives what is published from here on
//! prices.publish(&17).await?;
//! while let Some(next) = messages.next().await {
//!     match next {
//!         Ok(message) => println!("{}: {}", message.channel, message.value),
//!         Err(SubscriptionError::Gap(_)) => println!("messages may be missing: read the state"),
//!         Err(error) => eprintln!("{error}"),
//!     }
//! }
//! # Ok(()) }
//! ```
//!
//! # Which one
//!
//! | | receivers of a message | missed messages |
//! |---|---|---|
//! | [`Topic`] | current subscribers; in a cluster every node forwards it to every other | those published while a connection is lost, reported as a gap |
//! | [`PatternTopic`] | the same, for all topics with names that match a pattern | the same |
//! | [`ShardedTopic`] | the same; in a cluster only the nodes of its slot receive it | the same |
//! | [`ReliableTopic`] | each registered subscriber, at least once, even if it is away for a while | none, except those a lost primary had not replicated |
//!
//! # Keys
//!
//! | key | type | lifetime |
//! |---|---|---|
//! | `name` of a `ReliableTopic` | stream with the field `m`, a group for each subscriber; Redisson's | none, unless set |
//! | `{name}:timeout` of a `ReliableTopic` | sorted set: subscribers, scored by the end of their lease; Redisson's | as long as there are subscribers |
//!
//! Other topics have no keys: their channel is their name, prefixed with the client's namespace.

#![cfg_attr(docsrs, feature(doc_cfg))]

mod handle;
mod message;
mod pattern;
mod reliable;
mod sharded;
mod subscription;
mod topic;

pub use message::{Message, SubscriptionError};
pub use pattern::PatternTopic;
pub use redgrid_codecs as codecs;
pub use redgrid_codecs::{Codec, Decode, Encode};
pub use redgrid_core::object::events::Gap;
pub use redgrid_core::object::{ExpireCondition, Lifetime, Object, ObjectError};
pub use redgrid_core::{Client, Config, Failure, Name, ServerError};
pub use reliable::{Deliveries, Delivery, MessageId, Published, ReliableTopic, SubscribeReliably};
pub use sharded::ShardedTopic;
pub use subscription::{Subscribe, Subscription};
pub use topic::Topic;
