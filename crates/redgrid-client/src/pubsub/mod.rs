//! Subscriptions. Their messages wake waiters, or go to message streams. Each node has a subscriber
//! connection, each channel has its watchers, and a rate-limited poll checks the keys of waiters.
//!
//! For a waiter, a message is only a hint. The waiter checks its key again after a message, and
//! after every gap of the subscription. The waiter also checks its key when the poll finds that the
//! key is absent, and at the end of the holder's lease. The server has reported this end in reply
//! to an earlier request of the waiter.

mod all_primaries;
mod buffer;
mod channel;
mod confirm;
mod counts;
mod handles;
mod manager;
mod node;
mod poll;
mod reassign;
mod reconcile;
mod replica_subscribers;
mod stream;
mod subscribe;

pub use all_primaries::AllPrimariesSubscription;
pub use buffer::{MessageBuffer, SubscribeError};
pub use counts::OwnSubscription;
pub use handles::Registration;
pub use handles::{ChannelEvent, DrainingSubscription, Generation, OrderedSubscription, Wake, Watch};
pub use manager::SubscriptionManager;
pub use poll::UNSUBSCRIBED_POLL;
pub use replica_subscribers::{ReplicaSubscribers, waiting_subscribers};
pub use stream::{ChannelSelector, PubSubEvent, PubSubStream};
pub use stream::{channels_matching, subscribers};
