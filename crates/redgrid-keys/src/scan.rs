//! A scan over all keys, a page at a time.
//!
//! It scans the nodes one by one. Keys that may have moved between nodes meanwhile are scanned
//! again.
//!
//! SCAN returns each key that exists during the whole scan at least once, if the same server
//! process answers all pages. If another process answers, the scan of this node starts again.
//!
//! Keys move between nodes with their slots. The owners of all slots are therefore read before and
//! after a pass. A pass has returned all keys of slots that did not move. The next pass scans the
//! slots that moved or are being migrated: first at the source, then at the target. Passes are
//! repeated until each slot either did not move or was scanned in this order.

use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

use bytes::Bytes;
use futures_util::{StreamExt, TryStreamExt, stream};
use redgrid_core::author::ClientExt;
use redgrid_core::object::key_ownership::{Evidence, possible_owner};
use redgrid_core::{Client, ConnectionId, Primary, Request, ServerError};

use crate::KeysError;
use crate::bulk::MAX_IN_FLIGHT;
use crate::cluster_view::{ClusterView, MemberId};
use crate::glob::Glob;
use crate::key::{Key, Kind, Role};
use crate::key_ownership;

/// The maximum number of passes of a scan, and of restarts at a node.
const MAX_PASSES: u32 = 32;

/// The pause before the second pass, and the longest pause. Pauses grow, because a migration may
/// take milliseconds or minutes.
const PAUSES: (Duration, Duration) = (Duration::from_millis(20), Duration::from_millis(500));

/// The keys that a scan returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Include {
    /// Objects, without their companions.
    Objects,
    /// Every key.
    All,
}

/// The options of a scan.
#[derive(Clone, Debug)]
pub(crate) struct ScanOptions {
    pub(crate) include: Include,
    pub(crate) pattern: Option<Glob>,
    pub(crate) kind: Option<Kind>,
    pub(crate) page: u32,
    /// How many times its duration to rest after a page.
    pub(crate) rest: u32,
}

/// The position of a scan on a node.
struct NodeCursor {
    member: MemberId,
    primary: Primary,
    cursor: Bytes,
    process: Option<ServerProcess>,
    restarts: u32,
}

/// Identifies a server process. A cursor is valid only for the process that returned it.
#[derive(Clone, PartialEq, Eq, Debug)]
enum ServerProcess {
    RunId(std::sync::Arc<str>),
    /// The process at the other end of this connection, if its run id is unknown.
    Connection(u64),
}

impl ServerProcess {
    fn of(epoch: Option<ConnectionId>) -> Option<ServerProcess> {
        epoch.map(|epoch| match epoch.run_id.is_empty() {
            true => ServerProcess::Connection(epoch.connection),
            false => ServerProcess::RunId(epoch.run_id),
        })
    }
}

pub(crate) struct Scan {
    client: Client,
    options: ScanOptions,
    /// The view of the cluster at the start of the pass; `None` before the first pass.
    view: Option<ClusterView>,
    /// The slots of this pass; `None` means all, as in the first pass.
    slots: Option<BTreeSet<u16>>,
    passes: u32,
    /// The nodes of this pass that are not scanned yet.
    remaining: VecDeque<(MemberId, Primary)>,
    /// The nodes of this pass that were scanned.
    visited: BTreeSet<MemberId>,
    /// Whether this pass scans each node twice.
    visits_twice: bool,
    /// Whether a node was replaced before it was scanned completely.
    node_replaced: bool,
    current: Option<NodeCursor>,
}

impl Scan {
    pub(crate) fn new(client: &Client, options: ScanOptions) -> Scan {
        Scan {
            client: client.clone(),
            options,
            view: None,
            slots: None,
            passes: 0,
            remaining: VecDeque::new(),
            visited: BTreeSet::new(),
            visits_twice: false,
            node_replaced: false,
            current: None,
        }
    }

    /// Returns how many times its duration to rest after a page.
    pub(crate) fn rest(&self) -> u32 {
        self.options.rest
    }

