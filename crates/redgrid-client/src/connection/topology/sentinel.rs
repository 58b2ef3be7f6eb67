//! A primary that is monitored by sentinels.
//!
//! The sentinels are queried at every `scan_interval`, after topology hints, and when one of them
//! publishes a new primary. Of several answers, the one with the latest election counts. A server
//! is used only if it confirms the role that the sentinels report.
//!
//! In a failover, planned or not, the leading sentinel promotes a replica at once. It names the new
//! primary up to a second later, after its next query of that server. So this client queries the
//! chosen replica itself, and uses that replica as soon as it reports that it is a primary. The
//! client returns to the former primary if the promotion was given up and most sentinels report
//! that primary as up. During the promotion, requests to the former primary are briefly suspended:
//! writes that it acknowledges after the promotion would be lost.

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
use self::events::SentinelEvents;
use self::report::{PrimaryReport, is_among_most, others_by, primary_by, replicas_by};
use super::nowhere::{kind_of, said_by};
use super::replicated::Replicated;
use crate::config::{Address, Sentinel};
use crate::connection::link::NodeRole;
use crate::connection::node::{Node, Nodes};
use crate::connection::trouble::Trouble;
use crate::connection::{DeploymentKind, Server};
use crate::error::ServerError;

/// How long to wait for the remaining sentinels once most have answered: 100 ms. A live sentinel
/// answers much sooner.
const LONGEST_WAIT: Duration = Duration::from_millis(100);

/// The longest pause after a subscription at a sentinel failed or was rejected: 2 s. A subscription
/// that fails without a reply costs a connection.
///
/// During the pause the sentinel is still queried at intervals.
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// A warning is logged after this number of consecutive refreshes that no sentinel answered: 5.
///
/// The warning is not repeated before a sentinel has answered.
const MOST_SILENT: u32 = 5;

/// Opens the topology, and starts to query the sentinels.
pub(super) fn open(sentinel: &Sentinel, nodes: Nodes) -> Arc<Replicated> {
    let replicated = Replicated::new(DeploymentKind::Sentinel, nodes.clone(), "no sentinel has answered yet");
    let asking = Nodes { entry: nodes.entry.at_sentinels(sentinel, &nodes.settings), ..nodes };
    let mut watch = Watch {
        replicated: Arc::clone(&replicated),
        name: sentinel.master_name.clone(),
        nodes: asking,
        seeds: sentinel.sentinels.clone(),
        sentinels: HashMap::new(),
        switched: Arc::default(),
        latest: 0,
        elected: None,
        held_back_for: None,
        silent: 0,
    };
    sentinel.sentinels.iter().for_each(|address| watch.ask(address));
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
    sentinels: HashMap<Address, Asked>,
    /// Notified when a sentinel publishes a new primary, or a replica chosen for promotion.
    switched: Arc<Notify>,
    /// The number of the latest election whose primary this client uses.
    latest: u64,
    /// The replica that will probably win the next election.
    elected: Option<Elected>,
    /// The last promotion for which requests were suspended: the number of the election before it,
    /// and the replica. Requests are suspended only once for the same promotion.
    held_back_for: Option<(u64, Address)>,
    silent: u32,
}

struct Asked {
    node: Arc<Node>,
    listening: JoinHandle<()>,
    lost_at: Option<Instant>,
}

impl Drop for Asked {
    fn drop(&mut self) {
        self.listening.abort();
    }
}

impl Watch {
    fn ask(&mut self, address: &Address) {
        if !self.sentinels.contains_key(address) {
            let node = self.nodes.open(address, NodeRole::Sentinel);
            let pause = self.nodes.settings.retry_delay.min(LONGEST_PAUSE);
            let events = SentinelEvents {
                node: Arc::clone(&node),
                name: self.name.clone(),
                replicated: Arc::clone(&self.replicated),
                switched: Arc::clone(&self.switched),
                pause,
            };
            let listening = tokio::spawn(events.listen());
            self.sentinels.insert(address.clone(), Asked { node, listening, lost_at: Some(Instant::now()) });
            self.tell_sentinels();
        }
    }

    fn tell_sentinels(&self) {
        self.replicated.set_sentinels(self.sentinels.values().map(|asked| Arc::clone(&asked.node)).collect());
    }

