//! Excludes lagging replicas until they have caught up.
//!
//! A connected replica can stall, because its process or its link to the primary hangs. The lag is
//! measured as time: a replica must have the data that its primary had `max_replica_lag` ago. A lag
//! in bytes says nothing without the write rate. The time since the last contact between replica
//! and primary says nothing about data that is still in transit.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{join, join_all};
use futures_util::stream::{FuturesUnordered, StreamExt};
use tokio::sync::watch;
use tokio::time::MissedTickBehavior;

use crate::Reply;
use crate::clock::Instant;
use crate::config::SubscriptionMode;
use crate::connection::node::{Node, Nodes};
use crate::connection::{ConnectionId, Request, Server};
use crate::error::ServerError;

pub(super) struct Copies {
    pub(super) primary: Arc<Node>,
    pub(super) replicas: Vec<Arc<Node>>,
}

/// Compares replicas with their primary at every `scan_interval`, until the task is aborted.
///
/// If waiters subscribe at replicas, a topology change is published when a replica becomes usable
/// or unusable.
pub(super) async fn watch(nodes: Nodes, copies: impl Fn() -> Vec<Copies>, changes: watch::Sender<u64>) {
    let mut histories: Vec<(Arc<Node>, OffsetHistory)> = Vec::new();
    let (mut fit, is_listened_to) = (BTreeSet::new(), nodes.settings.subscription_mode == SubscriptionMode::Replica);
    let mut next = tokio::time::interval(nodes.settings.scan_interval);
    next.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let known = copies();
        let mut epochs: Vec<_> = replicas_of(&known).map(|replica| replica.connection_id()).collect();
        if is_listened_to {
            // A set is compared, because the order in which the nodes report the replicas is
            // irrelevant.
            let now: BTreeSet<_> =
                replicas_of(&known).filter(|replica| replica.is_fit()).map(|one| one.id().clone()).collect();
            if now != fit {
                fit = now;
                changes.send_modify(|count| *count += 1);
            }
        }
        tokio::select! {
            _ = next.tick() => {}
            () = any_changed(&mut epochs), if is_listened_to => continue,
        }
        let copies = copies();
        histories.retain(|(of, _)| copies.iter().any(|copies| Arc::ptr_eq(&copies.primary, of)));
        for Copies { primary, .. } in &copies {
            if !histories.iter().any(|(of, _)| Arc::ptr_eq(of, primary)) {
                histories.push((Arc::clone(primary), OffsetHistory::default()));
            }
        }
        let queries = copies.iter().map(async |copies| {
            let sent = nodes.clock.now();
            let at_replicas = join_all(copies.replicas.iter().map(|replica| query_offset(&nodes, replica)));
            (sent, join(query_offset(&nodes, &copies.primary), at_replicas).await)
        });
        for (Copies { primary, replicas }, (sent, (at_primary, at_replicas))) in
            copies.iter().zip(join_all(queries).await)
        {
            let Some((_, history)) = histories.iter_mut().find(|(of, _)| Arc::ptr_eq(of, primary)) else { continue };
            if let ReplOffset::Primary(offset) = at_primary {
                let epoch = primary.current_connection_id();
                history.record(epoch, (sent, nodes.clock.now()), offset, nodes.settings.max_replica_lag);
            }
            let wanted = history.before(sent - nodes.settings.max_replica_lag);
            for (replica, reported) in replicas.iter().zip(at_replicas) {
                if let Some(behind) = is_behind(&reported, &at_primary, wanted) {
                    replica.set_behind(behind);
                }
            }
        }
    }
}

fn replicas_of(copies: &[Copies]) -> impl Iterator<Item = &Arc<Node>> {
    copies.iter().flat_map(|copies| &copies.replicas)
}

/// Completes when one of the watched connections comes up or is lost. Never completes if no
/// connection is watched.
async fn any_changed(epochs: &mut [watch::Receiver<Option<ConnectionId>>]) {
    let mut changed: FuturesUnordered<_> = epochs.iter_mut().map(|epoch| epoch.changed()).collect();
    while let Some(changed) = changed.next().await {
        if changed.is_ok() {
            return;
        }
    }
    std::future::pending().await
}

/// The replication offset that a server reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ReplOffset {
    Primary(i64),
    Replica(i64),
    /// The client's user is not allowed to query the offset, or the reply contains no offset.
    Unknown,
    /// The server did not answer in time, or refused the query for a temporary reason.
    NoReply,
    /// There is no connection, so the server gets no requests.
    Disconnected,
}

