//! The two main tasks of a client. One runs the background work and the shutdown. The other acts on
//! changes of the topology.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::task::JoinSet;

use crate::connection::core::Core;
use crate::connection::events::Watching;
use crate::connection::service::{BackgroundTask, ServiceSlot};
use crate::connection::views::Views;
use crate::connection::{Deployment, is_same};

/// Time limit of background work after the last handle was dropped without a shutdown: 5 s.
pub(in crate::connection) const FAREWELL: Duration = Duration::from_secs(5);

/// Runs the background work and the shutdown of a client.
///
/// This value is created before its task starts. So `Drop` also runs if the task is never polled.
/// If the value is dropped before the end of the shutdown, the runtime has ended. In that case
/// `Drop` ends all pending calls, because they cannot complete without the runtime.
pub(in crate::connection) struct Driver {
    pub(in crate::connection) core: Arc<Core>,
    pub(in crate::connection) service: Arc<ServiceSlot>,
    pub(in crate::connection) tasks: JoinSet<()>,
}

impl Drop for Driver {
    fn drop(&mut self) {
        if self.core.life.abandon(self.core.clock.now()) {
            drop(self.service.close());
            self.core.subscriptions.close();
        }
    }
}

impl Driver {
    /// Runs background tasks until the client closes, then shuts the client down.
    pub(in crate::connection) async fn run(mut self, mut work: mpsc::UnboundedReceiver<BackgroundTask>) {
        let Driver { core, service, tasks: others } = &mut self;
        let mut tasks = JoinSet::new();
        loop {
            tokio::select! {
                Some(next) = work.recv() => { tasks.spawn(next); }
                Some(_) = tasks.join_next() => {}
                () = core.life.closing() => break,
            }
        }
        let by = core.life.closes_by().unwrap_or_else(|| core.clock.now());
        core.life.update(|life| life.is_closed = true);
        for left in service.close() {
            tasks.spawn(left);
        }
        let leave_requests = core.participants.lock().take_leave_requests();
        leave_requests.for_each(|leave_request| core.run_detached(leave_request));
        let drained = async {
            loop {
                tokio::select! {
                    biased;
                    Some(next) = work.recv() => { tasks.spawn(next); }
                    joined = tasks.join_next() => if joined.is_none() { return },
                }
            }
        };
        let in_time = tokio::select! {
            // This branch is polled first: work that completes at the deadline is still in time.
            biased;
            () = drained => true,
            () = core.clock.sleep_until(by) => false,
        };
        tasks.abort_all();
        core.life.update(|life| life.is_over = true);
        core.events.close();
        others.abort_all();
        core.subscriptions.close();
        let mut closed = core.topology.close();
        // A connection that is not closed in time ends by itself soon after. Until then, it carries
        // no requests for holds.
        loop {
            tokio::select! {
                // This branch is polled first, even if the deadline has passed: its first poll
                // makes all connections begin to close.
                biased;
                () = &mut closed => break,
                () = core.clock.sleep_until(by) => break,
                // A background task that arrives now is dropped without being run. The drop
                // notifies the caller that awaits the task's result.
                Some(_) = work.recv() => {}
            }
        }
        core.life.update(|life| life.is_clean = Some(in_time));
    }
}

/// Acts on each change of the topology, so that holds and waiters use the current primary of their
/// names.
pub(in crate::connection) async fn follow(core: Arc<Core>, service: Arc<ServiceSlot>) {
    let mut changes = core.topology.changes();
    let mut views = Views::new(core.topology.kind());
    let mut watched: Vec<Watching> = Vec::new();
    loop {
        report(&core, &service, &mut views, &mut watched);
        core.subscriptions.reassign();
        core.given_back.schedule_check();
        service.get().inspect(|service| service.topology_changed());
        if changes.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

/// Publishes topology changes, and watches the connections of the current nodes.
fn report(core: &Arc<Core>, service: &Arc<ServiceSlot>, views: &mut Views, watched: &mut Vec<Watching>) {
    let shards = core.topology.shards();
    let nodes: Vec<_> =
        shards.into_iter().flat_map(|shard| shard.replicas.into_iter().chain([shard.primary])).collect();
    watched.retain(|known| nodes.iter().any(|node| is_same(node, &known.server)));
    core.events.changed(views, Deployment::of(&*core.topology));
    for node in nodes {
        if !watched.iter().any(|known| is_same(&known.server, &node)) {
            let (of, service) = (Arc::clone(core), Arc::clone(service));
            watched.push(core.events.watch(node, move |server| {
                if of.decides(server) {
                    of.given_back.schedule_check();
                    service.get().inspect(|service| service.reconnected(server));
                }
            }));
        }
    }
}
