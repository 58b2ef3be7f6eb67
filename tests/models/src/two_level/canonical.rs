//! Merges states that differ only in names, or in parts without further effect.

use super::process::{Flight, Preempted, Process};
use super::server::{Answer, Field, Order};
use super::{State, TwoLevel};

impl State {
    /// Returns the canonical form of this state.
    pub(super) fn into_canonical(mut self, model: &TwoLevel) -> Self {
        for at in 0..self.processes.len() {
            let held = self.held_by(at);
            let process = &mut self.processes[at];
            forget(model, process, held);
            number_guards(process);
            let held = number_attempts(process, held);
            if let (Some(key), Some(serial)) = (&mut self.server.key, held) {
                key.holder.serial = serial;
            }
        }
        if !model.timing.tokens {
            self.server.time_is_taken = false;
            self.highest = 0;
        }
        self.sort_processes();
        self
    }

    /// Returns the attempt of this process that holds the key.
    fn held_by(&self, at: usize) -> Option<u8> {
        self.server.holder().filter(|field| usize::from(field.process) == at).map(|field| field.serial)
    }

    fn sort_processes(&mut self) {
        let mut order: Vec<usize> = (0..self.processes.len()).collect();
        order.sort_by(|&a, &b| (&self.processes[a], self.held_by(a)).cmp(&(&self.processes[b], self.held_by(b))));
        if order.is_sorted() {
            return;
        }
        if let Some(key) = &mut self.server.key {
            let place = order.iter().position(|&at| at == usize::from(key.holder.process)).expect("a permutation");
            key.holder = Field { process: u8::try_from(place).expect("fits a byte"), ..key.holder };
        }
        self.processes = order.into_iter().map(|at| std::mem::take(&mut self.processes[at])).collect();
    }
}

/// Clears data without further effect.
fn forget(model: &TwoLevel, process: &mut Process, held: Option<u8>) {
    let rules = &model.rules;
    let Process { server_lease, owner, guards, flight, late, queue, .. } = process;
    if let Some(server_lease) = server_lease {
        let may_be_handed_over =
            server_lease.first.is_some() || server_lease.handover_window.is_ahead() || !rules.window_ends_handover;
        if !model.timing.tokens || !may_be_handed_over {
            (server_lease.lag, server_lease.room) = (0, 0);
        }
        server_lease.watched &= owner.is_none();
        server_lease.handed_over &= owner.is_some();
        server_lease.lengthened &= owner.is_some();
    }
    if rules.release_names_its_owner {
        // A guard of a former owner that was notified has no effect, whatever its task does.
        let present = owner.map(|owner| owner.number);
        let believes = |notified: bool, is_ahead: bool| !notified && (is_ahead || !rules.owner_has_a_deadline);
        guards.retain(|guard| present == Some(guard.number) || believes(guard.notified, guard.deadline.is_ahead()));
    }
    if let Some(Flight { answer: Some(Answer::Granted { lag }), .. }) = flight
        && !model.timing.tokens
    {
        *lag = 0;
    }
    if let Some(owner) = owner
        && rules.reentry_keeps_the_deadline
        && rules.reentry_ends_with_the_deadline
    {
        owner.options =
            super::AcquireOptions { by_holder: owner.options.by_holder, ..super::AcquireOptions::default() };
    }
    if queue.is_empty() {
        process.poll = super::process::Poll::Idle;
    }
    let unread = flight.filter(|flight| flight.answer.is_none()).map(|flight| flight.request);
    let can_take = |order: Order| matches!(order, Order::Acquire { refused_from, .. } if refused_from.is_ahead());
    let copies: Vec<u8> =
        late.iter().copied().chain(unread).filter(|copy| can_take(copy.order)).map(|copy| copy.serial).collect();
    late.retain(|request| match request.order {
        Order::Acquire { .. } => can_take(request.order),
        _ => held == Some(request.serial) || copies.contains(&request.serial),
    });
    let concerns = |serial| {
        process.server_lease.is_some_and(|server_lease| server_lease.serial == serial)
            || process.flight.is_some_and(|flight| flight.request.serial == serial)
    };
    process.notice = process.notice.filter(|&serial| concerns(serial));
    let preempted: Vec<Preempted> =
        process.preempted.iter().copied().filter(|preempted| process.names(preempted.serial)).collect();
    process.preempted = preempted;
}

/// Numbers the ownerships from 0 in the order of their appearance.
fn number_guards(process: &mut Process) {
    process.guards.sort_unstable_by_key(|guard| (guard.deadline, guard.notified, guard.number));
    let mut met = Vec::new();
    if let Some(owner) = &mut process.owner {
        owner.number = place_in(&mut met, owner.number);
    }
    process.guards.iter_mut().for_each(|guard| guard.number = place_in(&mut met, guard.number));
}

/// Numbers the attempts from 0 in the order of their appearance, and returns the new number of the
/// attempt in the key.
fn number_attempts(process: &mut Process, held: Option<u8>) -> Option<u8> {
    let mut met = Vec::new();
    let mut number = |serial: &mut u8| *serial = place_in(&mut met, *serial);
    let Process { server_lease, flight, deferred, guards, late, notice, preempted, .. } = process;
    if let Some(server_lease) = server_lease {
        number(&mut server_lease.serial);
    }
    if let Some(flight) = flight {
        number(&mut flight.request.serial);
    }
    deferred.sort_unstable_by_key(|left| (left.refused_from, left.not_before, left.answered, left.serial));
    deferred.iter_mut().for_each(|left| number(&mut left.serial));
    guards.iter_mut().for_each(|guard| number(&mut guard.serial));
    let mut held = held;
    held.iter_mut().for_each(&mut number);
    late.sort_unstable_by_key(|request| (request.order, request.serial));
    late.iter_mut().for_each(|request| number(&mut request.serial));
    late.sort_unstable();
    notice.iter_mut().for_each(&mut number);
    preempted.iter_mut().for_each(|preempted| number(&mut preempted.serial));
    preempted.sort_unstable();
    preempted.dedup();
    held
}

fn place_in(met: &mut Vec<u8>, name: u8) -> u8 {
    let place = met.iter().position(|&other| other == name).unwrap_or_else(|| {
        met.push(name);
        met.len() - 1
    });
    u8::try_from(place).expect("fits a byte")
}
