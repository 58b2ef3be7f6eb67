//! Pages that update themselves: locks come and go, servers are away and come back.

use std::time::{Duration, Instant};

use redgrid::Grid;
use redgrid_console::{Access, Console};
use redgrid_testkit::Sentinels;
use redgrid_testkit::browser::Browser;
use serde_json::json;

use crate::support::{
    JAVA, Outcome, SOON, Setup, Window, assert_not_reloaded, assert_silent, mark, serve, start_console,
};

/// Longest time until a lock is shown.
const SHOWN_WITHIN: Duration = Duration::from_secs(2);

/// Returns what is left of the first lease, in seconds.
async fn lease_left(browser: &Browser) -> Result<u64, Box<dyn std::error::Error>> {
    let script = "const [, min, s] = /(?:(\\d+) min )?(\\d+) s/.exec(
        document.querySelector('#locks time[data-until]')?.textContent) ?? [];
        return s === undefined ? null : 60 * Number(min ?? 0) + Number(s)";
    Ok(browser.until(script, &[]).await?.as_u64().expect("a number"))
}

#[tokio::test(flavor = "multi_thread")]
async fn b1_a_lock_of_another_process_appears_counts_down_and_goes() -> Outcome {
    let Some(setup) = Setup::start().await else { return Ok(()) };
    let browser = &setup.browser;
    setup.open(setup.reading(), "locks").await?;
    browser.until_shown("#status", "live").await?;
    browser.until_shown("#locks-note", "0 locks").await?;
    mark(browser).await?;
    // A busy machine may delay one of them.
    let mut fastest = SOON;
    for name in ["job:1", "job:2", "job:3", "job:4", "job:5"] {
        setup.hold(name.as_bytes()).await;
        let began = Instant::now();
        browser.until_shown("#locks th", name).await?;
        fastest = fastest.min(began.elapsed());
    }
    assert!(fastest <= SHOWN_WITHIN, "{fastest:?}");
    let before = lease_left(browser).await?;
    browser.until("return /^9 min/.test(document.querySelector('#locks time[data-until]').textContent)", &[]).await?;
    let first = lease_left(browser).await?;
    let row = "return document.querySelector('#locks time[data-until]').textContent !== arguments[0]";
    browser.until(row, &[json!(format!("9 min {} s", first - 540))]).await?;
    let then = lease_left(browser).await?;
    assert!(then < first && first <= before && before <= 600, "{before} s, {first} s, {then} s");

    for name in ["job:1", "job:2", "job:3", "job:4", "job:5"] {
        setup.observer.cmd(&["DEL", name]).await?;
    }
    browser.until_gone("#locks th", "job").await?;
    assert_not_reloaded(browser).await?;
    assert_silent(browser).await
}

#[tokio::test(flavor = "multi_thread")]
async fn b8_a_page_is_stale_while_the_server_is_away_and_live_again_without_a_reload() -> Outcome {
    let Some(setup) = Setup::start().await else { return Ok(()) };
    let browser = &setup.browser;
    setup.hold(b"job").await;
    setup.open(setup.reading(), "locks").await?;
    browser.until_shown("#locks th", "job").await?;
    browser.until_shown("#status .live", "live").await?;
    mark(browser).await?;
    setup.server.kill().await?;
    browser.until_shown("#status .stale", "stale since").await?;
    // Nothing counts down on a stale page: measured for two and a half ticks.
    let before = lease_left(browser).await?;
    tokio::time::sleep(Duration::from_millis(2_500)).await;
    assert_eq!(lease_left(browser).await?, before);
    setup.server.restart_empty().await?;
    browser.until_shown("#status .live", "live").await?;
    browser.until_gone("#locks th", "job").await?;
    let observer = setup.server.observer().await?;
    observer.cmd(&["HSET", "later", JAVA, "1"]).await?;
    browser.until_shown("#locks th", "later").await?;
    assert_not_reloaded(browser).await
}

#[tokio::test(flavor = "multi_thread")]
async fn b8_a_page_is_stale_while_the_console_itself_is_away() -> Outcome {
    let Some(setup) = Setup::start().await else { return Ok(()) };
    let browser = &setup.browser;
    let (console, url, _) = start_console(&setup.server, "127.0.0.1:0", &["--no-login"]);
    browser.go(&format!("{url}locks")).await?;
    browser.until_shown("#status .live", "live").await?;
    mark(browser).await?;
    drop(console);
    browser.until_shown("#status .stale", "stale since").await?;
    browser.until_shown("#status", "the console does not answer").await?;
    let address = url.trim_start_matches("http://").trim_end_matches('/');
    let (_console, again, _) = start_console(&setup.server, address, &["--no-login"]);
    assert_eq!(again, url);
    browser.until_shown("#status .live", "live").await?;
    assert_not_reloaded(browser).await
}

#[tokio::test(flavor = "multi_thread")]
async fn b9_an_open_page_survives_a_failover() -> Outcome {
    let Some(window) = Window::open().await else { return Ok(()) };
    let browser = &window.browser;
    let deployment = Sentinels::start().await?;
    let grid = Grid::connect(deployment.url().as_str()).await?;
    let url = serve(Console::new(grid.client()).access(|_| Access::Read).router()).await;
    browser.go(&format!("{url}locks")).await?;
    let held = grid.lock("before").acquire().await?;
    browser.until_shown("#locks th", "before").await?;
    browser.until_shown("#status .live", "live").await?;
    mark(browser).await?;
    let before = deployment.current_primary().await?;
    before.kill().await?;
    let after = deployment.wait_for_primary_other_than(before.addr()).await?;
    browser.until_shown("#status .live", "live").await?;
    drop(held);
    after.observer().await?.cmd(&["HSET", "after", JAVA, "1"]).await?;
    browser.until_shown("#locks th", "after").await?;
    assert_not_reloaded(browser).await?;
    // The overview names the new primary.
    browser.go(&format!("{url}overview")).await?;
    browser.until_shown("#nodes tr", &after.addr().to_string()).await?;
    Ok(())
}
