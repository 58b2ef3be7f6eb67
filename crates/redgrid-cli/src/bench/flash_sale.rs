//! W3: sells a stock completely under one lock, from several processes that run the same job
//! concurrently.
//!
//! Each order reads, checks and writes with plain commands. The key `PREFIX:stock` must exist
//! before the job, and be 0 afterwards.

use redgrid::{Grid, Lock};

use super::crew::{self, Bounds, Cycle, Measurements};
use super::job::Job;
use super::outcome::Outcome;
use super::start::Start;
use super::{BoxError, contended};

/// Runs the job. If there are several processes, the benchmark harness adds up their sales.
pub(super) async fn run(grid: &Grid, job: &Job, start: &mut dyn Start) -> Result<Outcome, BoxError> {
    let stock = format!("{}:stock", job.prefix);
    let lock = format!("{}:lock", job.prefix);
    let order = Order { lock: grid.lock(lock), grid: grid.clone(), stock };
    if order.left().await?.is_none() {
        return Err(format!("there is no stock to sell; SET {} to a number first", order.stock).into());
    }
    contended::warm(job, &|name: &str| grid.lock(name).acquire()).await;
    start.wait().await?;
    let orders = (0..job.tasks).map(|_| order.clone()).collect();
    Ok(crew::run(orders, Bounds { ops: job.ops, secs: job.secs }).await)
}

/// Sells one unit.
#[derive(Clone)]
struct Order {
    grid: Grid,
    lock: Lock,
    stock: String,
}

impl Order {
    async fn left(&self) -> Result<Option<i64>, BoxError> {
        Ok(self.grid.command("GET").key(&self.stock)?.idempotent().query().await?)
    }
}

impl Cycle for Order {
    async fn once(&mut self, _: &mut Measurements) -> Result<bool, BoxError> {
        let guard = self.lock.acquire().await?;
        let left = self.left().await?.ok_or("the stock has gone")?;
        let sold = left > 0;
        if sold {
            let rest = (left - 1).to_string();
            self.grid.command("SET").key(&self.stock)?.arg(rest).query::<()>().await?;
        }
        guard.release().await?;
        Ok(sold)
    }
}
