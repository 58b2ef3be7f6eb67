//! One measurement: a job of one driver, or of several concurrent processes of it.

use std::time::{Duration, Instant};

use redgrid_testkit::{Monitor, Observer, RedisServer};
use serde_json::Value;

use super::{BoxError, counters::ServerCounters, driver::Driver};

/// Time allowed for preparation and end, in addition to the section and its warm-up.
const SETUP_TIMEOUT: Duration = Duration::from_secs(30);

/// The result of a job, and its cost.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Section {
    pub(super) ops: f64,
    /// Operations per second.
    pub(super) rate: f64,
    /// Latency of an operation in microseconds. For several processes, `p50` is the median of
    /// theirs, and `p99` the maximum.
    pub(super) p50: f64,
    pub(super) p99: f64,
    pub(super) errors: f64,
    /// Violations of mutual exclusion; units oversold or undersold.
    pub(super) violations: f64,
    /// Tasks that continued to wait although the lock was free.
    pub(super) stuck: f64,
    /// Operations of the fastest task divided by those of the slowest. For several processes, the
    /// same ratio of processes.
    pub(super) spread: Option<f64>,
    /// Bytes per operation, in both directions.
    pub(super) bytes: f64,
    /// Microseconds per operation in which the server executed scripts, without reading requests
    /// and writing replies.
    pub(super) scripts: f64,
    /// Microseconds of processor time per operation.
    pub(super) server_cpu: f64,
    pub(super) client_cpu: Option<f64>,
}

/// The commands of the operations of a short section.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Sample {
    /// Commands per operation that the driver itself sent.
    pub(super) sent: f64,
    /// Commands per operation that the driver's scripts executed.
    pub(super) inside: f64,
    /// Allocations per operation, for drivers that count them.
    pub(super) allocations: Option<f64>,
}

/// Runs a short job of one driver, and records its commands; `None` if the driver lacks the
/// workload.
pub(super) async fn sample(
    driver: &mut Driver,
    server: &RedisServer,
    job: &str,
    within: Duration,
) -> Result<Option<Sample>, BoxError> {
    if !driver.ready(job, within + SETUP_TIMEOUT).await? {
        return Ok(None);
    }
    let mut monitor = Monitor::start(server).await?.with_scripts().without("PING");
    driver.go().await?;
    let outcome = driver.outcome(within + SETUP_TIMEOUT).await?;
    let seen = monitor.take().await?;
    let number = |name: &str| outcome.get(name).and_then(Value::as_f64);
    let each = number("ops").unwrap_or_default().max(1.0);
    let inside = seen.iter().filter(|command| command.source == "lua").count() as f64;
    let sent = seen.len() as f64 - inside;
    let allocations = number("allocations").map(|allocations| allocations / each);
    Ok(Some(Sample { sent: sent / each, inside: inside / each, allocations }))
}

/// Runs the same job in all processes concurrently; `None` if the driver lacks the workload.
pub(super) async fn measure(
    drivers: &mut [Driver],
    server: &Observer,
    job: &str,
    within: Duration,
) -> Result<Option<Section>, BoxError> {
    for driver in drivers.iter_mut() {
        if !driver.ready(job, within + SETUP_TIMEOUT).await? {
            return Ok(None);
        }
    }
    let used = |drivers: &[Driver]| drivers.iter().map(Driver::cpu).sum::<Option<Duration>>();
    let client = used(drivers);
    let before = ServerCounters::at(server).await?;
    let began = Instant::now();
    for driver in drivers.iter_mut() {
        driver.go().await?;
    }
    let mut outcomes = Vec::new();
    for driver in drivers.iter_mut() {
        outcomes.push(driver.outcome((within + SETUP_TIMEOUT).saturating_sub(began.elapsed())).await?);
    }
    let counters = ServerCounters::at(server).await?.since(before);
    let client = used(drivers).zip(client).map(|(after, before)| after.saturating_sub(before));
    Ok(Some(Section::of(&outcomes, counters, client)))
}

impl Section {
    /// Returns the number of errors, violations, and stuck tasks.
    pub(super) fn wrong(&self) -> f64 {
        self.errors + self.violations + self.stuck
    }

    fn of(outcomes: &[Value], counters: ServerCounters, client: Option<Duration>) -> Self {
        let number = |outcome: &Value, name: &str| outcome.get(name).and_then(Value::as_f64);
        let all = |name: &str| outcomes.iter().filter_map(|outcome| number(outcome, name)).collect::<Vec<_>>();
        let sum = |name: &str| all(name).iter().sum::<f64>();
        let ops = sum("ops");
        let each = ops.max(1.0);
        let lucky = if outcomes.len() > 1 {
            extremes(&all("ops"))
        } else {
            number(&outcomes[0], "min_task").zip(number(&outcomes[0], "max_task"))
        };
        let secs = all("secs").into_iter().fold(f64::MIN_POSITIVE, f64::max);
        Section {
            ops,
            // The rate that a single process reports is preferred: some workloads do not count
            // operations per second.
            rate: if let [only] = outcomes { number(only, "ops_s").unwrap_or(ops / secs) } else { ops / secs },
            p50: median(all("p50_us")).unwrap_or_default(),
            p99: all("p99_us").into_iter().fold(0.0, f64::max),
            errors: sum("errors"),
            violations: sum("violations"),
            stuck: sum("stuck"),
            spread: lucky.and_then(|(least, most)| (least > 0.0).then(|| most / least)),
            bytes: counters.bytes / each,
            scripts: counters.scripts / each,
            server_cpu: counters.cpu * 1e6 / each,
            client_cpu: client.map(|client| client.as_secs_f64() * 1e6 / each),
        }
    }
}

fn extremes(values: &[f64]) -> Option<(f64, f64)> {
    let least = values.iter().copied().reduce(f64::min)?;
    Some((least, values.iter().copied().reduce(f64::max)?))
}

/// Returns the median; of an even number, the mean of the middle two.
pub(super) fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let upper = *values.get(values.len() / 2)?;
    Some(if values.len() % 2 == 1 { upper } else { (values[values.len() / 2 - 1] + upper) / 2.0 })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn concurrent_processes_are_one_section() {
        let of = |ops: u64, secs: f64, p99: f64| json!({"ops": ops, "secs": secs, "ops_s": 1, "p50_us": 10.0, "p99_us": p99, "errors": 1});
        let counters = ServerCounters { commands: 0.0, bytes: 4000.0, cpu: 0.004, scripts: 800.0 };
        let section = Section::of(&[of(100, 1.0, 40.0), of(300, 2.0, 50.0)], counters, Some(Duration::from_millis(8)));
        assert_eq!((section.ops, section.rate, section.p99, section.errors), (400.0, 200.0, 50.0, 2.0));
        assert_eq!((section.spread, section.bytes), (Some(3.0), 10.0));
        assert_eq!((section.scripts, section.server_cpu.round(), section.client_cpu), (2.0, 10.0, Some(20.0)));
    }

    #[test]
    fn a_single_process_reports_its_own_rate_and_tasks() {
        let outcome = json!({"ops": 10, "secs": 1.0, "ops_s": 12.0, "min_task": 2, "max_task": 5});
        let section = Section::of(&[outcome], ServerCounters::default(), None);
        assert_eq!((section.rate, section.spread), (12.0, Some(2.5)));
    }

    #[test]
    fn the_median_is_the_middle_one() {
        assert_eq!(median(vec![]), None);
        assert_eq!((median(vec![3.0, 1.0, 9.0]), median(vec![4.0, 1.0])), (Some(3.0), Some(2.5)));
    }
}
