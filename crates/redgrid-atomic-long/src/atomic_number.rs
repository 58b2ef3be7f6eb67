//! The kinds of shared numbers: their text form, their scripts, and how additions are batched.

use std::fmt;

use redgrid_core::IdempotentScript;

use self::sealed::Kind;

/// The type of a shared number: `i64` or `f64`.
pub trait AtomicNumber: Kind {}

impl AtomicNumber for i64 {}
impl AtomicNumber for f64 {}

/// A number of either type, in errors.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub enum Value {
    /// A number of an [`AtomicLong`](crate::AtomicLong).
    Long(i64),
    /// A number of an [`AtomicDouble`](crate::AtomicDouble).
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

/// The scripts for numbers of one type.
#[derive(Debug)]
#[expect(unnameable_types, reason = "only the sealed `AtomicNumber` uses it")]
pub struct Scripts {
    pub(crate) add: IdempotentScript<1>,
    pub(crate) add_each: IdempotentScript<1>,
    pub(crate) compare_and_set: IdempotentScript<1>,
    pub(crate) get_and_set: IdempotentScript<1>,
    pub(crate) replace_if: IdempotentScript<1>,
}

/// Builds the scripts of a type. Their prelude has the functions that parse, compare and add its
/// numbers.
macro_rules! scripts {
    ($prelude:literal, $object:literal) => {
        Scripts {
            add: scripts!($prelude, $object, "add"),
            add_each: scripts!($prelude, $object, "add_each"),
            compare_and_set: scripts!($prelude, $object, "compare_and_set"),
            get_and_set: scripts!($prelude, $object, "get_and_set"),
            replace_if: scripts!($prelude, $object, "replace_if"),
        }
    };
    ($prelude:literal, $object:literal, $script:literal) => {
        IdempotentScript::new(
            concat!($object, "/", $script),
            concat!(
                include_str!(concat!("scripts/", $prelude, ".lua")),
                include_str!(concat!("scripts/", $script, ".lua"))
            ),
        )
    };
}

static INTEGER_SCRIPTS: Scripts = scripts!("integers", "atomic_long");
static DOUBLE_SCRIPTS: Scripts = scripts!("doubles", "atomic_double");

/// The maximum number of whole numbers that are sent as one sum. It costs the server one addition,
/// and a few nanoseconds for each caller here.
const MAX_SUMMED: usize = 10_000;

/// The maximum number of summands that one script adds in order: less than a millisecond of server
/// time.
pub(crate) const MAX_LISTED: usize = 500;

#[expect(unnameable_types, reason = "seals `AtomicNumber`")]
pub(crate) mod sealed {
    use super::{BatchSum, Scripts};

    /// The properties of a type of numbers.
    pub trait Kind: Copy + PartialOrd + std::fmt::Debug + Send + Sync + 'static {
        const ONE: Self;
        const MINUS_ONE: Self;
        const ZERO: Self;
        /// The name of the object.
        const NAME: &'static str;
        /// The description of valid numbers, for errors.
        const EXPECTED: &'static str;

        fn scripts() -> &'static Scripts;

        /// Returns whether the server accepts the value as a number.
        fn is_valid(self) -> bool;

        /// Returns the text for the server; `None` if the value is not a number.
        fn to_text(self) -> Option<String>;

        fn parse(text: &str) -> Option<Self>;

        fn value(self) -> super::Value;

        /// Returns how many of the first summands form a batch.
        fn max_prefix<'a>(summands: impl Iterator<Item = &'a Self>) -> usize;

        /// How a batch is sent as one summand; `None` if each summand is added separately.
        const BATCH_SUM: Option<BatchSum<Self>>;
    }
}

/// The number before an addition, and after it.
pub(crate) type Step<T> = (T, T);

