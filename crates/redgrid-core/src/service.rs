//! The [`Service`] of a client: its locks, its semaphores, and the registry of futures whose
//! callers may stop polling.
//!
//! The first use of a lock, permit or offer creates the service and attaches it to the client.

use std::pin::Pin;
use std::sync::Arc;

use redgrid_client::internal::{BackgroundTask, Core, Service, inner};
use redgrid_client::report::ClientReport;
use redgrid_client::{ChannelEvent, Client, ClientStats, Server};
use tokio::task::JoinSet;

use crate::introspection::{EventLog, Gathered};
use crate::lock::Table;
use crate::permits::SemaphoreRegistry;
use crate::unpolled::UnpolledRegistry;

/// The locks and permits that one client holds or waits for.
pub(crate) struct Holdings {
    core: Arc<Core>,
    table: Arc<Table>,
    semaphores: Arc<SemaphoreRegistry>,
    pub(crate) unpolled: Arc<UnpolledRegistry>,
    events: Arc<EventLog>,
}

impl Holdings {
    fn new(core: &Arc<Core>) -> Holdings {
        let unpolled = Arc::<UnpolledRegistry>::default();
        let events = EventLog::new(core);
        let table = Table::new(Arc::clone(core), Arc::clone(&unpolled), Arc::clone(&events));
        let semaphores = SemaphoreRegistry::new(Arc::clone(core), Arc::clone(&unpolled), Arc::clone(&events));
        Holdings { core: Arc::clone(core), table, semaphores, unpolled, events }
    }
}

impl Service for Holdings {
    fn run(self: Arc<Self>) -> BackgroundTask {
        Box::pin(async move {
            let mut tasks = JoinSet::new();
            tasks.spawn(Arc::clone(&self.table).run_renewal());
            tasks.spawn(Arc::clone(&self.semaphores).run_renewals());
            tasks.spawn(async move { self.unpolled.watch(&self.core).await });
            while tasks.join_next().await.is_some() {}
        })
    }

    /// Handles a notice that a hold was taken over by force.
    fn notice(&self, notice: &ChannelEvent) {
        match notice {
            ChannelEvent::Message { payload, .. } => self.table.preempted(payload),
            // The client may have missed a notice, so it verifies all holds.
            ChannelEvent::Resync => self.table.verify_all(),
        }
    }

    fn report(self: Arc<Self>) -> Pin<Box<dyn Future<Output = ClientReport> + Send>> {
        Box::pin(async move {
            let mut gathered = Gathered::new(self.core.settings.introspection, self.core.clock.now());
            self.table.report(&mut gathered).await;
            self.semaphores.report(&mut gathered).await;
            gathered.into_report(|| self.events.report(self.core.clock.now()))
        })
    }

    fn reconnected(&self, server: &Arc<dyn Server>) {
        self.table.verify_node(server);
        self.semaphores.verify_node(server);
    }

    fn topology_changed(&self) {
        self.table.verify_moved();
        self.semaphores.verify_all();
    }

    fn close(&self) -> Vec<BackgroundTask> {
        let work = self.table.close();
        self.semaphores.close();
        work
    }

    fn held_names(&self) -> Vec<String> {
        [self.table.held_names(), self.semaphores.held_names()].concat()
    }

    fn stats(&self) -> ClientStats {
        let (locks, permits) = (self.table.stats(), self.semaphores.stats());
        ClientStats {
            names: locks.names + permits.names,
            holds: locks.holds + permits.holds,
            waiting: locks.waiting + permits.waiting,
            ..ClientStats::default()
        }
    }
}

/// Accessors for the parts of a client that this crate uses.
pub(crate) trait ClientParts {
    fn core(&self) -> &Arc<Core>;

    /// Returns the locks and permits of the client. The first call creates the [`Holdings`], and
    /// attaches them to the client as its service.
    fn holdings(&self) -> &Holdings;

    fn table(&self) -> &Arc<Table> {
        &self.holdings().table
    }

    fn semaphores(&self) -> &Arc<SemaphoreRegistry> {
        &self.holdings().semaphores
    }
}

impl ClientParts for Client {
    fn core(&self) -> &Arc<Core> {
        &inner(self).core
    }

    #[inline]
    fn holdings(&self) -> &Holdings {
        let parts = inner(self);
        parts.service.get_or_attach(&parts.core, || Holdings::new(&parts.core))
    }
}
