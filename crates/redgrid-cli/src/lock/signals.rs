//! The signals sent to `redgrid lock`.

use std::io;

use nix::sys::signal::Signal;
use tokio::signal::unix::{self, SignalKind};

/// The signals that are passed on to the program: SIGINT, SIGTERM, SIGHUP and SIGQUIT. A signal
/// that is ignored from the start, as SIGHUP under `nohup`, stays ignored for the program too.
/// SIGTSTP does not stop this process, because a stopped holder does not renew its lease, and does
/// not kill its program when the lock is lost.
pub(super) struct Signals {
    interrupt: Option<unix::Signal>,
    terminate: Option<unix::Signal>,
    hangup: Option<unix::Signal>,
    quit: Option<unix::Signal>,
    suspend: unix::Signal,
}

impl Signals {
    /// Starts listening.
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

    /// Returns the next signal to pass on to the program.
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

/// Completes when the signal is received. Never completes if the signal is ignored, or while the
/// runtime shuts down.
async fn received(signal: &mut Option<unix::Signal>) {
    let received = match signal {
        Some(signal) => signal.recv().await,
        None => None,
    };
    if received.is_none() {
        std::future::pending().await
    }
}

/// Whether the signal was ignored when this process started.
#[cfg(target_os = "linux")]
fn is_ignored(signal: Signal) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or_default();
    mask >> (signal as u32 - 1) & 1 == 1
}

/// Other systems do not report this. Signals that are often ignored keep their disposition.
#[cfg(not(target_os = "linux"))]
fn is_ignored(signal: Signal) -> bool {
    matches!(signal, Signal::SIGHUP | Signal::SIGQUIT)
}
