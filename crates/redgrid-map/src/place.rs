//! Where a map is, and how it is asked.

use bytes::Bytes;
use redgrid_codecs::{Decode, Encode};
use redgrid_core::fence::{Fence, Write};
use redgrid_core::name::InvalidName;
use redgrid_core::object::{Object, ObjectError, alone, fence};
use redgrid_core::{Client, FromReply, Name, Request, Token};

#[derive(Clone)]
pub(crate) struct Place {
    pub(crate) client: Client,
    key: Result<(Name, Bytes), InvalidName>,
}

impl Place {
    pub(crate) fn new(client: &Client, name: impl AsRef<str>) -> Place {
        let key = Name::new(name).map(|name| {
            let key = client.key(&name);
            (name, key)
        });
        Place { client: client.clone(), key }
    }

    pub(crate) fn named(&self) -> Result<(&Name, &Bytes), ObjectError> {
        self.key.as_ref().map(|(name, key)| (name, key)).map_err(|invalid| invalid.clone().into())
    }

    pub(crate) fn name(&self) -> Option<&Name> {
        self.key.as_ref().ok().map(|(name, _)| name)
    }

    pub(crate) fn object(&self) -> Object {
        Object::with_layout(&self.client, self.key.clone().map(|(name, _)| name), alone).and_along(fence)
    }

    /// A command on the map.
    pub(crate) fn command(&self, name: &'static str) -> Result<Request, ObjectError> {
        Ok(Request::command(name).key(self.named()?.1.clone()))
    }

    /// What only reads, from a replica where the read mode says so.
    pub(crate) async fn read<T: FromReply>(&self, request: Request) -> Result<T, ObjectError> {
        self.ask(request.reads()).await
    }

    /// What only reads, from the primary.
    pub(crate) async fn ask<T: FromReply>(&self, request: Request) -> Result<T, ObjectError> {
        let (name, _) = self.named()?;
        self.client.run(request.idempotent()).await.map_err(|source| ObjectError::of_read(name, source))
    }

    pub(crate) async fn change<T: FromReply>(&self, request: Request) -> Result<T, ObjectError> {
        let (name, _) = self.named()?;
        self.client.run(request).await.map_err(|source| ObjectError::of(name, source))
    }

    /// Writes under the fence of its own name.
    pub(crate) async fn fenced(&self, write: Write, token: Token) -> Result<i64, ObjectError> {
        let (name, _) = self.named()?;
        let outcome = Fence::new(&self.client, name.as_str()).write(name.as_str(), write, token).await;
        outcome.map_err(|source| ObjectError::of_fence(name, source))
    }

    pub(crate) fn encoded<T: ?Sized>(&self, codec: &impl Encode<T>, value: &T) -> Result<Bytes, ObjectError> {
        let (name, _) = self.named()?;
        codec.encode(value).map_err(|source| ObjectError::encode(name, codec.name(), source))
    }

    /// What a codec makes of some bytes; `field` says of what in the map they are.
    pub(crate) fn decoded<T>(
        &self,
        codec: &impl Decode<T>,
        bytes: &Bytes,
        field: impl FnOnce() -> String,
    ) -> Result<T, ObjectError> {
        let (name, _) = self.named()?;
        codec.decode(bytes).map_err(|source| ObjectError::decode(name, Some(field()), codec.name(), source))
    }
}

/// A key as it is shown in errors: its first 64 characters.
pub(crate) fn shown(key: &[u8]) -> String {
    let text = String::from_utf8_lossy(key);
    format!("the key `{}`", text.chars().take(64).collect::<String>().escape_debug())
}
