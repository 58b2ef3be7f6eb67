//! What is under way in a lane and what waits, and how many may leave.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Mutex, oneshot};

use crate::clock::Instant;
use crate::connection::{Reply, Request};
use crate::error::ServerError;
use crate::script::Turn;

/// So many calls are under way in a lane before others wait.
const UNDER_WAY: usize = 4;

/// So many are enough to a server that is near, once calls leave together.
const UNDER_WAY_NEAR: usize = 1;

/// So many wait where one more call under way to a server that is near is worth its wake-ups.
const MANY: usize = 32;

/// So many leave together at most.
const TOGETHER: usize = 64;

/// How those of a lane leave.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Pace {
    /// To a server further away: some calls are under way, however few leave by one.
    Far,
    /// To a server that is near: by one call, as long as not too many wait.
    AtOnce,
    /// To a server that is near, from a runtime of one thread: by some calls that take turns with it.
    InTurns,
}

#[derive(Default)]
pub(super) struct Traffic {
    /// Under way in the hands of their callers.
    pub(super) alone: usize,
    /// Tasks that send what waits.
    pub(super) drains: usize,
    /// Under way in the hands of those tasks.
    pub(super) aboard: usize,
    /// Whose answers are told, where they take turns.
    turns: Option<Turns>,
    /// A task looks after those who wait.
    pub(super) guarded: bool,
    pub(super) waiting: VecDeque<Call>,
}

/// Who holds it tells answers, and lets go when those who were told so have left again.
pub(super) type Turns = Arc<Mutex<()>>;

/// One that waits to leave.
pub(super) struct Call {
    pub(super) request: Arc<Request>,
    pub(super) turn: Turn,
    /// Since when it waits.
    pub(super) since: Instant,
    /// Until when it may leave.
    pub(super) until: Instant,
    /// When its answer has to be there.
    pub(super) limit: Instant,
    pub(super) answer: oneshot::Sender<Result<Reply, ServerError>>,
}

impl Traffic {
    /// The next that waits and may still leave. Who has waited too long is told so; who has left is passed over.
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

    /// For how long the first of those who wait does, if somebody does.
    pub(super) fn waits(&mut self, now: Instant) -> Option<Duration> {
        let call = self.next(now)?;
        let waits = now.since(call.since);
        self.waiting.push_front(call);
        Some(waits)
    }

    /// Whether somebody waits.
    pub(super) fn is_awaited(&mut self, now: Instant) -> bool {
        self.waits(now).is_some()
    }

    /// How many calls may be under way.
    pub(super) fn room(&self, pace: Pace) -> usize {
        let is_crowded = self.waiting.len() >= MANY;
        if pace == Pace::AtOnce && self.drains > 0 && !is_crowded { UNDER_WAY_NEAR } else { UNDER_WAY }
    }

    /// Whether there is room for one more call, beside those under way.
    pub(super) fn has_room(&self, pace: Pace) -> bool {
        self.alone + self.drains < self.room(pace)
    }

    /// How many leave by one call: a part of all, as long as there are ways for the others.
    fn share(&self, pace: Pace) -> usize {
        let all = self.waiting.len() + self.aboard;
        match pace {
            Pace::InTurns if self.alone + self.drains <= UNDER_WAY => all.div_ceil(UNDER_WAY).min(TOGETHER),
            _ => TOGETHER,
        }
    }

    /// Those who leave next, and where they take turns.
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

    /// So many who wait, and where they do.
    fn waiting(count: usize) -> (VecDeque<Call>, Vec<oneshot::Receiver<Result<Reply, ServerError>>>) {
        let call = |_| {
            let (answer, told) = oneshot::channel();
            let request = Arc::new(Request::command("PING"));
            let (since, until) = (Instant::PAST, Instant::NEVER);
            (Call { request, turn: Turn::First, since, until, limit: until, answer }, told)
        };
        (0..count).map(call).unzip()
    }

    #[test]
    fn one_call_of_many_is_under_way_to_a_server_that_is_near() {
        let traffic = |alone, drains, waits| Traffic { alone, drains, waiting: waiting(waits).0, ..Traffic::default() };
        let room = |of: Traffic| [Pace::AtOnce, Pace::Far].map(|pace| of.has_room(pace));
        // Those who go by themselves do not wait for each other.
        assert_eq!((room(traffic(3, 0, 0)), room(traffic(4, 0, 1))), ([true; 2], [false; 2]));
        assert_eq!((room(traffic(0, 1, 0)), room(traffic(0, 1, MANY - 1))), ([false, true], [false, true]));
        assert_eq!((room(traffic(0, 1, MANY)), room(traffic(0, 4, MANY))), ([true; 2], [false; 2]));
    }

    #[test]
    fn on_one_thread_those_of_a_lane_leave_by_four_calls_alike() {
        let boards = |traffic: &mut Traffic| traffic.board(Pace::InTurns, Instant::PAST).0.len();
        let (some, _told) = waiting(30);
        let mut traffic = Traffic { waiting: some, drains: 1, ..Traffic::default() };
        assert_eq!([(); 5].map(|()| boards(&mut traffic)), [8, 8, 8, 6, 0]);
        traffic.drains = 3;
        assert!(traffic.has_room(Pace::InTurns));
        traffic.drains = 4;
        assert!(!traffic.has_room(Pace::InTurns));
        // Those under way count: who asks again is one of as many as before.
        let (again, _told) = waiting(20);
        traffic.waiting = again;
        traffic.aboard = 10;
        assert_eq!(boards(&mut traffic), 8);
        // Who leaves beside four takes all: they have waited for too long, or others hold on to their calls.
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
