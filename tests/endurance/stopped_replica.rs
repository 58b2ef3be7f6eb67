//! The only replica hangs: durable calls fail in time with a clear error, and other calls are not
//! affected.

use std::time::{Duration, Instant};

use redgrid_core::config::Durability;
use redgrid_locks::Lock;
use redgrid_testkit::{Replicated, wait_until};
use redgrid_tests::SOON;
use redgrid_tests::spread::{Spread, median, millis};
use tokio::time::sleep;

use crate::fixture::{by_list, connected, hold};
use crate::pairs::{Pairs, kind};
use crate::report::Report;

/// The length of a window, and the number of windows before and during the fault.
const WINDOW: Duration = Duration::from_secs(2);
const BEFORE: usize = 3;
const WHILE: usize = 5;

/// How long the replica may take to acknowledge.
const ACKNOWLEDGED_WITHIN: Duration = Duration::from_millis(500);
const DURABLE: Durability = Durability::Replicas { at_least: 1, timeout: ACKNOWLEDGED_WITHIN };

/// The time for the grant itself, its release, and a busy machine, in addition to the
/// acknowledgement.
const SLACK: Duration = Duration::from_millis(500);

/// Lease with a renewal every second.
const LEASE: Duration = Duration::from_secs(3);
const HELD: usize = 20;

/// Number of extensions: several times the number of renewals that a client with twenty holds
/// sends.
const EXTENSIONS: usize = 100;

/// The bound of a pair's 99th percentile is at least this long, however short the pairs were
/// before: a busy machine with two processors is noisy.
const FLOOR_MS: f64 = 20.0;

pub(crate) async fn run(report: &mut Report) {
    let replicated = Replicated::start(1).await.expect("it starts");
    let client = connected(by_list(&replicated)).await;
    let names = |prefix: &str, count: usize| (0..count).map(|n| format!("{prefix}:{n}")).collect::<Vec<_>>();
    // After its full copy, a replica sends the first acknowledgement up to a second later.
    let first = Lock::new(&client, "first");
    wait_until(SOON, async || first.acquire().timeout(SOON).durability(DURABLE).await.is_ok()).await;
    let held = hold(&client, &names("held", HELD), LEASE).await;
    let proven = Lock::new(&client, "proven").acquire().auto_renew(LEASE).durability(DURABLE).await;
    let proven = proven.expect("the replica acknowledges");
    let plain = Pairs::start(&client, &names("plain", 8), SOON, Durability::Primary);
    let durable = Pairs::start(&client, &names("durable", 3), SOON, DURABLE);
    sleep(WINDOW / 2).await;
    durable.take();
    let (before, calm) = plain.windows(BEFORE, WINDOW).await;
    let extended_before = extensions(&held[0]).await;
    let durable_before = durable.take();
    replicated.replicas()[0].pause().await.expect("it runs");
    let stopped = Instant::now();
    let lost = async {
        let reason = proven.lost().await;
        (stopped.elapsed(), reason)
    };
    let (lost, (during, fault)) = tokio::join!(tokio::time::timeout(SOON, lost), plain.windows(WHILE, WINDOW));
    let extended_during = extensions(&held[0]).await;
    let durable_during = durable.take();
    // An acquire without an acknowledgement releases its grant: nothing stays on the server.
    let refused = Lock::new(&client, "refused").acquire().timeout(SOON).durability(DURABLE).await;
    let error = refused.err().map(|error| kind(&error));
    let observer = replicated.primary().observer().await.expect("it answers");
    let released = Instant::now();
    wait_until(SOON, async || observer.exists("refused").await.is_ok_and(|there| !there)).await;
    report.number("a refused grant was gone after, ms", millis(released.elapsed()));
    let kept = held.iter().filter(|guard| guard.is_held()).count();
    replicated.replicas()[0].resume().await.expect("it is stopped");
    let resumed = Instant::now();
    let again = Lock::new(&client, "again");
    let granted = async || again.acquire().timeout(SOON).durability(DURABLE).await.is_ok();
    wait_until(SOON, granted).await;
    report.number("durable again after, ms", millis(resumed.elapsed()));
    let rest = plain.end().await;
    durable.end().await;

    let p99 = |windows: &[Spread]| median(windows.iter().map(|window| window.p99));
    let (was, is) = (p99(&before), p99(&during));
    let errors = calm.error_count() + fault.error_count() + rest.error_count();
    report.exactly("errors without durability", errors, 0);
    report.at_most("p99 of a pair without durability, ms", is, (2.0 * was).max(FLOOR_MS));
    let (was, is) = (extended_before.p99, extended_during.p99);
    report.at_most("p99 of an extension without durability, ms", is, (2.0 * was).max(FLOOR_MS));
    report.exactly("holds without durability that are kept", kept, HELD);
    report.exactly("durable grants before, errors", durable_before.error_count(), 0);
    // Calls in flight when the replica was stopped may have been acknowledged.
    report.at_most("durable grants while it hangs", durable_during.times.len() as f64, 3.0);
    let untyped = durable_during.errors.iter().filter(|(kind, _)| *kind != "NotDurable").map(|(_, count)| *count);
    report.exactly(
        "refusals that are not `NotDurable`",
        usize::try_from(untyped.sum::<u64>()).unwrap_or(usize::MAX),
        0,
    );
    report.exactly("the last refusal is `NotDurable`", usize::from(error.as_deref() == Some("NotDurable")), 1);
    let late = Spread::of(&durable_during.failed).max;
    report.at_most("the latest refusal, ms", late, millis(ACKNOWLEDGED_WITHIN + SLACK));
    // The durable hold ends at its deadline, because renewals without an acknowledgement do not
    // move it.
    let lost_after = lost.map_or(f64::INFINITY, |(after, _)| millis(after));
    report.at_most("a durable hold is lost within, ms", lost_after, millis(LEASE + SLACK));
    report.number("windows before", before);
    report.number("windows while it hangs", during);
    report.number("extensions before and while", [extended_before, extended_during]);
    report.number("durable pairs before", Spread::of(&durable_before.times));
    report.number("refusals", Spread::of(&durable_during.failed));
    report.number("errors while it hangs", durable_during.errors);
    report.number("error messages", durable_during.messages);
}

async fn extensions(guard: &redgrid_locks::LockGuard) -> Spread {
    let mut times = Vec::new();
    for _ in 0..EXTENSIONS {
        let began = Instant::now();
        guard.extend(LEASE).await.expect("it is held");
        times.push(began.elapsed());
        sleep(Duration::from_millis(10)).await;
    }
    Spread::of(&times)
}
