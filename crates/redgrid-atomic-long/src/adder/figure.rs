//! What whole and floating point numbers differ in.

use std::fmt::Debug;

use super::stripes::{Doubles, Longs};

/// A sum of either kind.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Amount {
    /// Of a [`LongAdder`](crate::LongAdder).
    Long(i64),
    /// Of a [`DoubleAdder`](crate::DoubleAdder).
    Double(f64),
}

impl std::fmt::Display for Amount {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Amount::Long(sum) => write!(f, "{sum}"),
            Amount::Double(sum) => write!(f, "{sum}"),
        }
    }
}

/// A kind of numbers: what is added here, on the way, and on the server.
pub trait Figure: Copy + Debug + Send + Sync + 'static {
    /// What it is added to.
    #[doc(hidden)]
    type Local: Debug + Send + Sync;
    /// What sums of this process are, which may be beyond what can be told.
    #[doc(hidden)]
    type Wide: Copy + Debug + Default + PartialEq + Send + Sync;

    #[doc(hidden)]
    const OBJECT: &'static str;
    /// The server's commands that add to a key, and to a field.
    #[doc(hidden)]
    const ADDS: [&'static str; 2];

    #[doc(hidden)]
    fn local() -> Self::Local;
    #[doc(hidden)]
    fn take(local: &Self::Local) -> Self::Wide;
    #[doc(hidden)]
    fn plus(one: Self::Wide, other: Self::Wide) -> Self::Wide;
    #[doc(hidden)]
    fn minus(one: Self::Wide, other: Self::Wide) -> Self::Wide;
    /// What can be added at once of what is to be.
    #[doc(hidden)]
    fn step(wide: Self::Wide) -> Option<Self::Wide>;
    /// In decimal, where the server can have it.
    #[doc(hidden)]
    fn text(wide: Self::Wide) -> Option<String>;
    /// The same of any sum, for our own eyes.
    #[doc(hidden)]
    fn memo(wide: Self::Wide) -> String;
    #[doc(hidden)]
    fn wide(text: &str) -> Option<Self::Wide>;
    /// What the server has: a sum, unless it is beyond those.
    #[doc(hidden)]
    fn read(text: &str) -> Option<Self>;
    #[doc(hidden)]
    fn amount(self) -> Amount;
}

impl Figure for i64 {
    type Local = Longs;
    type Wide = i128;

    const OBJECT: &'static str = "LongAdder";
    const ADDS: [&'static str; 2] = ["INCRBY", "HINCRBY"];

    fn local() -> Longs {
        Longs::new()
    }

    fn take(local: &Longs) -> i128 {
        local.take()
    }

    fn plus(one: i128, other: i128) -> i128 {
        one.saturating_add(other)
    }

    fn minus(one: i128, other: i128) -> i128 {
        one.saturating_sub(other)
    }

    fn step(wide: i128) -> Option<i128> {
        Some(wide.clamp(i64::MIN.into(), i64::MAX.into()))
    }

    fn text(wide: i128) -> Option<String> {
        i64::try_from(wide).ok().map(|sum| sum.to_string())
    }

    fn memo(wide: i128) -> String {
        wide.to_string()
    }

    fn wide(text: &str) -> Option<i128> {
        text.parse().ok()
    }

    fn read(text: &str) -> Option<i64> {
        text.parse().ok()
    }

    fn amount(self) -> Amount {
        Amount::Long(self)
    }
}

impl Figure for f64 {
    type Local = Doubles;
    type Wide = f64;

    const OBJECT: &'static str = "DoubleAdder";
    const ADDS: [&'static str; 2] = ["INCRBYFLOAT", "HINCRBYFLOAT"];

    fn local() -> Doubles {
        Doubles::new()
    }

    fn take(local: &Doubles) -> f64 {
        local.take()
    }

    fn plus(one: f64, other: f64) -> f64 {
        one + other
    }

    fn minus(one: f64, other: f64) -> f64 {
        one - other
    }

    fn step(wide: f64) -> Option<f64> {
        Some(wide).filter(|sum| sum.is_finite())
    }

    fn text(wide: f64) -> Option<String> {
        wide.is_finite().then(|| wide.to_string())
    }

    fn memo(wide: f64) -> String {
        wide.to_string()
    }

    fn wide(text: &str) -> Option<f64> {
        text.parse().ok()
    }

    fn read(text: &str) -> Option<f64> {
        text.parse().ok().filter(|sum: &f64| sum.is_finite())
    }

    fn amount(self) -> Amount {
        Amount::Double(self)
    }
}
