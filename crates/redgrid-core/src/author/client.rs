//! Methods of a client that objects of all kinds use.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use redgrid_client::internal::{RetryPolicy, channels_matching, inner, participant, subscribers, waiting_subscribers};
use redgrid_client::{
    Batched, ByNode, ChannelSelector, ConnectionId, FromReply, OrderedSubscription, Participant, Primary, PubSubStream,
    Request, Server, ServerError, TopologyHint, Watch,
};

use super::Sealed;
use crate::background::BackgroundClient;
use crate::clock::{Clock, Instant};
use crate::config::Durability;
use crate::exactly_once::IdempotentRequest;
use crate::service::ClientParts;
use crate::unpolled::Offer;

/// Methods of [`Client`](crate::Client) for authors of objects. No other type has them.
///
/// | for | methods |
/// |---|---|
/// | settings | `response_timeout`, `patience`, `poll_interval`, `watchdog_lease`, `fair_wait` |
/// | | `clock`, `durability`, `notice_prefix` |
/// | requests | `run_until`, `run_same_slot`, `run_detached`, `batch` |
/// | | `run_exactly_once`, `run_exactly_once_until`, `run_at_most_once` |
/// | nodes | `primaries`, `is_primary`, `doubt`, `sentinels` |
/// | | `run_on`, `run_on_primaries`, `run_on_primaries_until` |
/// | contact | `epoch_of`, `out_of_contact`, `ended` |
/// | messages | `watch`, `watch_unpolled`, `subscribe`, `message_stream` |
/// | | `subscribe_ordered`, `subscribe_ordered_unpolled` |
/// | subscribers | `local_subscriptions`, `is_subscribed`, `channels_matching` |
/// | | `subscribers`, `subscribers_at_primary`, `waiting_subscribers` |
/// | state | `shared`, `kept`, `participant`, `offer` |
/// | tasks | `run_in_background`, `spawn_attached` |
///
/// # Errors
///
/// A [`ServerError`] says whether the request may have been executed.
///
/// # Cancel safety
///
/// Every future can be dropped. A request that was sent before the drop is executed nevertheless.
pub trait ClientExt: Sealed {
    /// Returns the client's clock.
    fn clock(&self) -> &Clock {
        &self.client().core().clock
    }

    /// Returns the response timeout of one transmission of a request.
    fn response_timeout(&self) -> Duration {
        self.client().core().settings.response_timeout
    }

    /// Returns how long a call waits for contact with the server:
    /// `response_timeout × (retries + 1)`.
    fn patience(&self) -> Duration {
        self.client().core().settings.patience()
    }

    /// Returns the interval at which waiters poll.
    fn poll_interval(&self) -> Duration {
        self.client().core().settings.poll_interval
    }

    /// Returns the lease duration of holds that the client renews automatically.
    fn watchdog_lease(&self) -> Duration {
        self.client().core().settings.watchdog_lease
    }

    /// Returns how long Redisson keeps a dead process's position in the queue of a fair lock.
    fn fair_wait(&self) -> Duration {
        self.client().core().settings.fair_wait
    }

    /// Returns the default durability of grants.
    fn durability(&self) -> Durability {
        self.client().core().settings.durability
    }

    /// Returns the prefix of the channels on which clients are notified of forced takeovers. The
    /// channel of a client has the name `<prefix><client id>}`.
    fn notice_prefix(&self) -> String {
        self.client().core().notice_prefix()
    }

    /// Sends a request as [`Client::run`](crate::Client::run) does, and retries it until `until`.
    fn run_until<T: FromReply>(
        &self,
        request: Request,
        until: Instant,
    ) -> impl Future<Output = Result<T, ServerError>> + Send {
        self.client().core().run_with(request, until, RetryPolicy::Retries)
    }

    /// Sends a request with several keys, for a caller that can also use fewer keys per request.
    ///
    /// During a slot migration the keys may be on two nodes. This method then fails at once with
    /// [`Code::TryAgain`](crate::Code::TryAgain), whereas [`Client::run`](crate::Client::run)
    /// retries. After a lost reply, an idempotent request is retransmitted until the call times
    /// out. Any other request is not retransmitted.
    fn run_same_slot<T: FromReply>(&self, request: Request) -> impl Future<Output = Result<T, ServerError>> + Send {
        async move {
            let until = self.clock().now() + self.patience();
            self.client().core().run_with(request, until, RetryPolicy::Together).await
        }
    }

