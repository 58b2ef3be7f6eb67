//! Locks: holding, waiting, hand-over and release, for every lock kind.
//!
//! There are two levels. A *server lease* is one grant of the server, with its lease. A *hold* is
//! the share of one task in it; tasks of this process use a server lease one after the other, or
//! together.
//!
//! The table owns every server lease, every queue and every in-flight request. The caller's future
//! only waits for the outcome. A dropped future therefore leaves a queue position, never a request
//! without an owner.
//!
//! | file | contents |
//! |---|---|
//! | `protocol` | what differs between lock kinds: their scripts |
//! | `terms` | acquire options, and the lease that they need |
//! | `holder` | holders: explicit identities, never a task or thread |
//! | `holder_field` | a holder field, stored compactly |
//! | `server_lease` | one grant of the server: its holder field, deadline and tokens |
//! | `handover_count` | number of owners that a server lease has had, and their tokens |
//! | `hold` | one task's share in a server lease: its own lease, phase and watchers |
//! | `handover_window` | length of the window and fit of a lease, as functions of their inputs |
//! | `fairness` | how other processes go first after a hand-over window |
//! | `phantoms` | subscribers that never acquire the lock |
//! | `lock_state` | what this process knows about one key: queue, server lease, requests |
//! | `waiter` | a waiting request of this process, and its answer |
//! | `lazy_queue` | removal of cancelled waiters in amortised constant time |
//! | `shared` | several grants of one key: shared grants, and holds converted from others |
//! | `pending_yields` | yields that remain in force for a moment after a release |
//! | `table` | all locks of a client |
//! | `enter` | entering the queue of a lock |
//! | `pending_acquire` | a pending acquire, as its caller sees it |
//! | `inline_task` | a request that its caller polls inline until another task needs it |
//! | `attempt` | one acquire request, and the meaning of its reply |
//! | `not_granted` | acquire requests that were not granted: busy, or a failure |
//! | `handover` | the next owner of a lock: hand-over, reclaim, and adjusting the lease |
//! | `change_lease` | extending and shortening the lease of a server lease |
//! | `shortenings` | shorter leases in flight, which may undo later confirmations |
//! | `multi_acquire` | atomic acquire of several keys, all or none |
//! | `multi_request` | the request for several keys |
//! | `multi_release` | release of several keys by one script |
//! | `queue_position` | a request's position in the server's queue |
//! | `fair_loop` | the loop of a lock whose waiters have positions in the server's queue |
//! | `local_pass` | hand-over along that queue, while its first positions belong to this process |
//! | `pass_request` | the request of a local pass |
//! | `wait_loop` | the loop of a lock with several waiters |
//! | `release` | release of a hold |
//! | `drop_guard` | the end of a hold with its last guard |
//! | `shutdown` | release of all holds at shutdown |
//! | `cleanup` | deferred release of what a retransmission may acquire |
//! | `takeover` | forced takeover |
//! | `detach` | handing a hold to another process |
//! | `renewal` | renewals in batches, and the ends of leases |
//! | `verification` | which server leases may be lost, and which are |
//! | `guard` | the handle that guards are made of |
//! | `hold_watch` | a view of a hold for other tasks |
//! | `extend` | setting the lease of a hold |

mod attempt;
mod change_lease;
mod cleanup;
mod detach;
mod drop_guard;
mod enter;
mod error;
mod extend;
mod fair_loop;
mod fairness;
pub(crate) mod guard;
mod handover;
mod handover_count;
mod handover_window;
mod hold;
mod hold_watch;
mod holder;
mod holder_field;
mod inline_task;
mod lazy_queue;
mod local_pass;
mod lock_state;
mod multi_acquire;
mod multi_release;
mod multi_request;
mod not_granted;
mod pass_request;
mod pending_acquire;
mod pending_yields;
mod phantoms;
pub(crate) mod protocol;
mod queue_position;
mod release;
mod renewal;
mod server_lease;
mod shared;
mod shortenings;
mod shutdown;
mod table;
mod takeover;
mod terms;
mod verification;
mod wait_loop;
mod waiter;

pub use detach::DetachedHold;
pub use error::{AcquireError, AttachError, DetachError, ExtendError, LostReason, ReleaseError};
pub use extend::Extender;
pub(crate) use fairness::{SubscriberCount, YieldPlan};
pub use guard::HoldGuard;
pub(crate) use handover_window::{LONGEST as MAX_HANDOVER_WINDOW, length as handover_window_length};
pub use hold_watch::HoldWatch;
pub use holder::{Holder, HolderId};
pub(crate) use inline_task::{BackgroundTask, InlineTask};
pub use multi_acquire::MultiOutcome;
pub use multi_release::MultiGrant;
pub(crate) use pending_acquire::GRACE;
pub use pending_acquire::PendingAcquire;
pub(crate) use phantoms::Phantom;
pub(crate) use protocol::LockProtocol;
pub use protocol::{AcquireContext, HoldArgs, LockKeys, PassArgs, ReleaseAfterPass, TakeoverFrom};
pub use queue_position::QueuePositionView;
pub(crate) use table::Table;
pub use terms::{AcquireRequest, LeaseMode};
