//! Until when what is kept may be given out.
//!
//! A pulse is a message of our own on the connection that carries the others'. When it is heard, all that was published before it was
//! heard too, so that what is kept was right when the pulse was sent. It says nothing of what was lost between two terms of being in force.

use std::collections::VecDeque;
use std::hash::BuildHasher;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use foldhash::quality::RandomState;
use redgrid_core::Generation;
use redgrid_core::clock::Instant;

#[derive(Default)]
pub(crate) struct Freshness {
    /// Of the channel of invalidations, once it is listened to.
    term: OnceLock<Generation>,
    /// The term in which the last pulse was heard; 0 before there was one. Written behind `until`.
    heard_in: AtomicU64,
    /// In nanoseconds.
    until: AtomicU64,
}

impl Freshness {
    pub(crate) fn listen(&self, term: Generation) {
        let _ = self.term.set(term);
    }

    /// Since when it is listened without a break, if it is.
    pub(crate) fn present_term(&self) -> Option<u64> {
        self.term.get()?.current()
    }

    /// The same if a pulse was heard in it that is young enough.
    pub(super) fn term_at(&self, now: Instant) -> Option<u64> {
        let term = self.present_term()?;
        (self.heard_in.load(Ordering::Acquire) == term && now.as_nanos() < self.until.load(Ordering::Acquire))
            .then_some(term)
    }

    /// Nobody listens any more.
    pub(crate) fn end(&self) {
        self.heard_in.store(0, Ordering::Release);
    }

    /// A pulse of this term was heard.
    fn heard(&self, term: u64, until: Instant) {
        self.until.store(until.as_nanos(), Ordering::Release);
        self.heard_in.store(term, Ordering::Release);
    }
}

/// Pulses that are awaited.
#[derive(Default)]
pub(crate) struct Pulses {
    last: u64,
    sent: VecDeque<Sent>,
    /// One that did not come.
    forgot: bool,
    /// When the map is to be gone at the latest, as the last that was heard told; nothing of it outlives that, whatever the next tells.
    ends: Option<Instant>,
}

struct Sent {
    number: u64,
    at: Instant,
    term: u64,
}

/// What a pulse says of the map when it comes back.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Told {
    /// It is not there.
    Absent,
    /// It is there, for good or for so long.
    There(Option<Duration>),
}

/// So many are remembered; those before are late.
const AWAITED: usize = 64;

/// What the server rounds in telling how long the map is there, which may be up.
const ROUNDED: Duration = Duration::from_millis(1);

impl Pulses {
    /// Numbered from somewhere, so that a late pulse of another cache on the same channel is none of these.
    pub(crate) fn new() -> Pulses {
        let somewhere = RandomState::default().hash_one(());
        Pulses { last: somewhere >> 1, ..Pulses::default() }
    }

    /// Whether the map of which the pulses before have told is over by now, although there is one; remembers what this one tells.
    pub(crate) fn is_over(&mut self, pulse: &Pulse, told: &Told, now: Instant) -> bool {
        let ends = match told {
            Told::There(Some(left)) => Some(pulse.at + left.saturating_sub(ROUNDED)),
            Told::There(None) | Told::Absent => None,
        };
        std::mem::replace(&mut self.ends, ends).is_some_and(|ends| ends <= now)
    }

    /// The number of one that is sent now.
    pub(crate) fn send(&mut self, term: u64, at: Instant) -> u64 {
        self.last += 1;
        if self.sent.len() >= AWAITED {
            self.sent.pop_front();
            self.forgot = true;
        }
        self.sent.push_back(Sent { number: self.last, at, term });
        self.last
    }

    /// What one that came back is worth; `None` where it is not awaited.
    pub(crate) fn hear(&mut self, number: u64) -> Option<Pulse> {
        let place = self.sent.iter().position(|sent| sent.number == number)?;
        let Sent { at, term, .. } = self.sent.drain(..=place).next_back()?;
        Some(Pulse { at, term, others_missing: std::mem::take(&mut self.forgot) || place > 0 })
    }
}

/// One that came back.
#[derive(Debug)]
pub(crate) struct Pulse {
    at: Instant,
    term: u64,
    /// One that was sent before it has not come, as perhaps other messages have not. A connection loses none in between; what stands in front
    /// of a server may.
    pub(crate) others_missing: bool,
}

impl Freshness {
    /// Has what is kept given out until the bound after a pulse was sent, if it is of the present term.
    pub(crate) fn renew(&self, pulse: &Pulse, told: &Told, bound: Duration) {
        let lasts = match told {
            Told::There(Some(left)) => bound.min(*left),
            Told::There(None) | Told::Absent => bound,
        };
        if self.present_term() == Some(pulse.term) {
            self.heard(pulse.term, pulse.at + lasts);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pulse_counts_once_and_tells_that_one_before_it_is_missing() {
        let (mut pulses, at) = (Pulses::default(), Instant::MIN);
        let numbers = [(); 4].map(|()| pulses.send(1, at));
        assert!(!pulses.hear(numbers[0]).unwrap().others_missing);
        assert!(pulses.hear(numbers[0]).is_none(), "twice");
        assert!(pulses.hear(numbers[2]).unwrap().others_missing, "the second is missing");
        assert!(pulses.hear(numbers[1]).is_none(), "late");
        assert!(!pulses.hear(numbers[3]).unwrap().others_missing);
        let many: Vec<u64> = (0..=AWAITED).map(|_| pulses.send(1, at)).collect();
        assert!(pulses.hear(many[0]).is_none());
        assert!(pulses.hear(many[1]).unwrap().others_missing, "the first was forgotten");
    }

    #[test]
    fn what_was_to_end_has_ended_whatever_is_told_next() {
        let (mut pulses, at, second) = (Pulses::new(), Instant::MIN, Duration::from_secs(1));
        let mut hears = |told, now| {
            let number = pulses.send(1, at);
            let pulse = pulses.hear(number).unwrap();
            pulses.is_over(&pulse, &told, now)
        };
        assert!(!hears(Told::There(None), at));
        assert!(!hears(Told::There(Some(2 * second)), at + second));
        assert!(!hears(Told::There(Some(2 * second)), at + second), "not yet");
        assert!(hears(Told::There(None), at + 2 * second), "it is another");
        assert!(!hears(Told::There(None), at + 2 * second));
    }
}
