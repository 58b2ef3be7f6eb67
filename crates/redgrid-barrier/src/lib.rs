//! Waiting for each other between processes, on Redis and Valkey.
//!
//! ```no_run
//! # async fn demo() -> Result<(), Box<dyn std::error::Error>> {
//! use redgrid_barrier::{Barrier, Client};
//!
//! let client = Client::connect("redis://127.0.0.1:6379").await?;
//! let result = Barrier::new(&client, "import:start", 3).wait().await?; // three processes are here
//! if result.is_leader() { /* one of them */ }
//! # Ok(()) }
//! ```
//!
//! | object | who waits for what |
//! |---|---|
//! | [`Barrier`] | all for all, round after round |
//! | [`DoubleBarrier`] | all begin together, and all end together |
//! | [`Phaser`] | phase after phase, by parties that come and go |
//! | [`Condition`] | one who holds a lock, for what others change under it |
//! | [`Event`] | everybody, for something that happens and stays so |
//! | [`Notify`] | one, or all, for a nudge |
//!
//! # What it promises
//!
//! On one server whose memory is kept, no answer lost, late or repeated counts anybody twice or lets anybody through early. Who takes part
//! does so by a lease (the client's `watchdog_lease`, 30 s), renewed while its process lives and its future or guard is kept: who gave up
//! is taken out at once, who died when its lease ends. What a failover forgets is told to the new primary by those who remember it;
//! `docs/barriers.md` says what that covers and what not.
//!
//! # Keys
//!
//! | key or channel | type | lifetime |
//! |---|---|---|
//! | `redgrid_barrier:{name}`, `redgrid_barrier_waiting:{name}` | hash of rounds and seats; sorted set of who waits | the lease and 10 minutes |
//! | `redgrid_double_barrier:{name}`, `…_waiting:{name}`, `…_inside:{name}` | the same; who waits, who is inside | the same |
//! | `redgrid_phaser:{name}`, `…_parties:{name}`, `…_arrived:{name}` | the same; parties, arrivals | the same |
//! | `redgrid_condition:{name}`, `…_line:{name}`, `…_notified:{name}` | the same; who waits, who is notified | the same |
//! | `redgrid_notify:{name}`, `…_line:{name}`, `…_notified:{name}` | the same | the same |
//! | `redgrid_event:{name}` | hash: whether it is set, until when | 30 days and 10 minutes after it was set, unless said otherwise; 10 minutes after it was reset |
//! | `redgrid_barrier__channel:{name}` and so on | channel: something has changed | |
//! | `redgrid_once:redgrid_event:{name}:<client id>`, the same of `notify`, `condition` and `phaser` | string: the answer of the last `set`, `notify`, `terminate` | 34 s |
//!
//! A namespace goes in front of the name, inside the braces.

mod barrier;
mod condition;
mod double_barrier;
mod error;
mod event;
mod keeper;
mod line;
mod notify;
mod party;
mod phaser;
mod place;
mod witness;

pub use barrier::{Barrier, BarrierWait, BarrierWaitResult};
pub use condition::{Condition, ConditionError};
pub use double_barrier::{DoubleBarrier, DoubleBarrierGuard, Enter, Leave};
pub use error::{AskError, BarrierError, WaitError};
pub use event::{Event, EventWait};
pub use notify::{Notified, Notify};
pub use party::{Advance, Party};
pub use phaser::{Phaser, PhaserError, PhaserState, WaitAdvance};
pub use redgrid_core::{Client, Config, ServerError};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handles_guards_and_calls_move_between_tasks() {
        fn is_free_to_move<T: Send + Sync + 'static>() {}
        is_free_to_move::<(Barrier, BarrierWait, DoubleBarrier, Enter, DoubleBarrierGuard, Leave)>();
        is_free_to_move::<(Phaser, Party, WaitAdvance, Condition, Event, EventWait, Notify, Notified)>();
        fn is_sent<T: Send>(_: T) {}
        let _ = |party: &Party, condition: &Condition, guard: redgrid_locks::LockGuard| {
            is_sent(party.arrive_and_wait().into_future());
            is_sent(condition.wait(guard));
        };
    }
}
