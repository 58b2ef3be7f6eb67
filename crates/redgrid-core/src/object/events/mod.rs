//! What happens to objects, told as it happens: by the server's keyspace notifications.
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
//! # What is told, and what is not
//!
//! A server tells each event once, to who listens at that moment, and keeps nothing. So each interruption is told, as a [`Gap`]: a
//! connection that was lost, a primary that was replaced, a slot that has moved, a reader that was too slow. Behind it events go
//! on, and who needs to know looks at the object. Events of one node come in their order.
//!
//! A server tells [`Expired`](Kind::Expired) when it deletes what has expired, not at that time: when somebody asks for it, or when its
//! sweep finds it, as a rule within a second. What one command does to several keys are several events, and what one call here does
//! may be several commands. An event is of a key: the companions of an object, as the queue of a fair lock, are keys of their own. A server that
//! is replaced forgets, and may carry out again, what it had told.

use std::fmt;

mod error;
mod kind;
mod listen;
mod setting;
mod stream;

pub use self::error::ListenError;
pub use self::kind::{Kind, Kinds};
pub use self::listen::Listen;
pub use self::stream::Events;

/// Something that happened to a key.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Event {
    /// The name of the object, without the client's namespace. Bytes that are no text are `U+FFFD` in it.
    pub name: String,
    /// What happened.
    pub kind: Kind,
    /// What the server calls it: `expired`, `hset`, `rename_to`.
    pub command: String,
}

/// What comes of [`Events`].
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Notice {
    /// Something happened.
    Event(Event),
    /// Something may have happened before the next of these that is not told.
    Gap(Gap),
    /// Nobody knows whether events come from now on, and why.
    Uncertain(ListenError),
}

/// Why something may not have been told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Gap {
    /// Nobody listened for a while: a connection was lost, a primary replaced, a slot has moved.
    Interrupted,
    /// The reader was slow, and so many notifications of the server were not kept, those that were not asked for among them.
    Slow {
        /// How many.
        missed: u64,
    },
}

impl fmt::Display for Gap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Gap::Interrupted => f.write_str("the subscription was interrupted"),
            Gap::Slow { missed } => write!(f, "the reader was slow, and {missed} were not kept"),
        }
    }
}
