//! Locks: holding, waiting, hand-over and release, for every lock kind.
//!
//! There are two levels. A *server lease* is one grant of the server: a holder field with a
//! deadline. A *hold* is the share of one task in a server lease. Tasks of this process use a
//! server lease one after the other. Several readers can use the same server lease at the same
//! time.
//!
//! To follow the acquire and the release of a free lock, read these files from top to bottom:
//!
//! | file | contents |
//! |---|---|
//! | `protocol` | the contract of a lock kind: keys, options, scripts, the meaning of replies |
//! | `acquire`, `local_request` | entering the queue, waiting for the result; type `HoldGuard` |
//! | `table`, `lock_id` | all locks of a client, the state of each, and its waiters |
//! | `attempt` | one acquire request; its grant becomes a server lease with a first hold |
//! | `hold` | server leases and holds, and the end of a hold |
//! | `release` | dropping the last guard of a hold, and the release of the lock |
//!
//! The other files are for everything else:
//!
//! | file | contents |
//! |---|---|
//! | `fair/`, `shared/`, `multi/` | server queues; readers and writers; several keys at once |
//! | `queue`, `reentry`, `handover`, `handover_window` | several requests of this process |
//! | `wait_loop`, `not_granted`, `fairness`, `phantoms` | other processes |
//! | `renewal`, `verification`, `cold_fields`, `change_lease`, `extend` | leases after the grant |
//! | `guard`, `hold_watch` | the methods of a caller's hold |
//! | `report`, `hold_observe` | reports about locks; metrics and events of a hold |
//! | `cleanup`, `shutdown`, `takeover`, `detach` | other ends of a hold |

mod acquire;
mod attempt;
mod change_lease;
mod cleanup;
mod cold_fields;
mod detach;
mod error;
mod extend;
pub(crate) mod fair;
mod fairness;
pub(crate) mod guard;
mod handover;
mod handover_window;
mod hold;
mod hold_observe;
mod hold_watch;
mod holder_lookup;
mod local_request;
mod lock_id;
pub(crate) mod multi;
mod not_granted;
mod phantoms;
pub(crate) mod protocol;
mod queue;
mod reentry;
mod release;
mod renewal;
mod report;
pub(crate) mod shared;
mod shutdown;
mod table;
mod takeover;
mod verification;
mod wait_loop;

pub(crate) use acquire::GRACE;
pub use acquire::{HoldGuard, PendingAcquire};
pub use detach::DetachedHold;
pub use error::{AcquireError, AttachError, DetachError, ExtendError, LostReason, ReleaseError};
pub use fair::{PassArgs, QueuePositionView, ReleaseAfterPass};
pub(crate) use fairness::{SubscriberCount, YieldPlan};
pub use hold_watch::HoldWatch;
pub use multi::{MultiGrant, MultiOutcome};
pub(crate) use phantoms::Phantom;
pub(crate) use protocol::LockProtocol;
pub use protocol::{AcquireRequest, HoldArgs, Holder, HolderId, LockKeys};
pub use shared::AcquireContext;
pub(crate) use table::Table;
pub use takeover::{Takeover, TakeoverFrom};

pub use crate::lease::LeaseMode;
pub(crate) use crate::unpolled::InlineTask;
