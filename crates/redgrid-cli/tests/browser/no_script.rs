//! A browser without script.

use std::time::Instant;

use serde_json::json;

use crate::support::{Outcome, SOON, Setup, confirm};

#[tokio::test(flavor = "multi_thread")]
async fn b16_without_script_all_pages_and_actions_work() -> Outcome {
    let Some(setup) = Setup::start().await else { return Ok(()) };
    let browser = &setup.browser;
    setup.hold(b"job").await;
    browser.devtools("Emulation.setScriptExecutionDisabled", json!({ "value": true })).await?;
    let url = setup.open(setup.operating(), "locks").await?;
    browser.until_shown("noscript", "This page does not update itself without script").await?;
    browser.until_shown("#locks th", "job").await?;
    // The time itself, which nothing counts down.
    browser.until_shown("#locks time", "until ").await?;
    setup.hold(b"later").await;
    let began = Instant::now();
    while !browser.text("#locks").await?.unwrap_or_default().contains("later") {
        assert!(began.elapsed() < SOON, "the link does not refresh the page");
        browser.click("noscript a").await?;
    }
    for page in ["overview", "queues", "synchronizers", "limiters", "clients", "objects", "doctor", "events"] {
        browser.click(&format!("nav a[href='{page}']")).await?;
        browser.until_shown("noscript", "Refresh").await?;
        browser.until_shown("nav [aria-current]", "").await?;
        assert_eq!(browser.url().await?, format!("{url}{page}"));
    }
    browser.go(&format!("{url}locks")).await?;
    browser.fill("input[name=q]", "jo").await?;
    browser.click("form.filter button").await?;
    browser.until_shown("#locks-note", "1 lock of 2").await?;
    browser.click("#locks th a").await?;
    browser.until_shown("#holders th", "number 17").await?;
    browser.click("#holders a[href*='do=force']").await?;
    confirm(browser, "job", "no script").await?;
    browser.until_shown("h1", "Done: job").await?;
    Ok(())
}
