//! The keep-alive of a participation, for as long as its guard lives.

use std::time::Duration;

use redgrid_core::author::ClientExt;
use redgrid_core::{Failure, Request};
use tokio::sync::watch;
use tokio::task::AbortHandle;

use crate::handle::SyncHandle;

/// A task that renews a participation at each third of the lease, and whenever the subscription was
/// interrupted. Dropping it ends the task.
#[derive(Debug)]
pub(crate) struct Keepalive {
    task: AbortHandle,
    lost: watch::Receiver<bool>,
}

impl Keepalive {
    /// Starts the task. It sends `keepalive_request` until the server replies that the
    /// participation has ended.
    pub(crate) fn start(
        handle: &SyncHandle,
        keepalive_request: impl Fn(&SyncHandle) -> Request + Send + Sync + 'static,
    ) -> Keepalive {
        let (lost_sender, lost) = watch::channel(false);
        let handle = handle.clone();
        let task = tokio::spawn(async move {
            let interval = handle.client.watchdog_lease() / 3;
            let mut changes = handle.client.watch(handle.channel.clone(), handle.key.clone());
            let mut pause = interval;
            loop {
                let clock = handle.client.clock();
                let due = clock.now() + pause;
                tokio::select! {
                    () = until_interrupted(&mut changes) => {}
                    () = clock.sleep_until(due) => {}
                }
                pause = match handle.run::<Vec<i64>>(keepalive_request(&handle)).await.as_deref() {
                    Ok([1]) => interval,
                    Ok([0]) => {
                        lost_sender.send_replace(true);
                        return;
                    }
                    // A shutdown ends all participations.
                    Err(Failure::ShuttingDown { .. }) => {
                        lost_sender.send_replace(true);
                        return;
                    }
                    // The request was too late or unanswered: repeat it soon.
                    _ => (interval / 4).max(Duration::from_millis(10)),
                };
            }
        });
        Keepalive { task: task.abort_handle(), lost }
    }

    /// Returns whether the server has replied that the participation has ended, or the client is
    /// shut down.
    pub(crate) fn is_lost(&self) -> bool {
        *self.lost.borrow()
    }

    /// Completes when the participation is [lost](Keepalive::is_lost).
    pub(crate) async fn lost(&self) {
        let mut lost = self.lost.clone();
        if lost.wait_for(|lost| *lost).await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

impl Drop for Keepalive {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn until_interrupted(changes: &mut redgrid_core::Watch) {
    while !changes.wake().await.resync {}
}
