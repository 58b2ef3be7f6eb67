//! Queues that all processes share, in the wire format of Redisson: waiting that loses nothing, both ends, delays, rings; and priorities.
//!
//! ```no_run
//! # #[cfg(feature = "json")]
//! # async fn demo() -> Result<(), Box<dyn std::error::Error>> {
//! use std::time::Duration;
//!
//! use redgrid_queue::{Client, DelayedQueue, Queue};
//!
//! let client = Client::connect("redis://127.0.0.1:6379").await?;
//! let jobs: Queue<String> = Queue::new(&client, "jobs");
//! jobs.push(&"resize 42.png".to_owned()).await?;
//! let job = jobs.take().await?; // waits where there is none
//! let reminders: DelayedQueue<String> = DelayedQueue::new(&client, "reminders");
//! reminders.push(&job, Duration::from_secs(600)).await?;
//! let due = reminders.take_within(Duration::from_secs(1)).await?; // None: in ten minutes
//! # let _ = due;
//! # Ok(()) }
//! ```
//!
//! # Keys
//!
//! | key or channel | type | lifetime |
//! |---|---|---|
//! | `name` | list: elements as their codec writes them; Redisson's | none, unless set |
//! | `redisson_delay_queue_timeout:{name}` | sorted set of a delayed queue: elements behind an id, by when they are due; Redisson's | none, unless set |
//! | `redisson_delay_queue:{name}` | list of what Redisson's clients have delayed; not written but for what is taken | none, unless set |
//! | `name` of a priority queue | sorted set with scores of 0: elements behind priority and number | none, unless set |
//! | `redisson_rb:{name}` | string: how many elements a ring has room for; Redisson's | none, unless set |
//! | `redgrid_once:{name}:<client id>`, `redgrid_once:redgrid_queue_back:{name}:<id>:<client id>` | string: what was answered to who waits, for a lost answer | 30 s and twice `response_timeout` |
//! | `redgrid_queue__channel:{name}` | channel: there is something to take | |
//! | `redisson_delay_queue_channel:{name}` | channel: when the first is due; Redisson's | |
//!
//! # Promises
//!
//! - An element that was taken for a caller who has left (a dropped future, a time that was over) goes to the next who waits in the process,
//!   else back where it was, in order. Meanwhile, for the time of two requests, it is in no queue.
//! - An element that `take` has returned is this caller's alone, also where answers were lost: a request that takes is sent again until it is answered,
//!   for 30 s, and takes once. Where no server answers for as long, what it took is lost; so is what a process has taken when it is killed
//!   before its callers have it. A failover that loses the removal has the element taken twice.
//! - `pop` is one command that is sent once: its element is lost with its answer.
//! - Who waits blocks no connection. Those of a process who wait for a queue are served in the order in which they came. A push of this crate wakes
//!   them; what others push, Redisson's clients too, is found within 1 s.
//! - A change is sent once. Where its answer is lost it ends [`ObjectError::OutcomeUnknown`], and is not made a second time.

mod delayed;
mod deque;
mod elements;
mod ends;
mod priority;
mod queue;
mod ring;
mod select;
mod stock;
mod waiters;

pub use delayed::{Delayed, DelayedQueue};
pub use deque::Deque;
pub use ends::End;
pub use priority::{Prioritized, PriorityQueue};
pub use queue::Queue;
pub use redgrid_codecs as codecs;
pub use redgrid_codecs::{Codec, Decode, Encode};
pub use redgrid_core::object::{Ending, Lifetime, Object, ObjectError};
pub use redgrid_core::{Client, Config, Name, ServerError};
pub use ring::RingBuffer;
