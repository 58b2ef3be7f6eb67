//! What is heard of several channels for one reader who may be slow: so much is kept, and what he misses is told in its place.

use std::collections::{HashSet, VecDeque};
use std::sync::{Mutex, MutexGuard};
use std::task::{Context, Poll};

use bytes::Bytes;
use futures_util::task::AtomicWaker;

use crate::error::ServerError;

/// One of these for a reader; the hub has it for each channel that is heard for it.
pub(crate) struct Tap {
    state: Mutex<State>,
    reader: AtomicWaker,
    most: usize,
}

#[derive(Default)]
struct State {
    heard: VecDeque<Tapped>,
    seats: u64,
    /// Those that were given before the reader began and whose channels were not in force since.
    awaited: HashSet<u64>,
    /// Those of which a gap was told already, and whose channels were not in force since.
    resumed: HashSet<u64>,
    begun: bool,
    denied: Option<ServerError>,
    is_over: bool,
}

/// What has come.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Tapped {
    Message {
        channel: Bytes,
        payload: Bytes,
    },
    /// A channel is in force again: what was published meanwhile is not here.
    Gap,
    /// So many messages were not kept.
    Missed(u64),
    /// The server refuses a channel.
    Denied(ServerError),
}

impl State {
    fn gap(&mut self) {
        if self.heard.back() != Some(&Tapped::Gap) {
            self.heard.push_back(Tapped::Gap);
        }
    }
}

/// Why nothing is heard.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Deaf {
    /// The server refuses a channel.
    Denied(ServerError),
    /// Waiting does not help: the servers refuse this client, or are the wrong ones.
    Refused(ServerError),
    /// The client has ended, or is being shut down.
    Over,
    /// Nobody has confirmed them in time.
    Late,
}

impl Tap {
    /// One that keeps so many messages.
    pub(crate) fn new(most: usize) -> Tap {
        Tap { state: Mutex::default(), reader: AtomicWaker::new(), most }
    }

    /// A number for a channel that is to be heard.
    pub(super) fn seat(&self) -> u64 {
        let mut state = self.state();
        state.seats += 1;
        let seat = state.seats;
        if !state.begun {
            state.awaited.insert(seat);
        }
        seat
    }

    /// A channel is in force: what is published from now on is heard. For one that was awaited this is the beginning.
    pub(super) fn in_force(&self, seat: u64) {
        let mut state = self.state();
        let is_told = state.awaited.remove(&seat) | state.resumed.remove(&seat);
        if !is_told {
            state.gap();
        }
        drop(state);
        self.reader.wake();
    }

    /// Something is heard of a channel before it is known to be in force: the gap is in front of it. What comes before the beginning is
    /// nobody's.
    pub(super) fn tell_early(&self, seat: u64, channel: &Bytes, payload: &Bytes) {
        let mut state = self.state();
        if state.awaited.contains(&seat) {
            return;
        }
        if state.resumed.insert(seat) {
            state.gap();
        }
        drop(state);
        self.tell(channel, payload);
    }

    /// A channel is in force no more: what is heard of it next has a gap in front.
    pub(super) fn interrupted(&self, seat: u64) {
        self.state().resumed.remove(&seat);
    }

    /// A channel is heard no more.
    pub(super) fn left(&self, seat: u64) {
        let mut state = self.state();
        state.awaited.remove(&seat);
        state.resumed.remove(&seat);
        drop(state);
        self.reader.wake();
    }

    pub(super) fn denied(&self, why: &ServerError) {
        let mut state = self.state();
        state.denied = Some(why.clone());
        if state.begun && !matches!(state.heard.back(), Some(Tapped::Denied(_))) {
            state.heard.push_back(Tapped::Denied(why.clone()));
        }
        drop(state);
        self.reader.wake();
    }

    pub(super) fn tell(&self, channel: &Bytes, payload: &Bytes) {
        let mut state = self.state();
        if state.heard.len() < self.most {
            state.heard.push_back(Tapped::Message { channel: channel.clone(), payload: payload.clone() });
        } else {
            match state.heard.back_mut() {
                Some(Tapped::Missed(count)) => *count += 1,
                // It is told of already.
                Some(Tapped::Gap) => {}
                _ => state.heard.push_back(Tapped::Missed(1)),
            }
        }
        drop(state);
        self.reader.wake();
    }

    pub(super) fn over(&self) {
        self.state().is_over = true;
        self.reader.wake();
    }

    /// From now on each channel that is in force anew is a gap.
    pub(crate) fn begin(&self) {
        self.state().begun = true;
    }

