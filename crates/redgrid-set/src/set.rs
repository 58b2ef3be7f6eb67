//! The unordered set.

use redgrid_codecs::{Codec, Decode, EncodesFor};
use redgrid_core::Client;
use redgrid_core::object::{ObjectError, Scan};

use crate::atomic::RETAIN;
use crate::common::common_methods;
use crate::elements::{Elements, handle};

redgrid_core::default_codec! {
    /// An unordered set of values of type `T`, shared by all processes that reach the same
    /// server.
    ///
    /// On the wire it is Redisson's `RSet`.
    ///
    /// It is cheap to clone; clones are handles of the same set. The codec `C` is part of the type:
    /// all users of a set must use the same one. With the feature `json`, the default is `Json`. A
    /// set exists while it has values.
    #[doc(alias = "RSet")]
    #[doc(alias = "RedissonSet")]
    pub struct Set<T; C> {
        pub(crate) inner: Elements<T, C>,
    }
}

handle!(Set);
common_methods!(Set, "SCARD", "SREM", "SRANDMEMBER", RETAIN);

impl<T, C: Codec + Default> Set<T, C> {
    /// Returns the set with this name.
    ///
    /// No request is sent: an invalid name is reported by the first call.
    pub fn new(client: &Client, name: impl AsRef<str>) -> Self {
        Set { inner: Elements::new(client, name, C::default()) }
    }
}

impl<T, C: Codec> Set<T, C> {
    /// Inserts a value. Returns whether it is new.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] states what failed and whether anything may have changed.
    ///
    /// # Cancel safety
    ///
    /// A request that was already sent is executed even if the future is dropped.
    #[doc(alias = "add")]
    pub async fn insert<Q: ?Sized>(&self, value: &Q) -> Result<bool, ObjectError>
    where
        C: EncodesFor<T, Q>,
    {
        let value = self.inner.encode(value)?;
        self.inner.object_ref.change(self.inner.object_ref.command("SADD")?.arg(value)).await
    }

    /// Inserts values, up to 500 or about 4 MiB a request. Returns the number of new values.
    ///
    /// After an error, some of the values may have been inserted.
    ///
    /// # Errors and cancel safety
    ///
    /// As for [`Set::insert`].
    #[doc(alias = "addAll")]
    #[doc(alias = "addAllCounted")]
    pub async fn insert_many<'a, Q: ?Sized + 'a>(
        &self,
        values: impl IntoIterator<Item = &'a Q>,
    ) -> Result<u64, ObjectError>
    where
        C: EncodesFor<T, Q>,
    {
        let values = self.inner.encode_all(values)?;
        self.inner.change_chunks("SADD", &values).await
    }

    /// Returns whether the set contains a value.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] states what failed and whether anything may have changed.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    pub async fn contains<Q: ?Sized>(&self, value: &Q) -> Result<bool, ObjectError>
    where
        C: EncodesFor<T, Q>,
    {
        let value = self.inner.encode(value)?;
        self.inner.object_ref.read(self.inner.object_ref.command("SISMEMBER")?.arg(value)).await
    }

    /// Returns for each value, in their order, whether the set contains it. A request contains up
    /// to 500 values or about 4 MiB.
    ///
    /// # Errors and cancel safety
    ///
    /// As for [`Set::contains`].
    #[doc(alias = "containsEach")]
    pub async fn contains_each<'a, Q: ?Sized + 'a>(
        &self,
        values: impl IntoIterator<Item = &'a Q>,
    ) -> Result<Vec<bool>, ObjectError>
    where
        C: EncodesFor<T, Q>,
    {
        let values = self.inner.encode_all(values)?;
        self.inner.read_chunks("SMISMEMBER", &values).await
    }

    /// Returns whether the set contains all of the values.
    ///
    /// # Errors and cancel safety
    ///
    /// As for [`Set::contains`].
    #[doc(alias = "containsAll")]
    pub async fn contains_all<'a, Q: ?Sized + 'a>(
        &self,
        values: impl IntoIterator<Item = &'a Q>,
    ) -> Result<bool, ObjectError>
    where
        C: EncodesFor<T, Q>,
    {
        Ok(self.contains_each(values).await?.into_iter().all(|is_in| is_in))
    }
}

impl<T, C: Decode<T>> Set<T, C> {
    /// Returns all values in one reply, which is as large as all of them. For large sets use
    /// [`Set::stream`].
    ///
    /// # Errors
    ///
    /// [`ObjectError`] states what failed and whether anything may have changed.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    #[doc(alias = "readAll")]
    pub async fn read_all(&self) -> Result<Vec<T>, ObjectError> {
        self.inner.decode_all(&self.inner.object_ref.read::<Vec<_>>(self.inner.object_ref.command("SMEMBERS")?).await?)
    }

    /// Removes a random value and returns it; `None` if the set is empty. If the reply is lost, the
    /// value is lost.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] states what failed and whether anything may have changed. A value that
    /// cannot be decoded is removed as well.
    ///
    /// # Cancel safety
    ///
    /// A request that was already sent is executed even if the future is dropped: in that case a
    /// removed value is lost.
    #[doc(alias = "removeRandom")]
    pub async fn pop(&self) -> Result<Option<T>, ObjectError> {
        self.inner.decode_option(self.inner.object_ref.change(self.inner.object_ref.command("SPOP")?).await?)
    }

    /// Removes `count` random values and returns them, or all values if there are fewer. If the
    /// reply is lost, the values are lost.
    ///
    /// # Errors
    ///
    /// As for [`Set::pop`]. If one value cannot be decoded, the call fails, but all of them are
    /// removed. If other writers may use another codec, pop values one by one.
    ///
    /// # Cancel safety
    ///
    /// As for [`Set::pop`].
    #[doc(alias = "removeRandom")]
    pub async fn pop_many(&self, count: u32) -> Result<Vec<T>, ObjectError> {
        self.inner.decode_all(
            &self.inner.object_ref.change::<Vec<_>>(self.inner.object_ref.command("SPOP")?.int(count.into())).await?,
        )
    }
}

impl<T: 'static, C: Decode<T>> Set<T, C> {
    /// Returns a stream of all values, in no order.
    #[doc(alias = "iterator")]
    pub fn stream(&self) -> Scan<T> {
        let inner = self.inner.clone();
        Scan::by("SSCAN", 1, self.inner.object_ref.clone(), move |found| inner.decode(&found[0]))
    }
}
