//! The result of a job, as text and as the JSON line that all drivers of the benchmark print.

use std::time::Duration;

use serde::Serialize;

use super::allocations;
use super::job::Job;
use super::latency::Latency;

/// The result of a job.
#[derive(Debug)]
pub(super) struct Outcome {
    pub(super) ops: u64,
    pub(super) errors: u64,
    /// Violations of mutual exclusion.
    pub(super) violations: u64,
    /// Tasks that still waited a second after the end.
    pub(super) stuck: u64,
    /// Operations of the slowest task.
    pub(super) min_task: u64,
    /// Operations of the fastest task.
    pub(super) max_task: u64,
    pub(super) secs: Duration,
    pub(super) latency: Latency,
    pub(super) handoff: Latency,
    pub(super) wait: Latency,
    /// The costs of holding locks; W5 only.
    pub(super) held: Option<Held>,
}

/// Costs of holding many locks. Rust has no garbage collector, so resident memory takes the place
/// of the heap size.
#[derive(Debug, Clone, Copy, Serialize)]
pub(super) struct Held {
    pub(super) n: usize,
    pub(super) acquire_s: f64,
    pub(super) rss0_kb: u64,
    pub(super) rss1_kb: u64,
    pub(super) heap0_kb: u64,
    pub(super) heap1_kb: u64,
}

#[derive(Serialize)]
struct Line<'a> {
    driver: &'a str,
    workload: String,
    tasks: usize,
    ops: u64,
    secs: f64,
    ops_s: f64,
    p50_us: f64,
    p99_us: f64,
    p999_us: f64,
    mean_us: f64,
    errors: u64,
    min_task: u64,
    max_task: u64,
    violations: u64,
    stuck: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    handoff_p50_us: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    handoff_p99_us: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    wait_p50_us: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    wait_p99_us: Option<f64>,
    /// Number of allocations since the start, if they are counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    allocations: Option<u64>,
    #[serde(flatten)]
    held: Option<Held>,
}

impl Outcome {
    /// Creates the outcome of a run without operations.
    pub(super) fn new() -> Self {
        Outcome {
            ops: 0,
            errors: 0,
            violations: 0,
            stuck: 0,
            min_task: 0,
            max_task: 0,
            secs: Duration::ZERO,
            latency: Latency::new(),
            handoff: Latency::new(),
            wait: Latency::new(),
            held: None,
        }
    }

    /// Whether there were no errors, violations or stuck tasks.
    pub(super) fn is_clean(&self) -> bool {
        self.errors == 0 && self.violations == 0 && self.stuck == 0
    }

    /// Formats the outcome as a line of JSON.
    pub(super) fn json(&self, job: &Job) -> serde_json::Result<String> {
        let allocations = allocations::since_the_start();
        let percentile = |of: &Latency, percent| (!of.is_empty()).then(|| of.percentile(percent));
        serde_json::to_string(&Line {
            driver: "redgrid",
            workload: job.workload.to_string(),
            tasks: job.tasks,
            ops: self.ops,
            secs: (self.secs.as_secs_f64() * 1e4).round() / 1e4,
            ops_s: (self.rate() * 10.0).round() / 10.0,
            p50_us: self.latency.percentile(50.0),
            p99_us: self.latency.percentile(99.0),
            p999_us: self.latency.percentile(99.9),
            mean_us: self.latency.mean(),
            errors: self.errors,
            min_task: self.min_task,
            max_task: self.max_task,
            violations: self.violations,
            stuck: self.stuck,
            handoff_p50_us: percentile(&self.handoff, 50.0),
            handoff_p99_us: percentile(&self.handoff, 99.0),
            wait_p50_us: percentile(&self.wait, 50.0),
            wait_p99_us: percentile(&self.wait, 99.0),
            allocations,
            held: self.held,
        })
    }

    /// Formats the outcome as a sentence.
    pub(super) fn sentence(&self, job: &Job) -> String {
        let wrong = format!("errors {}, violations {}, stuck tasks {}", self.errors, self.violations, self.stuck);
        if let Some(held) = self.held {
            let each = held.rss1_kb.saturating_sub(held.rss0_kb) * 1024 / held.n.max(1) as u64;
            return format!(
                "{}: {} locks held for {:.1} s, acquired in {:.2} s, {each} B of memory each; {wrong}",
                job.workload,
                held.n,
                self.secs.as_secs_f64(),
                held.acquire_s,
            );
        }
        format!(
            "{}, {} tasks: {} operations in {:.2} s, {:.0} a second; p50 {} µs, p99 {} µs, p99.9 {} µs; least and most lucky \
             task {} and {}; {wrong}",
            job.workload,
            job.tasks,
            self.ops,
            self.secs.as_secs_f64(),
            self.rate(),
            self.latency.percentile(50.0),
            self.latency.percentile(99.0),
            self.latency.percentile(99.9),
            self.min_task,
            self.max_task,
        )
    }

    /// Operations per second; 0 for an empty run.
    fn rate(&self) -> f64 {
        if self.secs.is_zero() { 0.0 } else { self.ops as f64 / self.secs.as_secs_f64() }
    }
}
