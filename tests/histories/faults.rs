//! Faults of a history, drawn from its seed, one after the other or concurrent.

use std::time::Duration;

use fastrand::Rng;
use redgrid_testkit::{Action, Direction, Fault, Kind, Proxy, RedisServer};

use super::crew::Worker;

/// A fault of one process, of its network, or of the server.
#[derive(Debug, Clone, Copy)]
pub(crate) enum HistoryFault {
    /// Higher latency.
    Slow(Direction, u64),
    /// Requests pass, and their replies are dropped.
    Swallow(usize),
    /// The connection is cut after the server has executed the request.
    CutAfter(usize),
    /// The connection is cut, and the request is lost.
    CutBefore(usize),
    /// Requests are held and arrive late.
    Late(usize),
    /// All connections are cut.
    CutAll,
    /// Nothing passes; data sent meanwhile is lost.
    BlackHole(Option<Direction>),
    /// Nothing passes; data arrives afterwards.
    Stall(Option<Direction>),
    /// Replies are delayed by this much, then nothing passes until every lease has ended.
    Dark(u64),
    /// Release messages are lost.
    DropMessages,
    /// The process is stopped.
    Stop,
    /// The process is killed.
    Kill,
    /// The server removes all scripts.
    FlushScripts,
    /// The server closes subscriber connections.
    KillSubscribers,
    /// The server closes other connections.
    KillConnections,
    /// The server is stopped.
    Pause,
}

/// A fault with its time, in milliseconds after the start.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FaultSpan {
    pub(crate) at: u64,
    pub(crate) lasts: u64,
    pub(crate) worker: usize,
    pub(crate) fault: HistoryFault,
}

/// The first random number that selects [`HistoryFault::Dark`].
const DARK: u8 = 24;
/// The first random number that selects [`HistoryFault::Stop`].
const STOP: u8 = 17;

impl FaultSpan {
    /// Draws a fault. In a `dark` history, half of them cut off or stop a process until its leases
    /// have ended.
    pub(crate) fn draw(rng: &mut Rng, workers: usize, millis: u64, longest_lease: u64, dark: bool) -> FaultSpan {
        let direction = if rng.bool() { Direction::ToClient } else { Direction::ToServer };
        let perhaps = rng.bool().then_some(direction);
        let any = rng.u8(..30);
        let cut_off = if rng.bool() { DARK } else { STOP };
        let (fault, lasts) = match if dark && rng.bool() { cut_off } else { any } {
            0..3 => (HistoryFault::Slow(direction, rng.u64(5..150)), rng.u64(50..500)),
            3..5 => (HistoryFault::Swallow(rng.usize(1..4)), 0),
            5..7 => (HistoryFault::CutAfter(rng.usize(1..4)), 0),
            7 => (HistoryFault::CutBefore(rng.usize(1..4)), 0),
            8..11 => (HistoryFault::Late(rng.usize(1..4)), rng.u64(50..600)),
            11 => (HistoryFault::CutAll, 0),
            12..14 => (HistoryFault::BlackHole(perhaps), rng.u64(50..longest_lease)),
            14..16 => (HistoryFault::Stall(perhaps), rng.u64(20..longest_lease)),
            16 => (HistoryFault::DropMessages, rng.u64(50..500)),
            STOP..20 => (HistoryFault::Stop, rng.u64(20..longest_lease + longest_lease / 2)),
            20 => (HistoryFault::Kill, 0),
            21 => (HistoryFault::FlushScripts, 0),
            22 => (HistoryFault::KillSubscribers, 0),
            23 => (HistoryFault::KillConnections, 0),
            DARK..28 => (HistoryFault::Dark(rng.u64(50..200)), longest_lease + 300),
            _ => (HistoryFault::Pause, rng.u64(10..250)),
        };
        FaultSpan { at: rng.u64(50..millis), lasts, worker: rng.usize(..workers), fault }
    }

    /// Causes the fault, and ends it.
    pub(crate) async fn inject(self, server: &RedisServer, workers: &[Worker]) {
        let Some(worker) = workers.get(self.worker) else { return };
        let (proxy, lasts) = (&worker.proxy, Duration::from_millis(self.lasts));
        match self.fault {
            HistoryFault::Slow(direction, by) => {
                proxy.set(direction, Fault::Delay(Duration::from_millis(by)));
                tokio::time::sleep(lasts).await;
                proxy.set(direction, Fault::Pass);
            }
            HistoryFault::Swallow(n) => proxy.next(n, "EVALSHA", Action::SwallowReply),
            HistoryFault::CutAfter(n) => proxy.next(n, "EVALSHA", Action::CutAfterForward),
            HistoryFault::CutBefore(n) => proxy.next(n, "EVALSHA", Action::CutBefore),
            HistoryFault::Late(n) => {
                proxy.next(n, "EVALSHA", Action::Hold);
                tokio::time::sleep(lasts).await;
                proxy.release_held().await;
            }
            HistoryFault::CutAll => proxy.cut_all(),
            HistoryFault::BlackHole(direction) => {
                set(proxy, direction, Fault::BlackHole);
                tokio::time::sleep(lasts).await;
                set(proxy, direction, Fault::Pass);
                // TCP would have detected the lost data by this time.
                proxy.cut_all();
            }
            HistoryFault::Stall(direction) => {
                set(proxy, direction, Fault::Stall);
                tokio::time::sleep(lasts).await;
                set(proxy, direction, Fault::Pass);
            }
            HistoryFault::Dark(late) => {
                proxy.set(Direction::ToClient, Fault::Delay(Duration::from_millis(late)));
                tokio::time::sleep(lasts / 3).await;
                proxy.set_both(Fault::BlackHole);
                tokio::time::sleep(lasts).await;
                proxy.set_both(Fault::Pass);
                proxy.cut_all();
            }
            HistoryFault::DropMessages => {
                proxy.drop_publishes(true);
                tokio::time::sleep(lasts).await;
                proxy.drop_publishes(false);
            }
            HistoryFault::Stop => {
                worker.stop();
                tokio::time::sleep(lasts).await;
                worker.go_on();
            }
            HistoryFault::Kill => worker.kill(),
            // The server may be stopped, and is then not flushed.
            HistoryFault::FlushScripts => drop(server.flush_scripts().await),
            HistoryFault::KillSubscribers => drop(kill_connections(server, Kind::PubSub).await),
            HistoryFault::KillConnections => drop(kill_connections(server, Kind::Normal).await),
            HistoryFault::Pause => {
                if server.pause().await.is_ok() {
                    tokio::time::sleep(lasts).await;
                    server.resume().await.expect("a paused server goes on");
                }
            }
        }
    }
}

/// Closes connections of the clients under test, not those of their counters.
async fn kill_connections(server: &RedisServer, kind: Kind) -> Result<usize, redgrid_testkit::redis::RedisError> {
    server.kill_connections_where(|client| client.kind == kind && client.name.starts_with("historian")).await
}

fn set(proxy: &Proxy, direction: Option<Direction>, fault: Fault) {
    match direction {
        Some(direction) => proxy.set(direction, fault),
        None => proxy.set_both(fault),
    }
}
