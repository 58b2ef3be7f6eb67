//! A read-write lock of which something is gone on the server: its lifetime.

use std::time::Duration;

use redgrid_locks::RwLock;
use redgrid_testkit::{Observer, wait_until};
use redgrid_tests::{SOON, client_with, server};

const MS: Duration = Duration::from_millis(1);

/// A lease that nothing here waits for the end of.
const LONG: Duration = Duration::from_secs(600);

/// The field of the only reader.
async fn reader(observer: &Observer) -> String {
    let fields: Vec<String> = observer.query(&["HKEYS", "a"]).await.unwrap();
    fields.into_iter().find(|field| field != "mode").expect("it reads")
}

async fn left(observer: &Observer, key: &str) -> Duration {
    observer.time_to_live(key).await.ok().flatten().unwrap_or_default()
}

/// Redisson's watchdog sets the lifetime of the hash to its own lease, and that of the level keys of all its fields.
#[tokio::test(flavor = "multi_thread")]
async fn what_a_foreign_watchdog_has_shortened_is_there_again_after_the_next_look() {
    let server = server().await;
    let client = client_with(&server.url(), |config| config.watchdog_lease(600 * MS)).await;
    let observer = server.observer().await.unwrap();
    let lock = RwLock::new(&client, "a");
    for read in [lock.read().lease(LONG), lock.read().watchdog(LONG)] {
        let read = read.await.unwrap();
        let level = format!("{{a}}:{}:rwlock_timeout:1", reader(&observer).await);
        for _ in 0..2 {
            for key in ["a", &level] {
                observer.cmd(&["PEXPIRE", key, "5000"]).await.unwrap();
            }
            wait_until(SOON, async || {
                left(&observer, "a").await > LONG / 2 && left(&observer, &level).await > LONG / 2
            })
            .await;
        }
        assert!(read.is_held());
        // Not longer than it was to be.
        assert!(left(&observer, "a").await < LONG + LONG / 10);
        read.release().await.unwrap();
    }
}
