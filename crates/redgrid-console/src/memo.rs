//! Values that are made at most once a second.

use std::sync::{Arc, Mutex, PoisonError};

/// A value that follows from the reports of all processes. It is made at most once a second,
/// although reports come more often, and all pages share it.
#[derive(Debug)]
pub(crate) struct Memo<T>(Mutex<Option<(u64, Arc<T>)>>);

/// How long a value is used, in milliseconds.
const MEMO_MS: u64 = 1_000;

impl<T> Memo<T> {
    /// Returns the value, which `make` makes if there is none, or if it is a second old. Times are
    /// in milliseconds since 1970.
    pub(crate) fn get(&self, now: u64, make: impl FnOnce() -> T) -> Arc<T> {
        let mut memo = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match &*memo {
            Some((made_at, value)) if now.abs_diff(*made_at) < MEMO_MS => Arc::clone(value),
            _ => {
                let value = Arc::new(make());
                *memo = Some((now, Arc::clone(&value)));
                value
            }
        }
    }
}

impl<T> Default for Memo<T> {
    fn default() -> Self {
        Memo(Mutex::new(None))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_follows_from_reports_is_made_at_most_once_a_second() {
        let memo = Memo::default();
        let made: Vec<u64> = [5_000, 5_999, 6_000, 6_500, 5_500, 4_999].map(|now| *memo.get(now, || now)).to_vec();
        // The last time is from a clock that was set back.
        assert_eq!(made, [5_000, 5_000, 6_000, 6_000, 6_000, 4_999]);
    }
}
