//! The rows of the benchmark: workloads, their drivers, and our goals.

/// The driver that is the base of the first ratio.
pub(super) const REDISSON: &str = "redisson";

/// This library's driver.
pub(super) const OURS: &str = "redgrid";

/// This library's driver with all tasks on one thread, like the limit models.
pub(super) const OURS_ON_ONE: &str = "redgrid-ct";

/// The drivers of libraries with locks.
const LIBRARIES: [&str; 5] = [REDISSON, "rueidislock", "redsync", "redislock", "rslock"];

/// When a workload ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// After the seconds of a section.
    Time,
    /// After this many operations of all tasks together.
    Operations(u64),
    /// When a stock of this size is sold by three concurrent processes.
    Sold(u64),
    /// After this many rounds.
    Rounds(u64),
}

/// A workload with its number of tasks, and its drivers.
#[derive(Debug, Clone, Copy)]
pub(super) struct Row {
    pub(super) name: &'static str,
    pub(super) workload: &'static str,
    pub(super) tasks: u32,
    pub(super) end: End,
    /// Drivers of other libraries.
    pub(super) peers: &'static [&'static str],
    /// Programs without the safety of a lock, which show an upper limit. The first one is the base
    /// of the second ratio.
    pub(super) models: &'static [&'static str],
    /// Our goals: multiples of Redisson, and of the first model.
    pub(super) goals: (Option<f64>, Option<f64>),
    /// Further limits that our drivers must meet in this row.
    pub(super) bounds: Bounds,
}

/// Limits on results other than the rate.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Bounds {
    /// Operations of the fastest task or process, divided by those of the slowest.
    pub(super) spread: Option<f64>,
    /// The 99th percentile of the latency, in milliseconds.
    pub(super) p99_ms: Option<f64>,
}

impl Row {
    /// Returns the number of processes of a driver that work together.
    pub(super) fn processes(&self) -> usize {
        if matches!(self.end, End::Sold(_)) { 3 } else { 1 }
    }

    /// Returns all drivers; ours are last.
    pub(super) fn drivers(&self) -> impl Iterator<Item = &'static str> {
        self.peers.iter().chain(self.models).copied().chain([OURS, OURS_ON_ONE])
    }
}

const NONE: Bounds = Bounds { spread: None, p99_ms: None };

const fn row(name: &'static str, workload: &'static str, tasks: u32) -> Row {
    let end = End::Time;
    Row { name, workload, tasks, end, peers: &LIBRARIES, models: &[], goals: (None, None), bounds: NONE }
}

/// The workloads, in the order of measurement.
pub(super) const ROWS: [Row; 17] = [
    Row { models: &["raw1", "fred", "rawmux"], goals: (Some(2.4), Some(0.8)), ..row("W1, 1 task", "W1", 1) },
    Row {
        models: &["rawpipe", "fred", "rawmux", "rawpipe-str"],
        goals: (Some(7.5), Some(1.0)),
        ..row("W1, 16 tasks", "W1", 16)
    },
    Row {
        models: &["rawpipe", "fred", "rawmux", "rawpipe-str"],
        goals: (Some(14.0), Some(1.5)),
        ..row("W1, 256 tasks", "W1", 256)
    },
    Row {
        models: &["rawq2", "rawxfer", "rawhold"],
        goals: (Some(100.0), Some(40.0)),
        bounds: Bounds { spread: Some(1.1), p99_ms: None },
        ..row("W2, 8 tasks", "W2", 8)
    },
    Row {
        models: &["rawq2", "rawxfer", "rawhold"],
        goals: (Some(100.0), Some(40.0)),
        bounds: Bounds { spread: Some(1.1), p99_ms: None },
        ..row("W2, 64 tasks", "W2", 64)
    },
    Row {
        end: End::Sold(10_000),
        models: &["rawq2", "rawxfer", "rawhold"],
        goals: (Some(11.0), Some(1.75)),
        bounds: Bounds { spread: Some(1.25), p99_ms: Some(30.0) },
        ..row("W3, 3 processes of 16", "W3", 16)
    },
    Row {
        end: End::Operations(100_000),
        peers: &[REDISSON, "rueidis", "goredis"],
        models: &["rawmux", "fred"],
        goals: (Some(5.0), Some(0.75)),
        ..row("W4, 10 tasks", "W4", 10)
    },
    Row {
        end: End::Operations(100_000),
        peers: &[REDISSON, "rueidis"],
        models: &["rawmux", "fred"],
        goals: (None, Some(2.0)),
        ..row("W4, 256 tasks", "W4", 256)
    },
    Row {
        end: End::Operations(100_000),
        peers: &[REDISSON],
        models: &["rawmux"],
        goals: (Some(2.0), None),
        ..row("W4 adder, 10 tasks", "W4adder", 10)
    },
    Row {
        peers: &[REDISSON],
        models: &["rawmux"],
        goals: (Some(30.0), Some(2.4)),
        ..row("W6 read-write, 32 tasks", "W6rw", 32)
    },
    Row {
        peers: &[REDISSON],
        models: &["rawmux"],
        goals: (Some(10.0), Some(1.2)),
        ..row("W6 semaphore, 32 tasks", "W6sem", 32)
    },
    Row {
        peers: &[REDISSON],
        models: &["rawq2", "rawxfer"],
        goals: (Some(7.0), Some(0.9)),
        ..row("W6 fair, 8 tasks", "W6fair", 8)
    },
    Row {
        end: End::Rounds(20),
        peers: &[REDISSON],
        models: &["rawmux"],
        goals: (Some(25.0), Some(0.7)),
        ..row("W6 latch, 100 waiters", "W6latch", 100)
    },
    Row { peers: &[], ..row("W7 queue, 1 task", "W7queue", 1) },
    Row { peers: &[], ..row("W7 queue, 64 tasks", "W7queue", 64) },
    Row { peers: &[], ..row("W7 push, 1 task", "W7push", 1) },
    Row { peers: &[], ..row("W7 push, 64 tasks", "W7push", 64) },
];
