//! What a caller learns when the server is dead, hangs, refuses the client, or when the client
//! itself has ended: the kind of the error, and that it comes in time. One table: each file has
//! rows of it, `calls` has the columns.
//!
//! The same rows of the command line are tests of `redgrid-cli` (`tests/cli/outcomes.rs`).

mod calls;
mod ends;
mod locks;
mod losses;
mod refusals;
