//! Jobs from stdin: a line `JOB key=value …` each, until `QUIT` or the end of stdin.

use std::io;
use std::process::ExitCode;

use serde_json::json;
use tokio::sync::mpsc;

use super::job::{Job, Unsupported};
use super::start::say;
use super::{Driver, Trouble};
use crate::failure::one_line;

/// Serves jobs. What can not be done is answered by a line of JSON instead of `READY`, and the next job is waited for.
pub(super) async fn run(driver: &mut Driver) -> Result<ExitCode, Trouble> {
    let mut lines = lines();
    say("UP")?;
    while let Some(line) = lines.recv().await {
        if line == "QUIT" {
            break;
        }
        let Some(words) = line.strip_prefix("JOB ") else { continue };
        let answer = match Job::from_words(words) {
            Ok(job) => match driver.run(&job, &mut lines).await {
                Ok(outcome) => outcome.json(&job)?,
                Err(trouble) => json!({"error": one_line(&*trouble)}).to_string(),
            },
            Err(trouble) => {
                json!({"unsupported": trouble.is::<Unsupported>(), "error": one_line(&*trouble)}).to_string()
            }
        };
        say(&answer)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The lines from stdin. A thread of its own reads them: held locks are renewed while nobody speaks, also where the runtime
/// has one thread.
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
