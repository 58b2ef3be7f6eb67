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
}

impl View {
    /// Asks every primary what it has.
    pub(crate) async fn of(client: &Client) -> Result<View, ServerError> {
        let primaries = client.primaries().await?;
        if client.topology().kind != DeploymentKind::Cluster {
            let member = |primary: Primary| (primary.id().0.clone(), primary);
            return Ok(View { primaries: primaries.into_iter().map(member).collect(), places: BTreeMap::new() });
        }
        let words = futures_util::future::join_all(primaries.iter().map(async |primary| {
            client.run_on::<String>(primary, Request::command("CLUSTER").arg("NODES").idempotent()).await
        }));
        let mut view = View { primaries: Vec::new(), places: BTreeMap::new() };
        for (primary, word) in primaries.iter().zip(words.await) {
            let member = match word {
                Ok(word) => view.take(&word).ok_or_else(|| unread(&word))?,
                // It is as the client knows it, then: of slots that are on their way nobody tells.
                Err(error) if error.code() == Some(Code::NoPermission) => view.take_known(primary),
                // Who takes its place is known soon.
                Err(_) if !client.is_primary(primary) => continue,
                Err(error) => return Err(error),
            };
            view.primaries.push((member, primary.clone()));
        }
        Ok(view)
    }

    /// Where the keys of a slot may be.
    pub(crate) fn places(&self, slot: u16) -> BTreeSet<Member> {
        self.places.get(&slot).cloned().unwrap_or_default()
    }

    /// Whether there are slots.
    pub(crate) fn is_of_slots(&self) -> bool {
        !self.places.is_empty()
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
    fn take(&mut self, word: &str) -> Option<Member> {
        let own = word.lines().find(|line| line.split(' ').nth(2).is_some_and(|flags| flags.contains("myself")))?;
        let member: Member = own.split(' ').next()?.into();
        for part in own.split_whitespace().skip(8) {
            let moving = part.strip_prefix('[').and_then(|part| part.strip_suffix(']'));
            if let Some(moving) = moving {
                let (slot, other) = moving.split_once("->-").or_else(|| moving.split_once("-<-"))?;
                let slot = slot.parse().ok()?;
                self.put(slot, &member);
                self.put(slot, &other.into());
                continue;
            }
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            for slot in first.parse::<u16>().ok()?..=last.parse::<u16>().ok().filter(|last| *last < SLOTS)? {
                self.put(slot, &member);
            }
        }
        Some(member)
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
        let mut view = View { primaries: Vec::new(), places: BTreeMap::new() };
        let word = "aa 127.0.0.1:1@2,host myself,master - 0 0 3 connected 0-2 7 [2->-bb] [9-<-cc]\n\
                    bb 127.0.0.1:3@4 master - 0 0 2 connected 8-10\n";
        assert_eq!(view.take(word).as_deref(), Some("aa"));
        let places = |slot| view.places(slot).iter().map(|member| member.to_string()).collect::<Vec<_>>();
        assert_eq!(
            (places(0), places(2), places(7)),
            (vec!["aa".into()], vec!["aa".into(), "bb".into()], vec!["aa".into()])
        );
        assert_eq!((places(8), places(9)), (Vec::<String>::new(), vec!["aa".into(), "cc".into()]));
        for bad in ["", "aa b c", "aa b myself - 0 0 1 connected x", "aa b myself - 0 0 1 connected 1-70000"] {
            assert!(view.take(bad).is_none(), "{bad}");
        }
    }
}
