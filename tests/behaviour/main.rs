//! What must hold, against real servers. ARCHITECTURE.md maps each promise to its test.

mod lock_basics;
