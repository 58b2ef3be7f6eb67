//! The places, and what is asked of some of them.

use std::borrow::Borrow;
use std::fmt;
use std::marker::PhantomData;

use redgrid_codecs::{Codec, Encode};
use redgrid_core::object::{Object, ObjectError, Place, alone};
use redgrid_core::{Client, FromReply};

use crate::position::{Distance, Position};

/// The type, with the codec of one that names none: there is one only with the feature `json`, so that what is stored never depends on the
/// features that others ask for.
macro_rules! geo {
    ($($codec:tt)*) => {
        /// Members with a place on the globe each, shared by all processes that reach the same server. Redisson's `RGeo` on the wire.
        ///
        /// Cheap to clone; clones are the same. Members are equal whose bytes are, as the codec writes them. It is there while it has members.
        #[doc(alias = "RGeo")]
        #[doc(alias = "RedissonGeo")]
        pub struct Geo<T, C $($codec)*> {
            pub(crate) place: Place,
            pub(crate) codec: C,
            members: PhantomData<fn() -> T>,
        }
    };
}

#[cfg(feature = "json")]
geo!(= redgrid_codecs::Json);
#[cfg(not(feature = "json"))]
geo!();

impl<T, C: Codec + Default> Geo<T, C> {
    /// The one with this name. Making one asks nobody: an invalid name is told by the first call.
    pub fn new(client: &Client, name: impl AsRef<str>) -> Self {
        Geo { place: Place::new(client, name), codec: C::default(), members: PhantomData }
    }
}

impl<T, C: Codec> Geo<T, C> {
    /// The same name with another codec.
    pub fn with_codec<D: Codec>(self, codec: D) -> Geo<T, D> {
        Geo { place: self.place, codec, members: PhantomData }
    }

    /// What every object has: whether it is there, its lifetime, other names, its size in memory.
    pub fn object(&self) -> Object {
        self.place.object(alone)
    }

    /// How many members it has.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] says what is true then.
    ///
    /// # Cancel safety
    ///
    /// Dropping it changes nothing.
    #[doc(alias = "size")]
    pub async fn len(&self) -> Result<u64, ObjectError> {
        self.place.read(self.place.command("ZCARD")?).await
    }

    /// Whether it has none.
    ///
    /// # Errors
    ///
    /// As [`Geo::len`].
    ///
    /// # Cancel safety
    ///
    /// Dropping it changes nothing.
    pub async fn is_empty(&self) -> Result<bool, ObjectError> {
        Ok(self.len().await? == 0)
    }

    /// Whether it has this member.
    ///
    /// # Errors
    ///
    /// As [`Geo::len`].
    ///
    /// # Cancel safety
    ///
    /// Dropping it changes nothing.
    pub async fn contains<Q: ?Sized>(&self, member: &Q) -> Result<bool, ObjectError>
    where
        T: Borrow<Q>,
        C: Encode<Q>,
    {
        let request = self.place.command("ZSCORE")?.arg(self.place.encoded(&self.codec, member)?);
        Ok(self.place.read::<Option<f64>>(request).await?.is_some())
    }

    /// Where a member is, to about 0.6 m; `None` where it is not in it.
    ///
    /// # Errors
    ///
    /// As [`Geo::len`].
    ///
    /// # Cancel safety
    ///
    /// Dropping it changes nothing.
    #[doc(alias = "pos")]
    pub async fn position<Q: ?Sized>(&self, member: &Q) -> Result<Option<Position>, ObjectError>
    where
        T: Borrow<Q>,
        C: Encode<Q>,
    {
        Ok(self.positions([member]).await?.pop().flatten())
    }

    /// Where each of these is, in their order, 500 or about 4 MiB at a time.
    ///
    /// # Errors
    ///
    /// As [`Geo::len`].
    ///
    /// # Cancel safety
    ///
    /// Dropping it changes nothing.
    #[doc(alias = "pos")]
    pub async fn positions<'a, Q: ?Sized + 'a>(
        &self,
        members: impl IntoIterator<Item = &'a Q>,
    ) -> Result<Vec<Option<Position>>, ObjectError>
    where
        T: Borrow<Q>,
        C: Encode<Q>,
    {
        self.of_each("GEOPOS", members).await
    }

    /// A member's geohash of 11 characters; `None` where it is not in it.
    ///
    /// # Errors
    ///
    /// As [`Geo::len`].
    ///
    /// # Cancel safety
    ///
    /// Dropping it changes nothing.
    #[doc(alias = "hash")]
    pub async fn geohash<Q: ?Sized>(&self, member: &Q) -> Result<Option<String>, ObjectError>
    where
        T: Borrow<Q>,
        C: Encode<Q>,
    {
        Ok(self.geohashes([member]).await?.pop().flatten())
    }

    /// The geohash of each of these, in their order, 500 or about 4 MiB at a time.
    ///
    /// # Errors
    ///
    /// As [`Geo::len`].
    ///
    /// # Cancel safety
    ///
    /// Dropping it changes nothing.
    #[doc(alias = "hash")]
    pub async fn geohashes<'a, Q: ?Sized + 'a>(
        &self,
        members: impl IntoIterator<Item = &'a Q>,
    ) -> Result<Vec<Option<String>>, ObjectError>
    where
        T: Borrow<Q>,
        C: Encode<Q>,
    {
        self.of_each("GEOHASH", members).await
    }

    async fn of_each<'a, Q: ?Sized + 'a, R: FromReply>(
        &self,
        command: &'static str,
        members: impl IntoIterator<Item = &'a Q>,
    ) -> Result<Vec<Option<R>>, ObjectError>
    where
        C: Encode<Q>,
    {
        let members = self.place.encoded_all(&self.codec, members)?;
        self.place.read_parts(&members, || self.place.command(command)).await
    }

    /// How far two members are apart; `None` where one of them is not in it.
    ///
    /// # Errors
    ///
    /// As [`Geo::len`].
    ///
    /// # Cancel safety
    ///
    /// Dropping it changes nothing.
    #[doc(alias = "dist")]
    pub async fn distance<Q: ?Sized>(&self, one: &Q, other: &Q) -> Result<Option<Distance>, ObjectError>
    where
        T: Borrow<Q>,
        C: Encode<Q>,
    {
        let (one, other) = (self.place.encoded(&self.codec, one)?, self.place.encoded(&self.codec, other)?);
        self.place.read(self.place.command("GEODIST")?.arg(one).arg(other).arg("m")).await
    }
}

impl<T, C: Clone> Clone for Geo<T, C> {
    fn clone(&self) -> Self {
        Geo { place: self.place.clone(), codec: self.codec.clone(), members: PhantomData }
    }
}

impl<T, C: fmt::Debug> fmt::Debug for Geo<T, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Geo").field("name", &self.place.name()).field("codec", &self.codec).finish_non_exhaustive()
    }
}
