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

/// After this time the browser connects again, if the stream has ended without [`END`].
const RETRY: Duration = Duration::from_secs(3);

/// The type of the last message, after which the page opens a new stream at once.
const END: &str = "end";

/// A comment keeps proxies from ending a silent stream.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// Longest life of a stream: an hour. Then the browser opens it again, and the permission is
/// checked again.
const LONGEST_STREAM: Duration = Duration::from_secs(3_600);

/// Longest time until a change that nothing announces is seen, such as a finding about a time.
const LONGEST: Duration = Duration::from_secs(5);

/// An open stream.
struct Live {
    page: Page,
    query: Query,
    viewer: Viewer,
    changes: watch::Receiver<Snapshot>,
    /// The view that the viewer has seen.
    seen: View,
    is_first: bool,
    ends: Instant,
    has_ended: bool,
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
    let Some(page) = Page::of_path(query.get("page")) else {
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
    let ends = Instant::now() + life(permission.until, now_ms());
    let _client = app.client.clone();
    let may_operate = permission.operator.is_some();
    let seen = View::default();
    let (is_first, has_ended) = (true, false);
    let live = Live { page, query, viewer, changes, seen, is_first, ends, has_ended, may_operate, _client };
    let events = stream::unfold(live, async |mut live| {
        let event = live.next().await?;
        Some((Ok::<_, Infallible>(event), live))
    });
    let sse = Sse::new(events).keep_alive(KeepAlive::new().interval(KEEP_ALIVE));
    // A proxy must not collect the events.
    ([(HeaderName::from_static("x-accel-buffering"), "no")], sse).into_response()
}

impl Live {
    /// Returns the next message; `None` after the last one, which is sent when the stream or its
    /// permission ends.
    async fn next(&mut self) -> Option<Event> {
        loop {
            if std::mem::take(&mut self.has_ended) {
                return None;
            }
            if Instant::now() >= self.ends {
                self.has_ended = true;
                // Browsers ignore messages without data.
                return Some(Event::default().event(END).data("null"));
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

/// Returns how long a stream may live if its permission lasts until this time, in seconds since
/// 1970.
fn life(until: Option<u64>, now_ms: u64) -> Duration {
    let left = until.map(|until| Duration::from_millis(until.saturating_mul(1_000).saturating_sub(now_ms)));
    left.map_or(LONGEST_STREAM, |left| left.min(LONGEST_STREAM))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_ends_with_its_permission_and_after_an_hour() {
        assert_eq!(life(Some(1_010), 1_000_000), Duration::from_secs(10));
        assert_eq!((life(Some(999), 1_000_000), life(Some(1_000_000), 0)), (Duration::ZERO, LONGEST_STREAM));
        assert_eq!(life(None, 1_000_000), LONGEST_STREAM);
    }
}
