//! The terminal's foreground, given to the program.
//!
//! A process group that is not the terminal's foreground group is stopped when it reads from it.
//! The program has its own group, so that it can be killed as a whole. If we are in the foreground,
//! its group takes our place until it ends.

use std::io::{self, IsTerminal};

use nix::sys::signal::{SigSet, Signal, killpg};
use nix::unistd::{Pid, getpgrp, tcgetpgrp, tcsetpgrp};

/// Dropping it takes the terminal back.
pub(super) struct Terminal;

impl Terminal {
    /// Makes `group` the foreground group of the terminal on stdin, if there is one and we are in
    /// the foreground.
    pub(super) fn lend_to(group: Pid) -> Option<Self> {
        let stdin = io::stdin();
        let ours = stdin.is_terminal() && tcgetpgrp(&stdin).is_ok_and(|foreground| foreground == getpgrp());
        if !ours || tcsetpgrp(&stdin, group).is_err() {
            return None;
        }
        // The group may have read from the terminal before, and been stopped for that.
        let _ = killpg(group, Signal::SIGCONT);
        Some(Terminal)
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // A background process that changes this is stopped by SIGTTOU, unless it is blocked.
        let mut stop = SigSet::empty();
        stop.add(Signal::SIGTTOU);
        let blocked = stop.thread_block();
        // A closed terminal needs no foreground group.
        let _ = tcsetpgrp(io::stdin(), getpgrp());
        if blocked.is_ok() {
            let _ = stop.thread_unblock();
        }
    }
}
