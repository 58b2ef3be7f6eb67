//! The interface for authors of objects. Applications do not need it.
//!
//! [`ClientExt`] adds methods to [`Client`](crate::Client). The other traits are implemented by
//! objects, and by simulated servers in tests. All of them change with the objects of this project:
//! another crate that uses them depends on one exact version of this one.
//!
//! ```no_run
//! # async fn demo() -> Result<(), Box<dyn std::error::Error>> {
//! use redgrid_core::author::ClientExt;
//! use redgrid_core::{Client, Request};
//!
//! let client = Client::connect("redis://127.0.0.1:6379").await?;
//! let until = client.clock().now() + client.response_timeout();
//! let size: u64 = client.run_until(Request::command("DBSIZE").idempotent(), until).await?;
//! # Ok(()) }
//! ```

mod client;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

pub use crate::backoff::Backoff;
pub use crate::batching::{BatchExecutor, Batcher};
use crate::clock::{Clock, Instant};
use crate::config::Durability;
use crate::connection::{BackgroundClient, Batched, ConnectionId, FromReply, NotDriven, Primary, Request};
pub use crate::connection::{ByNode, Server, Topology};
use crate::error::ServerError;
use crate::exactly_once::IdempotentRequest;
pub use crate::lock::guard::FromHoldGuard;
pub use crate::lock::protocol::{LockProtocol, MultiKeyProtocol, ServerQueue};
use crate::lock::{
    AcquireError, AcquireRequest, AttachError, DetachedHold, HoldGuard, HolderId, LockKeys, MultiOutcome,
    PendingAcquire, TakeoverFrom,
};
pub use crate::object::pages::{PageRequest, Paged, Pages};
use crate::participant::Participant;
use crate::permits::{PendingPermit, PermitRequest, SemaphoreKeys};
pub use crate::pubsub::UNSUBSCRIBED_POLL;
use crate::pubsub::{ChannelSelector, OrderedSubscription, PubSubStream, Watch};
pub use crate::script::ScriptText;
use crate::unpolled::Offer;

/// Methods of [`Client`](crate::Client) for authors of objects. No other type implements it.
///
/// | for | methods |
/// |---|---|
/// | settings | `clock`, `response_timeout`, `patience`, `poll_interval`, `watchdog_lease`, `fair_wait`, `durability`, `notice_prefix` |
/// | requests | `run_until`, `run_same_slot`, `run_detached`, `run_exactly_once`, `run_exactly_once_until`, `run_at_most_once`, `batch` |
/// | nodes | `primaries`, `is_primary`, `doubt`, `run_on`, `run_on_primaries`, `run_on_primaries_until`, `sentinels` |
/// | contact and end | `epoch_of`, `out_of_contact`, `ended` |
/// | messages | `watch`, `watch_unpolled`, `subscribe_ordered`, `subscribe_ordered_unpolled`, `subscribe`, `message_stream`, `local_subscriptions`, `is_subscribed`, `subscribers`, `subscribers_at_primary`, `waiting_subscribers`, `channels_matching` |
/// | state and tasks | `shared`, `kept`, `run_in_background`, `spawn_attached`, `participant`, `offer`, `drive_acquire` |
/// | locks and permits | `enter`, `is_in`, `holds`, `take_all`, `take_over`, `attach`, `permits` |
///
/// # Errors
///
/// A [`ServerError`] says whether the request may have been executed.
///
/// # Cancel safety
///
/// Every future may be dropped. A request that was sent is executed nevertheless.
pub trait ClientExt: client::Sealed {
    /// Returns the client's clock.
    fn clock(&self) -> &Clock;

    /// Returns the response timeout of one transmission of a request.
    fn response_timeout(&self) -> Duration;

    /// Returns how long a call may be without contact to the server: `response_timeout × (retries +
    /// 1)`.
    fn patience(&self) -> Duration;

    /// Returns the interval at which waiters poll.
    fn poll_interval(&self) -> Duration;

    /// Returns the lease of holds that are renewed.
    fn watchdog_lease(&self) -> Duration;

    /// Returns how long a queue position of a fair lock is kept for a process that is silent.
    fn fair_wait(&self) -> Duration;

    /// Returns the default durability of grants.
    fn durability(&self) -> Durability;

    /// Returns the prefix of the channels that notify clients of holds taken over by force. The
    /// client's id and `}` follow it.
    fn notice_prefix(&self) -> String;

    /// Sends a request as [`Client::run`](crate::Client::run) does, and retries it until `until`.
    fn run_until<T: FromReply>(
        &self,
        request: Request,
        until: Instant,
    ) -> impl Future<Output = Result<T, ServerError>> + Send;

