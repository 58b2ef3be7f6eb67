//! Repeats recent releases after a failover.
//!
//! A primary can fail before its replicas have received the releases of the last seconds. The
//! promoted replica then keeps the released holds until their leases end. So the client sends these
//! releases again to every server process that becomes the primary of their keys.
//!
//! Only releases are remembered. Each release contains a holder field or the id of a permit, which
//! no later grant uses again. So a release has no effect if the new primary has executed it before,
//! or if the name has another holder.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::stream;
use tokio::sync::Notify;

use crate::clock::Instant;
use crate::connection::core::Core;
use crate::connection::request::What;
use crate::connection::{Arg, NodeId, Request, RequestOutcome, RetryPolicy, Server};
use crate::script::{BatchPhase, BatchScript, ScriptRef, ScriptText};
use crate::sync::Mutex;

/// How long a release is remembered if its primary answers all the time: 5 s. Replicas lag by less
/// than this, and sentinels report a promoted server after 1 to 2 s.
const KEPT: Duration = Duration::from_secs(5);

/// Maximum number of keys in the remembered releases of one server process. If there are more, the
/// oldest releases are forgotten.
///
/// The release of a plain lock has one key.
const MOST: usize = 1024;

/// Maximum number of releases that are sent again concurrently. Releases to the same node can share
/// a batch.
const AT_ONCE: usize = 256;

/// Time between the first and the second check after a change of a primary. The second check finds
/// releases that were answered just before the change, but remembered only after the first check.
const SECOND_LOOK: Duration = Duration::from_millis(100);

/// A server process: its node, and its `run_id`, which is empty if the user has no permission to
/// read it.
type Process = (NodeId, Arc<str>);

/// The remembered releases, grouped by the server process that answered them. A list suffices:
/// there are few processes, and [`GivenBack::remember`] scans them.
type ByProcess = Vec<(Process, Last)>;

/// The last releases that a server process answered, in the order of the replies.
///
/// Only their bytes are kept, one release after another. Keeping the requests themselves would cost
/// 4 % more CPU time, measured with 256 tasks that acquire and release. The reason is that the
/// memory of a request would be freed a thousand requests later, when that memory has left the
/// processor's cache.
#[derive(Default)]
struct Last {
    releases: VecDeque<Release>,
    bytes: VecDeque<u8>,
    keys: usize,
}

/// Kind of an item in [`Last::bytes`]: a key, or an argument that is sent unchanged. An item
/// consists of one byte for its kind, four bytes for its length, and its content.
const BYTES: u8 = 0;
const NOT_AFTER: u8 = 1;
const PUBLISH: u8 = 2;
const SHARDED: u8 = 3;

/// A release without its keys and arguments, which are in [`Last::bytes`].
#[derive(Clone, Copy)]
struct Release {
    at: Instant,
    script: &'static ScriptText,
    batch: Option<(&'static BatchScript, BatchPhase)>,
    keys: u32,
    args: u32,
    size: usize,
}

impl Last {
    fn push(&mut self, now: Instant, request: &Request) {
        debug_assert!(
            request.idempotent && !request.late_reply_has_time && !request.in_order,
            "other marks are not kept"
        );
        let What::Script(ScriptRef::Static(script)) = request.what else {
            debug_assert!(false, "releases are calls of scripts of this crate");
            return;
        };
        let before = self.bytes.len();
        request.keys.iter().for_each(|key| self.push_item(BYTES, key));
        for arg in &request.args {
            match arg {
                Arg::Bytes(bytes) | Arg::Key(bytes) => self.push_item(BYTES, bytes),
                Arg::NotAfter => self.push_item(NOT_AFTER, &[]),
                Arg::Publish => self.push_item(PUBLISH, &[]),
                Arg::Sharded => self.push_item(SHARDED, &[]),
            }
        }
        let (keys, args) = (request.keys.len(), request.args.len());
        self.keys += keys;
        self.releases.push_back(Release {
            at: now,
            script,
            batch: request.batch,
            keys: keys as u32,
            args: args as u32,
            size: self.bytes.len() - before,
        });
        while self.keys > MOST || self.releases.front().is_some_and(|first| now.since(first.at) > KEPT) {
            self.forget_first();
        }
    }

    fn push_item(&mut self, kind: u8, item: &[u8]) {
        self.bytes.push_back(kind);
        self.bytes.extend((item.len() as u32).to_le_bytes());
        self.bytes.extend(item);
    }

    fn forget_first(&mut self) {
        let Some(first) = self.releases.pop_front() else { return };
        self.keys -= first.keys as usize;
        self.bytes.drain(..first.size);
    }