    /// Sends a request once in the background, for callers that cannot wait, such as a `Drop`.
    ///
    /// The result is not reported.
    fn run_detached(&self, request: Request) {
        self.client().core().run_detached(request);
    }

    /// Executes a script exactly once, and returns its reply as `T`.
    ///
    /// The call waits up to `response_timeout × (retries + 1)`, and retransmits the request after a
    /// lost reply. If the call fails with an unknown outcome, the client continues the
    /// retransmissions until 30 s after the start of the call. Later requests of this client for
    /// the same name wait until the retransmissions end. If the future is dropped, the client
    /// continues the request only if it was already sent.
    fn run_exactly_once<T: FromReply>(
        &self,
        request: IdempotentRequest,
    ) -> impl Future<Output = Result<T, ServerError>> + Send {
        async move { self.run_exactly_once_until(request, self.clock().now() + self.patience()).await }
    }

    /// Executes a script as [`ClientExt::run_exactly_once`] does, but waits until `until` at most.
    fn run_exactly_once_until<T: FromReply>(
        &self,
        request: IdempotentRequest,
        until: Instant,
    ) -> impl Future<Output = Result<T, ServerError>> + Send {
        let client = self.client();
        async move { crate::exactly_once::run(client, request, until).await?.into_typed() }
    }

    /// Sends the script of an exactly-once request a single time, so that it is executed at most
    /// once. Waits for a connection until `until`.
    ///
    /// After a lost reply the script is not sent again, so nothing is stored on the server for
    /// deduplication. The script must not use the Lua variable `clock`, which is not set here.
    fn run_at_most_once<T: FromReply>(
        &self,
        request: IdempotentRequest,
        until: Instant,
    ) -> impl Future<Output = Result<T, ServerError>> + Send {
        let client = self.client();
        async move { crate::exactly_once::run_at_most_once(client, request, until).await?.into_typed() }
    }

    /// Sends many requests, with retries until `until`. Returns one outcome for each request, in
    /// the same order. An outcome also says whether the request's write is as durable as requested.
    ///
    /// Requests to one node are sent together. They are executed in the order of `requests` if all
    /// of them are [`in_order`](Request::in_order). Requests to different nodes are concurrent, and
    /// so are requests of different callers.
    ///
    /// A request is sent again if a node refuses it for a temporary reason, mostly because a slot
    /// is moving. An idempotent request is also sent again if it gets no reply. Retries of the
    /// requests of one slot are sequential.
    fn batch(
        &self,
        requests: Vec<Request>,
        until: Instant,
        durability: Durability,
    ) -> impl Future<Output = Vec<Batched>> + Send {
        self.client().core().send_batch(requests, until, durability)
    }

    /// Returns the current primaries: all primaries with slots in a cluster, otherwise one primary.
    ///
    /// Waits up to `response_timeout × (retries + 1)` until the primaries are known. The error says
    /// why they are unknown.
    fn primaries(&self) -> impl Future<Output = Result<Vec<Primary>, ServerError>> + Send {
        async move { self.client().core().primaries_until(self.clock().now() + self.patience()).await }
    }

    /// Returns whether this node is still a primary.
    fn is_primary(&self, primary: &Primary) -> bool {
        self.client().core().is_primary(primary)
    }

    /// Schedules a topology refresh, because this node says that it is not a primary.
    fn doubt(&self, primary: &Primary) {
        self.client().core().topology.suspect(TopologyHint::Node(primary.id().clone()));
    }

    /// Sends a request without keys to this node, and follows no redirects.
    ///
    /// While the node is a primary, the request is retried as by
    /// [`Client::run`](crate::Client::run). After an error, [`ClientExt::is_primary`] says whether
    /// the node still is a primary. A refused login or a shutdown ends the retries at once.
    fn run_on<T: FromReply>(
        &self,
        primary: &Primary,
        request: Request,
    ) -> impl Future<Output = Result<T, ServerError>> + Send {
        let client = self.client();
        async move { client.core().run_at(primary, request, client.clock().now() + client.patience()).await?.into_typed() }
    }

