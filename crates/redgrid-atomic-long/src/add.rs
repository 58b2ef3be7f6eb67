//! Adding, with options.

use std::future::IntoFuture;
use std::pin::Pin;
use std::time::Duration;

use redgrid_core::{LIFETIMES, LIFETIMES_EXPECTED};

use crate::error::AtomicError;
use crate::long::{AtomicLong, read};
use crate::number::{Added, Terms};

/// Adds to a number when awaited; made by [`AtomicLong::add`]. Without options it leaves together with what other tasks add.
#[must_use = "nothing is asked of the server until this is awaited"]
#[derive(Clone, Debug)]
pub struct Add {
    long: AtomicLong,
    by: i64,
    terms: Option<Terms>,
    lifetime: Option<Duration>,
}

impl Add {
    pub(crate) fn new(long: AtomicLong, by: i64) -> Self {
        Add { long, by, terms: None, lifetime: None }
    }

    fn terms(&mut self) -> &mut Terms {
        self.terms.get_or_insert_default()
    }

    /// What it may be then at the least: below, nothing is done, and it ends [`AtomicError::OutOfBounds`].
    pub fn at_least(mut self, least: i64) -> Self {
        self.terms().least = Some(least.to_string());
        self
    }

    /// What it may be then at the most: above, nothing is done, and it ends [`AtomicError::OutOfBounds`].
    pub fn at_most(mut self, most: i64) -> Self {
        self.terms().most = Some(most.to_string());
        self
    }

    /// What is beyond a bound becomes the bound.
    pub fn saturating(mut self) -> Self {
        self.terms().clamps = true;
        self
    }

    /// Has the number deleted by itself after this time, 1 ms to 3650 days, from now on.
    pub fn expires_in(mut self, lifetime: Duration) -> Self {
        self.terms().lifetime = None;
        self.lifetime = Some(lifetime);
        self
    }

    /// Has it live for ever from now on.
    pub fn persist(mut self) -> Self {
        self.terms().lifetime = Some(0);
        self.lifetime = None;
        self
    }

    async fn carry_out(mut self) -> Result<i64, AtomicError> {
        let Some(mut terms) = self.terms.take() else { return self.long.added(self.by).await };
        let number = self.long.number()?;
        if let Some(lifetime) = self.lifetime {
            if !LIFETIMES.contains(&lifetime) {
                return Err(AtomicError::InvalidArgument {
                    name: number.name.clone(),
                    option: "lifetime",
                    expected: LIFETIMES_EXPECTED,
                    got: format!("{lifetime:?}"),
                });
            }
            terms.lifetime = i64::try_from(lifetime.as_millis()).ok();
        }
        let overflow = || AtomicError::Overflow { name: number.name.clone(), by: self.by.to_string() };
        match number.add(self.by.to_string(), &terms, number.until()).await {
            Ok(Added::To(now)) => read(number, now),
            Ok(Added::OutOfBounds(is)) => {
                Err(AtomicError::OutOfBounds { name: number.name.clone(), value: read(number, is)? })
            }
            Err(error) if error.is_overflow() => Err(overflow()),
            Err(error) => Err(number.failed(error)),
        }
    }
}

impl IntoFuture for Add {
    type Output = Result<i64, AtomicError>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.carry_out())
    }
}
