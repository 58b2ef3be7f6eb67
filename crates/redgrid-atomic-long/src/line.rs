//! Where the updates of a client wait for each other.
//!
//! Turns only spare rounds: what is set is decided on the server. So one whose task is not polled, or not answered, loses its turn to
//! those behind it, one after the other, and goes on without when it is polled again.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use redgrid_core::clock::Instant;
use redgrid_core::{Client, ServerError};
use tokio::sync::Notify;

/// How long nothing is heard of a turn until another begins, at the least: seldom does a busy process stand still for longer.
const SILENT: Duration = Duration::from_millis(100);

/// The same in round trips.
const ROUND_TRIPS: u32 = 8;

/// How long whose turn it is may take to begin it.
const CALLED: Duration = Duration::from_millis(10);

/// The updates of a client's handles of a name.
pub(crate) struct Line<T>(Mutex<State<T>>);

struct State<T> {
    /// Who waits, in their order; all of them behind somebody's turn.
    waiting: VecDeque<(u64, Arc<Notify>)>,
    turn: Option<Turn>,
    next: u64,
    /// When one of them was answered last, and how long that took.
    answered: Instant,
    took: Duration,
    /// The number as the last one left it, and a time at which it was not yet so.
    left: Option<(T, Instant)>,
}

struct Turn {
    whose: u64,
    /// How that one was woken, until it begins.
    called: Option<Arc<Notify>>,
    heard: Instant,
}

impl<T> Default for Line<T> {
    fn default() -> Self {
        Line(Mutex::new(State {
            waiting: VecDeque::new(),
            turn: None,
            next: 0,
            answered: Instant::MIN,
            took: Duration::ZERO,
            left: None,
        }))
    }
}

impl<T: Copy> Line<T> {
    fn state(&self) -> MutexGuard<'_, State<T>> {
        self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Waits for its turn, as long as those before it are answered.
    pub(crate) async fn place<'a>(&'a self, client: &'a Client) -> Result<Place<'a, T>, ServerError> {
        let (clock, wake) = (client.clock(), Arc::new(Notify::new()));
        let entered = clock.now();
        let mut place = Place { line: self, client, number: self.state().number(), left: None };
        let mut waits = false;
        loop {
            let again = {
                let mut state = self.state();
                let now = clock.now();
                let Err(again) = state.begin(place.number, now, client.response_timeout()) else {
                    // What it was before this one came may long be another.
                    place.left = state.left.take().filter(|(_, since)| *since >= entered).map(|(left, _)| left);
                    break;
                };
                let over = state.answered.max(entered) + client.patience();
                if over <= now {
                    return Err(not_sent("those before it were not answered in time"));
                }
                if !waits {
                    state.waiting.push_back((place.number, Arc::clone(&wake)));
                    waits = true;
                }
                again.min(over)
            };
            tokio::select! {
                biased;
                () = wake.notified() => {}
                () = client.closing() => return Err(client.ended()),
                () = clock.sleep_until(again) => {}
            }
        }
        Ok(place)
    }
}

fn not_sent(reason: &'static str) -> ServerError {
    ServerError::NotSent { reason: reason.into() }
}

impl<T> State<T> {
    fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    /// Begins a turn where there is none, or it is its own, or nothing is heard of it; else tells when to look again.
    fn begin(&mut self, number: u64, now: Instant, timeout: Duration) -> Result<(), Instant> {
        if let Some(turn) = self.turn.take_if(|turn| turn.whose != number) {
            let silent = (self.took * ROUND_TRIPS).max(SILENT).min(timeout);
            let over = turn.heard + if turn.called.is_some() { CALLED } else { silent };
            if now < over {
                self.turn = Some(turn);
                return Err(over);
            }
            if let Some(called) = turn.called {
                self.waiting.push_back((turn.whose, called));
            }
            self.waiting.retain(|(waiting, _)| *waiting != number);
        }
        self.turn = Some(Turn { whose: number, called: None, heard: now });
        Ok(())
    }

