//! A contended name in segments: nothing is oversold or left over.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use redgrid_locks::{AcquireError, Client, Lock, SegmentedLock};
use redgrid_testkit::wait_until;
use redgrid_tests::{NOTHING, SOON, client, server};

fn stock(segment: usize) -> String {
    format!("stock:{segment}")
}

async fn read(client: &Client, segment: usize) -> u64 {
    client.command("GET").key(stock(segment)).unwrap().query().await.unwrap()
}

async fn write(client: &Client, segment: usize, left: u64) {
    client.command("SET").key(stock(segment)).unwrap().arg(left.to_string()).query::<()>().await.unwrap();
}

/// Buys one piece from the first segment that has any; returns false if all are empty. Only the
/// segment protects the stock between the read and the write.
async fn buy(hot: &SegmentedLock, client: &Client, user: u64) -> bool {
    let mut segments = hot.segments_for(user);
    while let Some(segment) = segments.next().await.unwrap() {
        let left = read(client, segment.index()).await;
        if left > 0 {
            write(client, segment.index(), left - 1).await;
            segment.release().await.unwrap();
            return true;
        }
        if user.is_multiple_of(2) {
            segment.mark_empty().await.unwrap();
        }
    }
    false
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stock_in_segments_is_sold_to_the_last_piece_and_no_further() {
    let server = server().await;
    let clients = [client(&server).await, client(&server).await];
    let whole = 301;
    let parts = SegmentedLock::new(&clients[0], "hot", 4).shares(whole);
    assert_eq!(parts, [76, 75, 75, 75]);
    for (segment, part) in parts.into_iter().enumerate() {
        write(&clients[0], segment, part).await;
    }
    let (sold, users) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let tasks: Vec<_> = (0..16)
        .map(|task| {
            let (client, sold, users) = (clients[task % 2].clone(), Arc::clone(&sold), Arc::clone(&users));
            tokio::spawn(async move {
                let hot = SegmentedLock::new(&client, "hot", 4);
                while buy(&hot, &client, users.fetch_add(1, Ordering::Relaxed)).await {
                    sold.fetch_add(1, Ordering::Relaxed);
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!(sold.load(Ordering::Relaxed), whole);
    for segment in 0..4 {
        assert_eq!(read(&clients[0], segment).await, 0);
    }
    wait_until(SOON, async || clients.iter().all(|client| client.stats() == NOTHING)).await;
}

/// The iterator returns the segment that is free first, whatever their order.
#[tokio::test(flavor = "multi_thread")]
async fn an_iterator_that_found_all_segments_taken_continues() {
    let server = server().await;
    let (one, two) = (client(&server).await, client(&server).await);
    let (here, there) = (SegmentedLock::new(&one, "hot", 3), SegmentedLock::new(&two, "hot", 3));
    let mut held = here.acquire_all().await.unwrap();
    let began = std::time::Instant::now();
    let mut segments = there.segments_from(0).segment_timeout(Duration::from_millis(20)).timeout(3 * SOON);
    let waiting = tokio::spawn(async move { (segments.next().await, segments) });
    // After 500 ms, the iterator has finished its first round, with waits of 20 ms.
    wait_until(SOON, async || began.elapsed() > Duration::from_millis(500)).await;
    held.remove(2).release().await.unwrap();
    let (segment, mut segments) = tokio::time::timeout(SOON, waiting).await.expect("one is free").unwrap();
    assert_eq!(segment.unwrap().unwrap().index(), 2);
    // For the last remaining segment, the iterator waits in that segment's queue.
    there.segment(0).unwrap().force_release().await.unwrap();
    assert_eq!(segments.next().await.unwrap().unwrap().index(), 0);
    let waiting = tokio::spawn(async move { segments.next().await.unwrap().map(|segment| segment.index()) });
    wait_until(SOON, async || two.stats().waiting == 1).await;
    held.remove(1).release().await.unwrap();
    assert_eq!(waiting.await.unwrap(), Some(1));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_iterator_takes_free_segments_then_waits_and_holds_each_once() {
    let server = server().await;
    let (one, two) = (client(&server).await, client(&server).await);
    let (here, there) = (SegmentedLock::new(&one, "hot", 3), SegmentedLock::new(&two, "hot", 3));
    // The start segment of a user is the same for all clients, and differs between users.
    let first =
        |hot: SegmentedLock, by: u64| async move { hot.segments_for(by).next().await.unwrap().unwrap().index() };
    let mut begins = std::collections::BTreeSet::new();
    for by in 0..20 {
        let index = first(here.clone(), by).await;
        wait_until(SOON, async || one.stats() == NOTHING).await;
        assert_eq!(first(there.clone(), by).await, index);
        wait_until(SOON, async || two.stats() == NOTHING).await;
        begins.insert(index);
    }
    assert_eq!(begins.len(), 3);

    let mut held: Vec<_> = here.acquire_all().await.unwrap();
    let mut segments =
        there.segments_for(7).segment_timeout(Duration::from_millis(300)).timeout(Duration::from_millis(2_000));
    let busy = segments.next().await;
    assert!(matches!(busy, Err(AcquireError::TimedOut { .. })), "{busy:?}");
    // The iterator returns the free segment, and then the others as they become free.
    let mut seen = Vec::new();
    let mut segments = there.segments_for(7);
    let index = 1;
    held.remove(index).release().await.unwrap();
    let segment = segments.next().await.unwrap().unwrap();
    assert_eq!((segment.index(), segment.name().as_str()), (1, "hot:1"));
    seen.push(segment.index());
    let waiting = tokio::spawn(async move { (segments.next().await, segments) });
    wait_until(SOON, async || two.stats().waiting == 1).await;
    for guard in held {
        guard.release().await.unwrap();
    }
    let (next, mut segments) = waiting.await.unwrap();
    seen.push(next.unwrap().unwrap().index());
    seen.push(segments.next().await.unwrap().unwrap().index());
    assert!(segments.next().await.unwrap().is_none(), "each was held once");
    seen.sort();
    assert_eq!(seen, [0, 1, 2]);
    // Only the client that marked a segment as empty skips it.
    segment.release().await.unwrap();
    here.segments_from(4).next().await.unwrap().unwrap().mark_empty().await.unwrap();
    let left = async |hot: &SegmentedLock| {
        let (mut segments, mut left) = (hot.clone().segments_from(1), Vec::new());
        while let Some(segment) = segments.next().await.unwrap() {
            left.push(segment.index());
            segment.release().await.unwrap();
        }
        left
    };
    assert_eq!(left(&here).await, [2, 0]);
    assert_eq!(left(&there).await, [1, 2, 0]);
    here.reset();
    assert_eq!(left(&here).await, [1, 2, 0]);
    // A segment is a lock like any other.
    wait_until(SOON, async || one.stats() == NOTHING && two.stats() == NOTHING).await;
    let guard = Lock::new(&one, "hot:2").acquire().await.unwrap();
    assert!(there.segment(2).unwrap().try_acquire().await.unwrap().is_none());
    assert!(there.segment(3).is_none());
    guard.release().await.unwrap();
    let lease = Duration::from_secs(60);
    let fixed = here.segments_for(0).lease(lease).next().await.unwrap().unwrap();
    assert!(fixed.remaining() > lease / 2 && fixed.remaining() < lease);
}
