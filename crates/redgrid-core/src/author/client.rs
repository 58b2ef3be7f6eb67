//! The implementation of [`ClientExt`].

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use super::ClientExt;
use crate::clock::{Clock, Instant};
use crate::config::Durability;
use crate::connection::{
    BackgroundClient, Batched, ByNode, Client, ConnectionId, FromReply, NotDriven, Primary, Request, RetryPolicy,
    Server, TopologyHint,
};
use crate::error::ServerError;
use crate::exactly_once::IdempotentRequest;
use crate::lock::{
    AcquireError, AcquireRequest, AttachError, DetachedHold, HoldGuard, HolderId, LockKeys, LockProtocol, MultiOutcome,
    PendingAcquire, TakeoverFrom,
};
use crate::observe::{OpContext, OpSpan, Outcome, count};
use crate::participant::Participant;
use crate::permits::{PendingPermit, PermitRequest, SemaphoreKeys};
use crate::pubsub::{ChannelSelector, OrderedSubscription, PubSubStream, Watch};
use crate::unpolled::Offer;

#[expect(unnameable_types, reason = "seals `ClientExt`")]
pub trait Sealed {}

impl Sealed for Client {}

impl ClientExt for Client {
    fn clock(&self) -> &Clock {
        &self.core().clock
    }

    fn response_timeout(&self) -> Duration {
        self.core().settings.response_timeout
    }

    fn patience(&self) -> Duration {
        self.core().settings.patience()
    }

    fn poll_interval(&self) -> Duration {
        self.core().settings.poll_interval
    }

    fn watchdog_lease(&self) -> Duration {
        self.core().settings.watchdog_lease
    }

    fn fair_wait(&self) -> Duration {
        self.core().settings.fair_wait
    }

    fn durability(&self) -> Durability {
        self.core().settings.durability
    }

    fn notice_prefix(&self) -> String {
        self.core().notice_prefix()
    }

    async fn run_until<T: FromReply>(&self, request: Request, until: Instant) -> Result<T, ServerError> {
        self.run_with(request, until, RetryPolicy::Retries).await
    }

    async fn run_same_slot<T: FromReply>(&self, request: Request) -> Result<T, ServerError> {
        self.run_with(request, self.clock().now() + self.patience(), RetryPolicy::Together).await
    }

    fn run_detached(&self, request: Request) {
        self.table().run_detached(request);
    }

    async fn run_exactly_once<T: FromReply>(&self, request: IdempotentRequest) -> Result<T, ServerError> {
        self.run_exactly_once_until(request, self.clock().now() + self.patience()).await
    }

    async fn run_exactly_once_until<T: FromReply>(
        &self,
        request: IdempotentRequest,
        until: Instant,
    ) -> Result<T, ServerError> {
        crate::exactly_once::run(self, request, until).await?.into_typed()
    }

    async fn run_at_most_once<T: FromReply>(
        &self,
        request: IdempotentRequest,
        until: Instant,
    ) -> Result<T, ServerError> {
        crate::exactly_once::run_at_most_once(self, request, until).await?.into_typed()
    }

    async fn batch(&self, requests: Vec<Request>, until: Instant, durability: Durability) -> Vec<Batched> {
        self.send_batch(requests, until, durability).await
    }

    async fn primaries(&self) -> Result<Vec<Primary>, ServerError> {
        self.primaries_until(self.clock().now() + self.patience()).await
    }

    fn is_primary(&self, primary: &Primary) -> bool {
        primary.is_current(self)
    }

    fn doubt(&self, primary: &Primary) {
        self.core().topology.suspect(TopologyHint::Node(primary.id().clone()));
    }

    async fn run_on<T: FromReply>(&self, primary: &Primary, request: Request) -> Result<T, ServerError> {
        self.run_at(primary, request, self.clock().now() + self.patience()).await?.into_typed()
    }

    async fn run_on_primaries<T: FromReply + Send>(&self, request: Request) -> Result<ByNode<T>, ServerError> {
        self.run_on_primaries_until(request, self.clock().now() + self.patience()).await
    }

    async fn run_on_primaries_until<T: FromReply + Send>(
        &self,
        request: Request,
        until: Instant,
    ) -> Result<ByNode<T>, ServerError> {
        self.run_at_primaries(request, until).await
    }

    fn sentinels(&self) -> Vec<Arc<dyn Server>> {
        self.core().topology.sentinels()
    }

    fn epoch_of(&self, key: &[u8]) -> Option<ConnectionId> {
        self.core().topology.primary(key).current_connection_id()
    }

    fn out_of_contact(&self, key: &[u8], answered: Instant) -> Option<ServerError> {
        let core = self.core();
        let contact = core.contact(key).map_or(answered, |contact| contact.max(answered));
        (core.clock.now().since(contact) > core.settings.response_timeout).then(|| core.no_contact(key))
    }

    fn ended(&self) -> ServerError {
        self.core().life.why()
    }

    fn watch(&self, channel: Bytes, key: Bytes) -> Watch {
        self.core().subscriptions.watch(channel, key)
    }

    fn watch_unpolled(&self, channel: Bytes, slot_of: &Bytes) -> Watch {
        self.core().subscriptions.watch_with_notify(channel, slot_of, Arc::default())
    }

