//! The search for locks, and the locks on the screen.

use std::collections::{BTreeMap, BTreeSet};
use std::pin::pin;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use futures_util::StreamExt;
use redgrid_inspect::{HolderView, InspectError, LockKind, LockView, Mode, ObjectFilter, ObjectKind, ObjectView};
use tokio::time::Instant;

use super::Collector;
use super::left::{forget_over, left_holds, over};
use super::turns::Turns;
use super::viewers::Need;
use crate::board::{Found, MOST_LOCKS};
use crate::holder_state::Seen;
use crate::object_name::{bytes_of, id_of};
use crate::pages::Page;
use crate::snapshot::{HolderKey, Living, Reading, Snapshot, Sweep};
use crate::text::{millis, now_ms};

/// A search rests 49 times as long as it has worked: it takes at most 2 % of a node's time.
pub(super) const REST: u32 = 49;

/// How often a search checks whether a viewer still needs it.
pub(super) const CHECK_INTERVAL: Duration = Duration::from_millis(500);

/// The number of objects after which the progress is reported.
pub(super) const PROGRESS: usize = 100;

/// Shortest time from the beginning of one search to that of the next.
pub(super) const SEARCH_INTERVAL: Duration = Duration::from_secs(1);

/// Keys of a deployment from which on it is not searched without a request.
const MOST_KEYS: u64 = 1_000_000;

/// How often the objects on the screen are read.
pub(super) const SHOWN_INTERVAL: Duration = Duration::from_secs(1);

/// Shortest time between two reads, while pages of further objects are opened: 250 ms.
pub(super) const SHORTEST_INTERVAL: Duration = Duration::from_millis(250);

/// Commands in one interval, with up to 19 primaries.
const MOST_COMMANDS: usize = 50;

/// Commands for one lock, apart from one at each primary.
const COMMANDS: usize = 6;

/// Names with more bytes than this are not listed. Names of redgrid have at most 1,024.
pub(super) const LONGEST_NAME: usize = 4_096;

/// The bytes of all names that a search keeps: 8 MiB. The name that exceeds it is the last one.
pub(super) const MOST_NAME_BYTES: usize = 8 << 20;

/// The kinds that are listed as locks.
const LOCKS: [ObjectKind; 4] =
    [ObjectKind::Lock, ObjectKind::FairLock, ObjectKind::ReadWriteLock, ObjectKind::Election];

impl Collector {
    pub(super) async fn search_locks(&self) {
        loop {
            let forget = |snapshot: &mut Snapshot| {
                self.found.lock().unwrap_or_else(PoisonError::into_inner).clear();
                forget_search(snapshot, false);
            };
            self.needed(Need::Search, forget).await;
            let began = Instant::now();
            match self.is_too_large() {
                // The number of keys is known soon.
                None => tokio::time::sleep(super::IDLE / 5).await,
                Some(true) => {
                    self.forget_found(true);
                    tokio::time::sleep(SEARCH_INTERVAL).await;
                }
                Some(false) => {
                    self.forget_found(false);
                    self.search_once().await;
                    tokio::time::sleep_until(began + SEARCH_INTERVAL).await;
                }
            }
        }
    }

    /// Returns whether the deployment is too large to be searched; `None` if the number of its keys
    /// was not read yet.
    pub(super) fn is_too_large(&self) -> Option<bool> {
        let snapshot = self.snapshot.borrow();
        match snapshot.keys {
            Some(keys) => Some(keys > MOST_KEYS),
            // A user without INFO may have any number of keys.
            None => snapshot.servers.is_known().then_some(true),
        }
    }

    /// Forgets what searches have found: it would stay for ever if there are no more searches.
    fn forget_found(&self, is_too_large: bool) {
        let is_known = self.snapshot.borrow().sweep.is_too_large == is_too_large;
        if is_known {
            return;
        }
        self.found.lock().unwrap_or_else(PoisonError::into_inner).clear();
        self.change_board(|snapshot| forget_search(snapshot, is_too_large));
    }

