//! The pages: HTML from what the collector knows.

mod clients;
mod contention;
mod doctor;
mod events;
mod layout;
mod limiters;
mod listed;
mod lock;
mod locks;
mod objects;
mod overview;
mod page;
mod queue;
mod queues;
mod streams;
mod synchronizers;

use std::sync::Arc;
use std::time::Duration;

use axum::Extension;
use axum::extract::State;
use axum::http::{StatusCode, Uri};
use axum::response::Response;
use maud::{Markup, html};

pub(crate) use self::layout::{bare_page, no_such_page, not_found, problem, see_other};
pub(crate) use self::page::Page;
use crate::access::Permission;
use crate::collector::Interest;
use crate::console::App;
use crate::listed::Group;
use crate::query::Query;
use crate::snapshot::{Reading, Snapshot};
use crate::text::{clock, now_ms};
use crate::view::View;

/// How long a page waits for its first data before it is shown without them.
const FIRST_DATA: Duration = Duration::from_millis(1_500);

/// The content of a page, apart from its query.
pub(crate) struct Content<'a> {
    pub(crate) snapshot: &'a Snapshot,
    pub(crate) query: &'a Query,
    pub(crate) now: u64,
    /// Whether the page offers actions.
    pub(crate) may_operate: bool,
}

/// Returns what the collector has to read for a page.
pub(crate) fn interest(page: Page, query: &Query) -> Interest {
    let is_of_one = matches!(page, Page::Lock | Page::Queue);
    let name = Some(query.get("name")).filter(|name| is_of_one && !name.is_empty());
    Interest { page, name: name.map(str::to_owned) }
}

