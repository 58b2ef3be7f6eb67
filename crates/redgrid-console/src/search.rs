//! Searches for objects, which go on from page to page.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream::BoxStream;
use futures_util::{Stream, StreamExt};
use redgrid_inspect::{InspectError, ObjectView};
use tokio::time::Instant;
use uuid::Uuid;

/// Searches at the same time.
const MOST_SEARCHES: usize = 16;

/// A search that was not used for this long ends.
const IDLE: Duration = Duration::from_secs(60);

/// Objects on a page.
const PAGE: usize = 100;

/// Objects of a search that are kept, so that its pages can be shown again.
const MOST_OBJECTS: usize = 10_000;

/// Time for one request. Then the page shows what was found so far.
const LIMIT: Duration = Duration::from_secs(2);

/// A search rests nine times as long as it has worked: it takes at most 10 % of a node's time. One
/// search works at a time, so this is the share of all of them.
pub(crate) const REST: u32 = 9;

/// The longest name that is kept, in bytes; a longer one is cut. Names of redgrid have at most
/// 1,024.
const LONGEST_NAME: usize = 4_096;

/// The bytes of all names that a search keeps: 4 MiB, so 64 MiB for all searches. The name that
/// exceeds it is the last one.
const MOST_BYTES: usize = 4 << 20;

/// Why there is no page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SearchError {
    /// All searches are in use.
    TooMany,
    /// The search does not exist, or has ended.
    Unknown,
}

/// All searches of a console.
#[derive(Default)]
pub(crate) struct Searches {
    searches: Arc<Mutex<HashMap<String, Entry>>>,
    /// Held by the search that works.
    turn: tokio::sync::Mutex<()>,
}

struct Entry {
    used_at: Instant,
    search: Arc<tokio::sync::Mutex<Search>>,
}

struct Search {
    pattern: String,
    kind: String,
    /// `None` at the end.
    objects: Option<BoxStream<'static, Result<ObjectView, InspectError>>>,
    found: Vec<ObjectView>,
    /// The bytes of the names in `found`.
    bytes: usize,
    trouble: Option<String>,
    is_cut: bool,
}

/// A page of a search.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) pattern: String,
    pub(crate) kind: String,
    pub(crate) objects: Vec<ObjectView>,
    /// Objects found so far, on all pages.
    pub(crate) total: usize,
    /// Whether the search is not at its end, and this page is not full.
    pub(crate) is_running: bool,
    /// Whether there is, or may be, a next page.
    pub(crate) is_more: bool,
    /// Whether more objects exist than are kept.
    pub(crate) is_cut: bool,
    pub(crate) trouble: Option<String>,
}

impl Searches {
    /// Starts a search, and returns its id.
    pub(crate) fn start(
        &self,
        objects: impl Stream<Item = Result<ObjectView, InspectError>> + Send + 'static,
        pattern: &str,
        kind: &str,
    ) -> Result<String, SearchError> {
        let mut searches = self.live();
        if searches.len() >= MOST_SEARCHES {
            return Err(SearchError::TooMany);
        }
        let search = Search {
            pattern: pattern.to_owned(),
            kind: kind.to_owned(),
            objects: Some(objects.boxed()),
            found: Vec::new(),
            bytes: 0,
            trouble: None,
            is_cut: false,
        };
        let id = Uuid::new_v4().simple().to_string();
        let entry = Entry { used_at: Instant::now(), search: Arc::new(tokio::sync::Mutex::new(search)) };
        if searches.is_empty() {
            tokio::spawn(remove_ended(Arc::downgrade(&self.searches)));
        }
        searches.insert(id.clone(), entry);
        Ok(id)
    }

    /// Returns a page of a search, counted from 1. Continues the search as far as necessary, for at
    /// most 2 s.
    pub(crate) async fn page(&self, id: &str, page: usize) -> Result<Found, SearchError> {
        let search = {
            let mut searches = self.live();
            let entry = searches.get_mut(id).ok_or(SearchError::Unknown)?;
            entry.used_at = Instant::now();
            Arc::clone(&entry.search)
        };
        let ends = Instant::now() + LIMIT;
        let mut search = search.lock().await;
        // If the others take all the time, the page shows what was found so far.
        let turn = tokio::time::timeout_at(ends, self.turn.lock()).await;
        let page = search.page(page, if turn.is_ok() { ends } else { Instant::now() }).await;
        Ok(page)
    }

    /// Removes the searches that have ended.
    fn live(&self) -> std::sync::MutexGuard<'_, HashMap<String, Entry>> {
        let mut searches = self.searches.lock().unwrap_or_else(PoisonError::into_inner);
        retain_used(&mut searches);
        searches
    }
}

fn retain_used(searches: &mut HashMap<String, Entry>) {
    searches.retain(|_, entry| entry.used_at.elapsed() < IDLE);
}

/// Removes searches when they have ended, also if no page of them is opened again, until none is
/// left.
async fn remove_ended(searches: Weak<Mutex<HashMap<String, Entry>>>) {
    loop {
        tokio::time::sleep(IDLE / 4).await;
        let Some(searches) = searches.upgrade() else { return };
        let mut searches = searches.lock().unwrap_or_else(PoisonError::into_inner);
        retain_used(&mut searches);
        if searches.is_empty() {
            return;
        }
    }
}

