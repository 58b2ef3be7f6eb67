//! The two-level protocol, explored: it is safe with all rules, and unsafe if any one is off.
//!
//! Run with `--nocapture` to see states, seconds, and the shortest path to each violation.

mod broken;
mod safe;
mod support;
