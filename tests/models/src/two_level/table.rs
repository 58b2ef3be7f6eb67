//! The lock table of one process. It decides which task enters, and when a lease is handed over or
//! released.

use super::process::{Drive, Entry, First, Flight, Guard, Owner, Process, Request, ServerLease, Unsettled};
use super::server::Order;
use super::{AcquireOptions, Rules, Timer, Timing};

/// The fixed part of a process: the rules it keeps and the times it uses.
#[derive(Clone, Copy, Debug)]
pub struct Ways {
    /// The rules.
    pub rules: Rules,
    /// The times.
    pub timing: Timing,
}

/// The next step with a server lease that has no owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Do nothing now.
    Wait,
    /// The first waiter enters, and believes until this instant.
    Enter(Timer),
    /// Send a request, and wait for its confirmation.
    Ask(Order),
    /// Release it.
    Release,
}

impl Process {
    /// A task acquires the lock.
    pub fn ask(&mut self, ways: &Ways, options: AcquireOptions) -> Option<Entry> {
        self.queue.push(options);
        if self.drive == Drive::Idle && self.flight.is_none() && self.server_lease.is_none() {
            self.drive = Drive::Due;
        }
        self.advance(ways)
    }

    /// A waiting task cancels.
    pub fn cancel(&mut self, ways: &Ways, place: usize) -> Option<Entry> {
        self.queue.remove(place);
        if place == 0 {
            if let Some(flight) = &mut self.flight {
                flight.orphan |= !ways.rules.grant_outlives_its_asker;
            }
            if !ways.rules.watch_outlives_its_asker {
                self.drive = Drive::Idle;
            }
        }
        self.advance(ways)
    }

    /// Whether a task may enter again by a guard of the present owner.
    pub fn may_reenter(&self, rules: &Rules) -> bool {
        let lives = |owner: Owner| owner.deadline.is_ahead() || !rules.reentry_ends_with_the_deadline;
        self.owner.is_some_and(|owner| lives(owner) && self.guards.iter().any(|guard| guard.number == owner.number))
    }

    /// Lets the owner enter again, past the queue and without a request.
    pub fn reenter(&mut self, ways: &Ways) {
        let owner = self.owner.as_mut().expect("offered only with an owner");
        let own = self.guards.iter().find(|guard| guard.number == owner.number);
        let mut guard = *own.expect("offered only with a guard");
        if !ways.rules.reentry_keeps_the_deadline || !owner.deadline.is_ahead() {
            owner.deadline = Timer::after(ways.timing.lease_of(owner.options));
            guard.deadline = owner.deadline;
        }
        self.guards.push(guard);
    }

    /// Drops a guard.
    pub fn let_go(&mut self, ways: &Ways, place: usize) -> Option<Entry> {
        let guard = self.guards.remove(place);
        let owner = self.owner?;
        let last = !self.guards.iter().any(|other| other.number == owner.number);
        let its_own = guard.number == owner.number && (last || !ways.rules.last_guard_ends);
        if its_own || !ways.rules.release_names_its_owner {
            self.owner = None;
        }
        self.advance(ways)
    }

    /// Notifies the owner that its deadline has passed; the server lease continues without it.
    pub fn enforce(&mut self, ways: &Ways) -> Option<Entry> {
        self.tell_owner();
        self.advance(ways)
    }

