//! Background tasks that live as long as a client. A shutdown leaves them some time for cleanup.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use redgrid_client::internal::{Core, Progress, RetryPolicy};
use redgrid_client::{Client, FromReply, OrderedSubscription, Request, ServerError};

use crate::clock::{Clock, Instant};
use crate::exactly_once::{IdempotentRequest, dedup_key, send_until_answered};
use crate::service::ClientParts;

/// The longest time that is reserved for cleanup at the end of a shutdown: 1 s.
const ORDER: Duration = Duration::from_secs(1);

/// A handle to a client, for a background task that lives as long as the client.
///
/// The handle does not keep the client alive, and can still send requests during a shutdown.
/// [`ClientExt::spawn_attached`](crate::author::ClientExt::spawn_attached) passes it to the task.
#[derive(Clone)]
pub struct BackgroundClient {
    core: Arc<Core>,
}

impl BackgroundClient {
    pub(crate) fn new(client: &Client) -> Self {
        BackgroundClient { core: Arc::clone(client.core()) }
    }

    /// Returns the client's clock.
    pub fn clock(&self) -> &Clock {
        &self.core.clock
    }

    /// Returns the longest time that a call can last without contact to the server:
    /// `response_timeout × (retries + 1)`.
    pub fn contact_timeout(&self) -> Duration {
        self.core.settings.patience()
    }

    /// Returns whether the client is shutting down or has been dropped.
    pub fn is_closing(&self) -> bool {
        self.closes_by().is_some()
    }

    /// Completes when the client begins to shut down or is dropped.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    pub async fn closing(&self) {
        self.core.life.closing().await;
    }

    /// Returns the instant at which the shutdown stops waiting for tasks and drops them. `None`
    /// while there is no shutdown.
    pub fn closes_by(&self) -> Option<Instant> {
        self.core.life.closes_by()
    }

    /// Waits until the shutdown begins, and then for `delay`. If the shutdown has already begun,
    /// waits for `delay` from this call.
    ///
    /// It completes earlier if `delay` would leave too little time for cleanup. The time for
    /// cleanup is a quarter of the shutdown's remaining time, but at most 1 s.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing. The next call begins the wait anew.
    pub async fn nearly_closed(&self, delay: Duration) {
        self.closing().await;
        let now = self.core.clock.now();
        let left = self.closes_by().map_or(Duration::ZERO, |by| by.since(now));
        let left = left - (left / 4).min(ORDER);
        self.core.clock.sleep_until(now + left.min(delay)).await;
    }

    /// Subscribes to channels in the slot of `key`, at its primary, whatever `subscription_mode`
    /// says.
    ///
    /// So the primary includes this client when it counts the receivers of a message. Messages
    /// arrive in the order in which they are published.
    pub fn subscribe_at_primary(&self, channels: impl IntoIterator<Item = Bytes>, key: &Bytes) -> OrderedSubscription {
        self.core.subscriptions.subscribe_ordered_at_primary(channels, key)
    }

    /// Sends a request until it has a final answer or `until` has passed.
    ///
    /// An [`idempotent`](Request::idempotent) request is sent again if its reply is lost.
    ///
    /// # Errors
    ///
    /// [`ServerError`] says whether the request may have been executed.
    ///
    /// # Cancel safety
    ///
    /// A request that was sent is executed even if the future is dropped.
    pub async fn run_until<T: FromReply>(&self, request: Request, until: Instant) -> Result<T, ServerError> {
        self.core.ask(request, until, RetryPolicy::ToTheEnd).await.and_then(FromReply::from_reply)
    }

    /// Runs a script exactly once. The script is sent again until it is answered or `until` has
    /// passed.
    ///
    /// This client must never run another exactly-once request with the same first key.
    ///
    /// # Errors
    ///
    /// [`ServerError`] says whether the script may have been executed.
    ///
    /// # Cancel safety
    ///
    /// A script that was already sent is executed even if the future is dropped.
    pub async fn run_exactly_once_until<T: FromReply>(
        &self,
        request: IdempotentRequest,
        until: Instant,
    ) -> Result<T, ServerError> {
        let dedup_key = dedup_key(&self.core, request.first_key(), "");
        let request = request.with_sequence(dedup_key, 1, self.core.settings.response_timeout);
        let progress = Progress::default();
        tokio::select! {
            biased;
            (answer, _) = send_until_answered(&self.core, &request, &progress) => answer?.into_typed(),
            () = self.core.clock.sleep_until(until) => Err(progress.at_the_end()),
        }
    }
}

crate::debug_fields!(BackgroundClient, |it| client: it.core.id);
