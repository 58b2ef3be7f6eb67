//! The set, its values one by one and in parts.

use std::borrow::Borrow;

use redgrid_codecs::{Codec, Decode, Encode};
use redgrid_core::Client;
use redgrid_core::object::{ObjectError, Scan};

use crate::common::common_methods;
use crate::elements::{Elements, handle};
use crate::whole::RETAIN;

/// The type, with the codec of one that names none: there is one only with the feature `json`, so that what a set stores never
/// depends on the features that others ask for.
macro_rules! set {
    ($($default:tt)*) => {
        /// Values of type `T`, each once and in no order, shared by all processes that reach the same server. Redisson's `RSet` on the wire.
        ///
        /// Cheap to clone; clones are the same set. The codec `C` is part of the type: all who share a set name the same one. With the
        /// feature `json` it is `Json` where none is named. A set is there while it has values.
        #[doc(alias = "RSet")]
        #[doc(alias = "RedissonSet")]
        pub struct Set<T, C $($default)*> {
            pub(crate) of: Elements<T, C>,
        }
    };
}

#[cfg(feature = "json")]
set!(= redgrid_codecs::Json);
#[cfg(not(feature = "json"))]
set!();

handle!(Set);
common_methods!(Set, "SCARD", "SREM", "SRANDMEMBER", RETAIN);

impl<T, C: Codec + Default> Set<T, C> {
    /// The set with this name. Making one asks nobody: an invalid name is told by the first call.
    pub fn new(client: &Client, name: impl AsRef<str>) -> Self {
        Set { of: Elements::new(client, name, C::default()) }
    }
}

impl<T, C: Codec> Set<T, C> {
    /// Inserts a value; tells whether it is new.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] says what is true then.
    ///
    /// # Cancel safety
    ///
    /// What has left is carried out although nobody waits for it.
    #[doc(alias = "add")]
    pub async fn insert<Q: ?Sized>(&self, value: &Q) -> Result<bool, ObjectError>
    where
        T: Borrow<Q>,
        C: Encode<Q>,
    {
        let value = self.of.encoded(value)?;
        self.of.place.change(self.of.place.command("SADD")?.arg(value)).await
    }

    /// Inserts values, 500 of them or about 4 MiB at a time; tells how many are new. After an error some may be in.
    ///
    /// # Errors
    ///
    /// As [`Set::insert`].
    ///
    /// # Cancel safety
    ///
    /// As [`Set::insert`].
    #[doc(alias = "addAll")]
    #[doc(alias = "addAllCounted")]
    pub async fn insert_many<'a, Q: ?Sized + 'a>(
        &self,
        values: impl IntoIterator<Item = &'a Q>,
    ) -> Result<u64, ObjectError>
    where
        T: Borrow<Q>,
        C: Encode<Q>,
    {
        let values = self.of.encoded_all(values)?;
        self.of.change_parts("SADD", &values).await
    }

    /// Whether a value is in.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] says what is true then.
    ///
    /// # Cancel safety
    ///
    /// Dropping it changes nothing.
    pub async fn contains<Q: ?Sized>(&self, value: &Q) -> Result<bool, ObjectError>
    where
        T: Borrow<Q>,
        C: Encode<Q>,
    {
        let value = self.of.encoded(value)?;
        self.of.place.read(self.of.place.command("SISMEMBER")?.arg(value)).await
    }

    /// Of each value whether it is in, in their order; 500 of them or about 4 MiB at a time.
    ///
    /// # Errors
    ///
    /// As [`Set::contains`].
    ///
    /// # Cancel safety
    ///
    /// As [`Set::contains`].
    #[doc(alias = "containsEach")]
    pub async fn contains_each<'a, Q: ?Sized + 'a>(
        &self,
        values: impl IntoIterator<Item = &'a Q>,
    ) -> Result<Vec<bool>, ObjectError>
    where
        T: Borrow<Q>,
        C: Encode<Q>,
    {
        let values = self.of.encoded_all(values)?;
        self.of.read_parts("SMISMEMBER", &values).await
    }

    /// Whether all of these are in.
    ///
    /// # Errors
    ///
    /// As [`Set::contains`].
    ///
    /// # Cancel safety
    ///
    /// As [`Set::contains`].
    #[doc(alias = "containsAll")]
    pub async fn contains_all<'a, Q: ?Sized + 'a>(
        &self,
        values: impl IntoIterator<Item = &'a Q>,
    ) -> Result<bool, ObjectError>
    where
        T: Borrow<Q>,
        C: Encode<Q>,
    {
        Ok(self.contains_each(values).await?.into_iter().all(|is_in| is_in))
    }
}

impl<T, C: Decode<T>> Set<T, C> {
    /// All values in one answer: as large as all of them. For large sets there is [`Set::stream`].
    ///
    /// # Errors
    ///
    /// [`ObjectError`] says what is true then.
    ///
    /// # Cancel safety
    ///
    /// Dropping it changes nothing.
    #[doc(alias = "readAll")]
    pub async fn read_all(&self) -> Result<Vec<T>, ObjectError> {
        self.of.all(&self.of.place.read::<Vec<_>>(self.of.place.command("SMEMBERS")?).await?)
    }

    /// Removes a value by chance, and tells it; `None` where there is none. Where its answer is lost the value is gone.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] says what is true then; the value is removed also where it can not be decoded.
    ///
    /// # Cancel safety
    ///
    /// What has left is carried out although nobody waits for it: then the value is nobody's.
    #[doc(alias = "removeRandom")]
    pub async fn pop(&self) -> Result<Option<T>, ObjectError> {
        self.of.maybe(self.of.place.change(self.of.place.command("SPOP")?).await?)
    }

    /// Removes some values by chance, and tells them: `count` of them, or all where there are fewer. Where its answer is lost they are gone.
    ///
    /// # Errors
    ///
    /// As [`Set::pop`]; one that can not be decoded is an error of all, and all are removed: where others may have written it, take them one by one.
    ///
    /// # Cancel safety
    ///
    /// As [`Set::pop`].
    #[doc(alias = "removeRandom")]
    pub async fn pop_many(&self, count: u32) -> Result<Vec<T>, ObjectError> {
        self.of.all(&self.of.place.change::<Vec<_>>(self.of.place.command("SPOP")?.int(count.into())).await?)
    }
}

impl<T: 'static, C: Decode<T>> Set<T, C> {
    /// All values, as a stream, in no order.
    #[doc(alias = "iterator")]
    pub fn stream(&self) -> Scan<T> {
        let of = self.of.clone();
        Scan::by("SSCAN", 1, self.of.place.clone(), move |found| of.one(&found[0]))
    }
}
