//! How the table handles replies, lost replies, and notices.

use super::Timer;
use super::process::{DeferredRelease, Entry, Flight, Poll, Process, ServerLease};
use super::server::{Answer, Order};
use super::table::Setup;

impl Process {
    /// Reads the reply.
    pub fn read_reply(&mut self, setup: &Setup) -> Option<Entry> {
        let flight = self.flight.take().expect("offered only with a reply");
        let serial = flight.request.serial;
        match (flight.request.order, flight.answer.expect("offered only with a reply")) {
            (Order::Acquire { by_force, .. }, Answer::Granted { lag }) => {
                return self.on_granted(setup, &flight, lag, by_force);
            }
            (Order::Acquire { by_force, .. }, answer) => {
                if by_force {
                    self.defer_takeover_release(setup, serial, flight.unanswered);
                } else {
                    self.defer_release(serial, flight.unanswered);
                }
                self.poll_again();
                if answer == Answer::Busy && !self.queue.is_empty() {
                    self.poll = Poll::Watching;
                }
            }
            (Order::Release, _) => {
                if flight.last {
                    self.deferred.retain(|left| left.serial != serial);
                }
                self.deferred.iter_mut().filter(|left| left.serial == serial).for_each(|left| left.answered = true);
                if self.poll == Poll::Idle && setup.rules.release_begins_an_attempt {
                    self.poll_again();
                }
            }
            (_, answer) => return self.on_lease_reply(setup, &flight, answer),
        }
        self.advance(setup)
    }

    /// Loses the connection: it is unknown whether the request was or will be executed.
    pub fn lose_connection(&mut self, setup: &Setup) -> Option<Entry> {
        let flight = self.flight.take().expect("offered only with a request in flight");
        if flight.answer.is_none() {
            self.late.push(flight.request);
        }
        if let Order::Acquire { refused_from, by_force, .. } = flight.request.order {
            let (serial, refused_from) =
                (flight.request.serial, refused_from.max(flight.unanswered.unwrap_or(Timer::PAST)));
            if by_force {
                self.defer_takeover_release(setup, serial, Some(refused_from));
            } else {
                let (not_before, answered) = (Timer::PAST, false);
                self.deferred.push(DeferredRelease { serial, refused_from, not_before, by_force, answered });
            }
        }
        if self.poll == Poll::Idle {
            self.poll_again();
        }
        if setup.rules.loss_is_handled { self.advance(setup) } else { None }
    }

    /// Reads the notice that another process has taken the key by force.
    pub fn read_notice(&mut self, setup: &Setup) -> Option<Entry> {
        let serial = self.notice.take()?;
        if let Some(flight) = &mut self.flight {
            flight.forced |= flight.request.serial == serial && matches!(flight.request.order, Order::Acquire { .. });
        }
        let server_lease = self.server_lease.as_mut().filter(|server_lease| server_lease.serial == serial)?;
        if setup.rules.force_ends_hand_over {
            self.lose_server_lease();
            return None;
        }
        server_lease.forced = true;
        self.notify_owner();
        self.advance(setup)
    }

    fn on_granted(&mut self, setup: &Setup, flight: &Flight, lag: i8, by_force: bool) -> Option<Entry> {
        let serial = flight.request.serial;
        if flight.forced {
            self.defer_release(serial, flight.unanswered);
            self.poll_again();
            return None;
        }
        let waits = by_force && setup.rules.taker_waits_a_window;
        self.poll = Poll::Idle;
        self.server_lease = Some(ServerLease {
            serial,
            deadline: flight.deadline,
            handover_window: flight.handover_window,
            first: Some(flight.first),
            lag,
            room: 0,
            token_due: waits.then(|| Timer::after(setup.timing.handover_window)),
            keep: Timer::PAST,
            unanswered: flight.unanswered,
            handed_over: false,
            watched: false,
            lengthened: false,
            release_queued: flight.cancelled,
            forced: false,
        });
        if flight.cancelled { None } else { self.advance(setup) }
    }

    fn on_lease_reply(&mut self, setup: &Setup, flight: &Flight, answer: Answer) -> Option<Entry> {
        let server_lease =
            self.server_lease.as_mut().filter(|server_lease| server_lease.serial == flight.request.serial)?;
        match answer {
            Answer::Gone => {
                self.lose_server_lease();
                return None;
            }
            Answer::Granted { lag } => {
                let (first, handover_window) = (Some(flight.first), flight.handover_window);
                *server_lease = ServerLease { token_due: None, first, handover_window, lag, room: 0, ..*server_lease };
            }
            _ => server_lease.lengthened = true,
        }
        server_lease.deadline = server_lease.deadline.max(flight.deadline);
        self.advance(setup)
    }

    /// Defers the release of a takeover of unknown outcome. The preempted process may hand over for
    /// one more window, so the name stays taken for that time.
    fn defer_takeover_release(&mut self, setup: &Setup, serial: u8, unanswered: Option<Timer>) {
        let Some(refused_from) = unanswered else { return };
        let by_force = setup.rules.unknown_takeover_waits;
        let not_before = if by_force { refused_from.and(setup.timing.handover_window) } else { Timer::PAST };
        self.deferred.push(DeferredRelease { serial, refused_from, not_before, by_force, answered: false });
    }
}
