//! Election of a primary by the votes of the replicas. Each node reports its own role.
//!
//! If the link to a replica is cut, the primary still lists the replica as connected until
//! `repl-timeout` has passed. So a primary's list of its replicas proves little. A vote is a
//! replica's own report: from which primary it replicates, and the state of the link.

use std::cmp::Reverse;

use super::role::Role;
use crate::config::{Address, Network};
use crate::error::ServerError;

pub(super) type Answer<'a> = (&'a Address, Result<Role, ServerError>);

/// The answers of one refresh and the previous state.
pub(super) struct Election<'a> {
    pub(super) answers: &'a [Answer<'a>],
    pub(super) present: Option<&'a Address>,
    /// Whether the current primary answers, judged by its connections (`Node::answers`). Such a
    /// primary can still have missed the time limit of this refresh's query.
    pub(super) present_answers: bool,
    /// Whether the current primary has been silent for two thirds of `response_timeout`.
    pub(super) is_silent_for_long: bool,
    /// Whether the choice has been open for two thirds of `response_timeout`.
    pub(super) is_open_for_long: bool,
    pub(super) network: &'a Network,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Choice<'a> {
    Follow(&'a Address),
    /// Several nodes may be the primary, and nothing decides between them yet.
    Open,
    /// No node reports that it is the primary.
    Nothing,
}

/// How many replicas name a node as their primary: those whose link to that node is up
/// (`connected`), and all of them (`all`). Votes are compared by `connected` first, then by `all`.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Votes {
    connected: usize,
    all: usize,
}