async fn query_offset(nodes: &Nodes, node: &Node) -> ReplOffset {
    let timeout = nodes.settings.max_replica_lag.min(nodes.settings.response_timeout);
    match tokio::time::timeout(timeout, node.call_one(Request::command("ROLE"))).await {
        Ok(Ok(role)) => offset_in(role),
        Ok(Err(ServerError::NotSent { .. } | ServerError::Unauthorized { .. })) => ReplOffset::Disconnected,
        Ok(Err(ServerError::Refused { code, .. })) if !code.is_passing() => ReplOffset::Unknown,
        Ok(_) | Err(_) => ReplOffset::NoReply,
    }
}

/// Reads the offset from a reply to ROLE: `master, offset, …` or `slave, host, port, state,
/// offset`.
fn offset_in(role: Reply) -> ReplOffset {
    let Reply::Array(parts) = role else { return ReplOffset::Unknown };
    match (parts.first(), parts.get(1), parts.get(4)) {
        (Some(Reply::Bytes(role)), Some(Reply::Int(offset)), _) if &role[..] == b"master" => {
            ReplOffset::Primary(*offset)
        }
        (Some(Reply::Bytes(role)), _, Some(Reply::Int(offset))) if &role[..] == b"slave" => {
            ReplOffset::Replica(*offset)
        }
        _ => ReplOffset::Unknown,
    }
}

/// Returns whether a replica lags behind the offset `wanted`; `None` if nothing new is known.
///
/// Nothing new is known, for example, while the history of a new primary is too short for a
/// comparison. The replica's previous state is then kept, because a promotion does not mean that a
/// lagging replica has caught up.
fn is_behind(reported: &ReplOffset, at_primary: &ReplOffset, wanted: Option<i64>) -> Option<bool> {
    match *reported {
        ReplOffset::Replica(offset) => match wanted {
            Some(wanted) => Some(offset < wanted),
            None => (*at_primary == ReplOffset::Unknown).then_some(false),
        },
        ReplOffset::Unknown => Some(false),
        ReplOffset::NoReply => Some(true),
        ReplOffset::Primary(_) | ReplOffset::Disconnected => None,
    }
}

#[derive(Default)]
struct OffsetHistory {
    connection: Option<ConnectionId>,
    steps: VecDeque<(Instant, i64)>,
}

impl OffsetHistory {
    /// Adds an offset that was requested at `sent` and received at `received`.
    ///
    /// The primary had reached this offset by `received`, so the offset is stored with that time.
    /// The replicas were queried at `sent`, together with the primary. A replica may be behind by
    /// the permitted lag. So its offset is compared with the primary's offset at `sent - lag`.
    fn record(
        &mut self,
        connection: Option<ConnectionId>,
        (sent, received): (Instant, Instant),
        offset: i64,
        lag: Duration,
    ) {
        // The offsets of another server process are not comparable, so the history begins anew.
        // After a new connection to the same process, the history continues.
        let is_same = self.connection.as_ref().zip(connection.as_ref()).is_some_and(|(known, new)| {
            known.run_id == new.run_id && (!new.run_id.is_empty() || known.connection == new.connection)
        });
        if !is_same {
            self.steps.clear();
        }
        self.connection = connection;
        if self.steps.back().is_none_or(|(last, _)| received.since(*last) >= lag / PARTS) {
            self.steps.push_back((received, offset));
        }
        // Of the entries that are older than `lag`, only the newest is ever needed.
        while self.steps.get(1).is_some_and(|(at, _)| *at <= sent - lag) {
            self.steps.pop_front();
        }
    }

    /// Returns the latest offset that the primary is known to have had by `then`.
    fn before(&self, then: Instant) -> Option<i64> {
        self.steps.iter().rev().find(|(at, _)| *at <= then).map(|(_, offset)| *offset)
    }
}

/// The number of history entries within the permitted lag: 8. So a lagging replica may be detected
/// late, by up to an eighth of that lag.
const PARTS: u32 = 8;

#[cfg(test)]
mod tests {
    use super::*;

    const LAG: Duration = Duration::from_secs(1);

    fn at(millis: u64) -> Instant {
        Instant::MIN + Duration::from_secs(60) + Duration::from_millis(millis)
    }

