//! Which server a name belongs to. With a single server: that one.

use std::sync::Arc;

use super::{Server, Topology};

/// One server for everything.
pub(super) struct SingleServer(pub(super) Arc<dyn Server>);

impl Topology for SingleServer {
    fn primary(&self, _key: &[u8]) -> Arc<dyn Server> {
        Arc::clone(&self.0)
    }

    fn primaries(&self) -> Vec<Arc<dyn Server>> {
        vec![Arc::clone(&self.0)]
    }
}
