//! The lock table of one process. It decides which task enters, and when a lease is handed over or
//! released.

use super::process::{DeferredRelease, Entry, First, Flight, Guard, Owner, Poll, Process, Request, ServerLease};
use super::server::Order;
use super::{AcquireOptions, Rules, Timer, Timing};

/// The fixed part of a process: the rules it keeps and the times it uses.
#[derive(Clone, Copy, Debug)]
pub struct Setup {
    /// The rules.
    pub rules: Rules,
    /// The times.
    pub timing: Timing,
}

/// The next step for a server lease that has no owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Do nothing now.
    Wait,
    /// The first waiter enters, and believes until this instant.
    Enter(Timer),
    /// Send a request, and wait for its confirmation.
    Send(Order),
    /// Release the server lease.
    Release,
}

impl Process {
    /// A task acquires the lock.
    pub fn acquire(&mut self, setup: &Setup, options: AcquireOptions) -> Option<Entry> {
        self.queue.push(options);
        if self.poll == Poll::Idle && self.flight.is_none() && self.server_lease.is_none() {
            self.poll = Poll::Due;
        }
        self.advance(setup)
    }

    /// A waiting task cancels.
    pub fn cancel(&mut self, setup: &Setup, place: usize) -> Option<Entry> {
        self.queue.remove(place);
        if place == 0 {
            if let Some(flight) = &mut self.flight {
                flight.cancelled |= !setup.rules.grant_outlives_its_waiter;
            }
            if !setup.rules.watch_outlives_its_waiter {
                self.poll = Poll::Idle;
            }
        }
        self.advance(setup)
    }

    /// Whether a task may re-enter by a guard of the present owner.
    pub fn may_reenter(&self, rules: &Rules) -> bool {
        let lives = |owner: Owner| owner.deadline.is_ahead() || !rules.reentry_ends_with_the_deadline;
        self.owner.is_some_and(|owner| lives(owner) && self.guards.iter().any(|guard| guard.number == owner.number))
    }

    /// Lets the owner re-enter, without waiting in the queue and without a request.
    pub fn reenter(&mut self, setup: &Setup) {
        let owner = self.owner.as_mut().expect("offered only with an owner");
        let own = self.guards.iter().find(|guard| guard.number == owner.number);
        let mut guard = *own.expect("offered only with a guard");
        if !setup.rules.reentry_keeps_the_deadline || !owner.deadline.is_ahead() {
            owner.deadline = Timer::after(setup.timing.lease_of(owner.options));
            guard.deadline = owner.deadline;
        }
        self.guards.push(guard);
    }

    /// Drops a guard.
    pub fn drop_guard(&mut self, setup: &Setup, place: usize) -> Option<Entry> {
        let guard = self.guards.remove(place);
        let owner = self.owner?;
        let last = !self.guards.iter().any(|other| other.number == owner.number);
        let its_own = guard.number == owner.number && (last || !setup.rules.last_guard_ends);
        if its_own || !setup.rules.release_names_its_owner {
            self.owner = None;
        }
        self.advance(setup)
    }

    /// Notifies the owner that its deadline has passed. The server lease continues without it.
    pub fn enforce(&mut self, setup: &Setup) -> Option<Entry> {
        self.notify_owner();
        self.advance(setup)
    }

    /// Handles a server lease without an owner: hands it over, sends a request for it, or queues
    /// its release.
    pub fn advance(&mut self, setup: &Setup) -> Option<Entry> {
        if self.owner.is_some() {
            return None;
        }
        let verdict = self.verdict(setup)?;
        let server_lease = self.server_lease.as_mut()?;
        if setup.rules.adoption_takes_the_release_back || verdict == Verdict::Release {
            server_lease.release_queued = verdict == Verdict::Release;
        }
        server_lease.watched = verdict == Verdict::Wait;
        match verdict {
            Verdict::Wait => None,
            Verdict::Release => {
                server_lease.first = None;
                None
            }
            Verdict::Enter(deadline) => Some(self.enter(setup, deadline)),
            Verdict::Send(order) => {
                let serial = server_lease.serial;
                if self.flight.is_some() {
                    return None;
                }
                self.send_for_the_head(setup, serial, order);
                let believed = matches!(order, Order::Lengthen { .. }) && !setup.rules.lengthening_is_confirmed_first;
                believed.then(|| self.enter(setup, Timer::after(setup.timing.lease_of(self.queue[0]))))
            }
        }
    }

