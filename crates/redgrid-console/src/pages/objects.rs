//! The explorer of objects: a form, and the pages of a search.

use axum::http::StatusCode;
use axum::response::Response;
use maud::{Markup, html};
use redgrid_inspect::{ObjectFilter, ObjectKind, ObjectView};

use super::problem;
use crate::actions::link;
use crate::console::App;
use crate::object_name::id_of;
use crate::query::Query;
use crate::search::{Found, REST, SearchError};
use crate::text::{count, duration, encoded, name, number};

/// Longest pattern: longer than every name.
const LONGEST_PATTERN: usize = 4_096;

/// The page that answers a request.
pub(super) enum Outcome {
    /// To a new search, at this address.
    Moved(String),
    /// To the form, or a page of a search.
    Shown(Markup),
}

/// Answers the form, starts a search, or shows a page of it.
pub(super) async fn answer(app: &App, query: &Query, may_operate: bool) -> Result<Outcome, Box<Response>> {
    let (pattern, kind) = (query.get("pattern"), query.get("kind"));
    let id = query.get("search");
    if !id.is_empty() {
        let page = query.page();
        let found = app.searches.page(id, page).await.map_err(|error| Box::new(failure(&error)))?;
        return Ok(Outcome::Shown(html! {
            (form(&found.pattern, &found.kind))
            (results(id, page, &found, may_operate))
        }));
    }
    if pattern.is_empty() && kind.is_empty() {
        return Ok(Outcome::Shown(form("", "")));
    }
    if pattern.len() > LONGEST_PATTERN {
        let text = "The pattern is longer than every name can be.";
        return Err(Box::new(problem(StatusCode::BAD_REQUEST, "Pattern too long", text)));
    }
    let Some(kinds) = kinds_of(kind) else {
        let text = "There is no such kind of object.";
        return Err(Box::new(problem(StatusCode::BAD_REQUEST, "Unknown kind", text)));
    };
    let filter = ObjectFilter::new().matching(pattern).of_kinds(kinds).rest(REST);
    let objects = app.collector.inspector.objects(&filter);
    let id = app.searches.start(objects, pattern, kind).map_err(|error| Box::new(failure(&error)))?;
    Ok(Outcome::Moved(format!("objects?search={id}")))
}

/// Returns the kinds of a value of the form; `None` if it is none.
fn kinds_of(value: &str) -> Option<Vec<ObjectKind>> {
    match value {
        "" | "all" => Some(Vec::new()),
        "locks" => Some(ObjectKind::ALL.into_iter().filter(|kind| kind.is_lock()).collect()),
        value => ObjectKind::ALL.into_iter().find(|kind| kind.as_str() == value).map(|kind| vec![kind]),
    }
}

fn failure(error: &SearchError) -> Response {
    match error {
        SearchError::TooMany => problem(
            StatusCode::TOO_MANY_REQUESTS,
            "Too many searches",
            "16 searches are open. One ends when it was not used for a minute. Try again then.",
        ),
        SearchError::Unknown => problem(
            StatusCode::NOT_FOUND,
            "The search has ended",
            "A search ends when it was not used for a minute. Start it again on the page Objects.",
        ),
    }
}

fn form(pattern: &str, kind: &str) -> Markup {
    html! {
        h1 { "Objects" }
        form.filter method="get" action="objects" role="search" aria-label="Search for objects" {
            label { "Pattern of the names" input type="search" name="pattern" value=(pattern) placeholder="orders:*"; }
            label { "Kind"
                select name="kind" {
                    option value="all" { "any" }
                    option value="locks" selected[kind == "locks"] { "locks of all kinds" }
                    @for one in ObjectKind::ALL.into_iter().filter(|one| *one != ObjectKind::Unknown) {
                        option value=(one.as_str()) selected[kind == one.as_str()] { (one.as_str()) }
                    }
                }
            }
            button type="submit" { "Search" }
        }
        p.hint {
            "A search reads all keys once. All searches together take at most 10 % of the time of a node. After 2 s the page \
             shows what was found; \u{201c}Continue the search\u{201d} goes on. A million keys take some 10 s. * stands for any text, ? for one character, [ab] for a or b. Values are not read."
        }
    }
}

fn results(id: &str, page: usize, found: &Found, may_operate: bool) -> Markup {
    let address = |page: usize| format!("objects?search={}&p={page}", encoded(id));
    let more = found.is_more;
    html! {
        @if let Some(trouble) = &found.trouble {
            p.fault { "The search ended early: " (crate::text::visible(trouble)) "." }
        }
        p.hint {
            (count(found.total, "object")) " found"
            @if found.is_running { " so far. " a href=(address(page)) { "Continue the search" } }
            @if found.is_cut { ". The search ends here; a narrower pattern finds the others" }
            "."
        }
        div.scroll tabindex="0" role="region" aria-label="Objects" {
            table {
                caption { "Objects found, without the keys that belong to them" }
                thead { tr {
                    th scope="col" { "Name" }
                    th scope="col" { "Kind" }
                    th.n scope="col" { "Size" }
                    th scope="col" { "Lifetime" }
                    @if may_operate { th scope="col" { "Actions" } }
                } }
                tbody { @for object in &found.objects { (row(object, may_operate)) } }
            }
        }
        nav.pages aria-label="Pages of the search" {
            @if page > 1 { a rel="prev" href=(address(page - 1)) { "Previous" } }
            span { "Page " (page) }
            @if more { a rel="next" href=(address(page + 1)) { "Next" } }
        }
    }
}

fn row(object: &ObjectView, may_operate: bool) -> Markup {
    html! {
        tr {
            th scope="row" {
                @if object.name_bytes.is_empty() { (name(&object.name)) }
                @else if object.kind.is_lock() {
                    a href={ "lock?name=" (encoded(&id_of(&object.name_bytes))) } { (name(&object.name)) }
                } @else if object.kind == ObjectKind::ReliableQueue {
                    a href={ "queue?name=" (encoded(&id_of(&object.name_bytes))) } { (name(&object.name)) }
                } @else { (name(&object.name)) }
            }
            td.w { (object.kind.as_str()) }
            td.n { (object.size.map_or_else(|| "–".to_owned(), number)) }
            td { (object.lifetime.map_or_else(|| "none".to_owned(), duration)) }
            @if may_operate { td.actions { @if !object.name_bytes.is_empty() { (actions(object)) } } }
        }
    }
}

/// Returns links to the actions on an object. The page of a lock has those on its holders.
fn actions(object: &ObjectView) -> Markup {
    let link = |word: &str, more: &[(&str, &str)]| link(word, &object.name_bytes, more);
    html! {
        @if object.kind == ObjectKind::ReliableQueue {
            a href=(link("redrive", &[("id", "all")])) { "Redrive dead letters" }
            a href=(link("remove", &[("id", "all")])) { "Remove dead letters" }
        }
        @if object.kind == ObjectKind::PermitExpirableSemaphore {
            a href=(link("permit", &[])) { "Give a permit back" }
        }
        @if !object.kind.is_lock() {
            a href=(link("delete", &[])) { "Delete" }
            a href=(link("lifetime", &[])) { "Set lifetime" }
        }
    }
}
