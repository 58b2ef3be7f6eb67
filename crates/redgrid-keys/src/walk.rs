//! One walk over all keys, a page at a time: node by node, and again over what may have gone from one to another meanwhile.
//!
//! The server's SCAN tells at least once what is there all the time, as long as one process answers all pages: where another one
//! answers, its node is begun anew. Between nodes keys move with their slots, always from who has a slot to who gets it. So who
//! serves what is looked at before and after: what did not move was told; a slot that did, or was about to, is looked for again,
//! first where it came from and then where it went, until nothing moved that was not looked for in this order.

use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

use bytes::Bytes;
use futures_util::{StreamExt, TryStreamExt, stream};
use redgrid_core::object::belongings::{Proof, may_be_beside};
use redgrid_core::{Client, ConnectionId, Primary, Request, ServerError};

use crate::KeysError;
use crate::glob::Glob;
use crate::key::{Key, Kind, Role};
use crate::many::UNDER_WAY;
use crate::row;
use crate::view::{Member, View};

/// So often is looked again for what has moved, and so often is a node begun anew.
const MOST_PASSES: u32 = 32;

/// The pause before it is looked again, and that after many passes: a slot is on its way for a moment, or for long.
const PAUSES: (Duration, Duration) = (Duration::from_millis(20), Duration::from_millis(500));

/// What is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shown {
    /// Objects by their own keys.
    Objects,
    /// Every key.
    All,
}

/// What is looked for.
#[derive(Clone, Debug)]
pub(crate) struct Wanted {
    pub(crate) shown: Shown,
    pub(crate) pattern: Option<Glob>,
    pub(crate) kind: Option<Kind>,
    pub(crate) page: u32,
}

/// Where it is in a node.
struct At {
    member: Member,
    primary: Primary,
    cursor: Bytes,
    process: Option<Process>,
    restarts: u32,
}

/// What answers: a cursor of one says nothing to another.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Process {
    Of(std::sync::Arc<str>),
    /// It is not told which it is.
    Behind(u64),
}

impl Process {
    fn of(epoch: Option<ConnectionId>) -> Option<Process> {
        epoch.map(|epoch| match epoch.run_id.is_empty() {
            true => Process::Behind(epoch.connection),
            false => Process::Of(epoch.run_id),
        })
    }
}

pub(crate) struct Walk {
    client: Client,
    wanted: Wanted,
    /// How it was when the pass began; none before the first.
    before: Option<View>,
    /// The slots that this pass is about, all in the first.
    slots: Option<BTreeSet<u16>>,
    passes: u32,
    /// Nodes of this pass, those of them that it has been at, and whether it goes to each twice.
    left: VecDeque<(Member, Primary)>,
    been: BTreeSet<Member>,
    twice: bool,
    /// A node was replaced before it had told all.
    replaced: bool,
    at: Option<At>,
}

impl Walk {
    pub(crate) fn new(client: &Client, wanted: Wanted) -> Walk {
        Walk {
            client: client.clone(),
            wanted,
            before: None,
            slots: None,
            passes: 0,
            left: VecDeque::new(),
            been: BTreeSet::new(),
            twice: false,
            replaced: false,
            at: None,
        }
    }

    /// The next page; `None` when all is told. It may have nothing in it.
    pub(crate) async fn page(&mut self) -> Result<Option<Vec<Key>>, KeysError> {
        loop {
            if let Some(at) = &mut self.at {
                match ask(&self.client, &self.wanted, at).await {
                    Ok(Some(keys)) => {
                        if &*at.cursor == b"0" {
                            self.at = None;
                        }
                        return self.shown(keys).await.map(Some);
                    }
                    Ok(None) if at.restarts <= MOST_PASSES => continue,
                    Ok(None) => return Err(KeysError::Moving { passes: at.restarts }),
                    Err(_) if !self.client.is_primary(&at.primary) => {
                        self.been.remove(&at.member);
                        self.at = None;
                        self.replaced = true;
                    }
                    Err(source) => return Err(KeysError::of_read(source)),
                }
            } else if let Some((member, primary)) = self.left.pop_front() {
                self.been.insert(member.clone());
                self.at = Some(At { member, primary, cursor: "0".into(), process: None, restarts: 0 });
            } else if !self.next_pass().await? {
                return Ok(None);
            }
        }
    }

