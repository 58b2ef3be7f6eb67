//! Names that attack a page.

use redgrid_testkit::wait_until;
use serde_json::{Value, json};

use crate::support::{JAVA, Outcome, SOON, Setup, assert_silent, confirm};

/// Panics if a name has become a part of the page.
async fn assert_is_text(browser: &redgrid_testkit::browser::Browser) -> Outcome {
    let script =
        "return document.images.length + document.querySelectorAll('script:not([src]), main b, main i').length";
    assert_eq!(browser.execute(script, &[]).await?, json!(0), "{}", browser.url().await?);
    assert_silent(browser).await
}

#[tokio::test(flavor = "multi_thread")]
async fn b7_hostile_names_are_text_in_page_link_form_and_action() -> Outcome {
    let Some(setup) = Setup::start().await else { return Ok(()) };
    let browser = &setup.browser;
    let long = "x".repeat(1_024);
    let names = [
        ("<img src=x onerror=alert(1)>", "<img src=x onerror=alert(1)>"),
        ("\"'&;--><script>alert(1)</script>", "\"'&;--><script>alert(1)</script>"),
        ("evil\u{202e}gpj.\u{200b}", "evil\\u{202e}gpj.\\u{200b}"),
        ("nul\0and\x1b[31m\r\nlines", "nul\\u{0}and\\u{1b}[31m\\u{d}\\u{a}lines"),
        ("שלום", "שלום"),
        ("a/b?c#d%20e+f&name=g", "a/b?c#d%20e+f&name=g"),
        (&long, &long),
    ];
    for (name, _) in names {
        setup.hold(name.as_bytes()).await;
    }
    let url = setup.open(setup.operating(), "locks").await?;
    for (name, shown) in names {
        browser.go(&format!("{url}locks")).await?;
        browser.until_shown("#locks th a", shown).await?;
        assert_is_text(browser).await?;
        // Found and clicked in one step, because an update of the page replaces its links.
        let click = "const link = [...document.querySelectorAll('#locks th a')]
            .find((link) => link.textContent === arguments[0]);
            if (link) link.click();
            return Boolean(link)";
        browser.until(click, &[json!(shown)]).await?;
        browser.until_shown("h1", &format!("Lock {shown}")).await?;
        browser.until_shown("#holders th", "number 17").await?;
        assert_is_text(browser).await?;
        browser.click("#holders a[href*='do=force']").await?;
        browser.until_shown("h1", "Take a lock away").await?;
        assert_eq!(browser.text("form.confirm label bdi").await?.as_deref(), Some(shown));
        confirm(browser, &format!("{shown}x"), "test").await?;
        browser.until_shown("[role=alert]", "The typed name is not that of the object").await?;
        assert!(setup.exists(name.as_bytes()).await);
        confirm(browser, shown, "<i>test</i>").await?;
        browser.until_shown("h1", &format!("Done: {shown}")).await?;
        assert_is_text(browser).await?;
        wait_until(SOON, async || !setup.exists(name.as_bytes()).await).await;
    }
    browser.go(&format!("{url}events")).await?;
    browser.until_shown("tbody tr", "<i>test</i>").await?;
    assert_is_text(browser).await
}

#[tokio::test(flavor = "multi_thread")]
async fn b7_a_name_that_is_not_text_can_be_seen_and_deleted() -> Outcome {
    let Some(setup) = Setup::start().await else { return Ok(()) };
    let browser = &setup.browser;
    let name = b"not utf-8 \xff\xfe<b>";
    setup.observer.cmd(&[&b"HSET"[..], name, JAVA.as_bytes(), b"1"]).await?;
    let url = setup.open(setup.operating(), "locks").await?;
    let shown = "not utf-8 \\xff\\xfe<b>";
    browser.until_shown("#locks th", shown).await?;
    browser.click("#locks th a").await?;
    browser.until_shown("h1", shown).await?;
    browser.until_shown("#holders th", "number 17").await?;
    assert_is_text(browser).await?;
    setup.observer.cmd(&[b"DEL", &name[..]]).await?;
    setup.observer.cmd(&[b"SET", &name[..], b"1"]).await?;
    browser.go(&format!("{url}objects?pattern=not*")).await?;
    browser.until_shown("tbody th", shown).await?;
    browser.click("a[href*='do=delete']").await?;
    confirm(browser, shown, "test").await?;
    browser.until_shown("h1", &format!("Done: {shown}")).await?;
    assert!(!setup.exists(name).await);
    let record: Vec<(Vec<u8>, Vec<Vec<u8>>)> = setup.observer.query(&["XRANGE", "redgrid_audit", "-", "+"]).await?;
    assert!(record.iter().any(|(_, fields)| fields.iter().any(|field| field == name)), "{record:?}");
    assert_eq!(browser.execute("return document.images.length", &[]).await?, Value::from(0));
    Ok(())
}
