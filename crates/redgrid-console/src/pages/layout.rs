//! The frame of all pages.

use axum::http::header::LOCATION;
use axum::http::{StatusCode, Uri};
use axum::response::{Html, IntoResponse, Response};
use maud::{DOCTYPE, Markup, html};

use super::Page;
use crate::assets::{ICON, SCRIPT, STYLE};
use crate::console::App;
use crate::view::View;

/// Parts of a path that are counted; with more of them, the page has no style.
const DEEPEST: usize = 32;

/// Makes a page with the navigation.
pub(super) fn page(
    app: &App,
    page: Page,
    query: Option<&str>,
    title: &str,
    view: &View,
    main: &Markup,
    now: u64,
) -> Response {
    let own = query.filter(|query| !query.is_empty());
    let live =
        own.map_or_else(|| format!("live?page={}", page.path()), |own| format!("live?page={}&{own}", page.path()));
    let here = own.map_or_else(|| current(page).path().to_owned(), |own| format!("{}?{own}", page.path()));
    let name = if title.is_empty() { page.title().to_owned() } else { format!("{title} · {}", page.title()) };
    let is_here = |one: Page| (one == current(page)).then_some("page");
    let body = html! {
        body data-live=(live) data-now=(now) {
            a.skip href="#main" { "Skip to the content" }
            header {
                div.bar {
                    p.brand { a href=(Page::Overview.path()) { "redgrid" } @if app.title != "redgrid" { " " span { (app.title) } } }
                    nav aria-label="Pages" {
                        ul {
                            @for one in Page::ALL.into_iter().filter(|one| current(*one) == *one) {
                                li { a href=(one.path()) aria-current=[is_here(one)] { (one.title()) } }
                            }
                        }
                    }
                }
                p #status role="status" { (view.get("status")) }
                noscript { p.hint { "This page does not update itself without script. " a href=(here) { "Refresh" } } }
            }
            main #main tabindex="-1" { (main) }
        }
    };
    document(StatusCode::OK, &format!("{name} · {}", app.title), "", &body)
}

/// Returns the page of the navigation to which a page belongs.
fn current(page: Page) -> Page {
    match page {
        Page::Lock => Page::Locks,
        Page::Queue => Page::Queues,
        Page::Action => Page::Events,
        page => page,
    }
}

/// Makes a page without the navigation.
pub(crate) fn bare_page(status: StatusCode, title: &str, main: &Markup) -> Response {
    document(status, title, "", &html! { body { main #main.bare { (main) } } })
}

/// Makes a document. `base` leads from its path to that of the console.
fn document(status: StatusCode, title: &str, base: &str, body: &Markup) -> Response {
    let text = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (title) }
                link rel="icon" href={ (base) "assets/" (ICON.name) };
                link rel="stylesheet" href={ (base) "assets/" (STYLE.name) };
                script type="module" src={ (base) "assets/" (SCRIPT.name) } {}
            }
            (body)
        }
    };
    (status, Html(text.into_string())).into_response()
}

/// Makes a page that says what is wrong, and what to do.
pub(crate) fn problem(status: StatusCode, title: &str, text: &str) -> Response {
    let body = html! { h1 { (title) } p { (text) } };
    bare_page(status, title, &body)
}

/// Answers a path, or a method, that does not exist.
pub(crate) async fn not_found(uri: Uri) -> Response {
    no_such_page(&uri)
}

/// Makes the page for a path that does not exist, which may have any depth.
pub(crate) fn no_such_page(uri: &Uri) -> Response {
    let depth = uri.path().matches('/').count().saturating_sub(1).min(DEEPEST);
    let base = "../".repeat(depth);
    let body = html! {
        body {
            main #main.bare {
                h1 { "Not found" }
                p { "The console has no such page. " a href={ (base) (Page::Overview.path()) } { "Overview" } }
            }
        }
    };
    document(StatusCode::NOT_FOUND, "Not found", &base, &body)
}

/// Redirects to a relative address.
pub(crate) fn see_other(target: &str) -> Response {
    // All targets are ASCII, as they are percent-encoded; another one leads to the first page.
    let is_ascii = target.bytes().all(|byte| byte.is_ascii_graphic());
    let target = if is_ascii { target.to_owned() } else { "overview".to_owned() };
    (StatusCode::SEE_OTHER, [(LOCATION, target)]).into_response()
}
