//! Requests, each retried until its deadline.

use super::Client;
use crate::arg::IntoArg;
use crate::author::ClientExt;
use crate::clock::Instant;
use crate::connection::retry::RetryPolicy;
use crate::connection::{Command, FromReply, Request};
use crate::error::ServerError;

impl Client {
    /// Starts building a command of any kind, key by key and argument by argument.
    ///
    /// ```no_run
    /// # async fn demo(client: &redgrid_core::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// client.command("SET").key("greeting")?.arg("hello").query::<()>().await?;
    /// let text: Option<String> = client.command("GET").key("greeting")?.query().await?;
    /// # Ok(()) }
    /// ```
    pub fn command(&self, name: impl IntoArg) -> Command {
        Command { client: self.clone(), request: Request::command(name.into_arg()) }
    }

    /// Sends a request, usually a script call, and reads its reply as `T`.
    ///
    /// Without a connection the request is retried until `response_timeout × (retries + 1)` has passed.
    /// After a lost reply it is retried only if it is [`idempotent`](Request::idempotent).
    ///
    /// # Errors
    ///
    /// [`ServerError`] says whether the request may have been executed.
    ///
    /// # Cancel safety
    ///
    /// A request that was sent is executed even if this future is dropped.
    pub async fn run<T: FromReply>(&self, request: Request) -> Result<T, ServerError> {
        self.run_until(request, self.clock().now() + self.patience()).await
    }

    pub(crate) async fn run_with<T: FromReply>(
        &self,
        request: Request,
        until: Instant,
        persistence: RetryPolicy,
    ) -> Result<T, ServerError> {
        let core = &self.0.core;
        if self.0.table.is_closed() {
            return Err(self.ended());
        }
        if core.clock.now() >= until {
            return Err(ServerError::not_sent("its time was over before it left"));
        }
        let answer = core.ask(request, until, persistence).await;
        answer.map_err(|error| core.hinted(error)).and_then(FromReply::from_reply)
    }
}
