//! The search for queues, synchronizers, limiters, streams and caches, and the objects on the
//! screen.

use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::future::join_all;
use redgrid_inspect::{InspectError, ObjectFilter, ObjectKind, ObjectView};
use tokio::time::Instant;

use super::Collector;
use super::locks::{
    CHECK_INTERVAL, LONGEST_NAME, MOST_NAME_BYTES, PROGRESS, REST, SEARCH_INTERVAL, SHORTEST_INTERVAL, SHOWN_INTERVAL,
};
use super::turns::Turns;
use super::viewers::{Need, ObjectNames};
use crate::listed::{Detail, Group, Listed};
use crate::object_name::{bytes_of, id_of};
use crate::snapshot::{Reading, Snapshot, Sweep};
use crate::text::now_ms;

/// The most objects that are read in one interval. One takes up to four commands.
const MOST_READS: usize = 12;

/// The most objects of a group that are listed.
const MOST_OBJECTS: usize = 10_000;

/// The data of an object is kept for this long after the object was last on a screen.
const KEPT_MS: u64 = 30_000;

/// A page that is requested reads an object again if it was read longer ago than this.
const FRESH_MS: u64 = 2_000;

/// A stream that keeps the server busy for this long is slow: the server reads its first and its
/// last entry, which may be large.
const SLOW: Duration = Duration::from_millis(100);

/// How often a slow stream is read.
const SLOW_INTERVAL: Duration = Duration::from_secs(10);

/// The slow streams, and when each is read again.
#[derive(Default)]
struct SlowStreams(BTreeMap<(Group, String), Instant>);

impl SlowStreams {
    /// Remembers the slow ones of the streams that were read at once, each in this time.
    ///
    /// A reply may have waited for the replies before it, and for the way to the server. So a read
    /// counts from the end of the one before it, and the first one without the round trip.
    fn note(&mut self, mut read: Vec<((Group, String), Duration)>, round_trip: Duration, now: Instant) {
        self.0.retain(|_, again_at| now < *again_at);
        read.sort_by_key(|(_, took)| *took);
        let mut before = round_trip;
        for ((group, name), took) in read {
            if group == Group::Streams && took.saturating_sub(before) >= SLOW {
                self.0.insert((group, name), now + SLOW_INTERVAL);
            }
            before = before.max(took);
        }
    }

    /// Returns the objects that may be read now.
    fn without(&self, objects: &ObjectNames, now: Instant) -> ObjectNames {
        let rests = |object: &(Group, String)| self.0.get(object).is_some_and(|again_at| now < *again_at);
        objects.iter().filter(|object| !rests(object)).cloned().collect()
    }
}

/// The objects of a group that a search has found.
#[derive(Default)]
struct Found {
    names: BTreeMap<String, ObjectKind>,
    /// The bytes of the names.
    bytes: usize,
    /// Whether there are more.
    is_cut: bool,
}

impl Found {
    /// Adds an object. Returns whether it is kept.
    fn add(&mut self, name: String, kind: ObjectKind) -> bool {
        self.is_cut |= self.names.len() >= MOST_OBJECTS || self.bytes >= MOST_NAME_BYTES;
        if !self.is_cut {
            self.bytes += name.len();
            self.names.insert(name, kind);
        }
        !self.is_cut
    }
}

impl Collector {
    pub(super) async fn search_listed(&self) {
        loop {
            self.needed(Need::Listed, |snapshot| forget_searches(snapshot, &[])).await;
            let began = Instant::now();
            let groups = self.viewers().groups(began);
            if self.is_other_known(&groups) {
                self.change(|snapshot| forget_searches(snapshot, &groups));
            }
            match self.is_too_large() {
                // The number of keys is known soon.
                None => tokio::time::sleep(super::IDLE / 5).await,
                Some(true) => {
                    self.forget_found_objects(&groups);
                    tokio::time::sleep_until(began + SEARCH_INTERVAL).await;
                }
                Some(false) => {
                    self.search_groups(&groups).await;
                    tokio::time::sleep_until(began + SEARCH_INTERVAL).await;
                }
            }
        }
    }

