//! Checks of the servers: what their settings mean for locks, and what to change.

mod clocks;
mod facts;
mod finding;
mod limits;
mod permissions;
mod sentinels;
mod settings;
mod topology;

use redgrid_core::{Client, Config};
use serde::Serialize;

pub use finding::{Finding, Level};

use crate::error::InspectError;
use facts::Facts;
use limits::Limits;

/// The requirements that the checks compare the servers with: the configuration of the clients.
#[derive(Debug, Clone)]
pub struct Requirements {
    config: Config,
    is_read_only: bool,
    is_for_reader: bool,
}

impl Requirements {
    /// Returns the requirements of clients with this configuration.
    ///
    /// Its addresses, credentials and encryption are used to connect to each server.
    pub fn of(config: &Config) -> Self {
        Requirements { config: config.clone(), is_read_only: false, is_for_reader: false }
    }

    /// Leaves out the check of the permissions inside scripts, which writes two keys and deletes
    /// them. The other checks write nothing.
    pub fn read_only(mut self) -> Self {
        self.is_read_only = true;
        self
    }

    /// Leaves out all that a user with the published permissions of a reader
    /// (docs/operating/acl.md) may not read: the settings of the servers, permissions, `CLUSTER
    /// INFO`, and the quorum of sentinels. No server then refuses a request of such a user, which
    /// it would record in its ACL log.
    ///
    /// These checks remain: versions, replicas and their links, clocks, and servers that are not
    /// reached. Nothing is written.
    pub fn for_reader(mut self) -> Self {
        self.is_for_reader = true;
        self.read_only()
    }
}

/// The result of all checks. The fields are those of its JSON, in their order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct DoctorReport {
    /// The kind of deployment, such as `cluster`.
    pub topology: &'static str,
    /// The addresses of the servers that were checked.
    pub nodes: Vec<String>,
    /// The highest level of all findings.
    pub worst: Level,
    /// The findings.
    pub findings: Vec<Finding>,
}

/// Runs all checks.
pub(crate) async fn run(client: &Client, requirements: &Requirements) -> Result<DoctorReport, InspectError> {
    let facts = Facts::gather(client, requirements).await?;
    let limits = Limits::of(requirements);
    let mut findings = topology::check(&facts, &limits);
    findings.extend(sentinels::check(&facts));
    findings.extend(clocks::check(&facts, &limits));
    findings.extend(facts.nodes.iter().flat_map(|node| settings::check(node, &limits)));
    findings.extend(facts.nodes.iter().flat_map(|node| permissions::check(node, &facts, &limits)));
    let worst = findings.iter().map(|finding| finding.level).max().unwrap_or(Level::Ok);
    let nodes = facts.nodes.iter().map(|node| node.address.to_string()).collect();
    Ok(DoctorReport { topology: facts.topology, nodes, worst, findings })
}