    /// Sends a request with several keys, for a caller that can fall back to fewer keys.
    ///
    /// During a slot migration the keys may be on both sides. This method reports that at once as
    /// [`Code::TryAgain`](crate::Code::TryAgain), where [`Client::run`](crate::Client::run)
    /// retries. After a lost reply an idempotent request is retransmitted until its deadline; any
    /// other request is sent once.
    fn run_same_slot<T: FromReply>(&self, request: Request) -> impl Future<Output = Result<T, ServerError>> + Send;

    /// Sends a request once in the background, for callers that cannot wait, such as a `Drop`.
    ///
    /// The result is not reported.
    fn run_detached(&self, request: Request);

    /// Executes a script exactly once, and returns its reply as `T`.
    ///
    /// It is retried until `response_timeout × (retries + 1)` has passed, also after lost replies.
    /// A request with an unknown outcome is still sent after the error, for 30 s in all; later
    /// requests of this client for the name wait for it. If the future is dropped, a request that
    /// was sent continues, and one that was not is never sent.
    fn run_exactly_once<T: FromReply>(
        &self,
        request: IdempotentRequest,
    ) -> impl Future<Output = Result<T, ServerError>> + Send;

    /// Executes a script exactly once, as [`ClientExt::run_exactly_once`], and waits for its reply
    /// until `until`.
    fn run_exactly_once_until<T: FromReply>(
        &self,
        request: IdempotentRequest,
        until: Instant,
    ) -> impl Future<Output = Result<T, ServerError>> + Send;

    /// Executes the same script, sent once, and tries that until `until`.
    ///
    /// After a lost reply it is not sent again, and nothing is stored on the server for
    /// deduplication. The script has no Lua variable `clock` then.
    fn run_at_most_once<T: FromReply>(
        &self,
        request: IdempotentRequest,
        until: Instant,
    ) -> impl Future<Output = Result<T, ServerError>> + Send;

    /// Sends many requests until `until` and returns one result for each, in their order, with its
    /// durability.
    ///
    /// Requests of one node are sent together. They are executed in their order if all of them are
    /// [`in_order`](Request::in_order). Requests of other nodes and other callers run concurrently.
    ///
    /// A request that a node refuses for a passing reason, mostly because a slot is moving, is sent
    /// again. So is an idempotent request without a reply. Retries of one slot are sent one after
    /// another.
    fn batch(
        &self,
        requests: Vec<Request>,
        until: Instant,
        durability: Durability,
    ) -> impl Future<Output = Vec<Batched>> + Send;

    /// Returns the current primaries: one, or in a cluster those that serve slots.
    ///
    /// Waits until they are known, at most `response_timeout × (retries + 1)`. The error says why
    /// they are unknown.
    fn primaries(&self) -> impl Future<Output = Result<Vec<Primary>, ServerError>> + Send;

    /// Returns whether this node is still a primary.
    fn is_primary(&self, primary: &Primary) -> bool;

    /// Schedules a topology refresh, because this node says that it is not a primary.
    fn doubt(&self, primary: &Primary);

    /// Sends a request without keys to this node, and converts its reply to `T`. Redirects are not
    /// followed.
    ///
    /// It is retried as by [`Client::run`](crate::Client::run) while the node is a primary. After
    /// an error, [`ClientExt::is_primary`] shows whether it still is.
    fn run_on<T: FromReply>(
        &self,
        primary: &Primary,
        request: Request,
    ) -> impl Future<Output = Result<T, ServerError>> + Send;

    /// Sends a request without keys to every primary concurrently, and returns one result per node.
    ///
    /// An error is one of [`ClientExt::primaries`]; no request was sent then.
    fn run_on_primaries<T: FromReply + Send>(
        &self,
        request: Request,
    ) -> impl Future<Output = Result<ByNode<T>, ServerError>> + Send;

    /// Sends a request to every primary, as [`ClientExt::run_on_primaries`], until `until`.
    fn run_on_primaries_until<T: FromReply + Send>(
        &self,
        request: Request,
        until: Instant,
    ) -> impl Future<Output = Result<ByNode<T>, ServerError>> + Send;

    /// Returns the sentinels that this client uses, including those that other sentinels have
    /// named. The list is empty in other topologies.
    ///
    /// They use the credentials and the encryption that are configured for sentinels.
    fn sentinels(&self) -> Vec<Arc<dyn Server>>;

    /// Returns the id of the connection to the current primary of `key`; `None` while there is no
    /// contact.
    ///
    /// The id changes with each loss of contact, restart and failover. State of the server that was
    /// observed under an older id may be outdated.
    fn epoch_of(&self, key: &[u8]) -> Option<ConnectionId>;

