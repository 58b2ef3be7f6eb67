//! The client and the key of an object, and the requests that every type of object sends.

use std::fmt;

use bytes::Bytes;
use redgrid_client::{Client, FromReply, Request};
use redgrid_codecs::{Decode, Encode};

use super::{Layout, Object, ObjectError, chunks};
use crate::fence::{Fence, Write};
use crate::name::{InvalidName, Name};
use crate::token::Token;

/// The client and the name of an object, with methods that send requests about the object. For
/// authors of object types.
///
/// An invalid name is reported by the first request. Errors of requests are [`ObjectError`]s that
/// contain the name.
#[derive(Clone)]
pub struct ObjectRef {
    client: Client,
    key: Result<(Name, Bytes), InvalidName>,
}

impl ObjectRef {
    /// Creates the handle. No request is sent.
    pub fn new(client: &Client, name: impl AsRef<str>) -> ObjectRef {
        let key = Name::new(name).map(|name| {
            let key = client.key(&name);
            (name, key)
        });
        ObjectRef { client: client.clone(), key }
    }

    /// Returns the client.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Returns the name, and the object's key: the client's namespace followed by the name.
    ///
    /// # Errors
    ///
    /// [`Failure::InvalidName`](crate::Failure::InvalidName).
    pub fn name_and_key(&self) -> Result<(&Name, &Bytes), ObjectError> {
        self.key.as_ref().map(|(name, key)| (name, key)).map_err(|invalid| invalid.clone().into())
    }

    /// Returns the name, if it is valid.
    pub fn name(&self) -> Option<&Name> {
        self.key.as_ref().ok().map(|(name, _)| name)
    }

    /// Returns the [`Object`] with the keys of `layout`, for the operations that all types of
    /// objects share.
    pub fn object(&self, layout: Layout) -> Object {
        Object::with_layout(&self.client, self.key.clone().map(|(name, _)| name), layout)
    }

    /// Returns the key of the object with the name `other`, for a request that uses the keys of
    /// both objects. `option` is the name of the argument `other` in error messages.
    ///
    /// # Errors
    ///
    /// [`Failure::InvalidArgument`](crate::Failure::InvalidArgument) if `other` is in another slot
    /// of a cluster, [`Failure::InvalidName`](crate::Failure::InvalidName) if a name is invalid.
    pub fn same_slot_key(&self, option: &'static str, other: impl AsRef<str>) -> Result<Bytes, ObjectError> {
        let (name, key) = self.name_and_key()?;
        let other = self.client.key(&Name::new(other)?);
        if self.client.slot(key) == self.client.slot(&other) {
            return Ok(other);
        }
        let got = String::from_utf8_lossy(&other);
        Err(self.invalid(option, format_args!("a name in the slot of `{name}` (give both one hash tag)"), got))
    }

    /// Returns the error for an argument that is not allowed.
    pub fn invalid(&self, option: &'static str, expected: impl fmt::Display, got: impl fmt::Display) -> ObjectError {
        match self.name_and_key() {
            Ok((name, _)) => ObjectError::invalid_argument(name, option, expected.to_string(), got),
            Err(invalid) => invalid,
        }
    }

    /// Returns a request that applies the command `name` to the object's key.
    ///
    /// # Errors
    ///
    /// [`Failure::InvalidName`](crate::Failure::InvalidName).
    pub fn command(&self, name: &'static str) -> Result<Request, ObjectError> {
        Ok(Request::command(name).key(self.name_and_key()?.1.clone()))
    }

