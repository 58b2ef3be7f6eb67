//! Actions: permissions, the questions of the form, and the pages afterwards.

use axum::Router;
use axum::body::Body;
use axum::http::StatusCode;
use axum::http::header::{AUTHORIZATION, CONTENT_TYPE, COOKIE, LOCATION, ORIGIN, SET_COOKIE};
use redgrid_console::{Access, Client, Console};
use redgrid_locks::{Lock, LockGuard};
use redgrid_reliable_queue::ReliableQueue;
use redgrid_reliable_queue::codecs::Text;
use redgrid_testkit::{Action, Proxy, wait_until};

use crate::support::{Answer, SOON, Setup, TOKEN, get, request, send, until_shown};

/// A holder of Redisson.
const JAVA: &str = "0f8fad5b-d9cb-469f-a165-70867728950e:17";

impl Setup {
    /// A console in which everybody may act.
    pub(crate) fn operating(&self) -> Router {
        Console::new(&self.client).access(|_| Access::Operate).operate().router()
    }

    async fn hold(&self, name: &[u8]) {
        self.observer.cmd(&[b"HSET", name, JAVA.as_bytes(), b"1"]).await.expect("an answer");
        self.observer.cmd(&[b"PEXPIRE", name, b"600000"]).await.expect("an answer");
    }

    async fn exists(&self, name: &[u8]) -> bool {
        self.observer.query(&[b"EXISTS", name]).await.expect("an answer")
    }
}

/// Sends a form as a browser does.
pub(crate) async fn post(router: &Router, form: &str) -> Answer {
    post_with(router, form, &[("origin", "http://localhost:7979"), ("sec-fetch-site", "same-origin")]).await
}

async fn post_with(router: &Router, form: &str, headers: &[(&str, &str)]) -> Answer {
    let mut request = request("POST", "/action").header(CONTENT_TYPE, "application/x-www-form-urlencoded");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    send(router, request.body(Body::from(form.to_owned())).expect("a request")).await
}

/// Returns the first link to an action on a page, as a path.
pub(crate) fn action_link(page: &str, word: &str) -> String {
    let links = page.split("href=\"").filter_map(|rest| rest.split('"').next());
    let link = links.map(|link| link.replace("&amp;", "&")).find(|link| link.contains(&format!("do={word}&")));
    format!("/{}", link.unwrap_or_else(|| panic!("no link for {word}: {page}")))
}