    /// Returns the error of a bounded wait for `key` that timed out without contact to its server.
    ///
    /// The error says why contact was missing for longer than the response timeout. `answered` is
    /// when the server last answered the waiter. Returns `None` if there was contact. A connection
    /// without an overdue reply counts as contact.
    fn out_of_contact(&self, key: &[u8], answered: Instant) -> Option<ServerError>;

    /// Returns the error of a call to a client that has ended.
    ///
    /// It is [`ServerError::ShuttingDown`], or [`ServerError::NotSent`] if the client's runtime has
    /// ended instead. For calls that found [`Client::is_shut_down`](crate::Client::is_shut_down) to
    /// be true.
    fn ended(&self) -> ServerError;

    /// Watches a channel for wake-ups, and polls the key that belongs to it.
    fn watch(&self, channel: Bytes, key: Bytes) -> Watch;

    /// Watches a channel in the slot of a key, without a key to poll: the waiter polls by itself.
    fn watch_unpolled(&self, channel: Bytes, slot_of: &Bytes) -> Watch;

    /// Subscribes to `channels` in the slot of `key`, and polls whether the key is gone.
    ///
    /// Messages arrive in the order in which they are published at the server.
    fn subscribe_ordered(&self, channels: impl IntoIterator<Item = Bytes>, key: &Bytes) -> OrderedSubscription;

    /// Subscribes to `channels` in the slot of a key, without a key to poll.
    ///
    /// Use it for objects whose key need not exist while they are awaited.
    fn subscribe_ordered_unpolled(
        &self,
        channels: impl IntoIterator<Item = Bytes>,
        slot_of: &Bytes,
    ) -> OrderedSubscription;

    /// Subscribes to channels, and completes when the server has confirmed that.
    ///
    /// From then on messages are received. The stream keeps up to `capacity` messages for a slow
    /// reader. The error is [`ServerError::Refused`] if the user has no permission or the server
    /// does not support it, and [`ServerError::NotSent`] if no server has confirmed it within
    /// `response_timeout × (retries + 1)`. After an error nothing is subscribed.
    fn subscribe(
        &self,
        channels: ChannelSelector,
        capacity: usize,
    ) -> impl Future<Output = Result<PubSubStream, ServerError>> + Send;

    /// Subscribes to `channels`, on which scripts publish in the slot of `key`.
    ///
    /// The future completes when all of them are active, or fails as [`ClientExt::subscribe`]. The
    /// stream keeps up to `capacity` messages for a slow reader.
    fn message_stream(
        &self,
        channels: Vec<Bytes>,
        key: &Bytes,
        capacity: usize,
    ) -> impl Future<Output = Result<PubSubStream, ServerError>> + Send;

    /// Returns the number of streams of these channels that this client has.
    fn local_subscriptions(&self, channels: &ChannelSelector) -> usize;

    /// Returns whether the server has confirmed this client's subscription to a channel on the
    /// current connection.
    fn is_subscribed(&self, channel: &Bytes) -> bool;

    /// Counts the connections that are subscribed to a channel, at all known nodes: the primaries,
    /// and the replicas that answer.
    fn subscribers(&self, channel: &Bytes) -> impl Future<Output = Result<u64, ServerError>> + Send;

    /// Returns the number of subscribers of a channel in the slot of `key`, at its primary.
    ///
    /// `None` if the primary does not answer within 50 ms.
    fn subscribers_at_primary(&self, channel: &Bytes, key: &[u8]) -> impl Future<Output = Option<u64>> + Send;

    /// Returns the number of subscribers of `channels` at all nodes where waiters of `key`
    /// subscribe.
    ///
    /// The channels must be in the slot of `key`. These nodes are the primary, and a replica as
    /// well if `subscription_mode` says so.
    fn waiting_subscribers(
        &self,
        channels: &[Bytes],
        key: &Bytes,
    ) -> impl Future<Output = Result<u64, ServerError>> + Send;

    /// Returns the channels that match a pattern and have a subscriber at any known node, each
    /// once, sorted.
    fn channels_matching(&self, pattern: &Bytes) -> impl Future<Output = Result<Vec<Bytes>, ServerError>> + Send;

    /// Returns the value that all objects of this client with the same key share.
    ///
    /// The first object creates it; it is dropped with the last one that holds it.
    fn shared<T: Send + Sync + 'static>(&self, key: &Bytes, make: impl FnOnce() -> T) -> Arc<T>;

