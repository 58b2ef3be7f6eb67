//! The console without a mouse.

use redgrid_testkit::browser::{Browser, Key};
use redgrid_testkit::wait_until;
use serde_json::json;

use crate::support::{Outcome, SOON, Setup};

/// The number of elements with a focus before a test gives up.
const MOST_STOPS: usize = 80;

/// Presses the tab key until an element with this selector has the focus.
async fn tab_to(browser: &Browser, selector: &str) -> Outcome {
    for _ in 0..MOST_STOPS {
        browser.press(Key::Tab).await?;
        if has_focus(browser, selector).await? {
            return Ok(());
        }
    }
    panic!("{selector} cannot be reached");
}

async fn has_focus(browser: &Browser, selector: &str) -> Result<bool, Box<dyn std::error::Error>> {
    let script = "return document.activeElement.matches(arguments[0])";
    Ok(browser.execute(script, &[json!(selector)]).await? == json!(true))
}

#[tokio::test(flavor = "multi_thread")]
async fn b11_the_keyboard_suffices_and_the_focus_stays_while_rows_change() -> Outcome {
    let Some(setup) = Setup::start().await else { return Ok(()) };
    let browser = &setup.browser;
    for name in ["b", "d"] {
        setup.hold(name.as_bytes()).await;
    }
    setup.open(setup.operating(), "locks").await?;
    browser.until_shown("#locks th", "d").await?;
    // The first stop skips the navigation.
    browser.press(Key::Tab).await?;
    assert!(has_focus(browser, "a.skip").await?);
    browser.press(Key::Enter).await?;
    assert!(has_focus(browser, "#main").await?);

    tab_to(browser, "#locks a[href='lock?name=d']").await?;
    let visible = "return getComputedStyle(document.activeElement).outlineStyle !== 'none'";
    assert_eq!(browser.execute(visible, &[]).await?, json!(true), "the focus can be seen");
    // Rows come before and after it, go, and its own row changes.
    for (command, name, shown) in [("HSET", "c", true), ("HSET", "e", true), ("DEL", "b", false), ("DEL", "c", false)] {
        match command {
            "HSET" => setup.hold(name.as_bytes()).await,
            command => setup.observer.cmd(&[command, name]).await.map(drop)?,
        }
        let link = format!("#locks a[href='lock?name={name}']");
        if shown {
            browser.until_shown(&link, name).await?
        } else {
            browser.until_gone(&link, name).await?
        }
        assert!(has_focus(browser, "#locks a[href='lock?name=d']").await?, "after {command} {name}");
    }
    setup.observer.cmd(&["PERSIST", "d"]).await?;
    browser.until_shown("#locks tr:has(a[href='lock?name=d'])", "no lifetime").await?;
    assert!(has_focus(browser, "#locks a[href='lock?name=d']").await?, "after a change of the row");

    browser.press(Key::Enter).await?;
    browser.until_shown("h1", "Lock d").await?;
    browser.until_shown("#holders th", "number 17").await?;
    tab_to(browser, "#holders a[href*='do=force']").await?;
    browser.press(Key::Enter).await?;
    browser.until_shown("h1", "Take a lock away: d").await?;
    tab_to(browser, "[name=typed]").await?;
    browser.type_text("d").await?;
    tab_to(browser, "[name=reason]").await?;
    browser.type_text("no mouse").await?;
    tab_to(browser, "form.confirm button").await?;
    browser.press(Key::Enter).await?;
    browser.until_shown("h1", "Done: d").await?;
    wait_until(SOON, async || !setup.exists(b"d").await).await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn b11_an_open_detail_stays_open_while_its_row_changes() -> Outcome {
    let Some(setup) = Setup::start().await else { return Ok(()) };
    let browser = &setup.browser;
    let user = redgrid::Grid::connect(setup.server.url().as_str()).await?;
    let _first = user.lock("first").acquire().await?;
    setup.open(setup.reading(), "clients").await?;
    browser.until_shown("#clients summary", "Show").await?;
    tab_to(browser, "#clients summary").await?;
    browser.press(Key::Enter).await?;
    browser.until_shown("#clients details[open] li", "first").await?;
    let _second = user.lock("second").acquire().await?;
    browser.until_shown("#clients details[open] li", "second").await?;
    assert!(has_focus(browser, "#clients summary").await?);
    Ok(())
}
