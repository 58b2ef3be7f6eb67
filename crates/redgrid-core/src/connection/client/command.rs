//! A builder for any command, key by key and argument by argument.

use crate::arg::IntoArg;
use crate::connection::{Client, FromReply, Request};
use crate::error::ServerError;
use crate::name::{InvalidName, Name};

/// Builds a command. Nothing is sent before [`Command::query`].
#[must_use = "does nothing until `query` is awaited"]
pub struct Command {
    pub(in crate::connection) client: Client,
    pub(in crate::connection) request: Request,
}

impl Command {
    /// Adds a key, prefixed with the client's namespace. Keys come before arguments.
    ///
    /// # Errors
    ///
    /// [`InvalidName`] when the name breaks the rules for names.
    pub fn key(mut self, name: impl AsRef<str>) -> Result<Self, InvalidName> {
        let key = self.client.key(&Name::of_key(name)?);
        self.request = self.request.key(key);
        Ok(self)
    }

    /// Adds an argument.
    pub fn arg(mut self, arg: impl IntoArg) -> Self {
        self.request = self.request.arg(arg.into_arg());
        self
    }

    /// Marks the command as safe to send again after a lost reply.
    pub fn idempotent(mut self) -> Self {
        self.request = self.request.idempotent();
        self
    }

    /// Marks the command as read-only. It goes to a replica if
    /// [`Config::read_mode`](crate::Config::read_mode) says so.
    ///
    /// The value that a replica returns may be older than the primary's.
    pub fn reads(mut self) -> Self {
        self.request = self.request.reads();
        self
    }

    /// Sends the command and converts the reply.
    ///
    /// # Errors
    ///
    /// [`ServerError`] says whether the command may have been executed.
    ///
    /// # Cancel safety
    ///
    /// A command that was sent is executed even if the future is dropped.
    pub async fn query<T: FromReply>(self) -> Result<T, ServerError> {
        self.client.run(self.request).await
    }
}
