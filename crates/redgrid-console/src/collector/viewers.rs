//! Who looks at what.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tokio::time::Instant;

use crate::listed::Group;
use crate::pages::Page;

/// How long a page counts after it was closed, or requested without updates: 30 s.
const LINGERING: Duration = Duration::from_secs(30);

/// Open pages.
const MOST_VIEWERS: usize = 256;

/// Pages that still count after they were closed; further ones replace the oldest.
const MOST_LINGERING: usize = 64;

/// Names of a viewer that are read.
const MOST_NAMES: usize = 50;

/// What a viewer looks at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Interest {
    pub(crate) page: Page,
    /// The object of a page of one object.
    pub(crate) name: Option<String>,
}

/// Queues, synchronizers and limiters, each with its group.
pub(crate) type ObjectNames = BTreeSet<(Group, String)>;

/// A source, or a group of sources that are needed together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Need {
    /// Health: for all pages.
    Health,
    /// Information of the servers.
    Servers,
    /// The living clients and their reports.
    Clients,
    /// The search for locks.
    Search,
    /// Locks on the screen.
    Shown,
    /// The search for queues, synchronizers and limiters.
    Listed,
    /// Those on the screen.
    ListedShown,
    /// The checks of the settings.
    Doctor,
}

impl Need {
    fn of(self, page: Page) -> bool {
        match self {
            Need::Health => true,
            // The search depends on the number of keys.
            Need::Servers => matches!(page, Page::Overview | Page::Locks) || Need::Listed.of(page),
            Need::Clients => matches!(page, Page::Overview | Page::Locks | Page::Lock | Page::Clients),
            Need::Search => matches!(page, Page::Overview | Page::Locks),
            Need::Shown => matches!(page, Page::Locks | Page::Lock),
            Need::Listed => Group::of(page).is_some_and(|group| group.page() == page),
            Need::ListedShown => Group::of(page).is_some(),
            Need::Doctor => page == Page::Doctor,
        }
    }
}

/// Too many pages are open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TooManyViewers;

/// The viewers of a console.
#[derive(Debug, Default)]
pub(crate) struct Viewers {
    open: BTreeMap<u64, (Interest, Vec<String>)>,
    lingering: Vec<(Interest, Instant)>,
    last_id: u64,
    is_running: bool,
}

impl Viewers {
    /// Adds a viewer, and returns its id.
    pub(crate) fn enter(&mut self, interest: Interest) -> Result<u64, TooManyViewers> {
        if self.open.len() >= MOST_VIEWERS {
            return Err(TooManyViewers);
        }
        self.last_id += 1;
        self.open.insert(self.last_id, (interest, Vec::new()));
        Ok(self.last_id)
    }

    /// Sets the objects on the screen of a viewer.
    pub(crate) fn shows(&mut self, id: u64, names: Vec<String>) {
        if let Some((_, shown)) = self.open.get_mut(&id) {
            *shown = names.into_iter().take(MOST_NAMES).collect();
        }
    }

    /// Removes a viewer. Its page still counts for 30 s.
    pub(crate) fn leave(&mut self, id: u64, now: Instant) {
        if let Some((interest, _)) = self.open.remove(&id) {
            self.linger(interest, now);
        }
    }

    /// Counts a page for 30 s.
    pub(crate) fn linger(&mut self, interest: Interest, now: Instant) {
        self.lingering.retain(|(one, since)| *one != interest && now.duration_since(*since) < LINGERING);
        if self.lingering.len() >= MOST_LINGERING {
            self.lingering.remove(0);
        }
        self.lingering.push((interest, now));
    }

    /// Returns whether somebody needs a source.
    pub(crate) fn need(&mut self, need: Need, now: Instant) -> bool {
        self.interests(now).any(|interest| need.of(interest.page))
    }

    /// Returns whether somebody looks at any page.
    pub(crate) fn is_any(&mut self, now: Instant) -> bool {
        self.interests(now).next().is_some()
    }

    /// Returns the objects that have one of these pages, and the objects in lists of these pages on
    /// the screen.
    pub(crate) fn names(
        &mut self,
        is_page: impl Fn(Page) -> bool,
        now: Instant,
    ) -> (BTreeSet<String>, BTreeSet<String>) {
        let of_page = |interest: &&Interest| is_page(interest.page);
        let pages = self.interests(now).filter(of_page).filter_map(|interest| interest.name.clone()).collect();
        let lists = self.open.values().filter(|(interest, _)| is_page(interest.page));
        (pages, lists.flat_map(|(_, names)| names).cloned().collect())
    }

