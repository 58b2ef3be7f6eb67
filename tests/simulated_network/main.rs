//! Acquisitions dropped at random moments over a network that loses, delays and repeats messages.
//!
//! `REDGRID_SEED=7 cargo test -p redgrid-tests --test simulated_network` runs one seed
//! `REDGRID_ROUNDS` times. `REDGRID_ACQUISITIONS` sets the number of acquisitions, and
//! `REDGRID_FIRST_SEED` the first seed. A failure names the file with the trace of its run.

mod crowd;
mod fairness;
mod faithful;
mod ledger;
mod run;

use std::cell::Cell;
use std::panic::AssertUnwindSafe;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use ledger::Seen;

thread_local! {
    /// Number of panics on this thread, including those that a runtime catches.
    static PANICS: Cell<u32> = const { Cell::new(0) };
}

#[test]
fn a_hundred_thousand_acquisitions_dropped_at_random_over_a_lossy_network_leave_nothing() {
    let quiet = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        PANICS.set(PANICS.get() + 1);
        quiet(info);
    }));
    let only = number("REDGRID_SEED");
    let first = only.or(number("REDGRID_FIRST_SEED")).unwrap_or(1);
    let runs = match only {
        Some(_) => number("REDGRID_ROUNDS").unwrap_or(1),
        None => number("REDGRID_ACQUISITIONS").unwrap_or(100_000).div_ceil(run::ACQUISITIONS),
    };
    let next = AtomicU64::new(0);
    let all = Mutex::new((Seen::default(), Vec::new()));
    let threads = std::thread::available_parallelism().map_or(2, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let round = next.fetch_add(1, Ordering::Relaxed);
                    if round >= runs {
                        return;
                    }
                    let seed = only.unwrap_or(first + round);
                    PANICS.set(0);
                    let outcome = std::panic::catch_unwind(AssertUnwindSafe(|| run::run(seed)));
                    let (seen, mut wrong, trace) = match outcome {
                        Ok(outcome) => (outcome.seen, outcome.violations, outcome.trace),
                        Err(_) => (Seen::default(), Vec::new(), Vec::new()),
                    };
                    if PANICS.get() > 0 {
                        wrong.push(format!("{} panics", PANICS.get()));
                    }
                    let mut all = all.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
                    all.0.add(seen);
                    if !wrong.is_empty() {
                        let file = format!("{}/simulated-network-{seed}.txt", env!("CARGO_TARGET_TMPDIR"));
                        let written = std::fs::write(&file, trace.join("\n"));
                        wrong.push(written.map_or_else(|error| error.to_string(), |()| file));
                        all.1.push((seed, wrong));
                    }
                }
            });
        }
    });
    let (seen, wrong) = all.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner());
    println!("{seen:#?}");
    for (seed, wrong) in &wrong {
        eprintln!("REDGRID_SEED={seed}");
        wrong.iter().for_each(|line| eprintln!("    {line}"));
    }
    assert!(wrong.is_empty(), "{} of {runs} seeds went wrong; REDGRID_SEED={} replays one", wrong.len(), wrong[0].0);
    if only.is_none() && runs >= 100 {
        let enough = |what: u64, of: u64, part: u64| assert!(what * part > of, "{what} of {of}: {seen:?}");
        enough(seen.granted, seen.acquisitions, 5);
        enough(seen.dropped, seen.acquisitions, 10);
        enough(seen.reentered, seen.acquisitions, 50);
        enough(seen.unanswered, seen.calls, 100);
        enough(seen.late_releases, seen.acquisitions, 10_000);
    }
}

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().map(|text| text.parse().expect("a whole number"))
}
