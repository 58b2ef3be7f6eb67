//! The size of blocks of time-ordered ids. It follows the usage, because a block is discarded after
//! a second.

use std::time::Duration;

use crate::block::Usage;

/// The size of the first block.
pub(crate) const FIRST_SIZE: u64 = 8;

/// The maximum size of a block, unless more calls wait: 16,384.
///
/// With two prefetched blocks, a rate of a million ids per second needs a request every 16 ms. The
/// numbers of a day suffice even if three blocks are discarded every second.
pub(crate) const MAX_SIZE: u64 = 16_384;

/// The intended duration of a block: 250 ms.
///
/// At a constant rate no ids are discarded. When the demand ends, the ids for half a second are
/// discarded.
const TARGET_DURATION: Duration = Duration::from_millis(250);

/// Returns the size of the next block: at least a quarter of the number of ids that were issued in
/// the last second.
///
/// If calls wait for the block and the last block lasted less than intended, the size at least
/// doubles. If no calls wait, it does not shrink.
pub(crate) fn next_size(size: u64, is_waited_for: bool, usage: Usage) -> u64 {
    let target = usage.per_second / 4;
    let size = match usage.lasted {
        _ if !is_waited_for => size.max(target),
        Some(lasted) if lasted < TARGET_DURATION => target.max(size * 2),
        Some(_) => target.max(size / 2),
        None => target,
    };
    size.clamp(1, MAX_SIZE)
}

#[cfg(test)]
mod tests {
    use redgrid_core::clock::Instant;

    use super::*;
    use crate::block::{Block, BlockQueue};

    /// Returns the number of fetched ids for each issued id, with calls at these times in
    /// milliseconds.
    fn fetched_per_issued(times: impl Iterator<Item = f64>) -> f64 {
        let (mut queue, mut size, mut fetched, mut issued) = (BlockQueue::<()>::default(), FIRST_SIZE, 0, 0);
        let mut fetch = |queue: &mut BlockQueue<()>, now: Instant, is_waited_for| {
            if fetched > 0 {
                size = next_size(size, is_waited_for, queue.usage(now));
            }
            fetched += size;
            let valid_until = now + Duration::from_secs(1);
            queue.push(Block { next: 0, remaining: size, size, valid_until, condition: () }, now);
        };
        for time in times {
            let now = Instant::from_nanos((time * 1e6) as u64);
            if queue.take(now, |()| true).is_none() {
                fetch(&mut queue, now, true);
                queue.pop(now).unwrap();
            } else if queue.last_size() >= 16 && queue.is_low() {
                fetch(&mut queue, now, false);
            }
            issued += 1;
        }
        fetched as f64 / f64::from(issued)
    }

    #[test]
    fn at_a_constant_rate_few_ids_are_discarded() {
        for per_second in [0.1, 1.0, 3.0, 10.0, 60.0, 200.0, 1000.0, 5000.0] {
            let half_a_minute =
                (0..(per_second * 30.0_f64).max(20.0) as u32).map(|n| f64::from(n) * 1000.0 / per_second);
            let ratio = fetched_per_issued(half_a_minute);
            assert!(ratio < 1.4, "{ratio} fetched per issued id at {per_second} a second");
        }
    }

    #[test]
    fn of_bursts_fewer_ids_are_discarded_than_issued() {
        for burst in [2, 10, 100, 1000, 10_000] {
            let bursts = (0..20).flat_map(|n| std::iter::repeat_n(f64::from(n) * 1100.0, burst));
            let ratio = fetched_per_issued(bursts);
            assert!(ratio < 1.75, "{ratio} fetched per issued id with bursts of {burst}");
        }
    }

    #[test]
    fn blocks_grow_while_calls_wait_and_exhaust_them_at_once() {
        let at_once = Usage { per_second: 0, lasted: Some(Duration::ZERO) };
        let mut size = FIRST_SIZE;
        for _ in 0..20 {
            size = next_size(size, true, at_once);
        }
        assert_eq!((size, next_size(FIRST_SIZE, false, at_once)), (MAX_SIZE, FIRST_SIZE));
        let slow = Usage { per_second: 40, lasted: Some(TARGET_DURATION) };
        let unused = Usage { per_second: 0, lasted: None };
        assert_eq!((next_size(100, true, slow), next_size(100, true, unused)), (50, 1));
        assert_eq!(next_size(1, false, Usage { per_second: 400, lasted: None }), 100);
    }
}
