//! Messages that wake waiters. Each node has a subscriber, each channel has its watchers, and a
//! rate-limited poll checks the keys.
//!
//! A message is only a hint. A waiter checks its key again after a message, and after every gap of
//! the subscription. It also checks its key when the poll finds that the key is absent, and at the
//! end of the lease that the server reported.

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
