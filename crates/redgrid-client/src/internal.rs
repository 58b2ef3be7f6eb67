//! Internals of the client, for the `redgrid-core` of exactly this version. They have no stability
//! guarantee: anything here may change in any release.

pub use crate::clock::nanos;
pub use crate::config::settings::{LONGEST_WINDOW, Settings};
pub use crate::connection::{
    Answer, BackgroundTask, Core, GivenBack, Inner, Kept, Lifecycle, Progress, RequestOutcome, RetryPolicy, Service,
    ServiceSlot, Shared, append, inner, is_same, jittered, may_execute_until, once, unless_replaced,
};
pub use crate::error::after_unanswered;
pub use crate::participant::participant;
pub use crate::pinned::pinned;
pub use crate::pubsub::{
    AllPrimariesSubscription, MessageBuffer, OwnSubscription, Registration, ReplicaSubscribers, SubscribeError,
    SubscriptionManager, channels_matching, subscribers, waiting_subscribers,
};
pub use crate::shrink::shrink_if_sparse;
pub use crate::sync::Mutex;

/// The metrics of this crate.
pub mod count {
    pub use crate::count::{SERIES, Series, register};
}