    /// Begins the next pass; false where nothing is left to look for.
    async fn next_pass(&mut self) -> Result<bool, KeysError> {
        let mut view = View::of(&self.client).await.map_err(KeysError::of_read)?;
        if let Some(before) = &self.before {
            let unsettled: BTreeSet<u16> = self.unsettled(before, &view);
            // Outside a cluster there is one node, and it is the same or not.
            let all_anew = self.replaced && unsettled.is_empty();
            if unsettled.is_empty() && !all_anew {
                return Ok(false);
            }
            if self.passes >= MOST_PASSES {
                return Err(KeysError::Moving { passes: self.passes });
            }
            let pause = (PAUSES.0 * self.passes * self.passes).min(PAUSES.1);
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = self.client.closing() => {}
            }
            view = View::of(&self.client).await.map_err(KeysError::of_read)?;
            self.slots = (!all_anew).then_some(unsettled);
        }
        let of_slots = self.slots.as_ref().map(|slots| {
            let places: Vec<_> = slots.iter().map(|slot| view.places(*slot)).collect();
            (places.iter().any(|places| places.len() > 1), places.into_iter().flatten().collect::<BTreeSet<_>>())
        });
        let (moving, members) = of_slots.unzip();
        let is_wanted = |member: &Member| members.as_ref().is_none_or(|members| members.contains(member));
        let nodes: Vec<_> = view.primaries.iter().filter(|(member, _)| is_wanted(member)).cloned().collect();
        // In this order every node comes behind every other one.
        self.twice = moving.unwrap_or(false);
        self.left = nodes.iter().cloned().chain(nodes.iter().filter(|_| self.twice).cloned()).collect();
        self.been.clear();
        self.replaced = false;
        self.passes += 1;
        self.before = Some(view);
        Ok(true)
    }

    /// The slots of which something may not have been told in a pass.
    fn unsettled(&self, before: &View, after: &View) -> BTreeSet<u16> {
        let is_unsettled = |slot: &u16| {
            if before.is_unclaimed(*slot) || after.is_unclaimed(*slot) {
                return true;
            }
            let places: BTreeSet<_> = before.places(*slot).into_iter().chain(after.places(*slot)).collect();
            let all_asked = places.iter().all(|member| self.been.contains(member));
            !(all_asked && (places.len() < 2 || places.len() == 2 && self.twice))
        };
        let slots = View::slots().filter(|slot| self.slots.as_ref().is_none_or(|slots| slots.contains(slot)));
        match before.is_of_slots() || after.is_of_slots() {
            true => slots.filter(is_unsettled).collect(),
            false => BTreeSet::new(),
        }
    }

    /// What of a page is to be shown.
    async fn shown(&self, page: Vec<Bytes>) -> Result<Vec<Key>, KeysError> {
        let client = &self.client;
        let namespace = client.namespace().as_str();
        let page =
            page.into_iter().filter(|wire| self.slots.as_ref().is_none_or(|slots| slots.contains(&client.slot(wire))));
        let page: Vec<Bytes> = page.collect();
        let multimaps = self.multimaps(&page).await.map_err(KeysError::of_read)?;
        let found = stream::iter(page).map(async |wire| {
            let own = || Key::found(namespace, wire.clone(), None);
            let theirs = may_be_beside(&wire)
                .and_then(|perhaps| Key::found(namespace, wire.clone(), Some((perhaps.object, Role::Goes))));
            if ![own(), theirs].iter().flatten().any(|key| self.matches(key)) {
                return Ok(None);
            }
            let looked = row::looked(client, &wire, Some(&multimaps)).await?;
            Ok::<_, ServerError>(match looked {
                Some(found) => Key::found(namespace, wire, Some(found)),
                None => own(),
            })
        });
        let found: Vec<Option<Key>> = found.buffered(UNDER_WAY).try_collect().await.map_err(KeysError::of_read)?;
        let is_shown = |key: &Key| self.matches(key) && (self.wanted.shown == Shown::All || !key.is_companion());
        Ok(found.into_iter().flatten().filter(is_shown).collect())
    }

    /// The multimaps whose values may be among these keys: each is looked at once for all of them.
    async fn multimaps(&self, page: &[Bytes]) -> Result<BTreeSet<Bytes>, ServerError> {
        let of_values = page.iter().filter_map(|wire| may_be_beside(wire));
        let of_values = of_values.filter(|perhaps| perhaps.proof == Proof::Multimap).map(|perhaps| perhaps.object);
        let objects: BTreeSet<Bytes> = of_values.collect();
        let looked = stream::iter(objects).map(async |object| {
            let is_multimap = row::is_multimap(&self.client, &object).await?;
            Ok(is_multimap.then_some(object))
        });
        let looked: Vec<Option<Bytes>> = looked.buffer_unordered(UNDER_WAY).try_collect().await?;
        Ok(looked.into_iter().flatten().collect())
    }

    fn matches(&self, key: &Key) -> bool {
        self.wanted.pattern.as_ref().is_none_or(|pattern| pattern.matches(key.as_bytes()))
    }
}

