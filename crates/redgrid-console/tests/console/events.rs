//! The page of events: what processes report, beside the recorded actions.

use redgrid_console::Client;
use redgrid_locks::Lock;
use redgrid_testkit::wait_until;

use crate::live::Stream;
use crate::queues::row;
use crate::support::{SOON, Setup, get};

/// A name that is hostile to pages.
const JOB: &str = "job <b>\u{202e}";

#[tokio::test(flavor = "multi_thread")]
async fn a_hold_that_was_taken_by_force_is_an_event() {
    let setup = Setup::start().await;
    let user = Client::connect(setup.server.url().as_str()).await.expect("a client");
    let router = setup.console();
    let mut stream = Stream::open(&router, "events").await;
    let first = stream.until("events-note").await;
    assert!(first.to_string().contains("0 events"), "{first}");
    // Once its client listens, it is notified. No other page is open, which would read its reports.
    let channel = format!("redgrid_client:{{{}}}", user.id());
    wait_until(SOON, async || {
        let (_, listening): (String, u64) =
            setup.observer.query(&["PUBSUB", "NUMSUB", &channel]).await.expect("an answer");
        listening == 1
    })
    .await;
    let held = Lock::new(&user, JOB).acquire().await.expect("it is free");
    assert!(Lock::new(&setup.client, JOB).force_release().await.expect("an answer"));
    held.lost().await;
    stream.until("forced").await;
    let page = get(&router, "/events").await.text;
    let event = row(&page, "lock?name=job%20%3Cb%3E%E2%80%AE");
    assert!(event.contains("forced") && event.contains("data-ago"), "{event}");
    assert!(event.contains(&format!("pid {}", std::process::id())), "{event}");
    assert!(!page.contains("<b>") && !page.contains('\u{202e}') && page.contains("1 event"), "{page}");
    // The action did not use the console, so it is not in the record.
    let (actions, _) = page.split_once("id=\"h-processes\"").expect("two sections");
    assert!(!actions.contains("<td"), "{actions}");
}