    /// Ends a turn, or the wait for one; the next in line is called.
    fn leave(&mut self, number: u64, now: Instant) {
        if self.turn.as_ref().is_none_or(|turn| turn.whose != number) {
            self.waiting.retain(|(waiting, _)| *waiting != number);
            return;
        }
        self.turn = self.waiting.pop_front().map(|(whose, wake)| {
            wake.notify_one();
            Turn { whose, called: Some(wake), heard: now }
        });
    }
}

/// A place in the line: behind others, or with its turn.
pub(crate) struct Place<'a, T: Copy> {
    line: &'a Line<T>,
    client: &'a Client,
    number: u64,
    /// The number as the one before it left it, at a time when this one was waiting.
    pub(crate) left: Option<T>,
}

impl<T: Copy> Place<'_, T> {
    /// It was answered a request that left at `sent`.
    pub(crate) fn answered(&self, sent: Instant) {
        let (mut state, now) = (self.line.state(), self.client.clock().now());
        (state.answered, state.took) = (now, now.since(sent));
        if let Some(turn) = state.turn.as_mut().filter(|turn| turn.whose == self.number) {
            turn.heard = now;
        }
    }

    /// It knows what the number was after `since`.
    pub(crate) fn leaves(&self, value: T, since: Instant) {
        let mut state = self.line.state();
        if state.turn.as_ref().is_some_and(|turn| turn.whose == self.number) {
            state.left = Some((value, since));
        }
    }
}

impl<T: Copy> Drop for Place<'_, T> {
    fn drop(&mut self) {
        self.line.state().leave(self.number, self.client.clock().now());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMEOUT: Duration = Duration::from_secs(3);

    fn at(millis: u64) -> Instant {
        Instant::MIN + Duration::from_millis(1_000 + millis)
    }

    fn waits(state: &mut State<i64>, number: u64) {
        state.waiting.push_back((number, Arc::default()));
    }

    fn state() -> State<i64> {
        Line::default().0.into_inner().unwrap()
    }

    #[test]
    fn they_come_in_their_order() {
        let mut state = state();
        assert_eq!(state.begin(1, at(0), TIMEOUT), Ok(()));
        for number in [2, 3] {
            assert_eq!(state.begin(number, at(1), TIMEOUT), Err(at(100)));
            waits(&mut state, number);
        }
        state.leave(1, at(2));
        assert_eq!(state.begin(3, at(3), TIMEOUT), Err(at(12)), "it was called, not 3");
        assert_eq!(state.begin(2, at(3), TIMEOUT), Ok(()));
        state.leave(2, at(4));
        assert_eq!(state.begin(3, at(5), TIMEOUT), Ok(()));
        state.leave(3, at(6));
        assert!(state.turn.is_none());
    }

    #[test]
    fn who_is_silent_loses_the_turn_to_one_of_those_behind_and_who_is_not_polled_its_place() {
        let mut state = state();
        state.begin(1, at(0), TIMEOUT).unwrap();
        for number in [2, 3, 4] {
            waits(&mut state, number);
        }
        assert_eq!(state.begin(3, at(100), TIMEOUT), Ok(()));
        assert_eq!(state.begin(4, at(100), TIMEOUT), Err(at(200)), "one after the other");
        state.leave(1, at(101));
        assert_eq!(state.turn.as_ref().map(|turn| turn.whose), Some(3), "it was not 1's any more");
        state.leave(3, at(102));
        assert_eq!(state.begin(4, at(112), TIMEOUT), Ok(()), "2 does not begin");
        assert_eq!(state.waiting.iter().map(|(number, _)| *number).collect::<Vec<_>>(), [2]);
        state.leave(4, at(113));
        assert_eq!(state.begin(2, at(900), TIMEOUT), Ok(()));
    }

    #[test]
    fn silence_is_counted_in_round_trips_up_to_the_timeout() {
        let mut state = state();
        state.begin(1, at(0), TIMEOUT).unwrap();
        state.took = Duration::from_millis(50);
        assert_eq!(state.begin(2, at(1), TIMEOUT), Err(at(400)));
        assert_eq!(state.begin(2, at(1), Duration::from_millis(70)), Err(at(70)));
    }
}
