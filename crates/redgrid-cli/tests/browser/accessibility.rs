//! Every page without barriers, light and dark; and its picture for the documentation.

use std::path::PathBuf;

use redgrid_testkit::browser::Browser;
use serde_json::{Value, json};

use crate::data::{PAGES, fill};
use crate::support::{Outcome, Setup, assert_silent, axe_or_skip, confirm};

/// The variable that names the folder for pictures of all pages; `cargo xtask screenshots` sets it.
const PICTURES_VARIABLE: &str = "SCREENSHOTS";

/// Width of the pictures in pixels.
const WIDTH: u32 = 1_200;

/// Least and largest height of the pictures in pixels.
const LOWEST: u32 = 300;
const HIGHEST: u32 = 700;

/// Largest picture in bytes.
const LARGEST: usize = 100_000;

/// The narrowest screen, in pixels.
const NARROW: u32 = 320;

async fn resize(browser: &Browser, width: u32, height: u32) -> Outcome {
    let size = json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": false });
    browser.devtools("Emulation.setDeviceMetricsOverride", size).await?;
    Ok(())
}

async fn prefer(browser: &Browser, scheme: &str) -> Outcome {
    let features = [("prefers-color-scheme", scheme), ("prefers-reduced-motion", "reduce")];
    let features = features.map(|(name, value)| json!({ "name": name, "value": value }));
    browser.devtools("Emulation.setEmulatedMedia", json!({ "features": features })).await?;
    Ok(())
}

/// Panics if axe-core finds a barrier.
async fn assert_accessible(browser: &Browser, axe: &str, page: &str) -> Outcome {
    let script = format!(
        "{axe}; return axe.run(document).then(({{ violations }}) => violations.map(({{ id, nodes }}) =>
         `${{id}}: ${{nodes.map((node) => node.html + ' ' + node.failureSummary).join('; ')}}`))"
    );
    let violations = browser.execute(&script, &[]).await?;
    assert_eq!(violations, json!([]), "{page}");
    Ok(())
}

async fn picture(browser: &Browser, name: &str) -> Outcome {
    let Some(folder) = std::env::var_os(PICTURES_VARIABLE).map(PathBuf::from) else { return Ok(()) };
    // Neither empty parts of a page nor the end of a page with much text are shown.
    let height = browser.execute("return document.documentElement.offsetHeight", &[]).await?.as_f64();
    let mut height = (height.unwrap_or_default() as u32).clamp(LOWEST, HIGHEST);
    browser.devtools("Emulation.setScrollbarsHidden", json!({ "hidden": true })).await?;
    let png = loop {
        resize(browser, WIDTH, height).await?;
        let png = browser.screenshot().await?;
        if png.len() < LARGEST {
            break png;
        }
        assert!(height > LOWEST, "{name} has {} bytes", png.len());
        height -= 50;
    };
    browser.devtools("Emulation.setScrollbarsHidden", json!({ "hidden": false })).await?;
    resize(browser, WIDTH, 900).await?;
    std::fs::create_dir_all(&folder)?;
    std::fs::write(folder.join(format!("console-{name}.png")), png)?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn b12_every_page_is_accessible_light_and_dark_and_fits_a_narrow_screen() -> Outcome {
    let Some(axe) = axe_or_skip() else { return Ok(()) };
    let Some(setup) = Setup::start().await else { return Ok(()) };
    let browser = &setup.browser;
    let _data = fill(&setup).await?;
    let url = setup.open(setup.operating().title("shop, production"), "action?do=delete&object=old").await?;
    resize(browser, WIDTH, 900).await?;
    confirm(browser, "old", "a stuck import").await?;
    browser.until_shown("h1", "Done").await?;
    assert_accessible(browser, &axe, "the outcome of an action").await?;
    for (name, address, shown) in PAGES {
        prefer(browser, "light").await?;
        browser.go(&format!("{url}{address}")).await?;
        browser.until_shown("main", shown).await?;
        browser.until_shown("#status .live", "live").await?;
        for scheme in ["light", "dark"] {
            prefer(browser, scheme).await?;
            assert_accessible(browser, &axe, &format!("{address}, {scheme}")).await?;
            let suffix = if scheme == "dark" { "-dark" } else { "" };
            picture(browser, &format!("{name}{suffix}")).await?;
        }
        resize(browser, NARROW, 900).await?;
        let width = browser.execute("return document.documentElement.scrollWidth", &[]).await?;
        assert!(width.as_u64() <= Some(NARROW.into()), "{address} is {width} pixels wide");
        resize(browser, WIDTH, 900).await?;
        assert_silent(browser).await?;
    }
    for address in ["nothing/here", "lock", "objects?search=unknown"] {
        browser.go(&format!("{url}{address}")).await?;
        assert_accessible(browser, &axe, address).await?;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn b12_the_login_and_a_stale_page_are_accessible() -> Outcome {
    let Some(axe) = axe_or_skip() else { return Ok(()) };
    let Some(setup) = Setup::start().await else { return Ok(()) };
    let browser = &setup.browser;
    let token = redgrid_console::AccessToken::generate();
    let console = redgrid_console::Console::new(setup.grid.client()).token(token.clone()).title("shop, production");
    setup.open(console, "locks").await?;
    resize(browser, WIDTH, 500).await?;
    for scheme in ["light", "dark"] {
        prefer(browser, scheme).await?;
        assert_accessible(browser, &axe, &format!("login, {scheme}")).await?;
    }
    picture(browser, "login-dark").await?;
    prefer(browser, "light").await?;
    picture(browser, "login").await?;
    browser.fill("#token", "wrong-wrong-wrong").await?;
    browser.click("form.login button").await?;
    browser.until_shown("[role=alert]", "This is not the token").await?;
    assert_accessible(browser, &axe, "a wrong token").await?;
    browser.fill("#token", token.reveal()).await?;
    browser.click("form.login button").await?;
    browser.until_shown("#status .live", "live").await?;
    setup.server.kill().await?;
    browser.until_shown("#status .stale", "stale since").await?;
    for scheme in ["light", "dark"] {
        prefer(browser, scheme).await?;
        assert_accessible(browser, &axe, &format!("a stale page, {scheme}")).await?;
    }
    assert_ne!(browser.execute("return document.title", &[]).await?, Value::Null);
    Ok(())
}
