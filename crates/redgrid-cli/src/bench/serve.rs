//! Jobs from stdin: one line `JOB key=value …` each, until `QUIT` or the end of stdin.

use std::io;
use std::process::ExitCode;

use serde_json::json;
use tokio::sync::mpsc;

use super::job::{Job, Unsupported};
use super::start::print_line;
use super::{BoxError, Driver};
use crate::failure::one_line;

/// Serves jobs. If a job fails, a JSON line is printed instead of `READY`, and the next job is
/// read.
pub(super) async fn run(driver: &mut Driver) -> Result<ExitCode, BoxError> {
    let mut lines = lines();
    print_line("UP")?;
    while let Some(line) = lines.recv().await {
        if line == "QUIT" {
            break;
        }
        let Some(words) = line.strip_prefix("JOB ") else { continue };
        let answer = match Job::from_words(words) {
            Ok(job) => match driver.run(&job, &mut lines).await {
                Ok(outcome) => outcome.json(&job)?,
                Err(error) => json!({"error": one_line(&*error)}).to_string(),
            },
            Err(error) => json!({"unsupported": error.is::<Unsupported>(), "error": one_line(&*error)}).to_string(),
        };
        print_line(&answer)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns the lines of stdin. A separate thread reads them. Held locks are therefore renewed while
/// the driver waits for a line, even on a single-threaded runtime.
fn lines() -> mpsc::UnboundedReceiver<String> {
    let (sender, lines) = mpsc::unbounded_channel();
    std::thread::spawn(move || {
        for line in io::stdin().lines().map_while(Result::ok) {
            if sender.send(line.trim_end().to_owned()).is_err() {
                return;
            }
        }
    });
    lines
}
