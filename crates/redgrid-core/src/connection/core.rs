//! State that all objects of one client share, and the task that drives background work.

use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::select_all;
use tokio::runtime::Handle;
use tokio::sync::{mpsc, watch};
use tokio::task::{JoinHandle, JoinSet};

use super::ended::{Driven, Ended};
use super::events::{Events, Views, Watching};
use super::given_back::GivenBack;
use super::retry::{Progress, RequestOutcome, RetryPolicy, jittered, send_with_retries};
use super::route::commit;
use super::{CommitError, Deployment, Request, Server, Topology, is_same};
use crate::clock::{Clock, Instant};
use crate::config::{Durability, Settings};
use crate::error::ServerError;
use crate::inline_bytes::InlineBytes;
use crate::lease::after_reconnects;
use crate::lock::{BackgroundTask, Table};
use crate::participant::Participants;
use crate::permits::SemaphoreRegistry;
use crate::pinned::pinned;
use crate::pubsub::{Listener, SubscriptionManager};
use crate::unpolled::UnpolledRegistry;

/// Time limit of background work after the last handle was dropped without a shutdown: 5 s.
pub(super) const FAREWELL: Duration = Duration::from_secs(5);

/// Returns whether the current runtime has one thread.
///
/// If client and server are close to each other, a single call in flight then leaves each of them
/// idle half of the time.
pub(super) fn is_one_thread() -> bool {
    Handle::current().metrics().num_workers() == 1
}

/// State that all objects of one client share.
pub(crate) struct Core {
    pub(crate) id: String,
    pub(crate) clock: Clock,
    pub(crate) settings: Settings,
    /// The database of the servers.
    pub(crate) database: u8,
    pub(crate) topology: Arc<dyn Topology>,
    pub(crate) subscriptions: Arc<SubscriptionManager>,
    pub(super) events: Arc<Events>,
    pub(crate) participants: Participants,
    pub(crate) given_back: GivenBack,
    /// Requests that their callers poll in place, and grants that are not accepted yet.
    pub(crate) unpolled: UnpolledRegistry,
    /// See [`is_one_thread`].
    pub(crate) one_thread: bool,
    pub(super) tasks: Mutex<Vec<JoinHandle<()>>>,
    pub(crate) ended: Ended,
    /// The runtime in which the client's tasks run.
    pub(crate) runtime: tokio::runtime::Id,
}

impl Core {
    /// Returns the current primary of a key.
    pub(crate) fn home(&self, key: &[u8]) -> Arc<dyn Server> {
        self.topology.primary(key)
    }

    /// Returns whether there is a connection to the primary of `key`.
    pub(crate) fn is_connected(&self, key: &[u8]) -> bool {
        self.home(key).current_connection_id().is_some()
    }

    /// Returns the last contact with the primary of `key`, while a caller waits.
    ///
    /// It is now if the connection is up and no reply is overdue. `None` without a connection.
    pub(crate) fn contact(&self, key: &[u8]) -> Option<Instant> {
        let home = self.home(key);
        home.current_connection_id().is_some().then(|| self.clock.now() - home.silent_for())
    }

    /// Returns the error of a request for `key` that was not sent in time, with its cause.
    pub(crate) fn no_contact(&self, key: &[u8]) -> ServerError {
        let home = self.home(key);
        self.hinted(match home.current_connection_id() {
            None => home.unreached(),
            Some(_) => ServerError::not_sent(format!("there was no contact with {} in time", home.id())),
        })
    }

    /// Adds a hint to the error if the request came from another runtime than the client's.
    ///
    /// The client's runtime may not be driven then.
    pub(crate) fn hinted(&self, error: ServerError) -> ServerError {
        const HINT: &str = "the client was created in another Tokio runtime, which has to be driven";
        if Handle::try_current().is_ok_and(|here| here.id() == self.runtime) {
            return error;
        }
        match error {
            ServerError::NotSent { reason } => ServerError::not_sent(format!("{reason} ({HINT})")),
            ServerError::Unknown { reason } => ServerError::unknown(format!("{reason} ({HINT})")),
            other => other,
        }
    }

