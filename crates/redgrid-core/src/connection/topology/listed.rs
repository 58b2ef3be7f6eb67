//! A list of nodes of which one is the primary, and only the nodes themselves say which: managed services without sentinels.
//!
//! Each node is asked for its `ROLE` at every interval, at every doubt, and eagerly while the primary does not answer. The
//! node that says that it is a primary is followed. In a failover several may say so, as the former primary does until it
//! is reconfigured. Then the one with the most connected replicas is followed, and of equals the present one.

use std::cmp::Reverse;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use tokio::time::Instant;

use super::nowhere::{Hope, said_by};
use super::replicated::{Replicated, Role, role};
use super::{EAGER_FOR, eager_interval, gap};
use crate::config::{Address, ReplicatedNodes, Settings};
use crate::connection::link::{Part, patience};
use crate::connection::node::{Node, Nodes};
use crate::connection::{DeploymentKind, Server};
use crate::error::ServerError;

/// Begins to ask the nodes.
pub(super) fn open(servers: &ReplicatedNodes, nodes: Nodes) -> Result<Arc<Replicated>, ServerError> {
    let replicated = Replicated::new(DeploymentKind::Replicated, nodes.clone(), "no node has answered yet");
    // To ask one for its role, one connection is enough.
    let asking = Nodes { settings: Settings { connections_per_node: 1, ..nodes.settings.clone() }, ..nodes };
    let mut listed = Vec::new();
    for address in &servers.nodes {
        listed.push((address.clone(), asking.open(address, Part::Any)?));
    }
    let watch = Watch {
        replicated: Arc::clone(&replicated),
        listed,
        settings: asking.settings,
        missed_since: None,
        looked_after: None,
    };
    // The connections end with the task.
    replicated.watched_by(tokio::spawn(watch.run()));
    replicated.compare_replicas();
    Ok(replicated)
}

struct Watch {
    replicated: Arc<Replicated>,
    listed: Vec<(Address, Arc<Node>)>,
    settings: Settings,
    /// Since when the primary has not answered.
    missed_since: Option<Instant>,
    /// When the replicas were last looked after.
    looked_after: Option<Instant>,
}

impl Watch {
    async fn run(mut self) {
        loop {
            if let Err(error) = self.look().await {
                tracing::warn!(%error, "what the nodes say could not be followed");
            }
            if self.looked_after.is_none_or(|at| at.elapsed() >= self.settings.scan_interval) {
                self.looked_after = Some(Instant::now());
                self.replicated.look_after_replicas();
            }
            let interval = self.interval();
            let doubted = async {
                self.replicated.doubts.notified().await;
                tokio::time::sleep(gap(&self.settings)).await;
            };
            tokio::select! {
                () = doubted => {}
                () = tokio::time::sleep(interval) => {}
            }
        }
    }

    /// The pause before the next look.
    fn interval(&mut self) -> Duration {
        let scan_interval = self.settings.scan_interval;
        if self.replicated.primary_address().is_none() {
            return self.settings.retry_delay.min(scan_interval);
        }
        let is_missed = self.replicated.misses_primary();
        self.missed_since = is_missed.then(|| self.missed_since.unwrap_or_else(Instant::now));
        match self.missed_since.map(|since| since.elapsed()) {
            Some(missed_for) if missed_for < EAGER_FOR => eager_interval(missed_for).min(scan_interval),
            _ => scan_interval,
        }
    }

    async fn look(&self) -> Result<(), ServerError> {
        let asking = self.listed.iter().map(|(address, node)| async move {
            let limit = patience(node.time().round_trip());
            let answer = tokio::time::timeout(limit, role(&**node)).await;
            (address, answer.unwrap_or_else(|_| Err(ServerError::unknown("it does not answer in time"))))
        });
        let answers = join_all(asking).await;
        let present = self.replicated.primary_address();
        // Busy with something else, it may answer requests all the same.
        let stands = !self.replicated.misses_primary();
        let Some(primary) = chosen(&answers, present.as_ref().filter(|_| stands)) else {
            let nodes = self.listed.iter().map(|(_, node)| &**node);
            let errors: Vec<_> =
                nodes.zip(&answers).filter_map(|(node, (_, answer))| Some((node, answer.as_ref().err()?))).collect();
            // A replica may be promoted.
            let hope = if errors.len() < answers.len() { Hope::Some } else { Hope::of(errors.iter().copied()) };
            let trouble = errors.first().map(|(node, error)| format!(": {}", said_by(node, error)));
            let why = format!("no node says that it is the primary{}", trouble.unwrap_or_default());
            self.replicated.unknown_because(why, hope);
            return Ok(());
        };
        self.replicated.told();
        self.replicated.set_primary(primary.clone())?;
        let is = |is: fn(&Result<Role, ServerError>) -> bool| {
            answers.iter().filter(|(_, answer)| is(answer)).map(|(address, _)| (*address).clone()).collect::<Vec<_>>()
        };
        let replicas = is(|answer| matches!(answer, Ok(Role::ReplicaOf(_))));
        self.replicated.set_replicas(&replicas, &is(Result::is_err))
    }
}

/// The node to follow: of those that say that they are primaries the one with the most replicas, of equals the present
/// one, or else the first of the list. `present` is the primary so far, while it answers requests; it counts even if
/// it has not answered this time.
fn chosen<'a>(answers: &[(&'a Address, Result<Role, ServerError>)], present: Option<&Address>) -> Option<&'a Address> {
    let candidates = answers.iter().enumerate().filter_map(|(at, (address, answer))| {
        let is_present = Some(*address) == present;
        let replicas = match answer {
            Ok(Role::Primary { replicas }) => *replicas,
            Err(_) if is_present => 0,
            _ => return None,
        };
        Some(((replicas, is_present, Reverse(at)), *address))
    });
    candidates.max_by_key(|(rank, _)| *rank).map(|(_, address)| address)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_primary_with_the_most_replicas_is_followed_and_the_present_one_stays_among_equals() {
        let [a, b, c] = ["a", "b", "c"].map(|host| Address::new(host, 6379));
        let primary = |replicas| Ok(Role::Primary { replicas });
        let replica = || Ok(Role::ReplicaOf(a.clone()));
        let silent = || Err(ServerError::unknown("it does not answer in time"));
        for (answers, present, expected) in [
            ([replica(), primary(0), replica()], None, Some(&b)),
            // The former one is a replica by now.
            ([replica(), primary(0), replica()], Some(&a), Some(&b)),
            // The former one does not know it yet, and another one has its replica.
            ([primary(0), primary(1), replica()], Some(&a), Some(&b)),
            // One has been started without its data, or is about to take over.
            ([primary(1), primary(0), replica()], Some(&a), Some(&a)),
            ([primary(0), primary(0), primary(0)], Some(&c), Some(&c)),
            ([primary(0), primary(0), primary(0)], None, Some(&a)),
            // Busy, while its connection lives.
            ([silent(), primary(0), replica()], Some(&a), Some(&a)),
            ([silent(), primary(0), replica()], None, Some(&b)),
            ([silent(), replica(), replica()], Some(&a), Some(&a)),
            ([silent(), replica(), silent()], None, None),
        ] {
            let answers: Vec<_> = [&a, &b, &c].into_iter().zip(answers).collect();
            assert_eq!(chosen(&answers, present), expected, "{answers:?}, {present:?}");
        }
    }
}
