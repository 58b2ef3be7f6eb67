//! Adders: sums that each process counts in its own memory.
//!
//! `stripes` are the counters that an addition changes. `member` is the state of one adder in a
//! client, and `member_task` the task that listens for rounds, answers them and saves. `round`
//! sends a sum or a reset to all members and waits for their answers: one such scatter-gather
//! request is a round. `checkpoint` (pure) records which part of the saved total belongs to a
//! member, and since when, so that no round counts anything twice.

mod adder_number;
mod checkpoint;
mod double;
mod error;
mod long;
mod member;
mod member_task;
mod round;
mod scripts;
mod stripes;

pub use adder_number::{AdderNumber, Amount};
pub use double::DoubleAdder;
pub use error::AdderError;
pub use long::LongAdder;
pub use round::{Reset, Sum};
