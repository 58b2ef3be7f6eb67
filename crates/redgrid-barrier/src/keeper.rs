//! Keeps a participation alive that its guard stands for.

use std::time::Duration;

use redgrid_core::Request;
use tokio::sync::watch;
use tokio::task::AbortHandle;

use crate::error::AskError;
use crate::place::Place;

/// Says at a third of the lease, and whenever the subscription was interrupted, that somebody is there still. Dropped, it ends.
#[derive(Debug)]
pub(crate) struct Keeper {
    task: AbortHandle,
    lost: watch::Receiver<bool>,
}

impl Keeper {
    /// Begins. `say` is asked until the server answers that it does not count any more.
    pub(crate) fn begin(place: &Place, say: impl Fn(&Place) -> Request + Send + Sync + 'static) -> Keeper {
        let (told, lost) = watch::channel(false);
        let place = place.clone();
        let task = tokio::spawn(async move {
            let every = place.client.watchdog_lease() / 3;
            let mut changes = place.client.watch(place.channel.clone(), place.key.clone());
            let mut pause = every;
            loop {
                let clock = place.client.clock();
                let due = clock.now() + pause;
                tokio::select! {
                    () = until_interrupted(&mut changes) => {}
                    () = clock.sleep_until(due) => {}
                }
                pause = match place.ask::<Vec<i64>>(say(&place)).await.as_deref() {
                    Ok([1]) => every,
                    Ok([0]) => {
                        told.send_replace(true);
                        return;
                    }
                    // A shutdown takes everybody out.
                    Err(AskError::ShuttingDown { .. }) => {
                        told.send_replace(true);
                        return;
                    }
                    // Too late, or unanswered: once more, soon.
                    _ => (every / 4).max(Duration::from_millis(10)),
                };
            }
        });
        Keeper { task: task.abort_handle(), lost }
    }

    /// Whether the server has said that it does not count any more, or the client is shut down.
    pub(crate) fn is_lost(&self) -> bool {
        *self.lost.borrow()
    }

    /// Completes when it does.
    pub(crate) async fn lost(&self) {
        let mut lost = self.lost.clone();
        if lost.wait_for(|lost| *lost).await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn until_interrupted(changes: &mut redgrid_core::Watch) {
    while !changes.wake().await.resync {}
}
