//! The open pages, and the sources that they need.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tokio::time::Instant;

use crate::listed::Group;
use crate::pages::Page;

/// How long a page counts after it was closed, or requested without updates: 30 s.
const LINGERING: Duration = Duration::from_secs(30);

/// How long a scrape of metrics counts: 90 s, so that Prometheus's default interval of 1 min keeps
/// the data.
const SCRAPED: Duration = Duration::from_secs(90);

/// A page with a stream that was not read for this long does not count, until it is read again: 60
/// s. Its browser has stopped, or is cut off.
const LONGEST_SILENCE: Duration = Duration::from_secs(60);

/// Open pages.
const MOST_VIEWERS: usize = 256;

/// Pages that still count after they were closed; further ones replace the oldest.
const MOST_LINGERING: usize = 64;

/// Names of a viewer that are read.
const MOST_NAMES: usize = 50;

/// The page and the names that a viewer sees.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Interest {
    pub(crate) page: Page,
    /// The object of a page of one object.
    pub(crate) name: Option<String>,
}

/// The page as which a scrape of metrics counts.
static OVERVIEW: Interest = Interest { page: Page::Overview, name: None };

/// Objects of lists, each with its group.
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
    /// Locks on the screen, and those of clients that have left.
    Shown,
    /// The search for queues, synchronizers, limiters, streams and caches.
    Listed,
    /// The objects of those lists on the screen.
    ListedShown,
    /// The checks of the settings.
    Doctor,
}

impl Need {
    fn of(self, page: Page) -> bool {
        match self {
            Need::Health => true,
            // The number of keys limits the searches, and a restart makes the list of clients
            // uncertain.
            Need::Servers => matches!(page, Page::Overview | Page::Locks | Page::Lock) || Need::Listed.of(page),
            Need::Clients => {
                matches!(page, Page::Overview | Page::Locks | Page::Lock)
                    || matches!(page, Page::Contention | Page::Clients | Page::Events)
            }
            Need::Search => matches!(page, Page::Overview | Page::Locks),
            // The overview needs the locks of clients that have left.
            Need::Shown => matches!(page, Page::Overview | Page::Locks | Page::Lock),
            Need::Listed => Group::of(page).is_some_and(|group| group.page() == page),
            Need::ListedShown => Group::of(page).is_some(),
            Need::Doctor => page == Page::Doctor,
        }
    }
}

/// Too many pages are open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TooManyViewers;

/// An open page.
#[derive(Debug)]
struct Open {
    interest: Interest,
    /// The names on the screen.
    names: Vec<String>,
    /// When its stream was read for the last time.
    read_at: Instant,
}

impl Open {
    fn is_read(&self, now: Instant) -> bool {
        now.duration_since(self.read_at) < LONGEST_SILENCE
    }
}

/// The viewers of a console.
#[derive(Debug, Default)]
pub(crate) struct Viewers {
    open: BTreeMap<u64, Open>,
    /// Each interest, and until when it counts.
    lingering: Vec<(Interest, Instant)>,
    /// Until when the last scrape of metrics counts.
    scraped_until: Option<Instant>,
    last_id: u64,
    is_running: bool,
}

impl Viewers {
    /// Adds a viewer, and returns its id.
    pub(crate) fn enter(&mut self, interest: Interest, now: Instant) -> Result<u64, TooManyViewers> {
        if self.open.len() >= MOST_VIEWERS {
            return Err(TooManyViewers);
        }
        self.last_id += 1;
        self.open.insert(self.last_id, Open { interest, names: Vec::new(), read_at: now });
        Ok(self.last_id)
    }

    /// Sets the objects on the screen of a viewer. Its stream is being read.
    pub(crate) fn shows(&mut self, id: u64, names: Vec<String>, now: Instant) {
        if let Some(open) = self.open.get_mut(&id) {
            open.names = names.into_iter().take(MOST_NAMES).collect();
            open.read_at = now;
        }
    }

    /// Removes a viewer. Its page still counts for 30 s.
    pub(crate) fn leave(&mut self, id: u64, now: Instant) {
        if let Some(open) = self.open.remove(&id) {
            self.linger(open.interest, now);
        }
    }

    /// Counts a page for 30 s.
    pub(crate) fn linger(&mut self, interest: Interest, now: Instant) {
        self.lingering.retain(|(one, until)| *one != interest && now < *until);
        if self.lingering.len() >= MOST_LINGERING {
            self.lingering.remove(0);
        }
        self.lingering.push((interest, now + LINGERING));
    }

    /// Counts the overview for 90 s, because of a scrape.
    pub(crate) fn scraped(&mut self, now: Instant) {
        self.scraped_until = Some(now + SCRAPED);
    }

    /// Returns whether metrics were scraped within the last 90 s.
    pub(crate) fn is_scraped(&self, now: Instant) -> bool {
        self.scraped_until.is_some_and(|until| now < until)
    }

    /// Returns whether a viewer needs a source.
    pub(crate) fn need(&mut self, need: Need, now: Instant) -> bool {
        // The findings of the checks are in the metrics.
        let is_for_metrics = need == Need::Doctor && self.is_scraped(now);
        is_for_metrics || self.interests(now).any(|interest| need.of(interest.page))
    }

