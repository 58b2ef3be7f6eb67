//! Tasks that do the same thing again and again until enough is done.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::timeout_at;

use super::Trouble;
use super::latency::Latency;
use super::outcome::Outcome;
use crate::failure::one_line;

/// A run without a time limit ends after 10 minutes in any case.
const LONGEST: Duration = Duration::from_secs(600);

/// Who still waits 1 s after the end was forgotten: it is counted as stuck and given up.
const STUCK_AFTER: Duration = Duration::from_secs(1);

/// More errors than these 100 say nothing new: the run ends.
const ENOUGH_ERRORS: u64 = 100;

/// What one task does again and again.
pub(super) trait Cycle: Send + 'static {
    /// Does it once: false when there is nothing left to do.
    fn once(&mut self, notes: &mut Notes) -> impl Future<Output = Result<bool, Trouble>> + Send;
}

/// What one task saw.
#[derive(Debug)]
pub(super) struct Notes {
    /// Of a whole operation, taken down by whoever has it done.
    latency: Latency,
    /// When the operation under way began.
    pub(super) begun: Instant,
    /// From the call of release to the next owner's return of acquire.
    pub(super) handoff: Latency,
    /// Of acquire alone, where others are in the way.
    pub(super) wait: Latency,
    done: u64,
    last: Option<Instant>,
}

/// When a run ends: after so many operations of all tasks together, or so much time.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bounds {
    pub(super) ops: Option<u64>,
    pub(super) secs: Option<Duration>,
}

impl Bounds {
    /// So much time.
    pub(super) fn time(secs: Duration) -> Self {
        Bounds { ops: None, secs: Some(secs) }
    }
}

/// Runs the cycles, a task each, to their end.
pub(super) async fn run<C: Cycle>(cycles: Vec<C>, bounds: Bounds) -> Outcome {
    let shared = Arc::new(Shared { taken: AtomicU64::new(0), errors: AtomicU64::new(0) });
    let tasks = cycles.len();
    let began = Instant::now();
    let end = began + bounds.secs.unwrap_or(LONGEST);
    let (tell, mut told) = mpsc::unbounded_channel();
    let mut running = JoinSet::new();
    for cycle in cycles {
        let diary = Diary { notes: Some(Notes::new()), tell: tell.clone() };
        running.spawn(work(cycle, diary, Arc::clone(&shared), bounds.ops, end));
    }
    drop(tell);
    while let Ok(Some(ended)) = timeout_at((end + STUCK_AFTER).into(), running.join_next()).await {
        if let Err(error) = ended {
            shared.tell_error(&error.to_string());
        }
    }
    let stuck = running.len();
    running.shutdown().await;
    let mut outcome = Outcome::new();
    outcome.stuck = stuck as u64;
    outcome.errors = shared.errors.load(Relaxed);
    let mut last = began;
    let (mut least, mut most) = (u64::MAX, 0);
    // Every task has ended, so every diary has been handed in.
    while let Some(notes) = told.recv().await {
        outcome.ops += notes.done;
        (least, most) = (least.min(notes.done), most.max(notes.done));
        last = last.max(notes.last.unwrap_or(began));
        outcome.latency.add(&notes.latency);
        outcome.handoff.add(&notes.handoff);
        outcome.wait.add(&notes.wait);
    }
    (outcome.min_task, outcome.max_task) = (if tasks == 0 { 0 } else { least }, most);
    outcome.secs = last - began;
    outcome
}

async fn work<C: Cycle>(mut cycle: C, mut diary: Diary, shared: Arc<Shared>, ops: Option<u64>, end: Instant) {
    let Some(notes) = &mut diary.notes else { return };
    // Read once an operation: the end of one is the beginning of the next.
    let mut now = Instant::now();
    while now < end && ops.is_none_or(|ops| shared.taken.fetch_add(1, Relaxed) < ops) {
        notes.begun = now;
        let done = cycle.once(notes).await;
        now = Instant::now();
        match done {
            Ok(true) => {
                notes.latency.record(now - notes.begun);
                notes.done += 1;
                notes.last = Some(now);
            }
            Ok(false) => return,
            Err(trouble) => {
                shared.tell_error(&one_line(&*trouble));
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
    /// Counts an error, and shows the first.
    fn tell_error(&self, error: &str) {
        if self.errors.fetch_add(1, Relaxed) == 0 {
            eprintln!("redgrid: first error of this run: {error}");
        }
    }
}

impl Notes {
    fn new() -> Self {
        let (latency, handoff, wait) = (Latency::new(), Latency::new(), Latency::new());
        Notes { latency, begun: Instant::now(), handoff, wait, done: 0, last: None }
    }
}

/// Hands in the notes of a task when it ends, also of one that is given up. Without a timer in the loop that is measured.
struct Diary {
    notes: Option<Notes>,
    tell: mpsc::UnboundedSender<Notes>,
}

impl Drop for Diary {
    fn drop(&mut self) {
        if let Some(notes) = self.notes.take() {
            // Somebody reads to the end.
            let _ = self.tell.send(notes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Number of a task, and what it does when its turn comes.
    struct Counting(usize, fn(usize) -> Result<bool, Trouble>);

    impl Cycle for Counting {
        async fn once(&mut self, _: &mut Notes) -> Result<bool, Trouble> {
            tokio::task::yield_now().await;
            (self.1)(self.0)
        }
    }

    struct Asleep;

    impl Cycle for Asleep {
        async fn once(&mut self, _: &mut Notes) -> Result<bool, Trouble> {
            std::future::pending().await
        }
    }

    fn crew(does: fn(usize) -> Result<bool, Trouble>) -> Vec<Counting> {
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
    async fn who_still_waits_after_the_end_is_counted_as_stuck() {
        let outcome = run(vec![Asleep, Asleep], Bounds::time(Duration::ZERO)).await;
        assert_eq!((outcome.ops, outcome.stuck), (0, 0), "nobody began");
        let outcome = run(vec![Asleep, Asleep], Bounds::time(Duration::from_millis(50))).await;
        assert_eq!((outcome.ops, outcome.stuck), (0, 2));
    }
}