    /// Returns the next page, which may be empty; `None` at the end.
    pub(crate) async fn next_page(&mut self) -> Result<Option<Vec<Key>>, KeysError> {
        loop {
            if let Some(current) = &mut self.current {
                match scan_page(&self.client, &self.options, current).await {
                    Ok(Some(keys)) => {
                        if &*current.cursor == b"0" {
                            self.current = None;
                        }
                        return self.filter_page(keys).await.map(Some);
                    }
                    Ok(None) if current.restarts <= MAX_PASSES => continue,
                    Ok(None) => return Err(KeysError::Moving { passes: current.restarts }),
                    Err(_) if !self.client.is_primary(&current.primary) => {
                        self.visited.remove(&current.member);
                        self.current = None;
                        self.node_replaced = true;
                    }
                    Err(source) => return Err(KeysError::of_read(source)),
                }
            } else if let Some((member, primary)) = self.remaining.pop_front() {
                self.visited.insert(member.clone());
                self.current = Some(NodeCursor { member, primary, cursor: "0".into(), process: None, restarts: 0 });
            } else if !self.next_pass().await? {
                return Ok(None);
            }
        }
    }

    /// Begins the next pass; returns false if nothing is left to scan.
    async fn next_pass(&mut self) -> Result<bool, KeysError> {
        let mut view = ClusterView::fetch(&self.client).await.map_err(KeysError::of_read)?;
        if let Some(before) = &self.view {
            let incomplete: BTreeSet<u16> = self.incomplete_slots(before, &view);
            // Outside a cluster there is one node without slots. It must be scanned again only if
            // it was replaced.
            let restarts_all = self.node_replaced && incomplete.is_empty();
            if incomplete.is_empty() && !restarts_all {
                return Ok(false);
            }
            if self.passes >= MAX_PASSES {
                return Err(KeysError::Moving { passes: self.passes });
            }
            let pause = (PAUSES.0 * self.passes * self.passes).min(PAUSES.1);
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = self.client.closing() => {}
            }
            view = ClusterView::fetch(&self.client).await.map_err(KeysError::of_read)?;
            self.slots = (!restarts_all).then_some(incomplete);
        }
        let owners = self.slots.as_ref().map(|slots| {
            let owners: Vec<_> = slots.iter().map(|slot| view.members_of(*slot)).collect();
            (owners.iter().any(|owners| owners.len() > 1), owners.into_iter().flatten().collect::<BTreeSet<_>>())
        });
        let (is_moving, members) = owners.unzip();
        let is_needed = |member: &MemberId| members.as_ref().is_none_or(|members| members.contains(member));
        let nodes: Vec<_> = view.primaries.iter().filter(|(member, _)| is_needed(member)).cloned().collect();
        // In two rounds, each node is scanned once after every other node.
        self.visits_twice = is_moving.unwrap_or(false);
        self.remaining = nodes.iter().cloned().chain(nodes.iter().filter(|_| self.visits_twice).cloned()).collect();
        self.visited.clear();
        self.node_replaced = false;
        self.passes += 1;
        self.view = Some(view);
        Ok(true)
    }

    /// Returns the slots in which the last pass may have missed keys.
    fn incomplete_slots(&self, before: &ClusterView, after: &ClusterView) -> BTreeSet<u16> {
        let is_incomplete = |slot: &u16| {
            if before.is_unclaimed(*slot) || after.is_unclaimed(*slot) {
                return true;
            }
            let owners: BTreeSet<_> = before.members_of(*slot).into_iter().chain(after.members_of(*slot)).collect();
            let all_visited = owners.iter().all(|member| self.visited.contains(member));
            !(all_visited && (owners.len() < 2 || owners.len() == 2 && self.visits_twice))
        };
        let slots =
            ClusterView::all_slots().filter(|slot| self.slots.as_ref().is_none_or(|slots| slots.contains(slot)));
        if before.has_slots() || after.has_slots() { slots.filter(is_incomplete).collect() } else { BTreeSet::new() }
    }

    /// Returns the keys of a page that are part of the result.
    async fn filter_page(&self, page: Vec<Bytes>) -> Result<Vec<Key>, KeysError> {
        let client = &self.client;
        let namespace = client.namespace().as_str();
        let page =
            page.into_iter().filter(|wire| self.slots.as_ref().is_none_or(|slots| slots.contains(&client.slot(wire))));
        let page: Vec<Bytes> = page.collect();
        let multimaps = self.multimaps(&page).await.map_err(KeysError::of_read)?;
        let found = stream::iter(page).map(async |wire| {
            let by_shape = || Key::from_wire(namespace, wire.clone(), None);
            let as_companion = possible_owner(&wire).and_then(|candidate| {
                Key::from_wire(namespace, wire.clone(), Some((candidate.object, Role::Companion)))
            });
            if ![by_shape(), as_companion].iter().flatten().any(|key| self.matches(key)) {
                return Ok(None);
            }
            let owner = key_ownership::find_owner(client, &wire, Some(&multimaps)).await?;
            Ok::<_, ServerError>(match owner {
                Some(owner) => Key::from_wire(namespace, wire, Some(owner)),
                None => by_shape(),
            })
        });
        let found: Vec<Option<Key>> = found.buffered(MAX_IN_FLIGHT).try_collect().await.map_err(KeysError::of_read)?;
        let is_included =
            |key: &Key| self.matches(key) && (self.options.include == Include::All || !key.is_companion());
        Ok(found.into_iter().flatten().filter(is_included).collect())
    }

    /// Returns the multimaps to which keys of this page may belong. Each candidate is checked once.
    async fn multimaps(&self, page: &[Bytes]) -> Result<BTreeSet<Bytes>, ServerError> {
        let candidates = page.iter().filter_map(|wire| possible_owner(wire));
        let candidates =
            candidates.filter(|candidate| candidate.evidence == Evidence::Multimap).map(|candidate| candidate.object);
        let objects: BTreeSet<Bytes> = candidates.collect();
        let checked = stream::iter(objects).map(async |object| {
            let is_multimap = key_ownership::is_multimap(&self.client, &object).await?;
            Ok(is_multimap.then_some(object))
        });
        let multimaps: Vec<Option<Bytes>> = checked.buffer_unordered(MAX_IN_FLIGHT).try_collect().await?;
        Ok(multimaps.into_iter().flatten().collect())
    }

    fn matches(&self, key: &Key) -> bool {
        self.options.pattern.as_ref().is_none_or(|pattern| pattern.matches(key.as_bytes()))
    }
}

