//! A primary that is monitored by sentinels.
//!
//! The sentinels are queried at every `scan_interval`, after topology hints, and when one of them
//! publishes a new primary. Of several answers, the client uses the one with the latest election. A
//! server is used only if it confirms the role that the sentinels report.
//!
//! In a failover, planned or not, the leading sentinel chooses a replica and promotes it at once.
//! But the leading sentinel reports the new primary only after another query of that replica, up to
//! a second later. So this client queries the chosen replica itself, and uses the replica as soon
//! as it reports the role of a primary. If the promotion was given up, the client returns to the
//! former primary, unless most sentinels that answer report the former primary as down. During the
//! promotion, requests to the former primary are briefly suspended: writes that the former primary
//! acknowledges after the promotion would be lost.

mod elected;
mod events;
mod report;

use std::collections::{HashMap, HashSet};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::FutureExt;
use futures_util::stream::{FuturesUnordered, StreamExt};
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use self::elected::Elected;
use self::events::listen;
use self::report::{PrimaryReport, is_among_most, others_by, primary_by, replicas_by};
use super::replicated::Replicated;
use super::unknown_primary::{kind_of, text_of};
use crate::config::{Address, Sentinel};
use crate::connection::link::NodeRole;
use crate::connection::node::{Node, Nodes};
use crate::connection::trouble::Trouble;
use crate::connection::{DeploymentKind, Server};
use crate::error::ServerError;

/// How long to wait for the remaining sentinels once most have answered: 100 ms. A live sentinel
/// answers much sooner.
const LONGEST_WAIT: Duration = Duration::from_millis(100);

/// The longest pause after a failed or rejected subscription at a sentinel: 2 s. The pause limits
/// the number of new connections: if a subscription fails without a reply, its connection is
/// replaced.
///
/// During the pause the sentinel is still queried at intervals.
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// A warning is logged after this number of consecutive refreshes in which no sentinel reported a
/// primary: 5.
///
/// The warning is not repeated until a sentinel has reported a primary again.
const MAX_FAILED_REFRESHES: u32 = 5;

/// Opens the topology, and starts to query the sentinels.
pub(super) fn open(sentinel: &Sentinel, nodes: Nodes) -> Arc<Replicated> {
    let replicated = Replicated::new(DeploymentKind::Sentinel, nodes.clone(), "no sentinel has answered yet");
    let sentinel_nodes = Nodes { entry: nodes.entry.at_sentinels(sentinel, &nodes.settings), ..nodes };
    let mut watch = Watch {
        replicated: Arc::clone(&replicated),
        name: sentinel.master_name.clone(),
        nodes: sentinel_nodes,
        seeds: sentinel.sentinels.clone(),
        sentinels: HashMap::new(),
        switched: Arc::default(),
        latest: 0,
        elected: None,
        held_back_for: None,
        failed_refreshes: 0,
    };
    sentinel.sentinels.iter().for_each(|address| watch.add_sentinel(address));
    replicated.watched_by(watch.run());
    replicated.compare_replicas();
    replicated
}

struct Watch {
    replicated: Arc<Replicated>,
    /// The sentinels' name for the primary.
    name: String,
    nodes: Nodes,
    seeds: Vec<Address>,
    sentinels: HashMap<Address, WatchedSentinel>,
    /// Notified when a sentinel publishes a new primary, or a replica chosen for promotion.
    switched: Arc<Notify>,
    /// The number of the election whose result this client used last.
    latest: u64,
    /// The replica that the leading sentinel has chosen as the next primary.
    elected: Option<Elected>,
    /// The last promotion for which requests were suspended: the number of the election before that
    /// promotion, and the chosen replica. Requests are suspended only once per promotion.
    held_back_for: Option<(u64, Address)>,
    failed_refreshes: u32,
}

struct WatchedSentinel {
    node: Arc<Node>,
    listening: JoinHandle<()>,
    lost_at: Option<Instant>,
}

impl Drop for WatchedSentinel {
    fn drop(&mut self) {
        self.listening.abort();
    }
}

