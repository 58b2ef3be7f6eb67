//! The signals that a person or a supervisor sends to `redgrid lock`.

use std::io;

use nix::sys::signal::Signal;
use tokio::signal::unix::{self, SignalKind};

/// SIGINT and SIGTERM, for the program to be told of them; and SIGTSTP, which is kept from stopping us: a stopped holder
/// neither renews its lease nor kills its program when it is lost.
pub(super) struct Signals {
    interrupt: unix::Signal,
    terminate: unix::Signal,
    suspend: unix::Signal,
}

impl Signals {
    /// Listens from now on.
    pub(super) fn listen() -> io::Result<Self> {
        let listen = |signal: Signal| unix::signal(SignalKind::from_raw(signal as i32));
        Ok(Signals {
            interrupt: listen(Signal::SIGINT)?,
            terminate: listen(Signal::SIGTERM)?,
            suspend: listen(Signal::SIGTSTP)?,
        })
    }

    /// The next signal that is meant for the program.
    pub(super) async fn next(&mut self) -> Signal {
        loop {
            tokio::select! {
                Some(()) = self.interrupt.recv() => return Signal::SIGINT,
                Some(()) = self.terminate.recv() => return Signal::SIGTERM,
                Some(()) = self.suspend.recv() => {}
                // The runtime has no signals any more: it is ending.
                else => std::future::pending().await,
            }
        }
    }
}
