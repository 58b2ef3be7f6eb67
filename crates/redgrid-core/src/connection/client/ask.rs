//! Requests, each retried until its deadline.

use super::Client;
use crate::arg::IntoArg;
use crate::author::ClientExt;
use crate::clock::Instant;
use crate::connection::retry::{Progress, RetryPolicy};
use crate::connection::{Command, FromReply, Request};
use crate::error::{Code, ServerError};

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
        let progress = Progress::default();
        let work = core.exchange(request, until, persistence, &progress);
        let answer = tokio::select! {
            biased;
            asked = work => match asked.result {
                // The error describes the last transmission; an earlier one may have been executed.
                Err(error) if asked.retransmission_ends.is_some() && is_of_one_copy(&error, persistence) =>
                {
                    Err(ServerError::unknown(format!("an earlier copy may have been carried out; then {error}")))
                }
                result => result.map_err(|error| core.hinted(error)),
            },
            () = core.clock.wait_until(until) => Err(core.hinted(progress.at_the_end())),
        };
        answer.and_then(FromReply::from_reply)
    }
}

/// Returns whether an error leaves open what became of the other transmissions of its request.
///
/// `TryAgain` of [`RetryPolicy::Together`] counts as settled: the caller retries with fewer keys in
/// any case.
fn is_of_one_copy(error: &ServerError, persistence: RetryPolicy) -> bool {
    match error {
        ServerError::Refused { code: Code::TryAgain, .. } => persistence != RetryPolicy::Together,
        other => other.is_not_done(),
    }
}