    /// Returns the queues, synchronizers and limiters of pages and of lists, as
    /// [`names`](Viewers::names) does.
    pub(crate) fn listed(&mut self, now: Instant) -> (ObjectNames, ObjectNames) {
        let (mut pages, mut lists) = (ObjectNames::new(), ObjectNames::new());
        for group in Group::ALL {
            let (of_pages, of_lists) = self.names(|page| Group::of(page) == Some(group), now);
            pages.extend(of_pages.into_iter().map(|name| (group, name)));
            lists.extend(of_lists.into_iter().map(|name| (group, name)));
        }
        (pages, lists)
    }

    /// Returns the groups whose lists somebody looks at.
    pub(crate) fn groups(&mut self, now: Instant) -> Vec<Group> {
        let is_seen = |group: &Group| self.interests(now).any(|interest| interest.page == group.page());
        Group::ALL.into_iter().filter(is_seen).collect()
    }

    fn interests(&mut self, now: Instant) -> impl Iterator<Item = &Interest> {
        self.lingering.retain(|(_, since)| now.duration_since(*since) < LINGERING);
        self.open.values().map(|(interest, _)| interest).chain(self.lingering.iter().map(|(interest, _)| interest))
    }

    /// Returns whether the work is to be started.
    pub(crate) fn start(&mut self) -> bool {
        !std::mem::replace(&mut self.is_running, true)
    }

    /// Ends the work, unless somebody looks again. Returns whether it ends.
    pub(crate) fn stop(&mut self, now: Instant) -> bool {
        let is_over = !self.is_any(now);
        self.is_running = !is_over;
        is_over
    }

    /// The work has ended by itself.
    pub(crate) fn stopped(&mut self) {
        self.is_running = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn interest(page: Page) -> Interest {
        Interest { page, name: None }
    }

    #[test]
    fn a_page_counts_while_it_is_open_and_for_30_seconds() {
        let (mut viewers, start) = (Viewers::default(), Instant::now());
        assert!(!viewers.is_any(start));
        let id = viewers.enter(interest(Page::Clients)).unwrap();
        assert!(viewers.start() && !viewers.start());
        let later = start + Duration::from_secs(3_600);
        assert!(viewers.need(Need::Clients, later) && !viewers.need(Need::Search, later));
        viewers.leave(id, later);
        assert!(!viewers.stop(later + LINGERING - Duration::from_millis(1)));
        assert!(viewers.stop(later + LINGERING));
        assert!(viewers.start());
    }

    #[test]
    fn names_of_open_pages_are_read() {
        let (mut viewers, start) = (Viewers::default(), Instant::now());
        let list = viewers.enter(interest(Page::Locks)).unwrap();
        viewers.shows(list, (0..100).map(|n| n.to_string()).collect());
        let page = viewers.enter(Interest { page: Page::Lock, name: Some("a".into()) }).unwrap();
        let is_of_locks = |page| matches!(page, Page::Locks | Page::Lock);
        let (pages, lists) = viewers.names(is_of_locks, start);
        assert_eq!((pages.len(), lists.len()), (1, MOST_NAMES));
        viewers.leave(list, start);
        viewers.leave(page, start);
        let (pages, lists) = viewers.names(is_of_locks, start);
        assert_eq!((pages.len(), lists.len()), (1, 0));
        assert_eq!(viewers.names(is_of_locks, start + LINGERING).0.len(), 0);
    }

    #[test]
    fn each_group_is_read_for_its_own_pages() {
        let (mut viewers, start) = (Viewers::default(), Instant::now());
        let list = viewers.enter(interest(Page::Limiters)).unwrap();
        viewers.shows(list, vec!["api".into()]);
        viewers.enter(Interest { page: Page::Queue, name: Some("jobs".into()) }).unwrap();
        viewers.enter(Interest { page: Page::Lock, name: Some("a".into()) }).unwrap();
        let (pages, lists) = viewers.listed(start);
        assert_eq!(pages.into_iter().collect::<Vec<_>>(), [(Group::Queues, "jobs".to_owned())]);
        assert_eq!(lists.into_iter().collect::<Vec<_>>(), [(Group::Limiters, "api".to_owned())]);
        // The page of one queue needs no search.
        assert_eq!(viewers.groups(start), [Group::Limiters]);
        assert!(viewers.need(Need::Listed, start) && !viewers.need(Need::Search, start));
    }

    #[test]
    fn viewers_are_bounded() {
        let (mut viewers, start) = (Viewers::default(), Instant::now());
        for _ in 0..MOST_VIEWERS {
            viewers.enter(interest(Page::Locks)).unwrap();
        }
        assert_eq!(viewers.enter(interest(Page::Locks)), Err(TooManyViewers));
        for n in 0..1_000 {
            viewers.linger(Interest { page: Page::Lock, name: Some(n.to_string()) }, start);
        }
        assert_eq!(viewers.lingering.len(), MOST_LINGERING);
    }
}
