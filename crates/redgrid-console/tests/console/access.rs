//! Requests that may see the console, and others.

use axum::body::Body;
use axum::http::StatusCode;
use axum::http::header::{AUTHORIZATION, CACHE_CONTROL, CONTENT_TYPE, COOKIE, HOST, ORIGIN, SET_COOKIE};
use redgrid_console::{Access, AccessToken, Console};

use crate::support::{Answer, Setup, TOKEN, get, get_with, request, respond, send};

const PAGES: [&str; 9] =
    ["/", "/locks", "/lock?name=a", "/clients", "/objects", "/doctor", "/events", "/action", "/live?page=locks"];

fn with_token(setup: &Setup) -> axum::Router {
    Console::new(&setup.client).token(AccessToken::new(TOKEN).expect("a token")).router()
}

async fn login(router: &axum::Router, body: &str, headers: &[(&str, &str)]) -> Answer {
    let mut request = request("POST", "/login").header(CONTENT_TYPE, "application/x-www-form-urlencoded");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    send(router, request.body(Body::from(body.to_owned())).expect("a request")).await
}

#[tokio::test]
async fn without_an_option_every_page_is_refused() {
    let setup = Setup::start().await;
    let router = Console::new(&setup.client).router();
    for page in PAGES.into_iter().chain(["/unknown"]) {
        assert_eq!(get(&router, page).await.status, StatusCode::FORBIDDEN, "{page}");
    }
    for page in ["/login", "/assets/unknown.css"] {
        assert_ne!(get(&router, page).await.status, StatusCode::OK, "{page}");
    }
}

#[tokio::test]
async fn the_closure_of_the_application_decides() {
    let setup = Setup::start().await;
    let may_read = |parts: &axum::http::request::Parts| match parts.headers.get("x-user") {
        Some(user) if user == "ada" => Access::Read,
        _ => Access::None,
    };
    let router = Console::new(&setup.client).access(may_read).router();
    let with = async |user: &str| {
        let request = request("GET", "/locks").header("x-user", user);
        send(&router, request.body(Body::empty()).expect("a request")).await.status
    };
    assert_eq!((with("ada").await, with("eve").await), (StatusCode::OK, StatusCode::FORBIDDEN));
}

#[tokio::test]
async fn the_token_is_exchanged_for_a_cookie() {
    let setup = Setup::start().await;
    let router = with_token(&setup);
    let page = get(&router, "/lock?name=a%20b").await;
    assert_eq!((page.status, page.location()), (StatusCode::SEE_OTHER, "login?next=lock%3Fname%3Da%2520b"));
    let form = get(&router, "/login?next=lock%3Fname%3Da%2520b").await;
    assert!(form.text.contains("lock?name=a%20b") && form.text.contains("type=\"password\""), "{}", form.text);
    assert_eq!(get(&router, "/live?page=locks").await.status, StatusCode::UNAUTHORIZED);

    let answer = login(&router, &format!("token={TOKEN}&next=locks"), &[]).await;
    assert_eq!((answer.status, answer.location()), (StatusCode::SEE_OTHER, "locks"));
    let cookie = answer.headers.get(SET_COOKIE).expect("a cookie").to_str().expect("text").to_owned();
    assert!(cookie.contains("; HttpOnly; SameSite=Strict; Max-Age=43200"), "{cookie}");
    assert!(!cookie.contains("Secure") && !cookie.contains(TOKEN), "{cookie}");
    let value = cookie.split(';').next().expect("a value");
    assert_eq!(get_with(&router, "/locks", &format!("other=1; {value}")).await.status, StatusCode::OK);
    let changed = format!("{value}x");
    assert_eq!(get_with(&router, "/locks", &changed).await.status, StatusCode::SEE_OTHER);
    let page = get(&router, "/locks").await;
    assert_eq!(page.status, StatusCode::SEE_OTHER);

    let secure = login(&router, &format!("token={TOKEN}"), &[("origin", "https://localhost:7979")]).await;
    let cookie = secure.headers.get(SET_COOKIE).expect("a cookie").to_str().expect("text");
    assert!(cookie.ends_with("; Secure"), "{cookie}");
    assert_eq!(secure.location(), "overview");
}

