//! Holding: what a process holds, who waits for it, and who gives it back.
//!
//! Two levels: what a process has on the server under one name is a server lease*, and each of its tasks that has it in turn has a
//! *hold*. The table owns every server lease, every queue and every attempt in flight; a future of the caller only waits on it. So
//! a future that is dropped leaves a place in a queue, never a request without an owner.
//!
//! | file | what happens there |
//! |---|---|
//! | `protocol` | what differs between kinds of holds: their scripts |
//! | `terms` | leases, margins and deadlines, as functions of their inputs |
//! | `holder` | who holds: explicit, never a task or thread |
//! | `server_lease` | one grant of the server: its holder field, its deadline, its tokens |
//! | `handover_count` | how many have had a server lease, and their tokens |
//! | `deadline` | a deadline that stays passed once it was seen passed |
//! | `hold` | one hold: a task's share in a server lease, its own lease, its phase, its watchers |
//! | `handover_window` | the second level's decisions, as functions of their inputs |
//! | `fairness` | who goes first after a stretch |
//! | `phantoms` | listeners that never take their turn |
//! | `lock_state` | one name: what we have of it, who waits, what is under way |
//! | `lazy_queue` | leaving a queue: where nothing goes by places, at the same cost however long it is |
//! | `shared` | one key in several slots: grants that several tasks share, and holds beside holds |
//! | `pending_yields` | names that others wait for, for a moment after we let go of them |
//! | `table` | entering and leaving |
//! | `pending_acquire` | a request under way, as its caller sees it |
//! | `inline_task` | an exchange that its caller polls in place, until somebody else needs it |
//! | `attempt` | asking the server, and what its answer means |
//! | `handover` | who has the name next: hand-over, adoption, fitting what is held to other wishes |
//! | `change_lease` | longer and shorter leases of a server lease |
//! | `multi_acquire` | many names by one look, all or none |
//! | `multi_release` | many given back by one script |
//! | `queue_position` | a request's place in a queue on the server |
//! | `fair_loop` | the loop of a name whose waiters stand in such a queue |
//! | `local_pass` | handing on along that queue, while the places at its head are ours |
//! | `wait_loop` | the loop of a name that more than one waits for |
//! | `release` | giving back, shutting down |
//! | `cleanup` | settling what is unclear |
//! | `takeover` | taking by force |
//! | `detach` | handing a hold to another process |
//! | `schedule` | which hold is due when |
//! | `wakeup` | when the engine is to wake |
//! | `renewal` | renewals in bulk, deadlines, verification after a reconnect |
//! | `guard` | the armed proof that guards are made of |

mod attempt;
mod change_lease;
mod cleanup;
mod deadline;
mod detach;
mod error;
mod fair_loop;
mod fairness;
mod guard;
mod handover;
mod handover_count;
mod handover_window;
mod hold;
mod holder;
mod inline_task;
mod lazy_queue;
mod local_pass;
mod lock_state;
mod multi_acquire;
mod multi_release;
mod pending_acquire;
mod pending_yields;
mod phantoms;
mod protocol;
mod queue_position;
mod release;
mod renewal;
mod schedule;
mod server_lease;
mod shared;
mod table;
mod takeover;
mod terms;
mod wait_loop;
mod wakeup;

pub(crate) use deadline::Deadline;
pub use detach::DetachedHold;
pub use error::{AcquireError, AttachError, DetachError, ExtendError, LostReason, ReleaseError};
pub(crate) use fairness::{SubscriberCount, YieldPlan};
pub use guard::{Extender, FromHoldGuard, HoldGuard, HoldWatch};
pub(crate) use handover_window::{LONGEST as LONGEST_STRETCH, length as stretch_length};
pub use holder::{Holder, HolderId};
pub(crate) use inline_task::{BackgroundTask, InlineTask};
pub use multi_acquire::MultiOutcome;
pub use multi_release::MultiGrant;
pub(crate) use pending_acquire::GRACE;
pub use pending_acquire::PendingAcquire;
pub(crate) use phantoms::Phantom;
pub use protocol::{
    AcquireContext, HoldArgs, LockKeys, LockProtocol, MultiKeyProtocol, PassArgs, ReleaseAfterPass, ServerQueue,
    TakeoverFrom,
};
pub use queue_position::QueuePositionView;
pub(crate) use table::Table;
pub use terms::{AcquireRequest, Backoff, LeaseMode};
pub(crate) use terms::{deadline, with_margin};
