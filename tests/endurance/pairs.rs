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

/// Between two pairs of a task: the machine is to be busy, not choked.
const PAUSE: Duration = Duration::from_millis(3);

pub(crate) struct Pairs {
    books: Arc<Mutex<Books>>,
    over: Arc<AtomicBool>,
    tasks: Vec<JoinHandle<()>>,
}

/// What came of them.
#[derive(Default)]
pub(crate) struct Books {
    pub(crate) times: Vec<Duration>,
    /// How long those took that ended with an error.
    pub(crate) failed: Vec<Duration>,
    /// By kind, how many; and the words of the first of each.
    pub(crate) errors: BTreeMap<String, u64>,
    pub(crate) words: BTreeMap<String, String>,
}

impl Books {
    pub(crate) fn error(&mut self, kind: &str, error: &dyn std::error::Error) {
        *self.errors.entry(kind.to_owned()).or_default() += 1;
        self.words.entry(kind.to_owned()).or_insert_with(|| error.to_string());
    }

    pub(crate) fn error_count(&self) -> usize {
        usize::try_from(self.errors.values().sum::<u64>()).unwrap_or(usize::MAX)
    }
}

/// The name of an error's variant; of a `Failed`, that of its failure.
pub(crate) fn kind(error: &impl std::fmt::Debug) -> String {
    let text = format!("{error:?}");
    let mut names = text.split([' ', '(', '{']).filter(|name| *name != "Failed");
    names.next().unwrap_or_default().to_owned()
}

impl Pairs {
    /// One task for each name.
    pub(crate) fn start(client: &Client, names: &[String], wait: Duration, durability: Durability) -> Self {
        let (books, over) = (Arc::new(Mutex::new(Books::default())), Arc::new(AtomicBool::new(false)));
        let one = |name: &String| {
            let (lock, books, over) = (Lock::new(client, name), Arc::clone(&books), Arc::clone(&over));
            tokio::spawn(async move {
                while !over.load(Ordering::Relaxed) {
                    pair(&lock, wait, durability, &books).await;
                    sleep(PAUSE).await;
                }
            })
        };
        let tasks = names.iter().map(one).collect();
        Pairs { books, over, tasks }
    }

    /// What has come since the last look.
    pub(crate) fn take(&self) -> Books {
        std::mem::take(&mut *self.books.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Times of so many windows, one after the other, and all that came of them together.
    pub(crate) async fn windows(&self, count: usize, each: Duration) -> (Vec<Spread>, Books) {
        let (mut spreads, mut all) = (Vec::new(), Books::default());
        self.take();
        for _ in 0..count {
            sleep(each).await;
            let books = self.take();
            spreads.push(Spread::of(&books.times));
            all.times.extend(books.times);
            all.failed.extend(books.failed);
            for (kind, count) in books.errors {
                *all.errors.entry(kind).or_default() += count;
            }
            all.words.extend(books.words);
        }
        (spreads, all)
    }

    /// What came since the last look.
    pub(crate) async fn end(mut self) -> Books {
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

async fn pair(lock: &Lock, wait: Duration, durability: Durability, books: &Mutex<Books>) {
    let began = Instant::now();
    let failed: Result<(), (String, Box<dyn std::error::Error + Send>)> = async {
        let granted = lock.acquire().timeout(wait).durability(durability).await;
        let guard = granted.map_err(|error: AcquireError| (kind(&error), Box::new(error) as _))?;
        guard.release().await.map_err(|error| (format!("release: {}", kind(&error)), Box::new(error) as _))
    }
    .await;
    let took = began.elapsed();
    let mut books = books.lock().unwrap_or_else(PoisonError::into_inner);
    match failed {
        Ok(()) => books.times.push(took),
        Err((kind, error)) => {
            books.failed.push(took);
            books.error(&kind, &*error);
        }
    }
}
