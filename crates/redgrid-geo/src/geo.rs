//! Members with positions: construction and reads.

use redgrid_codecs::{Codec, Encode, EncodesFor};
use redgrid_core::FromReply;
use redgrid_core::object::{ObjectError, alone};

use crate::position::{Distance, Position};

redgrid_core::value_object! {
    /// Members with positions on the globe, shared by all processes that reach the same server.
    ///
    /// On the wire it is Redisson's `RGeo`.
    ///
    /// It is cheap to clone; clones are handles of the same object. Members are equal if their
    /// encoded bytes are equal. The object exists while it has members.
    #[doc(alias = "RGeo")]
    #[doc(alias = "RedissonGeo")]
    pub struct Geo;

    |object_ref| object_ref.object(alone)
}

impl<T, C: Codec> Geo<T, C> {
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
    /// # Errors and cancel safety
    ///
    /// As for [`Geo::len`].
    pub async fn is_empty(&self) -> Result<bool, ObjectError> {
        Ok(self.len().await? == 0)
    }

    /// Returns whether a member exists.
    ///
    /// # Errors and cancel safety
    ///
    /// As for [`Geo::len`].
    pub async fn contains<Q: ?Sized>(&self, member: &Q) -> Result<bool, ObjectError>
    where
        C: EncodesFor<T, Q>,
    {
        let request = self.object_ref.command("ZSCORE")?.arg(self.object_ref.encoded(&self.codec, member)?);
        Ok(self.object_ref.read::<Option<f64>>(request).await?.is_some())
    }

    /// Returns the position of a member, with a precision of about 0.6 m; `None` if the member is
    /// absent.
    ///
    /// # Errors and cancel safety
    ///
    /// As for [`Geo::len`].
    #[doc(alias = "pos")]
    pub async fn position<Q: ?Sized>(&self, member: &Q) -> Result<Option<Position>, ObjectError>
    where
        C: EncodesFor<T, Q>,
    {
        Ok(self.positions([member]).await?.pop().flatten())
    }

    /// Returns the positions of members, in their order, up to 500 or about 4 MiB a request.
    ///
    /// # Errors and cancel safety
    ///
    /// As for [`Geo::len`].
    #[doc(alias = "pos")]
    pub async fn positions<'a, Q: ?Sized + 'a>(
        &self,
        members: impl IntoIterator<Item = &'a Q>,
    ) -> Result<Vec<Option<Position>>, ObjectError>
    where
        C: EncodesFor<T, Q>,
    {
        self.read_each("GEOPOS", members).await
    }

    /// Returns the geohash of a member, with 11 characters; `None` if the member is absent.
    ///
    /// # Errors and cancel safety
    ///
    /// As for [`Geo::len`].
    #[doc(alias = "hash")]
    pub async fn geohash<Q: ?Sized>(&self, member: &Q) -> Result<Option<String>, ObjectError>
    where
        C: EncodesFor<T, Q>,
    {
        Ok(self.geohashes([member]).await?.pop().flatten())
    }

    /// Returns the geohashes of members, in their order, up to 500 or about 4 MiB a request.
    ///
    /// # Errors and cancel safety
    ///
    /// As for [`Geo::len`].
    #[doc(alias = "hash")]
    pub async fn geohashes<'a, Q: ?Sized + 'a>(
        &self,
        members: impl IntoIterator<Item = &'a Q>,
    ) -> Result<Vec<Option<String>>, ObjectError>
    where
        C: EncodesFor<T, Q>,
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
    /// # Errors and cancel safety
    ///
    /// As for [`Geo::len`].
    #[doc(alias = "dist")]
    pub async fn distance<Q: ?Sized>(&self, one: &Q, other: &Q) -> Result<Option<Distance>, ObjectError>
    where
        C: EncodesFor<T, Q>,
    {
        let (one, other) = (self.object_ref.encoded(&self.codec, one)?, self.object_ref.encoded(&self.codec, other)?);
        self.object_ref.read(self.object_ref.command("GEODIST")?.arg(one).arg(other).arg("m")).await
    }
}
