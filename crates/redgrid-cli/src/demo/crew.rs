//! The workers of a sale, as the sale sees them.

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

    /// Serves all requests. What a worker had in hand when it died is given to the others.
    pub(crate) async fn serve(&mut self, counter: &Counter) {
        join_all(self.workers.iter_mut().map(|worker| worker.serve(counter))).await;
        counter.close();
    }

    /// The workers as victims.
    pub(crate) fn victims(&self) -> Vec<Victim> {
        let victim = |worker: &Worker| Victim { client: worker.client.clone(), process: worker.process.id() };
        self.workers.iter().map(victim).collect()
    }

    /// Lets all workers go, and waits until they are gone.
    pub(crate) async fn dismiss(&mut self) {
        join_all(self.workers.drain(..).map(Worker::dismiss)).await;
    }
}

/// A worker that may be killed.
pub(crate) struct Victim {
    /// The id of its client.
    pub(crate) client: String,
    process: Option<u32>,
}

impl Victim {
    /// Sends it a signal.
    pub(crate) fn send(&self, signal: Signal) {
        let process = self.process.and_then(|id| i32::try_from(id).ok());
        // Its id is its own until the crew is dismissed. One that has gone already is missed by itself.
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
        // A worker that can not be told is one that does not answer either.
        let _ = self.tell(&ToWorker::Job(job.clone())).await;
        match self.hear().await {
            Some(FromWorker::Ready(client)) => {
                self.client = client;
                Ok(())
            }
            Some(FromWorker::Failed(why)) => Err(Failure::unavailable(format!(
                "worker {} has no server, see to it and run again: {why}",
                self.number
            ))),
            _ => Err(Failure::broken(format!("worker {} ended before it was ready, run again", self.number))),
        }
    }

    async fn serve(&mut self, counter: &Counter) {
        let window = WINDOW * self.tasks;
        let mut in_hand = BTreeSet::new();
        loop {
            let mut moved = pin!(counter.moved.notified());
            // From before the look at the counter, so that nothing moves unseen.
            moved.as_mut().enable();
            let more = counter.take(window.saturating_sub(in_hand.len()));
            in_hand.extend(more.iter().map(|errand| errand.number));
            if in_hand.is_empty() {
                if counter.is_over() {
                    let _ = self.tell(&ToWorker::End).await;
                    return;
                }
                // Others may die and leave something.
                moved.await;
                continue;
            }
            if !more.is_empty() {
                // Who can not be told has died, and is not heard of again either, after what it said before.
                let _ = self.tell(&ToWorker::Serve(more)).await;
            }
            match self.hear().await {
                Some(FromWorker::Report(tally, answered)) => {
                    answered.iter().for_each(|number| {
                        in_hand.remove(number);
                    });
                    counter.settle(tally);
                }
                _ => return counter.give_back(&in_hand),
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
