//! Releases that were answered are sent again if another process replaces the server that answered.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use redgrid_core::author::Server;
use redgrid_core::clock::Clock;
use redgrid_core::{Client, Config, Request};
use redgrid_locks::Lock;
use redgrid_testkit::wait_until;
use redgrid_tests::SOON;
use redgrid_tests::fake_server::{FakeServer, granting};

/// The maximum number of releases remembered for a primary, and how long each is remembered while
/// the primary answers.
const MOST: usize = 1024;
const KEPT: Duration = Duration::from_secs(5);

/// Returns a server that grants everything, its client, and the number of releases that it
/// received.
fn granted() -> (Arc<FakeServer>, Client, Arc<AtomicUsize>) {
    let releases = Arc::new(AtomicUsize::new(0));
    let (grant, counted) = (granting("1"), Arc::clone(&releases));
    let server = Arc::new(FakeServer::new("made", move |request: &Request| {
        counted.fetch_add(usize::from(request.label() == "lock/release"), Ordering::Relaxed);
        grant(request)
    }));
    let config = Config::single("made").unwrap();
    let client = Client::over_one(Arc::clone(&server) as Arc<dyn Server>, config, Clock::runtime()).unwrap();
    (server, client, releases)
}

async fn hold_and_release(client: &Client, many: usize) {
    for _ in 0..many {
        Lock::new(client, "a").acquire().await.unwrap().release().await.unwrap();
    }
}

/// Waits for this number of releases, and checks that no further release follows.
async fn sent_exactly(releases: &AtomicUsize, many: usize) {
    wait_until(SOON, async || releases.load(Ordering::Relaxed) >= many).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(releases.load(Ordering::Relaxed), many);
}

#[tokio::test(start_paused = true)]
async fn releases_are_repeated_to_another_process_but_not_connection() {
    let (server, client, releases) = granted();
    hold_and_release(&client, 3).await;
    // The client reconnects to the same process.
    server.up();
    sent_exactly(&releases, 3).await;
    server.restarted();
    sent_exactly(&releases, 6).await;
    client.shutdown(SOON).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn only_the_last_releases_are_remembered() {
    let (server, client, releases) = granted();
    hold_and_release(&client, MOST + 10).await;
    server.restarted();
    sent_exactly(&releases, MOST + 10 + MOST).await;
    client.shutdown(SOON).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn releases_are_forgotten_only_while_their_primary_responds() {
    let (server, client, releases) = granted();
    hold_and_release(&client, 3).await;
    tokio::time::sleep(3 * KEPT).await;
    server.lost();
    tokio::time::sleep(KEPT).await;
    server.restarted();
    sent_exactly(&releases, 3).await;
    hold_and_release(&client, 2).await;
    server.lost();
    tokio::time::sleep(10 * KEPT).await;
    server.restarted();
    sent_exactly(&releases, 3 + 2 + 2).await;
    client.shutdown(SOON).await.unwrap();
}