    /// Sends a request without keys to every primary concurrently, and returns one result per node.
    ///
    /// The call fails only with an error of [`ClientExt::primaries`], before any request is sent.
    fn run_on_primaries<T: FromReply + Send>(
        &self,
        request: Request,
    ) -> impl Future<Output = Result<ByNode<T>, ServerError>> + Send {
        async move { self.client().core().run_at_primaries(request, self.clock().now() + self.patience()).await }
    }

    /// Sends a request like [`ClientExt::run_on_primaries`], but waits until `until` at most.
    fn run_on_primaries_until<T: FromReply + Send>(
        &self,
        request: Request,
        until: Instant,
    ) -> impl Future<Output = Result<ByNode<T>, ServerError>> + Send {
        self.client().core().run_at_primaries(request, until)
    }

    /// Returns the configured and the discovered sentinels; without Sentinel, an empty list.
    ///
    /// Connections to them use the credentials and the encryption of the sentinel settings.
    fn sentinels(&self) -> Vec<Arc<dyn Server>> {
        self.client().core().topology.sentinels()
    }

    /// Returns the id of the connection to the primary of `key`; `None` without a connection.
    ///
    /// The id changes with each loss of contact, restart and failover. State that was read through
    /// a connection with an older id may be outdated.
    fn epoch_of(&self, key: &[u8]) -> Option<ConnectionId> {
        self.client().core().topology.primary(key).current_connection_id()
    }

    /// Returns the error for a wait that timed out, if the last contact with the server of `key`
    /// was longer ago than the response timeout. Otherwise returns `None`.
    ///
    /// The error says why there was no contact. `answered` is the time at which the server last
    /// answered a request of the wait. A connection that awaits no reply counts as in contact now.
    fn out_of_contact(&self, key: &[u8], answered: Instant) -> Option<ServerError> {
        let core = self.client().core();
        let contact = core.contact(key).map_or(answered, |contact| contact.max(answered));
        (core.clock.now().since(contact) > core.settings.response_timeout).then(|| core.no_contact(key))
    }

    /// Returns the error for a call to a client that has ended.
    ///
    /// Use it when [`Client::is_shut_down`](crate::Client::is_shut_down) is true. The error is
    /// [`ServerError::ShuttingDown`], or [`ServerError::NotSent`] if the client's runtime has ended
    /// instead.
    fn ended(&self) -> ServerError {
        self.client().core().life.why()
    }

    /// Watches the channel on which changes of `key` are published, and polls the key.
    fn watch(&self, channel: Bytes, key: Bytes) -> Watch {
        self.client().core().subscriptions.watch(channel, key)
    }

    /// Watches a channel in the slot of the key `slot_of`. Polls no key: the caller has to poll.
    fn watch_unpolled(&self, channel: Bytes, slot_of: &Bytes) -> Watch {
        self.client().core().subscriptions.watch_with_notify(channel, slot_of, Arc::default())
    }

    /// Subscribes to `channels` in the slot of `key`, and polls the key to detect its removal.
    ///
    /// Messages arrive in the order in which they are published at the server.
    fn subscribe_ordered(&self, channels: impl IntoIterator<Item = Bytes>, key: &Bytes) -> OrderedSubscription {
        self.client().core().subscriptions.subscribe_ordered(channels, key, true)
    }

    /// Subscribes to `channels` in the slot of the key `slot_of`, which need not exist. Polls no
    /// key.
    fn subscribe_ordered_unpolled(
        &self,
        channels: impl IntoIterator<Item = Bytes>,
        slot_of: &Bytes,
    ) -> OrderedSubscription {
        self.client().core().subscriptions.subscribe_ordered(channels, slot_of, false)
    }

    /// Subscribes to channels, and completes when the server has confirmed the subscription.
    ///
    /// The stream contains the messages that are published from then on. It keeps up to `capacity`
    /// messages for a slow reader. The error is [`ServerError::Refused`] if the user has no
    /// permission, or if the server does not support such channels. It is [`ServerError::NotSent`]
    /// if no confirmation arrives within `response_timeout × (retries + 1)`. After an error there
    /// is no subscription.
    fn subscribe(
        &self,
        channels: ChannelSelector,
        capacity: usize,
    ) -> impl Future<Output = Result<PubSubStream, ServerError>> + Send {
        self.client().core().open_stream(channels, capacity)
    }

