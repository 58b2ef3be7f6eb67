//! Kills a worker in the middle of the sale, while it holds a lock.

use std::future::pending;
use std::time::Duration;

use nix::sys::signal::Signal;
use redgrid::Grid;
use tokio::time::sleep;

use super::counter::Counter;
use super::crew::Victim;
use super::keys;
use crate::cli::SaleOptions;

/// Time between two checks: 1 ms, the duration of several orders.
const CHECK_INTERVAL: Duration = Duration::from_millis(1);

/// Number of attempts to find a worker that holds a lock. If none is found, the first worker is
/// killed: a plain lock does not show its owner.
const CHECKS: usize = 200;

/// With `--kill-one`, kills a worker that holds a lock once a third of the units that can be sold
/// are sold. Never returns; the sale cancels it.
pub(crate) async fn one(grid: &Grid, counter: &Counter, options: &SaleOptions, products: &[&str], victims: &[Victim]) {
    if options.kill_one {
        let wanted: u64 = counter.requests().iter().map(|request| request.quantity).sum();
        let third = wanted.min(options.stock * products.len() as u64) / 3;
        while counter.so_far(|tally| tally.units) < third {
            sleep(CHECK_INTERVAL).await;
        }
        if let Some(victim) = holder(grid, products, victims).await.or(victims.first()) {
            victim.send(Signal::SIGKILL);
        }
    }
    pending().await
}

/// Returns a worker that holds a lock. The worker is stopped, so that it still holds the lock when
/// it is killed.
async fn holder<'a>(grid: &Grid, products: &[&str], victims: &'a [Victim]) -> Option<&'a Victim> {
    for product in products.iter().cycle().take(CHECKS) {
        let clients = holders(grid, product).await?;
        if let Some(victim) = victims.iter().find(|victim| clients.contains(&victim.client)) {
            victim.send(Signal::SIGSTOP);
            // After this time, a release that the worker sent before it was stopped is executed.
            sleep(CHECK_INTERVAL).await;
            if holders(grid, product).await?.contains(&victim.client) {
                return Some(victim);
            }
            victim.send(Signal::SIGCONT);
        }
        sleep(CHECK_INTERVAL).await;
    }
    None
}

/// Returns the clients that hold the lock of `product`; `None` if the key holds another kind of
/// lock, or the server does not answer.
async fn holders(grid: &Grid, product: &str) -> Option<Vec<String>> {
    let held = grid.lock(keys::lock(product)).inspect().await.ok()?;
    Some(held.into_iter().flat_map(|held| held.holders).map(|holder| holder.client).collect())
}
