//! Members that come, move and go.

use std::borrow::Borrow;

use redgrid_codecs::{Codec, Encode};
use redgrid_core::object::{ObjectError, parts};
use redgrid_core::{Request, Script};

use crate::geo::Geo;
use crate::position::Position;

static ADD_IF_EXISTS: Script<1> = Script::new("geo/add_if_exists", include_str!("scripts/add_if_exists.lua"));

impl<T, C: Codec> Geo<T, C> {
    /// Puts a member at this place, wherever it was; tells whether it is new.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] says what is true then.
    ///
    /// # Cancel safety
    ///
    /// What has left is carried out although nobody waits for it.
    pub async fn add<Q: ?Sized>(&self, member: &Q, at: Position) -> Result<bool, ObjectError>
    where
        T: Borrow<Q>,
        C: Encode<Q>,
    {
        Ok(self.add_many([(member, at)]).await? > 0)
    }

    /// The same of many, 500 or about 4 MiB at a time; tells how many are new.
    ///
    /// # Errors
    ///
    /// As [`Geo::add`]; some may be done.
    ///
    /// # Cancel safety
    ///
    /// As [`Geo::add`].
    #[doc(alias = "add")]
    pub async fn add_many<'a, Q: ?Sized + 'a>(
        &self,
        members: impl IntoIterator<Item = (&'a Q, Position)>,
    ) -> Result<u64, ObjectError>
    where
        T: Borrow<Q>,
        C: Encode<Q>,
    {
        self.each_placed(members, || self.place.command("GEOADD")).await
    }

    /// Puts a member at this place if it is not in it; tells whether it did.
    ///
    /// # Errors
    ///
    /// As [`Geo::add`].
    ///
    /// # Cancel safety
    ///
    /// As [`Geo::add`].
    #[doc(alias = "tryAdd")]
    pub async fn add_if_absent<Q: ?Sized>(&self, member: &Q, at: Position) -> Result<bool, ObjectError>
    where
        T: Borrow<Q>,
        C: Encode<Q>,
    {
        Ok(self.add_many_if_absent([(member, at)]).await? > 0)
    }

    /// The same of many, 500 or about 4 MiB at a time; tells of how many it did.
    ///
    /// # Errors
    ///
    /// As [`Geo::add_many`].
    ///
    /// # Cancel safety
    ///
    /// As [`Geo::add`].
    #[doc(alias = "tryAdd")]
    pub async fn add_many_if_absent<'a, Q: ?Sized + 'a>(
        &self,
        members: impl IntoIterator<Item = (&'a Q, Position)>,
    ) -> Result<u64, ObjectError>
    where
        T: Borrow<Q>,
        C: Encode<Q>,
    {
        self.each_placed(members, || Ok(self.place.command("GEOADD")?.arg("NX"))).await
    }

    /// Moves a member to this place if it is in it; tells whether it is.
    ///
    /// # Errors
    ///
    /// As [`Geo::add`].
    ///
    /// # Cancel safety
    ///
    /// As [`Geo::add`].
    #[doc(alias = "addIfExists")]
    pub async fn add_if_exists<Q: ?Sized>(&self, member: &Q, at: Position) -> Result<bool, ObjectError>
    where
        T: Borrow<Q>,
        C: Encode<Q>,
    {
        Ok(self.add_many_if_exists([(member, at)]).await? > 0)
    }

    /// The same of many, 500 or about 4 MiB at a time; tells how many are in it.
    ///
    /// # Errors
    ///
    /// As [`Geo::add_many`].
    ///
    /// # Cancel safety
    ///
    /// As [`Geo::add`].
    #[doc(alias = "addIfExists")]
    pub async fn add_many_if_exists<'a, Q: ?Sized + 'a>(
        &self,
        members: impl IntoIterator<Item = (&'a Q, Position)>,
    ) -> Result<u64, ObjectError>
    where
        T: Borrow<Q>,
        C: Encode<Q>,
    {
        self.each_placed(members, || Ok(ADD_IF_EXISTS.with([self.place.named()?.1.clone()]))).await
    }

    async fn each_placed<'a, Q: ?Sized + 'a>(
        &self,
        members: impl IntoIterator<Item = (&'a Q, Position)>,
        request: impl Fn() -> Result<Request, ObjectError>,
    ) -> Result<u64, ObjectError>
    where
        C: Encode<Q>,
    {
        let members = members.into_iter().map(|(member, at)| Ok((self.place.encoded(&self.codec, member)?, at)));
        let (members, mut sum) = (members.collect::<Result<Vec<_>, ObjectError>>()?, 0);
        for part in parts(&members, |(member, _)| member.len()) {
            let request = part.iter().fold(request()?, |request, (member, at)| {
                at.written().into_iter().fold(request, Request::arg).arg(member.clone())
            });
            sum += self.place.change::<u64>(request).await?;
        }
        Ok(sum)
    }

    /// Removes a member; tells whether it was in it.
    ///
    /// # Errors
    ///
    /// As [`Geo::add`].
    ///
    /// # Cancel safety
    ///
    /// As [`Geo::add`].
    pub async fn remove<Q: ?Sized>(&self, member: &Q) -> Result<bool, ObjectError>
    where
        T: Borrow<Q>,
        C: Encode<Q>,
    {
        Ok(self.remove_many([member]).await? > 0)
    }

    /// The same of many, 500 or about 4 MiB at a time; tells how many were in it.
    ///
    /// # Errors
    ///
    /// As [`Geo::add_many`].
    ///
    /// # Cancel safety
    ///
    /// As [`Geo::add`].
    #[doc(alias = "removeAll")]
    pub async fn remove_many<'a, Q: ?Sized + 'a>(
        &self,
        members: impl IntoIterator<Item = &'a Q>,
    ) -> Result<u64, ObjectError>
    where
        T: Borrow<Q>,
        C: Encode<Q>,
    {
        let members = self.place.encoded_all(&self.codec, members)?;
        self.place.change_parts(&members, || self.place.command("ZREM")).await
    }

    /// Removes all members, in one step; tells whether there were any.
    ///
    /// # Errors
    ///
    /// As [`Geo::add`].
    ///
    /// # Cancel safety
    ///
    /// As [`Geo::add`].
    pub async fn clear(&self) -> Result<bool, ObjectError> {
        self.place.change(self.place.command("DEL")?).await
    }
}