    /// Sends a read-only request. A replica can answer it if the client's read mode allows this.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] if the request fails.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    pub async fn read<T: FromReply>(&self, request: Request) -> Result<T, ObjectError> {
        self.read_primary(request.reads()).await
    }

    /// Sends a read-only request to the primary.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] if the request fails.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    pub async fn read_primary<T: FromReply>(&self, request: Request) -> Result<T, ObjectError> {
        let (name, _) = self.name_and_key()?;
        self.client.run(request.idempotent()).await.map_err(|source| ObjectError::of_read(name, source))
    }

    /// Sends a request that changes the object.
    ///
    /// The request is sent once, unless it is marked as idempotent.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] says whether the request may have been executed.
    ///
    /// # Cancel safety
    ///
    /// A request that was sent is executed even if the future is dropped.
    pub async fn change<T: FromReply>(&self, request: Request) -> Result<T, ObjectError> {
        let (name, _) = self.name_and_key()?;
        self.client.run(request).await.map_err(|source| ObjectError::of(name, source))
    }

    /// Executes a write if the [`Fence`] with the object's own name accepts `token`. Returns the
    /// result of the write, as [`Fence::write`] does.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] says whether the write may have been executed.
    ///
    /// # Cancel safety
    ///
    /// A request that was sent is executed even if the future is dropped.
    pub async fn fenced(&self, write: Write, token: Token) -> Result<i64, ObjectError> {
        let (name, _) = self.name_and_key()?;
        self.fenced_by(&Fence::new(&self.client, name.as_str()), write, token).await
    }

    /// Executes a write if `fence` accepts `token`. Returns the result of the write, as
    /// [`Fence::write`] does.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] says whether the write may have been executed.
    ///
    /// # Cancel safety
    ///
    /// A request that was sent is executed even if the future is dropped.
    pub async fn fenced_by(&self, fence: &Fence, write: Write, token: Token) -> Result<i64, ObjectError> {
        let (name, _) = self.name_and_key()?;
        let outcome = fence.write(name.as_str(), write, token).await;
        outcome.map_err(|source| ObjectError::of_fence(name, source))
    }

    /// Encodes a value with `codec`.
    ///
    /// # Errors
    ///
    /// [`ObjectError::Encode`], or [`Failure::InvalidName`](crate::Failure::InvalidName).
    pub fn encoded<C: Encode<Q>, Q: ?Sized>(&self, codec: &C, value: &Q) -> Result<Bytes, ObjectError> {
        let (name, _) = self.name_and_key()?;
        codec.encode(value).map_err(|source| ObjectError::encode(name, codec.name(), source))
    }

    /// Encodes all values with `codec`, and keeps their order.
    ///
    /// # Errors
    ///
    /// As for [`ObjectRef::encoded`]: the error of the first value that cannot be encoded.
    pub fn encoded_all<'a, C, Q: ?Sized + 'a>(
        &self,
        codec: &C,
        values: impl IntoIterator<Item = &'a Q>,
    ) -> Result<Vec<Bytes>, ObjectError>
    where
        C: Encode<Q>,
    {
        values.into_iter().map(|value| self.encoded(codec, value)).collect()
    }

    /// Changes the object by one request for each chunk of `values`. Returns the sum of the
    /// replies.
    ///
    /// `request` creates a request, to which the values of a chunk are added as arguments. If a
    /// request fails, the requests for the earlier chunks have already been executed.
    ///
    /// # Errors
    ///
    /// The [`ObjectError`] of the chunk that failed.
    ///
    /// # Cancel safety
    ///
    /// A request that was sent is executed even if the future is dropped.
    pub async fn change_chunks(
        &self,
        values: &[Bytes],
        request: impl Fn() -> Result<Request, ObjectError>,
    ) -> Result<u64, ObjectError> {
        let mut sum = 0;
        for chunk in chunks(values, Bytes::len) {
            sum += self.change::<u64>(chunk.iter().cloned().fold(request()?, Request::arg)).await?;
        }
        Ok(sum)
    }

    /// Sends one read-only request for each chunk of `values`. Returns all replies.
    ///
    /// `request` creates a request, to which the values of a chunk are added as arguments.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] if the request fails.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    pub async fn read_chunks<T: FromReply>(
        &self,
        values: &[Bytes],
        request: impl Fn() -> Result<Request, ObjectError>,
    ) -> Result<Vec<T>, ObjectError> {
        let mut all = Vec::with_capacity(values.len());
        for chunk in chunks(values, Bytes::len) {
            all.extend(self.read::<Vec<T>>(chunk.iter().cloned().fold(request()?, Request::arg)).await?);
        }
        Ok(all)
    }

    /// Decodes a value with `codec`.
    ///
    /// If decoding fails, `field` is called for the error message. The function `field` returns the
    /// position of the value in the object, or `None` if the object has a single value.
    ///
    /// # Errors
    ///
    /// [`ObjectError::Decode`], or [`Failure::InvalidName`](crate::Failure::InvalidName).
    pub fn decoded<T>(
        &self,
        codec: &impl Decode<T>,
        bytes: &Bytes,
        field: impl FnOnce() -> Option<String>,
    ) -> Result<T, ObjectError> {
        let (name, _) = self.name_and_key()?;
        codec.decode(bytes).map_err(|source| ObjectError::decode(name, field(), codec.name(), source))
    }
}

crate::debug_fields!(ObjectRef, |it| name: it.name());
