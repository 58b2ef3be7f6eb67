//! Dead letters of a reliable queue.

use redgrid::ReliableQueue;
use serde_json::{Value, json};

use crate::support::{Outcome, Setup, confirm};

/// Receives all ready messages, and returns their values.
async fn consume(jobs: &ReliableQueue<String>) -> Result<Vec<String>, Box<dyn std::error::Error>> {
    let mut values = Vec::new();
    while let Some(delivery) = jobs.try_receive().await? {
        values.push(delivery.value()?);
        delivery.ack().await?;
    }
    values.sort();
    Ok(values)
}

#[tokio::test(flavor = "multi_thread")]
async fn b6_dead_letters_are_redriven_one_some_and_all() -> Outcome {
    let Some(setup) = Setup::start().await else { return Ok(()) };
    let browser = &setup.browser;
    let jobs = setup.grid.reliable_queue::<String>("jobs");
    for value in ["a", "b", "c", "d", "e"] {
        jobs.push(value).await?;
    }
    let mut ids = Vec::new();
    while let Some(delivery) = jobs.try_receive().await? {
        ids.push((delivery.id().to_string(), delivery.value()?));
        delivery.reject("odd").await?;
    }
    let url = setup.open(setup.operating(), "queue?name=jobs&state=dead").await?;
    let shown = "return [...document.querySelectorAll('tbody th .id')].map((id) => id.textContent)";
    let shown = browser.execute(shown, &[]).await?;
    assert_eq!(shown, Value::from(ids.iter().map(|(id, _)| id.clone()).collect::<Vec<_>>()));

    for marked in [&ids[..1], &ids[1..3]] {
        browser.go(&format!("{url}queue?name=jobs&state=dead")).await?;
        for (id, _) in marked {
            browser.click(&format!("input[type=checkbox][value='{id}']")).await?;
        }
        browser.click("button[value=redrive]").await?;
        browser.until_shown("h1", "Redrive dead letters: jobs").await?;
        browser.until_shown("main", &format!("{} dead letter", marked.len())).await?;
        confirm(browser, "jobs", "it was a bad release").await?;
        browser.until_shown("h1", "Done: jobs").await?;
        let expected: Vec<String> = marked.iter().map(|(_, value)| value.clone()).collect();
        assert_eq!(consume(&jobs).await?, expected);
    }
    browser.go(&format!("{url}objects?pattern=jobs")).await?;
    browser.click("a[href*='do=redrive']").await?;
    browser.until_shown("main", "All dead letters of the queue").await?;
    confirm(browser, "jobs", "it was a bad release").await?;
    browser.until_shown("main", "Changed: 2").await?;
    assert_eq!(consume(&jobs).await?, ["d", "e"]);
    browser.go(&format!("{url}queue?name=jobs&state=dead")).await?;
    browser.until_shown(".hint", "0 messages").await?;
    assert_eq!(browser.execute("return document.querySelectorAll('[type=checkbox]').length", &[]).await?, json!(0));
    Ok(())
}