/// The next page of a node, as the server has it; `None` where the node is begun anew.
async fn ask(client: &Client, wanted: &Wanted, at: &mut At) -> Result<Option<Vec<Bytes>>, ServerError> {
    let before = Process::of(at.primary.epoch());
    let mut request = Request::command("SCAN").arg(at.cursor.clone()).arg("COUNT").arg(wanted.page.to_string());
    if let Some(pattern) = on_the_wire(client.namespace().as_str(), wanted.pattern.as_ref()) {
        request = request.arg("MATCH").arg(pattern);
    }
    if let Some(word) = wanted.kind.and_then(Kind::word) {
        request = request.arg("TYPE").arg(word);
    }
    let (next, page): (Bytes, Vec<Bytes>) = client.run_on(&at.primary, request.idempotent()).await?;
    let after = Process::of(at.primary.epoch());
    // The process that has answered so far and answers now did so in between, too, whether there was a connection all the time or not.
    let is_one = after.is_some() && after == at.process.clone().or(before);
    if !is_one {
        // The first page of whom was not connected counts as that of another, too.
        (at.cursor, at.process) = ("0".into(), None);
        at.restarts += 1;
        return Ok(None);
    }
    (at.cursor, at.process) = (next, after);
    Ok(Some(page))
}

/// What the server is to look for, whatever is beside the names that match: it is less than all, and more than what is shown.
fn on_the_wire(namespace: &str, pattern: Option<&Glob>) -> Option<Bytes> {
    let under = if namespace.is_empty() { Bytes::new() } else { Glob::literal(format!("{namespace}:").as_bytes()) };
    let pattern = pattern.map(Glob::as_bytes).filter(|pattern| ***pattern != b"*"[..]);
    if under.is_empty() && pattern.is_none() {
        return None;
    }
    let pattern = pattern.map_or(&b""[..], |pattern| &pattern[..]);
    Some([&b"*"[..], &under, pattern, b"*"].concat().into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_for_has_all_that_is_shown() {
        let wire = |namespace, pattern: Option<&'static str>| {
            on_the_wire(namespace, pattern.map(|pattern| Glob::new(pattern).unwrap()).as_ref())
        };
        assert_eq!((wire("", None), wire("", Some("*"))), (None, None));
        assert_eq!(wire("", Some("a?")).unwrap(), "*a?*");
        assert_eq!(wire("p*d", None).unwrap(), "*p\\*d:*");
        let under = Glob::new(wire("prod", Some("a*")).unwrap()).unwrap();
        for key in ["prod:ab", "redisson_lock_queue:{prod:ab}", "{prod:ab}:timeout", "redgrid_fence:prod:a{b}:c"] {
            assert!(under.matches(key.as_bytes()), "{key}");
        }
    }
}
