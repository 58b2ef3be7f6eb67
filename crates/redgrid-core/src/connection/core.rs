//! What all objects of one client share, and the task that drives what has no caller (any more).

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
use crate::lock::{BackgroundTask, Table};
use crate::permits::Pools;
use crate::pinned::pinned;
use crate::seat::Seats;
use crate::short::Short;
use crate::unpolled::Unattended;
use crate::wait::{Hub, Listener};

/// How long the last handle's background work may take when it was not shut down: 5 s.
pub(super) const FAREWELL: Duration = Duration::from_secs(5);

/// Whether the runtime that we are in has one thread. Where client and server are near each other, one call under way leaves each of them
/// idle half of the time then.
pub(super) fn is_one_thread() -> bool {
    Handle::current().metrics().num_workers() == 1
}

/// What all objects of one client share.
pub(crate) struct Core {
    pub(crate) id: String,
    pub(crate) clock: Clock,
    pub(crate) settings: Settings,
    /// Which database of the servers is used.
    pub(crate) database: u8,
    pub(crate) topology: Arc<dyn Topology>,
    pub(crate) hub: Arc<Hub>,
    pub(super) events: Arc<Events>,
    pub(crate) seats: Seats,
    pub(crate) given_back: GivenBack,
    /// Requests that their callers poll in place, and grants that are not taken yet.
    pub(crate) unattended: Unattended,
    /// See [`is_one_thread`].
    pub(crate) one_thread: bool,
    pub(super) tasks: Mutex<Vec<JoinHandle<()>>>,
    pub(crate) ended: Ended,
    /// The runtime in which its tasks run.
    pub(crate) runtime: tokio::runtime::Id,
}

impl Core {
    /// The server that decides for a key at the moment.
    pub(crate) fn home(&self, key: &[u8]) -> Arc<dyn Server> {
        self.topology.primary(key)
    }

    /// Whether there is a connection to the server that decides for `key`.
    pub(crate) fn is_connected(&self, key: &[u8]) -> bool {
        self.home(key).current_connection_id().is_some()
    }

    /// The last contact with the server that decides for `key`, while a caller waits and the server
    /// owes it no answer: now, where the connection is up and the server does not hang. `None`
    /// without a connection.
    pub(crate) fn contact(&self, key: &[u8]) -> Option<Instant> {
        let home = self.home(key);
        home.current_connection_id().is_some().then(|| self.clock.now() - home.silent_for())
    }

    /// The error of a request about `key` that was not sent in time, with what stands in the way.
    pub(crate) fn no_contact(&self, key: &[u8]) -> ServerError {
        let home = self.home(key);
        self.hinted(match home.current_connection_id() {
            None => home.unreached(),
            Some(_) => ServerError::not_sent(format!("there was no contact with {} in time", home.id())),
        })
    }

    /// An error with a hint, where the request came from another runtime than that of the client:
    /// nobody may drive the client's.
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

    /// Sends a request until it is answered for good; see [`exchange`].
    ///
    /// Boxed once, here: every operation has one, and would have its room two or three times over.
    pub(crate) fn exchange<'a>(
        &'a self,
        request: Request,
        until: Instant,
        persistence: RetryPolicy,
        progress: &'a Progress,
    ) -> Pin<Box<dyn Future<Output = RequestOutcome> + Send + 'a>> {
        self.exchange_shared(Arc::new(request), until, persistence, progress)
    }

    /// The same of a request that is kept: who waits to leave together with others is in their hands, too.
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

    /// When it is to be asked again, as the server found it too late; `None` where it was answered for good. `unanswered` is of all
    /// copies.
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
        if !request.tells_time || !asked.has_reported_time() {
            return None;
        }
        // This copy did nothing. An earlier one may have.
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

    /// Waits until what was answered to an exchange about `key` is as durable as asked.
    pub(crate) async fn commit(
        &self,
        asked: &RequestOutcome,
        durability: Durability,
        key: &[u8],
    ) -> Result<(), CommitError> {
        commit(&*asked.by, asked.epoch.as_ref(), durability, key).await
    }

    /// The holder field of a number: Redisson's form, `<uuid>:<number>`.
    pub(crate) fn field(&self, number: u64) -> Bytes {
        let text = Short::new().with(self.id.as_bytes()).and_then(|id| id.with(b":")?.with_number(number));
        text.map_or_else(|| format!("{}:{number}", self.id).into(), Short::into_bytes)
    }

    /// Where this client is told that a hold of its was taken by force: the prefix of all such channels, the id, and `}`.
    pub(super) fn notices(&self) -> Bytes {
        format!("{}{}}}", self.notice_prefix(), self.id).into()
    }

    /// The channel of a client's notices, up to its id.
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

