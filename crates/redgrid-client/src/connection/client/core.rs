//! State that all objects of one client share.

use std::sync::Arc;

use bytes::Bytes;
use tokio::runtime::Handle;
use tokio::sync::mpsc;

use crate::clock::{Clock, Instant};
use crate::config::Settings;
use crate::connection::events::Events;
use crate::connection::given_back::GivenBack;
use crate::connection::lifecycle::Lifecycle;
use crate::connection::service::BackgroundTask;
use crate::connection::{Progress, Reply, Request, RetryPolicy, Server, Topology, once};
use crate::error::{Code, ServerError, after_unanswered};
use crate::inline_bytes::InlineBytes;
use crate::participant::Participants;
use crate::pubsub::SubscriptionManager;
use crate::sync::Mutex;

/// Returns whether the current runtime has one thread.
///
/// On such a runtime, several batches are kept in flight. With only one batch in flight, the client
/// and a nearby server would alternate: each would be idle half of the time.
pub(in crate::connection) fn is_one_thread() -> bool {
    Handle::current().metrics().num_workers() == 1
}

/// The state that all objects of one client share.
pub struct Core {
    /// The id of the client.
    pub id: String,
    /// The clock of the client.
    pub clock: Clock,
    /// The settings of the client.
    pub settings: Settings,
    /// The number of the database that the connections select.
    pub database: u8,
    /// The client's view of the servers.
    pub topology: Arc<dyn Topology>,
    /// The subscriptions of all objects.
    pub subscriptions: Arc<SubscriptionManager>,
    pub(in crate::connection) events: Arc<Events>,
    pub(crate) participants: Mutex<Participants>,
    /// The releases that are repeated after a failover.
    pub given_back: GivenBack,
    /// Queue of the background tasks that the client's driver runs. Some `Drop` implementations,
    /// for example of guards, send tasks to this queue instead of spawning them.
    pub(in crate::connection) background: mpsc::UnboundedSender<BackgroundTask>,
    /// Whether the runtime of the client has one thread.
    pub one_thread: bool,
    /// Whether the client is open, closing or over.
    pub life: Lifecycle,
    /// The runtime in which the client's tasks run.
    pub(crate) runtime: tokio::runtime::Id,
}

impl Core {
    /// Returns the primary of a key.
    pub fn home(&self, key: &[u8]) -> Arc<dyn Server> {
        self.topology.primary(key)
    }

    /// Returns whether there is a connection to the primary of a key.
    pub fn is_connected(&self, key: &[u8]) -> bool {
        self.home(key).current_connection_id().is_some()
    }

    /// Returns the time of the last contact with the primary of `key`.
    ///
    /// If no reply is outstanding on the connection, the result is the present time. Without a
    /// connection it is `None`.
    pub fn contact(&self, key: &[u8]) -> Option<Instant> {
        let home = self.home(key);
        home.current_connection_id().is_some().then(|| self.clock.now() - home.silent_for())
    }

    /// Returns the error for a request that could not be sent in time to the primary of `key`. The
    /// error contains the cause.
    pub fn no_contact(&self, key: &[u8]) -> ServerError {
        let home = self.home(key);
        self.hinted(match home.current_connection_id() {
            None => home.unreached(),
            Some(_) => ServerError::not_sent(format!("there was no contact with {} in time", home.id())),
        })
    }

    /// Adds a hint to an error if the caller runs outside the client's runtime.
    ///
    /// In that case, the cause may be that the client's runtime is not driven.
    pub(crate) fn hinted(&self, error: ServerError) -> ServerError {
        const HINT: &str = "the client was created in another Tokio runtime, which must be running";
        if Handle::try_current().is_ok_and(|here| here.id() == self.runtime) {
            return error;
        }
        match error {
            ServerError::NotSent { reason } => ServerError::not_sent(format!("{reason} ({HINT})")),
            ServerError::Unknown { reason } => ServerError::unknown(format!("{reason} ({HINT})")),
            other => other,
        }
    }

    /// Sends a request until it has a final reply or `until` has passed.
    ///
    /// # Errors
    ///
    /// The error takes all transmissions of the request into account. For example, it is
    /// [`ServerError::Unknown`] if an earlier transmission may have executed and the last one did
    /// not.
    pub async fn ask(&self, request: Request, until: Instant, persistence: RetryPolicy) -> Result<Reply, ServerError> {
        let progress = Progress::default();
        tokio::select! {
            biased;
            outcome = self.exchange(request, until, persistence, &progress) => match outcome.result {
                // TRYAGAIN is reported unchanged, even after an unanswered transmission: the caller
                // retries with fewer keys in any case.
                Err(error) if persistence == RetryPolicy::Together && error.code() == Some(Code::TryAgain) => {
                    Err(error)
                }
                Err(error) if outcome.retransmission_ends.is_some() => Err(after_unanswered(error)),
                result => result,
            },
            () = self.clock.wait_until(until) => Err(progress.at_the_end()),
        }
    }

    /// Spawns a background task. If the client has ended, the task is dropped. In that case, holds
    /// and permits that the task would have released end with their leases.
    pub fn spawn_background(&self, work: BackgroundTask) {
        let _ = self.background.send(work);
    }

    /// Sends `request` once from a background task and ignores the outcome.
    pub fn run_detached(self: &Arc<Self>, request: Request) {
        let (core, limit) = (Arc::clone(self), self.clock.now() + self.settings.response_timeout);
        self.spawn_background(Box::pin(async move {
            let _ = once(&*core.topology, request, limit).await;
        }));
    }

    /// Returns the holder field for a number, in Redisson's form `<uuid>:<number>`.
    pub fn field(&self, number: u64) -> Bytes {
        let mut digits = itoa::Buffer::new();
        let digits = digits.format(number).as_bytes();
        let text = InlineBytes::new().with(self.id.as_bytes()).and_then(|id| id.with(b":")?.with(digits));
        text.map_or_else(|| format!("{}:{number}", self.id).into(), InlineBytes::into_bytes)
    }

    /// Returns the channel on which this client is notified when one of its holds is taken over by
    /// force. The name consists of the [prefix](Core::notice_prefix), the client's id and `}`.
    pub(in crate::connection) fn notices(&self) -> Bytes {
        format!("{}{}}}", self.notice_prefix(), self.id).into()
    }

    /// Returns the prefix of the notice channels' names. In each name, the id of a client follows
    /// the prefix.
    pub fn notice_prefix(&self) -> String {
        self.settings.namespace.notice_prefix()
    }
}
