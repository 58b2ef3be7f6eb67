//! Changes of an object that leave a held lock as it is.

use std::time::Duration;

use redgrid_core::{LIFETIMES, LIFETIMES_EXPECTED};

use crate::bulk::{IS_LOCK, Locks, Operation, apply_to_each, count_done};
use crate::{Keys, KeysError, ToKey};

/// The result of a change that leaves a held lock as it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[must_use = "the object may not be changed"]
#[non_exhaustive]
pub enum UnlessLock {
    /// The object was changed.
    Done,
    /// There is no such object, or it had no lifetime to remove. Nothing has changed.
    Absent,
    /// The object is a held lock. Nothing has changed.
    IsLock,
}

impl Keys {
    /// Deletes an object like [`Keys::unlink`], unless it is a held lock.
    ///
    /// Use it for names that users enter: the holder of a lock that is deleted notices that only at
    /// its next renewal, and another one may have the lock by then. The server checks the object
    /// and deletes it in one step. While its slot moves, this applies to the object's own key; the
    /// other keys are deleted after it.
    ///
    /// ```no_run
    /// # async fn demo(client: &redgrid_keys::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// use redgrid_keys::{Keys, UnlessLock};
    ///
    /// if Keys::new(client).unlink_unless_lock("cart:17").await? == UnlessLock::IsLock {
    ///     println!("a lock is released by its holder");
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors and cancel safety
    ///
    /// As for [`Keys::unlink`].
    pub async fn unlink_unless_lock(&self, name: impl ToKey) -> Result<UnlessLock, KeysError> {
        self.change_unless_lock(name, Operation::Remove("UNLINK", Locks::Excluded)).await
    }

    /// Sets the TTL of an object like [`Keys::expire_in`], or removes it like [`Keys::persist`] if
    /// `lifetime` is `None`, unless the object is a held lock.
    ///
    /// See [`Keys::unlink_unless_lock`].
    ///
    /// # Errors and cancel safety
    ///
    /// As for [`Keys::expire_in`].
    pub async fn set_lifetime_unless_lock(
        &self,
        name: impl ToKey,
        lifetime: Option<Duration>,
    ) -> Result<UnlessLock, KeysError> {
        let operation = match lifetime {
            Some(invalid) if !LIFETIMES.contains(&invalid) => {
                return Err(KeysError::invalid("lifetime", LIFETIMES_EXPECTED, format!("{invalid:?}")));
            }
            Some(lifetime) => {
                Operation::Expire("PEXPIRE", Some(lifetime.as_millis().to_string().into()), Locks::Excluded)
            }
            None => Operation::Expire("PERSIST", None, Locks::Excluded),
        };
        self.change_unless_lock(name, operation).await
    }

    async fn change_unless_lock(&self, name: impl ToKey, operation: Operation) -> Result<UnlessLock, KeysError> {
        let key = name.to_key(&self.client)?;
        let outcomes = apply_to_each(&self.client, vec![key], &operation).await;
        if matches!(outcomes[..], [(_, Ok(IS_LOCK))]) {
            return Ok(UnlessLock::IsLock);
        }
        Ok(if count_done(outcomes)? > 0 { UnlessLock::Done } else { UnlessLock::Absent })
    }
}
