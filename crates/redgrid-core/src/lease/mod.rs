//! Leases on the server: of locks and of permits.
//!
//! A lease is valid locally from before its request was sent, and ends a margin before it ends on
//! the server. It is renewed after a third of its length. Each client has two renewal loops: one
//! for locks, one for permits. A loop sleeps until the first lease of its schedules is due or ends.
//!
//! | file | contents |
//! |---|---|
//! | `terms` | margins, deadlines and intervals as functions of their inputs |
//! | `deadline` | a deadline that stays passed once it was observed as passed |
//! | `schedule` | when each lease is due, and when it ends |
//! | `reconnect` | the verification of leases after a reconnect |
//! | `wakeup` | the next wake-up of a renewal loop |

mod deadline;
mod reconnect;
mod schedule;
mod terms;
mod wakeup;

pub(crate) use deadline::Deadline;
pub(crate) use reconnect::after_reconnects;
pub(crate) use schedule::{Lease, Schedule};
pub use terms::LeaseMode;
pub(crate) use terms::{deadline, margin, next_renewal, retry_pause, with_margin};
pub(crate) use wakeup::Wakeup;