    /// Returns whether a search of a group other than these is kept.
    fn is_other_known(&self, groups: &[Group]) -> bool {
        let snapshot = self.snapshot.borrow();
        let mut others = Group::ALL.into_iter().filter(|group| !groups.contains(group));
        others.any(|group| snapshot.list(group).is_searched())
    }

    /// Forgets all results of searches: the deployment is too large, so no search runs any more.
    fn forget_found_objects(&self, groups: &[Group]) {
        let is_known = groups.iter().all(|group| self.snapshot.borrow().list(*group).sweep.is_too_large);
        if !is_known {
            self.change_lists(groups, |list| {
                list.sweep = Sweep { is_too_large: true, ..Sweep::default() };
                list.names = Arc::default();
            });
        }
    }

    async fn search_groups(&self, groups: &[Group]) {
        let began = now_ms();
        let mut found: BTreeMap<Group, Found> = groups.iter().map(|group| (*group, Found::default())).collect();
        let kinds = ObjectKind::ALL.into_iter().filter(|kind| groups.iter().any(|group| group.has(*kind)));
        let (filter, cost) = (ObjectFilter::new().of_kinds(kinds).rest(REST), self.cost.clone());
        let mut objects = pin!(self.inspector.objects_timed(&filter, move |worked| cost.add(worked)));
        loop {
            // After a timeout, the next call continues the stream at the same position.
            match tokio::time::timeout(CHECK_INTERVAL, objects.next()).await {
                Err(_) => {}
                Ok(None) => break,
                Ok(Some(Err(error))) => return self.search_failed(groups, &error),
                Ok(Some(Ok(object))) if object.name_bytes.len() > LONGEST_NAME => {}
                Ok(Some(Ok(object))) => self.add(&object, &mut found),
            }
            let needed = self.viewers().groups(Instant::now());
            // A page of another group was opened: the next search finds both.
            let is_other_needed = needed.is_empty() || needed.iter().any(|group| !groups.contains(group));
            if is_other_needed || self.is_too_large() != Some(false) {
                return;
            }
        }
        let ended = now_ms();
        self.change(|snapshot| {
            for (group, Found { names, is_cut, .. }) in found {
                let list = &mut snapshot.listed[group as usize];
                list.sweep.completed = Some((began, ended));
                list.sweep.is_cut = is_cut;
                list.sweep.is_too_large = false;
                list.sweep.trouble = None;
                if *list.names != names {
                    list.names = Arc::new(names);
                }
            }
        });
    }

    /// Adds an object to those that were found.
    fn add(&self, object: &ObjectView, found: &mut BTreeMap<Group, Found>) {
        let Some((group, found)) = found.iter_mut().find(|(group, _)| group.has(object.kind)) else { return };
        if !found.add(id_of(&object.name_bytes), object.kind) {
            return;
        }
        let names = &found.names;
        if names.len() <= PROGRESS || names.len() % PROGRESS == 0 {
            self.change_lists(&[*group], |list| {
                list.sweep.found = names.len();
                // The first search of a large deployment takes minutes.
                if list.sweep.completed.is_none() {
                    list.names = Arc::new(names.clone());
                }
            });
        }
    }

    fn search_failed(&self, groups: &[Group], error: &InspectError) {
        let now = now_ms();
        self.change_lists(groups, |list| {
            let since = list.sweep.trouble.take().map_or(now, |(_, since)| since);
            list.sweep.trouble = Some((error.to_string(), since));
        });
    }

    fn change_lists(&self, groups: &[Group], mut change: impl FnMut(&mut Listed)) {
        self.change(|snapshot| {
            for group in groups {
                change(&mut snapshot.listed[*group as usize]);
            }
        });
    }

    pub(super) async fn read_listed(&self) {
        let (mut turns, mut slow) = (Turns::default(), SlowStreams::default());
        loop {
            self.needed(Need::ListedShown, forget_all_details).await;
            let began = Instant::now();
            let (pages, lists) = self.viewers().listed(began);
            self.forget_details(&pages, &lists);
            let (pages, lists) = (slow.without(&pages, began), slow.without(&lists, began));
            let batch = turns.next(&pages, &lists, &ObjectNames::new(), MOST_READS);
            let took = self.read_details(&batch).await;
            slow.note(batch.into_iter().zip(took).collect(), self.longest_round_trip(), Instant::now());
            // A page of another object may be opened meanwhile.
            tokio::time::sleep_until(began + SHORTEST_INTERVAL).await;
            let _ = tokio::time::timeout_at(began + SHOWN_INTERVAL, self.is_object_new.notified()).await;
        }
    }