    fn connection(run_id: &str, connection: u64) -> Option<ConnectionId> {
        Some(ConnectionId { run_id: run_id.into(), connection })
    }

    #[test]
    fn a_usable_replica_has_the_offset_of_the_primary_a_lag_ago() {
        let mut history = OffsetHistory::default();
        let wanted = |history: &OffsetHistory, sent: u64| history.before(at(sent) - LAG);
        history.record(connection("a", 1), (at(0), at(0)), 100, LAG);
        assert_eq!((wanted(&history, 999), wanted(&history, 1000)), (None, Some(100)));
        history.record(connection("a", 1), (at(900), at(900)), 5000, LAG);
        history.record(connection("a", 2), (at(1800), at(1800)), 6000, LAG);
        assert_eq!(
            (wanted(&history, 1800), wanted(&history, 1900), wanted(&history, 9000)),
            (Some(100), Some(5000), Some(6000))
        );
        let primary = ReplOffset::Primary(6000);
        assert_eq!(is_behind(&ReplOffset::Replica(4999), &primary, Some(5000)), Some(true));
        assert_eq!(is_behind(&ReplOffset::Replica(5000), &primary, Some(5000)), Some(false));
        // A restarted server (another `run_id`) counts its offsets anew.
        history.record(connection("b", 3), (at(2700), at(2700)), 10, LAG);
        assert_eq!((wanted(&history, 3600), wanted(&history, 3700)), (None, Some(10)));
    }

    #[test]
    fn queries_once_per_lag_always_have_an_offset_to_compare_with() {
        let mut history = OffsetHistory::default();
        // The replies take different times; the queries are sent once per lag.
        for (nth, took) in [30, 80, 20, 90, 40, 0, 70].into_iter().enumerate() {
            let sent = 1000 * u64::try_from(nth).unwrap();
            let offset = i64::try_from(sent).unwrap();
            history.record(connection("a", 1), (at(sent), at(sent + took)), offset, LAG);
            let wanted = history.before(at(sent) - LAG);
            assert!(nth < 2 || wanted.is_some_and(|wanted| wanted >= offset - 2000), "{nth}: {wanted:?}");
        }
    }

    #[test]
    fn a_new_primary_does_not_make_a_lagging_replica_usable() {
        let replica = ReplOffset::Replica(0);
        for primary in [ReplOffset::Primary(7), ReplOffset::NoReply, ReplOffset::Disconnected] {
            assert_eq!(is_behind(&replica, &primary, None), None, "{primary:?}");
        }
        // If the user is not allowed to query offsets, replicas cannot be compared, and none counts
        // as lagging.
        assert_eq!(is_behind(&replica, &ReplOffset::Unknown, None), Some(false));
    }

    #[test]
    fn frequent_queries_keep_only_a_few_offsets() {
        let mut history = OffsetHistory::default();
        for millis in (0..60_000).step_by(10) {
            history.record(connection("a", 1), (at(millis), at(millis)), i64::try_from(millis).unwrap(), LAG);
            assert!(history.steps.len() <= 10, "{:?}", history.steps);
            let wanted = history.before(at(millis) - LAG).map_or(0, |offset| u64::try_from(offset).unwrap());
            assert!(
                millis < 1000 || (millis.saturating_sub(1130)..=millis - 1000).contains(&wanted),
                "{millis} {wanted}"
            );
        }
    }

    #[test]
    fn a_role_contains_the_offset() {
        let text = |text: &'static str| Reply::Bytes(text.into());
        let primary = Reply::Array(vec![text("master"), Reply::Int(7), Reply::Array(Vec::new())]);
        let replica = vec![text("slave"), text("10.0.0.1"), Reply::Int(6379), text("connected"), Reply::Int(5)];
        assert_eq!(offset_in(primary), ReplOffset::Primary(7));
        assert_eq!(offset_in(Reply::Array(replica)), ReplOffset::Replica(5));
        assert_eq!(offset_in(Reply::Array(vec![text("sentinel")])), ReplOffset::Unknown);
        let primary = ReplOffset::Primary(1);
        assert_eq!(is_behind(&ReplOffset::Unknown, &primary, Some(1)), Some(false));
        assert_eq!(is_behind(&ReplOffset::NoReply, &primary, None), Some(true));
        assert_eq!(is_behind(&ReplOffset::Disconnected, &primary, Some(1)), None);
    }
}