/// How a batch of summands is sent as one.
#[derive(Debug, Clone, Copy)]
#[expect(unnameable_types, reason = "only the sealed `AtomicNumber` uses it")]
pub struct BatchSum<T> {
    /// Returns the sum of a batch. It does not overflow, because `max_prefix` limits the batch.
    pub(crate) sum: fn(&[T]) -> T,
    /// Returns the step of each summand, given the number after their sum.
    pub(crate) split: fn(T, &[T]) -> Vec<Step<T>>,
}

impl Kind for i64 {
    const ONE: i64 = 1;
    const MINUS_ONE: i64 = -1;
    const ZERO: i64 = 0;
    const NAME: &'static str = "AtomicLong";
    const EXPECTED: &'static str = "a whole number from -2^63 to 2^63 - 1";

    fn scripts() -> &'static Scripts {
        &INTEGER_SCRIPTS
    }

    fn is_valid(self) -> bool {
        true
    }

    fn to_text(self) -> Option<String> {
        Some(self.to_string())
    }

    fn parse(text: &str) -> Option<i64> {
        // The server does not accept a plus sign.
        text.parse().ok().filter(|_| !text.starts_with('+'))
    }

    fn value(self) -> Value {
        Value::Long(self)
    }

    /// Returns how many of the first summands have a sum without overflow.
    fn max_prefix<'a>(summands: impl Iterator<Item = &'a i64>) -> usize {
        let mut sum = 0_i64;
        let fits = |by: &&i64| {
            let new_sum = sum.checked_add(**by);
            sum = new_sum.unwrap_or(sum);
            new_sum.is_some()
        };
        summands.take(MAX_SUMMED).take_while(fits).count()
    }

    const BATCH_SUM: Option<BatchSum<i64>> = Some(BatchSum { sum: |batch| batch.iter().sum(), split: split_sum });
}

impl Kind for f64 {
    const ONE: f64 = 1.0;
    const MINUS_ONE: f64 = -1.0;
    const ZERO: f64 = 0.0;
    const NAME: &'static str = "AtomicDouble";
    const EXPECTED: &'static str = "a finite floating point number";

    fn scripts() -> &'static Scripts {
        &DOUBLE_SCRIPTS
    }

    fn is_valid(self) -> bool {
        self.is_finite()
    }

    /// Returns the shortest decimal text without an exponent that parses to this double.
    fn to_text(self) -> Option<String> {
        self.is_valid().then(|| self.to_string())
    }

    fn parse(text: &str) -> Option<f64> {
        text.parse().ok().filter(|value: &f64| value.is_finite())
    }

    fn value(self) -> Value {
        Value::Double(self)
    }

    fn max_prefix<'a>(summands: impl Iterator<Item = &'a f64>) -> usize {
        summands.take(MAX_LISTED).count()
    }

    /// The sum of doubles depends on their order.
    const BATCH_SUM: Option<BatchSum<f64>> = None;
}

