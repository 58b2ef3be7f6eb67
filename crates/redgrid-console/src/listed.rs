//! Objects that pages list, other than locks: their names, and the data of those on the screen.

use std::collections::BTreeMap;
use std::sync::Arc;

use redgrid_inspect::{LimiterView, MapCacheView, ObjectKind, QueueView, StreamView, SynchronizerView};

use crate::pages::Page;
use crate::snapshot::{Reading, Sweep};

/// The objects of one page.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Group {
    /// Reliable queues.
    Queues,
    /// Semaphores, latches, barriers, events, elections.
    Synchronizers,
    /// Rate limiters.
    Limiters,
    /// Reliable topics, streams, and caches.
    Streams,
}

impl Group {
    pub(crate) const ALL: [Group; 4] = [Group::Queues, Group::Synchronizers, Group::Limiters, Group::Streams];

    /// Returns the group of a page: it lists the group, or shows one of its objects.
    pub(crate) fn of(page: Page) -> Option<Group> {
        match page {
            Page::Queues | Page::Queue => Some(Group::Queues),
            Page::Synchronizers => Some(Group::Synchronizers),
            Page::Limiters => Some(Group::Limiters),
            Page::Streams => Some(Group::Streams),
            _ => None,
        }
    }

    /// Returns the page that lists the group.
    pub(crate) fn page(self) -> Page {
        match self {
            Group::Queues => Page::Queues,
            Group::Synchronizers => Page::Synchronizers,
            Group::Limiters => Page::Limiters,
            Group::Streams => Page::Streams,
        }
    }

    /// Returns whether objects of this kind are in the group.
    pub(crate) fn has(self, kind: ObjectKind) -> bool {
        match self {
            Group::Queues => kind == ObjectKind::ReliableQueue,
            Group::Synchronizers => kind.is_synchronizer(),
            Group::Limiters => kind == ObjectKind::RateLimiter,
            Group::Streams => {
                matches!(kind, ObjectKind::ReliableTopic | ObjectKind::Stream | ObjectKind::MapCache)
            }
        }
    }

    /// Returns the word for one object of the group.
    pub(crate) fn noun(self) -> &'static str {
        match self {
            Group::Queues => "queue",
            Group::Synchronizers => "synchronizer",
            Group::Limiters => "limiter",
            Group::Streams => "object",
        }
    }
}

/// The data of an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Detail {
    Queue(Box<QueueView>),
    Synchronizer(Box<SynchronizerView>),
    Limiter(Box<LimiterView>),
    Stream(Box<StreamView>),
    MapCache(Box<MapCacheView>),
    /// It does not exist any more.
    Missing,
}

/// The objects of a group.
#[derive(Debug, Clone, Default)]
pub(crate) struct Listed {
    /// The progress of the search.
    pub(crate) sweep: Sweep,
    /// The objects that the last search has found.
    pub(crate) names: Arc<BTreeMap<String, ObjectKind>>,
    /// The data of the objects on the screen.
    pub(crate) read: Arc<BTreeMap<String, Reading<Detail>>>,
}

impl Listed {
    /// Returns whether a search has ended, or cannot be made.
    pub(crate) fn is_searched(&self) -> bool {
        self.sweep.completed.is_some() || self.sweep.is_too_large || self.sweep.trouble.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_kind_is_in_two_groups_and_locks_are_in_none_but_elections() {
        for kind in ObjectKind::ALL {
            let groups = Group::ALL.into_iter().filter(|group| group.has(kind)).count();
            let is_plain_lock = kind.is_lock() && kind != ObjectKind::Election;
            assert!(groups <= 1 && !(is_plain_lock && groups > 0), "{kind}");
        }
        for group in Group::ALL {
            assert_eq!(Group::of(group.page()), Some(group));
        }
    }
}
