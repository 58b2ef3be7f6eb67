//! Locks, semaphores and latches of single keys of a map, with Redisson's names.

use redgrid_codecs::{Codec, Encode, EncodesFor, element_hash};
use redgrid_core::name::suffixed;
use redgrid_core::object::ObjectError;
use redgrid_countdown_latch::CountDownLatch;
use redgrid_locks::{FairLock, Lock, RwLock};
use redgrid_permit_expirable_semaphore::PermitExpirableSemaphore;
use redgrid_semaphore::{PlainSemaphore, Semaphore};

use crate::map::Map;

/// Locks, semaphores and latches of single keys.
///
/// Each has its own name in the slot of the map, such as `{map}:<hash of the key>:lock`. The key
/// need not be in the map. Renaming or deleting the map leaves these objects unchanged.
impl<K, V, KC: Codec, VC: Codec> Map<K, V, KC, VC> {
    /// Returns the lock of a key.
    ///
    /// [`Map::locked`] computes under this lock, and so do Redisson's `compute`, `merge` and loads.
    ///
    /// ```no_run
    /// # #[cfg(feature = "json")]
    /// # async fn demo(stock: &redgrid_map::Map<String, u32>) -> Result<(), Box<dyn std::error::Error>> {
    /// let guard = stock.lock("P0001")?.acquire().await?;
    /// // … no other caller holds this key's lock …
    /// guard.release().await?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// [`ObjectError::Encode`] if the codec cannot encode the key;
    /// [`Failure::InvalidName`](crate::Failure::InvalidName) if the map's name is invalid.
    #[doc(alias = "getLock")]
    pub fn lock<Q: ?Sized>(&self, key: &Q) -> Result<Lock, ObjectError>
    where
        KC: EncodesFor<K, Q>,
    {
        Ok(Lock::new(self.object_ref.client(), self.companion_name(key, "lock")?))
    }

    /// Returns the fair lock of a key, which is granted in the order of the requests.
    ///
    /// It is independent of [`Map::lock`].
    ///
    /// # Errors
    ///
    /// As for [`Map::lock`].
    #[doc(alias = "getFairLock")]
    pub fn fair_lock<Q: ?Sized>(&self, key: &Q) -> Result<FairLock, ObjectError>
    where
        KC: EncodesFor<K, Q>,
    {
        Ok(FairLock::new(self.object_ref.client(), self.companion_name(key, "fairlock")?))
    }

    /// Returns the read-write lock of a key.
    ///
    /// It is independent of [`Map::lock`].
    ///
    /// # Errors
    ///
    /// As for [`Map::lock`].
    #[doc(alias = "getReadWriteLock")]
    pub fn rw_lock<Q: ?Sized>(&self, key: &Q) -> Result<RwLock, ObjectError>
    where
        KC: EncodesFor<K, Q>,
    {
        Ok(RwLock::new(self.object_ref.client(), self.companion_name(key, "rw_lock")?))
    }

    /// Returns the semaphore of a key, with this number of permits. They have leases.
    ///
    /// # Errors
    ///
    /// As for [`Map::lock`].
    pub fn semaphore<Q: ?Sized>(&self, key: &Q, permits: u64) -> Result<Semaphore, ObjectError>
    where
        KC: EncodesFor<K, Q>,
    {
        Ok(Semaphore::new(self.object_ref.client(), self.companion_name(key, "semaphore")?, permits))
    }

    /// Returns the plain semaphore of a key: Redisson's RSemaphore, without leases.
    ///
    /// # Errors
    ///
    /// As for [`Map::lock`].
    #[doc(alias = "getSemaphore")]
    pub fn plain_semaphore<Q: ?Sized>(&self, key: &Q) -> Result<PlainSemaphore, ObjectError>
    where
        KC: EncodesFor<K, Q>,
    {
        Ok(Semaphore::plain(self.object_ref.client(), self.companion_name(key, "semaphore")?))
    }

    /// Returns the semaphore of a key, with leases for its permits.
    ///
    /// # Errors
    ///
    /// As for [`Map::lock`].
    #[doc(alias = "getPermitExpirableSemaphore")]
    pub fn permit_expirable_semaphore<Q: ?Sized>(&self, key: &Q) -> Result<PermitExpirableSemaphore, ObjectError>
    where
        KC: EncodesFor<K, Q>,
    {
        Ok(PermitExpirableSemaphore::new(
            self.object_ref.client(),
            self.companion_name(key, "permitexpirablesemaphore")?,
        ))
    }

    /// Returns the countdown latch of a key.
    ///
    /// # Errors
    ///
    /// As for [`Map::lock`].
    #[doc(alias = "getCountDownLatch")]
    pub fn countdown_latch<Q: ?Sized>(&self, key: &Q) -> Result<CountDownLatch, ObjectError>
    where
        KC: EncodesFor<K, Q>,
    {
        Ok(CountDownLatch::new(self.object_ref.client(), self.companion_name(key, "countdownlatch")?))
    }

    /// Returns the lock of a key in its encoded form.
    pub(crate) fn lock_of_field(&self, field: &[u8]) -> Result<Lock, ObjectError> {
        Ok(Lock::new(self.object_ref.client(), self.companion_name_of_field(field, "lock")?))
    }

    fn companion_name<Q: ?Sized>(&self, key: &Q, kind: &str) -> Result<String, ObjectError>
    where
        KC: Encode<Q>,
    {
        self.companion_name_of_field(&self.object_ref.encoded(&self.keys, key)?, kind)
    }

    fn companion_name_of_field(&self, field: &[u8], kind: &str) -> Result<String, ObjectError> {
        let (_, map) = self.object_ref.name_and_key()?;
        // The name is built from the map's key, namespace included, so that the hash tag is that of
        // the map. The namespace is then prepended once more, as in Redisson.
        let name = suffixed(map, &format!("{}:{kind}", element_hash(field)));
        Ok(String::from_utf8_lossy(&name).into_owned())
    }
}
