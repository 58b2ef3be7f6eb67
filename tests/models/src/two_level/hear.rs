//! The table's handling of replies, of their absence, and of notices.

use super::Timer;
use super::process::{Drive, Entry, Flight, Process, ServerLease, Unsettled};
use super::server::{Answer, Order};
use super::table::Ways;

impl Process {
    /// Reads the reply.
    pub fn hear(&mut self, ways: &Ways) -> Option<Entry> {
        let flight = self.flight.take().expect("offered only with a reply");
        let serial = flight.request.serial;
        match (flight.request.order, flight.answer.expect("offered only with a reply")) {
            (Order::Acquire { by_force, .. }, Answer::Granted { lag }) => {
                return self.hear_granted(ways, &flight, lag, by_force);
            }
            (Order::Acquire { by_force, .. }, answer) => {
                if by_force {
                    self.leave_theft_unsettled(ways, serial, flight.carried);
                } else {
                    self.leave_unsettled(serial, flight.carried);
                }
                self.drive_on();
                if answer == Answer::Busy && !self.queue.is_empty() {
                    self.drive = Drive::Watching;
                }
            }
            (Order::Release, _) => {
                if flight.last {
                    self.unsettled.retain(|left| left.serial != serial);
                }
                self.unsettled.iter_mut().filter(|left| left.serial == serial).for_each(|left| left.answered = true);
                if self.drive == Drive::Idle && ways.rules.release_begins_an_attempt {
                    self.drive_on();
                }
            }
            (_, answer) => return self.hear_of_server_lease(ways, &flight, answer),
        }
        self.advance(ways)
    }

    /// Loses the connection: it is unknown whether the request was or will be executed.
    pub fn lose_connection(&mut self, ways: &Ways) -> Option<Entry> {
        let flight = self.flight.take().expect("offered only with a request under way");
        if flight.answer.is_none() {
            self.late.push(flight.request);
        }
        if let Order::Acquire { refused_from, by_force, .. } = flight.request.order {
            let (serial, refused_from) =
                (flight.request.serial, refused_from.max(flight.carried.unwrap_or(Timer::PAST)));
            if by_force {
                self.leave_theft_unsettled(ways, serial, Some(refused_from));
            } else {
                let (not_before, answered) = (Timer::PAST, false);
                self.unsettled.push(Unsettled { serial, refused_from, not_before, by_force, answered });
            }
        }
        if self.drive == Drive::Idle {
            self.drive_on();
        }
        if ways.rules.loss_is_looked_at { self.advance(ways) } else { None }
    }

    /// Reads the notice that another process has taken the key by force.
    pub fn hear_notice(&mut self, ways: &Ways) -> Option<Entry> {
        let serial = self.notice.take()?;
        if let Some(flight) = &mut self.flight {
            flight.forced |= flight.request.serial == serial && matches!(flight.request.order, Order::Acquire { .. });
        }
        let server_lease = self.server_lease.as_mut().filter(|server_lease| server_lease.serial == serial)?;
        if ways.rules.force_ends_hand_over {
            self.lose_server_lease();
            return None;
        }
        server_lease.forced = true;
        self.tell_owner();
        self.advance(ways)
    }

    fn hear_granted(&mut self, ways: &Ways, flight: &Flight, lag: i8, by_force: bool) -> Option<Entry> {
        let serial = flight.request.serial;
        if flight.forced {
            self.leave_unsettled(serial, flight.carried);
            self.drive_on();
            return None;
        }
        let settles = by_force && ways.rules.taker_waits_a_window;
        self.drive = Drive::Idle;
        self.server_lease = Some(ServerLease {
            serial,
            deadline: flight.deadline,
            handover_window: flight.handover_window,
            first: Some(flight.first),
            lag,
            room: 0,
            settling: settles.then(|| Timer::after(ways.timing.handover_window)),
            keep: Timer::PAST,
            carried: flight.carried,
            handed_on: false,
            watched: false,
            lengthened: false,
            release_queued: flight.orphan,
            forced: false,
        });
        if flight.orphan { None } else { self.advance(ways) }
    }

    fn hear_of_server_lease(&mut self, ways: &Ways, flight: &Flight, answer: Answer) -> Option<Entry> {
        let server_lease =
            self.server_lease.as_mut().filter(|server_lease| server_lease.serial == flight.request.serial)?;
        match answer {
            Answer::Gone => {
                self.lose_server_lease();
                return None;
            }
            Answer::Granted { lag } => {
                let (first, handover_window) = (Some(flight.first), flight.handover_window);
                *server_lease = ServerLease { settling: None, first, handover_window, lag, room: 0, ..*server_lease };
            }
            _ => server_lease.lengthened = true,
        }
        server_lease.deadline = server_lease.deadline.max(flight.deadline);
        self.advance(ways)
    }

    /// Defers the release of a takeover of unknown outcome. The preempted process may hand over for
    /// one more window, so the name stays taken that long.
    fn leave_theft_unsettled(&mut self, ways: &Ways, serial: u8, carried: Option<Timer>) {
        let Some(refused_from) = carried else { return };
        let by_force = ways.rules.unsure_theft_waits;
        let not_before = if by_force { refused_from.and(ways.timing.handover_window) } else { Timer::PAST };
        self.unsettled.push(Unsettled { serial, refused_from, not_before, by_force, answered: false });
    }
}
