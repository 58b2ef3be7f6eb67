//! The errors that a caller gets when the server is dead, hangs or refuses the client, or when the
//! client itself has ended. Each error has its kind, and is reported in time. All tests are one
//! table: each file has rows of it, and `calls` has the columns.
//!
//! The rows for the command line are tests of `redgrid-cli` (`tests/cli/outcomes.rs`).

mod calls;
mod ends;
mod locks;
mod losses;
mod refusals;
