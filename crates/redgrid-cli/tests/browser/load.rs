//! The cost of open pages for the server.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use redgrid_testkit::Observer;
use serde_json::Value;

use crate::support::{JAVA, Outcome, SOON, Setup};

/// Objects of the large deployment.
const OBJECTS: u64 = 100_000;

/// Share of a node's time that all searches together may take: 10 %.
const MOST_PERCENT: u128 = 10;

/// The link that continues a search.
const CONTINUES: &str = "main .hint a";

/// Time in which the commands of a hidden page are counted.
const MEASURED: Duration = Duration::from_secs(5);

/// The average time of a command is checked if it was called this often.
const AVERAGED: u64 = 5;

/// The longest average time of a command: 10 ms, in microseconds.
const SLOW: u64 = 10_000;

/// Calls and microseconds of each command so far.
async fn usage(observer: &Observer) -> BTreeMap<String, (u64, u64)> {
    let text: String = observer.query(&["INFO", "commandstats"]).await.expect("an answer");
    let number = |line: &str, field: &str| line.split(field).nth(1)?.split(',').next()?.parse().ok();
    let command = |line: &str| {
        let (name, rest) = line.strip_prefix("cmdstat_")?.split_once(':')?;
        Some((name.to_owned(), (number(rest, "calls=")?, number(rest, "usec=")?)))
    };
    text.lines().filter_map(command).collect()
}

/// Returns the names of the commands between two readings.
fn between(before: &BTreeMap<String, (u64, u64)>, after: &BTreeMap<String, (u64, u64)>) -> BTreeSet<String> {
    let has_grown = |(name, now): &(&String, &(u64, u64))| before.get(*name).is_none_or(|then| then.0 < now.0);
    after.iter().filter(has_grown).map(|(name, _)| name.clone()).collect()
}

/// Returns the names on a page of objects.
async fn names(setup: &Setup) -> Result<Vec<String>, Box<dyn std::error::Error>> {
    let script = "return [...document.querySelectorAll('tbody th bdi')].map((one) => one.textContent)";
    let names = setup.browser.execute(script, &[]).await?;
    Ok(names.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect())
}

/// Returns the names on this page of a search, once the page is full. On a busy machine, a page is
/// shown before its search has found 100 objects.
async fn full_page(setup: &Setup, number: usize) -> Result<Vec<String>, Box<dyn std::error::Error>> {
    let began = Instant::now();
    loop {
        setup.browser.until_shown(".pages", &format!("Page {number}")).await?;
        let shown = names(setup).await?;
        if setup.browser.text(CONTINUES).await?.is_none() {
            assert_eq!(shown.len(), 100, "page {number}");
            return Ok(shown);
        }
        assert!(began.elapsed() < SOON, "the search does not end");
        setup.browser.click(CONTINUES).await?;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn b13_a_hundred_thousand_objects_are_paged_within_the_budget() -> Outcome {
    let Some(setup) = Setup::start().await else { return Ok(()) };
    let browser = &setup.browser;
    for part in 0..10 {
        let fill = format!("for i = 1, {} do redis.call('set', 'key:{part}:' .. i, i) end", OBJECTS / 10);
        setup.observer.cmd(&["EVAL", &fill, "0"]).await?;
    }
    setup.open(setup.reading(), "objects").await?;
    browser.until_shown("#status .live", "live").await?;
    let before = usage(&setup.observer).await;
    browser.fill("input[name=pattern]", "key:*").await?;
    browser.click("form.filter button").await?;
    let mut pages = Vec::new();
    for number in 1..=6 {
        pages.push(full_page(&setup, number).await?);
        browser.click("a[rel=next]").await?;
    }
    full_page(&setup, 7).await?;
    for (place, expected) in pages.iter().enumerate().rev() {
        browser.click("a[rel=prev]").await?;
        browser.until_shown(".pages", &format!("Page {}", place + 1)).await?;
        assert_eq!(names(&setup).await?, *expected, "page {}", place + 1);
    }
    browser.back().await?;
    browser.until_shown(".pages", "Page 2").await?;
    assert_eq!(names(&setup).await?, pages[1]);
    let different: BTreeSet<_> = pages.iter().flatten().collect();
    assert_eq!(different.len(), 600);

    // A search that reads all keys, because none matches.
    let (unused, began) = (usage(&setup.observer).await, Instant::now());
    browser.fill("input[name=pattern]", "none:*").await?;
    browser.click("form.filter button").await?;
    browser.until_shown(".pages", "Page 1").await?;
    while browser.text(CONTINUES).await?.is_some() {
        assert!(began.elapsed() < SOON, "the search does not end");
        browser.click(CONTINUES).await?;
    }
    browser.until_shown("main .hint", "0 objects found").await?;
    let (after, time) = (usage(&setup.observer).await, began.elapsed());
    let total = |usage: &BTreeMap<String, (u64, u64)>| -> u64 {
        usage.iter().filter(|(name, _)| *name != "info" && *name != "eval").map(|(_, (_, usec))| usec).sum()
    };
    let used = u128::from(total(&after) - total(&unused));
    assert!(used * 100 <= time.as_micros() * MOST_PERCENT, "{used} µs of {time:?}");
    let unbounded = ["keys", "monitor", "config", "hgetall", "smembers"];
    let sent = between(&before, &after);
    assert!(!unbounded.iter().any(|name| sent.contains(*name)), "{sent:?}");
    // A single command may take long, because the machine is busy. So the averages are checked.
    let average = |(name, now): (&String, &(u64, u64))| {
        let then = before.get(name).copied().unwrap_or_default();
        let calls = now.0 - then.0;
        (calls >= AVERAGED).then(|| (name.clone(), (now.1 - then.1) / calls))
    };
    let slow: Vec<_> = after.iter().filter_map(average).filter(|(_, micros)| *micros > SLOW).collect();
    assert!(slow.is_empty(), "microseconds of a call: {slow:?}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn b14_a_hidden_tab_costs_nothing_and_continues_when_it_is_shown() -> Outcome {
    let Some(setup) = Setup::start().await else { return Ok(()) };
    let browser = &setup.browser;
    setup.hold(b"job").await;
    setup.open(setup.reading(), "locks").await?;
    browser.until_shown("#locks th", "job").await?;
    browser.minimize().await?;
    browser.until("return document.hidden", &[]).await?;
    // The console rests 30 s after its last viewer.
    let hidden = Instant::now();
    loop {
        let before = usage(&setup.observer).await;
        tokio::time::sleep(MEASURED).await;
        let sent = between(&before, &usage(&setup.observer).await);
        // The ping of a connection to a server with data is TIME.
        if sent.iter().all(|name| matches!(name.as_str(), "info" | "ping" | "time")) {
            break;
        }
        assert!(hidden.elapsed() < SOON, "{sent:?}");
    }
    setup.observer.cmd(&["HSET", "later", JAVA, "1"]).await?;
    setup.observer.cmd(&["DEL", "job"]).await?;
    browser.restore(1_200, 900).await?;
    browser.until("return !document.hidden", &[]).await?;
    browser.until_shown("#locks th", "later").await?;
    browser.until_gone("#locks th", "job").await?;
    Ok(())
}
