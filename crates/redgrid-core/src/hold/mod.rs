//! Holding: what a process holds, who waits for it, and who gives it back.
//!
//! Two levels: what a process has on the server under one name is a *tenure*, and each of its tasks that has it in turn has a
//! *hold*. The table owns every tenure, every queue and every attempt in flight; a future of the caller only waits on it. So
//! a future that is dropped leaves a place in a queue, never a request without an owner.
//!
//! | file | what happens there |
//! |---|---|
//! | `kind` | what differs between kinds of holds: their scripts |
//! | `terms` | leases, margins and deadlines, as functions of their inputs |
//! | `holder` | who holds: explicit, never a task or thread |
//! | `tenure` | one grant of the server: its holder field, its deadline, its tokens |
//! | `owners` | how many have had a tenure, and their tokens |
//! | `deadline` | a deadline that stays passed once it was seen passed |
//! | `state` | one hold: a task's share in a tenure, its own lease, its phase, its watchers |
//! | `stretch` | the second level's decisions, as functions of their inputs |
//! | `turn` | who goes first after a stretch |
//! | `phantoms` | listeners that never take their turn |
//! | `slot` | one name: what we have of it, who waits, what is under way |
//! | `leaving` | leaving a queue: where nothing goes by places, at the same cost however long it is |
//! | `share` | one key in several slots: grants that several tasks share, and holds beside holds |
//! | `recent` | names that others wait for, for a moment after we let go of them |
//! | `table` | entering and leaving |
//! | `ticket` | a request under way, as its caller sees it |
//! | `flight` | an exchange that its caller polls in place, until somebody else needs it |
//! | `attempt` | asking the server, and what its answer means |
//! | `succession` | who has the name next: hand-over, adoption, fitting what is held to other wishes |
//! | `lease` | longer and shorter leases of a tenure |
//! | `many` | many names by one look, all or none |
//! | `together` | many given back by one script |
//! | `place` | a request's place in a queue on the server |
//! | `attend` | the loop of a name whose waiters stand in such a queue |
//! | `run` | handing on along that queue, while the places at its head are ours |
//! | `drive` | the loop of a name that more than one waits for |
//! | `release` | giving back, shutting down |
//! | `settle` | settling what is unclear |
//! | `seize` | taking by force |
//! | `detach` | handing a hold to another process |
//! | `schedule` | which hold is due when |
//! | `alarm` | when the engine is to wake |
//! | `engine` | renewals in bulk, deadlines, verification after a reconnect |
//! | `grant` | the armed proof that guards are made of |

mod alarm;
mod attempt;
mod attend;
mod deadline;
mod detach;
mod drive;
mod engine;
mod error;
mod flight;
mod grant;
mod holder;
mod kind;
mod lease;
mod leaving;
mod many;
mod owners;
mod phantoms;
mod place;
mod recent;
mod release;
mod run;
mod schedule;
mod seize;
mod settle;
mod share;
mod slot;
mod state;
mod stretch;
mod succession;
mod table;
mod tenure;
mod terms;
mod ticket;
mod together;
mod turn;

pub(crate) use deadline::Deadline;
pub use detach::DetachedHold;
pub use error::{AcquireError, AttachError, DetachError, ExtendError, LostReason, ReleaseError};
pub(crate) use flight::{InlineTask, BackgroundTask};
pub use grant::{Extender, HoldGuard, FromHoldGuard, HoldWatch};
pub use holder::{Holder, HolderId};
pub use kind::{PassArgs, HoldArgs, AcquireContext, ReleaseAfterPass, LockProtocol, TakeoverFrom, ServerQueue, LockKeys, MultiKeyProtocol};
pub use many::MultiOutcome;
pub(crate) use phantoms::Phantom;
pub use place::QueuePositionView;
pub(crate) use stretch::{LONGEST as LONGEST_STRETCH, length as stretch_length};
pub(crate) use table::Table;
pub use terms::{Backoff, LeaseMode, AcquireRequest};
pub(crate) use terms::{deadline, with_margin};
pub(crate) use ticket::GRACE;
pub use ticket::PendingAcquire;
pub use together::MultiGrant;
pub(crate) use turn::{SubscriberCount, YieldPlan};
