//! The number types of adders, and how they differ.

use std::fmt::Debug;

use super::stripes::{Doubles, Longs};

/// A sum of either type.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub enum Amount {
    /// A sum of a [`LongAdder`](crate::LongAdder).
    Long(i64),
    /// A sum of a [`DoubleAdder`](crate::DoubleAdder).
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

/// The number type of an adder: `i64` or `f64`. The trait is sealed.
pub trait AdderNumber: sealed::Sealed + Copy + Debug + Send + Sync + 'static {
    /// The counter in the memory of a process.
    #[doc(hidden)]
    type Local: Debug + Send + Sync;
    /// A sum of this process, which may be outside of the range of the result.
    #[doc(hidden)]
    type Wide: Copy + Debug + Default + PartialEq + Send + Sync;

    #[doc(hidden)]
    const OBJECT: &'static str;
    /// The commands of the server that add to a key, and to a field.
    #[doc(hidden)]
    const ADD_COMMANDS: [&'static str; 2];

    #[doc(hidden)]
    fn local() -> Self::Local;
    #[doc(hidden)]
    fn take(local: &Self::Local) -> Self::Wide;
    #[doc(hidden)]
    fn plus(one: Self::Wide, other: Self::Wide) -> Self::Wide;
    #[doc(hidden)]
    fn minus(one: Self::Wide, other: Self::Wide) -> Self::Wide;
    /// Returns the part of an amount that one command can add.
    #[doc(hidden)]
    fn step(wide: Self::Wide) -> Option<Self::Wide>;
    /// Returns the decimal text of an amount; `None` if it is out of the server's range.
    #[doc(hidden)]
    fn text(wide: Self::Wide) -> Option<String>;
    /// Returns the decimal text of any sum. Only redgrid parses it.
    #[doc(hidden)]
    fn wide_text(wide: Self::Wide) -> String;
    #[doc(hidden)]
    fn parse_wide(text: &str) -> Option<Self::Wide>;
    /// Parses a sum from the server; `None` if it is out of range.
    #[doc(hidden)]
    fn parse(text: &str) -> Option<Self>;
    #[doc(hidden)]
    fn amount(self) -> Amount;
}

mod sealed {
    #[expect(unnameable_types, reason = "seals `AdderNumber`")]
    pub trait Sealed {}

    impl Sealed for i64 {}
    impl Sealed for f64 {}
}

impl AdderNumber for i64 {
    type Local = Longs;
    type Wide = i128;

    const OBJECT: &'static str = "LongAdder";
    const ADD_COMMANDS: [&'static str; 2] = ["INCRBY", "HINCRBY"];

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

    fn wide_text(wide: i128) -> String {
        wide.to_string()
    }

    fn parse_wide(text: &str) -> Option<i128> {
        text.parse().ok()
    }

    fn parse(text: &str) -> Option<i64> {
        text.parse().ok()
    }

    fn amount(self) -> Amount {
        Amount::Long(self)
    }
}

impl AdderNumber for f64 {
    type Local = Doubles;
    type Wide = f64;

    const OBJECT: &'static str = "DoubleAdder";
    const ADD_COMMANDS: [&'static str; 2] = ["INCRBYFLOAT", "HINCRBYFLOAT"];

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

    fn wide_text(wide: f64) -> String {
        wide.to_string()
    }

    fn parse_wide(text: &str) -> Option<f64> {
        text.parse().ok()
    }

    fn parse(text: &str) -> Option<f64> {
        text.parse().ok().filter(|sum: &f64| sum.is_finite())
    }

    fn amount(self) -> Amount {
        Amount::Double(self)
    }
}