    /// Reads objects of a page that is requested, unless they were read a moment ago; within
    /// `limit`.
    pub(crate) async fn refresh(&self, group: Group, names: Vec<String>, limit: Duration) {
        let now = now_ms();
        let list = self.snapshot.borrow().list(group).clone();
        let is_old = |name: &String| {
            let read_at = list.read.get(name).and_then(|reading| reading.read_at());
            read_at.is_none_or(|at| now.saturating_sub(at) > FRESH_MS)
        };
        let old: Vec<(Group, String)> = names.into_iter().filter(is_old).map(|name| (group, name)).collect();
        let read = async {
            for part in old.chunks(MOST_READS) {
                self.read_details(part).await;
            }
        };
        // Objects that are not read in time are read for the next request.
        let _ = tokio::time::timeout(limit, read).await;
    }

    /// Reads objects. Returns how long each took.
    async fn read_details(&self, batch: &[(Group, String)]) -> Vec<Duration> {
        let read = batch.iter().map(async |(group, name)| {
            let began = Instant::now();
            let detail = self.detail(*group, name).await;
            ((*group, name.clone(), detail), began.elapsed())
        });
        let (read, took): (Vec<_>, Vec<_>) = self.cost.of(join_all(read)).await.into_iter().unzip();
        if read.is_empty() {
            return took;
        }
        let now = now_ms();
        self.change(|snapshot| {
            for (group, name, answer) in read {
                let list = &mut snapshot.listed[group as usize];
                let reading = Arc::make_mut(&mut list.read).entry(name).or_default();
                match answer {
                    Ok(detail) => reading.answered(detail, now),
                    Err(error) => reading.failed(error.to_string(), now),
                }
            }
        });
        took
    }

    /// Returns the longest round trip of the last pings: that of the farthest node.
    fn longest_round_trip(&self) -> Duration {
        let snapshot = self.snapshot.borrow();
        let nodes = snapshot.health.get().map_or(&[][..], |health| &health.nodes);
        nodes.iter().filter_map(|node| node.round_trip).max().unwrap_or_default()
    }

    async fn detail(&self, group: Group, name: &str) -> Result<Detail, InspectError> {
        let inspector = &self.inspector;
        let kind = self.snapshot.borrow().list(group).names.get(name).copied();
        let detail = match (group, kind) {
            (Group::Queues, _) => inspector.queue(name).await?.map(|view| Detail::Queue(Box::new(view))),
            (Group::Limiters, _) => inspector.limiter(name).await?.map(|view| Detail::Limiter(Box::new(view))),
            // Without a kind, the object is not in the list any more.
            (Group::Synchronizers | Group::Streams, None) => None,
            (Group::Synchronizers, Some(kind)) => {
                let view = inspector.synchronizer(name, kind).await?;
                view.map(|view| Detail::Synchronizer(Box::new(view)))
            }
            (Group::Streams, Some(ObjectKind::MapCache)) => {
                let view = inspector.map_cache(bytes_of(name)).await?;
                view.map(|view| Detail::MapCache(Box::new(view)))
            }
            (Group::Streams, Some(_)) => {
                let view = inspector.stream(bytes_of(name)).await?;
                view.map(|view| Detail::Stream(Box::new(view)))
            }
        };
        Ok(detail.unwrap_or(Detail::Missing))
    }

    /// Removes the data of objects that were not on a screen lately.
    fn forget_details(&self, pages: &ObjectNames, lists: &ObjectNames) {
        let now = now_ms();
        let is_kept = |group: Group, name: &String, reading: &Reading<Detail>| {
            let one = (group, name.clone());
            let is_shown = pages.contains(&one) || lists.contains(&one);
            is_shown || reading.read_at().is_some_and(|at| now.saturating_sub(at) < KEPT_MS)
        };
        for group in Group::ALL {
            let read = Arc::clone(&self.snapshot.borrow().list(group).read);
            if read.iter().any(|(name, reading)| !is_kept(group, name, reading)) {
                self.change_lists(&[group], |list| {
                    Arc::make_mut(&mut list.read).retain(|name, reading| is_kept(group, name, reading));
                });
            }
        }
    }
}

