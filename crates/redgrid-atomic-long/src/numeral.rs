//! What a shared number can be: how it is written, which scripts know it, and how several additions leave together.

use std::fmt;

use redgrid_core::IdempotentScript;

use self::sealed::Kind;

/// What a shared number can be: `i64` or `f64`.
pub trait Numeral: Kind {}

impl Numeral for i64 {}
impl Numeral for f64 {}

/// A number of either kind, in errors.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub enum Value {
    /// Of an [`AtomicLong`](crate::AtomicLong).
    Long(i64),
    /// Of an [`AtomicDouble`](crate::AtomicDouble).
    Double(f64),
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Long(value) => value.fmt(f),
            Value::Double(value) => value.fmt(f),
        }
    }
}

/// The scripts about numbers of one kind.
#[derive(Debug)]
pub struct Scripts {
    pub(crate) add: IdempotentScript<1>,
    pub(crate) add_each: IdempotentScript<1>,
    pub(crate) compare_and_set: IdempotentScript<1>,
    pub(crate) get_and_set: IdempotentScript<1>,
    pub(crate) replace_if: IdempotentScript<1>,
}

/// The scripts behind what tells how numbers of a kind are read, compared and added.
macro_rules! scripts {
    ($numbers:literal, $object:literal) => {
        Scripts {
            add: scripts!($numbers, $object, "add"),
            add_each: scripts!($numbers, $object, "add_each"),
            compare_and_set: scripts!($numbers, $object, "compare_and_set"),
            get_and_set: scripts!($numbers, $object, "get_and_set"),
            replace_if: scripts!($numbers, $object, "replace_if"),
        }
    };
    ($numbers:literal, $object:literal, $script:literal) => {
        IdempotentScript::new(
            concat!($object, "/", $script),
            concat!(
                include_str!(concat!("scripts/", $numbers, ".lua")),
                include_str!(concat!("scripts/", $script, ".lua"))
            ),
        )
    };
}

static OF_INTEGERS: Scripts = scripts!("integers", "atomic_long");
static OF_DOUBLES: Scripts = scripts!("doubles", "atomic_double");

/// How many whole numbers leave as one sum at most: it costs the server one addition, and each caller here a few nanoseconds.
const MOST_SUMMED: usize = 10_000;

/// How many are added one after the other by one script at most: less than a millisecond of the server's time.
pub(crate) const MOST_LISTED: usize = 500;

pub(crate) mod sealed {
    use super::{Scripts, Sums};

    /// What the crate knows of a kind of number.
    pub trait Kind: Copy + PartialOrd + std::fmt::Debug + Send + Sync + 'static {
        const ONE: Self;
        const MINUS_ONE: Self;
        const ZERO: Self;
        /// Of the object.
        const NAME: &'static str;
        /// In words.
        const EXPECTED: &'static str;

        fn scripts() -> &'static Scripts;

        /// Whether it is a number to the server.
        fn is_number(self) -> bool;

        /// As the server reads it; nothing where it is no number.
        fn written(self) -> Option<String>;

        fn read(text: &str) -> Option<Self>;

        fn value(self) -> super::Value;

        /// How many of the first leave together.
        fn fit<'a>(asks: impl Iterator<Item = &'a Self>) -> usize;

        /// How several leave as one summand; nothing where each is added by itself.
        const SUMS: Option<Sums<Self>>;
    }
}

/// A number before an addition, and after.
pub(crate) type Step<T> = (T, T);

/// How several summands leave as one.
#[derive(Debug, Clone, Copy)]
pub struct Sums<T> {
    /// Their sum: they fit.
    pub(crate) sum: fn(&[T]) -> T,
    /// What each made of the number, where it is so much after their sum: before, and after.
    pub(crate) share_out: fn(T, &[T]) -> Vec<Step<T>>,
}

impl Kind for i64 {
    const ONE: i64 = 1;
    const MINUS_ONE: i64 = -1;
    const ZERO: i64 = 0;
    const NAME: &'static str = "AtomicLong";
    const EXPECTED: &'static str = "a whole number from -2^63 to 2^63 - 1";

    fn scripts() -> &'static Scripts {
        &OF_INTEGERS
    }

    fn is_number(self) -> bool {
        true
    }

    fn written(self) -> Option<String> {
        Some(self.to_string())
    }

    fn read(text: &str) -> Option<i64> {
        // With a plus it is none to the server.
        text.parse().ok().filter(|_| !text.starts_with('+'))
    }

    fn value(self) -> Value {
        Value::Long(self)
    }

    /// As many as have a sum.
    fn fit<'a>(asks: impl Iterator<Item = &'a i64>) -> usize {
        let mut sum = 0_i64;
        let joins = |by: &&i64| {
            let added = sum.checked_add(**by);
            sum = added.unwrap_or(sum);
            added.is_some()
        };
        asks.take(MOST_SUMMED).take_while(joins).count()
    }

    const SUMS: Option<Sums<i64>> = Some(Sums { sum: |batch| batch.iter().sum(), share_out });
}

impl Kind for f64 {
    const ONE: f64 = 1.0;
    const MINUS_ONE: f64 = -1.0;
    const ZERO: f64 = 0.0;
    const NAME: &'static str = "AtomicDouble";
    const EXPECTED: &'static str = "a finite floating point number";

