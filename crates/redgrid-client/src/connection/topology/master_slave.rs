//! The topology of a configured primary and its replicas.
//!
//! The client changes to another configured server only when the current primary reports that it
//! now replicates from that server.

use std::sync::Arc;

use super::gap;
use super::replicated::Replicated;
use super::role::{Role, role};
use crate::config::{Address, MasterSlave};
use crate::connection::link::NodeRole;
use crate::connection::node::{Node, Nodes};
use crate::connection::{DeploymentKind, Server};

/// Opens the topology with the configured primary.
pub(super) fn open(servers: &MasterSlave, nodes: Nodes) -> Arc<Replicated> {
    let replicated = Replicated::new(DeploymentKind::MasterSlave, nodes.clone(), "no primary is set");
    replicated.set_primary(servers.primary.clone(), None);
    replicated.set_replicas(&servers.replicas, &[]);
    replicated.watched_by(watch(Arc::clone(&replicated), servers.clone(), nodes));
    replicated.compare_replicas();
    replicated
}

async fn watch(replicated: Arc<Replicated>, servers: MasterSlave, nodes: Nodes) {
    let listed: Vec<Address> = std::iter::once(&servers.primary).chain(&servers.replicas).cloned().collect();
    // The address of the primary, and a separate node object for queries of its role. If the server
    // at that address is now a replica, the topology's own connection to it does not come up,
    // because that connection requires a primary.
    let mut probe: Option<(Address, Arc<Node>)> = None;
    loop {
        let in_doubt = tokio::select! {
            () = replicated.doubts.notified() => true,
            () = tokio::time::sleep(nodes.settings.scan_interval) => false,
        };
        replicated.check_replicas();
        let Some(primary) = replicated.primary_address() else { continue };
        if !in_doubt {
            continue;
        }
        if probe.as_ref().is_none_or(|(address, _)| *address != primary) {
            let node = nodes.open(&primary, NodeRole::Any);
            if let Some((_, former)) = probe.replace((primary.clone(), node)) {
                former.close().await;
            }
        }
        let Some((_, node)) = &probe else { continue };
        let answers = tokio::time::timeout(nodes.settings.connect_timeout, async {
            let _ = node.connection_id().wait_for(Option::is_some).await;
            role(&**node).await
        });
        if let Ok(Ok(Role::ReplicaOf { primary: other, .. })) = answers.await
            && listed.contains(&other)
        {
            let replicas: Vec<_> = listed.iter().filter(|address| **address != other).cloned().collect();
            replicated.set_primary(other, None);
            replicated.set_replicas(&replicas, &[]);
        }
        if let Some((_, node)) = probe.take() {
            node.close().await;
        }
        // Hints that arrive in this pause share one refresh.
        tokio::time::sleep(gap(&nodes.settings)).await;
    }
}
