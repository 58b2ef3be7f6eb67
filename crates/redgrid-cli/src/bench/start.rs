//! The moment between setting a job up and running it.

use std::io::{self, Write};

use async_trait::async_trait;
use tokio::sync::mpsc::UnboundedReceiver;

use super::{Trouble, allocations};

/// What a job waits for when it is set up and warm.
#[async_trait]
pub(super) trait Start: Send {
    /// Says that all is ready, and waits for the word to begin.
    async fn given(&mut self) -> Result<(), Trouble>;
}

/// Begins at once.
pub(super) struct AtOnce;

#[async_trait]
impl Start for AtOnce {
    async fn given(&mut self) -> Result<(), Trouble> {
        allocations::begin();
        Ok(())
    }
}

/// Says `READY` and waits for a line, so that several processes begin together and the one who measures looks first.
#[async_trait]
impl Start for UnboundedReceiver<String> {
    async fn given(&mut self) -> Result<(), Trouble> {
        say("READY")?;
        match self.recv().await {
            Some(_) => {
                allocations::begin();
                Ok(())
            }
            None => Err("stdin ended before the start was given".into()),
        }
    }
}

/// Writes a line to whoever drives us.
pub(super) fn say(line: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "{line}")?;
    out.flush()
}