    fn scripts() -> &'static Scripts {
        &OF_DOUBLES
    }

    fn is_number(self) -> bool {
        self.is_finite()
    }

    /// In decimal without an exponent, the shortest that reads as this double.
    fn written(self) -> Option<String> {
        self.is_number().then(|| self.to_string())
    }

    fn read(text: &str) -> Option<f64> {
        text.parse().ok().filter(|value: &f64| value.is_finite())
    }

    fn value(self) -> Value {
        Value::Double(self)
    }

    fn fit<'a>(asks: impl Iterator<Item = &'a f64>) -> usize {
        asks.take(MOST_LISTED).count()
    }

    /// What a sum of doubles is depends on their order.
    const SUMS: Option<Sums<f64>> = None;
}

/// What each summand made of a number that is `now` after their sum: before, and after.
///
/// They are told in the order in which they came, if no number on the way is beyond all numbers. Otherwise from a number that is
/// not negative down, and from a negative one up, as long as there is such a summand: neither can lead beyond. Then those that
/// are left have one sign, and lead straight to the sum, which the server found to be a number. So there is an order for any batch
/// whose sum the server took, and as all of them are under way at the time, it is as good as the first.
fn share_out(now: i64, batch: &[i64]) -> Vec<Step<i64>> {
    // It was a number before, so this can only wrap back to it.
    let was = now.wrapping_sub(batch.iter().sum());
    let mut value = was;
    let in_turn = batch.iter().map(|by| {
        let before = value;
        value = value.checked_add(*by)?;
        Some((before, value))
    });
    if let Some(told) = in_turn.collect() {
        return told;
    }
    let (mut falls, mut rises): (Vec<usize>, Vec<usize>) = (0..batch.len()).rev().partition(|at| batch[*at] < 0);
    let (mut told, mut value) = (vec![(0, 0); batch.len()], was);
    loop {
        let next = if value >= 0 { falls.pop().or_else(|| rises.pop()) } else { rises.pop().or_else(|| falls.pop()) };
        let Some(at) = next else { return told };
        let before = value;
        value = value.wrapping_add(batch[at]);
        told[at] = (before, value);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    /// Numbers drawn by a simple generator, extremes among them.
    fn drawn(state: &mut u64) -> i64 {
        *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let bits = (*state >> 8) as i64;
        match *state >> 61 {
            0 => i64::MAX,
            1 => i64::MIN,
            2 => i64::MAX - (bits & 3),
            3 => i64::MIN + (bits & 3),
            4 => bits.wrapping_mul(4096),
            _ => (bits & 7) - 4,
        }
    }

    #[test]
    fn there_is_an_order_without_overflow_for_every_batch_whose_sum_is_a_number() {
        let (mut state, mut reordered, mut tried) = (1, 0, 0);
        for _ in 0..20_000 {
            let asks: Vec<i64> = (0..1 + drawn(&mut state).unsigned_abs() % 8).map(|_| drawn(&mut state)).collect();
            let batch = &asks[..i64::fit(asks.iter()).max(1)];
            let was = drawn(&mut state);
            let Some(now) = was.checked_add(batch.iter().sum()) else { continue };
            tried += 1;
            let told = share_out(now, batch);
            let mut begun = HashMap::<i64, i64>::new();
            for (by, (before, after)) in batch.iter().zip(&told) {
                assert_eq!(before.checked_add(*by), Some(*after), "{was} {batch:?}");
                *begun.entry(*before).or_default() += 1;
                *begun.entry(*after).or_default() -= 1;
            }
            reordered += usize::from(told[0].0 != was);
            // Each number on the way is left as often as it is reached, but for the ends.
            *begun.entry(was).or_default() -= 1;
            *begun.entry(now).or_default() += 1;
            assert!(begun.values().all(|n| *n == 0), "{was} {batch:?}: {told:?}");
        }
        assert!(tried > 5_000 && reordered > 100, "{tried} batches, {reordered} in another order");
    }

    #[test]
    fn without_danger_they_are_told_in_the_order_in_which_they_came() {
        assert_eq!(share_out(5, &[3, -4, 1]), [(5, 8), (8, 4), (4, 5)]);
        // Up first would be beyond.
        assert_eq!(share_out(i64::MAX - 1, &[1, -2]), [(i64::MAX - 2, i64::MAX - 1), (i64::MAX, i64::MAX - 2)]);
    }

    #[test]
    fn a_batch_ends_where_it_has_no_sum() {
        assert_eq!(i64::fit([i64::MAX, 1, -5].iter()), 1);
        assert_eq!(i64::fit([i64::MAX, -1, 1, -5].iter()), 4);
        assert_eq!(i64::fit(std::iter::repeat_n(&1, 20_000)), MOST_SUMMED);
        assert_eq!(f64::fit(std::iter::repeat_n(&1.0, 20_000)), MOST_LISTED);
    }

    #[test]
    fn doubles_are_written_without_an_exponent_and_read_as_java_writes_them() {
        for value in [0.1, 5.0, 1e300, -1e-300, f64::MAX, f64::MIN_POSITIVE, 5e-324] {
            let text = value.written().unwrap();
            assert!(text.chars().all(|char| char.is_ascii_digit() || ".-".contains(char)), "{text}");
            assert_eq!(f64::read(&text), Some(value));
        }
        assert_eq!(
            (f64::read("5.0"), f64::read("1.0E10"), f64::read("-4.9E-324")),
            (Some(5.0), Some(1e10), Some(-5e-324))
        );
        for bad in ["nan", "inf", "-inf", "infinity", "1e999", "", "many"] {
            assert_eq!(f64::read(bad), None, "{bad}");
        }
        assert_eq!((f64::NAN.written(), f64::INFINITY.written()), (None, None));
    }
}
