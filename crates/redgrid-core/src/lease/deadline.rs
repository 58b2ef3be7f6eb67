//! A deadline that stays passed once it was seen passed.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::clock::Instant;

/// Bit that is set once an observer has seen the deadline passed.
const PASSED: u64 = 1 << 63;

/// Largest instant that fits beside `PASSED`. It stands for [`Instant::MAX`].
const NEVER: u64 = PASSED - 1;

/// Instant until which something is valid.
///
/// One task extends it while others read it. An extension that is checked just before the deadline
/// and stored just after it would turn "passed" into "not passed" for an observer in between. An
/// observer that sees the deadline passed therefore marks it, in the same atomic value. No
/// extension moves a marked deadline.
pub(crate) struct Deadline(AtomicU64);

impl Deadline {
    pub(crate) fn new(at: Instant) -> Self {
        Deadline(AtomicU64::new(encoded(at)))
    }

    /// Returns the instant, whether or not it was seen passed.
    pub(crate) fn at(&self) -> Instant {
        decoded(self.0.load(Ordering::Acquire))
    }

    /// Returns whether the deadline has passed at `now`, or was seen passed before.
    pub(crate) fn has_passed(&self, now: Instant) -> bool {
        let mark = |word| (word & PASSED == 0 && now >= decoded(word)).then_some(word | PASSED);
        match self.0.load(Ordering::Acquire) {
            // Most deadlines lie ahead: a load is enough.
            word if word & PASSED == 0 && now < decoded(word) => false,
            _ => match self.0.fetch_update(Ordering::AcqRel, Ordering::Acquire, mark) {
                Ok(_) => true,
                Err(word) => word & PASSED != 0,
            },
        }
    }

    /// Moves the deadline to `to`, forwards or backwards. Returns false if it has passed at `now`.
    pub(crate) fn set(&self, to: Instant, now: Instant) -> bool {
        self.update(now, |_| to)
    }

    /// Moves the deadline forwards to `to`. Returns false if it has passed at `now`.
    pub(crate) fn extend(&self, to: Instant, now: Instant) -> bool {
        self.update(now, |at| at.max(to))
    }

    /// Moves the deadline backwards to `to`.
    pub(crate) fn lower(&self, to: Instant) {
        let earlier = |word| Some(encoded(decoded(word).min(to)) | (word & PASSED));
        let _ = self.0.fetch_update(Ordering::AcqRel, Ordering::Acquire, earlier);
    }

    fn update(&self, now: Instant, to: impl Fn(Instant) -> Instant) -> bool {
        if self.has_passed(now) {
            return false;
        }
        let moved = |word| (word & PASSED == 0).then(|| encoded(to(decoded(word))));
        self.0.fetch_update(Ordering::AcqRel, Ordering::Acquire, moved).is_ok()
    }
}

fn encoded(at: Instant) -> u64 {
    at.as_nanos().min(NEVER)
}

fn decoded(word: u64) -> Instant {
    match word & NEVER {
        NEVER => Instant::MAX,
        nanos => Instant::from_nanos(nanos),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn at(millis: u64) -> Instant {
        Instant::MIN + Duration::from_millis(millis)
    }

    #[test]
    fn it_moves_until_it_has_passed() {
        let deadline = Deadline::new(at(10));
        assert!(!deadline.has_passed(at(9)));
        assert!(deadline.extend(at(20), at(9)) && deadline.at() == at(20));
        assert!(deadline.extend(at(15), at(9)) && deadline.at() == at(20));
        assert!(deadline.set(at(12), at(9)) && deadline.at() == at(12));
        deadline.lower(at(11));
        deadline.lower(at(30));
        assert_eq!(deadline.at(), at(11));
        assert!(!deadline.extend(at(30), at(11)) && deadline.at() == at(11));
        assert!(!Deadline::new(Instant::MAX).has_passed(at(1)));
        assert_eq!(Deadline::new(Instant::MAX).at(), Instant::MAX);
    }

    /// The extending task read its clock before the deadline, and was slower than an observer.
    #[test]
    fn an_extension_that_was_checked_in_time_comes_too_late_once_it_was_seen_passed() {
        for now in [at(9), at(10), at(11)] {
            let deadline = Deadline::new(at(10));
            assert!(deadline.has_passed(at(10)));
            assert!(!deadline.extend(at(20), now) && !deadline.set(at(20), now), "{now:?}");
            assert!(deadline.has_passed(at(9)) && deadline.at() == at(10));
            deadline.lower(at(5));
            assert!(deadline.has_passed(at(1)) && deadline.at() == at(5));
        }
    }
}
