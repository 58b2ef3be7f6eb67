//! Who has the keys of which slots, by the word of the nodes themselves: also which slots are on their way.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use redgrid_core::{Client, Code, DeploymentKind, Primary, Request, ServerError};

/// How many slots a cluster has.
const SLOTS: u16 = 16_384;

/// A node by the id that it has in the cluster.
pub(crate) type Member = Arc<str>;

/// A moment of a deployment.
pub(crate) struct View {
    pub(crate) primaries: Vec<(Member, Primary)>,
    /// Where each slot's keys may be: with its owner, and, while it moves, with who gets it. Empty outside a cluster.
    places: BTreeMap<u16, BTreeSet<Member>>,
    /// Slots of which nobody says that he has them, although somebody had, or of which it is not known where they go.
    unclaimed: BTreeSet<u16>,
    marks: Vec<Mark>,
}

/// A slot that comes or goes, as the node at one end has it. Nobody takes such a mark away where the other has gone meanwhile.
struct Mark {
    slot: u16,
    other: Member,
    /// Whether the other one is a primary, for all that the node knows.
    is_primary: bool,
}

/// What a node says of itself.
#[derive(Debug, PartialEq)]
enum Said {
    Primary(Member),
    Replica,
}

impl View {
    fn new() -> View {
        View { primaries: Vec::new(), places: BTreeMap::new(), unclaimed: BTreeSet::new(), marks: Vec::new() }
    }

    /// Asks every primary what it has.
    pub(crate) async fn of(client: &Client) -> Result<View, ServerError> {
        let primaries = client.primaries().await?;
        if client.topology().kind != DeploymentKind::Cluster {
            let member = |primary: Primary| (primary.id().0.clone(), primary);
            return Ok(View { primaries: primaries.into_iter().map(member).collect(), ..View::new() });
        }
        let words = futures_util::future::join_all(primaries.iter().map(async |primary| {
            client.run_on::<String>(primary, Request::command("CLUSTER").arg("NODES").idempotent()).await
        }));
        let mut view = View::new();
        for (primary, word) in primaries.iter().zip(words.await) {
            let member = match word {
                Ok(word) => match view.take(&word).ok_or_else(|| unread(&word))? {
                    Said::Primary(member) => member,
                    Said::Replica => {
                        client.doubt(primary);
                        continue;
                    }
                },
                // It is as the client knows it, then: of slots that are on their way nobody tells.
                Err(error) if error.code() == Some(Code::NoPermission) => view.take_known(primary),
                // Who takes its place is known soon.
                Err(_) if !client.is_primary(primary) => continue,
                Err(error) => return Err(error),
            };
            view.primaries.push((member, primary.clone()));
        }
        let all_told = view.primaries.len() == primaries.len();
        view.settle(primaries.iter().flat_map(Primary::slots).cloned().flatten(), all_told);
        Ok(view)
    }

    /// Takes the marks in of which the other end is there, when all have said what they have. `known` are the slots that the client
    /// knows somebody to have.
    fn settle(&mut self, known: impl Iterator<Item = u16>, all_told: bool) {
        for Mark { slot, other, is_primary } in std::mem::take(&mut self.marks) {
            if is_primary || self.primaries.iter().any(|(member, _)| *member == other) {
                self.put(slot, &other);
            } else if !all_told {
                self.unclaimed.insert(slot);
            }
        }
        let places = &self.places;
        self.unclaimed.extend(known.filter(|slot| !places.contains_key(slot)));
    }

    /// Whether it is not known who has a slot.
    pub(crate) fn is_unclaimed(&self, slot: u16) -> bool {
        self.unclaimed.contains(&slot)
    }

    /// Where the keys of a slot may be.
    pub(crate) fn places(&self, slot: u16) -> BTreeSet<Member> {
        self.places.get(&slot).cloned().unwrap_or_default()
    }

    /// Whether there are slots.
    pub(crate) fn is_of_slots(&self) -> bool {
        !self.places.is_empty() || !self.unclaimed.is_empty()
    }

    pub(crate) fn slots() -> std::ops::Range<u16> {
        0..SLOTS
    }

    fn put(&mut self, slot: u16, member: &Member) {
        self.places.entry(slot).or_default().insert(Arc::clone(member));
    }

