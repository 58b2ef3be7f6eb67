//! Holding: what a process holds, who waits for it, and who gives it back.
//!
//! The table owns every hold, every queue and every attempt in flight; a future of the caller only waits on it. So a
//! future that is dropped leaves a place in a queue, never a request without an owner.
//!
//! | file | what happens there |
//! |---|---|
//! | `kind` | what differs between kinds of holds: their scripts |
//! | `terms` | leases, margins and deadlines, as functions of their inputs |
//! | `holder` | who holds: explicit, never a task or thread |
//! | `state` | one hold: its deadline, its phase, its watchers |
//! | `table` | names, queues, entering and leaving |
//! | `ticket` | a request under way, as its caller sees it |
//! | `flight` | an exchange that its caller polls in place, until somebody else needs it |
//! | `attempt` | asking the server, and what its answer means |
//! | `drive` | the loop of a name that more than one waits for |
//! | `release` | giving back, settling what is unclear, shutting down |
//! | `seize` | taking by force |
//! | `schedule` | which hold is due when |
//! | `engine` | renewals in bulk, deadlines, verification after a reconnect |
//! | `grant` | the armed proof that guards are made of |

mod attempt;
mod drive;
mod engine;
mod error;
mod flight;
mod grant;
mod holder;
mod kind;
mod release;
mod schedule;
mod seize;
mod state;
mod table;
mod terms;
mod ticket;

pub use error::{AcquireError, ExtendError, LostReason, ReleaseError};
pub(crate) use flight::Work;
pub use grant::{Grant, HoldWatch};
pub use holder::{Holder, HolderId};
pub use kind::{Claim, HoldKind, Target};
pub(crate) use table::Table;
pub use terms::{Lease, Wish};
pub use ticket::Ticket;
