//! A client: its requests, its handling of replies, and its local state.

use super::hold::{Fate, Hold, Lapse, Phase};
use super::network::{Call, Link, Memo, Reply, Request};
use super::server::{Answer, Order};
use super::{Rules, Timer, Timing};

/// A process that acquires the lock.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Client {
    /// Whether the client crashed, and if so, whether it believed at that time.
    pub crashed: Option<bool>,
    /// The client's current attempt, and the attempts that it is still releasing.
    pub holds: Vec<Hold>,
    /// The client's connections.
    pub link: Link,
}

/// A report of a client to its caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Report {
    /// The lock is held.
    Granted {
        /// Fencing token of the grant.
        token: u8,
    },
    /// Another client held the lock.
    Busy {
        /// Whether this was the server's answer.
        answered: bool,
    },
    /// The release is complete, and the lock was held until then.
    Released(Fate),
    /// The hold had ended before the release.
    Lost(Fate),
    /// The server answered that the key does not hold the client's field ("not yours").
    NotYours {
        /// Whether the client still believes.
        believes: bool,
    },
}

/// The fixed part of a client: the rules it keeps and the times it uses.
#[derive(Clone, Copy, Debug)]
pub struct Setup {
    /// The rules.
    pub rules: Rules,
    /// The times.
    pub timing: Timing,
}

impl Client {
    /// Returns the current attempt.
    pub fn current(&self) -> Option<&Hold> {
        self.holds.iter().find(|hold| hold.is_current())
    }

    /// Whether the client believes.
    pub fn believes(&self, rules: &Rules) -> bool {
        self.current()
            .is_some_and(|hold| hold.phase == Phase::Held && (hold.is_within_deadline() || !rules.deadline_ends_belief))
    }

    /// Whether the client still has this attempt.
    pub fn knows(&self, serial: u8) -> bool {
        self.holds.iter().any(|hold| hold.serial == serial)
    }

    /// Begins an attempt with the field `serial`.
    pub fn acquire(&mut self, setup: &Setup, serial: u8) {
        self.holds.push(Hold { serial, ..Hold::default() });
        self.send_acquire(setup, serial);
    }

    /// Sends another copy of an acquire that has an unknown outcome.
    pub fn acquire_again(&mut self, setup: &Setup) {
        let hold = self.find(|hold| hold.phase == Phase::Unknown);
        hold.phase = Phase::Acquiring;
        let serial = hold.serial;
        self.send_acquire(setup, serial);
    }

    /// Releases the current attempt, whether it is held or a copy of its acquire is still in
    /// flight.
    pub fn release(&mut self, setup: &Setup) {
        let at = self.holds.iter().position(Hold::is_current).expect("there is an attempt to release");
        self.holds[at].phase = Phase::Releasing;
        self.send_release(setup, at);
    }

    /// Sends the release again.
    pub fn release_again(&mut self, setup: &Setup, at: usize) {
        self.send_release(setup, at);
    }

    /// Whether to send a release of this hold again: the first release went unanswered, or it is
    /// time for the final release.
    pub fn owes_release(&self, at: usize) -> bool {
        let hold = &self.holds[at];
        hold.phase == Phase::Releasing
            && !self.link.releases(hold.serial)
            && (!hold.released || !hold.acquires_refused_from.client.is_ahead())
    }

    /// Sends a renewal of the current hold.
    pub fn renew(&mut self, setup: &Setup) {
        let lease = setup.timing.lease;
        let raises = self.may_raise(setup);
        let hold = self.find(|hold| hold.phase == Phase::Held);
        let memo = memo(setup, lease, raises);
        if !setup.rules.only_confirmation_raises {
            hold.deadline = hold.deadline.max(memo.deadline);
        }
        let serial = hold.serial;
        self.send(serial, Order::Renew { lease }, memo);
    }