impl Search {
    fn keep(&mut self, object: ObjectView) {
        let object = shortened(object);
        self.bytes += object.name.len() + object.name_bytes.len();
        self.found.push(object);
    }

    async fn page(&mut self, page: usize, ends: Instant) -> Found {
        // One more than the page, so that the last page has no link to a next one.
        let wanted = page.saturating_mul(PAGE).saturating_add(1);
        while self.found.len() < wanted && Instant::now() < ends {
            let Some(objects) = &mut self.objects else { break };
            if self.found.len() >= MOST_OBJECTS || self.bytes >= MOST_BYTES {
                (self.is_cut, self.objects) = (true, None);
                break;
            }
            // The stream keeps its place if the time is over.
            let next = tokio::time::timeout_at(ends, objects.next()).await;
            match next {
                Err(_) => break,
                Ok(None) => self.objects = None,
                Ok(Some(Ok(object))) => self.keep(object),
                Ok(Some(Err(error))) => (self.trouble, self.objects) = (Some(error.to_string()), None),
            }
        }
        let is_running = self.objects.is_some() && self.found.len() < wanted;
        Found {
            pattern: self.pattern.clone(),
            kind: self.kind.clone(),
            objects: self.found.iter().skip((page - 1).saturating_mul(PAGE)).take(PAGE).cloned().collect(),
            total: self.found.len(),
            is_running,
            is_more: self.found.len() >= wanted,
            is_cut: self.is_cut,
            trouble: self.trouble.clone(),
        }
    }
}

/// Cuts a name that is longer than every name of this library. Such an object has no name in bytes
/// any more, so there is no link to it.
fn shortened(mut object: ObjectView) -> ObjectView {
    if object.name_bytes.len() > LONGEST_NAME {
        let end = (0..=LONGEST_NAME).rev().find(|end| object.name.is_char_boundary(*end)).unwrap_or(0);
        object.name.truncate(end);
        object.name.push('…');
        object.name_bytes = Bytes::new();
    }
    object.name.shrink_to_fit();
    // A copy: a slice of a reply would keep the whole reply in memory.
    object.name_bytes = Bytes::copy_from_slice(&object.name_bytes);
    object
}

#[cfg(test)]
mod tests {
    use futures_util::stream;

    use super::*;

    fn nothing() -> impl Stream<Item = Result<ObjectView, InspectError>> + Send + 'static {
        stream::empty()
    }

    #[tokio::test(start_paused = true)]
    async fn a_search_that_is_not_used_ends_after_a_minute() {
        let searches = Searches::default();
        let id = searches.start(nothing(), "*", "").unwrap();
        tokio::time::advance(IDLE - Duration::from_secs(1)).await;
        assert_eq!(searches.page(&id, 1).await.map(|found| found.total), Ok(0));
        tokio::time::advance(IDLE - Duration::from_secs(1)).await;
        assert!(searches.page(&id, 1).await.is_ok());
        tokio::time::advance(IDLE).await;
        assert_eq!(searches.page(&id, 1).await, Err(SearchError::Unknown));
    }

    #[tokio::test(start_paused = true)]
    async fn sixteen_searches_are_open_at_most() {
        let searches = Searches::default();
        for _ in 0..MOST_SEARCHES {
            searches.start(nothing(), "*", "").unwrap();
        }
        assert_eq!(searches.start(nothing(), "*", ""), Err(SearchError::TooMany));
        tokio::time::advance(IDLE).await;
        assert!(searches.start(nothing(), "*", "").is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn what_an_ended_search_has_found_is_released_without_a_request() {
        let searches = Searches::default();
        searches.start(nothing(), "*", "").unwrap();
        tokio::time::sleep(IDLE + IDLE / 4).await;
        assert!(searches.searches.lock().unwrap().is_empty());
        searches.start(nothing(), "*", "").unwrap();
        tokio::time::sleep(IDLE + IDLE / 4).await;
        assert!(searches.searches.lock().unwrap().is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn one_search_works_at_a_time() {
        let searches = Arc::new(Searches::default());
        let id = searches.start(stream::pending(), "*", "").unwrap();
        let other = searches.start(nothing(), "*", "").unwrap();
        let first = tokio::spawn({
            let searches = Arc::clone(&searches);
            async move { searches.page(&id, 1).await }
        });
        tokio::time::sleep(Duration::from_millis(1)).await;
        let began = Instant::now();
        let found = searches.page(&other, 1).await.unwrap();
        assert!(began.elapsed() >= LIMIT - Duration::from_millis(2), "{:?}", began.elapsed());
        assert!(first.await.unwrap().is_ok() && found.total == 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_page_is_shown_in_time_even_if_the_search_hangs() {
        let searches = Searches::default();
        let id = searches.start(stream::pending(), "*", "").unwrap();
        let found = searches.page(&id, 1).await.unwrap();
        assert!(found.is_running && !found.is_more && found.total == 0);
    }
}