    async fn search_once(&self) {
        let began = now_ms();
        let mut seen = BTreeMap::new();
        let (mut is_cut, mut bytes) = (false, 0);
        let (filter, cost) = (ObjectFilter::new().of_kinds(LOCKS).rest(REST), self.cost.clone());
        let mut objects = pin!(self.inspector.objects_timed(&filter, move |worked| cost.add(worked)));
        while !is_cut {
            // The stream keeps its place if the time is over.
            match tokio::time::timeout(CHECK_INTERVAL, objects.next()).await {
                Err(_) => {}
                Ok(None) => break,
                Ok(Some(Err(error))) => {
                    let now = now_ms();
                    self.change(|snapshot| {
                        let since = snapshot.sweep.trouble.take().map_or(now, |(_, since)| since);
                        snapshot.sweep.trouble = Some((error.to_string(), since));
                    });
                    return;
                }
                Ok(Some(Ok(_))) if seen.len() >= MOST_LOCKS || bytes >= MOST_NAME_BYTES => is_cut = true,
                Ok(Some(Ok(object))) if object.name_bytes.len() > LONGEST_NAME => {}
                Ok(Some(Ok(object))) => {
                    let (name, found) = self.found(object);
                    bytes += name.len();
                    seen.insert(name, found);
                    if seen.len() % PROGRESS == 0 {
                        self.change(|snapshot| snapshot.sweep.found = seen.len());
                    }
                }
            }
            if !self.viewers().need(Need::Search, Instant::now()) || self.is_too_large() != Some(false) {
                return;
            }
        }
        let ended = now_ms();
        *self.found.lock().unwrap_or_else(PoisonError::into_inner) = seen;
        self.change_board(|snapshot| {
            let found = snapshot.sweep.found;
            snapshot.sweep = Sweep { completed: Some((began, ended)), is_cut, found, ..Sweep::default() };
        });
    }

    fn found(&self, object: ObjectView) -> (String, Found) {
        let now = now_ms();
        let until = object.lifetime.map(|left| now.saturating_add(millis(left)));
        let found = Found { kind: object.kind, holder: object.holder, seen: Seen::first(now, until) };
        let name = id_of(&object.name_bytes);
        let known = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        let found = found.after(known.get(&name), &self.snapshot.borrow().living);
        (name, found)
    }

    pub(super) async fn read_shown_locks(&self) {
        let mut turns = Turns::default();
        let is_of_locks = |page| matches!(page, Page::Locks | Page::Lock);
        loop {
            self.needed(Need::Shown, |snapshot| forget_watched(snapshot, &BTreeSet::new())).await;
            let began = Instant::now();
            let (pages, mut lists) = self.viewers().names(is_of_locks, began);
            let mut left = left_holds(&self.snapshot.borrow());
            // While the search is fast, it has read the locks of lists within the last seconds.
            if self.is_search_fast() {
                lists.clear();
                left.clear();
            }
            if self.snapshot.borrow().watched.keys().any(|name| !pages.contains(name)) {
                self.change(|snapshot| forget_watched(snapshot, &pages));
            }
            if self.snapshot.borrow().sweep.is_too_large {
                // No search removes them.
                let mut found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
                found.retain(|name, _| lists.contains(name) || left.contains_key(name));
            }
            let batch = turns.next(&pages, &lists, &left.keys().cloned().collect(), self.most_reads());
            let read =
                batch.iter().map(async |name| (name.clone(), self.inspector.lock_of_bytes(bytes_of(name)).await));
            let read = self.cost.of(futures_util::future::join_all(read)).await;
            let (of_pages, of_lists): (Vec<_>, Vec<_>) = read.into_iter().partition(|(name, _)| pages.contains(name));
            self.set_watched(of_pages);
            if !of_lists.is_empty() {
                let over = over(&left, &of_lists);
                self.set_found(of_lists);
                self.change_board(|snapshot| forget_over(snapshot, &over));
            }
            tokio::time::sleep_until(began + SHORTEST_INTERVAL).await;
            let _ = tokio::time::timeout_at(began + SHOWN_INTERVAL, self.is_lock_new.notified()).await;
        }
    }

    /// Returns how many locks are read in one interval.
    fn most_reads(&self) -> usize {
        most_reads(self.snapshot.borrow().servers.get().map_or(1, |servers| servers.len()))
    }