    /// Completes when all channels are in force.
    pub(crate) fn poll_in_force(&self, context: &mut Context<'_>) -> Poll<Result<(), Deaf>> {
        self.reader.register(context.waker());
        let state = self.state();
        match &state.denied {
            _ if state.is_over => Poll::Ready(Err(Deaf::Over)),
            Some(why) => Poll::Ready(Err(Deaf::Denied(why.clone()))),
            None if state.seats > 0 && state.awaited.is_empty() => Poll::Ready(Ok(())),
            None => Poll::Pending,
        }
    }

    /// What comes next; `None` when the client has ended.
    pub(crate) fn poll_next(&self, context: &mut Context<'_>) -> Poll<Option<Tapped>> {
        self.reader.register(context.waker());
        let mut state = self.state();
        match state.heard.pop_front() {
            Some(tapped) => Poll::Ready(Some(tapped)),
            None if state.is_over => Poll::Ready(None),
            None => Poll::Pending,
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use super::*;

    fn next(tap: &Tap) -> Option<Tapped> {
        match tap.poll_next(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(next) => next,
            Poll::Pending => None,
        }
    }

    fn is_heard(tap: &Tap) -> bool {
        tap.poll_in_force(&mut Context::from_waker(Waker::noop())) == Poll::Ready(Ok(()))
    }

    #[test]
    fn who_is_slow_is_told_how_much_was_missed_and_where() {
        let tap = Tap::new(2);
        let message = |text: &'static str| (Bytes::from_static(b"c"), Bytes::from_static(text.as_bytes()));
        let tell = |text| tap.tell(&message(text).0, &message(text).1);
        let is = |text| Some(Tapped::Message { channel: message(text).0, payload: message(text).1 });
        ["1", "2", "3", "4"].into_iter().for_each(tell);
        assert_eq!(next(&tap), is("1"));
        // Room is made by what was missed, too, when it is read.
        tell("5");
        assert_eq!((next(&tap), next(&tap)), (is("2"), Some(Tapped::Missed(3))));
        tell("6");
        assert_eq!((next(&tap), next(&tap)), (is("6"), None));
        // However much comes, little is kept.
        for _ in 0..100 {
            tell("7");
            tap.in_force(1);
        }
        assert!(tap.state().heard.len() <= 4, "{:?}", tap.state().heard);
        tap.over();
        while next(&tap).is_some() {}
        assert_eq!(tap.poll_next(&mut Context::from_waker(Waker::noop())), Poll::Ready(None));
    }

    #[test]
    fn the_first_time_in_force_is_the_beginning_and_each_later_one_a_gap() {
        let tap = Tap::new(2);
        assert!(!is_heard(&tap), "nothing is heard yet");
        let (one, other, leaves) = (tap.seat(), tap.seat(), tap.seat());
        tap.in_force(one);
        tap.in_force(other);
        assert!(!is_heard(&tap));
        tap.left(leaves);
        assert!(is_heard(&tap));
        let more = tap.seat();
        assert!(!is_heard(&tap), "more of the beginning");
        tap.in_force(more);
        assert!(is_heard(&tap));
        tap.begin();
        assert_eq!(next(&tap), None);
        tap.in_force(one);
        tap.in_force(other);
        assert_eq!((next(&tap), next(&tap)), (Some(Tapped::Gap), None), "one for both");
        let later = tap.seat();
        tap.in_force(later);
        assert_eq!(next(&tap), Some(Tapped::Gap), "a node that has come");
    }

    #[test]
    fn what_is_heard_before_it_is_known_to_be_in_force_has_the_gap_in_front() {
        let tap = Tap::new(8);
        let message = |text: &'static str| (Bytes::from_static(b"c"), Bytes::from_static(text.as_bytes()));
        let early = |seat, text| tap.tell_early(seat, &message(text).0, &message(text).1);
        let is = |text| Some(Tapped::Message { channel: message(text).0, payload: message(text).1 });
        let one = tap.seat();
        early(one, "before the beginning");
        tap.in_force(one);
        tap.begin();
        assert_eq!(next(&tap), None);
        tap.interrupted(one);
        early(one, "1");
        early(one, "2");
        tap.in_force(one);
        assert_eq!((next(&tap), next(&tap), next(&tap), next(&tap)), (Some(Tapped::Gap), is("1"), is("2"), None));
        // Once more, before it was in force.
        tap.interrupted(one);
        early(one, "3");
        tap.interrupted(one);
        early(one, "5");
        tap.in_force(one);
        let told = [Some(Tapped::Gap), is("3"), Some(Tapped::Gap), is("5"), None];
        assert_eq!([(); 5].map(|()| next(&tap)), told);
        tap.interrupted(one);
        tap.in_force(one);
        assert_eq!((next(&tap), next(&tap)), (Some(Tapped::Gap), None));
    }
}
