//! Growing pauses between attempts.

use std::time::Duration;

/// Pauses between attempts or between polls. Each pause is twice as long as the previous one, up to
/// a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
// Not `#[non_exhaustive]`: only implementations of object types use it.
pub struct Backoff {
    /// The first pause.
    pub first: Duration,
    /// The longest pause.
    pub longest: Duration,
}

impl Backoff {
    /// Returns the pause that follows `pauses` earlier pauses.
    pub fn after(self, pauses: u32) -> Duration {
        self.first.saturating_mul(1_u32.checked_shl(pauses).unwrap_or(u32::MAX)).min(self.longest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_the_longest() {
        let ms = Duration::from_millis;
        let backoff = Backoff { first: ms(1), longest: ms(128) };
        assert_eq!([0, 1, 2, 7, 8, 40].map(|pauses| backoff.after(pauses)), [1, 2, 4, 128, 128, 128].map(ms));
    }
}