    /// Removes and returns the releases whose first key has moved, as `is_moved` decides.
    fn take(&mut self, is_moved: impl Fn(&[u8]) -> bool) -> Vec<(Instant, Request)> {
        let (mut kept, mut moved) = (Last::default(), Vec::new());
        let Last { releases, mut bytes, .. } = std::mem::take(self);
        let mut rest = &*bytes.make_contiguous();
        for release in releases {
            let (own, behind) = rest.split_at(release.size);
            rest = behind;
            let (_, first_key, _) = item(own);
            if is_moved(first_key) {
                moved.push((release.at, release.request(own)));
            } else {
                kept.keys += release.keys as usize;
                kept.releases.push_back(release);
                kept.bytes.extend(own);
            }
        }
        *self = kept;
        moved
    }
}

impl Release {
    fn request(&self, bytes: &[u8]) -> Request {
        let mut rest = bytes;
        let mut next = || {
            let (kind, item, behind) = item(rest);
            rest = behind;
            (kind, Bytes::copy_from_slice(item))
        };
        let keys: Vec<_> = (0..self.keys).map(|_| next().1).collect();
        let mut request = Request::script(self.script).keys(keys).idempotent();
        request.batch = self.batch;
        request.args = (0..self.args)
            .map(|_| match next() {
                (NOT_AFTER, _) => Arg::NotAfter,
                (PUBLISH, _) => Arg::Publish,
                (SHARDED, _) => Arg::Sharded,
                (_, bytes) => Arg::Bytes(bytes),
            })
            .collect();
        request
    }
}

/// Splits the first item off `bytes`. Returns its kind, its content, and the bytes after it.
fn item(bytes: &[u8]) -> (u8, &[u8], &[u8]) {
    let (head, behind) = bytes.split_at(5);
    let size = u32::from_le_bytes([head[1], head[2], head[3], head[4]]) as usize;
    let (item, behind) = behind.split_at(size);
    (head[0], item, behind)
}

/// The remembered releases.
#[derive(Default)]
pub struct GivenBack {
    by: Mutex<ByProcess>,
    /// Notified when the first release is remembered, or a primary may have changed.
    news: Notify,
}

impl GivenBack {
    /// Schedules a check for remembered releases whose keys now have another primary.
    pub(crate) fn schedule_check(&self) {
        self.news.notify_one();
    }

    /// Remembers an answered release.
    pub fn remember(&self, request: &Request, answered: &RequestOutcome) {
        let Some(epoch) = &answered.epoch else { return };
        let now = answered.received;
        let mut by = self.by.lock();
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

    /// Removes the releases whose keys now belong to another server process. Returns these releases
    /// in the order of their replies.
    ///
    /// A release stays in the list while the current primary of its key has no connection. Another
    /// check follows once that primary is connected.
    fn take_moved(&self, home: impl Fn(&[u8]) -> Arc<dyn Server>) -> Vec<Request> {
        let mut moved = Vec::new();
        for (process, last) in self.by.lock().iter_mut() {
            moved.extend(last.take(|key| process_of(&*home(key)).is_some_and(|home| home != *process)));
        }
        moved.sort_by_key(|(at, _)| *at);
        moved.into_iter().map(|(_, request)| request).collect()
    }

    /// Forgets releases older than [`KEPT`] if the server process that answered them is still a
    /// primary, and still answers. Returns false if no release is left.
    ///
    /// While a primary is missing, its last releases are kept for its successor.
    fn prune(&self, now: Instant, primaries: &[Arc<dyn Server>]) -> bool {
        let mut by = self.by.lock();
        by.retain_mut(|(process, last)| {
            if primaries.iter().any(|it| it.answers() && process_of(&**it).as_ref() == Some(process)) {
                while last.releases.front().is_some_and(|first| now.since(first.at) > KEPT) {
                    last.forget_first();
                }
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
    async fn give_back_moved(&self) {
        let moved = self.given_back.take_moved(|key| self.home(key));
        if moved.is_empty() {
            return;
        }
        tracing::debug!(releases = moved.len(), "releases are sent again to a new primary");
        let until = self.clock.now() + self.settings.patience();
        let sent = moved.into_iter().map(|request| self.give_back(request, until, RetryPolicy::ToTheEnd));
        let failed = stream::iter(sent).buffer_unordered(AT_ONCE).filter(|outcome| {
            let failed = outcome.result.is_err();
            async move { failed }
        });
        let failed = failed.count().await;
        if failed > 0 {
            tracing::debug!(failed, "releases could not be sent again; the holds end with their leases");
        }
    }
}

/// Repeats releases after each change of a primary, until the task is aborted.
pub(in crate::connection) async fn repeat(core: Arc<Core>) {
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

#[cfg(test)]
mod tests {
    use super::*;

    static RELEASE: ScriptText = ScriptText::new("release", "return 1");

    fn release(name: &str) -> Request {
        Request::script(&RELEASE).keys([Bytes::from(name.to_owned())]).idempotent().arg("holder").publish_arg().arg("")
    }

    #[test]
    fn a_release_is_taken_out_as_it_was_put_in() {
        let mut last = Last::default();
        let of_two = Request::script(&RELEASE).keys(["b".into(), "bb".into()]).idempotent().int(7).spublish_arg();
        for request in [release("a"), of_two.clone(), release("c")] {
            last.push(Instant::MIN, &request);
        }
        let taken = last.take(|key| key != b"a");
        let text =
            |requests: &[(Instant, Request)]| format!("{:?}", requests.iter().map(|(_, one)| one).collect::<Vec<_>>());
        assert_eq!(text(&taken), format!("{:?}", [of_two, release("c")]));
        assert_eq!((last.keys, last.releases.len()), (1, 1));
        assert_eq!(text(&last.take(|_| true)), format!("{:?}", [release("a")]));
        assert_eq!((last.keys, last.bytes.len()), (0, 0));
    }

    #[test]
    fn the_oldest_releases_are_forgotten_by_number_of_keys_and_by_age() {
        let mut last = Last::default();
        (0..MOST + 10).for_each(|n| last.push(Instant::MIN, &release(&format!("name {n}"))));
        assert_eq!((last.keys, last.releases.len()), (MOST, MOST));
        assert_eq!(last.bytes.len(), last.releases.iter().map(|release| release.size).sum::<usize>());
        last.push(Instant::MIN + KEPT + Duration::from_nanos(1), &release("late"));
        assert_eq!(last.take(|_| true).len(), 1);
    }
}
