//! Pages of other sites that post to the console, and frame it.

use axum::Router;
use axum::response::Html;
use axum::routing::get;
use redgrid_console::{AccessToken, Console};
use serde_json::json;

use crate::support::{JAVA, Outcome, Setup, serve};

/// A page with a form that takes a lock away, one that logs in, and a frame.
fn attack(console: &str) -> String {
    format!(
        "<!doctype html><h1>Win a price</h1>
        <form id=act method=post action='{console}action'>
          <input name=do value=force><input name=object value=job><input name=holder value='{JAVA}'>
          <input name=typed value=job><input name=reason value=attack><button>Yes</button></form>
        <form id=login method=post action='{console}login'><input name=token value=0123456789abcdef>
          <button>Login</button></form>
        <iframe src='{console}locks' width=600 height=400></iframe>"
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn b15_another_site_can_neither_act_nor_read_nor_frame() -> Outcome {
    let Some(setup) = Setup::start().await else { return Ok(()) };
    let browser = &setup.browser;
    setup.hold(b"job").await;
    // Each request may act, so the console rejects foreign ones only by the browser's headers.
    let console = serve(setup.operating().router()).await;
    let page = attack(&console);
    let evil = serve(Router::new().route("/", get(async move || Html(page)))).await;
    // Another port is another origin of the same site, and another name is another site.
    for site in [evil.clone(), evil.replace("127.0.0.1", "localhost")] {
        browser.go(&site).await?;
        browser.enter_frame(Some(0)).await?;
        let framed = browser.text("body").await?.unwrap_or_default();
        assert!(!framed.contains("Locks") && !framed.contains("job"), "{framed}");
        browser.enter_frame(None).await?;
        let fetched = "return fetch(arguments[0]).then(() => 'read', () => 'refused')";
        for path in ["locks", "live?page=locks", "doctor?again=1"] {
            let answer = browser.execute(fetched, &[json!(format!("{console}{path}"))]).await?;
            assert_eq!(answer, json!("refused"), "{path} from {site}");
        }
        let post = "return fetch(arguments[0], { method: 'POST', mode: 'no-cors', credentials: 'include',
            body: new URLSearchParams(new FormData(document.getElementById('act'))) }).catch(() => null)";
        browser.execute(post, &[json!(format!("{console}action"))]).await?;
        browser.click("#act button").await?;
        browser.until("return document.querySelector('h1')?.innerText !== 'Win a price'", &[]).await?;
        assert!(!browser.text("body").await?.unwrap_or_default().contains("Done"));
        assert!(setup.exists(b"job").await && !setup.exists(b"redgrid_audit").await, "from {site}");
        // A link to a page is followed.
        browser.go(&site).await?;
        browser.execute("location.assign(arguments[0])", &[json!(format!("{console}locks"))]).await?;
        browser.until_shown("#locks th", "job").await?;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn b15_another_site_cannot_log_a_browser_in() -> Outcome {
    let Some(setup) = Setup::start().await else { return Ok(()) };
    let browser = &setup.browser;
    let token = AccessToken::new("0123456789abcdef").expect("a token");
    let console = serve(Console::new(setup.grid.client()).token(token).router()).await;
    let page = attack(&console);
    let evil = serve(Router::new().route("/", get(async move || Html(page)))).await;
    browser.go(&evil.replace("127.0.0.1", "localhost")).await?;
    browser.click("#login button").await?;
    browser.until("return document.querySelector('h1')?.innerText !== 'Win a price'", &[]).await?;
    browser.go(&format!("{console}locks")).await?;
    browser.until_shown("label", "Access token").await?;
    Ok(())
}
