//! What must hold, against real servers. ARCHITECTURE.md maps each promise to its test.

mod cancellation;
mod guards;
mod lock_basics;
mod renewals;
mod tokens;
mod weather;
mod wire;