    /// Sends an extend of the current hold to `lease`, which may be shorter than the remaining
    /// lease.
    pub fn extend(&mut self, setup: &Setup, lease: u8) {
        let raises = self.may_raise(setup);
        let hold = self.find(|hold| hold.phase == Phase::Held);
        let mut memo = memo(setup, lease, raises);
        let shortens = memo.deadline < hold.deadline;
        let mut overtaken = false;
        if shortens && setup.rules.shortening_lowers_first {
            hold.deadline = memo.deadline;
        }
        let order = if !shortens && setup.rules.lengthening_only_lengthens {
            Order::Renew { lease }
        } else {
            memo.refused_from = setup.timing.refused_from();
            memo.shortens = shortens;
            // An earlier request may be confirmed after this extend is sent, but the server
            // executed it before this extend. Its confirmation must not raise the deadline.
            overtaken = shortens && setup.rules.rise_waits_for_the_shortening;
            Order::Extend { lease, refused_from: written_refusal(setup, setup.rules.extend_carries_not_after) }
        };
        let serial = hold.serial;
        if overtaken {
            self.link.memos_mut().for_each(|memo| memo.raises = false);
        }
        self.send(serial, order, memo);
    }

    /// Sends an unanswered extend again, which the protocol forbids.
    pub fn extend_again(&mut self, setup: &Setup) {
        let hold = self.find(|hold| hold.extend_again.is_some());
        let lease = hold.extend_again.take().expect("found by it");
        let serial = hold.serial;
        let refused_from = written_refusal(setup, true);
        self.send(serial, Order::Extend { lease, refused_from }, Memo::default());
    }

    /// Loses the living connection: the outcome of each request in flight becomes unknown.
    pub fn lose_connection(&mut self, setup: &Setup) {
        for call in self.link.lose() {
            let lapse = lapse(setup, &call);
            for hold in self.holds.iter_mut().filter(|hold| hold.serial == call.request.serial) {
                match call.request.order {
                    Order::Acquire { .. } if hold.phase != Phase::Held => {
                        hold.unclean = true;
                        hold.acquires_refused_from = hold.acquires_refused_from.max(lapse);
                        if hold.phase == Phase::Acquiring {
                            hold.phase = Phase::Unknown;
                        }
                    }
                    Order::Extend { lease, .. } if hold.phase == Phase::Held => {
                        if call.memo.shortens {
                            hold.extends_refused_from = hold.extends_refused_from.max(lapse);
                        }
                        hold.extend_again = (!setup.rules.extend_is_sent_once).then_some(lease);
                    }
                    Order::Release if hold.phase == Phase::Releasing => hold.repeat = true,
                    _ => {}
                }
            }
        }
    }

    /// Crashes the client: it releases no attempt afterwards.
    pub fn crash(&mut self, rules: &Rules) {
        self.crashed = Some(self.believes(rules));
        self.link.lose();
        self.holds.clear();
    }

    /// Reads the oldest reply, and returns the report for the caller, if there is one.
    pub fn read_reply(&mut self, setup: &Setup) -> Option<Report> {
        let reply = self.link.replies.remove(0);
        let serial = reply.call.request.serial;
        let phase = match reply.answer {
            Answer::Granted { .. } | Answer::Busy => Phase::Acquiring,
            Answer::TooLate if matches!(reply.call.request.order, Order::Acquire { .. }) => Phase::Acquiring,
            Answer::TooLate | Answer::Kept(_) => Phase::Held,
            Answer::Released(_) => Phase::Releasing,
        };
        // The attempt may be in another phase by now, for instance if it was released before the
        // grant arrived. The reply then has no effect.
        let at = self.holds.iter().position(|hold| hold.serial == serial && hold.phase == phase)?;
        match reply.answer {
            Answer::Granted { token } => self.on_granted(setup, at, &reply, token),
            Answer::Busy => {
                self.end_try(at);
                Some(Report::Busy { answered: true })
            }
            Answer::TooLate if phase == Phase::Acquiring => self.on_too_late(setup, at, &reply),
            Answer::TooLate => None,
            Answer::Kept(kept) => self.on_kept(setup, at, &reply, kept),
            Answer::Released(found) => self.on_released(setup, at, &reply, found),
        }
    }