    /// Records the locks of lock pages.
    fn set_watched(&self, read: Vec<(String, Result<LockView, InspectError>)>) {
        if read.is_empty() {
            return;
        }
        let now = now_ms();
        self.change(|snapshot| {
            let watched = Arc::make_mut(&mut snapshot.watched);
            let holders = Arc::make_mut(&mut snapshot.watched_holders);
            for (name, answer) in read {
                let reading = watched.entry(name.clone()).or_insert_with(Reading::default);
                match answer {
                    Ok(lock) => {
                        let seen = seen_holders(holders.get(&name), &lock, now, &snapshot.living);
                        holders.insert(name, seen);
                        reading.answered(lock, now);
                    }
                    Err(error) => reading.failed(error.to_string(), now),
                }
            }
        });
    }

    /// Records locks of lists, as if the search had found them. A failure leaves what was found.
    fn set_found(&self, read: Vec<(String, Result<LockView, InspectError>)>) {
        let now = now_ms();
        let living = self.snapshot.borrow().living.clone();
        let mut found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        for (name, answer) in read {
            let Ok(lock) = answer else { continue };
            let kind = match lock.kind {
                LockKind::Plain => ObjectKind::Lock,
                LockKind::Fair => ObjectKind::FairLock,
                LockKind::ReadWrite => ObjectKind::ReadWriteLock,
                LockKind::Election => ObjectKind::Election,
                _ => {
                    found.remove(&name);
                    continue;
                }
            };
            let holder = match &lock.holders[..] {
                [holder] => holder.number.map(|number| (holder.client.clone(), number)),
                _ => None,
            };
            let until = lock.lease_left.map(|left| now.saturating_add(millis(left)));
            let new = Found { kind, holder, seen: Seen::first(now, until) }.after(found.get(&name), &living);
            found.insert(name, new);
        }
    }

    fn is_search_fast(&self) -> bool {
        let completed = self.snapshot.borrow().sweep.completed;
        completed.is_some_and(|(_, ended)| now_ms().saturating_sub(ended) < 3_000)
    }
}

/// Returns how many locks are read in one interval: as many as [`MOST_COMMANDS`] allow, but at
/// least two. So more than 19 primaries receive more commands: 12, and two for each primary.
fn most_reads(primaries: usize) -> usize {
    (MOST_COMMANDS / (COMMANDS + primaries)).max(2)
}

/// Forgets the last search, and the locks that it has found.
fn forget_search(snapshot: &mut Snapshot, is_too_large: bool) {
    snapshot.sweep = Sweep { is_too_large, ..Sweep::default() };
    snapshot.locks = Arc::default();
}

/// Forgets the locks that have no page any more.
fn forget_watched(snapshot: &mut Snapshot, pages: &BTreeSet<String>) {
    Arc::make_mut(&mut snapshot.watched).retain(|name, _| pages.contains(name));
    Arc::make_mut(&mut snapshot.watched_holders).retain(|name, _| pages.contains(name));
}

/// Returns what is known of the holders of a lock after a reading.
fn seen_holders(
    known: Option<&BTreeMap<HolderKey, Seen>>,
    lock: &LockView,
    now: u64,
    living: &Reading<Living>,
) -> BTreeMap<HolderKey, Seen> {
    let of_holder = |holder: &HolderView| {
        // The lease of a lock with several readers says nothing of one of them.
        let lease = if holder.mode == Mode::Read { holder.reader_lease_left } else { lock.lease_left };
        let until = lease.map(|left| now.saturating_add(millis(left)));
        let key = (holder.client.clone(), holder.number);
        let seen = match known.and_then(|known| known.get(&key)) {
            Some(before) => before.again(now, until, living.presence(&holder.client)),
            None => Seen::first(now, until),
        };
        (key, seen)
    };
    lock.holders.iter().map(of_holder).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_are_bounded_by_commands_and_are_two_at_least() {
        assert_eq!([1, 3, 19, 20, 100].map(most_reads), [7, 5, 2, 2, 2]);
        let commands = |primaries| most_reads(primaries) * (COMMANDS + primaries);
        assert!((1..=19).all(|primaries| commands(primaries) <= MOST_COMMANDS));
        assert_eq!(commands(100), 12 + 2 * 100);
    }
}
