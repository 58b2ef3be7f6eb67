//! The pages: HTML from what the collector knows.

mod clients;
mod doctor;
mod events;
mod layout;
mod lock;
mod locks;
mod objects;
mod overview;

use std::sync::Arc;
use std::time::Duration;

use axum::Extension;
use axum::extract::State;
use axum::http::{StatusCode, Uri};
use axum::response::Response;
use maud::{Markup, html};

pub(crate) use self::layout::{bare_page, not_found, problem, see_other};
use crate::access::Permission;
use crate::board::LockRow;
use crate::collector::Interest;
use crate::console::App;
use crate::query::Query;
use crate::snapshot::{Reading, Snapshot};
use crate::text::{clock, now_ms};
use crate::view::View;

/// How long a page waits for its first data before it is shown without them.
const FIRST_DATA: Duration = Duration::from_millis(1_500);

/// A page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Page {
    /// Servers, clients and findings.
    Overview,
    /// The list of locks.
    Locks,
    /// One lock.
    Lock,
    /// The client processes.
    Clients,
    /// The search for objects.
    Objects,
    /// The checks of the settings.
    Doctor,
    /// The recorded actions.
    Events,
}

impl Page {
    const ALL: [Page; 7] =
        [Page::Overview, Page::Locks, Page::Lock, Page::Clients, Page::Objects, Page::Doctor, Page::Events];

    /// Returns its relative path.
    pub(crate) fn path(self) -> &'static str {
        match self {
            Page::Overview => "overview",
            Page::Locks => "locks",
            Page::Lock => "lock",
            Page::Clients => "clients",
            Page::Objects => "objects",
            Page::Doctor => "doctor",
            Page::Events => "events",
        }
    }

    /// Returns its name in the address of the stream.
    pub(crate) fn id(self) -> &'static str {
        self.path()
    }

    /// Returns the page with this name.
    pub(crate) fn of_id(id: &str) -> Option<Page> {
        Page::ALL.into_iter().find(|page| page.id() == id)
    }

    fn title(self) -> &'static str {
        match self {
            Page::Overview => "Overview",
            Page::Locks => "Locks",
            Page::Lock => "Lock",
            Page::Clients => "Clients",
            Page::Objects => "Objects",
            Page::Doctor => "Doctor",
            Page::Events => "Events",
        }
    }
}

/// What a page shows, apart from its query.
pub(crate) struct Content<'a> {
    pub(crate) snapshot: &'a Snapshot,
    pub(crate) query: &'a Query,
    pub(crate) now: u64,
    /// Whether the page offers actions.
    pub(crate) may_operate: bool,
}

/// Returns what the collector has to read for a page.
pub(crate) fn interest(page: Page, query: &Query) -> Interest {
    let lock = Some(query.get("name")).filter(|name| page == Page::Lock && !name.is_empty());
    Interest { page, lock: lock.map(str::to_owned) }
}

/// Returns the live content of a page, and the names of the locks in it.
pub(crate) fn view(page: Page, content: &Content<'_>) -> (View, Vec<String>) {
    let mut view = View::default();
    view.part("status", status(content.snapshot));
    let names = match page {
        Page::Overview => overview::view(content, &mut view),
        Page::Locks => locks::view(content, &mut view),
        Page::Lock => lock::view(content, &mut view),
        Page::Clients => clients::view(content, &mut view),
        Page::Objects | Page::Events => Vec::new(),
        Page::Doctor => doctor::view(content, &mut view),
    };
    (view, names)
}

/// The line with the state of the page itself.
fn status(snapshot: &Snapshot) -> Markup {
    let Some(health) = snapshot.health.get() else { return html! { span { "connecting" } } };
    if let Some(since) = snapshot.unreachable_since {
        let node = health.nodes.iter().find(|node| !node.is_well());
        let trouble = node.and_then(|node| node.trouble.as_deref());
        return html! {
            strong.stale { "stale since " (clock(since)) " UTC" }
            @if let Some(node) = node {
                ": " (node.node) " does not answer"
                @if let Some(trouble) = trouble { " (" (crate::text::visible(trouble)) ")" }
            }
        };
    }
    let well = health.nodes.iter().filter(|node| node.is_well()).count();
    html! {
        span.live { "live" }
        @if well < health.nodes.len() {
            ", " (well) " of " (crate::text::count(health.nodes.len(), "node")) " answer"
        }
    }
}

/// Shows why a source does not answer. What is known from before stays on the page.
fn trouble<T>(reading: &Reading<T>, what: &str) -> Markup {
    html! {
        @if let Some((why, since)) = &reading.trouble {
            p.fault {
                "Could not read " (what) " since " (clock(*since)) " UTC: " (crate::text::visible(why)) "."
            }
        }
    }
}

