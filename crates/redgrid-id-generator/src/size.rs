//! How many ids a block in the order of time is to have: as many as are used, as it is thrown away after a second.

use std::time::Duration;

use crate::block::Use;

/// How many ids the first block has.
pub(crate) const FIRST: u64 = 8;

/// How many ids a block has at most where so many do not wait: 16,384. With two of them ahead, a million ids a second are a request
/// every 16 ms, and a day's numbers are enough for three blocks a second thrown away.
pub(crate) const LARGEST: u64 = 16_384;

/// How long a block is to last, 250 ms: of what comes evenly nothing is thrown away, and where it ends, what half a second uses.
const LASTS: Duration = Duration::from_millis(250);

/// The size of the next block: a quarter of what the last second used. It grows faster only where somebody has to wait for it,
/// because the last one was used up sooner: then each has twice as many.
pub(crate) fn next_size(size: u64, is_waited_for: bool, used: Use) -> u64 {
    let due = used.per_second / 4;
    let size = match used.lasted {
        _ if !is_waited_for => size.max(due),
        Some(lasted) if lasted < LASTS => due.max(size * 2),
        Some(_) => due.max(size / 2),
        None => due,
    };
    size.clamp(1, LARGEST)
}

#[cfg(test)]
mod tests {
    use redgrid_core::clock::Instant;

    use super::*;
    use crate::block::{Block, Store};

    /// How many ids are taken of the server for each that is given, by who wants ids at these times, in milliseconds.
    fn taken_for_each(times: impl Iterator<Item = f64>) -> f64 {
        let (mut store, mut size, mut taken, mut given) = (Store::<()>::default(), FIRST, 0, 0);
        let mut refill = |store: &mut Store<()>, now: Instant, is_waited_for| {
            if taken > 0 {
                size = next_size(size, is_waited_for, store.used(now));
            }
            taken += size;
            store.put(Block { next: 0, left: size, size, until: now + Duration::from_secs(1), while_: () }, now);
        };
        for time in times {
            let now = Instant::from_nanos((time * 1e6) as u64);
            if store.take(now, |()| true).is_none() {
                refill(&mut store, now, true);
                store.pop(now).unwrap();
            } else if store.last_size() >= 16 && store.is_low() {
                refill(&mut store, now, false);
            }
            given += 1;
        }
        taken as f64 / f64::from(given)
    }

    #[test]
    fn of_what_is_used_evenly_little_is_thrown_away() {
        for per_second in [0.1, 1.0, 3.0, 10.0, 60.0, 200.0, 1000.0, 5000.0] {
            let of_half_a_minute =
                (0..(per_second * 30.0_f64).max(20.0) as u32).map(|n| f64::from(n) * 1000.0 / per_second);
            let taken = taken_for_each(of_half_a_minute);
            assert!(taken < 1.4, "{taken} for each at {per_second} a second");
        }
    }

    #[test]
    fn of_bursts_no_more_is_thrown_away_than_is_given() {
        for many in [2, 10, 100, 1000, 10_000] {
            let bursts = (0..20).flat_map(|n| std::iter::repeat_n(f64::from(n) * 1100.0, many));
            let taken = taken_for_each(bursts);
            assert!(taken < 1.75, "{taken} for each of {many} at a time");
        }
    }

    #[test]
    fn blocks_grow_as_long_as_they_are_waited_for_and_used_up_at_once() {
        let at_once = Use { per_second: 0, lasted: Some(Duration::ZERO) };
        let mut size = FIRST;
        for _ in 0..20 {
            size = next_size(size, true, at_once);
        }
        assert_eq!((size, next_size(FIRST, false, at_once)), (LARGEST, FIRST));
        let (slow, unused) = (Use { per_second: 40, lasted: Some(LASTS) }, Use { per_second: 0, lasted: None });
        assert_eq!((next_size(100, true, slow), next_size(100, true, unused)), (50, 1));
        assert_eq!(next_size(1, false, Use { per_second: 400, lasted: None }), 100);
    }
}
