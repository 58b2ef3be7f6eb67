//! The stream of a page.

use axum::Router;
use axum::body::{Body, BodyDataStream};
use axum::http::StatusCode;
use axum::http::header::{CONTENT_TYPE, COOKIE};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use futures_util::StreamExt as _;
use redgrid_console::{AccessToken, Client, Console};
use redgrid_locks::Lock;
use ring::hmac;
use serde_json::Value;

use crate::support::{SOON, Setup, TOKEN, request, respond};

/// An open stream.
pub(crate) struct Stream {
    body: BodyDataStream,
    text: String,
    /// The type of the last message; empty for a change of the page.
    last_type: String,
}

impl Stream {
    /// Opens the stream of a page: its name, and its query.
    pub(crate) async fn open(router: &Router, page: &str) -> Self {
        let request = request("GET", &format!("/live?page={page}")).body(Body::empty()).expect("a request");
        let response = respond(router, request).await;
        assert_eq!(response.status(), StatusCode::OK);
        assert_eq!(response.headers()[CONTENT_TYPE], "text/event-stream");
        assert_eq!(response.headers()["x-accel-buffering"], "no");
        Stream::of(response.into_body())
    }

    fn of(body: Body) -> Self {
        Stream { body: body.into_data_stream(), text: String::new(), last_type: String::new() }
    }

    /// Returns the next message; `None` at the end.
    pub(crate) async fn next(&mut self) -> Option<Value> {
        loop {
            if let Some((event, rest)) = self.text.split_once("\n\n") {
                let data: Vec<&str> = event.lines().filter_map(|line| line.strip_prefix("data: ")).collect();
                let message = data.concat();
                let type_name = event.lines().find_map(|line| line.strip_prefix("event: "));
                self.last_type = type_name.unwrap_or_default().to_owned();
                self.text = rest.to_owned();
                if !message.is_empty() {
                    return Some(serde_json::from_str(&message).expect("JSON"));
                }
                continue;
            }
            let next = tokio::time::timeout(SOON, self.body.next()).await.expect("a message in time");
            self.text.push_str(std::str::from_utf8(&next?.expect("a body")).expect("text"));
        }
    }

    /// Returns the first message that contains a text.
    pub(crate) async fn until(&mut self, text: &str) -> Value {
        loop {
            let message = self.next().await.expect("a message");
            if message.to_string().contains(text) {
                return message;
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lock_appears_and_disappears_on_an_open_page() {
    let setup = Setup::start().await;
    let router = setup.console();
    let mut stream = Stream::open(&router, "locks").await;
    let first = stream.next().await.expect("a message");
    assert!(first["parts"]["status"].is_string() && first["now"].is_u64(), "{first}");
    let user = Client::connect(setup.server.url().as_str()).await.expect("a client");
    let held = Lock::new(&user, "job").acquire().await.expect("it is free");
    let shown = stream.until("lock?name=job").await;
    let id = shown["tables"]["locks"]["order"][0].as_str().expect("an id").to_owned();
    assert!(shown["tables"]["locks"]["rows"][&id].as_str().expect("a row").contains(&format!("id=\"{id}\"")));
    held.release().await.expect("it was held");
    loop {
        let message = stream.next().await.expect("a message");
        if message["tables"]["locks"]["order"] == serde_json::json!([]) {
            break;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_are_a_second_apart_and_only_have_changes() {
    let setup = Setup::start().await;
    let router = setup.console();
    setup.observer.cmd(&["HSET", "job", "0f8fad5b-d9cb-469f-a165-70867728950e:17", "1"]).await.expect("an answer");
    let mut stream = Stream::open(&router, "lock&name=job").await;
    // The state of the holder and of the server arrive in either order.
    let (mut is_foreign, mut is_live) = (false, false);
    while !(is_foreign && is_live) {
        let message = stream.next().await.expect("a message");
        is_foreign |= message["tables"]["holders"].to_string().contains("not redgrid");
        is_live |= message["parts"]["status"].to_string().contains("class=\\\"live\\\"");
    }
    let began = tokio::time::Instant::now();
    // A change several times within a second.
    for n in 0..20 {
        setup.observer.cmd(&["PEXPIRE", "job", &(60_000 + n * 60_000).to_string()]).await.expect("an answer");
    }
    let next = stream.until("data-until").await;
    assert!(began.elapsed() < SOON);
    assert!(next["parts"].get("status").is_none(), "{next}");
    let again = tokio::time::Instant::now();
    setup.observer.cmd(&["DEL", "job"]).await.expect("an answer");
    stream.until("free").await;
    assert!(again.elapsed() >= std::time::Duration::from_millis(500), "{:?}", again.elapsed());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_stream_says_when_the_server_is_away_and_back() {
    let setup = Setup::start().await;
    let router = setup.console();
    let mut stream = Stream::open(&router, "overview").await;
    stream.until("class=\\\"live\\\"").await;
    setup.server.kill().await.expect("it runs");
    stream.until("stale since").await;
    setup.server.restart_empty().await.expect("it starts");
    stream.until("class=\\\"live\\\"").await;
}

/// A cookie of the token that ends at this time, in seconds since 1970.
fn cookie_until(end: u64) -> String {
    let key = hmac::Key::new(hmac::HMAC_SHA256, TOKEN.as_bytes());
    let name: String = hmac::sign(&key, b"redgrid console cookie name").as_ref()[..4]
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    let body = format!("1.{}.{end}", end - 10);
    let tag = hmac::sign(&key, format!("redgrid console cookie {body}").as_bytes());
    format!("redgrid_console_{name}={body}.{}", URL_SAFE_NO_PAD.encode(tag))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_ends_with_its_cookie() {
    let setup = Setup::start().await;
    let router = Console::new(&setup.client).token(AccessToken::new(TOKEN).expect("a token")).router();
    let open = async |cookie: String| {
        let request = request("GET", "/live?page=locks").header(COOKIE, cookie);
        respond(&router, request.body(Body::empty()).expect("a request")).await
    };
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("after 1970").as_secs();
    assert_eq!(open(cookie_until(now)).await.status(), StatusCode::UNAUTHORIZED);
    let response = open(cookie_until(now + 4)).await;
    assert_eq!(response.status(), StatusCode::OK);
    let mut stream = Stream::of(response.into_body());
    // Changes would keep it open. After the last message, the page opens a new stream at once.
    let ended = async {
        let mut last = None;
        while let Some(message) = stream.next().await {
            last = Some(message);
        }
        last
    };
    let last = tokio::time::timeout(SOON, ended).await.expect("it ends with the cookie");
    assert_eq!((last, stream.last_type.as_str()), (Some(Value::Null), "end"));
}

#[tokio::test(flavor = "multi_thread")]
async fn at_most_256_pages_are_open() {
    let setup = Setup::start().await;
    let router = setup.console();
    let mut streams = Vec::new();
    for _ in 0..256 {
        streams.push(Stream::open(&router, "clients").await);
    }
    let one_more = request("GET", "/live?page=clients").body(Body::empty()).expect("a request");
    assert_eq!(respond(&router, one_more).await.status(), StatusCode::SERVICE_UNAVAILABLE);
    streams.pop();
    Stream::open(&router, "clients").await;
}