    fn subscribe_ordered(&self, channels: impl IntoIterator<Item = Bytes>, key: &Bytes) -> OrderedSubscription {
        self.core().subscriptions.subscribe_ordered(channels, key, true)
    }

    fn subscribe_ordered_unpolled(
        &self,
        channels: impl IntoIterator<Item = Bytes>,
        slot_of: &Bytes,
    ) -> OrderedSubscription {
        self.core().subscriptions.subscribe_ordered(channels, slot_of, false)
    }

    async fn subscribe(&self, channels: ChannelSelector, capacity: usize) -> Result<PubSubStream, ServerError> {
        PubSubStream::open(self, channels, capacity).await
    }

    async fn message_stream(
        &self,
        channels: Vec<Bytes>,
        key: &Bytes,
        capacity: usize,
    ) -> Result<PubSubStream, ServerError> {
        PubSubStream::open_in_slot(self, channels, key, capacity).await
    }

    fn local_subscriptions(&self, channels: &ChannelSelector) -> usize {
        self.core().subscriptions.watcher_count(&channels.internal_name())
    }

    fn is_subscribed(&self, channel: &Bytes) -> bool {
        self.core().subscriptions.message_count(channel).is_some()
    }

    async fn subscribers(&self, channel: &Bytes) -> Result<u64, ServerError> {
        crate::pubsub::subscribers(self, channel).await
    }

    async fn subscribers_at_primary(&self, channel: &Bytes, key: &[u8]) -> Option<u64> {
        self.core().subscriptions.subscribers_at_primary(channel, key).await
    }

    async fn waiting_subscribers(&self, channels: &[Bytes], key: &Bytes) -> Result<u64, ServerError> {
        crate::pubsub::waiting_subscribers(self, channels, key).await
    }

    async fn channels_matching(&self, pattern: &Bytes) -> Result<Vec<Bytes>, ServerError> {
        crate::pubsub::channels_matching(self, pattern).await
    }

    fn shared<T: Send + Sync + 'static>(&self, key: &Bytes, make: impl FnOnce() -> T) -> Arc<T> {
        self.shared_values().get(key, make)
    }

    fn kept<T: Send + Sync + 'static>(&self, key: &Bytes, make: impl FnOnce() -> T) -> Arc<T> {
        self.kept_values().get(key, make)
    }

    fn run_in_background(&self, work: impl Future<Output = ()> + Send + 'static) {
        self.table().spawn_background(Box::pin(work));
    }

    fn spawn_attached<W>(&self, work: impl FnOnce(BackgroundClient) -> W)
    where
        W: Future<Output = ()> + Send + 'static,
    {
        self.run_in_background(work(BackgroundClient::new(self)));
    }

    fn participant(&self, key: &Bytes) -> Participant {
        Participant::new(self, key)
    }

    fn offer<T: Send + 'static>(&self, value: T) -> Offer<T> {
        Offer::new(&self.core().unpolled, value)
    }

    async fn drive_acquire<T, E, F>(
        &self,
        wait: Option<Duration>,
        start: impl FnMut(Option<Duration>) -> F + Send,
    ) -> Result<Result<T, E>, NotDriven>
    where
        T: Send + 'static,
        E: Send + 'static,
        F: Future<Output = Result<T, E>> + Send + 'static,
    {
        self.drive(wait, start).await
    }

    fn enter(
        &self,
        kind: &'static dyn LockProtocol,
        target: &Arc<LockKeys>,
        request: AcquireRequest,
    ) -> Result<PendingAcquire, AcquireError> {
        let entered = self.table().enter(self, kind, target, request);
        // Borrowed, not moved: `PendingAcquire` is large, and each acquire has one.
        if let Err(error) = &entered {
            count::refused(kind.name(), error.outcome(), Duration::ZERO);
        }
        entered
    }

    fn is_in(&self, kind: &'static dyn LockProtocol, target: &Arc<LockKeys>, holder: Option<HolderId>) -> bool {
        holder.is_some_and(|holder| self.table().is_in(kind, target, holder))
    }

    fn holds(&self, kind: &'static dyn LockProtocol, target: &Arc<LockKeys>) -> bool {
        self.table().holds_key(kind, target)
    }

    async fn take_all(
        &self,
        kind: &'static dyn LockProtocol,
        targets: Vec<Arc<LockKeys>>,
        request: AcquireRequest,
        until: Instant,
    ) -> Result<MultiOutcome, AcquireError> {
        self.table().acquire_all(self, kind, targets, request, until).await
    }

    async fn take_over(
        &self,
        kind: &'static dyn LockProtocol,
        target: &Arc<LockKeys>,
        request: AcquireRequest,
        from: TakeoverFrom,
    ) -> Result<Option<HoldGuard>, AcquireError> {
        let releases = from != TakeoverFrom::Anybody;
        let observed = OpSpan::force(OpContext { kind: kind.name(), name: &target.name }, releases);
        observed.instrument(self.table().take_over(self, kind, target, request, from)).await
    }

    async fn attach(
        &self,
        kind: &'static dyn LockProtocol,
        target: &Arc<LockKeys>,
        detached: DetachedHold,
    ) -> Result<HoldGuard, AttachError> {
        self.table().attach(self, kind, target, detached, self.durability()).await
    }

    fn permits(&self, keys: &Arc<SemaphoreKeys>, request: PermitRequest) -> PendingPermit {
        PendingPermit::new(self, keys, request)
    }
}
