//! The synchronization between the setup of a job and its run.

use std::io::{self, Write};

use async_trait::async_trait;
use tokio::sync::mpsc::UnboundedReceiver;

use super::{BoxError, allocations};

/// The start signal of a prepared job.
#[async_trait]
pub(super) trait Start: Send {
    /// Announces that the job is ready, and waits for the start signal.
    async fn wait(&mut self) -> Result<(), BoxError>;
}

/// Starts immediately, without a start signal.
pub(super) struct AtOnce;

#[async_trait]
impl Start for AtOnce {
    async fn wait(&mut self) -> Result<(), BoxError> {
        allocations::begin();
        Ok(())
    }
}

/// Prints `READY` and waits for a line of stdin. Several processes can therefore start together,
/// and the harness can prepare its measurement.
#[async_trait]
impl Start for UnboundedReceiver<String> {
    async fn wait(&mut self) -> Result<(), BoxError> {
        print_line("READY")?;
        match self.recv().await {
            Some(_) => {
                allocations::begin();
                Ok(())
            }
            None => Err("stdin ended before the start was given".into()),
        }
    }
}

/// Writes a line for the harness.
pub(super) fn print_line(line: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "{line}")?;
    out.flush()
}
