//! One value under a name.

use std::fmt;
use std::marker::PhantomData;
use std::time::Duration;

use bytes::Bytes;
use redgrid_codecs::{Codec, Decode, Encode};
use redgrid_core::fence::Write;
use redgrid_core::object::{Object, ObjectError, Place, alone, fence, millis};
use redgrid_core::{Client, Request, Token};

use crate::compare::{CompareAndSet, compare_and_delete};
use crate::set::{GetAndSet, Set, SetIf};

/// The type, with the codec of one that names none: there is one only with the feature `json`, so that what a bucket stores never
/// depends on the features that others ask for.
macro_rules! bucket {
    ($($default:tt)*) => {
        /// A value of type `T` under a name, shared by all processes that reach the same server. Redisson's `RBucket` on the wire.
        ///
        /// Cheap to clone; clones are the same bucket. The codec `C` is part of the type: all who share a bucket name the same one. With
        /// the feature `json` it is `Json` where none is named.
        #[doc(alias = "RBucket")]
        #[doc(alias = "RedissonBucket")]
        pub struct Bucket<T, C $($default)*> {
            pub(crate) place: Place,
            pub(crate) codec: C,
            value: PhantomData<fn() -> T>,
        }
    };
}

#[cfg(feature = "json")]
bucket!(= redgrid_codecs::Json);
#[cfg(not(feature = "json"))]
bucket!();

impl<T, C: Codec + Default> Bucket<T, C> {
    /// The bucket with this name. Making one asks nobody: an invalid name is told by the first call.
    pub fn new(client: &Client, name: impl AsRef<str>) -> Self {
        Bucket { place: Place::new(client, name), codec: C::default(), value: PhantomData }
    }
}

impl<T, C: Codec> Bucket<T, C> {
    /// The same name with another codec.
    pub fn with_codec<D: Codec>(self, codec: D) -> Bucket<T, D> {
        Bucket { place: self.place, codec, value: PhantomData }
    }

    /// What every object has: whether it is there, its lifetime, other names, its size in memory. Its fence goes along to another name.
    pub fn object(&self) -> Object {
        self.place.object(alone).and_along(fence)
    }

    /// How many bytes the value has as its codec writes it; 0 where there is none.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] says what is true then.
    ///
    /// # Cancel safety
    ///
    /// Dropping it changes nothing.
    pub async fn size(&self) -> Result<u64, ObjectError> {
        self.place.read(self.place.command("STRLEN")?).await
    }

    /// Deletes the value; tells whether there was one.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] says what is true then.
    ///
    /// # Cancel safety
    ///
    /// What has left is carried out although nobody waits for it.
    pub async fn delete(&self) -> Result<bool, ObjectError> {
        self.place.change(self.place.command("DEL")?).await
    }

    /// Deletes the value if `token` is not stale; tells whether there was one. See [`Set::fenced`].
    ///
    /// # Errors
    ///
    /// [`ObjectError::Fenced`] when a newer holder has written; else as [`Bucket::delete`].
    ///
    /// # Cancel safety
    ///
    /// What has left is carried out although nobody waits for it.
    pub async fn delete_fenced(&self, token: Token) -> Result<bool, ObjectError> {
        Ok(self.place.fenced(Write::Delete, token).await? > 0)
    }
}

impl<T, C: Decode<T>> Bucket<T, C> {
    /// What it is; `None` where there is nothing.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] says what is true then.
    ///
    /// # Cancel safety
    ///
    /// Dropping it changes nothing.
    pub async fn get(&self) -> Result<Option<T>, ObjectError> {
        let bytes = self.place.read(self.place.command("GET")?).await?;
        self.read(bytes)
    }

    /// Deletes it; tells what it was.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] says what is true then; one that can not be decoded is deleted all the same.
    ///
    /// # Cancel safety
    ///
    /// What has left is carried out although nobody waits for it.
    #[doc(alias = "getAndDelete")]
    pub async fn get_and_delete(&self) -> Result<Option<T>, ObjectError> {
        let bytes = self.place.change(self.place.command("GETDEL")?).await?;
        self.read(bytes)
    }

