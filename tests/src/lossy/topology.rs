//! One simulated server for every name.

use std::sync::Arc;

use redgrid_core::{Server, Topology};

use super::server::LossyServer;

/// The topology of one server.
pub struct OneNode(Arc<dyn Server>);

impl OneNode {
    /// Everything belongs to `server`.
    pub fn new(server: LossyServer) -> Self {
        OneNode(Arc::new(server))
    }
}

impl Topology for OneNode {
    fn primary(&self, _key: &[u8]) -> Arc<dyn Server> {
        Arc::clone(&self.0)
    }

    fn primaries(&self) -> Vec<Arc<dyn Server>> {
        vec![Arc::clone(&self.0)]
    }
}
