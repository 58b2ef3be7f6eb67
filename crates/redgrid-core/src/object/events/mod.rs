//! Streams of the events of objects, from the server's keyspace notifications.
//!
//! ```no_run
//! # async fn demo(client: &redgrid_core::Client) -> Result<(), Box<dyn std::error::Error>> {
//! use redgrid_core::object::Object;
//! use redgrid_core::object::events::{Kind, Notice};
//!
//! let session = Object::new(client, "session:7");
//! let mut events = session.events([Kind::Expired, Kind::Deleted]).enable().await?;
//! while let Some(notice) = events.next().await {
//!     match notice {
//!         Notice::Event(event) => println!("{} is gone: {:?}", event.name, event.kind),
//!         Notice::Gap(_) => println!("look for yourself: something may have been missed"),
//!         Notice::Uncertain(why) => eprintln!("events may not come any more: {why}"),
//!         _ => {}
//!     }
//! }
//! # Ok(()) }
//! ```
//!
//! # Guarantees
//!
//! A server publishes each event once, to the clients that are subscribed at that moment, and
//! stores nothing. So events can be missed after a lost connection, a replaced primary or a
//! migrated slot, or if the reader is slow. The stream then reports a [`Gap`], and continues with
//! the events after it. An application that must not miss a change must read the object after each
//! gap. Events of one node arrive in the order in which the node published them.
//!
//! A server publishes [`Expired`](Kind::Expired) when it deletes an expired key, not when the key
//! expires. The server deletes the key on the next access, or when the server's periodic scan finds
//! the key, normally within a second. A command on several keys causes several events, and a method
//! of an object may send several commands. An event concerns one key. The companions of an object,
//! such as the queue of a fair lock, are separate keys with events of their own. A failover may
//! lose a change whose event was already published. If the change is then repeated, its event is
//! published again.

use std::fmt;

mod error;
mod kind;
mod listen;
mod notify_config;
mod stream;

pub use self::error::ListenError;
pub use self::kind::{Kind, Kinds};
pub use self::listen::Listen;
pub use self::stream::Events;

/// An event of a key.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Event {
    /// The name of the object, without the client's namespace. `U+FFFD` replaces bytes that are not
    /// valid UTF-8.
    pub name: String,
    /// The kind of the event.
    pub kind: Kind,
    /// The server's name of the event: `expired`, `hset`, `rename_to`.
    pub command: String,
}

/// An item of [`Events`].
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Notice {
    /// An event.
    Event(Event),
    /// Events may have been missed before the next item.
    Gap(Gap),
    /// It is not known whether events arrive from now on; the error says why.
    Uncertain(ListenError),
}

/// Reason why events may have been missed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Gap {
    /// The subscription was interrupted by a lost connection, a replaced primary or a migrated
    /// slot.
    Interrupted,
    /// The reader was slow, and notifications were dropped.
    Slow {
        /// Number of dropped notifications. Some of them may be of events that the stream does not
        /// select.
        missed: u64,
    },
}

impl fmt::Display for Gap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Gap::Interrupted => f.write_str("the subscription was interrupted"),
            Gap::Slow { missed } => write!(f, "the reader was too slow ({missed} events were dropped)"),
        }
    }
}
