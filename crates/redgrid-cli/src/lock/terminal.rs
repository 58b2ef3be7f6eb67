//! Gives the terminal's foreground to the program.
//!
//! A process that is not in the terminal's foreground group is stopped when it reads from the
//! terminal. The program has its own group, so that it can be killed as a whole. If this process is
//! in the foreground, the program's group therefore becomes the foreground group until the program
//! ends.

use std::io::{self, IsTerminal};

use nix::sys::signal::{SigSet, Signal, killpg};
use nix::unistd::{Pid, getpgrp, tcgetpgrp, tcsetpgrp};

/// Dropping this value makes this process's group the foreground group again.
pub(super) struct Terminal;

impl Terminal {
    /// Makes `group` the foreground group of the terminal on stdin. Returns `None` if there is no
    /// terminal, or this process is not in the foreground.
    pub(super) fn lend_to(group: Pid) -> Option<Self> {
        let stdin = io::stdin();
        let ours = stdin.is_terminal() && tcgetpgrp(&stdin).is_ok_and(|foreground| foreground == getpgrp());
        if !ours || tcsetpgrp(&stdin, group).is_err() {
            return None;
        }
        // The group may already have read from the terminal, and have been stopped for that; it is
        // continued.
        let _ = killpg(group, Signal::SIGCONT);
        Some(Terminal)
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // A background process that changes the foreground group is stopped by SIGTTOU, unless the
        // signal is blocked.
        let mut stop = SigSet::empty();
        stop.add(Signal::SIGTTOU);
        let blocked = stop.thread_block();
        // An error is ignored: a closed terminal needs no foreground group.
        let _ = tcsetpgrp(io::stdin(), getpgrp());
        if blocked.is_ok() {
            let _ = stop.thread_unblock();
        }
    }
}