    /// Returns whether any page is open.
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
        let open = self.open.values().filter(|open| open.is_read(now) && is_page(open.interest.page));
        let lists = open.flat_map(|open| &open.names).cloned().collect();
        (pages, lists)
    }

    /// Returns the objects of all groups, those of pages and those of lists, as
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

    /// Returns the groups with an open list.
    pub(crate) fn groups(&mut self, now: Instant) -> Vec<Group> {
        let is_seen = |group: &Group| self.interests(now).any(|interest| interest.page == group.page());
        Group::ALL.into_iter().filter(is_seen).collect()
    }

    fn interests(&mut self, now: Instant) -> impl Iterator<Item = &Interest> {
        self.lingering.retain(|(_, until)| now < *until);
        let open = self.open.values().filter(move |open| open.is_read(now)).map(|open| &open.interest);
        let scraped = self.is_scraped(now).then_some(&OVERVIEW);
        open.chain(self.lingering.iter().map(|(interest, _)| interest)).chain(scraped)
    }

    /// Returns whether the work is to be started.
    pub(crate) fn start(&mut self) -> bool {
        !std::mem::replace(&mut self.is_running, true)
    }

    /// Ends the work, unless a page was opened again. Returns whether it ends.
    pub(crate) fn stop(&mut self, now: Instant) -> bool {
        let is_over = !self.is_any(now);
        self.is_running = !is_over;
        is_over
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn interest(page: Page) -> Interest {
        Interest { page, name: None }
    }

    fn is_of_locks(page: Page) -> bool {
        matches!(page, Page::Locks | Page::Lock)
    }

    #[test]
    fn a_page_counts_while_it_is_open_and_for_30_seconds() {
        let (mut viewers, start) = (Viewers::default(), Instant::now());
        assert!(!viewers.is_any(start));
        let id = viewers.enter(interest(Page::Clients), start).unwrap();
        assert!(viewers.start() && !viewers.start());
        let later = start + Duration::from_secs(3_600);
        viewers.shows(id, Vec::new(), later);
        assert!(viewers.need(Need::Clients, later) && !viewers.need(Need::Search, later));
        viewers.leave(id, later);
        assert!(!viewers.stop(later + LINGERING - Duration::from_millis(1)));
        assert!(viewers.stop(later + LINGERING));
        assert!(viewers.start());
    }

    #[test]
    fn a_scrape_counts_for_90_seconds_also_if_the_overview_is_closed_meanwhile() {
        let (mut viewers, start) = (Viewers::default(), Instant::now());
        viewers.scraped(start);
        let id = viewers.enter(interest(Page::Overview), start).unwrap();
        viewers.leave(id, start);
        assert!(viewers.need(Need::Search, start + SCRAPED - Duration::from_millis(1)));
        assert!(!viewers.need(Need::Search, start + SCRAPED));
    }

    #[test]
    fn a_scrape_needs_the_checks_and_the_overview_does_not() {
        let (mut viewers, start) = (Viewers::default(), Instant::now());
        viewers.linger(interest(Page::Overview), start);
        assert!(!viewers.need(Need::Doctor, start));
        viewers.scraped(start);
        assert!(viewers.need(Need::Doctor, start) && !viewers.need(Need::Doctor, start + SCRAPED));
    }

    #[test]
    fn names_of_open_pages_are_read() {
        let (mut viewers, start) = (Viewers::default(), Instant::now());
        let list = viewers.enter(interest(Page::Locks), start).unwrap();
        viewers.shows(list, (0..100).map(|n| n.to_string()).collect(), start);
        let page = viewers.enter(Interest { page: Page::Lock, name: Some("a".into()) }, start).unwrap();
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
        let list = viewers.enter(interest(Page::Limiters), start).unwrap();
        viewers.shows(list, vec!["api".into()], start);
        viewers.enter(Interest { page: Page::Queue, name: Some("jobs".into()) }, start).unwrap();
        viewers.enter(Interest { page: Page::Lock, name: Some("a".into()) }, start).unwrap();
        let (pages, lists) = viewers.listed(start);
        assert_eq!(pages.into_iter().collect::<Vec<_>>(), [(Group::Queues, "jobs".to_owned())]);
        assert_eq!(lists.into_iter().collect::<Vec<_>>(), [(Group::Limiters, "api".to_owned())]);
        // The page of one queue needs no search.
        assert_eq!(viewers.groups(start), [Group::Limiters]);
        assert!(viewers.need(Need::Listed, start) && !viewers.need(Need::Search, start));
    }

    #[test]
    fn a_page_whose_stream_nobody_reads_does_not_count() {
        let (mut viewers, start) = (Viewers::default(), Instant::now());
        let id = viewers.enter(interest(Page::Locks), start).unwrap();
        viewers.shows(id, vec!["a".into()], start);
        let later = start + LONGEST_SILENCE;
        assert!(viewers.is_any(later - Duration::from_millis(1)) && !viewers.is_any(later));
        assert!(!viewers.need(Need::Search, later) && viewers.names(is_of_locks, later).1.is_empty());
        viewers.shows(id, Vec::new(), later);
        assert!(viewers.need(Need::Search, later));
    }

    #[test]
    fn viewers_are_bounded() {
        let (mut viewers, start) = (Viewers::default(), Instant::now());
        for _ in 0..MOST_VIEWERS {
            viewers.enter(interest(Page::Locks), start).unwrap();
        }
        assert_eq!(viewers.enter(interest(Page::Locks), start), Err(TooManyViewers));
        for n in 0..1_000 {
            viewers.linger(Interest { page: Page::Lock, name: Some(n.to_string()) }, start);
        }
        assert_eq!(viewers.lingering.len(), MOST_LINGERING);
    }
}
