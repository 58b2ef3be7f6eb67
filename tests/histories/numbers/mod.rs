//! Recorded histories of numbers: three clients change one or two numbers during faults. A search
//! looks for an order of the calls that explains all answers.
//!
//! `REDGRID_HISTORIES=1000` runs 1000 histories instead of twenty. `REDGRID_HISTORY=17` runs only
//! the history with this seed, and prints its calls.

mod harness;
mod plan;
mod search;

use std::collections::BTreeSet;
use std::fmt::Write;
use std::time::Instant;

use futures_util::StreamExt;
use redgrid_testkit::RedisServer;

use self::plan::Plan;
use self::search::{Call, Verdict, judge};
use super::{HISTORIES, TURN, number};

/// Number of concurrent histories, each with a server that it may kill; they wait most of the time.
const AT_A_TIME: u64 = 6;

/// The results of some histories.
#[derive(Default)]
struct Seen {
    calls: usize,
    unanswered: usize,
    given_up: BTreeSet<u64>,
    contradicted: BTreeSet<u64>,
}

#[tokio::test(flavor = "multi_thread")]
async fn every_history_of_numbers_has_an_order_that_explains_it() {
    let _turn = TURN.lock().await;
    let began = Instant::now();
    let seeds = match number("REDGRID_HISTORY") {
        Some(seed) => seed..seed + 1,
        None => 0..number("REDGRID_HISTORIES").unwrap_or(HISTORIES),
    };
    let count = seeds.end - seeds.start;
    // A lane runs every `AT_A_TIME`-th seed, one after the other, on its own server.
    let lane = |first: u64| {
        let seeds = seeds.clone();
        async move {
            let (server, mut seen) = (harness::server().await, Seen::default());
            for seed in seeds.filter(|seed| seed % AT_A_TIME == first) {
                one(&server, seed, &mut seen).await;
            }
            seen
        }
    };
    let mut lanes: futures_util::stream::FuturesUnordered<_> = (0..AT_A_TIME).map(lane).collect();
    let mut sum = Seen::default();
    while let Some(seen) = lanes.next().await {
        sum.calls += seen.calls;
        sum.unanswered += seen.unanswered;
        sum.given_up.extend(seen.given_up);
        sum.contradicted.extend(seen.contradicted);
    }
    let Seen { calls, unanswered, given_up, contradicted } = sum;
    eprintln!(
        "{count} histories of numbers in {:.1?}: {calls} calls, {unanswered} of them unanswered; \
         {} explained, {} contradicted, {} given up {given_up:?}",
        began.elapsed(),
        count - contradicted.union(&given_up).count() as u64,
        contradicted.len(),
        given_up.len(),
    );
    assert!(contradicted.is_empty(), "of the seeds {contradicted:?}; run one with REDGRID_HISTORY=seed");
    // At most one search in fifty may be given up, and one in a short run.
    assert!(given_up.len() as u64 <= (count / 50).max(1), "the searches of {given_up:?} found no end");
    assert!(count < HISTORIES || calls as u64 > 20 * count, "too little happened: {calls} calls");
}

async fn one(server: &RedisServer, seed: u64, seen: &mut Seen) {
    let plan = Plan::draw(seed);
    let numbers = harness::run(&plan, server, seed).await;
    let only_one = number("REDGRID_HISTORY").is_some();
    for mut calls in numbers {
        calls.sort_by_key(|call| call.from);
        seen.calls += calls.len();
        seen.unanswered += calls.iter().filter(|call| call.answer.is_none()).count();
        let story = calls.clone();
        let verdict = tokio::task::spawn_blocking(move || judge(&story)).await.expect("a search does not panic");
        if let Verdict::Contradicted(path) = &verdict {
            eprintln!(
                "history {seed} has no order\n{plan:?}\n{}the longest part that has one:\n{}",
                described(&calls),
                described(path)
            );
            seen.contradicted.insert(seed);
        } else if only_one {
            eprintln!("{plan:?}\n{}{verdict:?}", described(&calls));
        }
        if verdict == Verdict::GivenUp {
            seen.given_up.insert(seed);
        }
    }
}

/// Returns the calls as text, one line each.
fn described(calls: &[Call]) -> String {
    calls.iter().fold(String::new(), |mut text, Call { caller: (client, task), op, from, answer: given }| {
        let micros = from / 1000;
        let _ = match given {
            Some((to, answer)) => {
                writeln!(text, "{micros:8} to {:8} µs  {client}.{task}: {op:?} returned {answer:?}", to / 1000)
            }
            None => writeln!(text, "{micros:8} µs              {client}.{task}: {op:?} was not answered"),
        };
        text
    })
}