    /// Returns the value of a type for a key, which the client keeps until it ends.
    ///
    /// The first call creates it; it persists while no object holds it. The value must not contain
    /// a [`Client`](crate::Client), which would then never end; a [`WeakClient`](crate::WeakClient)
    /// is fine.
    fn kept<T: Send + Sync + 'static>(&self, key: &Bytes, make: impl FnOnce() -> T) -> Arc<T>;

    /// Spawns `work` on the client's own task, where it runs even if the caller is dropped.
    ///
    /// It ends with the client at the latest. A shutdown waits for it, so it should end when
    /// [`Client::closing`](crate::Client::closing) completes.
    fn run_in_background(&self, work: impl Future<Output = ()> + Send + 'static);

    /// Spawns a background task that runs until it completes or the client ends.
    ///
    /// A shutdown waits for the task, so it should complete soon after
    /// [`BackgroundClient::closing`]. The task must not hold a [`Client`](crate::Client).
    fn spawn_attached<W>(&self, work: impl FnOnce(BackgroundClient) -> W)
    where
        W: Future<Output = ()> + Send + 'static;

    /// Returns a participant with the lowest number under `key` that this client does not use.
    fn participant(&self, key: &Bytes) -> Participant;

    /// Offers a grant to a caller, which has up to one second to take it. An untaken grant is
    /// dropped.
    fn offer<T: Send + 'static>(&self, value: T) -> Offer<T>;

    /// Drives an acquire that consists of several steps.
    ///
    /// Grants of earlier steps do not depend on the caller polling this future. After at most half
    /// a second, a task of the client continues the acquire.
    ///
    /// The caller has up to one second to take the outcome. After that the outcome is dropped, and
    /// the next poll restarts the acquire with the rest of `wait`. Dropping the future drops the
    /// acquire. Errors of the acquire itself are in the inner result.
    fn drive_acquire<T, E, F>(
        &self,
        wait: Option<Duration>,
        start: impl FnMut(Option<Duration>) -> F + Send,
    ) -> impl Future<Output = Result<Result<T, E>, NotDriven>> + Send
    where
        T: Send + 'static,
        E: Send + 'static,
        F: Future<Output = Result<T, E>> + Send + 'static;

    /// Starts an acquire of a hold, or rejects it at once. All lock-like objects use this method.
    fn enter(
        &self,
        kind: &'static dyn LockProtocol,
        target: &Arc<LockKeys>,
        request: AcquireRequest,
    ) -> Result<PendingAcquire, AcquireError>;

    /// Returns whether the holder already holds the key in this mode or in its paired mode.
    ///
    /// An acquire with [`ClientExt::enter`] then does not queue behind other requests.
    fn is_in(&self, kind: &'static dyn LockProtocol, target: &Arc<LockKeys>, holder: Option<HolderId>) -> bool;

    /// Returns whether this client holds the key, in this mode or in its paired mode.
    fn holds(&self, kind: &'static dyn LockProtocol, target: &Arc<LockKeys>) -> bool;

    /// Acquires all of `targets` or none, with a single attempt and without waiting.
    ///
    /// The targets share a kind and a slot ([`Client::slot`](crate::Client::slot)). More than one
    /// target needs a kind that supports multi-key acquires. The attempt is given up at `until`. If
    /// the future is dropped early, a grant is released in the background.
    fn take_all(
        &self,
        kind: &'static dyn LockProtocol,
        targets: Vec<Arc<LockKeys>>,
        request: AcquireRequest,
        until: Instant,
    ) -> impl Future<Output = Result<MultiOutcome, AcquireError>> + Send;

    /// Takes a name over by force and notifies its holders that they have lost it.
    ///
    /// Returns `None` if `from` does not allow the takeover. If the future is dropped early, the
    /// name may be taken for a moment; it is released in the background.
    fn take_over(
        &self,
        kind: &'static dyn LockProtocol,
        target: &Arc<LockKeys>,
        request: AcquireRequest,
        from: TakeoverFrom,
    ) -> impl Future<Output = Result<Option<HoldGuard>, AcquireError>> + Send;

    /// Takes over a hold that another process has detached.
    ///
    /// If the future is dropped early, the hold may be taken over; it is released in the
    /// background.
    fn attach(
        &self,
        kind: &'static dyn LockProtocol,
        target: &Arc<LockKeys>,
        detached: DetachedHold,
    ) -> impl Future<Output = Result<HoldGuard, AttachError>> + Send;

    /// Requests permits; every kind of semaphore uses this.
    fn permits(&self, keys: &Arc<SemaphoreKeys>, request: PermitRequest) -> PendingPermit;
}
