//! Who has got on remembers it for a while, for a server that may forget it in a failover.
//!
//! A primary that dies right after it let everybody through may not have told its replica. Those who were through are gone on, and
//! the others would wait at the new primary for ever. So each process that was let through stays subscribed for a lease, and tells
//! what it knows whenever its subscription was interrupted. One server alone has nobody to forget it. There is one task for a name and
//! client, which does not keep the client.

use std::sync::{Arc, Mutex};

use redgrid_core::clock::Instant;
use redgrid_core::{DeploymentKind, Request};

use crate::place::Place;

/// Until when there is a task that tells; past when there is none.
#[derive(Debug, Default)]
pub(crate) struct Witness(Arc<Mutex<Instant>>);

impl Witness {
    /// Has what `known` says told when it may be forgotten, for a lease from now on.
    pub(crate) fn testify<K: Send + Sync + 'static>(
        &self,
        place: &Place,
        known: &Arc<K>,
        say: impl Fn(&K) -> Request + Send + 'static,
    ) {
        if place.client.topology().kind == DeploymentKind::Single {
            return;
        }
        let mut until = lock(&self.0);
        let now = place.client.clock().now();
        let is_there = *until > now;
        *until = now + place.client.watchdog_lease();
        drop(until);
        if is_there {
            return;
        }
        let (known, until) = (Arc::clone(known), Arc::clone(&self.0));
        let (client, clock) = (place.client.downgrade(), place.client.clock().clone());
        let mut watch = place.client.watch(place.channel.clone(), place.key.clone());
        tokio::spawn(async move {
            loop {
                let over = {
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
                        let _ = client.run::<i64>(say(&known)).await;
                    },
                    () = client.closing() => return,
                    () = clock.sleep_until(over) => {}
                }
            }
        });
    }
}

fn lock(until: &Mutex<Instant>) -> std::sync::MutexGuard<'_, Instant> {
    until.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}
