//! Who may see the console.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Instant;

use axum::extract::{ConnectInfo, OriginalUri, Request, State};
use axum::http::header::{AUTHORIZATION, COOKIE, WWW_AUTHENTICATE};
use axum::http::request::Parts;
use axum::http::{HeaderMap, Method, StatusCode, Uri};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use crate::console::App;
use crate::pages::{not_found, problem, see_other};
use crate::text::{encoded, now_ms};

/// The name of the cookie.
pub(crate) const COOKIE_NAME: &str = "redgrid_console";

/// What a request may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Access {
    /// Nothing. With a [token](crate::Console::token), the request can still log in.
    None,
    /// See all pages.
    Read,
}

/// The access closure of the application.
pub(crate) type Decide = Arc<dyn Fn(&Parts) -> Access + Send + Sync>;

/// Until when a request's permission lasts, in seconds since 1970; in the extensions of a request.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PermittedUntil(pub(crate) Option<u64>);

/// Answers 421 to a request for a foreign host.
pub(crate) async fn check_host(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    let (parts, body) = request.into_parts();
    if app.hosts.accept(&parts) {
        return next.run(Request::from_parts(parts, body)).await;
    }
    problem(
        StatusCode::MISDIRECTED_REQUEST,
        "Unknown host",
        "This console does not serve the host name of the address. Use an IP address, or add the name to the \
         list (allow_host, or --host of redgrid console).",
    )
}

/// Lets a request pass that may read; otherwise answers 401, 403 or 429, or redirects to the login.
pub(crate) async fn check_access(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    let (parts, body) = request.into_parts();
    // Only the login accepts another method, and it is not behind this check.
    if parts.method != Method::GET && parts.method != Method::HEAD {
        return not_found().await;
    }
    match permission(&app, &parts) {
        Ok(until) => {
            let mut request = Request::from_parts(parts, body);
            request.extensions_mut().insert(PermittedUntil(until));
            next.run(request).await
        }
        Err(response) => *response,
    }
}

/// Returns until when a request may read; otherwise the response.
fn permission(app: &App, parts: &Parts) -> Result<Option<u64>, Box<Response>> {
    if (app.access)(parts) == Access::Read {
        return Ok(None);
    }
    let Some(token) = &app.token else {
        return Err(Box::new(problem(
            StatusCode::FORBIDDEN,
            "No access",
            "The application that contains this console does not permit this request.",
        )));
    };
    if let Some(given) = bearer(&parts.headers) {
        let (address, now) = (address(parts), Instant::now());
        if !app.throttle.permits(address, now) {
            return Err(Box::new(too_many()));
        }
        if given.is_some_and(|given| token.is(given)) {
            return Ok(None);
        }
        app.throttle.failed(address, now);
        return Err(Box::new(unauthorized("The token is wrong.")));
    }
    let now_s = now_ms() / 1_000;
    if let Some(until) = cookies(&parts.headers).find_map(|cookie| token.valid_until(cookie, now_s)) {
        return Ok(Some(until));
    }
    let path = parts.uri.path().trim_start_matches('/');
    if path == "live" || path == "metrics" {
        return Err(Box::new(unauthorized("Log in first.")));
    }
    let target = parts.uri.query().map_or_else(|| path.to_owned(), |query| format!("{path}?{query}"));
    let next = if target.is_empty() { String::new() } else { format!("?next={}", encoded(&target)) };
    Err(Box::new(see_other(&format!("login{next}"))))
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

/// Returns the token of `Authorization: Bearer`: `None` without the header, `Some(None)` if it is
/// another scheme or no text.
fn bearer(headers: &HeaderMap) -> Option<Option<&str>> {
    let value = headers.get(AUTHORIZATION)?;
    let text = value.to_str().ok().and_then(|text| text.split_once(' '));
    Some(text.filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer")).map(|(_, token)| token.trim()))
}

fn cookies(headers: &HeaderMap) -> impl Iterator<Item = &str> {
    let pairs = headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok()).flat_map(|all| all.split(';'));
    pairs.filter_map(|pair| pair.trim().strip_prefix(COOKIE_NAME)?.strip_prefix('='))
}

/// Returns the address of the peer, if the server reports it.
pub(crate) fn address(parts: &Parts) -> Option<IpAddr> {
    parts.extensions.get::<ConnectInfo<SocketAddr>>().map(|info| info.0.ip())
}

/// Answers an address with too many wrong tokens.
pub(crate) fn too_many() -> Response {
    let text = "Too many wrong tokens came from this address. Wait for a minute.";
    problem(StatusCode::TOO_MANY_REQUESTS, "Too many tries", text)
}

fn unauthorized(text: &str) -> Response {
    let response = problem(StatusCode::UNAUTHORIZED, "Not logged in", text);
    ([(WWW_AUTHENTICATE, "Bearer realm=\"redgrid console\"")], response).into_response()
}
