//! Which server a name belongs to, one file per topology.

mod single;

pub(super) use single::Single;

use std::sync::Arc;

use super::node::Node;
use super::{Server, Topology};
use crate::clock::Clock;
use crate::config::{Config, Servers};
use crate::error::ServerError;

/// Begins to look for the servers of a configuration; nothing is waited for.
pub(super) fn open(config: &Config, clock: &Clock) -> Result<Arc<dyn Topology>, ServerError> {
    let Config { servers, access, settings, .. } = config;
    match servers {
        Servers::Single(single) => {
            let node = Node::open((&single.address, access), settings, clock.clone(), &settings.client_name)?;
            Ok(Arc::new(Single::new(Arc::new(node) as Arc<dyn Server>)))
        }
        Servers::Unix(_) | Servers::MasterSlave(_) | Servers::Sentinel(_) | Servers::Cluster(_) => {
            Err(ServerError::not_sent("this topology is on its way"))
        }
    }
}
