//! The cost of lasting faults: measures, each on its own deployment, with their bounds.
//!
//! `endurance reshard|dead-primary|stopped-replica|names|early-start|idle SECONDS NAMES` prints one
//! line of JSON, and ends with 1 after a broken promise. SECONDS is how long clients wait for their
//! servers in `early-start`, NAMES the number of awaited names in `names`. `cargo xtask endurance`
//! runs all.

mod counters;
mod dead_primary;
mod early_start;
mod fixture;
mod idle;
mod names;
mod pairs;
#[path = "../../benches/scale/report.rs"]
mod report;
mod reshard;
mod stopped_replica;

use std::process::ExitCode;
use std::time::Duration;

use report::Report;

#[tokio::main]
async fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [measure, late, names] = args.as_slice() else { return usage() };
    let (Ok(late), Ok(names)) = (late.parse().map(Duration::from_secs), names.parse()) else { return usage() };
    let mut report = Report::new(measure, None);
    match measure.as_str() {
        "reshard" => reshard::run(&mut report).await,
        "dead-primary" => dead_primary::run(&mut report).await,
        "stopped-replica" => stopped_replica::run(&mut report).await,
        "names" => names::run(&mut report, names).await,
        "early-start" => early_start::run(&mut report, late).await,
        "idle" => idle::run(&mut report).await,
        _ => return usage(),
    }
    report.print()
}

fn usage() -> ExitCode {
    eprintln!("usage: endurance reshard|dead-primary|stopped-replica|names|early-start|idle SECONDS NAMES");
    ExitCode::from(2)
}
