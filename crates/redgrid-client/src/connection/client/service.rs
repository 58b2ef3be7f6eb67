//! The service of a client: the part that manages the locks and permits held through the client.
//!
//! The client itself handles only connections and requests, and has no code for locks. It has one
//! slot for a service. `redgrid-core` attaches the service when a service is first needed. The
//! client runs the service, notifies it of new connections and topology changes, passes notices on
//! to it, and closes it before the connections close.

use std::any::Any;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};

use tokio::sync::Notify;

use crate::connection::{ClientStats, Core, Server};
use crate::pubsub::ChannelEvent;
use crate::report::ClientReport;
use crate::sync::Mutex;

/// Work that ends by itself and delivers its own result.
pub type BackgroundTask = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Manages the locks and permits that are held through a client.
pub trait Service: Any + Send + Sync {
    /// Returns a future that does the work of the service. The client runs it concurrently with its
    /// own tasks, until the client ends.
    fn run(self: Arc<Self>) -> BackgroundTask;

    /// Handles an event of the client's notice channel. Questions (requests for a report about the
    /// client) arrive on the same channel, but are not passed to this method.
    fn notice(&self, notice: &ChannelEvent);

    /// Makes the service's part of a report about the client: the held locks and permits, the names
    /// that tasks wait for, contention, and the latest events. The setting `introspection` limits
    /// the content. The client fills in the fields about itself.
    fn report(self: Arc<Self>) -> Pin<Box<dyn Future<Output = ClientReport> + Send>>;

    /// Handles a new connection of a node. The server of the node may have lost holds and permits.
    fn reconnected(&self, server: &Arc<dyn Server>);

    /// Handles a change of the topology: keys may have another primary.
    fn topology_changed(&self);

    /// Rejects new requests from now on, and ends all waits and holds.
    ///
    /// Returns the work that a shutdown waits for. A second call has no effect.
    fn close(&self) -> Vec<BackgroundTask>;

    /// Returns the names that are held, without waiting for a mutex.
    fn held_names(&self) -> Vec<String>;

    /// Returns the numbers of names, holds and waiting requests, for tests and diagnosis. The
    /// client fills in the number of channels.
    fn stats(&self) -> ClientStats;
}

/// The slot of a client for its service.
#[derive(Default)]
pub struct ServiceSlot {
    service: OnceLock<Arc<dyn Service>>,
    /// Whether [`ServiceSlot::close`] was called. If so, a service that is attached later is closed
    /// before any caller sees it.
    is_closed: Mutex<bool>,
    attached: Notify,
}

impl ServiceSlot {
    pub(in crate::connection) fn get(&self) -> Option<&Arc<dyn Service>> {
        self.service.get()
    }

    /// Returns the client's service. The first call creates it with `make`, and attaches it.
    ///
    /// # Panics
    ///
    /// If a service of another type is attached, which cannot happen while only one crate attaches
    /// services.
    #[inline]
    pub fn get_or_attach<S: Service>(&self, core: &Arc<Core>, make: impl FnOnce() -> S) -> &S {
        let service = match self.service.get() {
            Some(service) => service,
            None => self.attach(core, make),
        };
        let service: &dyn Any = &**service;
        service.downcast_ref().expect("one type of service")
    }

    #[cold]
    fn attach<S: Service>(&self, core: &Arc<Core>, make: impl FnOnce() -> S) -> &Arc<dyn Service> {
        // The flag is locked during the attachment, so either `close` finds the service, or this
        // method finds that `close` was called.
        let is_closed = self.is_closed.lock();
        let service = self.service.get_or_init(|| {
            let service = make();
            if *is_closed {
                service.close().into_iter().for_each(|work| core.spawn_background(work));
            }
            Arc::new(service)
        });
        self.attached.notify_one();
        service
    }

    /// Closes the service. A service that is attached later is closed at once. Returns the work
    /// that a shutdown waits for.
    pub(in crate::connection) fn close(&self) -> Vec<BackgroundTask> {
        *self.is_closed.lock() = true;
        self.service.get().map(|service| service.close()).unwrap_or_default()
    }
}

/// Runs the service once it is attached.
pub(in crate::connection) async fn serve(slot: Arc<ServiceSlot>) {
    let service = loop {
        if let Some(service) = slot.get() {
            break Arc::clone(service);
        }
        slot.attached.notified().await;
    };
    service.run().await;
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::Duration;

    use super::*;
    use crate::Client;
    use crate::connection::inner;

    #[derive(Default)]
    struct Fake {
        is_closed: AtomicBool,
    }

    impl Service for Fake {
        fn run(self: Arc<Self>) -> BackgroundTask {
            Box::pin(std::future::pending())
        }

        fn notice(&self, _: &ChannelEvent) {}

        fn report(self: Arc<Self>) -> Pin<Box<dyn Future<Output = ClientReport> + Send>> {
            Box::pin(std::future::ready(ClientReport::default()))
        }

        fn reconnected(&self, _: &Arc<dyn Server>) {}

        fn topology_changed(&self) {}

        fn close(&self) -> Vec<BackgroundTask> {
            self.is_closed.store(true, Ordering::Release);
            Vec::new()
        }

        fn held_names(&self) -> Vec<String> {
            Vec::new()
        }

        fn stats(&self) -> ClientStats {
            ClientStats::default()
        }
    }

    /// Returns whether the service of a client is closed; attaches it on first use.
    fn is_closed(client: &Client) -> bool {
        let parts = inner(client);
        parts.service.get_or_attach(&parts.core, Fake::default).is_closed.load(Ordering::Acquire)
    }

    #[tokio::test]
    async fn a_shutdown_closes_the_service_also_one_that_is_attached_later() {
        for attached_before in [true, false] {
            // No server is needed: the client connects in the background.
            let client = Client::connect("redis://127.0.0.1:1").await.unwrap();
            assert!(!attached_before || !is_closed(&client));
            let _ = client.shutdown(Duration::ZERO).await;
            assert!(is_closed(&client), "attached before: {attached_before}");
        }
    }
}