#[tokio::test]
async fn a_script_sends_the_token_itself() {
    let setup = Setup::start().await;
    let router = with_token(&setup);
    let with = async |value: &str| {
        let request = request("GET", "/locks").header(AUTHORIZATION, value).body(Body::empty());
        send(&router, request.expect("a request")).await.status
    };
    assert_eq!(with(&format!("Bearer {TOKEN}")).await, StatusCode::OK);
    assert_eq!(with("Bearer wrong").await, StatusCode::UNAUTHORIZED);
    // The password of a proxy is no token.
    assert_eq!(with("Basic dXNlcjpwYXNzd29yZA==").await, StatusCode::SEE_OTHER);
}

#[tokio::test]
async fn a_proxy_may_pass_on_its_own_password() {
    let setup = Setup::start().await;
    let router = with_token(&setup);
    let answer = login(&router, &format!("token={TOKEN}"), &[]).await;
    let cookie = answer.headers.get(SET_COOKIE).expect("a cookie").to_str().expect("text").to_owned();
    for _ in 0..10 {
        let request = request("GET", "/locks").header(AUTHORIZATION, "Basic dXNlcjpwYXNzd29yZA==");
        let request = request.header(COOKIE, cookie.split(';').next().expect("a value")).body(Body::empty());
        assert_eq!(send(&router, request.expect("a request")).await.status, StatusCode::OK);
    }
}

#[tokio::test]
async fn a_path_of_any_depth_is_not_redirected_again_and_again() {
    let setup = Setup::start().await;
    let router = with_token(&setup);
    for path in ["/x", "/x/y", "/locks/", "/x/login", "/locks/login?next=x", "//evil.example.com/"] {
        assert_eq!(get(&router, path).await.status, StatusCode::NOT_FOUND, "{path}");
    }
    assert_eq!(get(&router, "/").await.location(), "login");
}

#[tokio::test]
async fn another_site_may_link_to_a_page_and_not_load_it() {
    let setup = Setup::start().await;
    let router = setup.console();
    for (page, mode, dest, status) in [
        ("/locks", "navigate", "document", StatusCode::OK),
        ("/locks", "no-cors", "image", StatusCode::FORBIDDEN),
        ("/locks", "navigate", "iframe", StatusCode::FORBIDDEN),
        ("/doctor?again=1", "no-cors", "image", StatusCode::FORBIDDEN),
        ("/live?page=locks", "cors", "empty", StatusCode::FORBIDDEN),
        ("/live?page=locks", "navigate", "document", StatusCode::FORBIDDEN),
    ] {
        let request = request("GET", page).header("sec-fetch-site", "cross-site").header("sec-fetch-mode", mode);
        let request = request.header("sec-fetch-dest", dest).body(Body::empty()).expect("a request");
        assert_eq!(respond(&router, request).await.status(), status, "{page} {mode}");
    }
}

#[tokio::test]
async fn after_five_wrong_tokens_only_the_right_one_is_accepted() {
    let setup = Setup::start().await;
    let router = with_token(&setup);
    for _ in 0..5 {
        let wrong = login(&router, "token=wrong-wrong-wrong", &[]).await;
        assert_eq!(wrong.status, StatusCode::UNAUTHORIZED);
        assert!(wrong.headers.get(SET_COOKIE).is_none() && wrong.text.contains("not the token"), "{}", wrong.text);
    }
    let wrong = login(&router, "token=wrong-wrong-wrong", &[]).await;
    assert!(wrong.status == StatusCode::TOO_MANY_REQUESTS && wrong.headers["retry-after"] == "60");
    // Behind a proxy, all requests have its address.
    let right = login(&router, &format!("token={TOKEN}"), &[]).await;
    assert_eq!(right.status, StatusCode::SEE_OTHER);
}

