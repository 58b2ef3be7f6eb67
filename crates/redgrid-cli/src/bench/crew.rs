//! Tasks that repeat an operation until the end of a run.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::timeout_at;

use super::BoxError;
use super::latency::Latency;
use super::outcome::Outcome;
use crate::failure::one_line;

/// A run without a time limit ends after 10 minutes.
const LONGEST: Duration = Duration::from_secs(600);

/// A task that still waits 1 s after the end is counted as stuck and cancelled.
const STUCK_AFTER: Duration = Duration::from_secs(1);

/// The run ends after 100 errors: more errors add no information.
const ENOUGH_ERRORS: u64 = 100;

/// The operation that a task repeats.
pub(super) trait Cycle: Send + 'static {
    /// Executes the operation once; returns false when no work is left.
    fn once(&mut self, measurements: &mut Measurements) -> impl Future<Output = Result<bool, BoxError>> + Send;
}

/// The measurements of one task.
#[derive(Debug)]
pub(super) struct Measurements {
    /// Latency of whole operations; recorded by the loop that runs them.
    latency: Latency,
    /// Start of the current operation.
    pub(super) begun: Instant,
    /// Time from the call of release to the return of the next owner's acquire.
    pub(super) handoff: Latency,
    /// Duration of the acquire alone, under contention.
    pub(super) wait: Latency,
    done: u64,
    last: Option<Instant>,
}

/// When a run ends: after a number of operations of all tasks together, or after a time.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bounds {
    pub(super) ops: Option<u64>,
    pub(super) secs: Option<Duration>,
}

impl Bounds {
    /// Ends after this time.
    pub(super) fn time(secs: Duration) -> Self {
        Bounds { ops: None, secs: Some(secs) }
    }
}

/// Runs each cycle as a task until the end.
pub(super) async fn run<C: Cycle>(cycles: Vec<C>, bounds: Bounds) -> Outcome {
    let shared = Arc::new(Shared { taken: AtomicU64::new(0), errors: AtomicU64::new(0) });
    let tasks = cycles.len();
    let began = Instant::now();
    let end = began + bounds.secs.unwrap_or(LONGEST);
    let (channel, mut receiver) = mpsc::unbounded_channel();
    let mut running = JoinSet::new();
    for cycle in cycles {
        let sender = MeasurementsSender { measurements: Some(Measurements::new()), channel: channel.clone() };
        running.spawn(work(cycle, sender, Arc::clone(&shared), bounds.ops, end));
    }
    drop(channel);
    while let Ok(Some(ended)) = timeout_at((end + STUCK_AFTER).into(), running.join_next()).await {
        if let Err(error) = ended {
            shared.count_error(&error.to_string());
        }
    }
    let stuck = running.len();
    running.shutdown().await;
    let mut outcome = Outcome::new();
    outcome.stuck = stuck as u64;
    outcome.errors = shared.errors.load(Relaxed);
    let mut last = began;
    let mut least = u64::MAX;
    let mut most = 0;
    // Every task has ended, so all measurements were sent.
    while let Some(measurements) = receiver.recv().await {
        outcome.ops += measurements.done;
        least = least.min(measurements.done);
        most = most.max(measurements.done);
        last = last.max(measurements.last.unwrap_or(began));
        outcome.latency.add(&measurements.latency);
        outcome.handoff.add(&measurements.handoff);
        outcome.wait.add(&measurements.wait);
    }
    outcome.min_task = if tasks == 0 { 0 } else { least };
    outcome.max_task = most;
    outcome.secs = last - began;
    outcome
}

