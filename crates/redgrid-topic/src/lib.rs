//! Topics: what one process publishes, all that listen hear, in the wire format of Redisson's RTopic, RPatternTopic, RShardedTopic and
//! RReliableTopic.
//!
//! ```no_run
//! # #[cfg(feature = "json")]
//! # async fn demo() -> Result<(), Box<dyn std::error::Error>> {
//! use redgrid_topic::{Client, SubscriptionError, Topic};
//!
//! let client = Client::connect("redis://127.0.0.1:6379").await?;
//! let prices: Topic<u64> = Topic::new(&client, "prices");
//! let mut heard = prices.subscribe().await?; // what is published from here on is heard
//! prices.publish(&17).await?;
//! while let Some(next) = heard.next().await {
//!     match next {
//!         Ok(message) => println!("{}: {}", message.channel, message.value),
//!         Err(SubscriptionError::Gap(_)) => println!("some may have been missed: look for yourself"),
//!         Err(error) => eprintln!("{error}"),
//!     }
//! }
//! # Ok(()) }
//! ```
//!
//! # Which one
//!
//! | | who hears a message | what is missed |
//! |---|---|---|
//! | [`Topic`] | who is subscribed at that moment; in a cluster every node passes it on to every other | what is published while a connection is lost, told as a gap |
//! | [`PatternTopic`] | the same, of all topics whose names are of a pattern | the same |
//! | [`ShardedTopic`] | the same; in a cluster only nodes of its slot have it | the same |
//! | [`ReliableTopic`] | each subscriber that there is, at least once, also one who is away for a while | nothing, but for what a lost primary had not copied |
//!
//! # Keys
//!
//! | key | type | lifetime |
//! |---|---|---|
//! | `name` of a `ReliableTopic` | stream with the field `m`, a group for each subscriber; Redisson's | none, unless set |
//! | `{name}:timeout` of a `ReliableTopic` | sorted set: subscribers by when they end; Redisson's | as long as there are subscribers |
//!
//! Other topics have no keys: their channel is their name, behind the client's namespace.

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
pub use redgrid_core::object::{Ending, Lifetime, Object, ObjectError};
pub use redgrid_core::{Client, Config, Name, ServerError};
pub use reliable::{Deliveries, Delivery, MessageId, Published, ReliableTopic, SubscribeReliably};
pub use sharded::ShardedTopic;
pub use subscription::{Subscribe, Subscription};
pub use topic::Topic;
