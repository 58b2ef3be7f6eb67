//! A console in another application, behind a proxy that strips a part of the path.

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{StatusCode, Uri};
use axum::response::{IntoResponse as _, Response};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

use crate::support::{Outcome, Setup, assert_silent, confirm, serve};

/// The path at the proxy, which it strips.
const PREFIX: &str = "/a/b";

/// A proxy of the server at this address.
fn proxy(target: String) -> Router {
    Router::new().fallback(forward).with_state(target)
}

async fn forward(State(target): State<String>, request: Request) -> Response {
    forwarded(&target, request)
        .await
        .unwrap_or_else(|error| (StatusCode::BAD_GATEWAY, error.to_string()).into_response())
}

async fn forwarded(target: &str, mut request: Request) -> Result<Response, Box<dyn std::error::Error + Send + Sync>> {
    let path = request.uri().path_and_query().map(ToString::to_string).unwrap_or_default();
    let Some(rest) = path.strip_prefix(PREFIX) else { return Ok(StatusCode::NOT_FOUND.into_response()) };
    *request.uri_mut() = rest.parse::<Uri>()?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(TcpStream::connect(target).await?)).await?;
    tokio::spawn(connection);
    Ok(sender.send_request(request).await?.map(Body::new))
}

#[tokio::test(flavor = "multi_thread")]
async fn b10_it_works_below_any_path_and_behind_a_proxy() -> Outcome {
    let Some(setup) = Setup::start().await else { return Ok(()) };
    let browser = &setup.browser;
    setup.hold(b"job").await;
    let app = Router::new().nest_service("/c", setup.operating().router());
    let inner = serve(app).await;
    let outer = serve(proxy(inner.trim_start_matches("http://").trim_end_matches('/').to_owned())).await;
    for base in [format!("{inner}c"), format!("{outer}a/b/c")] {
        // Without the final slash.
        browser.go(&base).await?;
        browser.until_shown("#status .live", "live").await?;
        assert_eq!(browser.url().await?, format!("{base}/overview"));
        for page in ["locks", "clients", "queues", "events"] {
            browser.click(&format!("nav a[href='{page}']")).await?;
            browser.until_shown("#status .live", "live").await?;
            assert_eq!(browser.url().await?, format!("{base}/{page}"));
            let has_style = "return getComputedStyle(document.querySelector('nav ul')).display === 'flex'";
            browser.until(has_style, &[]).await?;
        }
        setup.hold(b"later").await;
        browser.click("nav a[href='locks']").await?;
        browser.until_shown("#locks th", "later").await?;
        browser.click("#locks a[href='lock?name=later']").await?;
        browser.click("#holders a[href*='do=force']").await?;
        confirm(browser, "later", "test").await?;
        browser.until_shown("h1", "Done: later").await?;
        browser.click("main a[href='lock?name=later']").await?;
        browser.until_shown("#lock", "free").await?;
        assert_silent(browser).await?;
    }
    Ok(())
}