async fn work<C: Cycle>(
    mut cycle: C,
    mut sender: MeasurementsSender,
    shared: Arc<Shared>,
    ops: Option<u64>,
    end: Instant,
) {
    let Some(measurements) = &mut sender.measurements else { return };
    // The clock is read once per operation: the end of one is the beginning of the next.
    let mut now = Instant::now();
    while now < end && ops.is_none_or(|ops| shared.taken.fetch_add(1, Relaxed) < ops) {
        measurements.begun = now;
        let done = cycle.once(measurements).await;
        now = Instant::now();
        match done {
            Ok(true) => {
                measurements.latency.record(now - measurements.begun);
                measurements.done += 1;
                measurements.last = Some(now);
            }
            Ok(false) => return,
            Err(error) => {
                shared.count_error(&one_line(&*error));
                if shared.errors.load(Relaxed) > ENOUGH_ERRORS {
                    return;
                }
            }
        }
    }
}

struct Shared {
    taken: AtomicU64,
    errors: AtomicU64,
}

impl Shared {
    /// Counts an error, and prints the first one.
    fn count_error(&self, error: &str) {
        if self.errors.fetch_add(1, Relaxed) == 0 {
            eprintln!("redgrid: first error of this run: {error}");
        }
    }
}

impl Measurements {
    fn new() -> Self {
        let latency = Latency::new();
        let handoff = Latency::new();
        let wait = Latency::new();
        Measurements { latency, begun: Instant::now(), handoff, wait, done: 0, last: None }
    }
}

/// Sends the measurements of a task when it ends, also when it is cancelled. The measured loop
/// therefore needs no timer.
struct MeasurementsSender {
    measurements: Option<Measurements>,
    channel: mpsc::UnboundedSender<Measurements>,
}

impl Drop for MeasurementsSender {
    fn drop(&mut self) {
        if let Some(measurements) = self.measurements.take() {
            // The receiver reads until the channel is closed.
            let _ = self.channel.send(measurements);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The number of a task, and the function that it calls.
    struct Counting(usize, fn(usize) -> Result<bool, BoxError>);

    impl Cycle for Counting {
        async fn once(&mut self, _: &mut Measurements) -> Result<bool, BoxError> {
            tokio::task::yield_now().await;
            (self.1)(self.0)
        }
    }

    struct Asleep;

    impl Cycle for Asleep {
        async fn once(&mut self, _: &mut Measurements) -> Result<bool, BoxError> {
            std::future::pending().await
        }
    }

    fn crew(does: fn(usize) -> Result<bool, BoxError>) -> Vec<Counting> {
        (0..4).map(|task| Counting(task, does)).collect()
    }

    #[tokio::test]
    async fn operations_of_all_tasks_together_are_bounded() {
        let outcome = run(crew(|_| Ok(true)), Bounds { ops: Some(1001), secs: None }).await;
        assert_eq!((outcome.ops, outcome.errors, outcome.stuck), (1001, 0, 0));
        assert!(outcome.min_task > 0 && outcome.min_task <= 251 && outcome.max_task >= 251);
        assert_eq!(outcome.latency.len(), 1001);
    }

    #[tokio::test]
    async fn a_task_that_has_nothing_left_ends_and_errors_end_the_run() {
        let outcome = run(crew(|task| Ok(task > 9)), Bounds { ops: Some(1000), secs: None }).await;
        assert_eq!((outcome.ops, outcome.min_task, outcome.max_task), (0, 0, 0));
        assert!(outcome.latency.is_empty());
        let outcome = run(crew(|_| Err("broken".into())), Bounds { ops: None, secs: None }).await;
        assert!(outcome.errors > 100 && outcome.errors < 110, "{}", outcome.errors);
    }

    #[tokio::test(start_paused = true)]
    async fn a_task_that_waits_after_the_end_is_counted_as_stuck() {
        let outcome = run(vec![Asleep, Asleep], Bounds::time(Duration::ZERO)).await;
        assert_eq!((outcome.ops, outcome.stuck), (0, 0), "no task began");
        let outcome = run(vec![Asleep, Asleep], Bounds::time(Duration::from_millis(50))).await;
        assert_eq!((outcome.ops, outcome.stuck), (0, 2));
    }
}
