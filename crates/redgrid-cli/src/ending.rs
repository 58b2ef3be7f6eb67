//! The end of commands that run until a signal arrives or their time is over.

use std::time::Duration;

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::failure::Failure;

/// The signals that end a command.
pub(crate) struct Ending {
    interrupt: Signal,
    terminate: Signal,
}

impl Ending {
    /// Listens to SIGINT and SIGTERM.
    pub(crate) fn listen() -> Result<Self, Failure> {
        let listen = |kind| signal(kind).map_err(|error| Failure::broken(format!("cannot listen to signals: {error}")));
        Ok(Ending { interrupt: listen(SignalKind::interrupt())?, terminate: listen(SignalKind::terminate())? })
    }

    /// Runs `work` until it ends, a signal arrives, or the time `long` is over.
    pub(crate) async fn run(
        mut self,
        long: Option<Duration>,
        work: impl Future<Output = Result<(), Failure>>,
    ) -> Result<(), Failure> {
        let over = async {
            match long {
                Some(long) => tokio::time::sleep(long).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            ended = work => ended,
            () = over => Ok(()),
            _ = self.interrupt.recv() => Ok(()),
            _ = self.terminate.recv() => Ok(()),
        }
    }
}
