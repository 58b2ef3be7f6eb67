//! The check whether a request may see the console.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Instant;

use axum::extract::{ConnectInfo, OriginalUri, Request, State};
use axum::http::header::{AUTHORIZATION, COOKIE, RETRY_AFTER, WWW_AUTHENTICATE};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, Uri};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use redgrid_inspect::Operator;

use crate::actions::ACTION_PATH;
use crate::console::App;
use crate::hosts::host;
use crate::pages::{Page, no_such_page, not_found, problem, see_other};
use crate::text::{encoded, now_ms, visible};
use crate::token::AccessToken;

/// The path of the streams.
const LIVE: &str = "live";

/// The path of the metrics.
const METRICS: &str = "metrics";

/// The permission of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Access {
    /// The request may see nothing. If a [token](crate::Console::token) is set, it may log in.
    None,
    /// See all pages.
    Read,
    /// See all pages, and act, if the console [operates](crate::Console::operate).
    Operate,
}

/// The access closure of the application.
pub(crate) type Decide = Arc<dyn Fn(&Parts) -> Access + Send + Sync>;

/// Returns the name of the user of a request, for the record of actions.
pub(crate) type Identify = Arc<dyn Fn(&Parts) -> Option<String> + Send + Sync>;

/// The permission of a request, stored in its extensions.
#[derive(Debug, Clone)]
pub(crate) struct Permission {
    /// Until when the permission lasts, in seconds since 1970.
    pub(crate) until: Option<u64>,
    /// The operator, if the request may act.
    pub(crate) operator: Option<Operator>,
}

/// Answers 421 to a request for a foreign host.
pub(crate) async fn check_host(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    let (parts, body) = request.into_parts();
    if app.hosts.accept(&parts) {
        return next.run(Request::from_parts(parts, body)).await;
    }
    let host =
        host(&parts).map_or_else(|| "of this request".to_owned(), |host| format!("\u{201c}{}\u{201d}", visible(host)));
    let text = format!(
        "This console does not serve the host name {host}. Use an IP address, or add the name to the list \
         (allow_host, or --host of redgrid console)."
    );
    problem(StatusCode::MISDIRECTED_REQUEST, "Unknown host", &text)
}

/// Lets a request pass that may read; otherwise answers 401, 403 or 429, or redirects to the login.
pub(crate) async fn check_access(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    let (parts, body) = request.into_parts();
    let is_action = parts.uri.path() == ACTION_PATH;
    // Apart from actions, only the login accepts another method, and it is not behind this check.
    let is_accepted = match parts.method {
        Method::GET | Method::HEAD => true,
        Method::POST => app.operates && is_action,
        _ => false,
    };
    if !is_accepted {
        return not_found(parts.uri).await;
    }
    if is_embedded(&parts) {
        let text = "Another site may link to this page, but not load it.";
        return problem(StatusCode::FORBIDDEN, "Request of another site", text);
    }
    match permission(&app, &parts) {
        Ok(permission) if is_action && permission.operator.is_none() => not_found(parts.uri).await,
        Ok(permission) => {
            let mut request = Request::from_parts(parts, body);
            request.extensions_mut().insert(permission);
            next.run(request).await
        }
        Err(response) => *response,
    }
}

/// Returns what a request may do, if it may read; otherwise the response.
fn permission(app: &App, parts: &Parts) -> Result<Permission, Box<Response>> {
    let operator = |who: &str| {
        let from = address(parts).map_or_else(|| "an unknown address".to_owned(), |address| address.to_string());
        let who = (app.identify)(parts).unwrap_or_else(|| who.to_owned());
        app.operates.then(|| Operator::new(who, format!("console, {from}")))
    };
    let by_token = |until| Permission { until, operator: operator("the access token") };
    let access = (app.access)(parts);
    if access == Access::Operate {
        return Ok(Permission { until: None, operator: operator("the application's user") });
    }
    if access == Access::Read {
        // With the token, a request that the closure lets only read may act. Another
        // `Authorization` may be that of the application, so the request is answered as a reader.
        let until = app.operates.then(|| reader_token_until(app, parts)).flatten();
        return Ok(until.map_or(Permission { until: None, operator: None }, by_token));
    }
    if app.token.is_none() {
        return Err(Box::new(problem(
            StatusCode::FORBIDDEN,
            "No access",
            "The application that contains this console does not permit this request.",
        )));
    }
    if let Some(until) = token_until(app, parts) {
        return Ok(by_token(until));
    }
    if bearer(&parts.headers).is_some() {
        let is_one_of_few = app.throttle.failed(address(parts), Instant::now());
        return Err(Box::new(if is_one_of_few { unauthorized("The token is wrong.") } else { too_many() }));
    }
    let path = parts.uri.path().strip_prefix('/').unwrap_or_default();
    let is_scrape = app.scrapes.is_some() && path == METRICS;
    if path == LIVE || is_scrape || parts.method == Method::POST {
        return Err(Box::new(unauthorized("Log in first.")));
    }
    let is_action = app.operates && parts.uri.path() == ACTION_PATH;
    if !path.is_empty() && Page::of_path(path).is_none() && !is_action {
        // A relative link to the login would lead to a wrong path.
        return Err(Box::new(no_such_page(&parts.uri)));
    }
    let target = parts.uri.query().map_or_else(|| path.to_owned(), |query| format!("{path}?{query}"));
    let next = if target.is_empty() { String::new() } else { format!("?next={}", encoded(&target)) };
    Err(Box::new(see_other(&format!("login{next}"))))
}

