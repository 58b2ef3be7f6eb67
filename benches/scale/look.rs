//! Memory and counters of this process and of servers at one point in time.

use std::alloc::System;
use std::time::Duration;

use redgrid_testkit::{Observer, RedisServer};
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};

use crate::Trouble;

/// Counts the bytes on the heap. The resident memory does not show a change of 100 bytes, because
/// the allocator retains freed memory.
#[global_allocator]
static COUNTING: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// Measurements of this process.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Own {
    /// Bytes in use on the heap.
    pub(crate) heap: f64,
    /// Resident memory, in bytes.
    pub(crate) resident: f64,
    /// Processor time, in seconds.
    pub(crate) cpu: f64,
}

impl Own {
    pub(crate) fn now() -> Self {
        let stats = COUNTING.stats();
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kilobytes = line.and_then(|line| line.split_whitespace().next()?.parse::<f64>().ok());
        let cpu = nix::time::clock_gettime(nix::time::ClockId::CLOCK_PROCESS_CPUTIME_ID).map(Duration::from);
        Own {
            heap: stats.bytes_allocated as f64 - stats.bytes_deallocated as f64,
            resident: kilobytes.unwrap_or_default() * 1024.0,
            cpu: cpu.unwrap_or_default().as_secs_f64(),
        }
    }
}

/// Counters of a server.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Counted {
    /// Processor time, in seconds.
    pub(crate) cpu: f64,
    /// Bytes in use.
    pub(crate) memory: f64,
    /// Commands, including those inside scripts.
    pub(crate) commands: f64,
    /// Calls of scripts.
    pub(crate) scripts: f64,
    /// Published messages.
    pub(crate) published: f64,
    /// Bytes read from clients, and written to them.
    pub(crate) read: f64,
    pub(crate) written: f64,
    /// Bytes written to replicas.
    pub(crate) replicated: f64,
    /// Channels with subscribers.
    pub(crate) channels: f64,
}

impl Counted {
    pub(crate) async fn at(server: &Observer) -> Result<Self, Trouble> {
        let info: String = server.query(&["INFO", "everything"]).await?;
        let mut counted = Counted::of(&info);
        // The server counts this reply after writing it, so the next call would include it.
        counted.written += info.len() as f64;
        Ok(counted)
    }

    /// Returns the sums over several servers.
    pub(crate) async fn at_all(servers: &[Observer]) -> Result<Self, Trouble> {
        let mut all = Counted::default();
        for server in servers {
            all = all.with(Counted::at(server).await?, 1.0);
        }
        Ok(all)
    }

    fn of(info: &str) -> Self {
        let mut counted = Counted::default();
        for (name, value) in info.lines().filter_map(|line| line.split_once(':')) {
            let number = || value.trim().parse::<f64>().unwrap_or_default();
            match name {
                "used_cpu_user" | "used_cpu_sys" => counted.cpu += number(),
                "used_memory" => counted.memory = number(),
                "total_net_input_bytes" => counted.read = number(),
                "total_net_output_bytes" => counted.written = number(),
                "total_net_repl_output_bytes" => counted.replicated = number(),
                "pubsub_channels" | "pubsubshard_channels" => counted.channels += number(),
                // This request itself is not counted.
                "cmdstat_info" => {}
                _ => {
                    let Some(command) = name.strip_prefix("cmdstat_") else { continue };
                    let calls = value.split(',').find_map(|part| part.strip_prefix("calls="));
                    let calls = calls.and_then(|calls| calls.parse::<f64>().ok()).unwrap_or_default();
                    counted.commands += calls;
                    match command {
                        "evalsha" | "eval" => counted.scripts += calls,
                        "publish" | "spublish" => counted.published += calls,
                        _ => {}
                    }
                }
            }
        }
        counted
    }

    /// Returns the difference to earlier counters.
    pub(crate) fn since(self, before: Self) -> Self {
        self.with(before, -1.0)
    }

    fn with(self, other: Self, sign: f64) -> Self {
        Counted {
            cpu: self.cpu + sign * other.cpu,
            memory: self.memory + sign * other.memory,
            commands: self.commands + sign * other.commands,
            scripts: self.scripts + sign * other.scripts,
            published: self.published + sign * other.published,
            read: self.read + sign * other.read,
            written: self.written + sign * other.written,
            replicated: self.replicated + sign * other.replicated,
            channels: self.channels + sign * other.channels,
        }
    }
}

/// Returns the bytes that the server processes have written, to clients and to each other.
pub(crate) fn written(servers: &[RedisServer]) -> Result<f64, Trouble> {
    let mut all = 0.0;
    for server in servers {
        let pid = server.pid().ok_or("a server has ended")?;
        let io = std::fs::read_to_string(format!("/proc/{pid}/io"))?;
        let line = io.lines().find_map(|line| line.strip_prefix("wchar:"));
        all +=
            line.and_then(|line| line.trim().parse::<f64>().ok()).ok_or("the system does not report written bytes")?;
    }
    Ok(all)
}
