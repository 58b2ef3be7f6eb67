//! Instants as the number of ticks until them.

/// An instant still to come, as the ticks until it; zero once it has come, and no way to tell how
/// long ago.
///
/// Storing the distance instead of the instant makes states equal that differ only by when they
/// happen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timer(u8);

impl Timer {
    /// An instant that has come.
    pub const PAST: Self = Self(0);
    /// An instant that never comes.
    pub const NEVER: Self = Self(u8::MAX);

    /// The instant `ticks` from now.
    pub const fn after(ticks: u8) -> Self {
        Self(ticks)
    }

    /// Whether the instant is still to come.
    pub const fn is_ahead(self) -> bool {
        self.0 > 0
    }

    /// The instant `ticks` later than this one.
    pub const fn and(self, ticks: u8) -> Self {
        Self(self.0.saturating_add(ticks))
    }

    /// The same instant one tick later.
    pub fn tick(&mut self) {
        if *self != Self::NEVER {
            self.0 = self.0.saturating_sub(1);
        }
    }
}

/// The lengths of a configuration, in ticks.
#[derive(Clone, Copy, Debug)]
pub struct Timing {
    /// Lease of an acquire and of a renewal.
    pub lease: u8,
    /// Leases an `extend` may ask for; empty: nobody extends.
    pub extends: &'static [u8],
    /// How long a copy of an acquire or an extend is good for, by the clock of the client.
    pub window: u8,
    /// What a deadline keeps from the lease: at least what a clock can fall behind within one
    /// lease.
    pub margin: u8,
    /// How far the bounds a client knows of the clock difference lie from the truth.
    pub offset_gap: u8,
}

impl Timing {
    /// What a client counts on when it asks for `lease`: the lease without the margin.
    pub fn counted_on(&self, lease: u8) -> Timer {
        Timer::after(lease.saturating_sub(self.margin))
    }

    /// The first instant, by the client's clock, at which a copy sent now is refused.
    ///
    /// A copy is good *until* its `not_after`, that instant included: hence the extra tick.
    pub fn refused_from(&self) -> Timer {
        Timer::after(self.window + 1)
    }
}