impl Watch {
    fn add_sentinel(&mut self, address: &Address) {
        if !self.sentinels.contains_key(address) {
            let node = self.nodes.open(address, NodeRole::Sentinel);
            let pause = self.nodes.settings.retry_delay.min(LONGEST_PAUSE);
            let (replicated, switched) = (Arc::clone(&self.replicated), Arc::clone(&self.switched));
            let listening = tokio::spawn(listen(Arc::clone(&node), self.name.clone(), replicated, switched, pause));
            self.sentinels.insert(address.clone(), WatchedSentinel { node, listening, lost_at: Some(Instant::now()) });
            self.publish_sentinels();
        }
    }

    fn publish_sentinels(&self) {
        self.replicated.set_sentinels(self.sentinels.values().map(|sentinel| Arc::clone(&sentinel.node)).collect());
    }

    async fn run(mut self) {
        loop {
            self.refresh().await;
            self.replicated.check_replicas_at_intervals();
            let chosen = self.elected.as_ref().filter(|elected| elected.followed_at.is_none());
            let mut chosen = chosen.map(|elected| elected.node.connection_id());
            let promoted = async {
                let is_up = match &mut chosen {
                    Some(epoch) => epoch.wait_for(Option::is_some).await.is_ok(),
                    None => false,
                };
                if !is_up {
                    std::future::pending::<()>().await;
                }
            };
            tokio::select! {
                () = promoted => { self.follow_elected(); }
                () = self.switched.notified() => {}
                () = self.replicated.next_refresh(false) => {}
            }
        }
    }

    /// Follows the chosen replica if it reports that it is a primary. Following a server means
    /// using it as the primary. Returns whether the replica is followed.
    fn follow_elected(&mut self) -> bool {
        let Some(elected) = &mut self.elected else { return false };
        if elected.followed_at.is_none() && elected.is_primary() {
            let node = Arc::clone(&elected.node);
            self.replicated.set_primary(elected.address.clone(), Some(node));
            elected.followed_at = Some(Instant::now());
        }
        let is_followed = elected.is_followed();
        if elected.followed_at.is_some() && !is_followed {
            self.elected = None;
        }
        is_followed
    }

    /// Returns the sentinels that have had no connection for [`FORGOTTEN_AFTER`] scan intervals.
    /// Configured sentinels are not returned.
    fn long_unreachable(&mut self) -> Vec<Address> {
        let limit = self.nodes.settings.scan_interval * FORGOTTEN_AFTER;
        let mut unreachable = Vec::new();
        for (address, sentinel) in &mut self.sentinels {
            if sentinel.node.connection_id().borrow().is_some() {
                sentinel.lost_at = None;
            } else if sentinel.lost_at.get_or_insert_with(Instant::now).elapsed() > limit
                && !self.seeds.contains(address)
            {
                unreachable.push(address.clone());
            }
        }
        unreachable
    }

