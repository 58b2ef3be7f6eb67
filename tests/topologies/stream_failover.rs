//! Streams during a failover, while the consumers of a group work.

use std::collections::BTreeSet;

use redgrid_stream::{Consumer, Start, Stream};
use redgrid_testkit::{Sentinels, wait_until};
use redgrid_tests::SOON;

use crate::fixture::{by_sentinels, connected, replicated, scenarios};

scenarios![sentinel_consumers_of_a_group_go_on_at_the_promoted_primary];

/// Acknowledges the next entry and returns its number. A request that fails meanwhile is repeated.
async fn worked(consumer: &mut Consumer<String, u64>) -> u64 {
    let delivery = loop {
        if let Ok(delivery) = tokio::time::timeout(2 * SOON, consumer.try_next()).await.expect("something comes") {
            break delivery.expect("the client lives");
        }
    };
    wait_until(2 * SOON, async || delivery.ack().await.is_ok()).await;
    *delivery.get("n").expect("it is a number")
}

async fn sentinel_consumers_of_a_group_go_on_at_the_promoted_primary() {
    let sentinels = Sentinels::start().await.unwrap();
    let former = sentinels.current_primary().await.unwrap();
    let address = former.addr();
    let patient = || by_sentinels(&sentinels).retries(39);
    let (adding, working) = (connected(patient()).await, connected(patient()).await);
    let stream: Stream<String, u64> = Stream::new(&adding, "orders");
    let group = Stream::<String, u64>::new(&working, "orders").group("g");
    group.create().from_start().make_stream().await.unwrap();
    for n in 0..100 {
        stream.add("n", &n).await.unwrap();
    }
    // The first consumer reads a page and has finished half of it. The other consumer has not
    // begun.
    let mut one = group.consumer("one").page(40).create_if_missing(Start::Beginning);
    let mut done = Vec::new();
    for _ in 0..20 {
        done.push(worked(&mut one).await);
    }
    assert_eq!(done, (0..20).collect::<Vec<_>>());
    // The replicas have all data, so every promoted replica knows the acknowledgements.
    replicated(former, 2).await;
    former.kill().await.unwrap();
    let promoted = sentinels.wait_for_primary_other_than(address).await.unwrap();
    for n in 100..150 {
        // An entry with a lost answer is not added twice.
        wait_until(2 * SOON, async || stream.add("n", &n).exactly_once().await.is_ok()).await;
    }
    // The other consumer takes two whole pages, because the rest of a page would stay with it.
    let mut other = group.consumer("other").page(25);
    let (mut by_one, mut by_other) = (Vec::new(), Vec::new());
    for _ in 0..50 {
        by_other.push(worked(&mut other).await);
    }
    while by_one.len() + by_other.len() < 130 {
        by_one.push(worked(&mut one).await);
    }
    let all: BTreeSet<u64> = by_one.iter().chain(&by_other).copied().collect();
    assert_eq!(all, (20..150).collect(), "each entry once, and no acknowledged entry");
    assert_eq!(by_one[..20], (20..40).collect::<Vec<_>>(), "entries given to a consumer stay with it");
    assert!(by_other.is_sorted() && by_other[0] == 40, "new entries are given out in order: {by_other:?}");
    let observer = promoted.observer().await.unwrap();
    let pending: Vec<String> = observer.query(&["XPENDING", "orders", "g", "-", "+", "1"]).await.unwrap();
    assert!(pending.is_empty(), "all are acknowledged there: {pending:?}");
}
