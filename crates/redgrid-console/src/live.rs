//! The stream of a page: what has changed, at most once a second.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::Extension;
use axum::extract::State;
use axum::http::header::HeaderName;
use axum::http::{StatusCode, Uri};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use redgrid_core::Client;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::access::Permission;
use crate::collector::{TooManyViewers, Viewer};
use crate::console::App;
use crate::pages::{self, Content, Page, problem};
use crate::query::Query;
use crate::snapshot::Snapshot;
use crate::text::now_ms;
use crate::view::View;

/// Shortest time between two messages.
const INTERVAL: Duration = Duration::from_secs(1);

/// After this time the browser connects again.
const RETRY: Duration = Duration::from_secs(3);

/// A comment keeps proxies from ending a silent stream.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// Longest time until a change that nothing announces is seen, such as a finding about a time.
const LONGEST: Duration = Duration::from_secs(5);

/// An open stream.
struct Live {
    page: Page,
    query: Query,
    viewer: Viewer,
    changes: watch::Receiver<Snapshot>,
    /// What the viewer has seen.
    seen: View,
    is_first: bool,
    ends: Option<Instant>,
    may_operate: bool,
    _client: Client,
}

/// Answers `live?page=…`, with the query of the page.
pub(crate) async fn stream(
    State(app): State<Arc<App>>,
    Extension(permission): Extension<Permission>,
    uri: Uri,
) -> Response {
    let query = Query::read(uri.query());
    let Some(page) = Page::of_id(query.get("page")) else {
        return problem(StatusCode::NOT_FOUND, "Not found", "The address names no page.");
    };
    let changes = app.collector.changes();
    let viewer = match app.collector.enter(pages::interest(page, &query)) {
        Ok(viewer) => viewer,
        Err(TooManyViewers) => {
            let text = "256 pages are open. Close some of them.";
            return problem(StatusCode::SERVICE_UNAVAILABLE, "Too many viewers", text);
        }
    };
    let ends = permission.until.map(|until| {
        let left = until.saturating_mul(1_000).saturating_sub(now_ms());
        Instant::now() + Duration::from_millis(left)
    });
    let _client = app.client.clone();
    let may_operate = permission.operator.is_some();
    let seen = View::default();
    let live = Live { page, query, viewer, changes, seen, is_first: true, ends, may_operate, _client };
    let events = stream::unfold(live, async |mut live| {
        let event = live.next().await?;
        Some((Ok::<_, Infallible>(event), live))
    });
    let sse = Sse::new(events).keep_alive(KeepAlive::new().interval(KEEP_ALIVE));
    // A proxy must not collect the events.
    ([(HeaderName::from_static("x-accel-buffering"), "no")], sse).into_response()
}

impl Live {
    /// Returns the next message; `None` when the permission has ended.
    async fn next(&mut self) -> Option<Event> {
        loop {
            if self.ends.is_some_and(|ends| Instant::now() >= ends) {
                return None;
            }
            if !std::mem::take(&mut self.is_first) {
                tokio::time::sleep(INTERVAL).await;
                // The sender outlives the receiver, as the viewer has the collector.
                let _ = tokio::time::timeout(LONGEST, self.changes.changed()).await;
            }
            let snapshot = self.changes.borrow_and_update().clone();
            let now = now_ms();
            let content = Content { snapshot: &snapshot, query: &self.query, now, may_operate: self.may_operate };
            let (view, names) = pages::view(self.page, &content);
            self.viewer.shows(names);
            if let Some(change) = view.change_since(&self.seen, now) {
                // Strings and numbers can always be written as JSON.
                let text = serde_json::to_string(&change).unwrap_or_default();
                self.seen = view;
                return Some(Event::default().retry(RETRY).data(text));
            }
        }
    }
}
