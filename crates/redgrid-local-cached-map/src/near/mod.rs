//! What a process keeps of one map, and the rules by which it is kept and given out. Knows no connection: what is heard, and when it was
//! asked, comes from `listen`.
//!
//! An entry is given out only if all of this holds: its map's channel has been in force without a break since before it was read (its
//! *term*); no message has named it since then; a pulse that was sent within the bound was heard behind all messages before it; and its
//! own times are not over. What is read while a message about it comes is given to who asked, and not kept.

mod flights;
mod freshness;
mod store;

use std::pin::pin;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use bytes::Bytes;
use redgrid_core::clock::{Clock, Instant};
use tokio::sync::Notify;

pub(crate) use self::flights::Flight;
use self::flights::Flights;
use self::freshness::Freshness;
pub(crate) use self::freshness::{Pulses, Told};
pub(crate) use self::store::{Entry, Found};
use self::store::{Store, is_over};
use crate::options::Options;
use crate::stats::Stats;

/// Redisson's hash of a key as its codec writes it; the first byte of its message is the highest.
pub(crate) type Hash = u128;

pub(crate) fn hash(field: &[u8]) -> Hash {
    let [high, low] = redgrid_codecs::hash128(field);
    (u128::from(high) << 64) | u128::from(low)
}

/// The cache of one map and client.
pub(crate) struct Near {
    pub(crate) options: Options,
    clock: Clock,
    store: Store,
    flights: Mutex<Flights>,
    fresh: Freshness,
    counts: Counts,
    /// Somebody has asked since the last pulse.
    wanted: AtomicBool,
    /// Nobody has a handle any more.
    left: AtomicBool,
    /// Tells the task that listens of either.
    pub(crate) wake: Notify,
    /// Tells who waits for it that a pulse was heard.
    beat: Notify,
}

#[derive(Default)]
struct Counts {
    hits: AtomicU64,
    misses: AtomicU64,
    bypassed: AtomicU64,
    invalidated: AtomicU64,
    cleared: AtomicU64,
}

impl Near {
    pub(crate) fn new(options: Options, clock: Clock) -> Near {
        let store = Store::new(options.max_entries, options.max_bytes);
        Near {
            options,
            clock,
            store,
            flights: Mutex::default(),
            fresh: Freshness::default(),
            counts: Counts::default(),
            wanted: AtomicBool::new(false),
            left: AtomicBool::new(false),
            wake: Notify::new(),
            beat: Notify::new(),
        }
    }

    /// What is kept of a key, if it may be given out.
    pub(crate) fn get(&self, field: &[u8]) -> Option<Found> {
        self.want();
        let now = self.clock.now();
        let Some(term) = self.fresh.term_at(now) else {
            self.counts.bypassed.fetch_add(1, Ordering::Relaxed);
            return None;
        };
        let hash = hash(field);
        let kept = self.store.get(hash).filter(|entry| entry.term == term && entry.field == field);
        match kept {
            Some(entry) if is_over(&entry, &self.options, now) => {
                self.store.remove_it(hash, &entry);
                self.counts.misses.fetch_add(1, Ordering::Relaxed);
                None
            }
            Some(entry) => {
                entry.used.store(now.as_nanos(), Ordering::Relaxed);
                self.counts.hits.fetch_add(1, Ordering::Relaxed);
                Some(Found(entry))
            }
            None => {
                self.counts.misses.fetch_add(1, Ordering::Relaxed);
                None
            }
        }
    }

    /// All that may be given out at the moment; counted as no use.
    pub(crate) fn all(&self) -> Vec<Found> {
        self.want();
        let now = self.clock.now();
        let Some(term) = self.fresh.term_at(now) else { return Vec::new() };
        let may = |entry: &Entry| entry.term == term && entry.value.is_some() && !is_over(entry, &self.options, now);
        self.store.all().into_iter().filter(|entry| may(entry)).map(Found).collect()
    }

