//! One process of a sale: several tasks that serve requests. It ends when the sale that started it ends.

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
use super::shop_lock::Trouble;
use super::wire::{Errand, FromWorker, Job, Tally, ToWorker};
use crate::failure::{Failure, one_line};
use crate::server::Named;

/// How long the server may take to answer at first: 5 s, more than one attempt to connect.
pub(crate) const READY_WITHIN: Duration = Duration::from_secs(5);

/// How long one answer may take: 2 s, thousands of times what it takes.
const TIMEOUT: Duration = Duration::from_secs(2);

/// One repetition of what may be repeated: without contact, everything ends after 4 s, while the person still watches.
const RETRIES: u32 = 1;

/// How long giving everything back may take: 1 s. Leases end the rest.
pub(crate) const FAREWELL: Duration = Duration::from_secs(1);

/// The longest an outcome waits to be reported: 50 ms, for a progress line that is alive.
const REPORT_AFTER: Duration = Duration::from_millis(50);

/// Runs the worker.
pub(crate) async fn run() -> Result<ExitCode, Failure> {
    let mut inbox = inbox();
    let Some(ToWorker::Job(job)) = inbox.recv().await else {
        return Err(Failure::usage("`sale-worker` is started by `redgrid demo flash-sale`, run that instead"));
    };
    let grid = match connect(&job.servers, &job.namespace).await {
        Ok(grid) => grid,
        Err(trouble) => {
            say(&FromWorker::Failed(one_line(&*trouble)));
            return Ok(ExitCode::FAILURE);
        }
    };
    say(&FromWorker::Ready(grid.client().id().to_owned()));
    let mut tasks = JoinSet::new();
    let queue = serve(&mut tasks, &grid, &job);
    // The end of the stream is the end of the sale, by whatever cause. `End` comes when nothing is under way.
    while let Some(ToWorker::Serve(errands)) = inbox.recv().await {
        for errand in errands {
            // The tasks end only below.
            let _ = queue.send(errand);
        }
    }
    tasks.shutdown().await;
    // What could not be given back in time is ended by its lease.
    let _ = grid.shutdown(FAREWELL).await;
    Ok(ExitCode::SUCCESS)
}

/// A client of the sale's server that has had an answer.
pub(crate) async fn connect(servers: &Named, namespace: &str) -> Result<Grid, Trouble> {
    let config =
        servers.config()?.namespace(namespace)?.client_name("redgrid-demo").response_timeout(TIMEOUT).retries(RETRIES);
    // What is read under a lock is to be what was written last under it.
    let config = config.read_mode(ReadMode::Primary);
    let grid = Grid::connect(config).await?;
    grid.wait_ready(READY_WITHIN).await?;
    Ok(grid)
}

/// Starts the tasks that serve what is sent to the queue.
fn serve(tasks: &mut JoinSet<()>, grid: &Grid, job: &Job) -> mpsc::UnboundedSender<Errand> {
    let shop = Arc::new(Shop::new(grid.clone(), job.lock, job.lease));
    let (queue, requests) = mpsc::unbounded_channel::<Errand>();
    let requests = Arc::new(Mutex::new(requests));
    let (tell, told) = mpsc::unbounded_channel();
    for _ in 0..job.tasks {
        let (shop, requests, tell) = (Arc::clone(&shop), Arc::clone(&requests), tell.clone());
        tasks.spawn(async move {
            loop {
                let next = requests.lock().await.recv().await;
                let Some(errand) = next else { return };
                if tell.send((errand.number, shop.serve(&errand).await)).is_err() {
                    return;
                }
            }
        });
    }
    tasks.spawn(report(told, 2 * u64::from(job.tasks)));
    queue
}

/// Reports outcomes together: so many in one message, or what there is after a while.
async fn report(mut told: mpsc::UnboundedReceiver<(u64, Tally)>, enough: u64) {
    while let Some((number, mut tally)) = told.recv().await {
        let mut answered = vec![number];
        let due = sleep(REPORT_AFTER);
        tokio::pin!(due);
        while tally.requests() < enough {
            tokio::select! {
                biased;
                Some((number, more)) = told.recv() => {
                    answered.push(number);
                    tally.add(more);
                }
                () = &mut due => break,
            }
        }
        say(&FromWorker::Report(tally, answered));
    }
}

/// Writes a message. When nobody reads any more, the end of stdin tells the same.
fn say(message: &FromWorker) {
    if let Ok(mut line) = serde_json::to_string(message) {
        line.push('\n');
        let mut out = io::stdout().lock();
        let _ = out.write_all(line.as_bytes()).and_then(|()| out.flush());
    }
}

/// The messages from stdin. A thread of its own reads them: one that is blocked in a read does not keep the process alive.
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
