//! A worker is killed in the middle of the sale, while it holds a lock.

use std::future::pending;
use std::time::Duration;

use nix::sys::signal::Signal;
use redgrid::Grid;
use tokio::time::sleep;

use super::counter::Counter;
use super::crew::Victim;
use super::keys;
use crate::cli::SaleOptions;

/// Time between two looks: 1 ms, some orders.
const LOOK_EVERY: Duration = Duration::from_millis(1);

/// Looks for a worker that holds a lock, before any is taken: a plain lock does not tell whose it is.
const LOOKS: usize = 200;

/// With `--kill-one`, kills the worker that holds a lock when a third is sold. Does not end: the sale does.
pub(crate) async fn one(grid: &Grid, counter: &Counter, options: &SaleOptions, products: &[&str], victims: &[Victim]) {
    if options.kill_one {
        let wanted: u64 = counter.requests().iter().map(|request| request.quantity).sum();
        let third = wanted.min(options.stock * products.len() as u64) / 3;
        while counter.so_far(|tally| tally.units) < third {
            sleep(LOOK_EVERY).await;
        }
        if let Some(victim) = holder(grid, products, victims).await.or(victims.first()) {
            victim.send(Signal::SIGKILL);
        }
    }
    pending().await
}

/// A worker that holds a lock. It is stopped then, so that it still holds it when it is killed.
async fn holder<'a>(grid: &Grid, products: &[&str], victims: &'a [Victim]) -> Option<&'a Victim> {
    for product in products.iter().cycle().take(LOOKS) {
        let clients = holders(grid, product).await?;
        if let Some(victim) = victims.iter().find(|victim| clients.contains(&victim.client)) {
            victim.send(Signal::SIGSTOP);
            // A release that it had sent before is done by then.
            sleep(LOOK_EVERY).await;
            if holders(grid, product).await?.contains(&victim.client) {
                return Some(victim);
            }
            victim.send(Signal::SIGCONT);
        }
        sleep(LOOK_EVERY).await;
    }
    None
}

/// The clients that hold the lock of `product`; `None` where it is no such lock, or the server is gone.
async fn holders(grid: &Grid, product: &str) -> Option<Vec<String>> {
    let held = grid.lock(keys::lock(product)).inspect().await.ok()?;
    Some(held.into_iter().flat_map(|held| held.holders).map(|holder| holder.client).collect())
}