    /// Before a read of the server leaves whose answer may be kept.
    pub(crate) fn begin(&self) -> Flight<'_> {
        let term = self.fresh.present_term();
        let at = self.flights().begin();
        Flight { near: self, term, at }
    }

    /// Keeps what a read has brought, unless something was heard of the key since it began; tells whether it is kept.
    fn keep(&self, flight: &Flight<'_>, field: &Bytes, value: Option<Bytes>) -> bool {
        let Some(term) = flight.term else { return false };
        if value.is_none() && !self.options.keep_absent {
            return false;
        }
        let (now, hash) = (self.clock.now(), hash(field));
        let mut flights = self.flights();
        self.fresh.present_term() == flight.term
            && flights.may_keep(hash, flight.at, now)
            && self.store.keep(hash, Entry::new(field.clone(), value, term, now))
    }

    /// Nothing of these keys is given out that was read before this.
    pub(crate) fn invalidate(&self, hashes: impl IntoIterator<Item = Hash>) {
        let mut flights = self.flights();
        for hash in hashes {
            flights.touch(hash);
            if self.store.remove(hash) {
                self.counts.invalidated.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// Nothing is given out that was read before this.
    pub(crate) fn clear(&self) {
        let mut flights = self.flights();
        flights.touch_all();
        self.store.clear();
        self.counts.cleared.fetch_add(1, Ordering::Relaxed);
    }

    /// The map is not there: nothing is given out that was read of it before, and what is known to be absent stays.
    pub(crate) fn vanish(&self) {
        // What a read that is still under way brings may be of the map that was.
        self.flights().touch_all();
        if self.store.all().iter().any(|entry| entry.value.is_some()) {
            self.clear();
        }
    }

    /// These are not kept until a time, or until they are enabled: somebody changes several in one step.
    pub(crate) fn disable(&self, hashes: &[Hash], all: bool, until: Instant) {
        self.flights().disable(hashes, all, until, self.clock.now());
        if all {
            self.clear();
        }
        self.invalidate(hashes.iter().copied());
    }

    /// The end of that.
    pub(crate) fn enable(&self, hashes: &[Hash], all: bool) {
        self.flights().enable(hashes, all);
        if all {
            self.clear();
        }
        self.invalidate(hashes.iter().copied());
    }

    /// How many were put out to make room.
    pub(crate) fn evictions(&self) -> u64 {
        self.store.evictions()
    }

    /// A pulse was heard.
    pub(crate) fn beaten(&self) {
        self.beat.notify_waiters();
    }

    /// Waits until what is read will be kept and given out, until a time; tells whether it will.
    pub(crate) async fn come_into_force(&self, until: Instant) -> bool {
        loop {
            let mut beat = pin!(self.beat.notified());
            beat.as_mut().enable();
            self.want();
            if self.is_in_force() {
                return true;
            }
            tokio::select! {
                () = beat => {}
                () = self.clock.sleep_until(until) => return self.is_in_force(),
            }
        }
    }

    pub(crate) fn fresh(&self) -> &Freshness {
        &self.fresh
    }

    /// Whether what is kept may be given out at the moment.
    pub(crate) fn is_in_force(&self) -> bool {
        self.fresh.term_at(self.clock.now()).is_some()
    }

    pub(crate) fn stats(&self) -> Stats {
        let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
        Stats {
            hits: of(&self.counts.hits),
            misses: of(&self.counts.misses),
            bypassed: of(&self.counts.bypassed),
            invalidations: of(&self.counts.invalidated),
            clears: of(&self.counts.cleared),
            evictions: self.store.evictions(),
            entries: self.store.len(),
            bytes: self.store.bytes(),
        }
    }

    fn want(&self) {
        if !self.wanted.load(Ordering::Relaxed) {
            self.wanted.store(true, Ordering::Release);
            self.wake.notify_one();
        }
    }

    /// Whether somebody has asked since this was last asked.
    pub(crate) fn take_wanted(&self) -> bool {
        self.wanted.swap(false, Ordering::AcqRel)
    }

    /// Has the task end.
    pub(crate) fn leave(&self) {
        self.left.store(true, Ordering::Release);
        self.wake.notify_one();
    }

    pub(crate) fn is_left(&self) -> bool {
        self.left.load(Ordering::Acquire)
    }

    fn flights(&self) -> std::sync::MutexGuard<'_, Flights> {
        self.flights.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl Flight<'_> {
    /// Keeps what it has brought of a key; tells whether it is kept.
    pub(crate) fn keep(&self, field: &Bytes, value: Option<Bytes>) -> bool {
        self.near.keep(self, field, value)
    }
}

impl Drop for Flight<'_> {
    fn drop(&mut self) {
        self.near.flights().end(self.at);
    }
}

/// A change that is under way: when it has ended, however it did, nothing of these keys is given out that was read before.
pub(crate) struct Change<'a> {
    pub(crate) near: &'a Near,
    pub(crate) hashes: Vec<Hash>,
}

impl Drop for Change<'_> {
    fn drop(&mut self) {
        self.near.invalidate(self.hashes.drain(..));
    }
}

/// The same of a change of all keys.
pub(crate) struct Clearing<'a>(pub(crate) &'a Near);

impl Drop for Clearing<'_> {
    fn drop(&mut self) {
        self.0.clear();
    }
}