#[tokio::test]
async fn the_login_of_another_site_is_refused() {
    let setup = Setup::start().await;
    let router = with_token(&setup);
    let body = format!("token={TOKEN}");
    for headers in [
        &[("sec-fetch-site", "cross-site")][..],
        &[("sec-fetch-site", "same-site")],
        &[("origin", "http://evil.example.com")],
        &[("origin", "null")],
    ] {
        let answer = login(&router, &body, headers).await;
        assert_eq!(answer.status, StatusCode::FORBIDDEN, "{headers:?}");
        assert!(answer.headers.get(SET_COOKIE).is_none());
    }
    let own = [("sec-fetch-site", "same-origin"), ("origin", "http://localhost:7979")];
    assert_eq!(login(&router, &body, &own).await.status, StatusCode::SEE_OTHER);
    // A body without bounds is not read.
    let long = login(&router, &format!("token={}", "x".repeat(1 << 20)), &[]).await;
    assert_eq!(long.status, StatusCode::PAYLOAD_TOO_LARGE);
}

#[tokio::test]
async fn a_foreign_host_is_refused() {
    let setup = Setup::start().await;
    let router = Console::new(&setup.client).access(|_| Access::Read).allow_host("console.example.com").router();
    let with = async |host: &str| {
        let request = axum::http::Request::builder().uri("/locks").header(HOST, host).body(Body::empty());
        send(&router, request.expect("a request")).await.status
    };
    for host in ["evil.example.com", "localhost.evil.example.com", ""] {
        assert_eq!(with(host).await, StatusCode::MISDIRECTED_REQUEST, "{host}");
    }
    for host in ["localhost", "127.0.0.1:1234", "[::1]:7979", "console.example.com:443"] {
        assert_eq!(with(host).await, StatusCode::OK, "{host}");
    }
}

#[tokio::test]
async fn every_response_has_the_security_headers() {
    let setup = Setup::start().await;
    let router = with_token(&setup);
    for path in ["/", "/login", "/unknown", "/live?page=locks"] {
        let headers = get(&router, path).await.headers;
        let policy = headers["content-security-policy"].to_str().expect("text");
        for part in ["default-src 'none'", "script-src 'self'", "frame-ancestors 'none'", "base-uri 'none'"] {
            assert!(policy.contains(part), "{path}: {policy}");
        }
        assert!(!policy.contains("unsafe"), "{policy}");
        assert_eq!(headers["x-content-type-options"], "nosniff", "{path}");
        assert_eq!(headers["referrer-policy"], "same-origin", "{path}");
        assert_eq!(headers[CACHE_CONTROL], "no-store", "{path}");
    }
}

#[tokio::test]
async fn only_the_login_accepts_a_post() {
    let setup = Setup::start().await;
    for router in [setup.console(), with_token(&setup)] {
        for path in PAGES.into_iter().chain(["/unknown", "/assets/x.css", "/lock/force"]) {
            for method in ["POST", "PUT", "PATCH", "DELETE"] {
                let request = request(method, path).header(ORIGIN, "http://localhost:7979");
                let answer = send(&router, request.body(Body::empty()).expect("a request")).await;
                assert_eq!(answer.status, StatusCode::NOT_FOUND, "{method} {path}");
            }
        }
    }
    let answer = send(&setup.console(), request("POST", "/login").body(Body::empty()).expect("a request")).await;
    assert_eq!(answer.status, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn a_cookie_of_another_name_is_ignored() {
    let setup = Setup::start().await;
    let router = with_token(&setup);
    for cookie in ["redgrid_console=", "redgrid_console", "redgrid_console=1.0.99999999999.AAAA", "x=y"] {
        let request = request("GET", "/locks").header(COOKIE, cookie).body(Body::empty());
        assert_eq!(send(&router, request.expect("a request")).await.status, StatusCode::SEE_OTHER, "{cookie}");
    }
}