/// What becomes of a client whose tasks are dropped with their runtime: no caller is left waiting
/// for what does not come any more.
pub(super) fn abandoned(
    core: &Arc<Core>,
    (table, pools): (&Arc<Table>, &Arc<Pools>),
    closer: &Arc<watch::Sender<Closing>>,
) -> Driven {
    let (core, table, pools, closer) = (Arc::clone(core), Arc::clone(table), Arc::clone(pools), Arc::clone(closer));
    Driven::new(move || {
        core.ended.is_over();
        drop(table.close());
        pools.close();
        closer.send_if_modified(|closing| {
            let first = *closing == Closing::No;
            if first {
                *closing = Closing::By(core.clock.now());
            }
            first
        });
        core.hub.close();
    })
}

/// Drives the work that has no caller (any more), and ends everything when told. `driven` is made
/// before the task: that may be dropped before it has begun.
pub(super) async fn run(
    core: Arc<Core>,
    (table, pools): (Arc<Table>, Arc<Pools>),
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
    pools.close();
    core.seats.leave_all().into_iter().for_each(|farewell| table.run_detached(farewell));
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
        // First: what is done when the time is over was done in time.
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
    core.hub.close();
    let mut closed = core.topology.close();
    // Connections that do not end in time end by themselves soon after; nothing is held on them any more.
    loop {
        tokio::select! {
            // First, also when the time is over: it has all of them begin to end.
            biased;
            () = &mut closed => break,
            () = core.clock.sleep_until(by) => break,
            // Nobody drives it any more: who waits for it is told when it is dropped.
            Some(_) = work.recv() => {}
        }
    }
    driven.ends();
    if in_time {
        done.send_replace(true);
    }
}

pub(super) async fn hear(mut notices: Listener, table: Arc<Table>) {
    while let Some(notice) = notices.next().await {
        match notice {
            Some(field) => table.preempted(&field),
            // A notice may have been missed: look after everything.
            None => table.verify_all(),
        }
    }
}

/// Completes when every node that may decide for some key has answered its handshake.
///
/// # Errors
///
/// [`ServerError::Unauthorized`] as soon as one of them refuses this client, and what says why the
/// client has ended.
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

/// Completes when waiting does not help at any node that decides for keys: each refuses this client,
/// or is a wrong target.
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

/// Follows the topology: what is held and awaited goes to where its names are decided by now.
pub(super) async fn follow(core: Arc<Core>, table: Arc<Table>, pools: Arc<Pools>) {
    let mut changes = core.topology.changes();
    let mut watched: Vec<(Arc<dyn Server>, [AbortOnDrop; 2])> = Vec::new();
    let mut views = Views::new(core.topology.kind());
    let mut reported: Vec<Watching> = Vec::new();
    loop {
        report(&core, &mut views, &mut reported);
        let primaries = core.topology.primaries();
        watched.retain(|(server, _)| primaries.iter().any(|primary| is_same(primary, server)));
        for server in primaries {
            if !watched.iter().any(|(known, _)| is_same(known, &server)) {
                let watching = tokio::spawn(Arc::clone(&table).verify_after_reconnects(Arc::clone(&server)));
                let permits = tokio::spawn(Arc::clone(&pools).verify_after_reconnects(Arc::clone(&server)));
                watched.push((server, [watching, permits].map(AbortOnDrop)));
            }
        }
        core.hub.rehome();
        core.given_back.look();
        table.verify_moved();
        pools.verify_all();
        if changes.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

/// Tells what has changed, and watches the connections of the nodes there are by now.
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