/// Forgets the searches of all groups but these.
fn forget_searches(snapshot: &mut Snapshot, needed: &[Group]) {
    for group in Group::ALL.into_iter().filter(|group| !needed.contains(group)) {
        let list = &mut snapshot.listed[group as usize];
        list.sweep = Sweep::default();
        list.names = Arc::default();
    }
}

/// Forgets the data of all objects on screens.
fn forget_all_details(snapshot: &mut Snapshot) {
    for list in &mut snapshot.listed {
        list.read = Arc::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slow_stream_rests_for_10_seconds() {
        let (slow, fast) = ((Group::Streams, "slow".to_owned()), (Group::Streams, "fast".to_owned()));
        let queue = (Group::Queues, "slow".to_owned());
        let all = ObjectNames::from([slow.clone(), fast.clone(), queue.clone()]);
        let (mut streams, start) = (SlowStreams::default(), Instant::now());
        let ms = Duration::from_millis;
        let read = vec![(slow.clone(), SLOW + ms(1)), (fast.clone(), ms(1)), (queue.clone(), ms(1))];
        streams.note(read, ms(1), start);
        let rest = start + SLOW_INTERVAL;
        assert_eq!(streams.without(&all, rest - Duration::from_millis(1)), ObjectNames::from([fast, queue]));
        assert_eq!(streams.without(&all, rest), all);
        streams.note(Vec::new(), ms(1), rest);
        assert!(streams.0.is_empty());
    }

    #[test]
    fn a_stream_is_not_slow_because_of_another_one_or_of_the_network() {
        let stream = |name: &str| (Group::Streams, name.to_owned());
        let slow_of = |read: &[(&str, Duration)], round_trip: Duration| {
            let mut streams = SlowStreams::default();
            streams.note(read.iter().map(|(name, took)| (stream(name), *took)).collect(), round_trip, Instant::now());
            streams.0.into_keys().map(|(_, name)| name).collect::<Vec<_>>()
        };
        let ms = Duration::from_millis;
        // The replies of one connection come in their order.
        assert_eq!(slow_of(&[("b", ms(302)), ("slow", ms(301)), ("a", ms(1)), ("c", ms(303))], ms(1)), ["slow"]);
        assert_eq!(slow_of(&[("slow", ms(300)), ("b", ms(301))], ms(1)), ["slow"]);
        assert_eq!(slow_of(&[("a", ms(121)), ("b", ms(122))], ms(120)), Vec::<String>::new());
        assert_eq!(slow_of(&[("a", ms(121)), ("slow", ms(230))], ms(120)), ["slow"]);
    }

    #[test]
    fn each_of_more_open_pages_than_one_interval_reads_has_its_turn() {
        let pages: ObjectNames = (0..=MOST_READS).map(|n| (Group::Queues, n.to_string())).collect();
        let (mut turns, mut read) = (Turns::default(), ObjectNames::new());
        for _ in 0..2 {
            let batch = turns.next(&pages, &ObjectNames::new(), &ObjectNames::new(), MOST_READS);
            assert_eq!(batch.len(), MOST_READS);
            read.extend(batch);
        }
        assert_eq!(read, pages);
    }

    #[test]
    fn found_names_are_limited_in_number_and_bytes() {
        let mut few = Found::default();
        let is_kept = |(nth, found): (usize, &mut Found), len: usize| {
            found.add(format!("{}{nth}", "x".repeat(len)), ObjectKind::ReliableQueue)
        };
        let long = MOST_NAME_BYTES / 4;
        assert_eq!([0, 1, 2, 3, 4].map(|nth| is_kept((nth, &mut few), long)), [true, true, true, true, false]);
        assert_eq!((few.names.len(), few.is_cut), (4, true));
        let mut many = Found::default();
        assert_eq!((0..=MOST_OBJECTS).filter(|nth| is_kept((*nth, &mut many), 1)).count(), MOST_OBJECTS);
        assert!(many.is_cut);
    }
}
