//! Adding, with options.

use std::future::IntoFuture;
use std::pin::Pin;
use std::time::Duration;

use redgrid_core::{LIFETIMES, LIFETIMES_EXPECTED};

use crate::atomic::Atomic;
use crate::error::AtomicError;
use crate::number::{Number, Terms};
use crate::numeral::Numeral;

/// Adds to a number when awaited; made by [`Atomic::add`]. Without options it leaves together with what other tasks add.
///
/// ```no_run
/// # async fn demo(tickets: &redgrid_atomic_long::AtomicLong) -> Result<(), redgrid_atomic_long::AtomicError> {
/// use std::time::Duration;
///
/// // At most 100 a minute, whoever asks: the first of them begins the minute.
/// let sold = tickets.add(1).at_most(100).expires_in_if_none(Duration::from_secs(60)).await?;
/// # Ok(()) }
/// ```
#[doc(alias = "INCREX")]
#[must_use = "nothing is asked of the server until this is awaited"]
#[derive(Clone, Debug)]
pub struct Add<T: Numeral> {
    atomic: Atomic<T>,
    by: T,
    bounds: Option<Bounds<T>>,
}

/// What [`Terms`] are made of, once they are known to be right.
#[derive(Clone, Debug)]
struct Bounds<T> {
    least: Option<T>,
    most: Option<T>,
    clamps: bool,
    lifetime: Lives,
}

#[derive(Clone, Debug)]
enum Lives {
    AsBefore,
    For(Duration),
    ForIfNone(Duration),
    Always,
}

impl<T: Numeral> Add<T> {
    pub(crate) fn new(atomic: Atomic<T>, by: T) -> Self {
        Add { atomic, by, bounds: None }
    }

    fn with(mut self, set: impl FnOnce(&mut Bounds<T>)) -> Self {
        let none = Bounds { least: None, most: None, clamps: false, lifetime: Lives::AsBefore };
        set(self.bounds.get_or_insert(none));
        self
    }

    /// What it may be then at the least: below, nothing is done, and it ends [`AtomicError::OutOfBounds`].
    #[doc(alias = "lowerBound")]
    pub fn at_least(self, least: T) -> Self {
        self.with(|bounds| bounds.least = Some(least))
    }

    /// What it may be then at the most: above, nothing is done, and it ends [`AtomicError::OutOfBounds`].
    #[doc(alias = "upperBound")]
    pub fn at_most(self, most: T) -> Self {
        self.with(|bounds| bounds.most = Some(most))
    }

    /// What is beyond a bound becomes the bound.
    #[doc(alias = "saturate")]
    pub fn saturating(self) -> Self {
        self.with(|bounds| bounds.clamps = true)
    }

    /// Has the number deleted by itself after this time, 1 ms to 3650 days, from now on.
    #[doc(alias = "timeToLive")]
    pub fn expires_in(self, lifetime: Duration) -> Self {
        self.with(|bounds| bounds.lifetime = Lives::For(lifetime))
    }

    /// The same where it has no lifetime yet, as a number that was absent: a count that begins anew each so often.
    pub fn expires_in_if_none(self, lifetime: Duration) -> Self {
        self.with(|bounds| bounds.lifetime = Lives::ForIfNone(lifetime))
    }

    /// Has it live for ever from now on.
    pub fn persist(self) -> Self {
        self.with(|bounds| bounds.lifetime = Lives::Always)
    }

    async fn carry_out(self) -> Result<T, AtomicError> {
        let Some(bounds) = self.bounds else { return self.atomic.added(self.by).await.map(|(_, now)| now) };
        let number = self.atomic.number()?;
        let by = number.written("summand", self.by)?;
        let terms = bounds.terms(number)?;
        let added = number.add(by, terms).await.map_err(|error| number.not_added(self.by, error))?;
        let now: T = number.read(&added.now)?;
        match added.within {
            true => Ok(now),
            false => Err(AtomicError::OutOfBounds { name: number.name.clone(), value: now.value() }),
        }
    }
}

impl<T: Numeral> Bounds<T> {
    fn terms(self, number: &Number) -> Result<Terms, AtomicError> {
        let written = |option, bound: Option<T>| bound.map(|bound| number.written(option, bound)).transpose();
        let (least, most) = (written("lower bound", self.least)?, written("upper bound", self.most)?);
        if let (Some(least), Some(most)) = (self.least, self.most)
            && least > most
        {
            let got = format!("{least:?} and {most:?}");
            return Err(number.invalid("bounds", "the lower one first, and the upper one not below it", got));
        }
        let if_none = matches!(self.lifetime, Lives::ForIfNone(_));
        let lifetime = match self.lifetime {
            Lives::AsBefore => None,
            Lives::Always => Some(0),
            Lives::For(lifetime) | Lives::ForIfNone(lifetime) if LIFETIMES.contains(&lifetime) => {
                i64::try_from(lifetime.as_millis()).ok()
            }
            Lives::For(lifetime) | Lives::ForIfNone(lifetime) => {
                return Err(number.invalid("lifetime", LIFETIMES_EXPECTED, format!("{lifetime:?}")));
            }
        };
        Ok(Terms { least, most, clamps: self.clamps, lifetime, if_none })
    }
}

impl<T: Numeral> IntoFuture for Add<T> {
    type Output = Result<T, AtomicError>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.carry_out())
    }
}
