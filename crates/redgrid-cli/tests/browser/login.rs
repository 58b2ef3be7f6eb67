//! The login, and the permissions to see the console and to act.

use std::time::{SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use redgrid_console::{AccessToken, Console};
use ring::hmac;
use serde_json::json;

use crate::support::{JAVA, Outcome, Setup, assert_not_reloaded, mark};

const TOKEN: &str = "0123456789abcdef";

/// The name and the value of a cookie that ends at this time, in seconds since 1970.
fn cookie_until(end: u64) -> (String, String) {
    let key = hmac::Key::new(hmac::HMAC_SHA256, TOKEN.as_bytes());
    let name = hmac::sign(&key, b"redgrid console cookie name");
    let digits: String = name.as_ref()[..4].iter().map(|byte| format!("{byte:02x}")).collect();
    let body = format!("1.{}.{end}", end - 10);
    let tag = hmac::sign(&key, format!("redgrid console cookie {body}").as_bytes());
    (format!("redgrid_console_{digits}"), format!("{body}.{}", URL_SAFE_NO_PAD.encode(tag)))
}

fn now_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_secs()
}

#[tokio::test(flavor = "multi_thread")]
async fn b4_without_operate_no_page_offers_an_action() -> Outcome {
    let Some(setup) = Setup::start().await else { return Ok(()) };
    let browser = &setup.browser;
    setup.hold(b"job").await;
    setup.observer.cmd(&["SET", "a", "1"]).await?;
    let jobs = setup.grid.reliable_queue::<String>("jobs");
    jobs.push("a").await?;
    let url = setup.open(setup.reading(), "lock?name=job").await?;
    browser.until_shown("#holders th", "number 17").await?;
    let pages =
        ["lock?name=job", "overview", "locks", "queues", "queue?name=jobs", "clients", "objects?pattern=*", "events"];
    for page in pages {
        browser.go(&format!("{url}{page}")).await?;
        browser.until_shown("#status", "live").await?;
        let found = "return document.querySelectorAll('[href*=action], form[method=post]').length";
        assert_eq!(browser.execute(found, &[]).await?, json!(0), "{page}");
    }
    let form = format!("do=force&object=job&holder={JAVA}&typed=job&reason=test");
    let post = "return fetch('action', { method: 'POST', body: new URLSearchParams(arguments[0]) })
        .then((answer) => answer.status)";
    assert_eq!(browser.execute(post, &[json!(form)]).await?, json!(404));
    assert!(setup.exists(b"job").await && !setup.exists(b"redgrid_audit").await);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn b5_only_the_token_opens_the_console() -> Outcome {
    let Some(setup) = Setup::start().await else { return Ok(()) };
    let browser = &setup.browser;
    setup.hold(b"job").await;
    let console = || Console::new(setup.grid.client()).token(AccessToken::new(TOKEN).expect("a token"));
    let url = setup.open(console(), "locks?q=jo").await?;
    browser.until_shown("label", "Access token").await?;
    assert!(!browser.text("body").await?.unwrap_or_default().contains("job"));
    browser.fill("#token", "wrong-wrong-wrong").await?;
    browser.click("form.login button").await?;
    browser.until_shown("[role=alert]", "This is not the token").await?;
    browser.fill("#token", TOKEN).await?;
    browser.click("form.login button").await?;
    // The page that was asked for, with its query.
    browser.until_shown("#locks th", "job").await?;
    assert_eq!(browser.url().await?, format!("{url}locks?q=jo"));
    // Scripts of the page cannot read the cookie.
    assert_eq!(browser.execute("return document.cookie", &[]).await?, json!(""));
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn b5_a_page_whose_login_ends_asks_for_a_new_one() -> Outcome {
    let Some(setup) = Setup::start().await else { return Ok(()) };
    let browser = &setup.browser;
    let console = Console::new(setup.grid.client()).token(AccessToken::new(TOKEN).expect("a token"));
    let url = setup.open(console, "login").await?;
    let (name, value) = cookie_until(now_s() + 15);
    browser.set_cookie(&name, &value).await?;
    browser.go(&format!("{url}locks?state=gone")).await?;
    browser.until_shown("#status .live", "live").await?;
    mark(browser).await?;
    browser.until_shown("#status .stale", "stale since").await?;
    browser.until_shown("#status", "the login has ended").await?;
    assert_not_reloaded(browser).await?;
    browser.click("#status a").await?;
    browser.fill("#token", TOKEN).await?;
    browser.click("form.login button").await?;
    browser.until_shown("#status .live", "live").await?;
    assert_eq!(browser.url().await?, format!("{url}locks?state=gone"));
    Ok(())
}
