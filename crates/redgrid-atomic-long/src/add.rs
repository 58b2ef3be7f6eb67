//! Additions with options.

use std::time::Duration;

use redgrid_core::into_future;
use redgrid_core::{LIFETIMES, LIFETIMES_EXPECTED};

use crate::atomic::Atomic;
use crate::atomic_number::AtomicNumber;
use crate::error::AtomicError;
use crate::number::{AddOptions, Number};

/// A future that adds to a number, created by [`Atomic::add`].
///
/// Without options it is batched with the additions of other tasks.
///
/// ```no_run
/// # async fn demo(tickets: &redgrid_atomic_long::AtomicLong) -> Result<(), redgrid_atomic_long::AtomicError> {
/// use std::time::Duration;
///
/// // At most 100 a minute over all processes: the first sale begins the minute.
/// let sold = tickets.add(1).at_most(100).expires_in_if_none(Duration::from_secs(60)).await?;
/// # Ok(()) }
/// ```
#[doc(alias = "INCREX")]
#[must_use = "does nothing until awaited"]
#[derive(Clone, Debug)]
pub struct Add<T: AtomicNumber> {
    atomic: Atomic<T>,
    by: T,
    options: Option<Options<T>>,
}

/// The options before they are checked; see [`AddOptions`].
#[derive(Clone, Debug)]
struct Options<T> {
    min: Option<T>,
    max: Option<T>,
    saturate: bool,
    lifetime: SetLifetime,
}

#[derive(Clone, Debug)]
enum SetLifetime {
    Keep,
    Set(Duration),
    SetIfNone(Duration),
    Remove,
}

impl<T: AtomicNumber> Add<T> {
    pub(crate) fn new(atomic: Atomic<T>, by: T) -> Self {
        Add { atomic, by, options: None }
    }

    fn with(mut self, set: impl FnOnce(&mut Options<T>)) -> Self {
        let default = Options { min: None, max: None, saturate: false, lifetime: SetLifetime::Keep };
        set(self.options.get_or_insert(default));
        self
    }

    /// Sets a lower bound of the sum. Below it, nothing is changed, and the call returns
    /// [`AtomicError::OutOfBounds`].
    #[doc(alias = "lowerBound")]
    pub fn at_least(self, min: T) -> Self {
        self.with(|options| options.min = Some(min))
    }

    /// Sets an upper bound of the sum. Above it, nothing is changed, and the call returns
    /// [`AtomicError::OutOfBounds`].
    #[doc(alias = "upperBound")]
    pub fn at_most(self, max: T) -> Self {
        self.with(|options| options.max = Some(max))
    }

    /// Sets the number to the bound if the sum is beyond it.
    #[doc(alias = "saturate")]
    pub fn saturating(self) -> Self {
        self.with(|options| options.saturate = true)
    }

    /// Sets the lifetime of the number, 1 ms to 3650 days from now. The server deletes it then.
    #[doc(alias = "timeToLive")]
    pub fn expires_in(self, lifetime: Duration) -> Self {
        self.with(|options| options.lifetime = SetLifetime::Set(lifetime))
    }

    /// Sets the lifetime like [`expires_in`](Add::expires_in), if the number has none. An absent
    /// number has none.
    ///
    /// Use it for a count that restarts after each period.
    pub fn expires_in_if_none(self, lifetime: Duration) -> Self {
        self.with(|options| options.lifetime = SetLifetime::SetIfNone(lifetime))
    }

    /// Removes the lifetime of the number.
    pub fn persist(self) -> Self {
        self.with(|options| options.lifetime = SetLifetime::Remove)
    }

    async fn execute(self) -> Result<T, AtomicError> {
        let Some(options) = self.options else { return self.atomic.add_batched(self.by).await.map(|(_, after)| after) };
        let number = self.atomic.number()?;
        let by = number.to_text("summand", self.by)?;
        let checked = options.checked(number)?;
        let outcome = number.add(by, checked).await.map_err(|error| number.add_error(self.by, error))?;
        let value: T = number.parse(&outcome.value)?;
        if outcome.in_bounds {
            Ok(value)
        } else {
            Err(AtomicError::OutOfBounds { name: number.name.clone(), value: value.value() })
        }
    }
}

impl<T: AtomicNumber> Options<T> {
    fn checked(self, number: &Number) -> Result<AddOptions, AtomicError> {
        let to_text = |option, bound: Option<T>| bound.map(|bound| number.to_text(option, bound)).transpose();
        let (min, max) = (to_text("lower bound", self.min)?, to_text("upper bound", self.max)?);
        if let (Some(min), Some(max)) = (self.min, self.max)
            && min > max
        {
            let got = format!("{min:?} and {max:?}");
            return Err(number.invalid("bounds", "the lower one first, and the upper one not below it", got));
        }
        let only_if_none = matches!(self.lifetime, SetLifetime::SetIfNone(_));
        let lifetime = match self.lifetime {
            SetLifetime::Keep => None,
            SetLifetime::Remove => Some(0),
            SetLifetime::Set(lifetime) | SetLifetime::SetIfNone(lifetime) if LIFETIMES.contains(&lifetime) => {
                i64::try_from(lifetime.as_millis()).ok()
            }
            SetLifetime::Set(lifetime) | SetLifetime::SetIfNone(lifetime) => {
                return Err(number.invalid("lifetime", LIFETIMES_EXPECTED, format!("{lifetime:?}")));
            }
        };
        Ok(AddOptions { min, max, saturate: self.saturate, lifetime, only_if_none })
    }
}

into_future!([T: AtomicNumber] Add<T> => Result<T, AtomicError>, |this| this.execute());
