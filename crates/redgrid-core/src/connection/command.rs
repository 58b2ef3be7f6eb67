//! A command of any kind, put together key by key and argument by argument.

use bytes::Bytes;

use super::{Client, FromReply, Request};
use crate::error::ServerError;
use crate::name::{InvalidName, Name};

/// A command being put together. Nothing is sent before [`Command::query`].
#[must_use = "nothing is asked of the server until `query` is awaited"]
pub struct Command {
    pub(super) client: Client,
    pub(super) request: Request,
}

impl Command {
    /// Adds a key, behind the client's namespace. Keys come before arguments.
    ///
    /// # Errors
    ///
    /// [`InvalidName`] when it breaks the rules of names.
    pub fn key(mut self, name: impl AsRef<str>) -> Result<Self, InvalidName> {
        let key = self.client.key(&Name::of_key(name)?);
        self.request = self.request.key(key);
        Ok(self)
    }

    /// Adds an argument.
    pub fn arg(mut self, arg: impl Into<Bytes>) -> Self {
        self.request = self.request.arg(arg);
        self
    }

    /// Says that it may be sent again after a lost reply.
    pub fn idempotent(mut self) -> Self {
        self.request = self.request.idempotent();
        self
    }

    /// Says that it only reads: it goes to a replica where [`Config::read_mode`](crate::Config::read_mode) says so, and what
    /// it reads may be older than what the primary has.
    pub fn reads(mut self) -> Self {
        self.request = self.request.reads();
        self
    }

    /// Sends it and reads the reply.
    ///
    /// # Errors
    ///
    /// [`ServerError`] says whether it may have been carried out.
    ///
    /// # Cancel safety
    ///
    /// A command that has left is carried out although nobody waits for its reply.
    pub async fn query<T: FromReply>(self) -> Result<T, ServerError> {
        self.client.run(self.request).await
    }
}
