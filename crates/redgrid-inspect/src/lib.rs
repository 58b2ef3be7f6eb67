//! Reads locks with their holders, reliable queues, synchronizers, rate limiters, streams, map
//! caches, living clients, and objects by type, checks the servers, and has recorded actions of
//! operators.
//!
//! Use it for tools of operators. The command line and the console read the servers with it.
//!
//! ```no_run
//! # async fn demo() -> Result<(), Box<dyn std::error::Error>> {
//! use redgrid_inspect::{Client, Inspector};
//!
//! let client = Client::connect("redis://127.0.0.1:6379").await?;
//! let lock = Inspector::new(&client).lock("orders:42").await?;
//! for holder in &lock.holders {
//!     println!("{} {:?}: {:?}", holder.client, holder.number, holder.state);
//! }
//! # Ok(()) }
//! ```
//!
//! # Guarantees
//!
//! - [`Inspector`] only reads, with one exception: [`Inspector::ask`] publishes a question to
//!   clients. The checks of [`Inspector::doctor`] write two keys with random names, and delete
//!   them, unless they are [read-only](Requirements::read_only).
//! - [`Actions`] change only what an operator saw, and record each change before it is made.
//! - It never subscribes to the channel of a lock, so it does not slow the lock's users.
//! - Each read is bounded, whatever a key contains. No command reads a value of unknown size. One
//!   exception: for [`Inspector::stream`], the server reads the first and the last entry of the
//!   stream. It returns neither.
//! - Data that the user may not read is unknown ([`None`], [`HolderState::Unknown`]), or an error.
//!   It is never an empty answer. One exception: without the permission for HEXISTS, the lock of an
//!   election is a plain one.
//! - In a cluster, the results are those of all primaries. Each name is returned once.
//!
//! It has one key, the stream `redgrid_audit` with the record of actions, and one channel: answers
//! of clients arrive at `redgrid_console:<uuid>`.

#![cfg_attr(docsrs, feature(doc_cfg))]

mod actions;
mod ask;
mod clients;
mod doctor;
mod error;
mod holder;
mod inspector;
mod limiters;
mod lock;
mod looks;
mod map_caches;
mod object_kind;
mod objects;
mod queues;
mod report_limits;
mod scripts;
mod streams;
mod synchronizers;

pub use actions::{
    AUDIT_STREAM, ActionError, ActionOutcome, ActionReport, Actions, DeadSelection, InvalidReason, MAX_MARKED,
    Operator, Reason, RecordedAction, RecordedOutcome, Refusal,
};
pub use ask::{ASK_TIMEOUT, Answer, AskEvent};
pub use clients::LivingClients;
pub use doctor::{DoctorReport, Finding, Level, Requirements};
pub use error::InspectError;
pub use holder::{HolderState, HolderView, Mode, WaiterView};
pub use inspector::Inspector;
pub use limiters::LimiterView;
pub use lock::{LockKind, LockView};
pub use map_caches::{CacheEnds, CacheLimit, MapCacheView};
pub use object_kind::ObjectKind;
pub use objects::{ObjectFilter, ObjectView};
pub use queues::QueueView;
pub use redgrid_core::permits::{InvalidPermitId, PermitId};
pub use redgrid_core::report::{ClientReport, ContentionReport, EventReport, HeldReport, WaitReport};
pub use redgrid_core::{Client, Config, Failure, ServerError};
pub use redgrid_reliable_queue as reliable_queue;
pub use redgrid_reliable_queue::{InvalidId, MessageId};
pub use streams::{GroupView, MAX_GROUPS, StreamView, Subscribers};
pub use synchronizers::{SynchronizerState, SynchronizerView};
