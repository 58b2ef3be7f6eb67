//! Whether a number is there, and for how long.

use std::time::Duration;

use redgrid_core::{FromReply, Request};

use crate::atomic::Atomic;
use crate::error::AtomicError;
use crate::numeral::Numeral;

/// How long a number lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Lifetime {
    /// It is absent.
    Absent,
    /// For ever.
    Unlimited,
    /// For so long from now on, in whole milliseconds.
    Left(Duration),
}

impl<T: Numeral> Atomic<T> {
    /// Whether it is there: an absent number is 0 as well.
    ///
    /// # Errors
    ///
    /// [`AtomicError`] says what is true then.
    ///
    /// # Cancel safety
    ///
    /// Dropping it changes nothing.
    #[doc(alias = "isExists")]
    pub async fn exists(&self) -> Result<bool, AtomicError> {
        self.look("EXISTS").await
    }

    /// How long it lives from now on.
    ///
    /// # Errors
    ///
    /// As [`Atomic::exists`].
    ///
    /// # Cancel safety
    ///
    /// As [`Atomic::exists`].
    #[doc(alias = "remainTimeToLive")]
    #[doc(alias = "PTTL")]
    pub async fn lifetime(&self) -> Result<Lifetime, AtomicError> {
        // As the server tells it.
        let left: i64 = self.look("PTTL").await?;
        Ok(match u64::try_from(left) {
            Ok(left) => Lifetime::Left(Duration::from_millis(left)),
            Err(_) if left == -1 => Lifetime::Unlimited,
            Err(_) => Lifetime::Absent,
        })
    }

    async fn look<R: FromReply>(&self, command: &'static str) -> Result<R, AtomicError> {
        let number = self.number()?;
        let request = Request::command(command).key(number.key.clone()).idempotent();
        number.client.run(request).await.map_err(|source| number.failed(source))
    }
}
