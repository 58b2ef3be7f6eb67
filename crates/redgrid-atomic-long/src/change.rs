//! Changes that set a number, compare it, or delete it.

use crate::atomic::Atomic;
use crate::comparison::Comparison;
use crate::error::AtomicError;
use crate::numeral::Numeral;

impl<T: Numeral> Atomic<T> {
    /// Sets it, without a lifetime.
    ///
    /// # Errors
    ///
    /// [`AtomicError`] says what is true then.
    ///
    /// # Cancel safety
    ///
    /// What has left is carried out although nobody waits for it.
    pub async fn set(&self, new: T) -> Result<(), AtomicError> {
        let number = self.number()?;
        number.set(number.written("number", new)?).await
    }

    /// Sets it, without a lifetime; tells what it was. What is no number is not replaced.
    ///
    /// # Errors
    ///
    /// As [`Atomic::set`].
    ///
    /// # Cancel safety
    ///
    /// As [`Atomic::set`].
    #[doc(alias = "getAndSet")]
    pub async fn get_and_set(&self, new: T) -> Result<T, AtomicError> {
        let number = self.number()?;
        let (_, was) = number.replace(Some(number.written("number", new)?), false).await?;
        number.read(&was)
    }

    /// Deletes it; tells what it was. What is no number is not deleted.
    ///
    /// # Errors
    ///
    /// As [`Atomic::set`].
    ///
    /// # Cancel safety
    ///
    /// As [`Atomic::set`].
    #[doc(alias = "getAndDelete")]
    pub async fn get_and_delete(&self) -> Result<T, AtomicError> {
        let number = self.number()?;
        let (_, was) = number.replace(None, false).await?;
        number.read(&was)
    }

    /// Sets it, without a lifetime, if it is `expected`; tells whether it was.
    ///
    /// # Errors
    ///
    /// As [`Atomic::set`].
    ///
    /// # Cancel safety
    ///
    /// As [`Atomic::set`].
    #[doc(alias = "compareAndSet")]
    pub async fn compare_and_set(&self, expected: T, new: T) -> Result<bool, AtomicError> {
        let number = self.number()?;
        let (expected, new) = (number.written("expected number", expected)?, number.written("number", new)?);
        number.compare_and_set((expected, new), false, number.until()).await.map(|(set, _)| set)
    }

    /// Sets it, without a lifetime, if it compares so to `to`; tells whether it did. Exact over all numbers, where Redisson's
    /// `setIfLess` and `setIfGreater` of a whole number are up to 2^53.
    ///
    /// # Errors
    ///
    /// As [`Atomic::set`].
    ///
    /// # Cancel safety
    ///
    /// As [`Atomic::set`].
    #[doc(alias = "setIfLess")]
    #[doc(alias = "setIfGreater")]
    pub async fn set_if(&self, how: Comparison, to: T, new: T) -> Result<bool, AtomicError> {
        let number = self.number()?;
        let (to, new) = (number.written("number compared to", to)?, number.written("number", new)?);
        number.replace_if(how.sign(), to, Some(new)).await
    }

    /// Deletes it if it is there and compares so to `to`; tells whether it did.
    ///
    /// # Errors
    ///
    /// As [`Atomic::set`].
    ///
    /// # Cancel safety
    ///
    /// As [`Atomic::set`].
    #[doc(alias = "compareAndDelete")]
    pub async fn delete_if(&self, how: Comparison, to: T) -> Result<bool, AtomicError> {
        let number = self.number()?;
        let to = number.written("number compared to", to)?;
        number.replace_if(how.sign(), to, None).await
    }

    /// Deletes it, or whatever is under its name; tells whether it was there.
    ///
    /// # Errors
    ///
    /// As [`Atomic::set`].
    ///
    /// # Cancel safety
    ///
    /// As [`Atomic::set`].
    pub async fn delete(&self) -> Result<bool, AtomicError> {
        self.number()?.delete().await
    }
}
