//! Locks, semaphores and latches that belong to a key of a map, under the names that Redisson gives them.

use std::borrow::Borrow;

use base64::Engine;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use redgrid_codecs::{Codec, Encode};
use redgrid_core::hash::hash128;
use redgrid_core::name::suffixed;
use redgrid_core::object::ObjectError;
use redgrid_countdown_latch::CountDownLatch;
use redgrid_locks::{FairLock, Lock, RwLock};
use redgrid_permit_expirable_semaphore::PermitExpirableSemaphore;
use redgrid_semaphore::Semaphore;

use crate::map::Map;

/// A hash of a key as its codec writes it: 128 bits, big endian, in base64.
fn hash(field: &[u8]) -> String {
    let [high, low] = hash128(field);
    STANDARD_NO_PAD.encode([high.to_be_bytes(), low.to_be_bytes()].concat())
}

/// What belongs to a key has a name of its own, `{map}:<hash of the key>:lock` and the like, in the slot of the map. The key need not be
/// in the map. It stays with the map's name: a map that is renamed or deleted leaves it where it was.
impl<K, V, KC: Codec, VC: Codec> Map<K, V, KC, VC> {
    /// The lock of a key. [`Map::locked`] computes under it, and so do Redisson's `compute`, `merge` and loads.
    ///
    /// ```no_run
    /// # #[cfg(feature = "json")]
    /// # async fn demo(stock: &redgrid_map::Map<String, u32>) -> Result<(), Box<dyn std::error::Error>> {
    /// let guard = stock.lock("P0001")?.acquire().await?;
    /// // … nobody else has this key's lock …
    /// guard.release().await?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// [`ObjectError::Encode`] where the codec can not write the key, [`ObjectError::InvalidName`] where the map has no name.
    #[doc(alias = "getLock")]
    pub fn lock<Q: ?Sized>(&self, key: &Q) -> Result<Lock, ObjectError>
    where
        K: Borrow<Q>,
        KC: Encode<Q>,
    {
        Ok(Lock::new(self.place.client(), self.name_of(key, "lock")?))
    }

    /// The lock of a key that is given in the order of asking. It is not that of [`Map::lock`].
    ///
    /// # Errors
    ///
    /// As [`Map::lock`].
    #[doc(alias = "getFairLock")]
    pub fn fair_lock<Q: ?Sized>(&self, key: &Q) -> Result<FairLock, ObjectError>
    where
        K: Borrow<Q>,
        KC: Encode<Q>,
    {
        Ok(FairLock::new(self.place.client(), self.name_of(key, "fairlock")?))
    }

    /// The lock of a key that many may read under. It is not that of [`Map::lock`].
    ///
    /// # Errors
    ///
    /// As [`Map::lock`].
    #[doc(alias = "getReadWriteLock")]
    pub fn rw_lock<Q: ?Sized>(&self, key: &Q) -> Result<RwLock, ObjectError>
    where
        K: Borrow<Q>,
        KC: Encode<Q>,
    {
        Ok(RwLock::new(self.place.client(), self.name_of(key, "rw_lock")?))
    }

    /// The semaphore of a key.
    ///
    /// # Errors
    ///
    /// As [`Map::lock`].
    #[doc(alias = "getSemaphore")]
    pub fn semaphore<Q: ?Sized>(&self, key: &Q) -> Result<Semaphore, ObjectError>
    where
        K: Borrow<Q>,
        KC: Encode<Q>,
    {
        Ok(Semaphore::new(self.place.client(), self.name_of(key, "semaphore")?))
    }

    /// The semaphore of a key whose permits have leases.
    ///
    /// # Errors
    ///
    /// As [`Map::lock`].
    #[doc(alias = "getPermitExpirableSemaphore")]
    pub fn permit_expirable_semaphore<Q: ?Sized>(&self, key: &Q) -> Result<PermitExpirableSemaphore, ObjectError>
    where
        K: Borrow<Q>,
        KC: Encode<Q>,
    {
        Ok(PermitExpirableSemaphore::new(self.place.client(), self.name_of(key, "permitexpirablesemaphore")?))
    }

    /// The latch of a key.
    ///
    /// # Errors
    ///
    /// As [`Map::lock`].
    #[doc(alias = "getCountDownLatch")]
    pub fn countdown_latch<Q: ?Sized>(&self, key: &Q) -> Result<CountDownLatch, ObjectError>
    where
        K: Borrow<Q>,
        KC: Encode<Q>,
    {
        Ok(CountDownLatch::new(self.place.client(), self.name_of(key, "countdownlatch")?))
    }

    /// The same of a key as its codec writes it.
    pub(crate) fn lock_of(&self, field: &[u8]) -> Result<Lock, ObjectError> {
        Ok(Lock::new(self.place.client(), self.name_of_field(field, "lock")?))
    }

    fn name_of<Q: ?Sized>(&self, key: &Q, kind: &str) -> Result<String, ObjectError>
    where
        KC: Encode<Q>,
    {
        self.name_of_field(&self.place.encoded(&self.keys, key)?, kind)
    }

    fn name_of_field(&self, field: &[u8], kind: &str) -> Result<String, ObjectError> {
        let (_, map) = self.place.named()?;
        // Of the map's key, namespace included: the hash tag is to be that of the map. The namespace then comes in front of it
        // once more, as with Redisson.
        let name = suffixed(map, &format!("{}:{kind}", hash(field)));
        Ok(String::from_utf8_lossy(&name).into_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What Redisson 4.7.0 and 3.52.0 name the lock of `d` in a map of text.
    #[test]
    fn a_key_has_redissons_hash() {
        assert_eq!(hash(b"d"), "cCV/U3K/CnVMICY6x8GOAQ");
    }
}
