//! Where an object is, and how it is asked: what every type of object has inside.

use std::fmt;

use bytes::Bytes;
use redgrid_codecs::{Decode, Encode};

use super::{Layout, Object, ObjectError, parts};
use crate::connection::{Client, FromReply, Request};
use crate::fence::{Fence, Write};
use crate::name::{InvalidName, Name};
use crate::token::Token;

/// A client and a name, for types of objects: it keeps a name that can not be one until somebody asks, and tells what became of
/// requests in [`ObjectError`]s about this name.
#[derive(Clone)]
pub struct Place {
    client: Client,
    key: Result<(Name, Bytes), InvalidName>,
}

impl Place {
    /// Asks nobody.
    pub fn new(client: &Client, name: impl AsRef<str>) -> Place {
        let key = Name::new(name).map(|name| {
            let key = client.key(&name);
            (name, key)
        });
        Place { client: client.clone(), key }
    }

    /// The client.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// The name, and its key behind the client's namespace.
    ///
    /// # Errors
    ///
    /// [`ObjectError::InvalidName`].
    pub fn named(&self) -> Result<(&Name, &Bytes), ObjectError> {
        self.key.as_ref().map(|(name, key)| (name, key)).map_err(|invalid| invalid.clone().into())
    }

    /// The name, where it can be one.
    pub fn name(&self) -> Option<&Name> {
        self.key.as_ref().ok().map(|(name, _)| name)
    }

    /// What every object has, of one with these keys.
    pub fn object(&self, layout: Layout) -> Object {
        Object::with_layout(&self.client, self.key.clone().map(|(name, _)| name), layout)
    }

    /// The key of another object that one request takes together with its own.
    ///
    /// # Errors
    ///
    /// [`ObjectError::InvalidArgument`] where it is in another slot of a cluster, [`ObjectError::InvalidName`].
    pub fn beside(&self, option: &'static str, other: impl AsRef<str>) -> Result<Bytes, ObjectError> {
        let (name, key) = self.named()?;
        let other = self.client.key(&Name::new(other)?);
        if self.client.slot(key) == self.client.slot(&other) {
            return Ok(other);
        }
        let got = String::from_utf8_lossy(&other);
        Err(self.invalid(option, format_args!("one that shares a slot with `{name}`, as by a hash tag"), got))
    }

    /// An argument that can not be.
    pub fn invalid(&self, option: &'static str, expected: impl fmt::Display, got: impl fmt::Display) -> ObjectError {
        match self.named() {
            Ok((name, _)) => ObjectError::InvalidArgument {
                name: name.clone(),
                option,
                expected: expected.to_string(),
                got: got.to_string(),
            },
            Err(invalid) => invalid,
        }
    }

    /// A command on its key.
    ///
    /// # Errors
    ///
    /// [`ObjectError::InvalidName`].
    pub fn command(&self, name: &'static str) -> Result<Request, ObjectError> {
        Ok(Request::command(name).key(self.named()?.1.clone()))
    }

    /// What only reads, from a replica where the read mode says so.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] says what is true then.
    ///
    /// # Cancel safety
    ///
    /// Dropping it changes nothing.
    pub async fn read<T: FromReply>(&self, request: Request) -> Result<T, ObjectError> {
        self.ask(request.reads()).await
    }

    /// What only reads, from the primary.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] says what is true then.
    ///
    /// # Cancel safety
    ///
    /// Dropping it changes nothing.
    pub async fn ask<T: FromReply>(&self, request: Request) -> Result<T, ObjectError> {
        let (name, _) = self.named()?;
        self.client.run(request.idempotent()).await.map_err(|source| ObjectError::of_read(name, source))
    }

    /// What changes it: sent once, unless the request says that it may be sent again.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] says what is true then.
    ///
    /// # Cancel safety
    ///
    /// What has left is carried out although nobody waits for it.
    pub async fn change<T: FromReply>(&self, request: Request) -> Result<T, ObjectError> {
        let (name, _) = self.named()?;
        self.client.run(request).await.map_err(|source| ObjectError::of(name, source))
    }