/// Returns the live content of a page, and the names of the objects in its list.
pub(crate) fn view(page: Page, content: &Content<'_>) -> (View, Vec<String>) {
    let mut view = View::default();
    view.part("status", status(content.snapshot));
    let names = match page {
        Page::Overview => overview::view(content, &mut view),
        Page::Locks => locks::view(content, &mut view),
        Page::Lock => lock::view(content, &mut view),
        Page::Contention => contention::view(content, &mut view),
        Page::Queues => queues::view(content, &mut view),
        Page::Queue => queue::view(content, &mut view),
        Page::Synchronizers => synchronizers::view(content, &mut view),
        Page::Limiters => limiters::view(content, &mut view),
        Page::Streams => streams::view(content, &mut view),
        Page::Clients => clients::view(content, &mut view),
        Page::Events => events::view(content, &mut view),
        Page::Objects | Page::Action => Vec::new(),
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

/// Shows why a source does not answer. Older data stays on the page.
fn trouble<T>(reading: &Reading<T>, what: &str) -> Markup {
    html! {
        @if let Some((why, since)) = &reading.trouble {
            p.fault {
                "Could not read " (what) " since " (clock(*since)) " UTC: " (crate::text::visible(why)) "."
            }
        }
    }
}

/// Answers with a page: its content in the frame.
async fn show(app: &Arc<App>, page: Page, uri: &Uri, permission: &Permission) -> Response {
    let query = Query::read(uri.query());
    let interest = interest(page, &query);
    let name = interest.name.clone();
    app.collector.touch(interest);
    let may_operate = permission.operator.is_some();
    let mut snapshot = app.collector.when(FIRST_DATA, |snapshot| is_known(page, name.as_deref(), snapshot)).await;
    if let Some(group) = Group::of(page) {
        // Without script, only requests read the objects of the list.
        let (_, names) = view(page, &Content { snapshot: &snapshot, query: &query, now: now_ms(), may_operate });
        app.collector.refresh(group, names, FIRST_DATA).await;
        snapshot = app.collector.snapshot();
    }
    let content = Content { snapshot: &snapshot, query: &query, now: now_ms(), may_operate };
    let (view, _) = view(page, &content);
    let (title, main) = match page {
        Page::Overview => (String::new(), overview::frame(&view)),
        Page::Locks => (String::new(), locks::frame(&content, &view)),
        Page::Lock => (crate::text::visible(query.get("name")), lock::frame(&content, &view)),
        Page::Contention => (String::new(), contention::frame(&content, &view)),
        Page::Queues => (String::new(), queues::frame(&content, &view)),
        Page::Synchronizers => (String::new(), synchronizers::frame(&content, &view)),
        Page::Limiters => (String::new(), limiters::frame(&content, &view)),
        Page::Streams => (String::new(), streams::frame(&content, &view)),
        Page::Clients => (String::new(), clients::frame(&view)),
        // The contents of these pages come from requests of their own.
        Page::Objects | Page::Queue | Page::Events | Page::Action => (String::new(), html! {}),
        Page::Doctor => (String::new(), doctor::frame(app, &view)),
    };
    layout::page(app, page, uri.query(), &title, &view, &main, content.now)
}

/// Makes a page with content that is not from the collector and does not update itself.
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
fn is_known(page: Page, name: Option<&str>, snapshot: &Snapshot) -> bool {
    let has_health = snapshot.health.is_known();
    // One round of questions, not an answer of each client: some may not report, and new ones come.
    let has_clients = snapshot.living.is_known()
        && (snapshot.living.trouble.is_some() || snapshot.processes.is_empty() || snapshot.questions.is_known());
    let is_searched =
        snapshot.sweep.completed.is_some() || snapshot.sweep.is_too_large || snapshot.sweep.trouble.is_some();
    has_health
        && match page {
            Page::Overview => snapshot.servers.is_known() && has_clients && is_searched,
            Page::Locks => has_clients && is_searched,
            Page::Lock => name.is_none_or(|name| snapshot.watched.contains_key(name)),
            Page::Queue => name.is_none_or(|name| snapshot.list(Group::Queues).read.contains_key(name)),
            Page::Queues | Page::Synchronizers | Page::Limiters | Page::Streams => {
                Group::of(page).is_none_or(|group| snapshot.list(group).is_searched())
            }
            Page::Clients | Page::Contention | Page::Events => has_clients,
            Page::Objects | Page::Doctor | Page::Action => true,
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

/// Answers the names that tasks wait for.
pub(crate) async fn contention(
    State(app): State<Arc<App>>,
    Extension(permission): Extension<Permission>,
    uri: Uri,
) -> Response {
    show(&app, Page::Contention, &uri, &permission).await
}

/// Answers the list of reliable queues.
pub(crate) async fn queues(
    State(app): State<Arc<App>>,
    Extension(permission): Extension<Permission>,
    uri: Uri,
) -> Response {
    show(&app, Page::Queues, &uri, &permission).await
}

/// Answers the list of synchronizers.
pub(crate) async fn synchronizers(
    State(app): State<Arc<App>>,
    Extension(permission): Extension<Permission>,
    uri: Uri,
) -> Response {
    show(&app, Page::Synchronizers, &uri, &permission).await
}

/// Answers the list of rate limiters.
pub(crate) async fn limiters(
    State(app): State<Arc<App>>,
    Extension(permission): Extension<Permission>,
    uri: Uri,
) -> Response {
    show(&app, Page::Limiters, &uri, &permission).await
}

/// Answers the list of topics, streams and caches.
pub(crate) async fn streams(
    State(app): State<Arc<App>>,
    Extension(permission): Extension<Permission>,
    uri: Uri,
) -> Response {
    show(&app, Page::Streams, &uri, &permission).await
}

/// Answers the page of one queue, with the messages that it has now.
pub(crate) async fn queue(
    State(app): State<Arc<App>>,
    Extension(permission): Extension<Permission>,
    uri: Uri,
) -> Response {
    let query = Query::read(uri.query());
    let name = query.get("name");
    if name.is_empty() {
        return problem(StatusCode::BAD_REQUEST, "No queue", "The address must name a queue: queue?name=…");
    }
    app.collector.touch(interest(Page::Queue, &query));
    let (group, first) = queue::selected(&query);
    let read = tokio::time::timeout(FIRST_DATA, app.collector.inspector.messages(name, group, first));
    let known = app.collector.when(FIRST_DATA, |snapshot| is_known(Page::Queue, Some(name), snapshot));
    let (messages, snapshot) = tokio::join!(read, known);
    let messages = match messages {
        Ok(messages) => messages.map_err(|error| error.to_string()),
        Err(_) => Err("the server does not answer".to_owned()),
    };
    let may_operate = permission.operator.is_some();
    let content = Content { snapshot: &snapshot, query: &query, now: now_ms(), may_operate };
    let (view, _) = view(Page::Queue, &content);
    let main = queue::frame(&content, &view, &messages);
    layout::page(&app, Page::Queue, uri.query(), &crate::text::visible(name), &view, &main, content.now)
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

/// Answers the recorded actions as they are now, and the events that processes report.
pub(crate) async fn events(State(app): State<Arc<App>>, uri: Uri) -> Response {
    let query = Query::read(uri.query());
    app.collector.touch(interest(Page::Events, &query));
    let known = app.collector.when(FIRST_DATA, |snapshot| is_known(Page::Events, None, snapshot));
    // A user that only reads need not be permitted to read the record.
    let record = async { if app.operates { Some(app.collector.inspector.recorded_actions().await) } else { None } };
    let (actions, snapshot) = tokio::join!(record, known);
    let content = Content { snapshot: &snapshot, query: &query, now: now_ms(), may_operate: false };
    let (view, _) = view(Page::Events, &content);
    let main = events::frame(&view, actions.as_ref());
    layout::page(&app, Page::Events, uri.query(), "", &view, &main, content.now)
}

/// Answers every other path; below a mount path, the first page, too.
pub(crate) async fn other(
    State(app): State<Arc<App>>,
    Extension(permission): Extension<Permission>,
    uri: Uri,
) -> Response {
    if crate::access::is_root(&uri) { show(&app, Page::Overview, &uri, &permission).await } else { no_such_page(&uri) }
}
