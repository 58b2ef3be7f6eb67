//! Waking waiters: one subscriber per node, channels counted by reference, and a poll under a budget beneath it all.
//!
//! A message is only a hint. Whoever waits re-checks on a message, after every gap of the subscription, when the poll
//! finds the key gone, and when the lease it was told runs out.

mod begin;
mod channel;
mod copied;
mod feed;
mod hub;
mod kept;
mod lane;
mod poll;
mod spread;
mod tap;

pub use channel::{Heard, Hearing, LastHeard, Term, Wake, Watch};
pub(crate) use channel::{Listener, Registration};
pub(crate) use copied::{Copied, counts_in};
pub use feed::{Channels, Fed, Feed};
pub(crate) use hub::{Hub, Own};
pub use kept::{Messages, Told};
pub(crate) use spread::Spread;
pub(crate) use tap::{Deaf, Tap, Tapped};
