//! Releases that were answered within the last seconds. A primary may fail before a replica has them:
//! the replica that takes its place then still has the hold, and nobody ends it before its lease. So
//! they are sent again to each process that decides for their keys from then on.
//!
//! Only releases are remembered. Each names a holder field, or the id of a permit, that no later grant
//! has: a release that the new primary knows of, or whose name has another holder, changes nothing.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream;
use tokio::sync::Notify;

use super::core::Core;
use super::{NodeId, Progress, Request, RequestOutcome, RetryPolicy, Server};
use crate::clock::Instant;

/// How long a release is remembered while its primary goes on to answer: 5 s. Replicas are behind by
/// less, and sentinels take 1 to 2 s to name the server that they have promoted.
const KEPT: Duration = Duration::from_secs(5);

/// Maximum number of keys in the remembered releases of one primary; older releases are forgotten. A plain lock has one key. The
/// limit is low because each remembered request stays in memory: a large set no longer fits into a processor's cache.
const MOST: usize = 1024;

/// How many releases are sent again at a time; those of a node leave together.
const AT_ONCE: usize = 256;

/// When is looked a second time after a change: a release that was answered just before the change may
/// be remembered just after it.
const SECOND_LOOK: Duration = Duration::from_millis(100);

/// A process that has answered: its node, and its `run_id`, which is empty where the user may not ask.
type Process = (NodeId, Arc<str>);

/// Releases by the process that answered them. A list: there are few processes, and each release looks for its own.
type ByProcess = Vec<(Process, Last)>;

/// The last releases of a process, in the order of the answers.
#[derive(Default)]
struct Last {
    releases: VecDeque<(Instant, Arc<Request>)>,
    /// How many keys they have.
    keys: usize,
}

impl Last {
    fn push(&mut self, now: Instant, request: Arc<Request>) {
        self.keys += request.touched().len();
        self.releases.push_back((now, request));
        while self.keys > MOST || self.releases.front().is_some_and(|(at, _)| now.since(*at) > KEPT) {
            let Some((_, oldest)) = self.releases.pop_front() else { return };
            self.keys -= oldest.touched().len();
        }
    }

    fn retain(&mut self, stays: impl FnMut(&(Instant, Arc<Request>)) -> bool) {
        self.releases.retain(stays);
        self.releases.shrink_to(self.releases.len() * 2);
        self.keys = self.releases.iter().map(|(_, request)| request.touched().len()).sum();
    }
}

/// What is remembered.
#[derive(Default)]
pub(crate) struct GivenBack {
    by: Mutex<ByProcess>,
    /// The first is remembered, or a primary may have changed.
    news: Notify,
}

impl GivenBack {
    fn by(&self) -> MutexGuard<'_, ByProcess> {
        self.by.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Has a task look for releases whose keys have another primary by now.
    pub(crate) fn look(&self) {
        self.news.notify_one();
    }

    /// Remembers a release that was answered.
    pub(crate) fn remember(&self, request: Arc<Request>, answered: &RequestOutcome) {
        let Some(epoch) = &answered.epoch else { return };
        let now = answered.received;
        let mut by = self.by();
        let first = by.is_empty();
        let process = by.iter_mut().find(|((node, run_id), _)| *run_id == epoch.run_id && node == answered.by.id());
        match process {
            Some((_, last)) => last.push(now, request),
            None => {
                let mut last = Last::default();
                last.push(now, request);
                by.push(((answered.by.id().clone(), Arc::clone(&epoch.run_id)), last));
            }
        }
        drop(by);
        if first {
            self.news.notify_one();
        }
    }

    /// Takes out the releases whose keys are decided by another process by now, in the order of their
    /// answers. Those whose new primary has no connection yet stay: it is a change when it has one.
    fn take_moved(&self, home: impl Fn(&[u8]) -> Arc<dyn Server>) -> Vec<Arc<Request>> {
        let mut moved = Vec::new();
        for (process, last) in self.by().iter_mut() {
            last.retain(|(at, request)| {
                let stays = process_of(&*home(request.first_key())).is_none_or(|home| home == *process);
                if !stays {
                    moved.push((*at, Arc::clone(request)));
                }
                stays
            });
        }
        moved.sort_by_key(|(at, _)| *at);
        moved.into_iter().map(|(_, request)| request).collect()
    }

    /// Forgets what is older than [`KEPT`] where the process goes on to answer; false where nothing is
    /// left. While a primary is missed, what it answered last is kept for the one that replaces it.
    fn prune(&self, now: Instant, primaries: &[Arc<dyn Server>]) -> bool {
        let mut by = self.by();
        by.retain_mut(|(process, last)| {
            if primaries.iter().any(|it| it.answers() && process_of(&**it).as_ref() == Some(process)) {
                last.retain(|(at, _)| now.since(*at) <= KEPT);
            }
            !last.releases.is_empty()
        });
        !by.is_empty()
    }
}

fn process_of(server: &dyn Server) -> Option<Process> {
    server.current_connection_id().map(|epoch| (server.id().clone(), epoch.run_id))
}

impl Core {
    /// Sends a release until it is answered, or until `until`, and remembers it. It has to be harmless
    /// when it is carried out once more, whoever has the name by then.
    pub(crate) async fn give_back(&self, request: Request, until: Instant, persistence: RetryPolicy) -> RequestOutcome {
        self.give_back_shared(Arc::new(request), until, persistence).await
    }

    async fn give_back_shared(
        &self,
        request: Arc<Request>,
        until: Instant,
        persistence: RetryPolicy,
    ) -> RequestOutcome {
        let asked = self.exchange_shared(Arc::clone(&request), until, persistence, &Progress::default()).await;
        if asked.result.is_ok() {
            self.given_back.remember(request, &asked);
        }
        asked
    }

    async fn give_back_moved(&self) {
        let moved = self.given_back.take_moved(|key| self.home(key));
        if moved.is_empty() {
            return;
        }
        tracing::debug!(releases = moved.len(), "sent again to a new primary");
        let until = self.clock.now() + self.settings.patience();
        let sent = moved.into_iter().map(|request| self.give_back_shared(request, until, RetryPolicy::ToTheEnd));
        let failed = stream::iter(sent).buffer_unordered(AT_ONCE).filter(|asked| {
            let failed = asked.result.is_err();
            async move { failed }
        });
        let failed = failed.count().await;
        if failed > 0 {
            tracing::debug!(failed, "releases could not be sent again; their leases end what they would have ended");
        }
    }
}

/// Sends releases again after each change of a primary, for as long as it is not aborted.
pub(super) async fn repeat(core: Arc<Core>) {
    loop {
        let is_empty = !core.given_back.prune(core.clock.now(), &core.topology.primaries());
        tokio::select! {
            () = core.given_back.news.notified() => {}
            () = tokio::time::sleep(KEPT), if !is_empty => continue,
        }
        core.give_back_moved().await;
        tokio::time::sleep(SECOND_LOOK).await;
        core.give_back_moved().await;
    }
}