    /// Sends a request until it is finally answered; see [`send_with_retries`].
    ///
    /// Boxed once, here: every operation contains this future, and would reserve its size two or
    /// three times over.
    pub(crate) fn exchange<'a>(
        &'a self,
        request: Request,
        until: Instant,
        persistence: RetryPolicy,
        progress: &'a Progress,
    ) -> Pin<Box<dyn Future<Output = RequestOutcome> + Send + 'a>> {
        self.exchange_shared(Arc::new(request), until, persistence, progress)
    }

    /// Sends a shared request; see [`Core::exchange`].
    ///
    /// It is an `Arc`: a request waiting to be batched is also owned by the batch that sends it.
    pub(super) fn exchange_shared<'a>(
        &'a self,
        request: Arc<Request>,
        until: Instant,
        persistence: RetryPolicy,
        progress: &'a Progress,
    ) -> Pin<Box<dyn Future<Output = RequestOutcome> + Send + 'a>> {
        pinned(|| async move {
            let mut unanswered = None;
            loop {
                let (topology, settings, clock) = (&*self.topology, &self.settings, (&self.clock, &self.ended));
                let mut asked =
                    send_with_retries(topology, settings, clock, &request, until, persistence, progress).await;
                match self.too_late(&request, &mut asked, until, progress, &mut unanswered) {
                    None => return asked,
                    Some(again) => Box::pin(self.clock.sleep_until(again)).await,
                }
            }
        })
    }

    /// Returns when to send the request again because it reached the server too late.
    ///
    /// `None` if it was finally answered. `unanswered` covers all transmissions.
    fn too_late(
        &self,
        request: &Request,
        asked: &mut RequestOutcome,
        until: Instant,
        progress: &Progress,
        unanswered: &mut Option<Instant>,
    ) -> Option<Instant> {
        *unanswered = (*unanswered).max(asked.retransmission_ends);
        asked.retransmission_ends = *unanswered;
        if !request.late_reply_has_time || !asked.has_reported_time() {
            return None;
        }
        // This transmission had no effect. An earlier one may have.
        progress.came_late(unanswered.is_some());
        let again = self.clock.now() + jittered(self.settings.retry_delay);
        if again < until {
            return Some(again);
        }
        asked.result = Err(match unanswered {
            Some(_) => ServerError::unknown("the server found the last copy of the request too late"),
            None => ServerError::not_sent("the server found the request too late"),
        });
        None
    }

    /// Waits until the reply to a request for `key` is as durable as requested.
    pub(crate) async fn commit(
        &self,
        asked: &RequestOutcome,
        durability: Durability,
        key: &[u8],
    ) -> Result<(), CommitError> {
        commit(&*asked.by, asked.epoch.as_ref(), durability, key).await
    }

    /// Returns the holder field for a number, in Redisson's form `<uuid>:<number>`.
    pub(crate) fn field(&self, number: u64) -> Bytes {
        let text = InlineBytes::new().with(self.id.as_bytes()).and_then(|id| id.with(b":")?.with_number(number));
        text.map_or_else(|| format!("{}:{number}", self.id).into(), InlineBytes::into_bytes)
    }

    /// Returns the channel that notifies this client of holds taken over by force: prefix, id and
    /// `}`.
    pub(super) fn notices(&self) -> Bytes {
        format!("{}{}}}", self.notice_prefix(), self.id).into()
    }

    /// Returns the prefix of the notice channels; the client's id follows.
    pub(crate) fn notice_prefix(&self) -> String {
        self.settings.namespace.notice_prefix()
    }

    pub(super) fn tasks(&self) -> std::sync::MutexGuard<'_, Vec<JoinHandle<()>>> {
        self.tasks.lock().unwrap_or_else(|p| p.into_inner())
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Closing {
    No,
    By(Instant),
}

/// Returns the cleanup for a client whose tasks are dropped with their runtime.
///
/// It ends all pending calls, which could not complete any more.
pub(super) fn abandoned(
    core: &Arc<Core>,
    (table, semaphores): (&Arc<Table>, &Arc<SemaphoreRegistry>),
    closer: &Arc<watch::Sender<Closing>>,
) -> Driven {
    let (core, table, semaphores, closer) =
        (Arc::clone(core), Arc::clone(table), Arc::clone(semaphores), Arc::clone(closer));
    Driven::new(move || {
        core.ended.is_over();
        drop(table.close());
        semaphores.close();
        closer.send_if_modified(|closing| {
            let first = *closing == Closing::No;
            if first {
                *closing = Closing::By(core.clock.now());
            }
            first
        });
        core.subscriptions.close();
    })
}

/// Drives the background work of a client, and shuts the client down on request.
///
/// `driven` is created before the task, because the task may be dropped before its first poll.
pub(super) async fn run(
    core: Arc<Core>,
    (table, semaphores): (Arc<Table>, Arc<SemaphoreRegistry>),
    mut work: mpsc::UnboundedReceiver<BackgroundTask>,
    mut closing: watch::Receiver<Closing>,
    (driven, done): (Driven, watch::Sender<bool>),
) {
    let mut tasks = JoinSet::new();
    let by = loop {
        tokio::select! {
            Some(next) = work.recv() => { tasks.spawn(next); }
            Some(_) = tasks.join_next() => {}
            told = closing.wait_for(|closing| *closing != Closing::No) => {
                match told.as_deref() {
                    Ok(Closing::By(by)) => break *by,
                    _ => break core.clock.now() + FAREWELL,
                }
            }
        }
    };
    for left in table.close() {
        tasks.spawn(left);
    }
    semaphores.close();
    core.participants.take_leave_requests().into_iter().for_each(|leave_request| table.run_detached(leave_request));
    let drained = async {
        loop {
            tokio::select! {
                biased;
                Some(next) = work.recv() => { tasks.spawn(next); }
                joined = tasks.join_next() => if joined.is_none() { return },
            }
        }
    };
    let in_time = tokio::select! {
        // First: work that completes at the deadline counts as done in time.
        biased;
        () = drained => true,
        () = core.clock.sleep_until(by) => false,
    };
    tasks.abort_all();
    core.ended.is_over();
    core.events.close();
    for task in core.tasks().drain(..) {
        task.abort();
    }
    core.subscriptions.close();
    let mut closed = core.topology.close();
    // Connections that do not end in time end by themselves soon after. Nothing is held on them any
    // more.
    loop {
        tokio::select! {
            // First, even after the deadline: its first poll makes all connections begin to close.
            biased;
            () = &mut closed => break,
            () = core.clock.sleep_until(by) => break,
            // Work is not driven any more. Its callers are notified when it is dropped.
            Some(_) = work.recv() => {}
        }
    }
    driven.ends();
    if in_time {
        done.send_replace(true);
    }
}

