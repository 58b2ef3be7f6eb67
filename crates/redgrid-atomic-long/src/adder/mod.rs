//! Sums that are counted in the memory of each process, and asked for over all of them.
//!
//! `stripes` is what adding touches. `member` is what a client has of one adder, `attend` the task that listens for rounds,
//! answers them and saves; `round` asks all members and waits for their answers. `saved` (pure) knows which part of a saved
//! total is whose, and since when, so that no round counts anything twice.

mod attend;
mod double;
mod error;
mod figure;
mod long;
mod member;
mod round;
mod saved;
mod scripts;
mod stripes;

pub use double::DoubleAdder;
pub use error::AdderError;
pub use figure::Amount;
pub use long::LongAdder;
pub use round::{Reset, Sum};