    /// Returns the next step for a server lease that has no owner, according to the rules.
    pub fn verdict(&self, setup: &Setup) -> Option<Verdict> {
        let Setup { rules, timing } = setup;
        let server_lease = self.server_lease.as_ref()?;
        let head = self.next_in(rules).map(|place| self.queue[place]);
        if let Some(token_due) = server_lease.token_due {
            return Some(match head {
                None if !rules.unwanted_takeover_waits => Verdict::Release,
                _ if token_due.is_ahead() => Verdict::Wait,
                None => Verdict::Release,
                Some(head) => Verdict::Send(Order::Confirm { lease: timing.key_lease(rules, head) }),
            });
        }
        if server_lease.keep.is_ahead() && rules.at_least_keeps_the_name {
            return Some(Verdict::Wait);
        }
        let Some(head) = head else { return Some(Verdict::Release) };
        let is_over = !server_lease.handover_window.is_ahead() && rules.window_ends_handover;
        let is_late = !server_lease.deadline.is_ahead() && rules.hand_over_checks_the_deadline;
        if is_late || is_over && server_lease.first.is_none() {
            return Some(Verdict::Release);
        }
        if timing.tokens && server_lease.first.is_none() && server_lease.room <= 1 && rules.token_waits_for_time {
            return Some(Verdict::Wait);
        }
        Some(match owner_deadline(setup, server_lease, head) {
            Some(deadline) if deadline.is_ahead() => Verdict::Enter(deadline),
            Some(_) if !rules.hand_over_checks_the_deadline => Verdict::Enter(server_lease.deadline),
            Some(_) => Verdict::Release,
            None => Verdict::Send(Order::Lengthen { lease: timing.key_lease(rules, head) }),
        })
    }

    /// Sends an attempt for the first waiter.
    pub fn send_attempt(&mut self, setup: &Setup, serial: u8, unanswered: Option<Timer>, by_force: bool) {
        if !setup.rules.deferred_release_is_kept {
            self.deferred.clear();
        }
        self.poll = Poll::Idle;
        let lease = setup.timing.key_lease(&setup.rules, self.queue[0]);
        let refused_from = Timer::after(setup.timing.window + 1);
        self.send_for_the_head(setup, serial, Order::Acquire { lease, refused_from, by_force });
        self.flight.as_mut().expect("just sent").unanswered = unanswered;
    }

    /// Sends the release of the server lease, which is then only a deferred release.
    pub fn send_release(&mut self) {
        let server_lease = self.server_lease.take().expect("offered only with a server lease");
        self.deferred.push(DeferredRelease {
            serial: server_lease.serial,
            refused_from: server_lease.unanswered.unwrap_or(Timer::PAST),
            not_before: Timer::PAST,
            by_force: false,
            answered: false,
        });
        self.send_deferred(self.deferred.len() - 1);
        self.poll_again();
    }

    /// Sends a deferred release.
    pub fn send_deferred(&mut self, place: usize) {
        let left = self.deferred[place];
        let request = Request { serial: left.serial, order: Order::Release };
        self.flight = Some(Flight { last: !left.refused_from.is_ahead(), ..Flight::of(request) });
    }

    /// Whether to send a release of this attempt now: a first release, or a second one when every
    /// copy is refused.
    pub fn owes_release(&self, left: &DeferredRelease) -> bool {
        let again = !left.refused_from.is_ahead() || !left.answered && !left.by_force;
        again && !left.not_before.is_ahead()
    }

    /// Removes a server lease that has ended on the server.
    pub fn lose_server_lease(&mut self) {
        self.notify_owner();
        if let Some(server_lease) = self.server_lease.take() {
            self.defer_release(server_lease.serial, server_lease.unanswered);
        }
        self.poll_again();
    }

