//! Until when what is kept may be given out.
//!
//! A pulse is a message of our own on the connection that carries the others'. When it is heard, all that was published before it was
//! heard too, so that what is kept was right when the pulse was sent. It says nothing of what was lost between two terms of being in force.

use std::collections::VecDeque;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use redgrid_core::Term;
use redgrid_core::clock::Instant;

#[derive(Default)]
pub(crate) struct Freshness {
    /// Of the channel of invalidations, once it is listened to.
    term: OnceLock<Term>,
    /// The term in which the last pulse was heard; 0 before there was one. Written behind `until`.
    heard_in: AtomicU64,
    /// In nanoseconds.
    until: AtomicU64,
}

impl Freshness {
    pub(crate) fn listen(&self, term: Term) {
        let _ = self.term.set(term);
    }

    /// Since when it is listened without a break, if it is.
    pub(crate) fn present_term(&self) -> Option<u64> {
        self.term.get()?.now()
    }

    /// The same if a pulse was heard in it that is young enough.
    pub(super) fn term_at(&self, now: Instant) -> Option<u64> {
        let term = self.present_term()?;
        (self.heard_in.load(Ordering::Acquire) == term && now.as_nanos() < self.until.load(Ordering::Acquire))
            .then_some(term)
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

impl Pulses {
    /// The number of one that is sent now.
    pub(crate) fn send(&mut self, term: u64, at: Instant) -> u64 {
        self.last += 1;
        if self.sent.len() >= AWAITED {
            self.sent.pop_front();
        }
        self.sent.push_back(Sent { number: self.last, at, term });
        self.last
    }

    /// Whether one that came back is of the present term; then what is kept may be given out until the bound after it was sent.
    pub(crate) fn hear(&mut self, fresh: &Freshness, number: u64, told: &Told, bound: Duration) -> bool {
        let Some(place) = self.sent.iter().position(|sent| sent.number == number) else { return false };
        let Some(Sent { at, term, .. }) = self.sent.drain(..=place).next_back() else { return false };
        if fresh.present_term() != Some(term) {
            return false;
        }
        let lasts = match told {
            Told::There(Some(left)) => bound.min(*left),
            Told::There(None) | Told::Absent => bound,
        };
        fresh.heard(term, at + lasts);
        true
    }
}
