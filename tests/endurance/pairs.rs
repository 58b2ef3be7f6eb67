//! Tasks that acquire and release, with the time of each pair.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use redgrid_core::Client;
use redgrid_core::config::Durability;
use redgrid_locks::{AcquireError, Lock};
use redgrid_tests::spread::Spread;
use tokio::task::JoinHandle;
use tokio::time::sleep;

/// The pause between two pairs of a task: the machine is to be busy, not overloaded.
const PAUSE: Duration = Duration::from_millis(3);

pub(crate) struct Pairs {
    results: Arc<Mutex<Results>>,
    over: Arc<AtomicBool>,
    tasks: Vec<JoinHandle<()>>,
}

/// The results of pairs.
#[derive(Default)]
pub(crate) struct Results {
    pub(crate) times: Vec<Duration>,
    /// The durations of pairs that ended with an error.
    pub(crate) failed: Vec<Duration>,
    /// The number of errors of each kind, and the message of the first one.
    pub(crate) errors: BTreeMap<String, u64>,
    pub(crate) messages: BTreeMap<String, String>,
}

impl Results {
    pub(crate) fn error(&mut self, kind: &str, error: &dyn std::error::Error) {
        *self.errors.entry(kind.to_owned()).or_default() += 1;
        self.messages.entry(kind.to_owned()).or_insert_with(|| error.to_string());
    }

    pub(crate) fn error_count(&self) -> usize {
        usize::try_from(self.errors.values().sum::<u64>()).unwrap_or(usize::MAX)
    }
}

/// Returns the name of an error's variant; for `Failed`, the variant of its failure.
pub(crate) fn kind(error: &impl std::fmt::Debug) -> String {
    let text = format!("{error:?}");
    let mut names = text.split([' ', '(', '{']).filter(|name| *name != "Failed");
    names.next().unwrap_or_default().to_owned()
}

impl Pairs {
    /// Starts one task for each name.
    pub(crate) fn start(client: &Client, names: &[String], wait: Duration, durability: Durability) -> Self {
        let (results, over) = (Arc::new(Mutex::new(Results::default())), Arc::new(AtomicBool::new(false)));
        let one = |name: &String| {
            let (lock, results, over) = (Lock::new(client, name), Arc::clone(&results), Arc::clone(&over));
            tokio::spawn(async move {
                while !over.load(Ordering::Relaxed) {
                    run_pair(&lock, wait, durability, &results).await;
                    sleep(PAUSE).await;
                }
            })
        };
        let tasks = names.iter().map(one).collect();
        Pairs { results, over, tasks }
    }

    /// Takes the results since the last call.
    pub(crate) fn take(&self) -> Results {
        std::mem::take(&mut *self.results.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Measures this many consecutive windows. Returns the times of each window, and the results of
    /// all windows.
    pub(crate) async fn windows(&self, count: usize, each: Duration) -> (Vec<Spread>, Results) {
        let (mut spreads, mut all) = (Vec::new(), Results::default());
        self.take();
        for _ in 0..count {
            sleep(each).await;
            let results = self.take();
            spreads.push(Spread::of(&results.times));
            all.times.extend(results.times);
            all.failed.extend(results.failed);
            for (kind, count) in results.errors {
                *all.errors.entry(kind).or_default() += count;
            }
            all.messages.extend(results.messages);
        }
        (spreads, all)
    }

    /// Ends the tasks, and returns the results since the last call.
    pub(crate) async fn end(mut self) -> Results {
        self.over.store(true, Ordering::Relaxed);
        for task in std::mem::take(&mut self.tasks) {
            task.await.expect("no task panics");
        }
        self.take()
    }
}

impl Drop for Pairs {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

async fn run_pair(lock: &Lock, wait: Duration, durability: Durability, results: &Mutex<Results>) {
    let began = Instant::now();
    let failed: Result<(), (String, Box<dyn std::error::Error + Send>)> = async {
        let granted = lock.acquire().timeout(wait).durability(durability).await;
        let guard = granted.map_err(|error: AcquireError| (kind(&error), Box::new(error) as _))?;
        guard.release().await.map_err(|error| (format!("release: {}", kind(&error)), Box::new(error) as _))
    }
    .await;
    let took = began.elapsed();
    let mut results = results.lock().unwrap_or_else(PoisonError::into_inner);
    match failed {
        Ok(()) => results.times.push(took),
        Err((kind, error)) => {
            results.failed.push(took);
            results.error(&kind, &*error);
        }
    }
}
