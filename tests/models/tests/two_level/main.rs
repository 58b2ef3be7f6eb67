//! The two-level protocol, explored: safe with every rule, unsafe without any one of them.
//!
//! Run with `--nocapture` to see states, seconds, and the shortest way to each violation.

mod broken;
mod safe;
mod support;