    async fn run(mut self) {
        loop {
            self.look().await;
            self.replicated.look_after_replicas_at_intervals();
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
                () = self.replicated.next_look(false) => {}
            }
        }
    }

    /// Follows the chosen replica (uses it as the primary) once it reports that it is a primary.
    /// Returns whether the replica is followed.
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
    fn long_gone(&mut self) -> Vec<Address> {
        let patience = self.nodes.settings.scan_interval * FORGOTTEN_AFTER;
        let mut gone = Vec::new();
        for (address, asked) in &mut self.sentinels {
            if asked.node.connection_id().borrow().is_some() {
                asked.lost_at = None;
            } else if asked.lost_at.get_or_insert_with(Instant::now).elapsed() > patience
                && !self.seeds.contains(address)
            {
                gone.push(address.clone());
            }
        }
        gone
    }

    async fn look(&mut self) {
        let long_gone = self.long_gone();
        let (name, patience) = (&*self.name.clone(), self.nodes.settings.connect_timeout);
        let asking = self.sentinels.values().map(|asked| async move {
            let told = tokio::time::timeout(patience, primary_by(&*asked.node, name)).await;
            (&asked.node, told.unwrap_or_else(|_| Err(ServerError::unknown("a sentinel did not answer in time"))))
        });
        let answers = self.until_clear(asking.collect()).await;
        let latest = answers.iter().filter_map(|(node, told)| Some((*node, told.as_ref().ok()?)));
        let Some((by, told)) = latest.max_by_key(|(_, told)| (told.epoch, told.elected.is_some())) else {
            let errors = || answers.iter().filter_map(|(node, told)| Some((&***node, told.as_ref().err()?)));
            let kind = kind_of(errors());
            let why = errors().next().map_or_else(|| "none is set".into(), |(node, error)| said_by(node, error));
            let why = format!("no sentinel reports the address of `{name}`: {why}");
            self.silent = self.silent.saturating_add(1);
            if self.silent == MOST_SILENT {
                tracing::warn!(why, "the sentinels have been silent for some time; a failover would not be noticed");
            }
            return self.replicated.unknown_because(Trouble { words: why, kind });
        };
        if self.silent >= MOST_SILENT {
            tracing::info!("a sentinel has answered again");
        }
        self.silent = 0;
        self.replicated.told();
        let said = answers.iter().filter(|(_, told)| told.is_ok()).count();
        let is_down = is_called_down(answers.iter().filter_map(|(_, told)| told.as_ref().ok()), &told.primary);
        let (by, told) = (Arc::clone(by), PrimaryReport { is_down, ..told.clone() });
        let all = self.sentinels.len();
        let is_news = is_followed(told.epoch, self.latest, said, all)
            || is_followed(told.epoch, self.latest, said, all - long_gone.len()) && is_among_most(&*by, name).await;
        if !is_news {
            tracing::debug!(by = %by.id(), "a sentinel reported the result of an older election");
            return;
        }
        self.latest = told.epoch;
        let leader = self.elected.as_ref().map(|elected| &elected.leader);
        let is_heard =
            leader.is_some_and(|leader| answers.iter().any(|(node, told)| told.is_ok() && Arc::ptr_eq(node, leader)));
        self.follow(&by, told, is_heard);
        if self.nodes.settings.uses_replicas()
            && let Ok((up, down)) = replicas_by(&*by, name).await
        {
            self.replicated.set_replicas(&up, &down);
        }
        // Configured sentinels stay even if the other sentinels do not name them: the last sentinel
        // that is left may be a configured one.
        if let Ok(others) = others_by(&*by, name).await {
            let wanted: HashSet<&Address> = others.iter().chain(&self.seeds).chain(self.known(&by)).collect();
            // A sentinel does not name itself. So every connected sentinel stays, under whatever
            // address it is known.
            let is_gone = |(known, asked): &(&Address, &Asked)| {
                !wanted.contains(known) && asked.node.connection_id().borrow().is_none()
            };
            let gone: Vec<_> = self.sentinels.iter().filter(is_gone).map(|(gone, _)| gone.clone()).collect();
            gone.iter().for_each(|gone| {
                self.sentinels.remove(gone);
            });
            self.tell_sentinels();
            others.iter().for_each(|other| self.ask(other));
        }
    }

    /// Follows the server that `by` names as the primary, or as the chosen replica.
    ///
    /// `is_heard` is true if the sentinel that leads the failover has answered this time.
    fn follow(&mut self, by: &Arc<Node>, told: PrimaryReport, is_heard: bool) {
        // A failover is over if its election was counted and the winner is named, or if the
        // failover was given up.
        let is_over =
            |elected: &mut Elected| elected.after != told.epoch || elected.is_given_up(told.elected.as_ref(), is_heard);
        let before = self.elected.take_if(is_over);
        let has_chosen = told.elected.is_some();
        if let Some(address) = told.elected
            && self.elected.as_ref().is_none_or(|elected| elected.address != address)
        {
            let held_back_for = Some((told.epoch, address.clone()));
            if self.held_back_for != held_back_for {
                self.held_back_for = held_back_for;
                self.replicated.hold_back();
            }
            let node = self.replicated.open(&address);
            self.elected = Some(Elected::new(address, node, told.epoch, by));
        } else if let Some(elected) = &mut self.elected {
            elected.is_backed = told.is_down || has_chosen;
            if has_chosen {
                elected.chosen_at = Instant::now();
            }
        }
        if self.follow_elected() {
            return;
        }
        let is_over = before.is_some() && self.elected.is_none();
        let opened = before.filter(|elected| elected.address == told.primary).map(|elected| elected.node);
        self.replicated.set_primary(told.primary, opened);
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
    /// - a sentinel reports a later election than the followed one, and a primary is known;
    ///
    /// - most sentinels have answered, and one of them has chosen a replica;
    ///
    /// - most sentinels have answered, and the others take too long (see [`LONGEST_WAIT`]): a
    ///   sentinel that died with the primary must not delay the result.
    async fn until_clear<T>(
        &self,
        mut asking: FuturesUnordered<impl Future<Output = (T, Result<PrimaryReport, ServerError>)>>,
    ) -> Vec<(T, Result<PrimaryReport, ServerError>)> {
        let (all, known) = (asking.len(), self.replicated.primary_address().is_some());
        let mut answers = Vec::with_capacity(all);
        let mut enough = pin!(std::future::pending().left_future());
        loop {
            tokio::select! {
                answer = asking.next() => match answer {
                    None => return answers,
                    Some(answer) => answers.push(answer),
                },
                () = &mut enough => return answers,
            }
            let said = answers.iter().filter_map(|(_, told)| told.as_ref().ok());
            let newest = said.clone().map(|told| told.epoch).max().unwrap_or_default();
            if known && newest > self.latest {
                return answers;
            }
            // A majority that reports only older elections is not sufficient: wait for the other
            // sentinels.
            let is_majority = said.clone().count() * 2 > all;
            if is_majority && said.clone().any(|told| told.epoch >= self.latest && told.elected.is_some()) {
                return answers;
            }
            if is_majority && newest >= self.latest {
                enough.set(tokio::time::sleep(LONGEST_WAIT.min(self.nodes.settings.retry_delay)).right_future());
            }
        }
    }

    fn known(&self, node: &Arc<Node>) -> Option<&Address> {
        self.sentinels.iter().find_map(|(address, asked)| Arc::ptr_eq(&asked.node, node).then_some(address))
    }
}