/// Returns the next page of a node as the server returns it. Returns `None` if the scan of the node
/// must start again.
async fn scan_page(
    client: &Client,
    options: &ScanOptions,
    current: &mut NodeCursor,
) -> Result<Option<Vec<Bytes>>, ServerError> {
    let before = ServerProcess::of(current.primary.epoch());
    let mut request = Request::command("SCAN").arg(current.cursor.clone()).arg("COUNT").arg(options.page.to_string());
    if let Some(pattern) = server_pattern(client.namespace().as_str(), options.pattern.as_ref()) {
        request = request.arg("MATCH").arg(pattern);
    }
    if let Some(type_name) = options.kind.and_then(Kind::type_name) {
        request = request.arg("TYPE").arg(type_name);
    }
    let (next, page): (Bytes, Vec<Bytes>) = client.run_on(&current.primary, request.idempotent()).await?;
    let after = ServerProcess::of(current.primary.epoch());
    // If the process that answered the earlier pages is connected now, it also answered this page,
    // even if the connection was lost in between.
    let is_same = after.is_some() && after == current.process.clone().or(before);
    if !is_same {
        // If the node was not connected before its first page, this also counts as another process.
        (current.cursor, current.process) = ("0".into(), None);
        current.restarts += 1;
        return Ok(None);
    }
    (current.cursor, current.process) = (next, after);
    Ok(Some(page))
}

/// Returns the pattern for the server, which also matches the companions of matching names; `None`
/// for all keys.
///
/// The pattern lets the server skip most keys that do not match. The client filters the rest.
fn server_pattern(namespace: &str, pattern: Option<&Glob>) -> Option<Bytes> {
    let prefix = if namespace.is_empty() { Bytes::new() } else { Glob::literal(format!("{namespace}:").as_bytes()) };
    let pattern = pattern.map(Glob::as_bytes).filter(|pattern| ***pattern != b"*"[..]);
    if prefix.is_empty() && pattern.is_none() {
        return None;
    }
    let pattern = pattern.map_or(&b""[..], |pattern| &pattern[..]);
    Some([&b"*"[..], &prefix, pattern, b"*"].concat().into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_server_pattern_covers_all_returned_keys() {
        let pattern_for = |namespace, pattern: Option<&'static str>| {
            server_pattern(namespace, pattern.map(|pattern| Glob::new(pattern).unwrap()).as_ref())
        };
        assert_eq!((pattern_for("", None), pattern_for("", Some("*"))), (None, None));
        assert_eq!(pattern_for("", Some("a?")).unwrap(), "*a?*");
        assert_eq!(pattern_for("p*d", None).unwrap(), "*p\\*d:*");
        let pattern = Glob::new(pattern_for("prod", Some("a*")).unwrap()).unwrap();
        for key in ["prod:ab", "redisson_lock_queue:{prod:ab}", "{prod:ab}:timeout", "redgrid_fence:prod:a{b}:c"] {
            assert!(pattern.matches(key.as_bytes()), "{key}");
        }
    }
}