/// Returns until when the token or the cookie of a request is valid, in seconds since 1970: `None`
/// if it has neither, `Some(None)` for the token itself.
fn token_until(app: &App, parts: &Parts) -> Option<Option<u64>> {
    let token = app.token.as_ref()?;
    if bearer(&parts.headers).is_some_and(|given| token.is(given)) {
        return Some(None);
    }
    cookie_until(token, parts)
}

/// Returns the same for a request that may read without the token. Its answer must not tell whether
/// a guess is right: after five wrong tokens of an address within a minute, no other is looked at.
fn reader_token_until(app: &App, parts: &Parts) -> Option<Option<u64>> {
    let token = app.token.as_ref()?;
    if let Some(given) = bearer(&parts.headers) {
        let (from, now) = (address(parts), Instant::now());
        if token.is(given) {
            if !app.reader_throttle.is_exhausted(from, now) {
                return Some(None);
            }
        } else {
            app.reader_throttle.failed(from, now);
        }
    }
    cookie_until(token, parts)
}

fn cookie_until(token: &AccessToken, parts: &Parts) -> Option<Option<u64>> {
    let (now_s, name) = (now_ms() / 1_000, token.cookie_name());
    let mut given = cookies(&parts.headers, &name);
    given.find_map(|cookie| token.valid_until(cookie, now_s)).map(Some)
}

/// Redirects a request for the mount path without a slash to the first page. Without the slash, the
/// relative links of the page would lead to wrong paths.
pub(crate) async fn leave_mount_path(request: Request, next: Next) -> Response {
    let original = request.extensions().get::<OriginalUri>().map_or(request.uri(), |original| &original.0);
    let last = original.path().rsplit('/').next().unwrap_or_default();
    if is_root(request.uri()) && !last.is_empty() {
        // With the prefix `./`, a last part with a colon is no scheme.
        return see_other(&format!("./{last}/overview"));
    }
    next.run(request).await
}

/// Returns whether an address, without the mount path, is that of the first page.
pub(crate) fn is_root(uri: &Uri) -> bool {
    uri.path().trim_start_matches('/').is_empty()
}

/// Returns whether a page of another site loads this address as a part of itself. A link to a page
/// is no part, but a browser never follows a link to a stream.
fn is_embedded(parts: &Parts) -> bool {
    let header = |name| parts.headers.get(name).and_then(|value: &HeaderValue| value.to_str().ok()).unwrap_or_default();
    let is_other_site = matches!(header("sec-fetch-site"), "cross-site" | "same-site");
    let is_link = header("sec-fetch-mode") == "navigate" && header("sec-fetch-dest") == "document";
    is_other_site && (!is_link || parts.uri.path().ends_with(LIVE))
}

/// Returns the token of `Authorization: Bearer`. Other schemes are none: a proxy may pass on the
/// password with which it protects itself.
fn bearer(headers: &HeaderMap) -> Option<&str> {
    let (scheme, token) = headers.get(AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then_some(token.trim())
}

fn cookies<'a>(headers: &'a HeaderMap, name: &'a str) -> impl Iterator<Item = &'a str> {
    let pairs = headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok()).flat_map(|all| all.split(';'));
    pairs.filter_map(move |pair| pair.trim().strip_prefix(name)?.strip_prefix('='))
}

/// Returns the address of the peer, if the server reports it.
pub(crate) fn address(parts: &Parts) -> Option<IpAddr> {
    parts.extensions.get::<ConnectInfo<SocketAddr>>().map(|info| info.0.ip())
}

/// Answers an address with too many wrong tokens.
pub(crate) fn too_many() -> Response {
    let text = "Too many wrong tokens came from this address within a minute. The right token is still accepted.";
    let response = problem(StatusCode::TOO_MANY_REQUESTS, "Too many tries", text);
    ([(RETRY_AFTER, "60")], response).into_response()
}

fn unauthorized(text: &str) -> Response {
    let response = problem(StatusCode::UNAUTHORIZED, "Not logged in", text);
    ([(WWW_AUTHENTICATE, "Bearer realm=\"redgrid console\"")], response).into_response()
}
