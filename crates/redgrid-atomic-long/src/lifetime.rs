//! Whether a number is there, and for how long.

use redgrid_core::object::Lifetime;
use redgrid_core::{FromReply, Request};

use crate::atomic::Atomic;
use crate::error::AtomicError;
use crate::numeral::Numeral;

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
        self.look("PTTL").await.map(Lifetime::of)
    }

    async fn look<R: FromReply>(&self, command: &'static str) -> Result<R, AtomicError> {
        let number = self.number()?;
        let request = Request::command(command).key(number.key.clone()).idempotent();
        number.client.run(request).await.map_err(|source| number.failed(source))
    }
}