    /// Subscribes to channels in the slot of `key` on which scripts publish messages.
    ///
    /// The future completes when all channels are subscribed, or fails as [`ClientExt::subscribe`]
    /// does. The stream keeps up to `capacity` messages for a slow reader.
    fn message_stream(
        &self,
        channels: Vec<Bytes>,
        key: &Bytes,
        capacity: usize,
    ) -> impl Future<Output = Result<PubSubStream, ServerError>> + Send {
        self.client().core().open_stream_in_slot(channels, key, capacity)
    }

    /// Returns the number of this client's streams for these channels.
    fn local_subscriptions(&self, channels: &ChannelSelector) -> usize {
        self.client().core().subscriptions.stream_count(channels)
    }

    /// Returns whether this client's subscription to a channel is confirmed on the current
    /// connection.
    fn is_subscribed(&self, channel: &Bytes) -> bool {
        self.client().core().subscriptions.message_count(channel).is_some()
    }

    /// Counts the subscribers of a channel at all primaries and at the replicas that answer.
    fn subscribers(&self, channel: &Bytes) -> impl Future<Output = Result<u64, ServerError>> + Send {
        subscribers(self.client().core(), channel)
    }

    /// Counts the subscribers of a channel in the slot of `key`, at the primary of this slot.
    /// Returns `None` if the primary does not answer within 50 ms.
    fn subscribers_at_primary(&self, channel: &Bytes, key: &[u8]) -> impl Future<Output = Option<u64>> + Send {
        self.client().core().subscriptions.subscribers_at_primary(channel, key)
    }

    /// Counts the subscribers of `channels` at all nodes where waiters of `key` subscribe.
    ///
    /// These nodes are the primary of `key` and, depending on `subscription_mode`, one of its
    /// replicas. The channels must be in the slot of `key`.
    fn waiting_subscribers(
        &self,
        channels: &[Bytes],
        key: &Bytes,
    ) -> impl Future<Output = Result<u64, ServerError>> + Send {
        waiting_subscribers(self.client().core(), channels, key)
    }

    /// Returns the channels that match a pattern and have a subscriber at any known node. The list
    /// is sorted and has no duplicates.
    fn channels_matching(&self, pattern: &Bytes) -> impl Future<Output = Result<Vec<Bytes>, ServerError>> + Send {
        channels_matching(self.client().core(), pattern)
    }

    /// Returns the value of type `T` for `key`. All objects of this client share the value.
    ///
    /// If there is no value, `make` creates one. The value is dropped with its last `Arc`.
    fn shared<T: Send + Sync + 'static>(&self, key: &Bytes, make: impl FnOnce() -> T) -> Arc<T> {
        inner(self.client()).shared.get(key, make)
    }

    /// Returns the value of type `T` for `key`. The client keeps the value until the client ends.
    ///
    /// The first call creates the value with `make`. The value must not contain a
    /// [`Client`](crate::Client), because that client would then never end. It can contain a
    /// [`WeakClient`](crate::WeakClient).
    fn kept<T: Send + Sync + 'static>(&self, key: &Bytes, make: impl FnOnce() -> T) -> Arc<T> {
        inner(self.client()).kept.get(key, make)
    }

    /// Spawns `work` as a task of the client. The task continues if the caller is dropped.
    ///
    /// When the client ends, the task is dropped. Before that, a shutdown waits for the task, so
    /// `work` should complete soon after [`Client::closing`](crate::Client::closing).
    fn run_in_background(&self, work: impl Future<Output = ()> + Send + 'static) {
        self.client().core().spawn_background(Box::pin(work));
    }

    /// Spawns a background task that runs until it completes or the client ends.
    ///
    /// A shutdown waits for the task, so the task should complete soon after
    /// [`BackgroundClient::closing`]. The task must not hold a [`Client`](crate::Client).
    fn spawn_attached<W>(&self, work: impl FnOnce(BackgroundClient) -> W)
    where
        W: Future<Output = ()> + Send + 'static,
    {
        self.run_in_background(work(BackgroundClient::new(self.client())));
    }

    /// Returns a new participant with the lowest number that this client does not use for `key`.
    fn participant(&self, key: &Bytes) -> Participant {
        participant(self.client(), key)
    }

    /// Offers a grant to a caller. The grant is dropped if it is not taken within a second.
    fn offer<T: Send + 'static>(&self, value: T) -> Offer<T> {
        Offer::new(&self.client().holdings().unpolled, value)
    }
}
