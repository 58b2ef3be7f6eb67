//! Turns for the updates of a client, so that one update of an object is in flight at a time.
//!
//! The only purpose of turns is to make failed attempts rare. Correctness does not depend on them,
//! because the server decides whether an update succeeds. If the task of an update is not polled,
//! or if no reply arrives, the update loses its turn to the next waiting update. When the task is
//! polled again, the update continues without a turn.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use redgrid_client::internal::Mutex;
use redgrid_client::{Client, ServerError};
use tokio::sync::Notify;

use crate::author::ClientExt;
use crate::clock::Instant;

/// The shortest time without a reply after which an update loses its turn: 100 ms. A busy process
/// is rarely suspended for longer.
const MIN_SILENCE: Duration = Duration::from_millis(100);

/// Number of round trips without a reply after which an update loses its turn: 8. The limit is
/// never shorter than [`MIN_SILENCE`], and never longer than the response timeout.
const SILENCE_ROUND_TRIPS: u32 = 8;

/// Time limit for a woken update to start its turn: 10 ms. After that, the update loses its turn.
const START_TIMEOUT: Duration = Duration::from_millis(10);

/// The turns of a client's updates of one object, or of one part of an object. All handles of the
/// client share the turns.
#[derive(Default)]
pub(super) struct UpdateTurns(Mutex<State>);

#[derive(Default)]
struct State {
    /// The waiting updates, in FIFO order. The queue is empty while no update has a turn.
    waiting: VecDeque<(u64, Arc<Notify>)>,
    turn: Option<Turn>,
    last_id: u64,
    /// The time of the last reply to a request of an update, and the round-trip time of that
    /// request.
    last_reply: Instant,
    round_trip: Duration,
    /// The value that the last update stored, and the instant at which the request to store it was
    /// sent.
    last_value: Option<(Bytes, Instant)>,
}

struct Turn {
    owner: u64,
    /// The waker of the owner, if the owner was woken and has not started its turn yet.
    woken: Option<Arc<Notify>>,
    last_active: Instant,
}

impl UpdateTurns {
    /// Waits for the turn of a new update, until `limit`. Fails earlier if the updates before it
    /// receive no reply for `response_timeout × (retries + 1)`.
    pub(super) async fn wait_for_turn(
        self: Arc<Self>,
        client: &Client,
        limit: Instant,
    ) -> Result<UpdateTurn, ServerError> {
        let (clock, wake) = (client.clock(), Arc::new(Notify::new()));
        let queued_at = clock.now();
        let id = self.0.lock().new_id();
        let mut turn = UpdateTurn { turns: Arc::clone(&self), client: client.clone(), id, last_value: None };
        let mut is_queued = false;
        loop {
            let retry_at = {
                let mut state = self.0.lock();
                let now = clock.now();
                let Err(retry_at) = state.try_start(turn.id, now, client.response_timeout()) else {
                    // The value is used only if the request to store it was sent after this update
                    // was queued. An older value may be outdated.
                    turn.last_value =
                        state.last_value.take().filter(|(_, since)| *since >= queued_at).map(|(value, _)| value);
                    break;
                };
                let deadline = limit.min(state.last_reply.max(queued_at) + client.patience());
                if deadline <= now {
                    return Err(ServerError::not_sent("earlier updates of the key did not end in time"));
                }
                if !is_queued {
                    state.waiting.push_back((turn.id, Arc::clone(&wake)));
                    is_queued = true;
                }
                retry_at.min(deadline)
            };
            tokio::select! {
                biased;
                () = wake.notified() => {}
                () = client.closing() => return Err(client.ended()),
                () = clock.sleep_until(retry_at) => {}
            }
        }
        Ok(turn)
    }
}

impl State {
    fn new_id(&mut self) -> u64 {
        self.last_id += 1;
        self.last_id
    }

    /// Starts the turn of an update if no other update has the turn, or if the update with the turn
    /// has been silent for too long. Otherwise returns when to try again.
    fn try_start(&mut self, id: u64, now: Instant, timeout: Duration) -> Result<(), Instant> {
        if let Some(turn) = self.turn.take_if(|turn| turn.owner != id) {
            let max_silence = (self.round_trip * SILENCE_ROUND_TRIPS).max(MIN_SILENCE).min(timeout);
            let expires = turn.last_active + if turn.woken.is_some() { START_TIMEOUT } else { max_silence };
            if now < expires {
                self.turn = Some(turn);
                return Err(expires);
            }
            if let Some(woken) = turn.woken {
                self.waiting.push_back((turn.owner, woken));
            }
            self.waiting.retain(|(waiting, _)| *waiting != id);
        }
        self.turn = Some(Turn { owner: id, woken: None, last_active: now });
        Ok(())
    }

