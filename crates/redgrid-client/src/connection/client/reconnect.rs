//! Watches for new connections of a node.

use std::sync::Arc;

use crate::connection::Server;

/// Calls `verify` after each new connection of a node, because the node's server may have lost
/// leases since the previous connection.
pub(super) async fn after_reconnects(server: Arc<dyn Server>, verify: impl Fn(&Arc<dyn Server>)) {
    let mut connection = server.connection_id();
    let mut last = connection.borrow_and_update().clone();
    while connection.changed().await.is_ok() {
        let current = connection.borrow_and_update().clone();
        if current.is_some() && current != last {
            last = current;
            verify(&server);
        }
    }
}
