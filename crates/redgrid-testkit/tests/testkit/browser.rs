//! A real browser, and what remains of it.

use std::path::Path;

use redgrid_testkit::browser::{Browser, BrowserError, BrowserPrograms, Key};
use serde_json::json;

const PAGE: &str =
    "data:text/html,<title>T</title><h1>One</h1><input value=old><button onclick=\"document.querySelector(
    'h1').textContent = document.querySelector('input').value\">Change</button>";

fn programs() -> Option<BrowserPrograms> {
    BrowserPrograms::find_or_skip(std::thread::current().name().unwrap_or_default())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_browser_shows_pages_and_does_what_a_person_does() -> Result<(), BrowserError> {
    let Some(programs) = programs() else { return Ok(()) };
    let browser = Browser::start(&programs).await?;
    browser.go(PAGE).await?;
    assert_eq!(browser.text("h1").await?.as_deref(), Some("One"));
    assert_eq!(browser.text("h2").await?, None);
    browser.fill("input", "new").await?;
    browser.click("button").await?;
    browser.until_shown("h1", "new").await?;
    browser.until_gone("h1", "One").await?;
    assert_eq!(browser.execute("return arguments[0] + 1", &[json!(1)]).await?, json!(2));
    browser.fill("input", "third").await?;
    browser.press(Key::Tab).await?;
    browser.press(Key::Enter).await?;
    browser.until_shown("h1", "third").await?;
    browser.go("data:text/html,<h1>Two</h1>").await?;
    assert_eq!(browser.text("h1").await?.as_deref(), Some("Two"));
    browser.back().await?;
    browser.until_shown("button", "Change").await?;
    assert_eq!(browser.screenshot().await?[1..4], *b"PNG");
    let Err(BrowserError::Failed { error, .. }) = browser.execute("throw new Error('why')", &[]).await else {
        panic!("the script throws");
    };
    assert_eq!(error, "javascript error");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_remains_of_a_browser() -> Result<(), BrowserError> {
    let Some(programs) = programs() else { return Ok(()) };
    let browser = Browser::start(&programs).await?;
    browser.go(PAGE).await?;
    let line = browser.devtools("Browser.getBrowserCommandLine", json!({})).await?;
    let arguments = line["arguments"].as_array().expect("a list").iter().filter_map(|one| one.as_str());
    let profile =
        arguments.filter_map(|one| one.strip_prefix("--user-data-dir=")).next().expect("a profile").to_owned();
    assert!(Path::new(&profile).exists());
    drop(browser);
    let folder = Path::new(&profile).parent().expect("its folder");
    assert!(!folder.exists(), "{folder:?}");
    let processes = std::process::Command::new("ps").args(["-eo", "args"]).output().expect("ps runs");
    let processes = String::from_utf8_lossy(&processes.stdout).into_owned();
    let left: Vec<_> = processes.lines().filter(|line| line.contains(&profile) && !line.contains("crashpad")).collect();
    assert!(left.is_empty(), "{left:?}");
    Ok(())
}
