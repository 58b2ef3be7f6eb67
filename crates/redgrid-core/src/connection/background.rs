//! What goes on in a client for as long as it lives, and is tidied up when it ends.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::watch;

use super::core::{Closing, Core};
use super::retry::{Progress, RetryPolicy};
use super::{Client, FromReply, Request};
use crate::clock::{Clock, Instant};
use crate::error::ServerError;
use crate::once::{OnceRequest, chase, memory};
use crate::wait::{Copied, Hearing, counts_in};

/// For how long before the end of a shutdown things may be left in order, at most.
const ORDER: Duration = Duration::from_secs(1);

/// The client as work of its own has it that goes on for as long as the client lives: it does not keep the client, and may
/// still ask when that is being shut down. Made by [`Client::attend`].
#[derive(Clone)]
pub struct BackgroundClient {
    core: Arc<Core>,
    closing: watch::Receiver<Closing>,
}

impl Client {
    /// Has the client's own task go on with something until it ends by itself, or with the client: a shutdown waits for it, so
    /// it is to end soon after [`Attendant::closing`] has completed. Nothing of it may keep the client.
    pub fn spawn_attached<W>(&self, work: impl FnOnce(BackgroundClient) -> W)
    where
        W: Future<Output = ()> + Send + 'static,
    {
        let attendant = BackgroundClient { core: Arc::clone(self.core()), closing: self.closing_watch() };
        self.run_in_background(work(attendant));
    }

    /// Whether the server has confirmed on the present connection that this client hears a channel.
    pub fn hears(&self, channel: &Bytes) -> bool {
        self.core().hub.heard(channel).is_some()
    }

    /// How many listen to a channel in the slot of `key` at its primary at the moment; none where that does not say so within 50 ms.
    ///
    /// # Cancel safety
    ///
    /// Dropping it changes nothing.
    pub async fn listeners(&self, channel: &Bytes, key: &[u8]) -> Option<u64> {
        self.core().hub.listeners(channel, key).await
    }
}

impl Client {
    /// How many clients are subscribed to `channels`, which are in the slot of `key`, where waiters of `key` subscribe: at its
    /// primary, and at a replica as well where `subscription_mode` says so.
    ///
    /// # Errors
    ///
    /// [`ServerError`] when a server could not be asked, or refuses to answer.
    ///
    /// # Cancel safety
    ///
    /// Dropping it changes nothing.
    pub async fn waiting_subscribers(&self, channels: &[Bytes], key: &Bytes) -> Result<u64, ServerError> {
        let hub = &self.core().hub;
        // The channels stand where keys do: the request goes to the primary of their slot.
        let request = Request::subcommand("PUBSUB", hub.question()).keys(channels.iter().cloned());
        let counts = counts_in(self.run(request.idempotent()).await?)?;
        let pairs: Vec<_> = channels.iter().map(|channel| (channel, key)).collect();
        let copied = match hub.copied(&pairs) {
            Some(copied) => copied.await,
            None => Vec::new(),
        };
        let copied = copied.into_iter().map(|copied| match copied {
            Copied::Listeners(count) => Ok(count),
            Copied::Unknown => Err(ServerError::unknown("a replica did not count its subscribers in time")),
        });
        Ok(counts.into_iter().sum::<u64>() + copied.sum::<Result<u64, _>>()?)
    }
}

impl BackgroundClient {
    /// The clock that decides in this client.
    pub fn clock(&self) -> &Clock {
        &self.core.clock
    }

    /// How long a call may be without contact to the server: `timeout × (retries + 1)`.
    pub fn contact_timeout(&self) -> Duration {
        self.core.settings.patience()
    }

    /// Whether the client is being shut down, or has gone.
    pub fn is_closing(&self) -> bool {
        *self.closing.borrow() != Closing::No
    }

    /// Completes when the client is being shut down, or has gone.
    ///
    /// # Cancel safety
    ///
    /// Dropping it changes nothing.
    pub async fn closing(&self) {
        // Without a sender the client has gone.
        let _ = self.closing.clone().wait_for(|closing| *closing != Closing::No).await;
    }

    /// Until when a shutdown waits for what still goes on: then it is dropped. `None` while there is no shutdown.
    pub fn closes_by(&self) -> Option<Instant> {
        match *self.closing.borrow() {
            Closing::No => None,
            Closing::By(by) => Some(by),
        }
    }

    /// Completes when a shutdown has lasted for `within`, or soon waits no longer: a quarter of its time, 1 s at most, is left to
    /// leave things in order.
    ///
    /// # Cancel safety
    ///
    /// Dropping it changes nothing; the next counts from anew.
    pub async fn nearly_closed(&self, within: Duration) {
        self.closing().await;
        let now = self.core.clock.now();
        let left = self.closes_by().map_or(Duration::ZERO, |by| by.since(now));
        let left = left - (left / 4).min(ORDER);
        self.core.clock.sleep_until(now + left.min(within)).await;
    }

    /// Hears a channel at the primary of `key`, whatever `subscription_mode` says: who publishes there counts this client.
    pub fn hear_counted(&self, channel: Bytes, key: &Bytes) -> Hearing {
        self.core.hub.hear_counted([channel], key)
    }

    /// The same of several channels in the slot of `key`, in the order in which they are published.
    pub fn hear_all_counted(&self, channels: impl IntoIterator<Item = Bytes>, key: &Bytes) -> Hearing {
        self.core.hub.hear_counted(channels, key)
    }

    /// Carries out a request until it is answered for good, or `until` has come; after a lost reply it is sent again if it is
    /// [`idempotent`](Request::idempotent).
    ///
    /// # Errors
    ///
    /// [`ServerError`] says whether it may have been carried out.
    ///
    /// # Cancel safety
    ///
    /// A request that has left is carried out although nobody waits for its reply.
    pub async fn run_until<T: FromReply>(&self, request: Request, until: Instant) -> Result<T, ServerError> {
        let progress = Progress::default();
        let answer = tokio::select! {
            biased;
            asked = self.core.exchange(request, until, RetryPolicy::ToTheEnd, &progress) => asked.result,
            () = self.core.clock.sleep_until(until) => Err(progress.at_the_end()),
        };
        answer.and_then(FromReply::from_reply)
    }

    /// Carries out a script that acts once, sent until it is answered or `until` has come. Of its first key this client asks
    /// nothing else that acts once, at any time.
    ///
    /// # Errors
    ///
    /// [`ServerError`] says whether it may have been carried out.
    ///
    /// # Cancel safety
    ///
    /// A copy that has left is carried out although nobody waits for its reply.
    pub async fn run_once_until<T: FromReply>(&self, request: OnceRequest, until: Instant) -> Result<T, ServerError> {
        let memory = memory(&self.core, request.first_key(), "");
        let request = request.numbered(memory, 1, self.core.settings.timeout);
        let progress = Progress::default();
        tokio::select! {
            biased;
            (answer, _) = chase(&self.core, &request, &progress) => answer?.into_typed(),
            () = self.core.clock.sleep_until(until) => Err(progress.at_the_end()),
        }
    }
}

impl std::fmt::Debug for BackgroundClient {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Attendant").field("client", &self.core.id).finish_non_exhaustive()
    }
}
