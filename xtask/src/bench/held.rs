//! W5: the cost of holding 10,000 locks with automatic renewal. All drivers run at the same time,
//! each with its own server.

use std::{path::PathBuf, time::Duration};

use redgrid_testkit::{Observer, RedisServer};
use serde_json::Value;

use super::{BoxError, counters::ServerCounters, driver::Driver};

/// Number of locks.
const LOCKS: u32 = 10_000;

/// The drivers, and for each whether a warm-up of one second of lock and unlock precedes the
/// measurement.
pub(super) const DRIVERS: [(&str, bool); 6] = [
    ("redisson", false),
    ("redisson", true),
    ("rueidislock", false),
    ("rawmux", false),
    ("redgrid", false),
    ("redgrid", true),
];

/// The cost of one driver.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Held {
    pub(super) driver: &'static str,
    pub(super) burst: bool,
    /// Number of locks that still exist at the end.
    pub(super) left: u64,
    /// Seconds of processor time per minute.
    pub(super) client_cpu: f64,
    pub(super) server_cpu: f64,
    pub(super) commands: f64,
    /// Resident memory in bytes per lock.
    pub(super) memory: f64,
    pub(super) acquired_in: f64,
}

/// Design goals: seconds of processor time per minute, and bytes per lock.
pub(super) const GOALS: (f64, f64) = (0.3, 1024.0);

/// Measures all drivers concurrently for this long. They do not distort each other's results,
/// because only the processor time of each process counts.
pub(super) async fn measure(
    program: impl Fn(&'static str) -> Option<(PathBuf, &'static [&'static str])>,
    hold: Duration,
) -> Result<Vec<Held>, BoxError> {
    let mut running = Vec::new();
    for (name, burst) in DRIVERS {
        let Some((path, first)) = program(name) else { continue };
        let server = RedisServer::start().await?;
        let mut driver = Driver::start(name, &path, first, &server.addr().to_string()).await?;
        let secs = hold.as_secs_f64();
        let warm = u8::from(burst);
        let job = format!("workload=W5 n={LOCKS} secs={secs} prefix=w5 warm={warm}");
        if driver.ready(&job, Duration::from_secs(120)).await? {
            let observer = server.observer().await?;
            running.push((name, burst, driver, server, observer));
        }
    }
    let mut before = Vec::new();
    for (_, _, driver, _, observer) in &mut running {
        before.push((driver.cpu(), ServerCounters::at(observer).await?));
        driver.go().await?;
    }
    let mut rows = Vec::new();
    for ((name, burst, mut driver, _server, observer), (cpu, counters)) in running.into_iter().zip(before) {
        let outcome = driver.outcome(hold + Duration::from_secs(60)).await?;
        let cpu = driver.cpu().zip(cpu).map_or(0.0, |(after, before)| after.saturating_sub(before).as_secs_f64());
        let counters = ServerCounters::at(&observer).await?.since(counters);
        rows.push(row(name, burst, &outcome, (cpu, counters), keys(&observer).await?));
        driver.quit().await;
    }
    Ok(rows)
}

fn row(driver: &'static str, burst: bool, outcome: &Value, took: (f64, ServerCounters), left: u64) -> Held {
    let number = |name: &str| outcome.get(name).and_then(Value::as_f64).unwrap_or_default();
    let (cpu, counters) = took;
    let a_minute = 60.0 / number("secs").max(f64::MIN_POSITIVE);
    Held {
        driver,
        burst,
        left,
        client_cpu: cpu * a_minute,
        server_cpu: counters.cpu * a_minute,
        commands: counters.commands * a_minute / 60.0,
        memory: (number("rss1_kb") - number("rss0_kb")) * 1024.0 / f64::from(LOCKS),
        acquired_in: number("acquire_s"),
    }
}

async fn keys(server: &Observer) -> Result<u64, BoxError> {
    Ok(server.query(&["DBSIZE"]).await?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn costs_are_reported_per_minute_and_per_lock() {
        let outcome = serde_json::json!({"secs": 30.0, "rss0_kb": 1000, "rss1_kb": 11_000, "acquire_s": 0.5});
        let counters = ServerCounters { commands: 300.0, cpu: 0.1, ..ServerCounters::default() };
        let row = row("redgrid", true, &outcome, (0.2, counters), 10_000);
        assert_eq!((row.client_cpu, row.server_cpu, row.commands, row.memory), (0.4, 0.2, 10.0, 1024.0));
    }
}