    async fn refresh(&mut self) {
        let long_unreachable = self.long_unreachable();
        let (name, timeout) = (&*self.name.clone(), self.nodes.settings.connect_timeout);
        let queries = self.sentinels.values().map(|sentinel| async move {
            let report = tokio::time::timeout(timeout, primary_by(&*sentinel.node, name)).await;
            (&sentinel.node, report.unwrap_or_else(|_| Err(ServerError::unknown("a sentinel did not answer in time"))))
        });
        let answers = self.until_clear(queries.collect()).await;
        let latest = answers.iter().filter_map(|(node, report)| Some((*node, report.as_ref().ok()?)));
        let Some((by, report)) = latest.max_by_key(|(_, report)| (report.epoch, report.elected.is_some())) else {
            let errors = || answers.iter().filter_map(|(node, report)| Some((&***node, report.as_ref().err()?)));
            let kind = kind_of(errors());
            let why = errors().next().map_or_else(|| "none is set".into(), |(node, error)| text_of(node, error));
            let why = format!("no sentinel reports the address of `{name}`: {why}");
            self.failed_refreshes = self.failed_refreshes.saturating_add(1);
            if self.failed_refreshes == MAX_FAILED_REFRESHES {
                tracing::warn!(why, "the sentinels have been silent for some time; a failover would not be noticed");
            }
            return self.replicated.unknown_because(Trouble { message: why, kind });
        };
        if self.failed_refreshes >= MAX_FAILED_REFRESHES {
            tracing::info!("a sentinel has answered again");
        }
        self.failed_refreshes = 0;
        self.replicated.clear_trouble();
        let answered = answers.iter().filter(|(_, report)| report.is_ok()).count();
        let is_down = is_called_down(answers.iter().filter_map(|(_, report)| report.as_ref().ok()), &report.primary);
        let (by, report) = (Arc::clone(by), PrimaryReport { is_down, ..report.clone() });
        let all = self.sentinels.len();
        let is_news = is_followed(report.epoch, self.latest, answered, all)
            || is_followed(report.epoch, self.latest, answered, all - long_unreachable.len())
                && is_among_most(&*by, name).await;
        if !is_news {
            tracing::debug!(by = %by.id(), "a sentinel reported the result of an older election");
            return;
        }
        self.latest = report.epoch;
        let leader = self.elected.as_ref().map(|elected| &elected.leader);
        let has_leader_answered = leader
            .is_some_and(|leader| answers.iter().any(|(node, report)| report.is_ok() && Arc::ptr_eq(node, leader)));
        self.follow(&by, report, has_leader_answered);
        if self.nodes.settings.uses_replicas()
            && let Ok((up, down)) = replicas_by(&*by, name).await
        {
            self.replicated.set_replicas(&up, &down);
        }
        // Configured sentinels are kept even if no other sentinel lists them: if all others fail, a
        // configured one may be the last that answers.
        if let Ok(others) = others_by(&*by, name).await {
            let wanted: HashSet<&Address> = others.iter().chain(&self.seeds).chain(self.known(&by)).collect();
            // A sentinel does not list itself, and may list others by addresses that this client
            // does not use. So every connected sentinel is kept.
            let is_obsolete = |(known, sentinel): &(&Address, &WatchedSentinel)| {
                !wanted.contains(known) && sentinel.node.connection_id().borrow().is_none()
            };
            let obsolete: Vec<_> =
                self.sentinels.iter().filter(is_obsolete).map(|(obsolete, _)| obsolete.clone()).collect();
            obsolete.iter().for_each(|obsolete| {
                self.sentinels.remove(obsolete);
            });
            self.publish_sentinels();
            others.iter().for_each(|other| self.add_sentinel(other));
        }
    }

    /// Follows the server that `by` names as the primary, or as the chosen replica.
    ///
    /// `has_leader_answered`: whether the leader of the failover has answered in this refresh.
    fn follow(&mut self, by: &Arc<Node>, report: PrimaryReport, has_leader_answered: bool) {
        // A failover is over once a new election number is reported: from then on the sentinels
        // also report the new primary. A failover that was given up is over, too.
        let is_over = |elected: &mut Elected| {
            elected.after != report.epoch || elected.is_given_up(report.elected.as_ref(), has_leader_answered)
        };
        let before = self.elected.take_if(is_over);
        let has_chosen = report.elected.is_some();
        if let Some(address) = report.elected
            && self.elected.as_ref().is_none_or(|elected| elected.address != address)
        {
            let held_back_for = Some((report.epoch, address.clone()));
            if self.held_back_for != held_back_for {
                self.held_back_for = held_back_for;
                self.replicated.hold_back();
            }
            self.elected = Some(Elected {
                node: self.replicated.open(&address),
                address,
                after: report.epoch,
                leader: Arc::clone(by),
                chosen_at: Instant::now(),
                followed_at: None,
                is_backed: true,
            });
        } else if let Some(elected) = &mut self.elected {
            elected.is_backed = report.is_down || has_chosen;
            if has_chosen {
                elected.chosen_at = Instant::now();
            }
        }
        if self.follow_elected() {
            return;
        }
        let is_over = before.is_some() && self.elected.is_none();
        let opened = before.filter(|elected| elected.address == report.primary).map(|elected| elected.node);
        self.replicated.set_primary(report.primary, opened);
        if is_over {
            self.replicated.go_on();
        }
    }

