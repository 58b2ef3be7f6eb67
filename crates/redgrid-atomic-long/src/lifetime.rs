//! Existence and lifetime of a number.

use redgrid_core::object::Lifetime;
use redgrid_core::{FromReply, Request};

use crate::atomic::Atomic;
use crate::atomic_number::AtomicNumber;
use crate::error::AtomicError;

impl<T: AtomicNumber> Atomic<T> {
    /// Returns whether the number exists. An absent number also reads as 0.
    ///
    /// # Errors
    ///
    /// [`AtomicError`] states what failed and whether anything may have changed.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    #[doc(alias = "isExists")]
    pub async fn exists(&self) -> Result<bool, AtomicError> {
        self.read("EXISTS").await
    }

    /// Returns the remaining lifetime.
    ///
    /// # Errors and cancel safety
    ///
    /// As for [`Atomic::exists`].
    #[doc(alias = "remainTimeToLive")]
    #[doc(alias = "PTTL")]
    pub async fn lifetime(&self) -> Result<Lifetime, AtomicError> {
        self.read("PTTL").await.map(Lifetime::of)
    }

    async fn read<R: FromReply>(&self, command: &'static str) -> Result<R, AtomicError> {
        let number = self.number()?;
        let request = Request::command(command).key(number.key.clone()).idempotent();
        number.client.run(request).await.map_err(|source| number.error(source))
    }
}