    fn take_known(&mut self, primary: &Primary) -> Member {
        let member: Member = primary.id().0.clone();
        primary.slots().iter().cloned().flatten().for_each(|slot| self.put(slot, &member));
        member
    }

    /// Takes in what a node says of itself in CLUSTER NODES: its id, its slots, and those that come or go.
    fn take(&mut self, word: &str) -> Option<Said> {
        let nodes = || word.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
        let has = |node: &[&str], flag: &str| node.get(2).is_some_and(|flags| flags.split(',').any(|one| one == flag));
        let own = nodes().find(|node| has(node, "myself"))?;
        if has(&own, "slave") {
            return Some(Said::Replica);
        }
        let member: Member = (*own.first()?).into();
        for part in own.into_iter().skip(8) {
            let moving = part.strip_prefix('[').and_then(|part| part.strip_suffix(']'));
            if let Some(moving) = moving {
                let (slot, other) = moving.split_once("->-").or_else(|| moving.split_once("-<-"))?;
                let slot = slot.parse().ok()?;
                let there = nodes().find(|node| node.first() == Some(&other));
                let is_primary = there.is_some_and(|it| has(&it, "master") && !has(&it, "fail") && !has(&it, "noaddr"));
                self.put(slot, &member);
                self.marks.push(Mark { slot, other: other.into(), is_primary });
                continue;
            }
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            for slot in first.parse::<u16>().ok()?..=last.parse::<u16>().ok().filter(|last| *last < SLOTS)? {
                self.put(slot, &member);
            }
        }
        Some(Said::Primary(member))
    }
}

fn unread(word: &str) -> ServerError {
    ServerError::Decode { expected: "a node's line about itself", got: word.chars().take(120).collect() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_says_what_it_has_and_what_is_on_its_way() {
        let mut view = View::new();
        let word = "aa 127.0.0.1:1@2,host myself,master - 0 0 3 connected 0-2 7 [2->-bb] [9-<-cc]\n\
                    bb 127.0.0.1:3@4 master - 0 0 2 connected 8-10\n\
                    cc 127.0.0.1:5@6 master - 0 0 2 connected 11\n";
        assert_eq!(view.take(word), Some(Said::Primary("aa".into())));
        view.settle(std::iter::empty(), true);
        assert_eq!((places(&view, 0), places(&view, 2), places(&view, 7)), ("aa".into(), "aa bb".into(), "aa".into()));
        assert_eq!((places(&view, 8), places(&view, 9)), (String::new(), "aa cc".into()));
        for bad in ["", "aa b c", "aa b myself - 0 0 1 connected x", "aa b myself - 0 0 1 connected 1-70000"] {
            assert!(view.take(bad).is_none(), "{bad}");
        }
    }

    fn places(view: &View, slot: u16) -> String {
        view.places(slot).iter().map(|member| member.to_string()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn a_mark_whose_other_end_is_no_primary_any_more_is_none() {
        let word = "aa h:1@2 myself,master - 0 0 3 connected 0-9 [1->-bb] [2->-cc] [3->-dd] [4->-ee]\n\
                    bb h:3@4 slave ff 0 0 2 connected\n\
                    cc h:5@6 master,fail - 0 0 2 connected\n\
                    ee h:7@8 master,fail? - 0 0 2 connected\n";
        let mut view = View::new();
        view.take(word);
        view.settle(0..10, true);
        let told: Vec<_> = (1..=4).map(|slot| places(&view, slot)).collect();
        assert_eq!(told, ["aa", "aa", "aa", "aa ee"]);
        assert!((0..10).all(|slot| !view.is_unclaimed(slot)));
        // Where somebody has not told, it may be the one.
        view.take(word);
        view.settle(0..10, false);
        let unclaimed: Vec<_> = (0..10).filter(|slot| view.is_unclaimed(*slot)).collect();
        assert_eq!(unclaimed, [1, 2, 3]);
    }

    #[test]
    fn what_a_replica_says_is_nobodys_slots() {
        let mut view = View::new();
        let word = "aa h:1@2 myself,slave bb 0 0 3 connected\nbb h:3@4 master - 0 0 2 connected 0-9\n";
        assert_eq!(view.take(word), Some(Said::Replica));
        view.settle(0..10, false);
        assert!(view.is_of_slots() && (0..10).all(|slot| view.is_unclaimed(slot) && view.places(slot).is_empty()));
    }
}