    /// Lets one tick of the client's clock pass.
    pub fn client_tick(&mut self) {
        self.link.client_tick();
        self.holds.iter_mut().for_each(Hold::client_tick);
    }

    /// Lets one tick of the server's clock pass.
    pub fn server_tick(&mut self) {
        self.link.server_tick();
        self.holds.iter_mut().for_each(Hold::server_tick);
    }

    fn on_granted(&mut self, setup: &Setup, at: usize, reply: &Reply, token: u8) -> Option<Report> {
        let hold = &mut self.holds[at];
        hold.deadline = confirmed_deadline(setup, reply);
        if !hold.is_within_deadline() {
            // The grant is so old that it may have ended, so it is not reported to the caller.
            self.release(setup);
            return None;
        }
        hold.phase = Phase::Held;
        hold.owes_report = true;
        hold.fate = Fate::Ours;
        Some(Report::Granted { token })
    }

    fn on_too_late(&mut self, setup: &Setup, at: usize, reply: &Reply) -> Option<Report> {
        if !setup.rules.too_late_is_not_granted {
            return self.on_granted(setup, at, reply, 0);
        }
        if !setup.rules.too_late_is_not_busy {
            self.end_try(at);
            return Some(Report::Busy { answered: false });
        }
        if self.holds[at].retried {
            self.end_try(at);
        } else {
            self.holds[at].retried = true;
            let serial = self.holds[at].serial;
            self.send_acquire(setup, serial);
        }
        None
    }

    fn on_kept(&mut self, setup: &Setup, at: usize, reply: &Reply, kept: bool) -> Option<Report> {
        let deadline = confirmed_deadline(setup, reply);
        let raises = reply.call.memo.raises && (reply.past.extends || !setup.rules.server_time_decides)
            || !setup.rules.rise_waits_for_the_shortening;
        let hold = &mut self.holds[at];
        if !kept {
            if setup.rules.not_yours_ends_belief {
                hold.deadline = Timer::PAST;
            }
            return Some(Report::NotYours { believes: self.believes(&setup.rules) });
        }
        let is_extend = matches!(reply.call.request.order, Order::Extend { .. });
        if is_extend && !setup.rules.shortening_lowers_first {
            hold.deadline = deadline;
        }
        // The caller was notified that the deadline has passed, so a later reply does not raise it.
        if raises && hold.is_within_deadline() {
            hold.deadline = hold.deadline.max(deadline);
        }
        None
    }

    fn on_released(&mut self, setup: &Setup, at: usize, reply: &Reply, found: bool) -> Option<Report> {
        let rules = &setup.rules;
        let report = if self.holds[at].owes_report { release_report(rules, &self.holds[at], found) } else { None };
        let hold = &mut self.holds[at];
        hold.owes_report = false;
        hold.released = true;
        let past = if rules.server_time_decides { reply.past.acquires } else { reply.call.memo.last };
        if !hold.unclean || past || !rules.unclean_is_released_again {
            self.holds.remove(at);
        }
        report
    }

    /// Ends a try that the server answered without a grant. If every copy is answered, the attempt
    /// ends; otherwise the client may retry or release.
    fn end_try(&mut self, at: usize) {
        if self.holds[at].unclean {
            self.holds[at].phase = Phase::Unknown;
        } else {
            self.holds.remove(at);
        }
    }

    fn send_acquire(&mut self, setup: &Setup, serial: u8) {
        let lease = setup.timing.lease;
        let refused_from = written_refusal(setup, setup.rules.acquire_carries_not_after);
        let memo = Memo { refused_from: setup.timing.refused_from(), ..memo(setup, lease, true) };
        self.send(serial, Order::Acquire { lease, refused_from }, memo);
    }

