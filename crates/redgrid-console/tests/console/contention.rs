//! The names that tasks wait for, from the reports of several processes.

use redgrid_console::Client;
use redgrid_locks::{Lock, LockGuard};
use tokio::task::JoinHandle;

use crate::live::Stream;
use crate::queues::{cells, row};
use crate::support::{Setup, get, until_shown};

/// A name that is hostile to pages.
const STOCK: &str = "stock <b>\u{202e}";

/// The link to its page.
const LINK: &str = "lock?name=stock%20%3Cb%3E%E2%80%AE";

async fn client(setup: &Setup) -> Client {
    Client::connect(setup.server.url().as_str()).await.expect("a client")
}

/// Starts a task that waits for the lock.
fn wait_for(client: &Client) -> JoinHandle<LockGuard> {
    let lock = Lock::new(client, STOCK);
    tokio::spawn(async move { lock.acquire().await.expect("it becomes free") })
}

#[tokio::test(flavor = "multi_thread")]
async fn waits_are_shown_while_they_last_and_afterwards() {
    let setup = Setup::start().await;
    let (one, two) = (client(&setup).await, client(&setup).await);
    let held = Lock::new(&one, STOCK).acquire().label("<i>nightly</i>").await.expect("it is free");
    let waiting = wait_for(&two);
    let router = setup.console();
    let mut stream = Stream::open(&router, "contention").await;
    stream.until("1 task waiting, the first").await;
    let page = get(&router, "/contention").await.text;
    assert!(page.contains("aria-current=\"page\">Contention"), "{page}");
    for raw in ["<b>", "<i>", "\u{202e}"] {
        assert!(!page.contains(raw), "{raw:?}: {page}");
    }
    let (waits, holds) = page.split_once("id=\"h-holds\"").expect("two tables");
    let shown = cells(row(waits, LINK));
    // The waiting time, waits, the mean, the longest, and those that wait now.
    assert_eq!(shown[1..6], ["0 ms", "0", "–", "–", "1"], "{shown:?}");
    assert!(shown[6].starts_with("since ") && shown[7].contains("1 process"), "{shown:?}");
    let pid = format!("pid {}", std::process::id());
    assert!(shown[7].contains(&pid), "{shown:?}");
    let hold = row(holds, LINK);
    assert!(hold.contains(&pid) && hold.contains("&lt;i&gt;nightly&lt;/i&gt;"), "{hold}");

    held.release().await.expect("it was held");
    let held = waiting.await.expect("no panic");
    stream.until("in 1 wait, at most").await;
    let again = wait_for(&one);
    let page = until_shown(&router, "/contention", "1 task waiting, the first").await;
    let shown = cells(row(&page, LINK));
    assert_eq!((shown[2].as_str(), shown[5].as_str()), ("1", "1"), "{shown:?}");
    assert!(shown[1] != "0 ms" && shown[1] == shown[3] && shown[4] != "–", "{shown:?}");
    // One has waited, the other waits.
    assert!(shown[7].contains("2 processes"), "{shown:?}");
    held.release().await.expect("it was held");
    again.await.expect("no panic").release().await.expect("it was held");

    let filtered = get(&router, "/contention?q=st").await.text;
    assert!(filtered.contains(LINK), "{filtered}");
    let none = get(&router, "/contention?q=none+such").await.text;
    let (waits, _) = none.split_once("id=\"h-holds\"").expect("two tables");
    assert!(waits.contains("0 names of 1") && !waits.contains(LINK), "{none}");
}