/// Returns the step of each summand of a batch, given the number `after` their sum.
///
/// The steps are in the order of the summands if no intermediate number overflows. Otherwise the
/// batch is reordered.
///
/// As long as possible, a negative summand is added to a non-negative number, and a non-negative
/// summand to a negative number: neither can overflow. The remaining summands have the same sign,
/// so all steps lie between the number reached and the sum. The server accepted the sum, so these
/// steps do not overflow either.
///
/// All calls are in flight at that time, so any order of them is valid.
fn split_sum(after: i64, batch: &[i64]) -> Vec<Step<i64>> {
    // The number before the batch was an i64, so wrapping arithmetic yields it.
    let initial = after.wrapping_sub(batch.iter().sum());
    let mut value = initial;
    let in_order = batch.iter().map(|by| {
        let before = value;
        value = value.checked_add(*by)?;
        Some((before, value))
    });
    if let Some(steps) = in_order.collect() {
        return steps;
    }
    let (mut negative, mut non_negative): (Vec<usize>, Vec<usize>) =
        (0..batch.len()).rev().partition(|index| batch[*index] < 0);
    let (mut steps, mut value) = (vec![(0, 0); batch.len()], initial);
    loop {
        let next = if value >= 0 {
            negative.pop().or_else(|| non_negative.pop())
        } else {
            non_negative.pop().or_else(|| negative.pop())
        };
        let Some(index) = next else { return steps };
        let before = value;
        value = value.wrapping_add(batch[index]);
        steps[index] = (before, value);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    /// Returns a number of a simple pseudo-random generator, sometimes an extreme one.
    fn random(state: &mut u64) -> i64 {
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
    fn every_batch_with_a_valid_sum_has_an_order_without_overflow() {
        let (mut state, mut reordered, mut tried) = (1, 0, 0);
        for _ in 0..20_000 {
            let summands: Vec<i64> =
                (0..1 + random(&mut state).unsigned_abs() % 8).map(|_| random(&mut state)).collect();
            let batch = &summands[..i64::max_prefix(summands.iter()).max(1)];
            let initial = random(&mut state);
            let Some(after_all) = initial.checked_add(batch.iter().sum()) else { continue };
            tried += 1;
            let steps = split_sum(after_all, batch);
            let mut balance = HashMap::<i64, i64>::new();
            for (by, (before, after)) in batch.iter().zip(&steps) {
                assert_eq!(before.checked_add(*by), Some(*after), "{initial} {batch:?}");
                *balance.entry(*before).or_default() += 1;
                *balance.entry(*after).or_default() -= 1;
            }
            reordered += usize::from(steps[0].0 != initial);
            // Each number is the start of as many steps as it is the end of, except the first and
            // the last number.
            *balance.entry(initial).or_default() -= 1;
            *balance.entry(after_all).or_default() += 1;
            assert!(balance.values().all(|n| *n == 0), "{initial} {batch:?}: {steps:?}");
        }
        assert!(tried > 5_000 && reordered > 100, "{tried} batches, {reordered} in another order");
    }

    #[test]
    fn steps_are_in_the_order_of_the_summands_unless_that_overflows() {
        assert_eq!(split_sum(5, &[3, -4, 1]), [(5, 8), (8, 4), (4, 5)]);
        // Adding the positive summand first would overflow.
        assert_eq!(split_sum(i64::MAX - 1, &[1, -2]), [(i64::MAX - 2, i64::MAX - 1), (i64::MAX, i64::MAX - 2)]);
    }

    #[test]
    fn a_batch_ends_before_its_sum_overflows() {
        assert_eq!(i64::max_prefix([i64::MAX, 1, -5].iter()), 1);
        assert_eq!(i64::max_prefix([i64::MAX, -1, 1, -5].iter()), 4);
        assert_eq!(i64::max_prefix(std::iter::repeat_n(&1, 20_000)), MAX_SUMMED);
        assert_eq!(f64::max_prefix(std::iter::repeat_n(&1.0, 20_000)), MAX_LISTED);
    }

    #[test]
    fn doubles_are_formatted_without_an_exponent_and_parsed_in_javas_format() {
        for value in [0.1, 5.0, 1e300, -1e-300, f64::MAX, f64::MIN_POSITIVE, 5e-324] {
            let text = value.to_text().unwrap();
            assert!(text.chars().all(|char| char.is_ascii_digit() || ".-".contains(char)), "{text}");
            assert_eq!(f64::parse(&text), Some(value));
        }
        assert_eq!(
            (f64::parse("5.0"), f64::parse("1.0E10"), f64::parse("-4.9E-324")),
            (Some(5.0), Some(1e10), Some(-5e-324))
        );
        for bad in ["nan", "inf", "-inf", "infinity", "1e999", "", "many"] {
            assert_eq!(f64::parse(bad), None, "{bad}");
        }
        assert_eq!((f64::NAN.to_text(), f64::INFINITY.to_text()), (None, None));
    }
}
