//! Bound of the staleness of cached entries.
//!
//! A heartbeat is a message of this client to itself, on the connection that carries the messages
//! of the other clients. When it is received, all messages that were published before it have been
//! received too. Cached entries were therefore current when the heartbeat was sent. A heartbeat
//! proves nothing about messages that were lost between two generations of the subscription.

use std::collections::VecDeque;
use std::hash::BuildHasher;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use foldhash::quality::RandomState;
use redgrid_core::Generation;
use redgrid_core::clock::Instant;

#[derive(Default)]
pub(crate) struct Staleness {
    /// The generation of the invalidation channel, once it has been subscribed to.
    subscription: OnceLock<Generation>,
    /// The generation in which the last heartbeat was received; 0 before the first one. Written
    /// after `valid_until`.
    heartbeat_generation: AtomicU64,
    /// In nanoseconds.
    valid_until: AtomicU64,
}

impl Staleness {
    pub(crate) fn set_subscription(&self, subscription: Generation) {
        let _ = self.subscription.set(subscription);
    }

    /// Returns the current generation of the subscription; `None` while it is not active.
    pub(crate) fn current_generation(&self) -> Option<u64> {
        self.subscription.get()?.current()
    }

    /// Returns the current generation if a recent heartbeat was received in it.
    pub(super) fn valid_generation(&self, now: Instant) -> Option<u64> {
        let generation = self.current_generation()?;
        (self.heartbeat_generation.load(Ordering::Acquire) == generation
            && now.as_nanos() < self.valid_until.load(Ordering::Acquire))
        .then_some(generation)
    }

    /// Ends the validity of all entries: the listener task has ended.
    pub(crate) fn end(&self) {
        self.heartbeat_generation.store(0, Ordering::Release);
    }

    /// Records a heartbeat of this generation.
    fn extend(&self, generation: u64, until: Instant) {
        self.valid_until.store(until.as_nanos(), Ordering::Release);
        self.heartbeat_generation.store(generation, Ordering::Release);
    }
}

/// The outstanding heartbeats.
#[derive(Default)]
pub(crate) struct Heartbeats {
    last_number: u64,
    outstanding: VecDeque<SentHeartbeat>,
    /// Whether a heartbeat that was not received has been dropped from the list.
    dropped_outstanding: bool,
    /// The latest expiry of the map, according to the last heartbeat that was received. No entry is
    /// valid after it, whatever the next heartbeat reports.
    map_expires_at: Option<Instant>,
}

struct SentHeartbeat {
    number: u64,
    sent_at: Instant,
    generation: u64,
}

/// The state of the map that a heartbeat reports.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum MapState {
    Absent,
    /// The map exists, with its remaining lifetime if it has one.
    Exists(Option<Duration>),
}

/// Number of outstanding heartbeats that are remembered; older ones are ignored when they arrive.
const MAX_OUTSTANDING: usize = 64;

/// The maximum by which the server rounds the map's remaining lifetime, up or down.
const TTL_ROUNDING: Duration = Duration::from_millis(1);

impl Heartbeats {
    /// Creates the list with a random first number. A late heartbeat of an earlier cache on the
    /// same channel therefore matches none of these.
    pub(crate) fn new() -> Heartbeats {
        let random = RandomState::default().hash_one(());
        Heartbeats { last_number: random >> 1, ..Heartbeats::default() }
    }

    /// Returns whether the map of the previous heartbeat has expired by now, even if it exists
    /// again.
    ///
    /// Records the expiry that this heartbeat reports.
    pub(crate) fn has_map_expired(&mut self, heartbeat: &Heartbeat, map: &MapState, now: Instant) -> bool {
        let expires_at = match map {
            MapState::Exists(Some(left)) => Some(heartbeat.sent_at + left.saturating_sub(TTL_ROUNDING)),
            MapState::Exists(None) | MapState::Absent => None,
        };
        std::mem::replace(&mut self.map_expires_at, expires_at).is_some_and(|expired| expired <= now)
    }

    /// Records a heartbeat that is sent now, and returns its number.
    pub(crate) fn send(&mut self, generation: u64, sent_at: Instant) -> u64 {
        self.last_number += 1;
        if self.outstanding.len() >= MAX_OUTSTANDING {
            self.outstanding.pop_front();
            self.dropped_outstanding = true;
        }
        self.outstanding.push_back(SentHeartbeat { number: self.last_number, sent_at, generation });
        self.last_number
    }

    /// Returns a heartbeat that was received; `None` if it is not outstanding.
    pub(crate) fn receive(&mut self, number: u64) -> Option<Heartbeat> {
        let index = self.outstanding.iter().position(|sent| sent.number == number)?;
        let SentHeartbeat { sent_at, generation, .. } = self.outstanding.drain(..=index).next_back()?;
        let previous_missing = std::mem::take(&mut self.dropped_outstanding) || index > 0;
        Some(Heartbeat { sent_at, generation, previous_missing })
    }
}

/// A heartbeat that was received.
#[derive(Debug)]
pub(crate) struct Heartbeat {
    sent_at: Instant,
    generation: u64,
    /// Whether an earlier heartbeat has not been received: then other messages may be missing, too.
    /// A connection does not lose single messages, but a proxy in front of the server may.
    pub(crate) previous_missing: bool,
}

impl Staleness {
    /// Makes cached entries valid until `bound` after the heartbeat was sent, if the heartbeat is
    /// of the current generation.
    pub(crate) fn renew(&self, heartbeat: &Heartbeat, map: &MapState, bound: Duration) {
        let validity = match map {
            MapState::Exists(Some(left)) => bound.min(*left),
            MapState::Exists(None) | MapState::Absent => bound,
        };
        if self.current_generation() == Some(heartbeat.generation) {
            self.extend(heartbeat.generation, heartbeat.sent_at + validity);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_heartbeat_counts_once_and_reports_a_missing_previous_one() {
        let (mut heartbeats, at) = (Heartbeats::default(), Instant::MIN);
        let numbers = [(); 4].map(|()| heartbeats.send(1, at));
        assert!(!heartbeats.receive(numbers[0]).unwrap().previous_missing);
        assert!(heartbeats.receive(numbers[0]).is_none(), "twice");
        assert!(heartbeats.receive(numbers[2]).unwrap().previous_missing, "the second is missing");
        assert!(heartbeats.receive(numbers[1]).is_none(), "late");
        assert!(!heartbeats.receive(numbers[3]).unwrap().previous_missing);
        let many: Vec<u64> = (0..=MAX_OUTSTANDING).map(|_| heartbeats.send(1, at)).collect();
        assert!(heartbeats.receive(many[0]).is_none());
        assert!(heartbeats.receive(many[1]).unwrap().previous_missing, "the first was dropped");
    }

    #[test]
    fn a_map_expires_whatever_the_next_heartbeat_reports() {
        let (mut heartbeats, at, second) = (Heartbeats::new(), Instant::MIN, Duration::from_secs(1));
        let mut has_expired = |map, now| {
            let number = heartbeats.send(1, at);
            let heartbeat = heartbeats.receive(number).unwrap();
            heartbeats.has_map_expired(&heartbeat, &map, now)
        };
        assert!(!has_expired(MapState::Exists(None), at));
        assert!(!has_expired(MapState::Exists(Some(2 * second)), at + second));
        assert!(!has_expired(MapState::Exists(Some(2 * second)), at + second), "not yet");
        assert!(has_expired(MapState::Exists(None), at + 2 * second), "it is another map");
        assert!(!has_expired(MapState::Exists(None), at + 2 * second));
    }
}
