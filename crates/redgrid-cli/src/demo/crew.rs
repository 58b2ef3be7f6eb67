//! The workers of a sale, as the sale sees them.

use std::process::Stdio;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::future::join_all;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::time::timeout;

use super::requests::Request;
use super::wire::{FromWorker, Job, Tally, ToWorker};
use super::worker::FAREWELL;
use crate::failure::Failure;

/// Requests handed to a worker at a time, for each of its tasks: enough that none waits while a report is on its way.
const WINDOW: usize = 8;

/// How long a worker may take to end after the sale: what it needs to give everything back, and a little more.
const DISMISSAL: Duration = FAREWELL.saturating_add(Duration::from_secs(1));

/// All workers. Dropping it kills them.
#[derive(Default)]
pub(crate) struct Crew {
    workers: Vec<Worker>,
}

/// The requests of a sale, handed out in order, and what became of them so far.
pub(crate) struct Counter {
    requests: Vec<Request>,
    next: AtomicUsize,
    tally: Mutex<Tally>,
}

impl Counter {
    /// A counter with these requests before it.
    pub(crate) fn new(requests: Vec<Request>) -> Arc<Self> {
        Arc::new(Counter { requests, next: AtomicUsize::new(0), tally: Mutex::default() })
    }

    /// All requests, served or not.
    pub(crate) fn requests(&self) -> &[Request] {
        &self.requests
    }

    /// Looks at what became of the requests so far.
    pub(crate) fn so_far<T>(&self, look: impl FnOnce(&Tally) -> T) -> T {
        look(&self.tally.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn add(&self, tally: Tally) {
        self.tally.lock().unwrap_or_else(PoisonError::into_inner).add(tally);
    }

    /// The next requests, at most `most`.
    fn take(&self, most: usize) -> &[Request] {
        let from = self.next.fetch_add(most, Ordering::Relaxed).min(self.requests.len());
        &self.requests[from..from.saturating_add(most).min(self.requests.len())]
    }
}

impl Crew {
    /// Starts `count` workers on the same job and waits until all are ready.
    ///
    /// # Errors
    ///
    /// [`Failure`] when one can not be started or has no server.
    pub(crate) async fn hire(&mut self, count: u16, job: &Job) -> Result<(), Failure> {
        for number in 1..=count {
            let worker = Worker::start(number, job.tasks).map_err(|error| {
                Failure::broken(format!("worker {number} could not be started, try fewer --processes: {error}"))
            })?;
            self.workers.push(worker);
        }
        for ready in join_all(self.workers.iter_mut().map(|worker| worker.prepare(job))).await {
            ready?;
        }
        Ok(())
    }

    /// Serves all requests. What a worker had in hand when it died counts as unserved.
    pub(crate) async fn serve(&mut self, counter: &Counter) {
        join_all(self.workers.iter_mut().map(|worker| worker.serve(counter))).await;
    }

    /// Lets all workers go, and waits until they are gone.
    pub(crate) async fn dismiss(&mut self) {
        join_all(self.workers.drain(..).map(Worker::dismiss)).await;
    }
}

struct Worker {
    number: u16,
    tasks: usize,
    process: Child,
    stdin: ChildStdin,
    stdout: Lines<BufReader<ChildStdout>>,
}

impl Worker {
    fn start(number: u16, tasks: u16) -> std::io::Result<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["demo", "sale-worker"]).stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
        // The job names the server; another one here would be a second opinion.
        let mut process = command.env_remove("REDGRID_URL").spawn()?;
        match (process.stdin.take(), process.stdout.take()) {
            (Some(stdin), Some(stdout)) => {
                let stdout = BufReader::new(stdout).lines();
                Ok(Worker { number, tasks: tasks.into(), process, stdin, stdout })
            }
            _ => Err(std::io::Error::other("it has no pipes")),
        }
    }

    async fn prepare(&mut self, job: &Job) -> Result<(), Failure> {
        // A worker that can not be told is one that does not answer either.
        let _ = self.tell(&ToWorker::Job(job.clone())).await;
        match self.hear().await {
            Some(FromWorker::Ready) => Ok(()),
            Some(FromWorker::Failed(why)) => Err(Failure::unavailable(format!(
                "worker {} has no server, see to it and run again: {why}",
                self.number
            ))),
            _ => Err(Failure::broken(format!("worker {} ended before it was ready, run again", self.number))),
        }
    }

    async fn serve(&mut self, counter: &Counter) {
        let window = WINDOW * self.tasks;
        let mut in_hand = 0;
        loop {
            let more = counter.take(window.saturating_sub(in_hand));
            in_hand += more.len();
            if in_hand == 0 {
                let _ = self.tell(&ToWorker::End).await;
                return;
            }
            let told = more.is_empty() || self.tell(&ToWorker::Serve(more.to_vec())).await.is_ok();
            match self.hear().await {
                Some(FromWorker::Report(tally)) if told => {
                    in_hand = in_hand.saturating_sub(usize::try_from(tally.requests()).unwrap_or(usize::MAX));
                    counter.add(tally);
                }
                _ => {
                    let error = Some(format!("worker {} ended in the middle of the sale", self.number));
                    counter.add(Tally { unserved: in_hand as u64, error, ..Tally::default() });
                    return;
                }
            }
        }
    }

    async fn tell(&mut self, message: &ToWorker) -> std::io::Result<()> {
        let mut line = serde_json::to_string(message)?;
        line.push('\n');
        self.stdin.write_all(line.as_bytes()).await?;
        self.stdin.flush().await
    }

    /// The next message; `None` when there is none any more.
    async fn hear(&mut self) -> Option<FromWorker> {
        let line = self.stdout.next_line().await.ok()??;
        serde_json::from_str(&line).ok()
    }

    async fn dismiss(mut self) {
        // The end of its stdin ends a worker.
        drop(self.stdin);
        if timeout(DISMISSAL, self.process.wait()).await.is_err() {
            let _ = self.process.kill().await;
        }
    }
}
