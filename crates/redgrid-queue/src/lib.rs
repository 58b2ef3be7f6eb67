//! Queues that all processes share, in the wire format of Redisson: cancel-safe waiting, both ends,
//! delays, rings, and priorities.
//!
//! Use them to hand work to other processes. If a crash of a worker must not lose an element, use
//! `redgrid-reliable-queue`.
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
//! jobs.push("resize 42.png").await?;
//! let job = jobs.take().await?; // waits if there is none
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
//! | `redisson_delay_queue_timeout:{name}` | sorted set of a delayed queue: elements after an id, by their due times; Redisson's | none, unless set |
//! | `redisson_delay_queue:{name}` | list of what Redisson's clients have delayed; only taken elements are removed from it | none, unless set |
//! | `name` of a priority queue | sorted set with scores of 0: elements after priority and number | none, unless set |
//! | `redisson_rb:{name}` | string: the capacity of a ring; Redisson's | none, unless set |
//! | `redgrid_once:{name}:<client id>`, `redgrid_once:redgrid_queue_back:{name}:<id>:<client id>` | string: the last reply to waiters, in case it is lost | 30 s and twice `response_timeout` |
//! | `redgrid_queue__channel:{name}` | channel: there may be something to take | |
//! | `redisson_delay_queue_channel:{name}` | channel: when the first element is due; Redisson's | |
//!
//! # Guarantees
//!
//! - An element that was taken for a call that is dropped or timed out goes to the next waiter of
//!   the process. If there is no waiter, the element is put back to where it was, in order. In that
//!   case the element is in no queue for the duration of two requests.
//! - An element that `take` has returned belongs to this caller alone, even after lost replies: a
//!   request that takes is sent again until it is answered, for 30 s, and is executed once. If no
//!   server answers for 30 s, the elements that the request took are lost. If a process is killed,
//!   the elements that it has taken but not yet returned to callers are lost. If a failover loses
//!   the removal, the element is taken twice.
//! - `pop` is one command, which is sent once. If its reply is lost, its element is lost.
//! - Waiters block no connection. The waiters of one process are served in the order of their
//!   calls. A push by this crate wakes them; elements that other programs push, including
//!   Redisson's clients, are found within 1 s.
//! - A change is sent once. If its reply is lost, the call returns [`Failure::OutcomeUnknown`]
//!   and is not repeated.

#![cfg_attr(docsrs, feature(doc_cfg))]

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
pub use redgrid_core::object::{ExpireCondition, Lifetime, Object, ObjectError};
pub use redgrid_core::{Client, Config, Failure, Name, ServerError};
pub use ring::RingBuffer;
