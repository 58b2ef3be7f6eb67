//! The search for locks, and the locks on the screen.

use std::collections::{BTreeMap, BTreeSet};
use std::pin::pin;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use futures_util::StreamExt;
use redgrid_inspect::{InspectError, LockKind, LockView, ObjectFilter, ObjectKind, ObjectView};
use tokio::time::Instant;

use super::Collector;
use super::viewers::Need;
use crate::board::{Found, MOST_LOCKS};
use crate::pages::Page;
use crate::snapshot::Reading;
use crate::text::{millis, now_ms};

/// A search rests 49 times as long as it has worked: it takes at most 2 % of a node's time.
pub(super) const REST: u32 = 49;

/// How often a search looks whether somebody still needs it.
pub(super) const CHECK_INTERVAL: Duration = Duration::from_millis(500);

/// Objects after which the progress is reported.
pub(super) const PROGRESS: usize = 100;

/// Shortest time from the beginning of one search to that of the next.
pub(super) const SEARCH_INTERVAL: Duration = Duration::from_secs(1);

/// Keys of a deployment from which on it is not searched without a request.
const MOST_KEYS: u64 = 1_000_000;

/// How often the objects on the screen are read.
pub(super) const SHOWN_INTERVAL: Duration = Duration::from_secs(1);

/// Objects that are read in one interval. One takes up to four commands.
pub(super) const MOST_READS: usize = 12;

/// The kinds that are listed as locks.
const LOCKS: [ObjectKind; 4] =
    [ObjectKind::Lock, ObjectKind::FairLock, ObjectKind::ReadWriteLock, ObjectKind::Election];

impl Collector {
    pub(super) async fn search_locks(&self) {
        while self.needed(Need::Search).await {
            let began = Instant::now();
            if self.is_too_large() {
                self.change(|snapshot| snapshot.sweep.is_too_large = true);
            } else {
                self.search_once().await;
            }
            let rest = SEARCH_INTERVAL.saturating_sub(began.elapsed());
            tokio::time::sleep(rest).await;
        }
    }

    pub(super) fn is_too_large(&self) -> bool {
        let snapshot = self.snapshot.borrow();
        snapshot.servers.get().is_some_and(|servers| servers.iter().map(|server| server.keys).sum::<u64>() > MOST_KEYS)
    }

    async fn search_once(&self) {
        let began = now_ms();
        let mut seen = BTreeMap::new();
        let mut is_cut = false;
        let mut objects = pin!(self.inspector.objects(&ObjectFilter::new().of_kinds(LOCKS).rest(REST)));
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
                Ok(Some(Ok(_))) if seen.len() >= MOST_LOCKS => is_cut = true,
                Ok(Some(Ok(object))) => {
                    let (name, found) = self.found(object);
                    seen.insert(name, found);
                    if seen.len() % PROGRESS == 0 {
                        self.change(|snapshot| snapshot.sweep.found = seen.len());
                    }
                }
            }
            if !self.viewers().need(Need::Search, Instant::now()) {
                return;
            }
        }
        let ended = now_ms();
        *self.found.lock().unwrap_or_else(PoisonError::into_inner) = seen;
        self.change(|snapshot| {
            snapshot.sweep.completed = Some((began, ended));
            snapshot.sweep.is_cut = is_cut;
            snapshot.sweep.is_too_large = false;
            snapshot.sweep.trouble = None;
        });
        self.update_board();
    }

    fn found(&self, object: ObjectView) -> (String, Found) {
        let now = now_ms();
        let found = Found {
            kind: object.kind,
            holder: object.holder,
            until: object.lifetime.map(|left| now.saturating_add(millis(left))),
            seen_at: now,
            holder_since: now,
        };
        let known = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        let found = found.after(known.get(&object.name));
        (object.name, found)
    }

    pub(super) async fn read_shown_locks(&self) {
        let mut last: Option<String> = None;
        while self.needed(Need::Shown).await {
            let is_of_locks = |page| matches!(page, Page::Locks | Page::Lock);
            let (pages, mut lists) = self.viewers().names(is_of_locks, Instant::now());
            // While the search is fast, it has read the locks of lists within the last seconds.
            if self.is_search_fast() {
                lists.clear();
            }
            self.forget_other_locks(&pages);
            let batch = next_batch(&pages, &lists, last.as_ref());
            if let Some(name) = batch.iter().rev().find(|name| !pages.contains(*name)) {
                last = Some(name.clone());
            }
            let read = batch.iter().map(async |name| (name.clone(), self.inspector.lock(name).await));
            let read = futures_util::future::join_all(read).await;
            let (of_pages, of_lists): (Vec<_>, Vec<_>) = read.into_iter().partition(|(name, _)| pages.contains(name));
            self.set_watched(of_pages);
            if !of_lists.is_empty() {
                self.set_found(of_lists);
                self.update_board();
            }
            let _ = tokio::time::timeout(SHOWN_INTERVAL, async {
                // A page of another lock was opened.
                self.came.notified().await;
            })
            .await;
        }
    }

    /// Records the locks of lock pages.
    fn set_watched(&self, read: Vec<(String, Result<LockView, InspectError>)>) {
        let now = now_ms();
        self.change(|snapshot| {
            let mut watched = (*snapshot.watched).clone();
            for (name, answer) in read {
                let reading = watched.entry(name).or_insert_with(Reading::default);
                match answer {
                    Ok(lock) => reading.answered(lock, now),
                    Err(error) => reading.failed(error.to_string(), now),
                }
            }
            snapshot.watched = Arc::new(watched);
        });
    }

    /// Records locks of lists, as if the search had found them. A failure leaves what was found.
    fn set_found(&self, read: Vec<(String, Result<LockView, InspectError>)>) {
        let now = now_ms();
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
            let new = Found { kind, holder, until, seen_at: now, holder_since: now }.after(found.get(&name));
            found.insert(name, new);
        }
    }

    fn is_search_fast(&self) -> bool {
        let completed = self.snapshot.borrow().sweep.completed;
        completed.is_some_and(|(_, ended)| now_ms().saturating_sub(ended) < 3_000)
    }

    fn forget_other_locks(&self, pages: &BTreeSet<String>) {
        self.change(|snapshot| {
            if snapshot.watched.keys().any(|name| !pages.contains(name)) {
                let mut watched = (*snapshot.watched).clone();
                watched.retain(|name, _| pages.contains(name));
                snapshot.watched = Arc::new(watched);
            }
        });
    }
}

/// Returns the objects to read: those with a page of their own, then those of lists after the last
/// one read, in a circle.
pub(super) fn next_batch<N: Ord + Clone>(pages: &BTreeSet<N>, lists: &BTreeSet<N>, last: Option<&N>) -> Vec<N> {
    let is_before = |name: &&N| last.is_some_and(|last| *name <= last);
    let after = lists.iter().skip_while(is_before);
    let before = lists.iter().take_while(is_before);
    let rest = after.chain(before).filter(|name| !pages.contains(*name));
    pages.iter().chain(rest).take(MOST_READS).cloned().collect()
}
