//! Requests of users: a builder for any command, and script calls.

use crate::arg::IntoArg;
use crate::clock::Instant;
use crate::connection::{Client, Core, FromReply, Request, RetryPolicy};
use crate::error::ServerError;
use crate::name::{InvalidName, Name};

impl Client {
    /// Starts building a command of any kind, key by key and argument by argument.
    ///
    /// ```no_run
    /// # async fn demo(client: &redgrid_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// client.command("SET").key("greeting")?.arg("hello").query::<()>().await?;
    /// let text: Option<String> = client.command("GET").key("greeting")?.query().await?;
    /// # Ok(()) }
    /// ```
    pub fn command(&self, name: impl IntoArg) -> Command {
        Command { client: self.clone(), request: Request::command(name.into_arg()) }
    }

    /// Sends a request, usually a script call, and reads its reply as `T`.
    ///
    /// Without a connection the request is retried until `response_timeout × (retries + 1)` has
    /// passed. After a lost reply it is retried only if it is [`idempotent`](Request::idempotent).
    ///
    /// # Errors
    ///
    /// [`ServerError`] says whether the request may have been executed.
    ///
    /// # Cancel safety
    ///
    /// A request that was sent is executed even if this future is dropped.
    pub async fn run<T: FromReply>(&self, request: Request) -> Result<T, ServerError> {
        let core = self.core();
        core.run_with(request, core.clock.now() + core.settings.patience(), RetryPolicy::Retries).await
    }
}

impl Core {
    /// Sends a request until it is answered or `until` has passed, and reads its reply as `T`.
    pub async fn run_with<T: FromReply>(
        &self,
        request: Request,
        until: Instant,
        persistence: RetryPolicy,
    ) -> Result<T, ServerError> {
        if self.life.is_closed() {
            return Err(self.life.why());
        }
        if self.clock.now() >= until {
            return Err(ServerError::not_sent("its time limit ended before it was sent"));
        }
        let answer = self.ask(request, until, persistence).await;
        answer.map_err(|error| self.hinted(error)).and_then(FromReply::from_reply)
    }
}

/// Builds a command. Nothing is sent before [`Command::query`].
#[must_use = "does nothing until `query` is awaited"]
pub struct Command {
    client: Client,
    request: Request,
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

    /// Marks the command as read-only. [`Config::read_mode`](crate::Config::read_mode) decides
    /// whether it is sent to a replica.
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
