//! Requests, each tried for as long as it may be.

use bytes::Bytes;

use super::Client;
use crate::clock::Instant;
use crate::connection::retry::{Progress, RetryPolicy};
use crate::connection::{Command, FromReply, Request};
use crate::error::{Code, ServerError};

impl Client {
    /// A command of any kind, key by key and argument by argument.
    ///
    /// ```no_run
    /// # async fn demo(client: &redgrid_core::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// client.command("SET").key("greeting")?.arg("hello").query::<()>().await?;
    /// let text: Option<String> = client.command("GET").key("greeting")?.query().await?;
    /// # Ok(()) }
    /// ```
    pub fn command(&self, name: impl Into<Bytes>) -> Command {
        Command { client: self.clone(), request: Request::command(name) }
    }

    /// Carries out a request, a script call above all, and reads its reply as `T`.
    ///
    /// Without contact it is tried again until `timeout × (retries + 1)` is over; after a lost reply only if the request is
    /// [`idempotent`](Request::idempotent).
    ///
    /// # Errors
    ///
    /// [`ServerError`] says whether it may have been carried out.
    ///
    /// # Cancel safety
    ///
    /// A request that has left is carried out although nobody waits for its reply.
    pub async fn run<T: FromReply>(&self, request: Request) -> Result<T, ServerError> {
        self.run_until(request, self.clock().now() + self.patience()).await
    }

    /// The same, tried until `until`.
    ///
    /// # Errors
    ///
    /// As [`Client::run`].
    ///
    /// # Cancel safety
    ///
    /// As [`Client::run`].
    pub async fn run_until<T: FromReply>(&self, request: Request, until: Instant) -> Result<T, ServerError> {
        self.run_with(request, until, RetryPolicy::Retries).await
    }

    /// The same for a request of several keys whose caller can do with fewer: keys on both sides of a slot's migration are told as
    /// [`Code::TryAgain`](crate::Code::TryAgain) at once, where [`Client::run`] asks again. After a lost reply an idempotent one is sent
    /// again until its time is over; any other is sent once.
    ///
    /// # Errors
    ///
    /// As [`Client::run`].
    ///
    /// # Cancel safety
    ///
    /// As [`Client::run`].
    pub async fn run_undivided<T: FromReply>(&self, request: Request) -> Result<T, ServerError> {
        self.run_with(request, self.clock().now() + self.patience(), RetryPolicy::Together).await
    }

    async fn run_with<T: FromReply>(
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
                // Of the last copy this is true; an earlier one may have been carried out.
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

    /// Has a request sent once in the background, by who can not wait, as in a `Drop`. Nobody is told what becomes of it.
    pub fn run_later(&self, request: Request) {
        self.0.table.run_detached(request);
    }
}

/// Whether an error says nothing about other copies of its request. Where keys are on both sides of a migration the caller asks for
/// fewer of them, whatever became of those.
fn is_of_one_copy(error: &ServerError, persistence: RetryPolicy) -> bool {
    match error {
        ServerError::Refused { code: Code::TryAgain, .. } => persistence != RetryPolicy::Together,
        other => other.is_not_done(),
    }
}
