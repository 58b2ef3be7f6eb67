//! A single value under a name.

use std::time::Duration;

use bytes::Bytes;
use redgrid_codecs::{Codec, Decode, Encode};
use redgrid_core::fence::Write;
use redgrid_core::object::{ObjectError, alone, fence, millis};
use redgrid_core::{Request, Token};

use crate::compare::{CompareAndSet, compare_and_delete};
use crate::set::{GetAndSet, Set, SetIf};

redgrid_core::value_object! {
    /// A value of type `T` under a name, shared by all processes that reach the same server.
    ///
    /// On the wire it is Redisson's `RBucket`.
    ///
    /// It is cheap to clone; clones are handles of the same bucket. The codec `C` is part of the
    /// type: all users of a bucket must use the same one. With the feature `json`, the default is
    /// `Json`.
    #[doc(alias = "RBucket")]
    #[doc(alias = "RedissonBucket")]
    pub struct Bucket;

    ///
    /// A rename also renames the bucket's fence.
    |object_ref| object_ref.object(alone).also_renames(fence)
}

impl<T, C: Codec> Bucket<T, C> {
    /// Returns the size of the encoded value in bytes; 0 if there is no value.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] states what failed and whether anything may have changed.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    pub async fn size(&self) -> Result<u64, ObjectError> {
        self.object_ref.read(self.object_ref.command("STRLEN")?).await
    }

    /// Deletes the value. Returns whether there was one.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] states what failed and whether anything may have changed.
    ///
    /// # Cancel safety
    ///
    /// A request that was already sent is executed even if the future is dropped.
    pub async fn delete(&self) -> Result<bool, ObjectError> {
        self.object_ref.change(self.object_ref.command("DEL")?).await
    }

    /// Deletes the value if `token` is not stale. Returns whether there was a value. See
    /// [`Set::fenced`].
    ///
    /// # Errors
    ///
    /// [`ObjectError::Fenced`] if the holder of a newer token has written. Otherwise as for
    /// [`Bucket::delete`].
    ///
    /// # Cancel safety
    ///
    /// A request that was already sent is executed even if the future is dropped.
    pub async fn delete_fenced(&self, token: Token) -> Result<bool, ObjectError> {
        Ok(self.object_ref.fenced(Write::Delete, token).await? > 0)
    }
}

impl<T, C: Decode<T>> Bucket<T, C> {
    /// Returns the value; `None` if there is none.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] states what failed and whether anything may have changed.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    pub async fn get(&self) -> Result<Option<T>, ObjectError> {
        let bytes = self.object_ref.read(self.object_ref.command("GET")?).await?;
        self.decode_option(bytes)
    }

    /// Deletes the value and returns it; `None` if there was none.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] states what failed and whether anything may have changed. A value that
    /// cannot be decoded is deleted as well.
    ///
    /// # Cancel safety
    ///
    /// A request that was already sent is executed even if the future is dropped.
    #[doc(alias = "getAndDelete")]
    pub async fn get_and_delete(&self) -> Result<Option<T>, ObjectError> {
        let bytes = self.object_ref.change(self.object_ref.command("GETDEL")?).await?;
        self.decode_option(bytes)
    }

    /// Sets the lifetime of the value, 1 ms to 3650 days, and returns the value; `None` if there is
    /// none.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] states what failed and whether anything may have changed.
    ///
    /// # Cancel safety
    ///
    /// A request that was already sent is executed even if the future is dropped.
    #[doc(alias = "getAndExpire")]
    pub async fn get_and_expire(&self, lifetime: Duration) -> Result<Option<T>, ObjectError> {
        let (name, key) = self.object_ref.name_and_key()?;
        let request = Request::command("GETEX").key(key.clone()).arg("PX").arg(millis(name, lifetime)?);
        let bytes = self.object_ref.change(request).await?;
        self.decode_option(bytes)
    }

    /// Removes the lifetime of the value, and returns the value; `None` if there is none.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] states what failed and whether anything may have changed.
    ///
    /// # Cancel safety
    ///
    /// A request that was already sent is executed even if the future is dropped.
    #[doc(alias = "getAndClearExpire")]
    pub async fn get_and_persist(&self) -> Result<Option<T>, ObjectError> {
        let bytes = self.object_ref.change(self.object_ref.command("GETEX")?.arg("PERSIST")).await?;
        self.decode_option(bytes)
    }

    pub(crate) fn decode_option(&self, bytes: Option<Bytes>) -> Result<Option<T>, ObjectError> {
        bytes.map(|bytes| self.object_ref.decoded(&self.codec, &bytes, || None)).transpose()
    }
}

impl<T, C: Encode<T>> Bucket<T, C> {
    /// Sets the value when awaited. It has no lifetime, unless an option of [`Set`] sets one.
    #[doc(alias = "setAndKeepTTL")]
    pub fn set(&self, value: &T) -> Set {
        Set::new(self.object_ref.clone(), self.object_ref.encoded(&self.codec, value))
    }

    /// Sets the value when awaited, if there is no value. The result is whether it was set.
    #[doc(alias = "setIfAbsent")]
    #[doc(alias = "trySet")]
    pub fn try_set(&self, value: &T) -> SetIf {
        SetIf::new(self.object_ref.clone(), self.object_ref.encoded(&self.codec, value), "NX")
    }

    /// Sets the value when awaited, if there already is a value. The result is whether it was set.
    #[doc(alias = "setIfExists")]
    pub fn set_if_exists(&self, value: &T) -> SetIf {
        SetIf::new(self.object_ref.clone(), self.object_ref.encoded(&self.codec, value), "XX")
    }

    /// Sets the value when awaited, if the current value is `expected`. The result is whether it
    /// was set.
    ///
    /// Values are equal if their encoded bytes are equal.
    #[doc(alias = "compareAndSet")]
    pub fn compare_and_set(&self, expected: &T, new: &T) -> CompareAndSet {
        let values = self.object_ref.encoded(&self.codec, expected);
        let values = values.and_then(|expected| Ok((expected, self.object_ref.encoded(&self.codec, new)?)));
        CompareAndSet::new(self.object_ref.clone(), values)
    }

    /// Deletes the value if it is `expected`. Returns whether it was deleted.
    ///
    /// Values are equal if their encoded bytes are equal.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] states what failed and whether anything may have changed.
    ///
    /// # Cancel safety
    ///
    /// A request that was already sent is executed even if the future is dropped.
    #[doc(alias = "compareAndDelete")]
    pub async fn compare_and_delete(&self, expected: &T) -> Result<bool, ObjectError> {
        let (_, key) = self.object_ref.name_and_key()?;
        let expected = self.object_ref.encoded(&self.codec, expected)?;
        self.object_ref.change(compare_and_delete(key, false, expected)).await
    }
}

impl<T, C: Encode<T> + Decode<T>> Bucket<T, C> {
    /// Sets the value when awaited, and returns the previous one.
    #[doc(alias = "getAndSet")]
    pub fn get_and_set(&self, value: &T) -> GetAndSet<T, C> {
        GetAndSet::new(self.clone(), self.object_ref.encoded(&self.codec, value))
    }
}