pub(super) async fn follow_notices(mut notices: Listener, table: Arc<Table>) {
    while let Some(notice) = notices.next().await {
        match notice {
            Some(field) => table.preempted(&field),
            // A notice may have been missed: verify all holds.
            None => table.verify_all(),
        }
    }
}

/// Completes when every primary has answered its handshake.
///
/// # Errors
///
/// [`ServerError::Unauthorized`] as soon as a primary refuses this client. If the client has ended,
/// the error says why.
pub(super) async fn ready(core: &Core) -> Result<(), ServerError> {
    let mut changes = core.topology.changes();
    loop {
        if let Some(ended) = core.ended.error() {
            return Err(ended);
        }
        let primaries = core.topology.primaries();
        let all = async {
            for server in &primaries {
                if server.connection_id().wait_for(Option::is_some).await.is_err() {
                    std::future::pending::<()>().await;
                }
            }
        };
        let refused = primaries.iter().map(|server| {
            let mut refusal = server.refusal();
            Box::pin(async move {
                let refused = refusal.wait_for(Option::is_some).await.ok().and_then(|refused| refused.clone());
                match refused {
                    Some(refused) => refused,
                    None => std::future::pending().await,
                }
            })
        });
        let refused = async {
            match primaries.is_empty() {
                true => std::future::pending().await,
                false => select_all(refused).await.0,
            }
        };
        tokio::select! {
            biased;
            () = all => return Ok(()),
            refused = refused => return Err(refused),
            () = core.ended.wait() => {}
            Ok(()) = changes.changed() => {}
        }
    }
}

/// Completes when waiting does not help at any primary: each refuses this client, or is a wrong
/// target.
pub(crate) async fn refused(core: &Core) -> ServerError {
    let mut changes = core.topology.changes();
    loop {
        let primaries = core.topology.primaries();
        let by_all = async {
            let mut last = None;
            for server in &primaries {
                let mut refusal = server.refusal();
                last = refusal.wait_for(Option::is_some).await.ok().and_then(|refused| refused.clone());
                if last.is_none() {
                    break;
                }
            }
            match last {
                Some(refused) => refused,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            refused = by_all => return refused,
            changed = changes.changed() => if changed.is_err() { std::future::pending::<()>().await },
        }
    }
}

/// Follows the topology: holds and waiters are moved to the current primary of their names.
pub(super) async fn follow(core: Arc<Core>, table: Arc<Table>, semaphores: Arc<SemaphoreRegistry>) {
    let mut changes = core.topology.changes();
    let mut watched: Vec<(Arc<dyn Server>, AbortOnDrop)> = Vec::new();
    let mut views = Views::new(core.topology.kind());
    let mut reported: Vec<Watching> = Vec::new();
    loop {
        report(&core, &mut views, &mut reported);
        let primaries = core.topology.primaries();
        watched.retain(|(server, _)| primaries.iter().any(|primary| is_same(primary, server)));
        for server in primaries {
            if !watched.iter().any(|(known, _)| is_same(known, &server)) {
                let (table, semaphores) = (Arc::clone(&table), Arc::clone(&semaphores));
                let watching = tokio::spawn(after_reconnects(Arc::clone(&server), move |server| {
                    table.verify_node(server);
                    semaphores.verify_node(server);
                }));
                watched.push((server, AbortOnDrop(watching)));
            }
        }
        core.subscriptions.reassign();
        core.given_back.look();
        table.verify_moved();
        semaphores.verify_all();
        if changes.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

/// Publishes topology changes, and watches the connections of the current nodes.
fn report(core: &Core, views: &mut Views, reported: &mut Vec<Watching>) {
    let shards = core.topology.shards();
    let nodes: Vec<_> =
        shards.into_iter().flat_map(|shard| shard.replicas.into_iter().chain([shard.primary])).collect();
    reported.retain(|known| nodes.iter().any(|node| is_same(node, &known.server)));
    core.events.changed(views, Deployment::of(&*core.topology));
    for node in nodes {
        if !reported.iter().any(|known| is_same(&known.server, &node)) {
            reported.push(core.events.watch(node));
        }
    }
}

struct AbortOnDrop(JoinHandle<()>);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}
