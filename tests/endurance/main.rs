//! What lasting trouble costs: measures, each on a deployment of its own and against its bounds.
//!
//! `endurance reshard|dead-primary|stopped-replica|names|early-start|idle SECONDS NAMES` prints one
//! line of JSON and ends with 1 where a promise was broken. SECONDS is how long `early-start` lets
//! clients wait for their servers, NAMES how many are awaited in `names`. `cargo xtask endurance`
//! runs all.

mod dead_primary;
mod early_start;
mod fixture;
mod idle;
mod look;
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
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [measure, late, names] = words.as_slice() else { return usage() };
    let (Ok(late), Ok(names)) = (late.parse().map(Duration::from_secs), names.parse()) else { return usage() };
    let mut report = Report::new(measure, None);
    match measure.as_str() {
        "reshard" => reshard::play(&mut report).await,
        "dead-primary" => dead_primary::play(&mut report).await,
        "stopped-replica" => stopped_replica::play(&mut report).await,
        "names" => names::play(&mut report, names).await,
        "early-start" => early_start::play(&mut report, late).await,
        "idle" => idle::play(&mut report).await,
        _ => return usage(),
    }
    report.print()
}

fn usage() -> ExitCode {
    eprintln!("usage: endurance reshard|dead-primary|stopped-replica|names|early-start|idle SECONDS NAMES");
    ExitCode::from(2)
}
