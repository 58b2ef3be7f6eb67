//! What must hold, against real servers. ARCHITECTURE.md maps each promise to its test.

mod acl;
mod arguments;
mod black_hole;
mod cancellation;
mod commands;
mod deadlines;
mod durability;
mod guards;
mod handover;
mod lock_basics;
mod lost_replies;
mod processes;
mod redirections;
mod regressions;
mod renewals;
mod suspicions;
mod tokens;
mod too_late;
mod two_levels;
mod unsettled;
mod wakeups;
mod weather;
mod wire;
