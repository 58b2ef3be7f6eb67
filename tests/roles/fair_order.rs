//! Four processes contend for a fair lock, and the server's own record shows the order of entry;
//! for `cargo xtask fairness`.
//!
//! `fair_order ACQUISITIONS`: prints a line of JSON, and fails if the order of entry was not that
//! of arrival.

use std::process::ExitCode;
use std::time::Duration;

use redgrid_tests::fair::contest;
use serde_json::json;

const PROCESSES: usize = 4;
const TASKS: usize = 4;

/// The longest average time of an acquisition: four times that on a busy machine.
const EACH: Duration = Duration::from_millis(100);

#[tokio::main]
pub(crate) async fn run() -> Result<ExitCode, Box<dyn std::error::Error>> {
    let asked: u64 = std::env::args().nth(2).ok_or("fair_order ACQUISITIONS")?.parse()?;
    let times = asked.div_ceil((PROCESSES * TASKS) as u64);
    let server = redgrid_tests::server().await;
    let within = EACH * u32::try_from(asked)? + redgrid_tests::SOON;
    let contest = contest(&server, &std::env::current_exe()?, (PROCESSES, TASKS, times), within).await?;
    let record = &contest.record;
    let seconds = contest.took.as_secs_f64();
    let line = json!({
        "processes": PROCESSES,
        "tasks": TASKS,
        "acquisitions": record.grants,
        "by_place": record.by_place,
        "places": record.places,
        "places_gone": record.gone(),
        "overtaken": record.overtaken.len(),
        "seconds": (seconds * 1000.0).round() / 1000.0,
        "per_second": (record.grants as f64 / seconds).round(),
    });
    println!("{line}");
    // No task is cancelled or killed here.
    let good = record.overtaken.is_empty() && record.gone() == 0 && record.grants == times * (PROCESSES * TASKS) as u64;
    Ok(if good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
