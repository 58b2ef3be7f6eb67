//! Recorded histories: four processes take locks during faults and record what they see. A checker
//! that is independent of redgrid checks the records. The module `numbers` does this for numbers.
//!
//! `REDGRID_HISTORIES=500 cargo test --release -p redgrid-tests --test histories` runs 500
//! histories instead of twenty, as does `cargo xtask histories 500`. `REDGRID_HISTORY=17` runs only
//! the history with this seed, and prints the file of its events.

mod bad;
mod check;
mod crew;
mod faults;
mod harness;
mod numbers;
mod object;
mod story;

use std::time::Instant;

use futures_util::StreamExt;
use harness::Plan;
use redgrid_tests::history::Event;

/// Number of histories unless `REDGRID_HISTORIES` is set.
const HISTORIES: u64 = 20;

/// Number of concurrent histories; they wait most of the time.
const AT_A_TIME: usize = 4;

/// The histories of locks and those of numbers run one after the other: each needs the whole
/// machine.
static TURN: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

#[tokio::test(flavor = "multi_thread")]
async fn no_history_shows_two_holders_a_token_that_falls_or_a_stale_write() {
    let _turn = TURN.lock().await;
    let began = Instant::now();
    let seeds = match number("REDGRID_HISTORY") {
        Some(seed) => seed..seed + 1,
        None => 0..number("REDGRID_HISTORIES").unwrap_or(HISTORIES),
    };
    let count = seeds.end - seeds.start;
    let mut outcomes = futures_util::stream::iter(seeds).map(judge).buffer_unordered(AT_A_TIME);
    let (mut bad, mut sum) = (Vec::new(), Seen::default());
    while let Some((seed, outcome)) = outcomes.next().await {
        match outcome {
            Ok(seen) => sum.add(&seen),
            Err(why) => {
                eprintln!("history {seed}: {why}");
                bad.push(seed);
            }
        }
    }
    let (Seen { grants, reads, busy, ungranted, updates, overwritten, fenced }, took) = (sum, began.elapsed());
    eprintln!(
        "{count} histories in {took:.1?}: {grants} grants, {reads} reads, {busy} busy, {ungranted} without a grant, \
         {updates} updates ({overwritten} overwritten, all by holds that were lost or killed), \
         {fenced} in the register, {} bad",
        bad.len()
    );
    assert!(bad.is_empty(), "of the seeds {bad:?}; run one with REDGRID_HISTORY=seed");
    assert!(
        count < HISTORIES || grants > 5 * count && reads > count / 4,
        "too little happened: {grants} grants, {reads} reads in {count} histories"
    );
}

/// Totals over the histories.
#[derive(Default)]
struct Seen {
    grants: u64,
    reads: u64,
    busy: u64,
    ungranted: u64,
    updates: u64,
    overwritten: u64,
    fenced: u64,
}

impl Seen {
    fn add(&mut self, other: &Seen) {
        self.grants += other.grants;
        self.reads += other.reads;
        self.busy += other.busy;
        self.ungranted += other.ungranted;
        self.updates += other.updates;
        self.overwritten += other.overwritten;
        self.fenced += other.fenced;
    }
}

async fn judge(seed: u64) -> (u64, Result<Seen, String>) {
    let plan = Plan::draw(seed);
    let history = match plan.run().await {
        Ok(history) => history,
        Err(why) => return (seed, Err(format!("{why}\n{plan:?}"))),
    };
    let found = check::violations(&history);
    if !found.is_empty() || number("REDGRID_HISTORY").is_some() {
        eprintln!("{plan:?}\nthe events of history {seed} are in {}", write_events(seed, &history));
    }
    if !found.is_empty() {
        return (seed, Err([found, history.left].concat().join("\n")));
    }
    let mut seen = Seen::default();
    for story in history.stories().values() {
        seen.grants += story.holds.len() as u64;
        seen.busy += story.busy.len() as u64;
        seen.ungranted += story.ungranted.len() as u64;
        seen.updates += story.updates.len() as u64;
    }
    seen.reads = history.stories().values().map(|story| story.reads.len() as u64).sum();
    seen.overwritten = check::lost_updates(&history).values().sum();
    seen.fenced = history.accepted.values().map(|list| list.len() as u64).sum();
    (seed, Ok(seen))
}

/// Writes the events of all processes to a file in the order of their times, and returns its path.
fn write_events(seed: u64, history: &story::History) -> String {
    let records = history.records.iter().enumerate();
    let mut all: Vec<_> = records.flat_map(|(n, record)| record.iter().map(move |event| (n, event))).collect();
    all.sort_by_key(|(_, event)| event.at);
    let from = all.first().map_or(0, |(_, event)| event.at);
    let line = |(process, Event { at, task, id, kind }): &(usize, &Event)| {
        format!("{:9} µs  {process}.{task} #{id}: {kind:?}\n", (at - from) / 1000)
    };
    let path = std::env::temp_dir().join(format!("redgrid-history-{seed}.txt"));
    let written = std::fs::write(&path, all.iter().map(line).collect::<String>());
    written.map_or_else(|error| error.to_string(), |()| path.display().to_string())
}

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}
