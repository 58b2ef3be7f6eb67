//! Synchronization between processes, on Redis and Valkey: barriers, phasers, conditions, events,
//! notifications.
//!
//! Use it when processes must wait for each other. A process that dies does not block the others:
//! its participation ends with its lease.
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
//! | object | waits for |
//! |---|---|
//! | [`Barrier`] | all parties, round after round |
//! | [`DoubleBarrier`] | all parties to enter, and all to leave |
//! | [`Phaser`] | all parties of a changing set, phase after phase |
//! | [`Condition`] | under a lock: changes that others make under it |
//! | [`Event`] | an event, which stays set for all waiters |
//! | [`Notify`] | a notification of one waiter or of all |
//!
//! # Guarantees
//!
//! On one server that keeps its memory, no lost, late or repeated reply counts a party twice or
//! lets a party through early.
//!
//! A participant has a lease (the client's `watchdog_lease`, 30 s), which is renewed while its
//! process lives and its future or guard exists. A participant that gives up is removed at once,
//! and one that dies when its lease ends. If a failover loses state, the processes announce it to
//! the new primary. `docs/objects/barriers.md` lists the cases that this covers.
//!
//! # Keys
//!
//! | key or channel | type | lifetime |
//! |---|---|---|
//! | `redgrid_barrier:{name}`, `redgrid_barrier_waiting:{name}` | hash of rounds and participants; sorted set of waiters | the lease and 10 minutes |
//! | `redgrid_double_barrier:{name}`, `…_waiting:{name}`, `…_inside:{name}` | hash of the session and participants; waiters, parties inside | the same |
//! | `redgrid_phaser:{name}`, `…_parties:{name}`, `…_arrived:{name}` | hash of phases and parties; parties, arrivals | the same |
//! | `redgrid_condition:{name}`, `…_line:{name}`, `…_notified:{name}` | hash of waiters; queue of waiters, notified waiters | the same |
//! | `redgrid_notify:{name}`, `…_line:{name}`, `…_notified:{name}` | the same | the same |
//! | `redgrid_event:{name}` | hash: whether it is set, and until when | 10 minutes after the end of its lifetime (30 days unless configured) or its reset; unlimited without a lifetime |
//! | `redgrid_barrier__channel:{name}` and so on | channel: notifications of changes | |
//! | `redgrid_once:redgrid_event:{name}:<client id>`, the same for `notify`, `condition` and `phaser` | string: the reply to the last `set`, `notify`, `terminate` | 30 s and twice the `response_timeout` (36 s unless configured) |
//!
//! A namespace precedes the name, inside the braces.

#![cfg_attr(docsrs, feature(doc_cfg))]

mod barrier;
mod condition;
mod double_barrier;
mod error;
mod event;
mod handle;
mod keepalive;
mod notify;
mod notify_queue;
mod party;
mod phaser;
mod reannounce;

pub use barrier::{Barrier, BarrierWait, BarrierWaitResult};
pub use condition::{Condition, ConditionError};
pub use double_barrier::{DoubleBarrier, DoubleBarrierGuard, Enter, Leave};
pub use error::{BarrierError, WaitError};
pub use event::{Event, EventWait};
pub use notify::{Notified, Notify};
pub use party::{Advance, Party};
pub use phaser::{Phaser, PhaserError, PhaserState, WaitAdvance};
pub use redgrid_core::{Client, Config, Failure, ServerError};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handles_guards_and_futures_are_send() {
        fn is_send_sync<T: Send + Sync + 'static>() {}
        is_send_sync::<(Barrier, BarrierWait, DoubleBarrier, Enter, DoubleBarrierGuard, Leave)>();
        is_send_sync::<(Phaser, Party, WaitAdvance, Condition, Event, EventWait, Notify, Notified)>();
        fn is_send<T: Send>(_: T) {}
        let _ = |party: &Party, condition: &Condition, guard: redgrid_locks::LockGuard| {
            is_send(party.arrive_and_wait().into_future());
            is_send(condition.wait(guard));
        };
    }
}