    /// Defers the release of an attempt until its late copies, which may still take the key, are
    /// refused.
    ///
    /// The release is deferred even if that instant has passed: a copy may have taken the key since
    /// the answer.
    pub fn defer_release(&mut self, serial: u8, unanswered: Option<Timer>) {
        if let Some(refused_from) = unanswered {
            let (not_before, by_force, answered) = (Timer::PAST, false, false);
            self.deferred.push(DeferredRelease { serial, refused_from, not_before, by_force, answered });
        }
    }

    /// Marks an attempt as due if a task waits without a server lease.
    pub fn poll_again(&mut self) {
        if self.server_lease.is_none() && !self.queue.is_empty() {
            self.poll = Poll::Due;
        }
    }

    /// Notifies the owner, if there is one, that its hold is lost.
    pub fn notify_owner(&mut self) {
        if let Some(owner) = self.owner.take() {
            self.guards.iter_mut().filter(|guard| guard.number == owner.number).for_each(|guard| guard.notified = true);
        }
    }

    fn next_in(&self, rules: &Rules) -> Option<usize> {
        let last = self.queue.len().checked_sub(1)?;
        Some(if rules.first_come_first_served { 0 } else { last })
    }

    /// Lets the first waiter enter, together with all waiters that have the same holder.
    fn enter(&mut self, setup: &Setup, deadline: Timer) -> Entry {
        let place = self.next_in(&setup.rules).expect("a task waits");
        let options = self.queue.remove(place);
        let used = |number| self.guards.iter().any(|guard| guard.number == number);
        let number = (0..).find(|&number| !used(number)).expect("a handful of guards");
        let server_lease = self.server_lease.as_mut().expect("a server lease to enter");
        if server_lease.first.take().is_none() {
            server_lease.lag -= 1;
            server_lease.room -= 1;
            server_lease.handed_over = true;
        }
        server_lease.keep = server_lease.keep.max(Timer::after(options.at_least));
        let guard = Guard { number, serial: server_lease.serial, deadline, notified: false };
        let entry = Entry {
            serial: server_lease.serial,
            lag: server_lease.lag,
            keep: Timer::after(options.at_least),
            overtook: place > 0,
            ignores_notice: server_lease.forced,
        };
        self.owner = Some(Owner { number, deadline, options });
        self.guards.push(guard);
        if options.by_holder {
            let waiting = self.queue.len();
            self.queue.retain(|other| !other.by_holder);
            self.guards.extend(std::iter::repeat_n(guard, waiting - self.queue.len()));
        }
        entry
    }

    fn send_for_the_head(&mut self, setup: &Setup, serial: u8, order: Order) {
        let requested = setup.timing.lease_of(self.queue[0]);
        let (Order::Acquire { lease, .. } | Order::Lengthen { lease } | Order::Confirm { lease }) = order else {
            return;
        };
        self.flight = Some(Flight {
            deadline: Timer::after(lease),
            handover_window: Timer::after(setup.timing.handover_window),
            first: First { requested, end: Timer::after(requested) },
            ..Flight::of(Request { serial, order })
        });
    }
}

impl Flight {
    fn of(request: Request) -> Self {
        Self {
            request,
            answer: None,
            deadline: Timer::PAST,
            handover_window: Timer::PAST,
            first: First::default(),
            unanswered: None,
            forced: false,
            cancelled: false,
            last: false,
        }
    }
}

/// Returns the next owner's deadline, or `None` if the server lease must be lengthened first.
fn owner_deadline(setup: &Setup, server_lease: &ServerLease, head: AcquireOptions) -> Option<Timer> {
    let Setup { rules, timing } = setup;
    let Some(lease) = head.lease else { return Some(server_lease.deadline) };
    let covers = |ticks: u8| Timer::after(ticks) <= server_lease.deadline || !rules.hand_over_covers_the_lease;
    match server_lease.first {
        Some(first) if lease <= first.requested && covers(head.at_least) => Some(first.end.min(Timer::after(lease))),
        _ => covers(timing.need(rules, head)).then(|| Timer::after(lease)),
    }
}
