//! The topology of a single server.

use std::sync::Arc;

use async_trait::async_trait;
use tokio::sync::watch;

use super::super::{Server, Topology};

pub(crate) struct Single {
    server: Arc<dyn Server>,
    changes: watch::Sender<u64>,
}

impl Single {
    pub(crate) fn new(server: Arc<dyn Server>) -> Self {
        Single { server, changes: watch::Sender::new(0) }
    }
}

#[async_trait]
impl Topology for Single {
    fn primary(&self, _key: &[u8]) -> Arc<dyn Server> {
        Arc::clone(&self.server)
    }

    fn primaries(&self) -> Vec<Arc<dyn Server>> {
        vec![Arc::clone(&self.server)]
    }

    fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    async fn close(&self) {
        self.server.close().await;
    }
}