    /// Has it deleted after this time, 1 ms to 3650 days; tells what it is.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] says what is true then.
    ///
    /// # Cancel safety
    ///
    /// What has left is carried out although nobody waits for it.
    #[doc(alias = "getAndExpire")]
    pub async fn get_and_expire(&self, lifetime: Duration) -> Result<Option<T>, ObjectError> {
        let (name, key) = self.place.named()?;
        let request = Request::command("GETEX").key(key.clone()).arg("PX").arg(millis(name, lifetime)?);
        let bytes = self.place.change(request).await?;
        self.read(bytes)
    }

    /// Has it live on without an end; tells what it is.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] says what is true then.
    ///
    /// # Cancel safety
    ///
    /// What has left is carried out although nobody waits for it.
    #[doc(alias = "getAndClearExpire")]
    pub async fn get_and_persist(&self) -> Result<Option<T>, ObjectError> {
        let bytes = self.place.change(self.place.command("GETEX")?.arg("PERSIST")).await?;
        self.read(bytes)
    }

    pub(crate) fn read(&self, bytes: Option<Bytes>) -> Result<Option<T>, ObjectError> {
        bytes.map(|bytes| self.place.decoded(&self.codec, &bytes, || None)).transpose()
    }
}

impl<T, C: Encode<T>> Bucket<T, C> {
    /// Sets it when awaited: without a lifetime, unless [`Set`]'s options say otherwise.
    #[doc(alias = "setAndKeepTTL")]
    pub fn set(&self, value: &T) -> Set {
        Set::new(self.place.clone(), self.place.encoded(&self.codec, value))
    }

    /// Sets it when awaited if there is nothing; tells whether it did.
    #[doc(alias = "setIfAbsent")]
    #[doc(alias = "trySet")]
    pub fn try_set(&self, value: &T) -> SetIf {
        SetIf::new(self.place.clone(), self.place.encoded(&self.codec, value), "NX")
    }

    /// Sets it when awaited if there is something; tells whether it did.
    #[doc(alias = "setIfExists")]
    pub fn set_if_exists(&self, value: &T) -> SetIf {
        SetIf::new(self.place.clone(), self.place.encoded(&self.codec, value), "XX")
    }

    /// Sets it when awaited if it is `expected`; tells whether it was. Values are equal whose bytes are.
    #[doc(alias = "compareAndSet")]
    pub fn compare_and_set(&self, expected: &T, new: &T) -> CompareAndSet {
        let both = self.place.encoded(&self.codec, expected);
        let both = both.and_then(|expected| Ok((expected, self.place.encoded(&self.codec, new)?)));
        CompareAndSet::new(self.place.clone(), both)
    }

    /// Deletes it if it is `expected`; tells whether it was. Values are equal whose bytes are.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] says what is true then.
    ///
    /// # Cancel safety
    ///
    /// What has left is carried out although nobody waits for it.
    #[doc(alias = "compareAndDelete")]
    pub async fn compare_and_delete(&self, expected: &T) -> Result<bool, ObjectError> {
        let (_, key) = self.place.named()?;
        let expected = self.place.encoded(&self.codec, expected)?;
        self.place.change(compare_and_delete(key, false, expected)).await
    }
}

impl<T, C: Encode<T> + Decode<T>> Bucket<T, C> {
    /// Sets it when awaited; tells what it was.
    #[doc(alias = "getAndSet")]
    pub fn get_and_set(&self, value: &T) -> GetAndSet<T, C> {
        GetAndSet::new(self.clone(), self.place.encoded(&self.codec, value))
    }
}

impl<T, C: Clone> Clone for Bucket<T, C> {
    fn clone(&self) -> Self {
        Bucket { place: self.place.clone(), codec: self.codec.clone(), value: PhantomData }
    }
}

impl<T, C: fmt::Debug> fmt::Debug for Bucket<T, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bucket").field("name", &self.place.name()).field("codec", &self.codec).finish_non_exhaustive()
    }
}