/// Returns whether most of the sentinels that answered regard this primary as down. A single
/// sentinel may be cut off from the primary.
fn is_called_down<'a>(answers: impl Iterator<Item = &'a PrimaryReport>, primary: &Address) -> bool {
    let (mut all, mut down) = (0, 0);
    for told in answers {
        all += 1;
        down += usize::from(told.is_down && told.primary == *primary);
    }
    down * 2 > all
}

/// Returns whether the client follows the election number `told`. The client has followed the
/// number `latest` before. Of `all` sentinels, `said` have answered, and `told` is the latest
/// election that they report.
///
/// An older election is usually reported by a sentinel that is cut off, perhaps together with the
/// former primary. But if most sentinels report only older elections, they have been set up anew,
/// and the client follows the latest of these. Sentinels that were replaced elsewhere are not
/// counted in `all` after a while.
fn is_followed(told: u64, latest: u64, said: usize, all: usize) -> bool {
    told >= latest || said * 2 > all
}

/// The number of scan intervals without a connection after which a sentinel can be forgotten,
/// unless it is configured: 10.
///
/// A restarted sentinel is back before that.
const FORGOTTEN_AFTER: u32 = 10;

#[cfg(test)]
mod tests {
    use super::{Address, PrimaryReport, is_called_down, is_followed};

    #[test]
    fn a_primary_is_down_if_a_majority_reports_it() {
        let one = Address::new("one", 1);
        let told =
            |primary: &Address, is_down| PrimaryReport { primary: primary.clone(), epoch: 1, elected: None, is_down };
        let is_down = |downs: &[bool]| {
            let answers: Vec<_> = downs.iter().map(|down| told(&one, *down)).collect();
            is_called_down(answers.iter(), &one)
        };
        assert!(is_down(&[true]) && is_down(&[true, true, false]));
        assert!(!is_down(&[true, false]) && !is_down(&[true, false, false]) && !is_down(&[]));
        let another = [told(&Address::new("two", 2), true)];
        assert!(!is_called_down(another.iter(), &one));
    }

    #[test]
    fn one_isolated_sentinel_does_not_bring_back_an_old_primary() {
        assert!(is_followed(4, 3, 1, 3) && is_followed(3, 3, 1, 3));
        assert!(!is_followed(2, 3, 1, 3) && !is_followed(2, 3, 2, 4));
        assert!(is_followed(0, 3, 2, 3) && is_followed(0, 3, 1, 1));
    }
}
