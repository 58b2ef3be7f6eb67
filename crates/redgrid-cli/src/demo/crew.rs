//! The worker processes of a sale.

use std::collections::BTreeSet;
use std::pin::pin;
use std::process::Stdio;
use std::time::Duration;

use futures_util::future::join_all;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::time::timeout;

use super::counter::Counter;
use super::wire::{FromWorker, Job, ToWorker};
use super::worker::SHUTDOWN_TIMEOUT;
use crate::failure::Failure;

/// Requests in progress per task of a worker. The number is large enough that no task is idle while
/// a report is on its way.
const WINDOW: usize = 8;

/// How long a worker may take to end after the sale: the time it has to release all its locks, and
/// one second more.
const STOP_TIMEOUT: Duration = SHUTDOWN_TIMEOUT.saturating_add(Duration::from_secs(1));

/// All workers. Dropping it kills them.
#[derive(Default)]
pub(crate) struct Crew {
    workers: Vec<Worker>,
}

impl Crew {
    /// Starts `count` workers on the same job and waits until all are ready.
    ///
    /// # Errors
    ///
    /// [`Failure`] if a worker cannot be started or cannot reach the server.
    pub(crate) async fn start(&mut self, count: u16, job: &Job) -> Result<(), Failure> {
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

    /// Serves all requests. Requests of a worker that died are given to the others.
    pub(crate) async fn serve(&mut self, counter: &Counter) {
        join_all(self.workers.iter_mut().map(|worker| worker.serve(counter))).await;
        counter.close();
    }

    /// Returns the workers as targets of `--kill-one`.
    pub(crate) fn victims(&self) -> Vec<Victim> {
        let victim = |worker: &Worker| Victim { client: worker.client.clone(), process: worker.process.id() };
        self.workers.iter().map(victim).collect()
    }

    /// Ends all workers, and waits until they have exited.
    pub(crate) async fn stop(&mut self) {
        join_all(self.workers.drain(..).map(Worker::stop)).await;
    }
}

/// A worker that may be killed.
pub(crate) struct Victim {
    /// The id of the worker's client.
    pub(crate) client: String,
    process: Option<u32>,
}

impl Victim {
    /// Sends the worker a signal.
    pub(crate) fn send(&self, signal: Signal) {
        let process = self.process.and_then(|id| i32::try_from(id).ok());
        // The process id stays valid until the crew is dismissed. The signal does not affect a
        // process that has exited.
        let _ = process.map(|id| kill(Pid::from_raw(id), signal));
    }
}

struct Worker {
    number: u16,
    tasks: usize,
    client: String,
    process: Child,
    stdin: ChildStdin,
    stdout: Lines<BufReader<ChildStdout>>,
}

impl Worker {
    fn start(number: u16, tasks: u16) -> std::io::Result<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["demo", "sale-worker"]).stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
        let mut process = command.spawn()?;
        match (process.stdin.take(), process.stdout.take()) {
            (Some(stdin), Some(stdout)) => {
                let stdout = BufReader::new(stdout).lines();
                Ok(Worker { number, tasks: tasks.into(), client: String::new(), process, stdin, stdout })
            }
            _ => Err(std::io::Error::other("it has no pipes")),
        }
    }

    async fn prepare(&mut self, job: &Job) -> Result<(), Failure> {
        // A worker that cannot receive the job does not answer either, so `receive` reports the
        // error.
        let _ = self.send(&ToWorker::Job(job.clone())).await;
        match self.receive().await {
            Some(FromWorker::Ready(client)) => {
                self.client = client;
                Ok(())
            }
            Some(FromWorker::Failed(why)) => Err(Failure::unavailable(format!(
                "worker {} cannot reach the server, check it and run again: {why}",
                self.number
            ))),
            _ => Err(Failure::broken(format!("worker {} ended before it was ready, run again", self.number))),
        }
    }

    async fn serve(&mut self, counter: &Counter) {
        let window = WINDOW * self.tasks;
        let mut in_progress = BTreeSet::new();
        loop {
            let mut moved = pin!(counter.moved.notified());
            // Registered before the counter is read, so that no notification is missed.
            moved.as_mut().enable();
            let more = counter.take(window.saturating_sub(in_progress.len()));
            in_progress.extend(more.iter().map(|assignment| assignment.number));
            if in_progress.is_empty() {
                if counter.is_over() {
                    let _ = self.send(&ToWorker::End).await;
                    return;
                }
                // More requests may come: another worker may die and return its requests.
                moved.await;
                continue;
            }
            if !more.is_empty() {
                // A worker that cannot receive requests has died. The loop ends after its remaining
                // messages.
                let _ = self.send(&ToWorker::Serve(more)).await;
            }
            match self.receive().await {
                Some(FromWorker::Report(tally, answered)) => {
                    answered.iter().for_each(|number| {
                        in_progress.remove(number);
                    });
                    counter.settle(tally);
                }
                _ => return counter.give_back(&in_progress),
            }
        }
    }

    async fn send(&mut self, message: &ToWorker) -> std::io::Result<()> {
        let mut line = serde_json::to_string(message)?;
        line.push('\n');
        self.stdin.write_all(line.as_bytes()).await?;
        self.stdin.flush().await
    }

    /// Returns the worker's next message; `None` at the end of its output.
    async fn receive(&mut self) -> Option<FromWorker> {
        let line = self.stdout.next_line().await.ok()??;
        serde_json::from_str(&line).ok()
    }

    async fn stop(mut self) {
        // A worker ends when its stdin is closed.
        drop(self.stdin);
        if timeout(STOP_TIMEOUT, self.process.wait()).await.is_err() {
            let _ = self.process.kill().await;
        }
    }
}
