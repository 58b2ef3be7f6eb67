//! A process: it has at most one read, shared by its tasks, one write, and one request to the
//! server.

use super::{Action, Kind, ReadWrite, Request, State};

/// One process as a client.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Process {
    pub(crate) read: Option<Reading>,
    pub(crate) write: Option<Writing>,
    pub(crate) request: Option<Request>,
    /// Whether the request was refused, and the client waits for a message.
    pub(crate) asleep: bool,
    pub(crate) woken: bool,
    pub(crate) crashed: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Reading {
    pub(crate) field: u8,
    /// The task that owns the read, if only one task does.
    pub(crate) holder: u8,
    pub(crate) guards: u8,
    pub(crate) sealed: bool,
    pub(crate) believed: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Writing {
    pub(crate) field: u8,
    pub(crate) holder: u8,
    pub(crate) sealed: bool,
    pub(crate) believed: bool,
}

impl Process {
    /// Whether the process will release this field on the server.
    pub(crate) fn knows(&self, field: u8) -> bool {
        let requested = self.request.is_some_and(|request| request.field == field);
        let reads = self.read.is_some_and(|read| read.field == field);
        self.crashed || requested || reads || self.write.is_some_and(|write| write.field == field)
    }

    fn stop_believing(&mut self) {
        self.read.iter_mut().for_each(|read| read.believed = false);
        self.write.iter_mut().for_each(|write| write.believed = false);
    }

    fn believes(&self) -> bool {
        self.read.is_some_and(|read| read.believed) || self.write.is_some_and(|write| write.believed)
    }
}

impl State {
    pub(super) fn is_exclusive(&self) -> bool {
        let reads = || self.processes.iter().filter_map(|process| process.read).filter(|read| read.believed);
        let writes = || self.processes.iter().filter_map(|process| process.write).filter(|write| write.believed);
        let own = |read: Reading, holder: u8| read.holder == holder && read.guards == 1;
        writes().count() <= 1 && writes().all(|write| reads().all(|read| own(read, write.holder)))
    }

    fn wake(&mut self) {
        for process in self.processes.iter_mut().filter(|process| process.asleep) {
            process.woken = true;
        }
    }
}

impl ReadWrite {
    pub(super) fn actions_of(&self, state: &State, at: u8, process: &Process, actions: &mut Vec<Action>) {
        let mut may = |action: fn(u8) -> Action, when: bool| actions.extend(when.then(|| action(at)));
        let left = &state.left;
        let live = !process.crashed;
        may(Action::AnnouncementEnds, !live && state.server.waiting.iter().any(|(waiter, _)| *waiter == at));
        let ours = [process.read.map(|read| read.field), process.write.map(|write| write.field)];
        let on_server = state.server.holders.iter().any(|holder| holder.live && ours.contains(&Some(holder.field)));
        let may_end = !process.believes() || (!self.rules.stops_in_time && left.expiries > 0);
        may(Action::LeasesEnd, on_server && may_end);
        if !live {
            return;
        }
        let (requests, idle) = (left.requests > 0, process.request.is_none());
        may(Action::Read, requests && idle && process.read.is_none());
        let joins = process.read.is_some_and(|read| read.believed && read.guards < 2 && !read.sealed);
        may(Action::Join, joins && requests);
        may(Action::Write, requests && idle && process.write.is_none());
        let writes = process.write.is_some_and(|write| write.believed);
        may(Action::ReadAsWriter, requests && idle && writes && process.read.is_none());
        let reads = process.read.is_some_and(|read| read.believed && (read.guards == 1 || !self.rules.upgrades_alone));
        may(Action::Upgrade, requests && idle && reads && process.write.is_none());
        may(Action::Deliver, !idle && !process.asleep);
        may(Action::LoseAnswer, !idle && !process.asleep && left.losses > 0);
        may(Action::GiveUp, !idle);
        may(Action::Wake, process.woken);
        may(Action::EndRead, process.read.is_some());
        may(Action::EndWrite, process.write.is_some());
        let may_hand_over = process.write.is_some_and(|write| write.believed && !write.sealed);
        may(Action::HandOver, may_hand_over && requests);
        may(Action::Crash, left.crashes > 0 && (process.believes() || !idle));
        may(Action::DeadlinePasses, left.expiries > 0 && process.believes());
    }

    pub(super) fn apply(&self, state: &mut State, action: Action) {
        let rules = &self.rules;
        match action {
            Action::Read(at) => self.send_request(state, at, Kind::Read, None, true),
            Action::Write(at) => self.send_request(state, at, Kind::Write, None, true),
            Action::Join(at) => {
                state.left.requests -= 1;
                process(state, at).read.iter_mut().for_each(|read| read.guards += 1);
            }
            Action::ReadAsWriter(at) => {
                let Some(write) = &mut process(state, at).write else { return };
                write.sealed |= rules.keeps_a_write_with_a_read;
                let held = Some((write.field, write.holder));
                self.send_request(state, at, Kind::Read, held, true);
            }
            Action::Upgrade(at) => {
                let Some(read) = &mut process(state, at).read else { return };
                read.sealed |= rules.stops_sharing;
                let held = Some((read.field, read.holder));
                self.send_request(state, at, Kind::Write, held, false);
            }
            Action::Deliver(at) => self.deliver(state, at),
            Action::LoseAnswer(at) => {
                let Some(request) = process(state, at).request else { return };
                state.left.losses -= 1;
                self.run(state, at, &request);
                state.copies.push((at, request));
            }
            Action::LateCopy => {
                let (at, request) = state.copies.remove(0);
                let waited_for = process(state, at).request.is_some_and(|own| own.field == request.field);
                if waited_for || !rules.refuses_late {
                    self.run(state, at, &request);
                }
            }
            Action::DropCopy => drop(state.copies.remove(0)),
            Action::GiveUp(at) => {
                let Some(request) = process(state, at).request.take() else { return };
                (process(state, at).asleep, process(state, at).woken) = (false, false);
                let waited = state.server.waiting.iter().any(|(waiter, _)| *waiter == at);
                state.server.withdraw(at);
                let freed = state.server.release(rules, request.kind, request.field);
                if freed || (waited && rules.leaving_wakes) {
                    state.wake();
                }
            }
            Action::Wake(at) => (process(state, at).asleep, process(state, at).woken) = (false, false),
            Action::EndRead(at) => {
                let Some(read) = &mut process(state, at).read else { return };
                read.guards -= 1;
                let (field, last) = (read.field, read.guards == 0);
                if last {
                    process(state, at).read = None;
                    self.release(state, Kind::Read, field);
                }
            }
            Action::EndWrite(at) => {
                let Some(write) = process(state, at).write.take() else { return };
                state.seen.downgraded |= process(state, at).read.is_some_and(|read| read.believed);
                self.release(state, Kind::Write, write.field);
            }
            Action::HandOver(at) => {
                state.left.requests -= 1;
                state.clock += 1;
                let holder = state.clock;
                process(state, at).write.iter_mut().for_each(|write| write.holder = holder);
            }
            Action::Crash(at) => {
                state.left.crashes -= 1;
                let process = process(state, at);
                process.stop_believing();
                (process.crashed, process.request, process.asleep, process.woken) = (true, None, false, false);
            }
            Action::DeadlinePasses(at) => {
                state.left.expiries -= 1;
                process(state, at).stop_believing();
            }
            Action::LeasesEnd(at) => {
                let process = process(state, at);
                if process.believes() {
                    state.left.expiries -= 1;
                }
                let process = &state.processes[usize::from(at)];
                let ours = [process.read.map(|read| read.field), process.write.map(|write| write.field)];
                for holder in &mut state.server.holders {
                    holder.live &= !ours.contains(&Some(holder.field));
                }
            }
            Action::KeyExpires => {
                state.server.expire();
                // Waiting clients have the key's lifetime, and wake when it ends.
                state.wake();
            }
            Action::AnnouncementEnds(at) => {
                state.server.withdraw(at);
                state.wake();
            }
        }
    }

    fn send_request(&self, state: &mut State, at: u8, kind: Kind, held: Option<(u8, u8)>, waits: bool) {
        state.left.requests -= 1;
        state.clock += 1;
        let field = state.clock;
        let holder = held.map_or(field, |(_, holder)| holder);
        let held = held.map(|(field, _)| field);
        let request = Request { kind, field, holder, held, came: field, since: None, waits };
        process(state, at).request = Some(request);
    }

    /// Runs the acquire script. Returns whether the request is granted.
    fn run(&self, state: &mut State, at: u8, request: &Request) -> bool {
        state.clock += 1;
        let now = state.clock;
        let is_new = !state.server.has(request.field);
        let granted = state.server.acquire(&self.rules, at, request, now);
        if granted && is_new && request.kind == Kind::Read && request.held.is_none() {
            let waits = |process: &Process| process.request.filter(|_| process.asleep && !process.crashed);
            let before = |own: Request| own.kind == Kind::Write && own.since.is_some_and(|since| since < request.came);
            state.overtaken |= state.processes.iter().filter_map(waits).any(before);
        }
        granted
    }

    fn deliver(&self, state: &mut State, at: u8) {
        let Some(request) = process(state, at).request else { return };
        let granted = self.run(state, at, &request);
        let now = state.clock;
        let Request { kind, field, holder, .. } = request;
        let sealed = request.held.is_some();
        let process = process(state, at);
        if !granted {
            process.asleep = request.waits;
            process.request =
                Some(Request { since: request.since.or(Some(now)), ..request }).filter(|request| request.waits);
            return;
        }
        process.request = None;
        match kind {
            Kind::Read => process.read = Some(Reading { field, holder, guards: 1, sealed, believed: true }),
            Kind::Write => process.write = Some(Writing { field, holder, sealed, believed: true }),
        }
        state.seen.converted |= kind == Kind::Write && sealed;
    }

    fn release(&self, state: &mut State, kind: Kind, field: u8) {
        if state.server.release(&self.rules, kind, field) {
            state.wake();
        }
    }
}

fn process(state: &mut State, at: u8) -> &mut Process {
    &mut state.processes[usize::from(at)]
}
