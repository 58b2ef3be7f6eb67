//! A worker process of a sale: several tasks that serve requests. It ends when the sale ends.

use std::io::{self, Write};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use redgrid::Grid;
use redgrid::config::ReadMode;
use tokio::sync::{Mutex, mpsc};
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::order::Shop;
use super::shop_lock::BoxError;
use super::wire::{Assignment, FromWorker, Job, Tally, ToWorker};
use crate::failure::{Failure, one_line};
use crate::named::Named;

/// How long the first connection may take: 5 s, more than one attempt to connect.
pub(crate) const READY_TIMEOUT: Duration = Duration::from_secs(5);

/// Response timeout: 2 s, thousands of times a usual response time.
const TIMEOUT: Duration = Duration::from_secs(2);

/// Number of retries. With one, requests to an unreachable server end after 4 s, while the user
/// still watches.
const RETRIES: u32 = 1;

/// How long the final release may take: 1 s. Locks that are not released by then end with their
/// leases.
pub(crate) const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(1);

/// The longest delay of a report: 50 ms, so that the progress line moves smoothly.
const REPORT_AFTER: Duration = Duration::from_millis(50);

/// Runs the worker.
pub(crate) async fn run() -> Result<ExitCode, Failure> {
    let mut inbox = inbox();
    let Some(ToWorker::Job(job)) = inbox.recv().await else {
        return Err(Failure::usage("`sale-worker` is started by `redgrid demo flash-sale`, run that instead"));
    };
    let grid = match connect(&job.servers, &job.namespace, READY_TIMEOUT).await {
        Ok(grid) => grid,
        Err(error) => {
            print_line(&FromWorker::Failed(one_line(&*error)));
            return Ok(ExitCode::FAILURE);
        }
    };
    print_line(&FromWorker::Ready(grid.client().id().to_owned()));
    let mut tasks = JoinSet::new();
    let queue = serve(&mut tasks, &grid, &job);
    // The stream ends when the sale ends, for any reason. `End` is sent when no request is in
    // progress.
    while let Some(ToWorker::Serve(assignments)) = inbox.recv().await {
        for assignment in assignments {
            // The receiving tasks run until the shutdown below, so sending succeeds.
            let _ = queue.send(assignment);
        }
    }
    tasks.shutdown().await;
    // Locks that could not be released in time end with their leases.
    let _ = grid.shutdown(SHUTDOWN_TIMEOUT).await;
    Ok(ExitCode::SUCCESS)
}

/// Connects to the sale's server, which may take as long as `timeout`.
pub(crate) async fn connect(servers: &Named, namespace: &str, timeout: Duration) -> Result<Grid, BoxError> {
    let config =
        servers.config()?.namespace(namespace)?.client_name("redgrid-demo").response_timeout(TIMEOUT).retries(RETRIES);
    // Under a lock, a read must return the last write, so replicas are not read.
    let config = config.read_mode(ReadMode::Primary);
    let grid = Grid::connect(config).await?;
    grid.wait_ready(timeout).await?;
    Ok(grid)
}

/// Starts the tasks that serve requests from the queue.
fn serve(tasks: &mut JoinSet<()>, grid: &Grid, job: &Job) -> mpsc::UnboundedSender<Assignment> {
    let shop = Arc::new(Shop::new(grid.clone(), job.lock, job.lease));
    let (queue, requests) = mpsc::unbounded_channel::<Assignment>();
    let requests = Arc::new(Mutex::new(requests));
    let (tell, results) = mpsc::unbounded_channel();
    for _ in 0..job.tasks {
        let shop = Arc::clone(&shop);
        let requests = Arc::clone(&requests);
        let tell = tell.clone();
        tasks.spawn(async move {
            loop {
                let next = requests.lock().await.recv().await;
                let Some(assignment) = next else { return };
                if tell.send((assignment.number, shop.serve(&assignment).await)).is_err() {
                    return;
                }
            }
        });
    }
    tasks.spawn(report(results, 2 * u64::from(job.tasks)));
    queue
}

/// Reports outcomes in batches. A batch ends after `enough` outcomes, or after a delay.
async fn report(mut results: mpsc::UnboundedReceiver<(u64, Tally)>, enough: u64) {
    while let Some((number, mut tally)) = results.recv().await {
        let mut answered = vec![number];
        let due = sleep(REPORT_AFTER);
        tokio::pin!(due);
        while tally.requests() < enough {
            tokio::select! {
                biased;
                Some((number, more)) = results.recv() => {
                    answered.push(number);
                    tally.add(more);
                }
                () = &mut due => break,
            }
        }
        print_line(&FromWorker::Report(tally, answered));
    }
}

/// Writes a message. If the sale is gone, the end of stdin ends the worker, so write errors are
/// ignored.
fn print_line(message: &FromWorker) {
    if let Ok(mut line) = serde_json::to_string(message) {
        line.push('\n');
        let mut out = io::stdout().lock();
        let _ = out.write_all(line.as_bytes()).and_then(|()| out.flush());
    }
}

/// Returns the messages from stdin. A separate thread reads them: a thread blocked in a read does
/// not keep the process alive.
fn inbox() -> mpsc::UnboundedReceiver<ToWorker> {
    let (sender, inbox) = mpsc::unbounded_channel();
    std::thread::spawn(move || {
        for line in io::stdin().lines() {
            let Some(message) = line.ok().and_then(|line| serde_json::from_str(&line).ok()) else { return };
            if sender.send(message).is_err() {
                return;
            }
        }
    });
    inbox
}
