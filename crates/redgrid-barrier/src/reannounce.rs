//! Announces a known state again after a failover, because the new primary may have lost it.
//!
//! A primary that dies right after it opened a barrier may not have replicated the opening. The
//! parties that were let through have moved on, and the others would wait at the new primary for
//! ever. So each process whose party was let through stays subscribed for one lease. Whenever the
//! subscription was interrupted, it announces the opened round again. A single server has no
//! replica that could miss a write, so it needs no task. There is one task per name and client, and
//! it does not keep the client alive.

use std::sync::{Arc, Mutex};

use redgrid_core::author::ClientExt;
use redgrid_core::clock::Instant;
use redgrid_core::{DeploymentKind, Request};

use crate::handle::SyncHandle;

/// The instant until which the announcing task runs; in the past if there is no task.
#[derive(Debug, Default)]
pub(crate) struct Reannouncer(Arc<Mutex<Instant>>);

impl Reannouncer {
    /// Announces `known` after each interruption of the subscription, for a lease from now on.
    pub(crate) fn start<K: Send + Sync + 'static>(
        &self,
        handle: &SyncHandle,
        known: &Arc<K>,
        announce_request: impl Fn(&K) -> Request + Send + 'static,
    ) {
        if handle.client.topology().kind == DeploymentKind::Single {
            return;
        }
        let mut until = lock(&self.0);
        let now = handle.client.clock().now();
        let is_running = *until > now;
        *until = now + handle.client.watchdog_lease();
        drop(until);
        if is_running {
            return;
        }
        let (known, until) = (Arc::clone(known), Arc::clone(&self.0));
        let (client, clock) = (handle.client.downgrade(), handle.client.clock().clone());
        let mut watch = handle.client.watch(handle.channel.clone(), handle.key.clone());
        tokio::spawn(async move {
            loop {
                let end = {
                    let mut until = lock(&until);
                    if *until <= clock.now() {
                        *until = Instant::MIN;
                        return;
                    }
                    *until
                };
                tokio::select! {
                    wake = watch.wake() => if wake.resync {
                        let Some(client) = client.upgrade() else { return };
                        let _ = client.run::<i64>(announce_request(&known)).await;
                    },
                    () = client.closing() => return,
                    () = clock.sleep_until(end) => {}
                }
            }
        });
    }
}

fn lock(until: &Mutex<Instant>) -> std::sync::MutexGuard<'_, Instant> {
    until.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}
