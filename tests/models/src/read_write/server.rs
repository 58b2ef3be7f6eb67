//! The server with its scripts.

use super::{Kind, Request, Rules};

/// The lock's hash, and the hash of waiting writers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Server {
    pub(crate) holders: Vec<Holder>,
    pub(crate) writing: bool,
    /// Processes with a waiting writer, and the order of their arrival.
    pub(crate) waiting: Vec<(u8, u8)>,
    /// Whether a release cut the key's lifetime below that of a remaining holder.
    pub(crate) shortened: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Holder {
    pub(crate) field: u8,
    /// Whether its lease has not ended.
    pub(crate) live: bool,
}

impl Server {
    pub(crate) fn has(&self, field: u8) -> bool {
        self.holders.iter().any(|holder| holder.field == field)
    }

    pub(crate) fn is_free(&self) -> bool {
        self.holders.is_empty()
    }

    /// Whether the script would grant the request.
    pub(crate) fn admits(&self, rules: &Rules, request: &Request) -> bool {
        if self.has(request.field) {
            return true;
        }
        let inside = request.held.is_some_and(|held| self.has(held));
        match request.kind {
            Kind::Read if self.writing => inside,
            Kind::Read => {
                let before = |since: u8| !rules.first_come || request.since.is_none_or(|refused| since < refused);
                inside || !rules.steps_back || !self.waiting.iter().any(|(_, since)| before(*since))
            }
            Kind::Write => {
                let alone = self.holders.len() == 1 || !rules.only_reader_upgrades;
                self.is_free() || (!self.writing && inside && alone)
            }
        }
    }

    /// Runs an acquire script. Returns whether the request is granted.
    pub(crate) fn acquire(&mut self, rules: &Rules, process: u8, request: &Request, now: u8) -> bool {
        if !self.admits(rules, request) {
            if request.kind == Kind::Write
                && request.waits
                && !self.waiting.iter().any(|(waiter, _)| *waiter == process)
            {
                self.waiting.push((process, now));
                self.waiting.sort_unstable();
            }
            return false;
        }
        if !self.has(request.field) {
            self.holders.push(Holder { field: request.field, live: true });
            self.holders.sort_unstable_by_key(|holder| holder.field);
            self.writing |= request.kind == Kind::Write;
        }
        if request.kind == Kind::Write {
            self.withdraw(process);
        }
        true
    }

    pub(crate) fn withdraw(&mut self, process: u8) {
        self.waiting.retain(|(waiter, _)| *waiter != process);
    }

    /// Runs a release script. Returns whether it wakes the waiters.
    pub(crate) fn release(&mut self, rules: &Rules, kind: Kind, field: u8) -> bool {
        if !self.has(field) {
            return false;
        }
        self.holders.retain(|holder| holder.field != field);
        if self.is_free() {
            (self.writing, self.shortened) = (false, false);
            return true;
        }
        match kind {
            Kind::Write => {
                self.writing = false;
                rules.downgrade_wakes
            }
            Kind::Read => {
                self.shortened |= !rules.keeps_the_longest_lease;
                false
            }
        }
    }

    /// Whether the key may expire.
    pub(crate) fn may_expire(&self) -> bool {
        !self.is_free() && (self.shortened || self.holders.iter().all(|holder| !holder.live))
    }

    pub(crate) fn expire(&mut self) {
        self.holders.clear();
        (self.writing, self.shortened) = (false, false);
    }
}
