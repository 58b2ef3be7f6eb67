//! Operations that set a number, compare it, or delete it.

use crate::atomic::Atomic;
use crate::atomic_number::AtomicNumber;
use crate::comparison::Comparison;
use crate::error::AtomicError;

impl<T: AtomicNumber> Atomic<T> {
    /// Sets the number, and removes its lifetime.
    ///
    /// # Errors
    ///
    /// [`AtomicError`] states what failed and whether anything may have changed.
    ///
    /// # Cancel safety
    ///
    /// A request that was already sent is executed even if the future is dropped.
    pub async fn set(&self, new: T) -> Result<(), AtomicError> {
        let number = self.number()?;
        number.set(number.to_text("number", new)?).await
    }

    /// Sets the number, removes its lifetime, and returns the previous number.
    ///
    /// A value that is not a number is not replaced.
    ///
    /// # Errors and cancel safety
    ///
    /// As for [`Atomic::set`].
    #[doc(alias = "getAndSet")]
    pub async fn get_and_set(&self, new: T) -> Result<T, AtomicError> {
        let number = self.number()?;
        let (_, previous) = number.replace(Some(number.to_text("number", new)?), false).await?;
        number.parse(&previous)
    }

    /// Deletes the number, and returns the previous number.
    ///
    /// A value that is not a number is not deleted.
    ///
    /// # Errors and cancel safety
    ///
    /// As for [`Atomic::set`].
    #[doc(alias = "getAndDelete")]
    pub async fn get_and_delete(&self) -> Result<T, AtomicError> {
        let number = self.number()?;
        let (_, previous) = number.replace(None, false).await?;
        number.parse(&previous)
    }

    /// Sets the number and removes its lifetime if the number equals `expected`. Returns whether it
    /// did.
    ///
    /// # Errors and cancel safety
    ///
    /// As for [`Atomic::set`].
    #[doc(alias = "compareAndSet")]
    pub async fn compare_and_set(&self, expected: T, new: T) -> Result<bool, AtomicError> {
        let number = self.number()?;
        let (expected, new) = (number.to_text("expected number", expected)?, number.to_text("number", new)?);
        number.compare_and_set((expected, new), false, number.deadline()).await.map(|(set, _)| set)
    }

    /// Sets the number and removes its lifetime if the number compares to `to` in this way. Returns
    /// whether it did.
    ///
    /// The comparison is exact over all numbers. Redisson's `setIfLess` and `setIfGreater` of a
    /// whole number are exact up to 2^53.
    ///
    /// # Errors and cancel safety
    ///
    /// As for [`Atomic::set`].
    #[doc(alias = "setIfLess")]
    #[doc(alias = "setIfGreater")]
    pub async fn set_if(&self, how: Comparison, to: T, new: T) -> Result<bool, AtomicError> {
        let number = self.number()?;
        let (to, new) = (number.to_text("number compared to", to)?, number.to_text("number", new)?);
        number.replace_if(how.sign(), to, Some(new)).await
    }

    /// Deletes the number if it exists and compares to `to` in this way. Returns whether it did.
    ///
    /// # Errors and cancel safety
    ///
    /// As for [`Atomic::set`].
    #[doc(alias = "compareAndDelete")]
    pub async fn delete_if(&self, how: Comparison, to: T) -> Result<bool, AtomicError> {
        let number = self.number()?;
        let to = number.to_text("number compared to", to)?;
        number.replace_if(how.sign(), to, None).await
    }

    /// Deletes the number, or any other value under its name. Returns whether it existed.
    ///
    /// # Errors and cancel safety
    ///
    /// As for [`Atomic::set`].
    pub async fn delete(&self) -> Result<bool, AtomicError> {
        self.number()?.delete().await
    }
}
