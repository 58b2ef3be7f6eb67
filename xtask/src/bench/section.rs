//! One measurement: a job that one driver does, or several processes of it at once.

use std::time::{Duration, Instant};

use redgrid_testkit::{Monitor, Observer, RedisServer};
use serde_json::Value;

use super::{Trouble, counted::Counted, driver::Driver};

/// Beside its seconds, and its warm-up: what setting up and ending may take.
const AROUND: Duration = Duration::from_secs(30);

/// What a job came to, and what it took.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Section {
    pub(super) ops: f64,
    /// Operations a second.
    pub(super) rate: f64,
    /// Of an operation, in microseconds; of several processes the median, and the longest.
    pub(super) p50: f64,
    pub(super) p99: f64,
    pub(super) errors: f64,
    /// Who was inside when another was; sold too often or too seldom.
    pub(super) violations: f64,
    /// Tasks that slept on although nobody was in the way.
    pub(super) stuck: f64,
    /// Operations of the luckiest task by those of the least lucky; of several processes, those of the processes.
    pub(super) spread: Option<f64>,
    /// Bytes an operation, both ways.
    pub(super) bytes: f64,
    /// Microseconds of a processor an operation.
    pub(super) server_cpu: f64,
    pub(super) client_cpu: Option<f64>,
}

/// What the operations of a short section consist of.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Sample {
    /// Commands an operation that the driver sent.
    pub(super) sent: f64,
    /// Commands an operation that its scripts ran.
    pub(super) inside: f64,
    /// Allocations an operation, of drivers that count them.
    pub(super) allocations: Option<f64>,
}

/// Has one driver do a short job while the server shows every command; `None` where it does not know the workload.
pub(super) async fn sample(
    driver: &mut Driver,
    server: &RedisServer,
    job: &str,
    within: Duration,
) -> Result<Option<Sample>, Trouble> {
    if !driver.ready(job, within + AROUND).await? {
        return Ok(None);
    }
    let mut monitor = Monitor::start(server).await?.with_scripts().without("PING");
    driver.go().await?;
    let outcome = driver.outcome(within + AROUND).await?;
    let seen = monitor.take().await?;
    let number = |name: &str| outcome.get(name).and_then(Value::as_f64);
    let each = number("ops").unwrap_or_default().max(1.0);
    let inside = seen.iter().filter(|command| command.source == "lua").count() as f64;
    let sent = seen.len() as f64 - inside;
    let allocations = number("allocations").map(|allocations| allocations / each);
    Ok(Some(Sample { sent: sent / each, inside: inside / each, allocations }))
}

/// Has all of them do the job at once; `None` where they do not know the workload.
pub(super) async fn measure(
    drivers: &mut [Driver],
    server: &Observer,
    job: &str,
    within: Duration,
) -> Result<Option<Section>, Trouble> {
    for driver in drivers.iter_mut() {
        if !driver.ready(job, within + AROUND).await? {
            return Ok(None);
        }
    }
    let used = |drivers: &[Driver]| drivers.iter().map(Driver::cpu).sum::<Option<Duration>>();
    let (client, before, began) = (used(drivers), Counted::at(server).await?, Instant::now());
    for driver in drivers.iter_mut() {
        driver.go().await?;
    }
    let mut outcomes = Vec::new();
    for driver in drivers.iter_mut() {
        outcomes.push(driver.outcome((within + AROUND).saturating_sub(began.elapsed())).await?);
    }
    let counted = Counted::at(server).await?.since(before);
    let client = used(drivers).zip(client).map(|(after, before)| after.saturating_sub(before));
    Ok(Some(Section::of(&outcomes, counted, client)))
}

impl Section {
    /// What must not be: errors, violations, and tasks that slept on.
    pub(super) fn wrong(&self) -> f64 {
        self.errors + self.violations + self.stuck
    }

    fn of(outcomes: &[Value], counted: Counted, client: Option<Duration>) -> Self {
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
            // Some drivers tell a rate of another thing than operations of their seconds.
            rate: if let [only] = outcomes { number(only, "ops_s").unwrap_or(ops / secs) } else { ops / secs },
            p50: median(all("p50_us")).unwrap_or_default(),
            p99: all("p99_us").into_iter().fold(0.0, f64::max),
            errors: sum("errors"),
            violations: sum("violations"),
            stuck: sum("stuck"),
            spread: lucky.and_then(|(least, most)| (least > 0.0).then(|| most / least)),
            bytes: counted.bytes / each,
            server_cpu: counted.cpu * 1e6 / each,
            client_cpu: client.map(|client| client.as_secs_f64() * 1e6 / each),
        }
    }
}

fn extremes(values: &[f64]) -> Option<(f64, f64)> {
    let least = values.iter().copied().reduce(f64::min)?;
    Some((least, values.iter().copied().reduce(f64::max)?))
}

/// The middle of them; of an even number, the mean of the middle two.
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
    fn what_several_processes_did_at_once_is_one_section() {
        let of = |ops: u64, secs: f64, p99: f64| json!({"ops": ops, "secs": secs, "ops_s": 1, "p50_us": 10.0, "p99_us": p99, "errors": 1});
        let counted = Counted { commands: 0.0, bytes: 4000.0, cpu: 0.004 };
        let section = Section::of(&[of(100, 1.0, 40.0), of(300, 2.0, 50.0)], counted, Some(Duration::from_millis(8)));
        assert_eq!((section.ops, section.rate, section.p99, section.errors), (400.0, 200.0, 50.0, 2.0));
        assert_eq!((section.spread, section.bytes), (Some(3.0), 10.0));
        assert_eq!((section.server_cpu.round(), section.client_cpu), (10.0, Some(20.0)));
    }

    #[test]
    fn one_process_tells_its_own_rate_and_tasks() {
        let outcome = json!({"ops": 10, "secs": 1.0, "ops_s": 12.0, "min_task": 2, "max_task": 5});
        let section = Section::of(&[outcome], Counted::default(), None);
        assert_eq!((section.rate, section.spread), (12.0, Some(2.5)));
    }

    #[test]
    fn the_median_is_the_middle_one() {
        assert_eq!(median(vec![]), None);
        assert_eq!((median(vec![3.0, 1.0, 9.0]), median(vec![4.0, 1.0])), (Some(3.0), Some(2.5)));
    }
}
