//! Members with positions: construction, and reads of single members.

use std::borrow::Borrow;
use std::fmt;
use std::marker::PhantomData;

use redgrid_codecs::{Codec, Encode};
use redgrid_core::object::{Object, ObjectError, ObjectRef, alone};
use redgrid_core::{Client, FromReply};

use crate::position::{Distance, Position};

/// Defines the type, with its default codec. Only the feature `json` gives it one, so that the
/// stored format never depends on features that other crates enable.
macro_rules! geo {
    ($($codec:tt)*) => {
        /// Members with positions on the globe, shared by all processes that reach the same server.
        ///
        /// Redisson's `RGeo` on the wire.
        ///
        /// Cheap to clone; clones are handles of the same object. Members are equal if their
        /// encoded bytes are equal. The object exists while it has members.
        #[doc(alias = "RGeo")]
        #[doc(alias = "RedissonGeo")]
        pub struct Geo<T, C $($codec)*> {
            pub(crate) object_ref: ObjectRef,
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
    /// Returns the object with this name.
    ///
    /// No request is sent: the first call reports an invalid name.
    pub fn new(client: &Client, name: impl AsRef<str>) -> Self {
        Geo { object_ref: ObjectRef::new(client, name), codec: C::default(), members: PhantomData }
    }
}

impl<T, C: Codec> Geo<T, C> {
    /// Returns a handle of the same name with another codec.
    pub fn with_codec<D: Codec>(self, codec: D) -> Geo<T, D> {
        Geo { object_ref: self.object_ref, codec, members: PhantomData }
    }

    /// Returns the [`Object`] of this name: existence, lifetime, other names, memory size.
    pub fn object(&self) -> Object {
        self.object_ref.object(alone)
    }

    /// Returns the number of members.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] states what failed and whether anything may have changed.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    #[doc(alias = "size")]
    pub async fn len(&self) -> Result<u64, ObjectError> {
        self.object_ref.read(self.object_ref.command("ZCARD")?).await
    }

    /// Returns whether there are no members.
    ///
    /// # Errors
    ///
    /// As for [`Geo::len`].
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    pub async fn is_empty(&self) -> Result<bool, ObjectError> {
        Ok(self.len().await? == 0)
    }

    /// Returns whether a member exists.
    ///
    /// # Errors
    ///
    /// As for [`Geo::len`].
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    pub async fn contains<Q: ?Sized>(&self, member: &Q) -> Result<bool, ObjectError>
    where
        T: Borrow<Q>,
        C: Encode<Q>,
    {
        let request = self.object_ref.command("ZSCORE")?.arg(self.object_ref.encoded(&self.codec, member)?);
        Ok(self.object_ref.read::<Option<f64>>(request).await?.is_some())
    }

    /// Returns the position of a member, to about 0.6 m; `None` if the member is absent.
    ///
    /// # Errors
    ///
    /// As for [`Geo::len`].
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    #[doc(alias = "pos")]
    pub async fn position<Q: ?Sized>(&self, member: &Q) -> Result<Option<Position>, ObjectError>
    where
        T: Borrow<Q>,
        C: Encode<Q>,
    {
        Ok(self.positions([member]).await?.pop().flatten())
    }

    /// Returns the positions of members, in their order, up to 500 or about 4 MiB a request.
    ///
    /// # Errors
    ///
    /// As for [`Geo::len`].
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    #[doc(alias = "pos")]
    pub async fn positions<'a, Q: ?Sized + 'a>(
        &self,
        members: impl IntoIterator<Item = &'a Q>,
    ) -> Result<Vec<Option<Position>>, ObjectError>
    where
        T: Borrow<Q>,
        C: Encode<Q>,
    {
        self.read_each("GEOPOS", members).await
    }

    /// Returns the geohash of a member, with 11 characters; `None` if the member is absent.
    ///
    /// # Errors
    ///
    /// As for [`Geo::len`].
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    #[doc(alias = "hash")]
    pub async fn geohash<Q: ?Sized>(&self, member: &Q) -> Result<Option<String>, ObjectError>
    where
        T: Borrow<Q>,
        C: Encode<Q>,
    {
        Ok(self.geohashes([member]).await?.pop().flatten())
    }

    /// Returns the geohashes of members, in their order, up to 500 or about 4 MiB a request.
    ///
    /// # Errors
    ///
    /// As for [`Geo::len`].
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    #[doc(alias = "hash")]
    pub async fn geohashes<'a, Q: ?Sized + 'a>(
        &self,
        members: impl IntoIterator<Item = &'a Q>,
    ) -> Result<Vec<Option<String>>, ObjectError>
    where
        T: Borrow<Q>,
        C: Encode<Q>,
    {
        self.read_each("GEOHASH", members).await
    }

    async fn read_each<'a, Q: ?Sized + 'a, R: FromReply>(
        &self,
        command: &'static str,
        members: impl IntoIterator<Item = &'a Q>,
    ) -> Result<Vec<Option<R>>, ObjectError>
    where
        C: Encode<Q>,
    {
        let members = self.object_ref.encoded_all(&self.codec, members)?;
        self.object_ref.read_chunks(&members, || self.object_ref.command(command)).await
    }

    /// Returns the distance between two members; `None` if one of them is absent.
    ///
    /// # Errors
    ///
    /// As for [`Geo::len`].
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    #[doc(alias = "dist")]
    pub async fn distance<Q: ?Sized>(&self, one: &Q, other: &Q) -> Result<Option<Distance>, ObjectError>
    where
        T: Borrow<Q>,
        C: Encode<Q>,
    {
        let (one, other) = (self.object_ref.encoded(&self.codec, one)?, self.object_ref.encoded(&self.codec, other)?);
        self.object_ref.read(self.object_ref.command("GEODIST")?.arg(one).arg(other).arg("m")).await
    }
}

impl<T, C: Clone> Clone for Geo<T, C> {
    fn clone(&self) -> Self {
        Geo { object_ref: self.object_ref.clone(), codec: self.codec.clone(), members: PhantomData }
    }
}

impl<T, C: fmt::Debug> fmt::Debug for Geo<T, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Geo").field("name", &self.object_ref.name()).field("codec", &self.codec).finish_non_exhaustive()
    }
}
