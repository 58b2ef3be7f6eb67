//! The login: exchanges the token for a cookie.

use std::sync::Arc;
use std::time::Instant;

use axum::Form;
use axum::extract::State;
use axum::http::header::{ORIGIN, SET_COOKIE};
use axum::http::request::Parts;
use axum::http::{StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use maud::html;
use serde::Deserialize;

use crate::access::{address, too_many};
use crate::actions::ACTION_PATH;
use crate::console::App;
use crate::pages::{Page, bare_page, see_other};
use crate::query::Query;
use crate::text::now_ms;
use crate::token::COOKIE_LIFETIME_S;

/// Largest body of a login: 16 KiB.
pub(crate) const MAX_BODY: usize = 16 << 10;

/// The fields of the form.
#[derive(Deserialize)]
pub(crate) struct Fields {
    token: String,
    #[serde(default)]
    next: String,
}

/// Shows the form.
pub(crate) async fn form(State(app): State<Arc<App>>, uri: Uri) -> Response {
    let query = Query::read(uri.query());
    page(&app, StatusCode::OK, query.get("next"), None)
}

/// Checks the token, and sets the cookie.
pub(crate) async fn submit(State(app): State<Arc<App>>, parts: Parts, Form(fields): Form<Fields>) -> Response {
    let Some(token) = &app.token else { return StatusCode::NOT_FOUND.into_response() };
    if !token.is(fields.token.trim()) {
        if !app.throttle.failed(address(&parts), Instant::now()) {
            return too_many();
        }
        return page(&app, StatusCode::UNAUTHORIZED, &fields.next, Some("This is not the token."));
    }
    // The browser itself says whether it uses TLS; behind a proxy the server cannot see it.
    let is_secure = parts.headers.get(ORIGIN).is_some_and(|origin| origin.as_bytes().starts_with(b"https:"));
    let secure = if is_secure { "; Secure" } else { "" };
    // Without `Path`, the cookie is valid below the path of the console.
    let cookie = format!(
        "{}={}; HttpOnly; SameSite=Strict; Max-Age={COOKIE_LIFETIME_S}{secure}",
        token.cookie_name(),
        token.cookie(now_ms() / 1_000)
    );
    ([(SET_COOKIE, cookie)], see_other(target(&fields.next))).into_response()
}

/// Returns the page to which the login returns: one of the console's own, with its query.
fn target(next: &str) -> &str {
    let (page, _) = next.split_once('?').unwrap_or((next, ""));
    let is_plain = next.bytes().all(|byte| byte.is_ascii_graphic());
    let is_known = Page::of_path(page).is_some() || ACTION_PATH.strip_prefix('/') == Some(page);
    if is_plain && is_known { next } else { Page::Overview.path() }
}

fn page(app: &App, status: StatusCode, next: &str, fault: Option<&str>) -> Response {
    let body = html! {
        h1 { (app.title) }
        form.login method="post" action="login" {
            @if let Some(fault) = fault {
                p.fault role="alert" { (fault) }
            }
            label for="token" { "Access token" }
            input #token type="password" name="token" required autocomplete="current-password" autofocus;
            input type="hidden" name="next" value=(target(next));
            button type="submit" { "Log in" }
            p.hint { "The operator of the console has the token. " code { "redgrid console" } " prints it at its start." }
        }
    };
    bare_page(status, &format!("Log in · {}", app.title), &body)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_login_returns_to_pages_of_the_console_only() {
        for (next, page) in [
            ("locks", "locks"),
            ("lock?name=%2F%2Fevil", "lock?name=%2F%2Fevil"),
            ("action?do=delete&object=a", "action?do=delete&object=a"),
            ("", "overview"),
            ("//evil.example.com", "overview"),
            ("https://evil.example.com", "overview"),
            ("locks/../../evil", "overview"),
            ("locks\r\nx: y", "overview"),
            ("login", "overview"),
        ] {
            assert_eq!(target(next), page, "{next}");
        }
    }
}