/// Answers a page, whose frame is made from its content.
async fn show(app: &Arc<App>, page: Page, uri: &Uri, permission: &Permission) -> Response {
    let query = Query::read(uri.query());
    let interest = interest(page, &query);
    let lock = interest.lock.clone();
    app.collector.touch(interest);
    let snapshot = app.collector.when(FIRST_DATA, |snapshot| is_known(page, lock.as_deref(), snapshot)).await;
    let may_operate = permission.operator.is_some();
    let content = Content { snapshot: &snapshot, query: &query, now: now_ms(), may_operate };
    let (view, _) = view(page, &content);
    let (title, main) = match page {
        Page::Overview => (String::new(), overview::frame(&view)),
        Page::Locks => (String::new(), locks::frame(&content, &view)),
        Page::Lock => (crate::text::visible(query.get("name")), lock::frame(&content, &view)),
        Page::Clients => (String::new(), clients::frame(&view)),
        Page::Objects | Page::Events => (String::new(), html! {}),
        Page::Doctor => (String::new(), doctor::frame(app, &view)),
    };
    layout::page(app, page, uri.query(), &title, &view, &main, content.now)
}

/// Makes a page whose content is not from the collector, and does not update itself.
pub(crate) async fn unwatched(app: &Arc<App>, page: Page, query: Option<&str>, title: &str, main: &Markup) -> Response {
    let parameters = Query::read(query);
    app.collector.touch(interest(page, &parameters));
    let snapshot = app.collector.when(FIRST_DATA, |snapshot| snapshot.health.is_known()).await;
    // The stream updates only the line with the state.
    let content = Content { snapshot: &snapshot, query: &parameters, now: now_ms(), may_operate: false };
    let (view, _) = view(page, &content);
    layout::page(app, page, query, title, &view, main, content.now)
}

/// Returns whether a page has its first data.
fn is_known(page: Page, lock: Option<&str>, snapshot: &Snapshot) -> bool {
    let has_health = snapshot.health.is_known();
    let has_states = !snapshot.living.is_all() || !snapshot.locks.iter().any(LockRow::has_unknown);
    let has_clients = snapshot.living.is_known()
        && (snapshot.living.trouble.is_some() || snapshot.processes.values().all(|process| process.is_asked));
    let is_searched =
        snapshot.sweep.completed.is_some() || snapshot.sweep.is_too_large || snapshot.sweep.trouble.is_some();
    has_health
        && match page {
            Page::Overview => snapshot.servers.is_known() && has_clients && is_searched && has_states,
            Page::Locks => has_clients && is_searched && has_states,
            Page::Lock => lock.is_none_or(|name| snapshot.watched.contains_key(name)),
            Page::Clients => has_clients,
            Page::Objects | Page::Doctor | Page::Events => true,
        }
}

/// Answers the overview.
pub(crate) async fn overview(
    State(app): State<Arc<App>>,
    Extension(permission): Extension<Permission>,
    uri: Uri,
) -> Response {
    show(&app, Page::Overview, &uri, &permission).await
}

/// Answers the list of locks.
pub(crate) async fn locks(
    State(app): State<Arc<App>>,
    Extension(permission): Extension<Permission>,
    uri: Uri,
) -> Response {
    show(&app, Page::Locks, &uri, &permission).await
}

/// Answers the page of one lock.
pub(crate) async fn lock(
    State(app): State<Arc<App>>,
    Extension(permission): Extension<Permission>,
    uri: Uri,
) -> Response {
    if Query::read(uri.query()).get("name").is_empty() {
        return problem(StatusCode::BAD_REQUEST, "No lock", "The address must name a lock: lock?name=…");
    }
    show(&app, Page::Lock, &uri, &permission).await
}

/// Answers the list of clients.
pub(crate) async fn clients(
    State(app): State<Arc<App>>,
    Extension(permission): Extension<Permission>,
    uri: Uri,
) -> Response {
    show(&app, Page::Clients, &uri, &permission).await
}

/// Answers the search for objects.
pub(crate) async fn objects(
    State(app): State<Arc<App>>,
    Extension(permission): Extension<Permission>,
    uri: Uri,
) -> Response {
    let query = Query::read(uri.query());
    let may_operate = permission.operator.is_some();
    let main = match objects::answer(&app, &query, may_operate).await {
        Ok(objects::Outcome::Moved(target)) => return see_other(&target),
        Ok(objects::Outcome::Shown(main)) => main,
        Err(response) => return *response,
    };
    unwatched(&app, Page::Objects, uri.query(), "", &main).await
}

/// Answers the checks of the settings, and starts them if there is no result, or on request.
pub(crate) async fn doctor(
    State(app): State<Arc<App>>,
    Extension(permission): Extension<Permission>,
    uri: Uri,
) -> Response {
    let is_asked = !Query::read(uri.query()).get("again").is_empty();
    if is_asked || !app.collector.snapshot().doctor.is_known() {
        app.collector.request_doctor();
    }
    show(&app, Page::Doctor, &uri, &permission).await
}

/// Answers the recorded actions.
pub(crate) async fn events(State(app): State<Arc<App>>, uri: Uri) -> Response {
    let actions = app.collector.inspector.recorded_actions().await;
    unwatched(&app, Page::Events, uri.query(), "", &events::frame(&actions)).await
}

/// Answers every other path; below a mount path, the first page, too.
pub(crate) async fn other(
    State(app): State<Arc<App>>,
    Extension(permission): Extension<Permission>,
    uri: Uri,
) -> Response {
    if crate::access::is_root(&uri) { show(&app, Page::Overview, &uri, &permission).await } else { not_found().await }
}
