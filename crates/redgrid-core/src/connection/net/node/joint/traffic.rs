//! In-flight and waiting calls of a lane, and the limits of what may be sent.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Mutex, oneshot};

use crate::clock::Instant;
use crate::connection::{Reply, Request};
use crate::error::ServerError;
use crate::script::BatchPhase;

/// The number of requests in flight in a lane from which on further calls wait.
const UNDER_WAY: usize = 4;

/// The number of requests in flight that suffices for a near server once calls are batched.
const UNDER_WAY_NEAR: usize = 1;

/// The number of waiting calls from which on a further request to a near server pays for its
/// wake-ups.
const MANY: usize = 32;

/// The maximum number of calls in a batch.
const TOGETHER: usize = 64;

/// How the calls of a lane are sent.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Pace {
    /// To a distant server: several requests in flight, however few calls each of them has.
    Far,
    /// To a near server: one request in flight, unless too many calls wait.
    AtOnce,
    /// To a near server from a runtime with one thread: several requests, with replies delivered in
    /// order.
    InTurns,
}

#[derive(Default)]
pub(super) struct Traffic {
    /// Number of calls that their callers send inline.
    pub(super) alone: usize,
    /// Number of tasks that send waiting calls.
    pub(super) drains: usize,
    /// Number of calls in flight in those tasks.
    pub(super) aboard: usize,
    /// The lock that orders the delivery of replies.
    turns: Option<Turns>,
    /// A guard task runs for the waiting calls.
    pub(super) guarded: bool,
    pub(super) waiting: VecDeque<Call>,
}

/// Lock that orders the delivery of replies.
///
/// Its holder delivers a reply and releases the lock when the answered callers have sent again.
pub(super) type Turns = Arc<Mutex<()>>;

/// A call that waits to be sent.
pub(super) struct Call {
    pub(super) request: Arc<Request>,
    pub(super) turn: BatchPhase,
    /// When the call began to wait.
    pub(super) since: Instant,
    /// The call is not sent after this instant.
    pub(super) until: Instant,
    /// The deadline of the reply.
    pub(super) limit: Instant,
    pub(super) answer: oneshot::Sender<Result<Reply, ServerError>>,
}

impl Traffic {
    /// Takes the next waiting call that may still be sent.
    ///
    /// Calls past their deadline are answered with an error; those with dropped callers are
    /// skipped.
    fn next(&mut self, now: Instant) -> Option<Call> {
        loop {
            let call = self.waiting.pop_front()?;
            if call.answer.is_closed() {
                continue;
            }
            if now < call.until {
                return Some(call);
            }
            let _ = call.answer.send(Err(ServerError::not_sent("the calls before it were not answered in time")));
        }
    }

    /// Returns how long the first waiting call has waited; `None` if no call waits.
    pub(super) fn waits(&mut self, now: Instant) -> Option<Duration> {
        let call = self.next(now)?;
        let waits = now.since(call.since);
        self.waiting.push_front(call);
        Some(waits)
    }

    /// Returns whether a call waits.
    pub(super) fn is_awaited(&mut self, now: Instant) -> bool {
        self.waits(now).is_some()
    }

    /// Returns the maximum number of requests in flight.
    pub(super) fn room(&self, pace: Pace) -> usize {
        let is_crowded = self.waiting.len() >= MANY;
        if pace == Pace::AtOnce && self.drains > 0 && !is_crowded { UNDER_WAY_NEAR } else { UNDER_WAY }
    }

    /// Returns whether one more request may be sent.
    pub(super) fn has_room(&self, pace: Pace) -> bool {
        self.alone + self.drains < self.room(pace)
    }

    /// Returns the size of the next batch.
    ///
    /// With ordered delivery it is a part of all calls while further requests may be sent.
    fn share(&self, pace: Pace) -> usize {
        let all = self.waiting.len() + self.aboard;
        match pace {
            Pace::InTurns if self.alone + self.drains <= UNDER_WAY => all.div_ceil(UNDER_WAY).min(TOGETHER),
            _ => TOGETHER,
        }
    }

    /// Takes the calls of the next batch, and the delivery lock if replies are ordered.
    pub(super) fn board(&mut self, pace: Pace, now: Instant) -> (Vec<Call>, Option<Turns>) {
        let share = self.share(pace);
        let mut calls = Vec::with_capacity(self.waiting.len().min(share));
        calls.extend(std::iter::from_fn(|| self.next(now)).take(share));
        self.aboard += calls.len();
        let turns = (pace == Pace::InTurns).then(|| Arc::clone(self.turns.get_or_insert_default()));
        (calls, turns)
    }

    pub(super) fn is_over(&self) -> bool {
        self.alone + self.drains == 0 && !self.guarded && self.waiting.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Creates `count` waiting calls and the receivers of their replies.
    fn waiting(count: usize) -> (VecDeque<Call>, Vec<oneshot::Receiver<Result<Reply, ServerError>>>) {
        let call = |_| {
            let (answer, told) = oneshot::channel();
            let request = Arc::new(Request::command("PING"));
            let (since, until) = (Instant::MIN, Instant::MAX);
            (Call { request, turn: BatchPhase::Release, since, until, limit: until, answer }, told)
        };
        (0..count).map(call).unzip()
    }

    #[test]
    fn one_call_of_many_is_under_way_to_a_server_that_is_near() {
        let traffic = |alone, drains, waits| Traffic { alone, drains, waiting: waiting(waits).0, ..Traffic::default() };
        let room = |of: Traffic| [Pace::AtOnce, Pace::Far].map(|pace| of.has_room(pace));
        // Inline calls do not wait for each other.
        assert_eq!((room(traffic(3, 0, 0)), room(traffic(4, 0, 1))), ([true; 2], [false; 2]));
        assert_eq!((room(traffic(0, 1, 0)), room(traffic(0, 1, MANY - 1))), ([false, true], [false, true]));
        assert_eq!((room(traffic(0, 1, MANY)), room(traffic(0, 4, MANY))), ([true; 2], [false; 2]));
    }

    #[test]
    fn on_one_thread_those_of_a_lane_leave_by_four_calls_alike() {
        let boards = |traffic: &mut Traffic| traffic.board(Pace::InTurns, Instant::MIN).0.len();
        let (some, _told) = waiting(30);
        let mut traffic = Traffic { waiting: some, drains: 1, ..Traffic::default() };
        assert_eq!([(); 5].map(|()| boards(&mut traffic)), [8, 8, 8, 6, 0]);
        traffic.drains = 3;
        assert!(traffic.has_room(Pace::InTurns));
        traffic.drains = 4;
        assert!(!traffic.has_room(Pace::InTurns));
        // Calls in flight count: a caller that sends again still is one of as many as before.
        let (again, _told) = waiting(20);
        traffic.waiting = again;
        traffic.aboard = 10;
        assert_eq!(boards(&mut traffic), 8);
        // A sender beside four takes all: the calls have waited too long, or inline calls are not
        // polled.
        for (alone, drains) in [(0, 5), (4, 1)] {
            let (late, _told) = waiting(20);
            (traffic.waiting, traffic.alone, traffic.drains) = (late, alone, drains);
            assert_eq!(boards(&mut traffic), 20);
        }
        (traffic.alone, traffic.drains) = (0, 4);
        let (many, _told) = waiting(500);
        traffic.waiting = many;
        assert_eq!(boards(&mut traffic), TOGETHER);
    }
}