    /// Ends the turn of an update, or its wait for a turn. After a turn, wakes the next update.
    fn leave(&mut self, id: u64, now: Instant) {
        if self.turn.as_ref().is_none_or(|turn| turn.owner != id) {
            self.waiting.retain(|(waiting, _)| *waiting != id);
            return;
        }
        self.turn = self.waiting.pop_front().map(|(owner, wake)| {
            wake.notify_one();
            Turn { owner, woken: Some(wake), last_active: now }
        });
    }
}

/// An update that waits for its turn, or has its turn.
pub(super) struct UpdateTurn {
    turns: Arc<UpdateTurns>,
    client: Client,
    id: u64,
    /// The value that the previous update stored, if the request to store it was sent after this
    /// update was queued.
    pub(super) last_value: Option<Bytes>,
}

impl UpdateTurn {
    /// Records that a request of this update was answered. The request was sent at `sent`.
    pub(super) fn record_reply(&self, sent: Instant) {
        let (mut state, now) = (self.turns.0.lock(), self.client.clock().now());
        (state.last_reply, state.round_trip) = (now, now.since(sent));
        if let Some(turn) = state.turn.as_mut().filter(|turn| turn.owner == self.id) {
            turn.last_active = now;
        }
    }

    /// Records the value that this update stored, for the next update. `since` is the instant at
    /// which the request to store it was sent.
    pub(super) fn record_value(&self, value: Bytes, since: Instant) {
        let mut state = self.turns.0.lock();
        if state.turn.as_ref().is_some_and(|turn| turn.owner == self.id) {
            state.last_value = Some((value, since));
        }
    }
}

impl Drop for UpdateTurn {
    fn drop(&mut self) {
        self.turns.0.lock().leave(self.id, self.client.clock().now());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMEOUT: Duration = Duration::from_secs(3);

    fn at(millis: u64) -> Instant {
        Instant::MIN + Duration::from_millis(1_000 + millis)
    }

    fn queue(state: &mut State, id: u64) {
        state.waiting.push_back((id, Arc::default()));
    }

    fn state() -> State {
        State::default()
    }

    #[test]
    fn turns_are_in_fifo_order() {
        let mut state = state();
        assert_eq!(state.try_start(1, at(0), TIMEOUT), Ok(()));
        for id in [2, 3] {
            assert_eq!(state.try_start(id, at(1), TIMEOUT), Err(at(100)));
            queue(&mut state, id);
        }
        state.leave(1, at(2));
        assert_eq!(state.try_start(3, at(3), TIMEOUT), Err(at(12)), "2 was woken, not 3");
        assert_eq!(state.try_start(2, at(3), TIMEOUT), Ok(()));
        state.leave(2, at(4));
        assert_eq!(state.try_start(3, at(5), TIMEOUT), Ok(()));
        state.leave(3, at(6));
        assert!(state.turn.is_none());
    }

    #[test]
    fn a_silent_update_loses_its_turn_and_an_unpolled_one_its_position() {
        let mut state = state();
        state.try_start(1, at(0), TIMEOUT).unwrap();
        for id in [2, 3, 4] {
            queue(&mut state, id);
        }
        assert_eq!(state.try_start(3, at(100), TIMEOUT), Ok(()));
        assert_eq!(state.try_start(4, at(100), TIMEOUT), Err(at(200)), "one after the other");
        state.leave(1, at(101));
        assert_eq!(state.turn.as_ref().map(|turn| turn.owner), Some(3), "1 has no turn any more");
        state.leave(3, at(102));
        assert_eq!(state.try_start(4, at(112), TIMEOUT), Ok(()), "2 does not start");
        assert_eq!(state.waiting.iter().map(|(id, _)| *id).collect::<Vec<_>>(), [2]);
        state.leave(4, at(113));
        assert_eq!(state.try_start(2, at(900), TIMEOUT), Ok(()));
    }

    #[test]
    fn the_maximum_silence_is_in_round_trips_up_to_the_timeout() {
        let mut state = state();
        state.try_start(1, at(0), TIMEOUT).unwrap();
        state.round_trip = Duration::from_millis(50);
        assert_eq!(state.try_start(2, at(1), TIMEOUT), Err(at(400)));
        assert_eq!(state.try_start(2, at(1), Duration::from_millis(70)), Err(at(70)));
    }
}
