//! Waking waiters: one subscriber per node, channels counted by reference, and a poll under a budget beneath it all.
//!
//! A message is only a hint. Whoever waits re-checks on a message, after every gap of the subscription, when the poll
//! finds the key gone, and when the lease it was told runs out.

mod all_primaries;
mod buffer;
mod channel;
mod confirm;
mod manager;
mod messages;
mod node;
mod poll;
mod replica_subscribers;
mod stream;

pub(crate) use all_primaries::AllPrimariesSubscription;
pub(crate) use buffer::{BufferEvent, MessageBuffer, SubscribeError};
pub use channel::{ChannelEvent, DrainingSubscription, Generation, OrderedSubscription, Wake, Watch};
pub(crate) use channel::{Listener, Registration};
pub(crate) use manager::{OwnSubscription, SubscriptionManager};
pub use messages::{MessageEvent, MessageStream};
pub(crate) use replica_subscribers::{ReplicaSubscribers, parse_counts};
pub use stream::{ChannelSelector, PubSubEvent, PubSubStream};
