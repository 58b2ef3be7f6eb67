//! W7queue and W7push: all tasks push messages of 100 bytes to one reliable queue. In W7queue, each
//! task also receives and acknowledges a message.

use redgrid::codecs::Raw;
use redgrid::{Grid, ReliableQueue};

use super::BoxError;
use super::crew::{self, Bounds, Cycle, Measurements};
use super::job::{Job, Workload};
use super::outcome::Outcome;
use super::start::Start;

/// A message.
const MESSAGE: [u8; 100] = [b'm'; 100];

type Queue = ReliableQueue<[u8; 100], Raw>;

/// Runs the job.
pub(super) async fn run(grid: &Grid, job: &Job, start: &mut dyn Start) -> Result<Outcome, BoxError> {
    if !job.warm.is_zero() {
        measure(grid, job, &job.warm_prefix(), Bounds::time(job.warm)).await?;
    }
    start.wait().await?;
    measure(grid, job, &job.prefix, Bounds { ops: job.ops, secs: job.secs }).await
}

async fn measure(grid: &Grid, job: &Job, name: &str, bounds: Bounds) -> Result<Outcome, BoxError> {
    let queue: Queue = grid.reliable_queue_with(name, Raw);
    let receives = job.workload == Workload::W7Queue;
    let mut outcome =
        crew::run((0..job.tasks).map(|_| Message { queue: queue.clone(), receives }).collect(), bounds).await;
    // An operation that was cancelled at the end may or may not have been executed.
    let totals = queue.counts().await?.totals;
    let done = if receives { totals.acknowledged } else { totals.pushed };
    outcome.violations = u64::from(!(outcome.ops..=outcome.ops + outcome.errors + outcome.stuck).contains(&done));
    queue.object().delete().await?;
    Ok(outcome)
}

/// Pushes a message. If `receives` is set, then receives one, and acknowledges it.
struct Message {
    queue: Queue,
    receives: bool,
}

impl Cycle for Message {
    async fn once(&mut self, _: &mut Measurements) -> Result<bool, BoxError> {
        self.queue.push(&MESSAGE).await?;
        if self.receives {
            self.queue.receive().await?.ack().await?;
        }
        Ok(true)
    }
}