    /// Writes under the fence of its own name; tells what the write did.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] says what is true then.
    ///
    /// # Cancel safety
    ///
    /// What has left is carried out although nobody waits for it.
    pub async fn fenced(&self, write: Write, token: Token) -> Result<i64, ObjectError> {
        let (name, _) = self.named()?;
        self.fenced_by(&Fence::new(&self.client, name.as_str()), write, token).await
    }

    /// The same under another fence.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] says what is true then.
    ///
    /// # Cancel safety
    ///
    /// What has left is carried out although nobody waits for it.
    pub async fn fenced_by(&self, fence: &Fence, write: Write, token: Token) -> Result<i64, ObjectError> {
        let (name, _) = self.named()?;
        let outcome = fence.write(name.as_str(), write, token).await;
        outcome.map_err(|source| ObjectError::of_fence(name, source))
    }

    /// A value as its codec writes it.
    ///
    /// # Errors
    ///
    /// [`ObjectError::Encode`], or that of the name.
    pub fn encoded<T: ?Sized>(&self, codec: &impl Encode<T>, value: &T) -> Result<Bytes, ObjectError> {
        let (name, _) = self.named()?;
        codec.encode(value).map_err(|source| ObjectError::encode(name, codec.name(), source))
    }

    /// Values as their codec writes them, in their order.
    ///
    /// # Errors
    ///
    /// As [`Place::encoded`], of the first.
    pub fn encoded_all<'a, T: ?Sized + 'a>(
        &self,
        codec: &impl Encode<T>,
        values: impl IntoIterator<Item = &'a T>,
    ) -> Result<Vec<Bytes>, ObjectError> {
        values.into_iter().map(|value| self.encoded(codec, value)).collect()
    }

    /// Changes by one request for each part of some values, which are behind what `request` makes; tells the sum of what they tell. After an
    /// error those of some parts may be carried out.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] says what is true then, of the part at which it ends.
    ///
    /// # Cancel safety
    ///
    /// What has left is carried out although nobody waits for it.
    pub async fn change_parts(
        &self,
        values: &[Bytes],
        request: impl Fn() -> Result<Request, ObjectError>,
    ) -> Result<u64, ObjectError> {
        let mut sum = 0;
        for part in parts(values, Bytes::len) {
            sum += self.change::<u64>(part.iter().cloned().fold(request()?, Request::arg)).await?;
        }
        Ok(sum)
    }

    /// Reads by one request for each part of some values, which are behind what `request` makes; tells all that they tell.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] says what is true then.
    ///
    /// # Cancel safety
    ///
    /// Dropping it changes nothing.
    pub async fn read_parts<T: FromReply>(
        &self,
        values: &[Bytes],
        request: impl Fn() -> Result<Request, ObjectError>,
    ) -> Result<Vec<T>, ObjectError> {
        let mut all = Vec::with_capacity(values.len());
        for part in parts(values, Bytes::len) {
            all.extend(self.read::<Vec<T>>(part.iter().cloned().fold(request()?, Request::arg)).await?);
        }
        Ok(all)
    }

    /// What a codec makes of some bytes; `field` says where in the object they are, if it has several values.
    ///
    /// # Errors
    ///
    /// [`ObjectError::Decode`], or that of the name.
    pub fn decoded<T>(
        &self,
        codec: &impl Decode<T>,
        bytes: &Bytes,
        field: impl FnOnce() -> Option<String>,
    ) -> Result<T, ObjectError> {
        let (name, _) = self.named()?;
        codec.decode(bytes).map_err(|source| ObjectError::decode(name, field(), codec.name(), source))
    }
}

impl fmt::Debug for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Place").field("name", &self.name()).finish_non_exhaustive()
    }
}