    fn send_release(&mut self, setup: &Setup, at: usize) {
        let hold = &self.holds[at];
        let serial = hold.serial;
        let last = !setup.rules.server_time_decides && !hold.acquires_refused_from.client.is_ahead();
        self.send(serial, Order::Release, Memo { last, ..Memo::default() });
        if !setup.rules.forgets_when_answered {
            self.holds.remove(at);
        }
    }

    fn send(&mut self, serial: u8, order: Order, memo: Memo) {
        self.link.requests.push(Call { request: Request { serial, order }, memo });
    }

    /// Whether the confirmation of a request sent now may raise the deadline. It may not if a
    /// shortening could be executed after that request.
    fn may_raise(&self, setup: &Setup) -> bool {
        let Some(hold) = self.current() else { return false };
        !setup.rules.rise_waits_for_the_shortening
            || (!self.link.shortens(hold.serial) && !hold.extends_refused_from.client.is_ahead())
    }

    fn find(&mut self, wanted: impl Fn(&Hold) -> bool) -> &mut Hold {
        self.holds.iter_mut().find(|hold| wanted(hold)).expect("the action is offered only with such a hold")
    }
}

/// Returns the report for the answer of a release; `None` if the outcome is unknown.
fn release_report(rules: &Rules, hold: &Hold, found: bool) -> Option<Report> {
    let within = hold.is_within_deadline();
    match (found, hold.repeat) {
        (true, _) if within || !hold.unclean || !rules.found_after_the_deadline_is_unknown => {
            Some(Report::Released(hold.fate))
        }
        (true, _) => None,
        (false, false) if rules.nothing_at_first_is_lost => Some(Report::Lost(hold.fate)),
        (false, false) => Some(Report::Released(hold.fate)),
        (false, true) if within && rules.nothing_at_a_repeat_is_released => Some(Report::Released(hold.fate)),
        (false, true) if !within && rules.nothing_after_the_deadline_is_unknown => None,
        (false, true) => Some(Report::Lost(hold.fate)),
    }
}

fn confirmed_deadline(setup: &Setup, reply: &Reply) -> Timer {
    let memo = &reply.call.memo;
    if setup.rules.deadline_counts_from_sending { memo.deadline } else { deadline_of(setup, memo.lease) }
}

fn memo(setup: &Setup, lease: u8, raises: bool) -> Memo {
    let kept = if setup.rules.deadline_counts_from_sending { 0 } else { lease };
    Memo { deadline: deadline_of(setup, lease), lease: kept, raises, ..Memo::default() }
}

fn deadline_of(setup: &Setup, lease: u8) -> Timer {
    if setup.rules.deadline_keeps_a_margin { setup.timing.deadline_of(lease) } else { Timer::after(lease) }
}

/// Returns the first instant of the server's time at which the server refuses a copy sent now, as
/// the client writes it into the copy.
fn written_refusal(setup: &Setup, carried: bool) -> Timer {
    let Timing { window, offset_gap, .. } = setup.timing;
    match (carried, setup.rules.not_after_uses_the_lower_bound) {
        (false, _) => Timer::NEVER,
        (true, true) => Timer::after((window + 1).saturating_sub(offset_gap)),
        (true, false) => Timer::after(window + 1 + offset_gap),
    }
}

/// Returns the instant from which a lost copy cannot have an effect, by the clock that decides.
fn lapse(setup: &Setup, call: &Call) -> Lapse {
    let client = call.memo.refused_from;
    if !setup.rules.server_time_decides {
        return Lapse { client, server: Timer::PAST };
    }
    let server = match call.request.order {
        Order::Acquire { refused_from, .. } | Order::Extend { refused_from, .. } if refused_from != Timer::NEVER => {
            refused_from
        }
        _ => client,
    };
    Lapse { client: Timer::PAST, server }
}