    /// Collects answers until the result is clear.
    ///
    /// The result is clear when one of these holds:
    ///
    /// - all sentinels have answered;
    ///
    /// - a sentinel reports a later election than the one whose result the client uses, and the
    ///   client already has a primary;
    ///
    /// - most sentinels have answered, and one of them has chosen a replica;
    ///
    /// - most sentinels have answered, and the others take too long (see [`LONGEST_WAIT`]): a
    ///   sentinel that died with the primary must not delay the result.
    async fn until_clear<T>(
        &self,
        mut queries: FuturesUnordered<impl Future<Output = (T, Result<PrimaryReport, ServerError>)>>,
    ) -> Vec<(T, Result<PrimaryReport, ServerError>)> {
        let (all, known) = (queries.len(), self.replicated.primary_address().is_some());
        let mut answers = Vec::with_capacity(all);
        let mut enough = pin!(std::future::pending().left_future());
        loop {
            tokio::select! {
                answer = queries.next() => match answer {
                    None => return answers,
                    Some(answer) => answers.push(answer),
                },
                () = &mut enough => return answers,
            }
            let reports = answers.iter().filter_map(|(_, report)| report.as_ref().ok());
            let newest = reports.clone().map(|report| report.epoch).max().unwrap_or_default();
            if known && newest > self.latest {
                return answers;
            }
            // A majority that reports only older elections is not sufficient: wait for the other
            // sentinels.
            let is_majority = reports.clone().count() * 2 > all;
            if is_majority && reports.clone().any(|report| report.epoch >= self.latest && report.elected.is_some()) {
                return answers;
            }
            if is_majority && newest >= self.latest {
                enough.set(tokio::time::sleep(LONGEST_WAIT.min(self.nodes.settings.retry_delay)).right_future());
            }
        }
    }

    fn known(&self, node: &Arc<Node>) -> Option<&Address> {
        self.sentinels.iter().find_map(|(address, sentinel)| Arc::ptr_eq(&sentinel.node, node).then_some(address))
    }
}

/// Returns whether most of the sentinels that answered regard this primary as down. A single
/// sentinel may be cut off from the primary.
fn is_called_down<'a>(answers: impl Iterator<Item = &'a PrimaryReport>, primary: &Address) -> bool {
    let (mut all, mut down) = (0, 0);
    for report in answers {
        all += 1;
        down += usize::from(report.is_down && report.primary == *primary);
    }
    down * 2 > all
}

/// Returns whether the client uses the result of the election with the number `reported`, which is
/// the latest one that sentinels report. The client last used the result of the election `latest`.
/// Of `all` sentinels, `answered` have answered.
///
/// An older election is usually reported by a sentinel that is cut off, perhaps together with the
/// former primary. But if most sentinels report only older elections, they have been set up anew,
/// and the client uses the result of the latest of these elections. `all` need not include a
/// sentinel that has been unreachable for [`FORGOTTEN_AFTER`] scan intervals: it was probably
/// replaced.
fn is_followed(reported: u64, latest: u64, answered: usize, all: usize) -> bool {
    reported >= latest || answered * 2 > all
}

/// A sentinel can be forgotten after this number of scan intervals without a connection: 10.
/// Configured sentinels are never forgotten.
///
/// A sentinel that restarts is connected again sooner.
const FORGOTTEN_AFTER: u32 = 10;

#[cfg(test)]
mod tests {
    use super::{Address, PrimaryReport, is_called_down, is_followed};

    #[test]
    fn a_primary_is_down_if_a_majority_reports_it() {
        let one = Address::new("one", 1);
        let report =
            |primary: &Address, is_down| PrimaryReport { primary: primary.clone(), epoch: 1, elected: None, is_down };
        let is_down = |downs: &[bool]| {
            let answers: Vec<_> = downs.iter().map(|down| report(&one, *down)).collect();
            is_called_down(answers.iter(), &one)
        };
        assert!(is_down(&[true]) && is_down(&[true, true, false]));
        assert!(!is_down(&[true, false]) && !is_down(&[true, false, false]) && !is_down(&[]));
        let another = [report(&Address::new("two", 2), true)];
        assert!(!is_called_down(another.iter(), &one));
    }

    #[test]
    fn one_isolated_sentinel_does_not_bring_back_an_old_primary() {
        assert!(is_followed(4, 3, 1, 3) && is_followed(3, 3, 1, 3));
        assert!(!is_followed(2, 3, 1, 3) && !is_followed(2, 3, 2, 4));
        assert!(is_followed(0, 3, 2, 3) && is_followed(0, 3, 1, 1));
    }
}
