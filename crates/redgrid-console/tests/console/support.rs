//! A console with a server, and requests to it.

use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::header::{COOKIE, HOST, LOCATION};
use axum::http::{HeaderMap, Request, Response, StatusCode};
use http_body_util::BodyExt as _;
use redgrid_console::{Access, Client, Config, Console};
use redgrid_testkit::{Observer, RedisServer};
use tower::ServiceExt as _;

/// For what takes milliseconds, on a busy machine.
pub(crate) const SOON: Duration = Duration::from_secs(60);

/// The token of consoles with a login.
pub(crate) const TOKEN: &str = "0123456789abcdef";

/// A server, and clients of it.
pub(crate) struct Setup {
    pub(crate) server: RedisServer,
    pub(crate) observer: Observer,
    /// The client of the console.
    pub(crate) client: Client,
}

impl Setup {
    pub(crate) async fn start() -> Self {
        let server = RedisServer::start().await.expect("a server");
        let observer = server.observer().await.expect("an observer");
        let client = Client::connect(server.url().as_str()).await.expect("a client");
        Setup { server, observer, client }
    }

    /// A console that everybody may see.
    pub(crate) fn console(&self) -> Router {
        let config = Config::from_url(self.server.url()).expect("a URL");
        Console::new(&self.client).access(|_| Access::Read).config(&config).router()
    }
}

/// The response of the console.
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) text: String,
}

impl Answer {
    /// Returns the address of a redirect.
    pub(crate) fn location(&self) -> &str {
        self.headers.get(LOCATION).expect("a redirect").to_str().expect("text")
    }
}

/// Starts a request for an accepted host.
pub(crate) fn request(method: &str, path: &str) -> axum::http::request::Builder {
    Request::builder().method(method).uri(path).header(HOST, "localhost:7979")
}

/// Sends a request, and returns the response with its body unread.
pub(crate) async fn respond(router: &Router, request: Request<Body>) -> Response<Body> {
    router.clone().oneshot(request).await.expect("infallible")
}

/// Sends a request.
pub(crate) async fn send(router: &Router, request: Request<Body>) -> Answer {
    let (parts, body) = respond(router, request).await.into_parts();
    let bytes = body.collect().await.expect("a body").to_bytes();
    let text = String::from_utf8(bytes.to_vec()).expect("text");
    Answer { status: parts.status, headers: parts.headers, text }
}

/// Requests a page.
pub(crate) async fn get(router: &Router, path: &str) -> Answer {
    send(router, request("GET", path).body(Body::empty()).expect("a request")).await
}

/// Requests a page with a cookie.
pub(crate) async fn get_with(router: &Router, path: &str, cookie: &str) -> Answer {
    send(router, request("GET", path).header(COOKIE, cookie).body(Body::empty()).expect("a request")).await
}

/// Requests a page until it shows a text.
pub(crate) async fn until_shown(router: &Router, path: &str, text: &str) -> String {
    let ends = tokio::time::Instant::now() + SOON;
    loop {
        let page = get(router, path).await;
        assert_eq!(page.status, StatusCode::OK, "{}", page.text);
        if page.text.contains(text) {
            return page.text;
        }
        assert!(tokio::time::Instant::now() < ends, "no {text:?} at {path}: {}", page.text);
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}
