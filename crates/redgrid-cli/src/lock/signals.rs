//! The signals that a person or a supervisor sends to `redgrid lock`.

use std::io;

use nix::sys::signal::Signal;
use tokio::signal::unix::{self, SignalKind};

/// The signals that are passed on to the program: SIGINT, SIGTERM, SIGHUP and SIGQUIT. One that is ignored from the start, as
/// SIGHUP under `nohup`, is left ignored for the program as well. SIGTSTP is kept from stopping this process: a stopped holder
/// neither renews its lease nor kills its program when the lock is lost.
pub(super) struct Signals {
    interrupt: Option<unix::Signal>,
    terminate: Option<unix::Signal>,
    hangup: Option<unix::Signal>,
    quit: Option<unix::Signal>,
    suspend: unix::Signal,
}

impl Signals {
    /// Listens from now on.
    pub(super) fn listen() -> io::Result<Self> {
        let listen = |signal: Signal| unix::signal(SignalKind::from_raw(signal as i32));
        let unless_ignored = |signal| (!is_ignored(signal)).then(|| listen(signal)).transpose();
        Ok(Signals {
            interrupt: unless_ignored(Signal::SIGINT)?,
            terminate: unless_ignored(Signal::SIGTERM)?,
            hangup: unless_ignored(Signal::SIGHUP)?,
            quit: unless_ignored(Signal::SIGQUIT)?,
            suspend: listen(Signal::SIGTSTP)?,
        })
    }

    /// The next signal that is meant for the program.
    pub(super) async fn next(&mut self) -> Signal {
        loop {
            tokio::select! {
                () = received(&mut self.interrupt) => return Signal::SIGINT,
                () = received(&mut self.terminate) => return Signal::SIGTERM,
                () = received(&mut self.hangup) => return Signal::SIGHUP,
                () = received(&mut self.quit) => return Signal::SIGQUIT,
                Some(()) = self.suspend.recv() => {}
            }
        }
    }
}

/// Completes when the signal was received; never for one that is ignored, and not while the runtime is ending.
async fn received(signal: &mut Option<unix::Signal>) {
    let received = match signal {
        Some(signal) => signal.recv().await,
        None => None,
    };
    if received.is_none() {
        std::future::pending().await
    }
}

/// Whether this process was started with a signal ignored.
#[cfg(target_os = "linux")]
fn is_ignored(signal: Signal) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or_default();
    mask >> (signal as u32 - 1) & 1 == 1
}

/// Elsewhere it can not be found out: signals that are often ignored keep the way they were set.
#[cfg(not(target_os = "linux"))]
fn is_ignored(signal: Signal) -> bool {
    matches!(signal, Signal::SIGHUP | Signal::SIGQUIT)
}