    /// Handles a server lease without an owner: hands it over, sends a request for it, or queues
    /// its release.
    pub fn advance(&mut self, ways: &Ways) -> Option<Entry> {
        if self.owner.is_some() {
            return None;
        }
        let verdict = self.verdict(ways)?;
        let server_lease = self.server_lease.as_mut()?;
        if ways.rules.adoption_takes_the_release_back || verdict == Verdict::Release {
            server_lease.release_queued = verdict == Verdict::Release;
        }
        server_lease.watched = verdict == Verdict::Wait;
        match verdict {
            Verdict::Wait => None,
            Verdict::Release => {
                server_lease.first = None;
                None
            }
            Verdict::Enter(deadline) => Some(self.enter(ways, deadline)),
            Verdict::Ask(order) => {
                let serial = server_lease.serial;
                if self.flight.is_some() {
                    return None;
                }
                self.send_for_the_head(ways, serial, order);
                let believed = matches!(order, Order::Lengthen { .. }) && !ways.rules.lengthening_is_confirmed_first;
                believed.then(|| self.enter(ways, Timer::after(ways.timing.lease_of(self.queue[0]))))
            }
        }
    }

    /// Returns the next step with a server lease that has no owner, by the given rules.
    pub fn verdict(&self, ways: &Ways) -> Option<Verdict> {
        let Ways { rules, timing } = ways;
        let server_lease = self.server_lease.as_ref()?;
        let head = self.next_in(rules).map(|place| self.queue[place]);
        if let Some(settling) = server_lease.settling {
            return Some(match head {
                None if !rules.unwanted_theft_waits => Verdict::Release,
                _ if settling.is_ahead() => Verdict::Wait,
                None => Verdict::Release,
                Some(head) => Verdict::Ask(Order::Confirm { lease: timing.key_lease(rules, head) }),
            });
        }
        if server_lease.keep.is_ahead() && rules.at_least_keeps_the_name {
            return Some(Verdict::Wait);
        }
        let Some(head) = head else { return Some(Verdict::Release) };
        let is_over = !server_lease.handover_window.is_ahead() && rules.window_ends_handover;
        let is_late = !server_lease.deadline.is_ahead() && rules.hand_over_looks_at_the_deadline;
        if is_late || is_over && server_lease.first.is_none() {
            return Some(Verdict::Release);
        }
        if timing.tokens && server_lease.first.is_none() && server_lease.room <= 1 && rules.token_waits_for_time {
            return Some(Verdict::Wait);
        }
        Some(match owner_deadline(ways, server_lease, head) {
            Some(deadline) if deadline.is_ahead() => Verdict::Enter(deadline),
            Some(_) if !rules.hand_over_looks_at_the_deadline => Verdict::Enter(server_lease.deadline),
            Some(_) => Verdict::Release,
            None => Verdict::Ask(Order::Lengthen { lease: timing.key_lease(rules, head) }),
        })
    }

    /// Sends an attempt for the first waiter.
    pub fn send_attempt(&mut self, ways: &Ways, serial: u8, carried: Option<Timer>, by_force: bool) {
        if !ways.rules.unsettled_is_kept {
            self.unsettled.clear();
        }
        self.drive = Drive::Idle;
        let lease = ways.timing.key_lease(&ways.rules, self.queue[0]);
        let refused_from = Timer::after(ways.timing.window + 1);
        self.send_for_the_head(ways, serial, Order::Acquire { lease, refused_from, by_force });
        self.flight.as_mut().expect("just sent").carried = carried;
    }

    /// Sends the release of the server lease. From here on it is only a deferred release.
    pub fn send_release(&mut self) {
        let server_lease = self.server_lease.take().expect("offered only with a server_lease");
        self.unsettled.push(Unsettled {
            serial: server_lease.serial,
            refused_from: server_lease.carried.unwrap_or(Timer::PAST),
            not_before: Timer::PAST,
            by_force: false,
            answered: false,
        });
        self.settle(self.unsettled.len() - 1);
        self.drive_on();
    }

    /// Sends a deferred release.
    pub fn settle(&mut self, place: usize) {
        let left = self.unsettled[place];
        let request = Request { serial: left.serial, order: Order::Release };
        self.flight = Some(Flight { last: !left.refused_from.is_ahead(), ..Flight::of(request) });
    }

    /// Whether to send a release of this attempt: at once, and once more when every copy is
    /// refused.
    pub fn owes_release(&self, left: &Unsettled) -> bool {
        let again = !left.refused_from.is_ahead() || !left.answered && !left.by_force;
        again && !left.not_before.is_ahead()
    }

