//! A list of nodes with one primary among them, for managed services without sentinels. Only the
//! nodes themselves report which one is the primary.
//!
//! Each node is queried with `ROLE` at every `scan_interval` and after topology hints, and more
//! often while the primary does not answer. The client uses the node that claims to be a primary.
//! During a failover several nodes may make this claim, because a former primary makes it until it
//! is reconfigured. In that case the votes of the replicas decide, as [`votes`](super::votes)
//! describes.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use tokio::time::Instant;

use super::replicated::Replicated;
use super::role::role;
use super::unknown_primary::{kind_of, text_of};
use super::votes::{Choice, Election};
use crate::config::{Address, Network, Settings};
use crate::connection::link::{NodeRole, suspicion_timeout};
use crate::connection::node::{Node, Nodes};
use crate::connection::trouble::{Kind, Trouble};
use crate::connection::{DeploymentKind, Server};
use crate::error::ServerError;

/// Opens the topology, and starts to query the listed nodes.
pub(super) fn open(listed: &[Address], nodes: Nodes) -> Arc<Replicated> {
    let replicated = Replicated::new(DeploymentKind::Replicated, nodes.clone(), "no node has answered yet");
    // One connection is enough to query a node's role.
    let probing = Nodes { settings: Settings { connections_per_node: 1, ..nodes.settings.clone() }, ..nodes };
    let listed = listed.iter().map(|address| (address.clone(), probing.open(address, NodeRole::Any)));
    let watch = Watch {
        replicated: Arc::clone(&replicated),
        listed: listed.collect(),
        settings: probing.settings.clone(),
        network: Arc::clone(&probing.entry.network),
        open_since: None,
    };
    // The watch task owns the connections for the role queries, so these connections are closed
    // when the task ends.
    replicated.watched_by(watch.run());
    replicated.compare_replicas();
    replicated
}

struct Watch {
    replicated: Arc<Replicated>,
    listed: Vec<(Address, Arc<Node>)>,
    settings: Settings,
    network: Arc<Network>,
    /// Since when the choice of the primary has been open ([`Choice::Open`]).
    open_since: Option<Instant>,
}

impl Watch {
    async fn run(mut self) {
        loop {
            self.refresh().await;
            self.replicated.check_replicas_at_intervals();
            self.replicated.next_refresh(self.open_since.is_some()).await;
        }
    }

    /// Returns whether a state has lasted for two thirds of `response_timeout`.
    ///
    /// If a silent primary is then replaced, the requests that wait for a reply still have a third
    /// of their time. In this time they can be sent to the new primary.
    fn is_for_long(&self, lasted: Option<Duration>) -> bool {
        lasted.is_some_and(|lasted| lasted >= self.settings.response_timeout / 3 * 2)
    }

    async fn refresh(&mut self) {
        let listed = self.listed.clone();
        let queries = listed.iter().map(|(address, node)| async move {
            let limit = suspicion_timeout(node.time().round_trip());
            let answer = tokio::time::timeout(limit, role(&**node)).await;
            (address, answer.unwrap_or_else(|_| Err(ServerError::unknown("it does not answer in time"))))
        });
        let answers = join_all(queries).await;
        let present = self.replicated.primary_address();
        let missed_for = self.replicated.missed_for();
        let election = Election {
            answers: &answers,
            present: present.as_ref(),
            // Whether the primary answers is taken from its connection, not from the ROLE query
            // above: a busy primary can miss the query's time limit although its connection is
            // alive.
            present_answers: missed_for.is_none(),
            is_silent_for_long: self.is_for_long(missed_for),
            is_open_for_long: self.is_for_long(self.open_since.map(|since| since.elapsed())),
            network: &self.network,
        };
        let choice = election.choice();
        let is_open = choice == Choice::Open;
        self.open_since = is_open.then(|| self.open_since.unwrap_or_else(Instant::now));
        let Choice::Follow(primary) = choice else {
            let nodes = listed.iter().map(|(_, node)| &**node);
            let errors: Vec<_> =
                nodes.zip(&answers).filter_map(|(node, (_, answer))| Some((node, answer.as_ref().err()?))).collect();
            // A node that has answered may be promoted, so waiting can help.
            let kind = if errors.len() < answers.len() { Kind::Passing } else { kind_of(errors.iter().copied()) };
            let trouble = errors.first().map(|(node, error)| format!(": {}", text_of(node, error)));
            let why = if is_open { "several nodes may be the primary" } else { "no node claims to be the primary" };
            let message = format!("{why}{}", trouble.unwrap_or_default());
            return self.replicated.unknown_because(Trouble { message, kind });
        };
        self.replicated.clear_trouble();
        self.replicated.set_primary(primary.clone(), None);
        let unanswered = answers.iter().filter(|(_, answer)| answer.is_err());
        let unanswered: Vec<_> = unanswered.map(|(address, _)| (*address).clone()).collect();
        self.replicated.set_replicas(&election.replicas_of(primary), &unanswered);
    }
}
