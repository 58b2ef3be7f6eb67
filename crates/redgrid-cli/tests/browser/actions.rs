//! Locks that an operator takes away.

use redgrid_testkit::wait_until;

use crate::support::{JAVA, Outcome, Running, SOON, Setup, confirm, redgrid, start_console};

#[tokio::test(flavor = "multi_thread")]
async fn b2_a_lock_is_taken_away_from_a_program_which_dies() -> Outcome {
    let Some(setup) = Setup::start().await else { return Ok(()) };
    let browser = &setup.browser;
    let (_console, address, token) = start_console(&setup.server, "127.0.0.1:0", &["--operate"]);
    let mut program = Running::start(redgrid(&["--url", &setup.server.url(), "lock", "job", "--", "sleep", "600"]));

    browser.go(&format!("{address}lock?name=job")).await?;
    browser.fill("#token", &token).await?;
    browser.click("form.login button").await?;
    browser.until_shown("h1", "Lock job").await?;
    browser.until_shown("#holders .state", "alive").await?;
    let watching = browser.tab().await?;
    browser.open_tab().await?;
    browser.go(&format!("{address}lock?name=job")).await?;
    browser.click("#holders a[href*='do=force']").await?;
    browser.until_shown("h1", "Take a lock away: job").await?;
    browser.until_shown("main", "Its client is connected").await?;

    confirm(browser, "jobs", "it hangs").await?;
    browser.until_shown("[role=alert]", "The typed name is not that of the object").await?;
    assert!(setup.exists(b"job").await && !program.has_ended());
    confirm(browser, "job", "it <b>hangs</b>").await?;
    browser.until_shown("h1", "Done: job").await?;
    wait_until(SOON, async || program.has_ended()).await;
    browser.click("main a[href='events']").await?;
    for shown in ["force a lock", "done", "the access token", "console, 127.0.0.1", "it <b>hangs</b>"] {
        browser.until_shown("tbody tr", shown).await?;
    }
    let record = setup.record().await;
    assert!(record.contains("the access token") && record.contains("it <b>hangs</b>"), "{record}");
    // The other tab sees it.
    browser.switch_to(&watching).await?;
    browser.until_shown("#lock", "free").await?;
    browser.until_gone("#holders td", "exclusive").await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn b3_a_holder_that_came_after_the_page_keeps_the_lock() -> Outcome {
    let Some(setup) = Setup::start().await else { return Ok(()) };
    let browser = &setup.browser;
    setup.hold(b"job").await;
    setup.open(setup.operating(), "lock?name=job").await?;
    browser.click("#holders a[href*='do=force']").await?;
    browser.until_shown("h1", "Take a lock away: job").await?;
    let next = JAVA.replace(":17", ":18");
    setup.observer.cmd(&["DEL", "job"]).await?;
    setup.observer.cmd(&["HSET", "job", &next, "1"]).await?;
    confirm(browser, "job", "it hangs").await?;
    browser.until_shown("h1", "Not done: job").await?;
    browser.until_shown("main", &format!("it has passed to {next}")).await?;
    let holders: Vec<String> = setup.observer.query(&["HKEYS", "job"]).await?;
    assert_eq!(holders, [next]);
    assert!(setup.record().await.contains("refused"), "{}", setup.record().await);
    // The page of the lock shows the new one.
    browser.click("main a[href^='lock?']").await?;
    browser.until_shown("#holders th", "number 18").await?;
    Ok(())
}