impl<'a> Election<'a> {
    /// Chooses the node with the most votes as the primary. With equal votes, the current primary
    /// is kept.
    ///
    /// A silent current primary is a candidate until it has been silent for two thirds of
    /// `response_timeout` ("for long" below). After that it is a candidate only while a connected
    /// replica votes for it.
    ///
    /// The result is [`Choice::Open`] in two cases. In the first case, several nodes have the most
    /// votes, and the current primary is not among them. In the second case, there is no current
    /// primary, no node has a vote, and some nodes are silent.
    ///
    /// Once the choice has been open for long, one of the nodes with the most votes is chosen: the
    /// one that claims the most replicas. If several of them claim the same number of replicas, the
    /// first of them in the list is chosen.
    pub(super) fn choice(&self) -> Choice<'a> {
        let is_by_name = self.is_by_name();
        let candidates = self.answers.iter().enumerate().filter_map(|(at, (address, answer))| {
            let is_present = self.present == Some(*address);
            let claimed = match answer {
                Ok(Role::Primary { replicas }) => *replicas,
                Err(_) if is_present && self.stays_while_silent(address) => 0,
                _ => return None,
            };
            let votes = if is_by_name { self.votes(address) } else { Votes { connected: 0, all: claimed } };
            Some((votes, is_present, claimed, Reverse(at), *address))
        });
        let candidates: Vec<_> = candidates.collect();
        let says_so = self.answers.iter().any(|(_, answer)| matches!(answer, Ok(Role::Primary { .. })));
        let best =
            candidates.iter().max_by_key(|(votes, is_present, claimed, at, _)| (*votes, *is_present, *claimed, *at));
        let Some((votes, is_present, _, _, address)) = best.filter(|_| says_so || self.present_answers) else {
            return Choice::Nothing;
        };
        let is_tie = candidates.iter().filter(|(others, ..)| others == votes).count() > 1;
        let is_incomplete = self.present.is_none() && self.answers.iter().any(|(_, answer)| answer.is_err());
        let is_open = is_tie || *votes == Votes::default() && is_incomplete;
        if is_open && !is_present && !self.is_open_for_long { Choice::Open } else { Choice::Follow(address) }
    }

    pub(super) fn replicas_of(&self, primary: &Address) -> Vec<Address> {
        let is_by_name = self.is_by_name();
        let replicas = self.answers.iter().filter(|(_, answer)| match answer {
            // The replicas may name their primary by an address that is not in the list. If all of
            // them do, no vote can be assigned to a node (see `is_by_name`). Then each replica is
            // returned, because each can be a replica of `primary`.
            Ok(Role::ReplicaOf { primary: named, .. }) => !is_by_name || self.is_same(named, primary),
            _ => false,
        });
        replicas.map(|(address, _)| (*address).clone()).collect()
    }

    /// Returns whether the choice is made by the votes of the replicas.
    ///
    /// A replica may name its primary by a host name where the list has an IP address, or the
    /// reverse. If replicas answer and none of them names a listed node, their votes cannot be
    /// assigned to nodes. In that case the nodes are compared by the number of replicas that they
    /// claim.
    fn is_by_name(&self) -> bool {
        let mut named = self.named().peekable();
        let is_listed = |named: &Address| self.answers.iter().any(|(address, _)| self.is_same(named, address));
        named.peek().is_none() || named.any(|(named, _)| is_listed(named))
    }

    /// Returns whether a current primary that has not answered in this refresh is a candidate.
    fn stays_while_silent(&self, address: &Address) -> bool {
        // If no vote can be assigned to a listed node, each vote may be for the current primary,
        // and counts as one.
        let is_named = |named: &Address| !self.is_by_name() || self.is_same(named, address);
        let is_backed = self.named().any(|(named, is_connected)| is_connected && is_named(named));
        self.present_answers || !self.is_silent_for_long || is_backed
    }

    fn votes(&self, address: &Address) -> Votes {
        let mut votes = Votes::default();
        for (_, is_connected) in self.named().filter(|(named, _)| self.is_same(named, address)) {
            votes.all += 1;
            votes.connected += usize::from(is_connected);
        }
        votes
    }

    /// Returns the primary that each replica names, and whether the replica's link to it is up.
    fn named(&self) -> impl Iterator<Item = (&Address, bool)> {
        self.answers.iter().filter_map(|(_, answer)| match answer {
            Ok(Role::ReplicaOf { primary, is_connected }) => Some((primary, *is_connected)),
            _ => None,
        })
    }

    fn is_same(&self, one: &Address, other: &Address) -> bool {
        self.network.mapped(one) == self.network.mapped(other)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(host: &str) -> Address {
        Address::new(host, 6379)
    }

    fn primary(replicas: usize) -> Result<Role, ServerError> {
        Ok(Role::Primary { replicas })
    }

    fn copies(host: &str) -> Result<Role, ServerError> {
        Ok(Role::ReplicaOf { primary: at(host), is_connected: true })
    }

    fn cut_from(host: &str) -> Result<Role, ServerError> {
        Ok(Role::ReplicaOf { primary: at(host), is_connected: false })
    }

    fn silent() -> Result<Role, ServerError> {
        Err(ServerError::unknown("it does not answer in time"))
    }

    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    enum Present {
        None,
        Answers(&'static str),
        Silent(&'static str),
        SilentForLong(&'static str),
    }

    /// Returns the chosen node among `a`, `b`, and so on, for the given answers.
    fn followed(answers: &[Result<Role, ServerError>], present: Present, is_open_for_long: bool) -> String {
        let network = Network { address_map: vec![(at("inner-a"), at("a"))], ..Network::default() };
        let listed: Vec<_> = ["a", "b", "c", "d"].into_iter().take(answers.len()).map(at).collect();
        let answers: Vec<_> = listed.iter().zip(answers.iter().cloned()).collect();
        let name = match present {
            Present::None => None,
            Present::Answers(name) | Present::Silent(name) | Present::SilentForLong(name) => Some(at(name)),
        };
        let election = Election {
            answers: &answers,
            present: name.as_ref(),
            present_answers: matches!(present, Present::Answers(_)),
            is_silent_for_long: matches!(present, Present::SilentForLong(_)),
            is_open_for_long,
            network: &network,
        };
        match election.choice() {
            Choice::Follow(address) => address.host.clone(),
            Choice::Open => "open".into(),
            Choice::Nothing => "nothing".into(),
        }
    }

    #[track_caller]
    fn follows(answers: &[Result<Role, ServerError>], present: Present, expected: &str) {
        assert_eq!(followed(answers, present, false), expected, "{answers:?}, {present:?}");
    }

    #[test]
    fn the_only_node_that_claims_to_be_primary_is_followed() {
        follows(&[copies("b"), primary(1), copies("b")], Present::None, "b");
        follows(&[cut_from("z"), primary(0)], Present::None, "b");
        // The former primary has become a replica.
        follows(&[copies("b"), primary(0), cut_from("a")], Present::Answers("a"), "b");
        follows(&[silent(), copies("a"), copies("a")], Present::Answers("a"), "a");
        follows(&[silent(), copies("a"), copies("a")], Present::Silent("a"), "nothing");
        follows(&[silent(), copies("z"), silent()], Present::None, "nothing");
    }

    #[test]
    fn a_primary_that_stalls_is_not_left_for_a_node_without_votes() {
        let answers = [silent(), copies("a"), copies("a"), primary(0)];
        for present in [Present::Answers("a"), Present::Silent("a"), Present::SilentForLong("a")] {
            follows(&answers, present, "a");
        }
        // The replicas are about to reconnect to a primary that was restarted.
        let answers = [silent(), cut_from("a"), cut_from("a"), primary(0)];
        follows(&answers, Present::Silent("a"), "a");
        follows(&answers, Present::SilentForLong("a"), "d");
        // One replica was promoted, and the other one was reconfigured.
        follows(&[silent(), primary(0), copies("b")], Present::Silent("a"), "b");
    }

    #[test]
    fn in_a_group_of_two_a_silent_primary_is_left_after_a_clear_time() {
        follows(&[silent(), primary(0)], Present::Answers("a"), "a");
        follows(&[silent(), primary(0)], Present::Silent("a"), "a");
        follows(&[silent(), primary(0)], Present::SilentForLong("a"), "b");
    }

    #[test]
    fn the_claim_of_a_primary_that_is_cut_off_does_not_count() {
        let promoted = [primary(2), primary(0), copies("b")];
        follows(&promoted, Present::Answers("a"), "b");
        follows(&promoted, Present::None, "b");
        // The replica has not finished its initial synchronization.
        follows(&[primary(2), primary(0), cut_from("b")], Present::Answers("a"), "b");
        // Nodes `a` and `b` have one vote each. `b` wins, because only the link of its voter is up.
        follows(&[primary(2), primary(1), cut_from("a"), copies("b")], Present::Answers("a"), "b");
        // With equal votes, the current primary is kept.
        follows(&[primary(1), primary(9), copies("a"), copies("b")], Present::Answers("a"), "a");
    }

    #[test]
    fn a_tie_without_a_present_primary_is_left_open_for_a_while() {
        let tie = [primary(0), primary(1), primary(1)];
        follows(&tie, Present::None, "open");
        follows(&tie, Present::Answers("c"), "c");
        assert_eq!(followed(&tie, Present::None, true), "b");
        assert_eq!(followed(&[primary(0), primary(0)], Present::None, true), "a");
        // The node that has not answered yet may be the primary.
        let incomplete = [silent(), copies("a"), primary(0)];
        follows(&incomplete, Present::None, "open");
        assert_eq!(followed(&incomplete, Present::None, true), "c");
    }

    #[test]
    fn names_that_are_not_listed_count_by_the_address_map_or_not_at_all() {
        follows(&[primary(0), primary(9), copies("inner-a")], Present::Answers("b"), "a");
        // No vote names a listed node, so the claimed numbers of replicas are compared.
        follows(&[primary(0), primary(1), copies("z")], Present::Answers("a"), "b");
        follows(&[silent(), primary(1), copies("z")], Present::Silent("a"), "b");
        follows(&[silent(), primary(0), copies("z")], Present::SilentForLong("a"), "a");
    }

    #[test]
    fn replicas_of_another_primary_are_not_read_from() {
        let network = Network { address_map: vec![(at("inner-a"), at("a"))], ..Network::default() };
        let listed: Vec<_> = ["a", "b", "c", "d"].map(at).into();
        let replicas = |answers: [Result<Role, ServerError>; 4]| {
            let answers: Vec<_> = listed.iter().zip(answers).collect();
            let election = Election {
                answers: &answers,
                present: None,
                present_answers: false,
                is_silent_for_long: false,
                is_open_for_long: false,
                network: &network,
            };
            election.replicas_of(&at("a"))
        };
        assert_eq!(replicas([primary(1), primary(1), copies("inner-a"), copies("b")]), [at("c")]);
        assert_eq!(replicas([primary(1), silent(), copies("y"), copies("y")]), [at("c"), at("d")]);
    }
}
