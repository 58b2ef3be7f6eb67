//! Instants, as the number of ticks until them.

/// A future instant, as the number of ticks until it. Zero means that it has passed, however long
/// ago.
///
/// Two states that differ only in absolute time are equal, because a state stores distances.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timer(u8);

impl Timer {
    /// An instant that has passed.
    pub const PAST: Self = Self(0);
    /// An instant that never comes.
    pub const NEVER: Self = Self(u8::MAX);

    /// Returns the instant `ticks` from now.
    pub const fn after(ticks: u8) -> Self {
        Self(ticks)
    }

    /// Whether the instant is in the future.
    pub const fn is_ahead(self) -> bool {
        self.0 > 0
    }

    /// Returns the instant `ticks` later than this one.
    pub const fn and(self, ticks: u8) -> Self {
        Self(self.0.saturating_add(ticks))
    }

    /// Lets one tick pass.
    pub fn tick(&mut self) {
        if *self != Self::NEVER {
            self.0 = self.0.saturating_sub(1);
        }
    }
}

/// Lengths of time of a configuration, in ticks.
#[derive(Clone, Copy, Debug)]
pub struct Timing {
    /// Lease of an acquire and of a renewal.
    pub lease: u8,
    /// The leases that an extend may request; if empty, clients do not extend.
    pub extends: &'static [u8],
    /// How long a copy of an acquire or an extend is valid, by the client's clock.
    pub window: u8,
    /// How much earlier than the lease the deadline is. It must be at least the time by which a
    /// clock can fall behind within one lease.
    pub margin: u8,
    /// Error of a client's estimate of the clock difference: the distance of each bound from the
    /// true value.
    pub offset_gap: u8,
}

impl Timing {
    /// Returns the deadline of a lease that is requested now: the lease without the margin.
    pub fn deadline_of(&self, lease: u8) -> Timer {
        Timer::after(lease.saturating_sub(self.margin))
    }

    /// Returns the first instant, by the client's clock, at which a copy sent now is refused.
    ///
    /// A copy is valid *until* its `not_after`, inclusive, so one tick is added.
    pub fn refused_from(&self) -> Timer {
        Timer::after(self.window + 1)
    }
}
