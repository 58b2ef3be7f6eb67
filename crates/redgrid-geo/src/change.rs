//! Addition, movement and removal of members.

use redgrid_codecs::{Codec, Encode, EncodesFor};
use redgrid_core::object::{ObjectError, chunks};
use redgrid_core::{Request, Script};

use crate::geo::Geo;
use crate::position::Position;

static ADD_IF_EXISTS: Script<1> = Script::new("geo/add_if_exists", include_str!("scripts/add_if_exists.lua"));

impl<T, C: Codec> Geo<T, C> {
    /// Sets the position of a member, which may be new. Returns whether it is new.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] states what failed and whether anything may have changed.
    ///
    /// # Cancel safety
    ///
    /// A request that was already sent is executed even if the future is dropped.
    pub async fn add<Q: ?Sized>(&self, member: &Q, at: Position) -> Result<bool, ObjectError>
    where
        C: EncodesFor<T, Q>,
    {
        Ok(self.add_many([(member, at)]).await? > 0)
    }

    /// Sets the positions of members, which may be new. A request contains up to 500 members or
    /// about 4 MiB. Returns the number of new members.
    ///
    /// # Errors
    ///
    /// As for [`Geo::add`]. Some of the members may have been added.
    ///
    /// # Cancel safety
    ///
    /// As for [`Geo::add`].
    #[doc(alias = "add")]
    pub async fn add_many<'a, Q: ?Sized + 'a>(
        &self,
        members: impl IntoIterator<Item = (&'a Q, Position)>,
    ) -> Result<u64, ObjectError>
    where
        C: EncodesFor<T, Q>,
    {
        self.send_positions(members, || self.object_ref.command("GEOADD")).await
    }

    /// Adds a member if it is absent. Returns whether it was added.
    ///
    /// # Errors and cancel safety
    ///
    /// As for [`Geo::add`].
    #[doc(alias = "tryAdd")]
    pub async fn add_if_absent<Q: ?Sized>(&self, member: &Q, at: Position) -> Result<bool, ObjectError>
    where
        C: EncodesFor<T, Q>,
    {
        Ok(self.add_many_if_absent([(member, at)]).await? > 0)
    }

    /// Adds the members that are absent. A request contains up to 500 members or about 4 MiB.
    /// Returns the number of added members.
    ///
    /// # Errors and cancel safety
    ///
    /// As for [`Geo::add_many`].
    #[doc(alias = "tryAdd")]
    pub async fn add_many_if_absent<'a, Q: ?Sized + 'a>(
        &self,
        members: impl IntoIterator<Item = (&'a Q, Position)>,
    ) -> Result<u64, ObjectError>
    where
        C: EncodesFor<T, Q>,
    {
        self.send_positions(members, || Ok(self.object_ref.command("GEOADD")?.arg("NX"))).await
    }

    /// Sets the position of a member if it exists. Returns whether it exists.
    ///
    /// # Errors and cancel safety
    ///
    /// As for [`Geo::add`].
    #[doc(alias = "addIfExists")]
    pub async fn add_if_exists<Q: ?Sized>(&self, member: &Q, at: Position) -> Result<bool, ObjectError>
    where
        C: EncodesFor<T, Q>,
    {
        Ok(self.add_many_if_exists([(member, at)]).await? > 0)
    }

    /// Sets the positions of the members that exist. A request contains up to 500 members or about
    /// 4 MiB. Returns the number of these members.
    ///
    /// # Errors and cancel safety
    ///
    /// As for [`Geo::add_many`].
    #[doc(alias = "addIfExists")]
    pub async fn add_many_if_exists<'a, Q: ?Sized + 'a>(
        &self,
        members: impl IntoIterator<Item = (&'a Q, Position)>,
    ) -> Result<u64, ObjectError>
    where
        C: EncodesFor<T, Q>,
    {
        self.send_positions(members, || Ok(ADD_IF_EXISTS.with([self.object_ref.name_and_key()?.1.clone()]))).await
    }

    async fn send_positions<'a, Q: ?Sized + 'a>(
        &self,
        members: impl IntoIterator<Item = (&'a Q, Position)>,
        request: impl Fn() -> Result<Request, ObjectError>,
    ) -> Result<u64, ObjectError>
    where
        C: Encode<Q>,
    {
        let members = members.into_iter().map(|(member, at)| Ok((self.object_ref.encoded(&self.codec, member)?, at)));
        let (members, mut sum) = (members.collect::<Result<Vec<_>, ObjectError>>()?, 0);
        for chunk in chunks(&members, |(member, _)| member.len()) {
            let request = chunk.iter().fold(request()?, |request, (member, at)| {
                at.encode().into_iter().fold(request, Request::arg).arg(member.clone())
            });
            sum += self.object_ref.change::<u64>(request).await?;
        }
        Ok(sum)
    }

    /// Removes a member. Returns whether it existed.
    ///
    /// # Errors and cancel safety
    ///
    /// As for [`Geo::add`].
    pub async fn remove<Q: ?Sized>(&self, member: &Q) -> Result<bool, ObjectError>
    where
        C: EncodesFor<T, Q>,
    {
        Ok(self.remove_many([member]).await? > 0)
    }

    /// Removes members, up to 500 or about 4 MiB a request. Returns the number of members that
    /// existed.
    ///
    /// # Errors and cancel safety
    ///
    /// As for [`Geo::add_many`].
    #[doc(alias = "removeAll")]
    pub async fn remove_many<'a, Q: ?Sized + 'a>(
        &self,
        members: impl IntoIterator<Item = &'a Q>,
    ) -> Result<u64, ObjectError>
    where
        C: EncodesFor<T, Q>,
    {
        let members = self.object_ref.encoded_all(&self.codec, members)?;
        self.object_ref.change_chunks(&members, || self.object_ref.command("ZREM")).await
    }

    /// Removes all members, in one step. Returns whether there were any.
    ///
    /// # Errors and cancel safety
    ///
    /// As for [`Geo::add`].
    pub async fn clear(&self) -> Result<bool, ObjectError> {
        self.object_ref.change(self.object_ref.command("DEL")?).await
    }
}