    /// Ends a server lease that the server no longer has.
    pub fn lose_server_lease(&mut self) {
        self.tell_owner();
        if let Some(server_lease) = self.server_lease.take() {
            self.leave_unsettled(server_lease.serial, server_lease.carried);
        }
        self.drive_on();
    }

    /// Defers the release of an attempt whose late copies may still take the key until they are
    /// refused.
    ///
    /// Also if that instant has passed: a copy may have taken the key between the answer and now.
    pub fn leave_unsettled(&mut self, serial: u8, carried: Option<Timer>) {
        if let Some(refused_from) = carried {
            let (not_before, by_force, answered) = (Timer::PAST, false, false);
            self.unsettled.push(Unsettled { serial, refused_from, not_before, by_force, answered });
        }
    }

    /// Marks an attempt as due if a task waits without a server lease.
    pub fn drive_on(&mut self) {
        if self.server_lease.is_none() && !self.queue.is_empty() {
            self.drive = Drive::Due;
        }
    }

    /// Notifies the owner, if there is one, that its hold is lost.
    pub fn tell_owner(&mut self) {
        if let Some(owner) = self.owner.take() {
            self.guards.iter_mut().filter(|guard| guard.number == owner.number).for_each(|guard| guard.told = true);
        }
    }

    fn next_in(&self, rules: &Rules) -> Option<usize> {
        let last = self.queue.len().checked_sub(1)?;
        Some(if rules.first_come_first_served { 0 } else { last })
    }

    /// The first waiter enters. All waiters with the same holder enter with it.
    fn enter(&mut self, ways: &Ways, deadline: Timer) -> Entry {
        let place = self.next_in(&ways.rules).expect("somebody waits");
        let options = self.queue.remove(place);
        let used = |number| self.guards.iter().any(|guard| guard.number == number);
        let number = (0..).find(|&number| !used(number)).expect("a handful of guards");
        let server_lease = self.server_lease.as_mut().expect("a server_lease to enter");
        if server_lease.first.take().is_none() {
            server_lease.lag -= 1;
            server_lease.room -= 1;
            server_lease.handed_on = true;
        }
        server_lease.keep = server_lease.keep.max(Timer::after(options.at_least));
        let guard = Guard { number, serial: server_lease.serial, deadline, told: false };
        let entry = Entry {
            serial: server_lease.serial,
            lag: server_lease.lag,
            keep: Timer::after(options.at_least),
            overtook: place > 0,
            deaf: server_lease.forced,
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

    fn send_for_the_head(&mut self, ways: &Ways, serial: u8, order: Order) {
        let asked = ways.timing.lease_of(self.queue[0]);
        let (Order::Acquire { lease, .. } | Order::Lengthen { lease } | Order::Confirm { lease }) = order else {
            return;
        };
        self.flight = Some(Flight {
            deadline: Timer::after(lease),
            handover_window: Timer::after(ways.timing.handover_window),
            first: First { asked, end: Timer::after(asked) },
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
            carried: None,
            forced: false,
            orphan: false,
            last: false,
        }
    }
}

/// Returns the next owner's deadline, or `None` if the server lease must be lengthened first.
fn owner_deadline(ways: &Ways, server_lease: &ServerLease, head: AcquireOptions) -> Option<Timer> {
    let Ways { rules, timing } = ways;
    let Some(lease) = head.lease else { return Some(server_lease.deadline) };
    let covers = |ticks: u8| Timer::after(ticks) <= server_lease.deadline || !rules.hand_over_covers_the_lease;
    match server_lease.first {
        Some(first) if lease <= first.asked && covers(head.at_least) => Some(first.end.min(Timer::after(lease))),
        _ => covers(timing.need(rules, head)).then(|| Timer::after(lease)),
    }
}