/// Fills a form: its hidden fields as they are in the page, and the fields of the operator.
pub(crate) fn filled(page: &str, typed: &str, reason: &str) -> String {
    let encoded = |text: &str| {
        text.bytes()
            .map(|byte| if byte.is_ascii_alphanumeric() { (byte as char).to_string() } else { format!("%{byte:02X}") })
            .collect::<String>()
    };
    let attribute = |input: &str, name: &str| {
        let value = input.split(&format!(" {name}=\"")).nth(1)?.split('"').next()?;
        Some(value.replace("&quot;", "\"").replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&"))
    };
    let inputs = page.split("<input").filter(|input| input.starts_with(" type=\"hidden\""));
    let hidden = inputs.filter_map(|input| Some((attribute(input, "name")?, attribute(input, "value")?)));
    let written = [("typed".to_owned(), typed.to_owned()), ("reason".to_owned(), reason.to_owned())];
    let pairs = hidden.chain(written).map(|(name, value)| format!("{name}={}", encoded(&value)));
    pairs.collect::<Vec<_>>().join("&")
}

async fn held(setup: &Setup, name: &str) -> (Client, LockGuard) {
    let user = Client::connect(setup.server.url().as_str()).await.expect("a client");
    let guard = Lock::new(&user, name).acquire().await.expect("it is free");
    (user, guard)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lock_is_taken_away_after_confirmation_and_recorded() {
    let setup = Setup::start().await;
    let (user, guard) = held(&setup, "job").await;
    let router = setup.operating();
    let page = until_shown(&router, "/lock?name=job", user.id()).await;
    let confirm = get(&router, &action_link(&page, "force")).await;
    assert_eq!(confirm.status, StatusCode::OK, "{}", confirm.text);
    assert!(confirm.text.contains("Its client is connected") && confirm.text.contains(user.id()), "{}", confirm.text);
    assert!(guard.is_held(), "a GET changes nothing");

    // A wrong name, and no reason.
    for (typed, reason, says) in [
        ("jobs", "stuck", "The typed name is not that of the object"),
        ("", "stuck", "The typed name is not that of the object"),
        ("job", " ", "this one has 0"),
        ("job", &"x".repeat(201), "this one has 201"),
    ] {
        let refused = post(&router, &filled(&confirm.text, typed, reason)).await;
        assert_eq!(refused.status, StatusCode::UNPROCESSABLE_ENTITY, "{typed}");
        assert!(refused.text.contains(says) && refused.text.contains("<form class=\"confirm\""), "{}", refused.text);
    }
    assert!(guard.is_held() && !setup.exists(b"redgrid_audit").await);

    let done = post(&router, &filled(&confirm.text, "job", "<i>stuck</i>")).await;
    assert_eq!(done.status, StatusCode::OK, "{}", done.text);
    assert!(done.text.contains("The holder has lost the lock"), "{}", done.text);
    tokio::time::timeout(SOON, guard.lost()).await.expect("the holder is notified");
    let events = get(&router, "/events").await.text;
    for shown in
        ["force a lock", "<strong>done</strong>", "&lt;i&gt;stuck&lt;/i&gt;", "console, an unknown address", "held by"]
    {
        assert!(events.contains(shown), "{shown}: {events}");
    }

    // The form of a page that is old by now.
    wait_until(SOON, async || !setup.exists(b"job").await).await;
    let free = post(&router, &filled(&confirm.text, "job", "again")).await;
    assert_eq!(free.status, StatusCode::CONFLICT, "{}", free.text);
    assert!(free.text.contains("Nothing has changed: the lock was free"), "{}", free.text);
    let (next, kept) = held(&setup, "job").await;
    let passed = post(&router, &filled(&confirm.text, "job", "again")).await;
    assert_eq!(passed.status, StatusCode::CONFLICT, "{}", passed.text);
    assert!(passed.text.contains(&format!("it has passed to {}", next.id())), "{}", passed.text);
    let old = get(&router, &action_link(&page, "force")).await;
    assert_eq!(old.status, StatusCode::CONFLICT, "{}", old.text);
    assert!(old.text.contains("it has passed to") && !old.text.contains("<form"), "{}", old.text);
    kept.release().await.expect("it was held all the time");
}

#[tokio::test(flavor = "multi_thread")]
async fn without_operate_there_are_no_actions() {
    let setup = Setup::start().await;
    setup.hold(b"job").await;
    setup.observer.cmd(&["SET", "a", "1"]).await.expect("an answer");
    let readers = [
        setup.console(),
        Console::new(&setup.client).access(|_| Access::Operate).router(),
        Console::new(&setup.client).access(|_| Access::Read).operate().router(),
    ];
    let form = format!("do=force&object=job&holder={JAVA}&typed=job&reason=test");
    for router in &readers {
        let answer = post(router, &form).await;
        assert_eq!(answer.status, StatusCode::NOT_FOUND, "{}", answer.text);
        for path in [format!("/action?do=force&object=job&holder={JAVA}"), "/action".to_owned()] {
            assert_eq!(get(router, &path).await.status, StatusCode::NOT_FOUND);
        }
        let lock = until_shown(router, "/lock?name=job", "number 17").await;
        let search = get(router, "/objects?pattern=*").await;
        let objects = get(router, &format!("/{}", search.location())).await.text;
        for page in [lock, objects, get(router, "/events").await.text, get(router, "/locks").await.text] {
            assert!(!page.contains("action?") && !page.contains("method=\"post\""), "{page}");
        }
    }
    assert!(setup.exists(b"job").await && !setup.exists(b"redgrid_audit").await);
}

#[tokio::test(flavor = "multi_thread")]
async fn another_site_and_a_stranger_cannot_act() {
    let setup = Setup::start().await;
    setup.hold(b"job").await;
    let form = format!("do=force&object=job&holder={JAVA}&typed=job&reason=test");
    let router = setup.operating();
    for headers in [
        &[("sec-fetch-site", "cross-site")][..],
        &[("sec-fetch-site", "same-site")],
        &[("origin", "http://evil.example.com")],
        &[("origin", "null")],
    ] {
        let answer = post_with(&router, &form, headers).await;
        assert_eq!(answer.status, StatusCode::FORBIDDEN, "{headers:?}");
    }
    let long = post(&router, &format!("{form}&x={}", "x".repeat(1 << 20))).await;
    assert_eq!(long.status, StatusCode::PAYLOAD_TOO_LARGE);

    // With a token, requests must have logged in.
    let token = redgrid_console::AccessToken::new(TOKEN).expect("a token");
    let router = Console::new(&setup.client).token(token).operate().router();
    let stranger = post(&router, &form).await;
    assert_eq!(stranger.status, StatusCode::UNAUTHORIZED);
    let page = get(&router, &format!("/action?do=force&object=job&holder={JAVA}")).await;
    assert_eq!(page.status, StatusCode::SEE_OTHER);
    assert!(page.headers[LOCATION].to_str().expect("text").starts_with("login?next=action%3Fdo%3Dforce"));
    assert!(setup.exists(b"job").await && !setup.exists(b"redgrid_audit").await);
    let bearer = format!("Bearer {TOKEN}");
    let script = post_with(&router, &form, &[(AUTHORIZATION.as_str(), &bearer)]).await;
    assert_eq!(script.status, StatusCode::OK, "{}", script.text);
    let foreign = [(AUTHORIZATION.as_str(), bearer.as_str()), (ORIGIN.as_str(), "http://evil.example.com")];
    assert_eq!(post_with(&router, &form, &foreign).await.status, StatusCode::FORBIDDEN);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_record_names_the_user_of_the_application() {
    let setup = Setup::start().await;
    setup.observer.cmd(&["SET", "a", "1"]).await.expect("an answer");
    let user = |parts: &axum::http::request::Parts| {
        parts.headers.get("x-user").and_then(|user| user.to_str().ok()).map(str::to_owned)
    };
    let console = Console::new(&setup.client).access(|_| Access::Operate).identify(user).operate();
    let router = console.router();
    let form = "do=delete&object=a&typed=a&reason=test";
    let done = post_with(&router, form, &[("x-user", "ada <b>")]).await;
    assert_eq!(done.status, StatusCode::OK, "{}", done.text);
    let events = get(&router, "/events").await.text;
    assert!(events.contains("ada &lt;b&gt;"), "{events}");
}

#[tokio::test(flavor = "multi_thread")]
async fn without_the_record_nothing_is_freed() {
    let setup = Setup::start().await;
    setup.hold(b"job").await;
    let router = setup.operating();
    setup.server.deny(&["xadd"]).await.expect("an answer");
    let form = format!("do=force&object=job&holder={JAVA}&typed=job&reason=test");
    let refused = post(&router, &form).await;
    assert_eq!(refused.status, StatusCode::SERVICE_UNAVAILABLE, "{}", refused.text);
    assert!(
        refused.text.contains("cannot be recorded") && refused.text.contains("Nothing has changed"),
        "{}",
        refused.text
    );
    assert!(setup.exists(b"job").await && !setup.exists(b"redgrid_audit").await);
    setup.server.deny(&["xrevrange"]).await.expect("an answer");
    let events = get(&router, "/events").await;
    assert!(events.text.contains("Could not read the record"), "{}", events.text);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_reply_is_shown_as_unknown() {
    let setup = Setup::start().await;
    let proxy = Proxy::to(&setup.server).await.expect("a proxy");
    let client = Client::connect(setup.server.url_via(proxy.addr())).await.expect("a client");
    let router = Console::new(&client).access(|_| Access::Operate).operate().router();
    setup.observer.cmd(&["MSET", "a", "1", "b", "1"]).await.expect("an answer");
    let done = post(&router, "do=delete&object=a&typed=a&reason=test").await;
    assert_eq!(done.status, StatusCode::OK, "{}", done.text);
    proxy.next(1, "UNLINK", Action::CutAfterForward);
    let unknown = post(&router, "do=delete&object=b&typed=b&reason=test").await;
    assert_eq!(unknown.status, StatusCode::GATEWAY_TIMEOUT, "{}", unknown.text);
    assert!(unknown.text.contains("The outcome is unknown"), "{}", unknown.text);
    let events = get(&router, "/events").await.text;
    assert!(events.contains("<strong>unknown</strong>") && events.contains("<strong>done</strong>"), "{events}");
    assert!(!setup.exists(b"b").await, "it was executed");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_token_permits_actions_to_a_request_that_the_closure_lets_only_read() {
    let setup = Setup::start().await;
    setup.observer.cmd(&["SET", "a", "1"]).await.expect("an answer");
    let token = redgrid_console::AccessToken::new(TOKEN).expect("a token");
    let router = Console::new(&setup.client).access(|_| Access::Read).token(token).operate().router();
    let form = "do=delete&object=a&typed=a&reason=test";
    // Another `Authorization` is that of the application.
    for headers in [&[("authorization", "Bearer another")][..], &[]] {
        assert_eq!(post_with(&router, form, headers).await.status, StatusCode::NOT_FOUND, "{headers:?}");
    }
    assert!(setup.exists(b"a").await);
    let bearer = format!("Bearer {TOKEN}");
    let done = post_with(&router, form, &[("authorization", bearer.as_str())]).await;
    assert_eq!(done.status, StatusCode::OK, "{}", done.text);
    assert!(!setup.exists(b"a").await);
    let events = get(&router, "/events").await.text;
    assert!(events.contains("the access token"), "{events}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_may_read_cannot_guess_the_token() {
    let setup = Setup::start().await;
    setup.observer.cmd(&["SET", "a", "1"]).await.expect("an answer");
    let token = redgrid_console::AccessToken::new(TOKEN).expect("a token");
    let router = Console::new(&setup.client).access(|_| Access::Read).token(token).operate().router();
    let form = "do=delete&object=a&typed=a&reason=test";
    for nth in 0..5 {
        let guess = format!("Bearer guess{nth}guess{nth}guess");
        let answer = post_with(&router, form, &[("authorization", guess.as_str())]).await;
        assert_eq!(answer.status, StatusCode::NOT_FOUND, "{}", answer.text);
    }
    let bearer = format!("Bearer {TOKEN}");
    let right = post_with(&router, form, &[("authorization", bearer.as_str())]).await;
    assert_eq!(right.status, StatusCode::NOT_FOUND, "as the wrong ones: {}", right.text);
    assert!(setup.exists(b"a").await);
    let page = request("GET", "/overview").header(AUTHORIZATION, bearer.as_str());
    let page = send(&router, page.body(Body::empty()).expect("a request")).await;
    assert_eq!(page.status, StatusCode::OK, "it may read");

    // A user that has logged in may act.
    let login = request("POST", "/login").header(CONTENT_TYPE, "application/x-www-form-urlencoded");
    let login = send(&router, login.body(Body::from(format!("token={TOKEN}"))).expect("a request")).await;
    let cookie = login.headers[SET_COOKIE].to_str().expect("text").split(';').next().expect("a cookie").to_owned();
    let done = post_with(&router, form, &[(COOKIE.as_str(), cookie.as_str())]).await;
    assert_eq!(done.status, StatusCode::OK, "{}", done.text);
    assert!(!setup.exists(b"a").await);
}

#[tokio::test(flavor = "multi_thread")]
async fn hostile_names_survive_the_form() {
    let setup = Setup::start().await;
    let long = "x".repeat(1_024);
    let (controls, typed) = ("\x1b".repeat(1_024), "\\u{1b}".repeat(1_024));
    let names: [(&[u8], &str); 8] = [
        (b"<img src=x onerror=alert(1)>", "<img src=x onerror=alert(1)>"),
        (b"\"'&;--><script>", "\"'&;--><script>"),
        ("evil\u{202e}gpj".as_bytes(), "evil\\u{202e}gpj"),
        (b"nul\0and\x1b[31m\r\nlines", "nul\\u{0}and\\u{1b}[31m\\u{d}\\u{a}lines"),
        (b"  two  spaces  ", "  two  spaces  "),
        (b"not utf-8 \xff\xfe", "not utf-8 \\xff\\xfe"),
        (long.as_bytes(), &long),
        (controls.as_bytes(), &typed),
    ];
    let router = setup.operating();
    for (name, shown) in names {
        setup.observer.cmd(&[b"SET", name, b"1"]).await.expect("an answer");
        let search = get(&router, "/objects?pattern=*&kind=number").await;
        let objects = until_shown(&router, &format!("/{}", search.location()), "do=delete").await;
        let page = get(&router, &action_link(&objects, "delete")).await;
        assert_eq!(page.status, StatusCode::OK, "{}", page.text);
        for raw in ["<img", "<script>", "\u{202e}", "\0", "\x1b", "\r"] {
            assert!(!page.text.contains(raw), "{raw:?}: {}", page.text);
        }
        let wrong = post(&router, &filled(&page.text, &format!("{shown}x"), "test")).await;
        assert_eq!(wrong.status, StatusCode::UNPROCESSABLE_ENTITY, "{shown}");
        assert!(setup.exists(name).await);
        let done = post(&router, &filled(&wrong.text, shown, "test")).await;
        assert_eq!(done.status, StatusCode::OK, "{shown}: {}", done.text);
        assert!(!setup.exists(name).await, "{shown}");
    }
    let lock = "lock <b>\u{202e}\0\n\"&";
    setup.hold(lock.as_bytes()).await;
    let encoded = "lock%20%3Cb%3E%E2%80%AE%00%0A%22%26";
    let page = until_shown(&router, &format!("/lock?name={encoded}"), "number 17").await;
    let page = get(&router, &action_link(&page, "force")).await;
    let done = post(&router, &filled(&page.text, "lock <b>\\u{202e}\\u{0}\\u{a}\"&", "test")).await;
    assert_eq!(done.status, StatusCode::OK, "{}", done.text);
    wait_until(SOON, async || !setup.exists(lock.as_bytes()).await).await;
    let events = get(&router, "/events").await.text;
    assert!(
        !events.contains("<img") && !events.contains('\u{202e}') && events.contains("not utf-8 \\xff\\xfe"),
        "{events}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_queue_is_paused_and_resumed() {
    let setup = Setup::start().await;
    let jobs = ReliableQueue::<String, Text>::new(&setup.client, "jobs");
    jobs.push("a").await.expect("it is pushed");
    let page = until_shown(&setup.console(), "/queue?name=jobs", "running").await;
    assert!(!page.contains("action?"), "{page}");
    let router = setup.operating();
    for (shown, word, is_paused, says) in
        [("running", "pause", true, "The queue is paused"), ("paused", "resume", false, "The queue is resumed")]
    {
        let page = until_shown(&router, "/queue?name=jobs", &format!(">{shown}</span>")).await;
        let confirm = get(&router, &action_link(&page, word)).await;
        assert_eq!(confirm.status, StatusCode::OK, "{}", confirm.text);
        assert_eq!(jobs.is_paused().await.expect("an answer"), !is_paused, "a GET changes nothing");
        let done = post(&router, &filled(&confirm.text, "jobs", "an incident")).await;
        assert!(done.status == StatusCode::OK && done.text.contains(says), "{}", done.text);
        assert_eq!(jobs.is_paused().await.expect("an answer"), is_paused);
        let again = post(&router, &filled(&confirm.text, "jobs", "an incident")).await;
        assert_eq!(again.status, StatusCode::CONFLICT, "{}", again.text);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn parameters_that_name_no_action_are_a_bad_request() {
    let setup = Setup::start().await;
    let router = setup.operating();
    for query in [
        "",
        "do=flush&object=a",
        "do=force&object=a",
        "do=delete",
        "do=redrive&object=a&id=7",
        "do=permit&object=%25ff",
    ] {
        let answer = get(&router, &format!("/action?{query}")).await;
        assert_eq!(answer.status, StatusCode::BAD_REQUEST, "{query}");
        assert_eq!(post(&router, query).await.status, StatusCode::BAD_REQUEST, "{query}");
    }
    let record = post(&router, "do=delete&object=redgrid_audit&typed=redgrid_audit&reason=test").await;
    assert_eq!(record.status, StatusCode::FORBIDDEN, "{}", record.text);
    let lifetime = post(&router, "do=lifetime&object=a&lifetime=soon&typed=a&reason=test").await;
    assert_eq!(lifetime.status, StatusCode::UNPROCESSABLE_ENTITY, "{}", lifetime.text);
}
