//! Sends one request to the node of its key until the request is finally answered. Each
//! transmission has a time limit.
//!
//! This file has the code for a request that is answered at once. Everything else is in `retry`
//! (further transmissions and the pauses before them) and in `route` (redirects).

use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::progress::Progress;
use super::retry::{Exchange, RetryPolicy, Tries, admitted};
use super::route::is_doubtful;
use crate::clock::Instant;
use crate::config::Durability;
use crate::connection::link::suspicion_timeout;
use crate::connection::slot::hash_tag;
use crate::connection::{CommitError, ConnectionId, Core, Reply, Request, Server, Topology, TopologyHint, is_same};
use crate::count;
use crate::error::ServerError;
use crate::pinned::pinned;

/// The outcome of a request, and of its last transmission.
// Not `#[non_exhaustive]`: only redgrid-core uses it.
pub struct RequestOutcome {
    /// The reply, or the final error. The reply to one transmission is valid for the whole request,
    /// because only an idempotent request is sent again after it may have executed.
    pub result: Result<Reply, ServerError>,
    /// When the last transmission was sent. If there is a reply, it answers this transmission. The
    /// clock is read just before sending.
    pub sent: Instant,
    /// When the reply or the error arrived.
    pub received: Instant,
    /// Until when an unanswered transmission may still execute; `None` if every transmission was
    /// answered.
    pub retransmission_ends: Option<Instant>,
    /// The node of the last transmission, whether it answered or not.
    pub by: Arc<dyn Server>,
    /// The connection on which the last transmission was sent.
    pub epoch: Option<ConnectionId>,
}

impl Core {
    /// Sends a request until it is finally answered or `until` has passed.
    ///
    /// The future is boxed, because every operation contains it. Unboxed, it would make an
    /// operation's future three to four times as large.
    pub fn exchange<'a>(
        &'a self,
        request: Request,
        until: Instant,
        policy: RetryPolicy,
        progress: &'a Progress,
    ) -> Pin<Box<dyn Future<Output = RequestOutcome> + Send + 'a>> {
        self.exchange_shared(Arc::new(request), until, policy, progress)
    }

    /// Sends a release until it is answered or `until` has passed. An answered release is
    /// remembered, to be repeated after a failover.
    ///
    /// The release must be idempotent, and harmless to any later holder of the name.
    pub async fn give_back(&self, request: Request, until: Instant, policy: RetryPolicy) -> RequestOutcome {
        let request = Arc::new(request);
        let outcome = self.exchange_shared(Arc::clone(&request), until, policy, &Progress::default()).await;
        if outcome.result.is_ok() {
            self.given_back.remember(&request, &outcome);
        }
        outcome
    }

    /// Sends a shared request; see [`Core::exchange`].
    ///
    /// The request is an `Arc`, because the queue of calls that wait for a batch owns it, too.
    fn exchange_shared<'a>(
        &'a self,
        request: Arc<Request>,
        until: Instant,
        policy: RetryPolicy,
        progress: &'a Progress,
    ) -> Pin<Box<dyn Future<Output = RequestOutcome> + Send + 'a>> {
        let mut exchange = Exchange { core: self, request, progress, tries: Tries::new(policy, until) };
        pinned(|| async move {
            let topology = &*self.topology;
            let outcome = loop {
                let request = &exchange.request;
                let key = request.first_key();
                let to = if request.reads { topology.reader(key) } else { topology.primary(key) };
                // The permit is held until this transmission is answered. Releases bypass the
                // limit.
                let permit = match to.in_flight_limit() {
                    Some(limit) if policy != RetryPolicy::ToTheEnd => match limit.try_acquire() {
                        Ok(permit) => Some(permit),
                        Err(_) => match Box::pin(admitted(limit, &self.clock, until, progress)).await {
                            // The primary was replaced during the wait. The permit is for requests
                            // to the former primary, so it is dropped.
                            Ok(_) if !request.reads && !is_same(&topology.primary(key), &to) => continue,
                            Ok(permit) => Some(permit),
                            Err(error) => break exchange.tries.unsent(error, &to, self.clock.now()),
                        },
                    },
                    _ => None,
                };
                let sent = self.clock.now();
                let limit = exchange.tries.limit(sent, self.settings.response_timeout);
                if !progress.begin() {
                    break exchange.tries.unsent(ServerError::not_sent("the call was given up"), &to, sent);
                }
                let transmission = Transmission::new(topology, request, limit);
                let Answer { result, by, epoch, at_home } = match request.reads {
                    true => transmission.to(Arc::clone(&to)).await,
                    false => transmission.to_primary(Arc::clone(&to)).await,
                };
                let (received, retransmission_ends) = (self.clock.now(), exchange.tries.unanswered);
                let mut outcome = RequestOutcome { result, sent, received, retransmission_ends, by, epoch };
                if let Ok(_) | Err(ServerError::Decode { .. }) = &outcome.result {
                    outcome.by.time().observe_round_trip(sent, received);
                    count::answered(outcome.by.id(), received.since(sent));
                    progress.answered();
                    if !request.late_reply_has_time || !outcome.has_reported_time() {
                        break outcome;
                    }
                }
                drop(permit);
                if !exchange.goes_on(&mut outcome, limit) {
                    break outcome;
                }
                // The pause is boxed because it is rare: unboxed, it would enlarge every request.
                if let Some(last) = Box::pin(exchange.pause(outcome, at_home)).await {
                    break last;
                }
            };
            count::request_ended(&outcome.result);
            outcome
        })
    }

    /// Waits until the write of a request for `key` is as durable as requested.
    pub async fn commit(
        &self,
        outcome: &RequestOutcome,
        durability: Durability,
        key: &[u8],
    ) -> Result<(), CommitError> {
        commit(&*outcome.by, outcome.epoch.as_ref(), durability, key).await
    }
}

impl RequestOutcome {
    /// Returns whether an earlier transmission may have executed before the answered one.
    pub fn was_retransmitted(&self) -> bool {
        self.retransmission_ends.is_some()
    }

    /// Returns whether the reply says that the transmission arrived too late. Such a reply is a
    /// list of -1 and the server's time.
    ///
    /// If so, passes that time to the estimate of the server's clock.
    fn has_reported_time(&self) -> bool {
        let Ok(Reply::Array(parts)) = &self.result else { return false };
        let [late, time] = &parts[..] else { return false };
        let (Ok(-1), Ok(time)) = (late.clone().into_typed::<i64>(), time.clone().into_typed::<u64>()) else {
            return false;
        };
        self.report_time(time);
        true
    }

    /// Records the server's time from the reply to a late transmission.
    pub fn report_time(&self, time: u64) {
        // After a reconnect, the server may be another process. The estimate of its clock must not
        // include a time from the old process.
        if self.by.current_connection_id() == self.epoch {
            self.by.time().observe_exchange(time, self.sent, self.received);
        }
    }
}

/// The answer to one transmission.
pub struct Answer {
    /// The reply, or the error.
    pub result: Result<Reply, ServerError>,
    /// The node of the transmission, after all redirects.
    pub by: Arc<dyn Server>,
    /// The connection on which the transmission was sent.
    pub epoch: Option<ConnectionId>,
    /// Whether the node was the primary of the key at the time of sending. False after a redirect,
    /// and for reads, which may go to a replica.
    pub(in crate::connection) at_home: bool,
}

impl Answer {
    /// Waits until a write is as durable as requested: the write to `key` that this reply confirms.
    pub async fn commit(&self, durability: Durability, key: &[u8]) -> Result<(), CommitError> {
        commit(&*self.by, self.epoch.as_ref(), durability, key).await
    }
}

/// Waits until a write is as durable as requested: the write to `key` that the node `by` confirmed
/// on connection `epoch`.
pub(in crate::connection) async fn commit(
    by: &dyn Server,
    epoch: Option<&ConnectionId>,
    durability: Durability,
    key: &[u8],
) -> Result<(), CommitError> {
    if Durability::Primary.covers(durability) {
        return Ok(());
    }
    match epoch {
        // The commit is boxed because it is rare: unboxed, it would enlarge the future of every
        // acquire.
        Some(epoch) => Box::pin(by.commit(epoch.clone(), durability, hash_tag(key))).await,
        None => Err(ServerError::not_sent("no connection").into()),
    }
}

/// Sends one transmission to the primary of its key, and rejects the reply of a primary that was
/// replaced meanwhile.
pub async fn unless_replaced(topology: &dyn Topology, request: &Arc<Request>, limit: Instant) -> Answer {
    let home = topology.primary(request.first_key());
    let answer = Transmission::new(topology, request, limit).to_primary(home).await;
    count::request_ended(&answer.result);
    answer
}

/// Sends one transmission to the node of its key, without checking whether that node was replaced.
pub async fn once(topology: &dyn Topology, request: Request, limit: Instant) -> Answer {
    let key = request.first_key();
    let to = if request.reads { topology.reader(key) } else { topology.primary(key) };
    let answer = Transmission::new(topology, &Arc::new(request), limit).to(to).await;
    count::request_ended(&answer.result);
    answer
}

/// One transmission of a request, with all redirects that it follows.
pub(super) struct Transmission<'a> {
    pub(super) topology: &'a dyn Topology,
    pub(super) request: &'a Arc<Request>,
    pub(super) limit: Instant,
    /// Whether it was redirected.
    pub(super) sent_on: AtomicBool,
}

impl<'a> Transmission<'a> {
    fn new(topology: &'a dyn Topology, request: &'a Arc<Request>, limit: Instant) -> Self {
        Transmission { topology, request, limit, sent_on: AtomicBool::new(false) }
    }

    /// Sends the transmission to the node `by`.
    async fn to(&self, by: Arc<dyn Server>) -> Answer {
        let epoch = by.current_connection_id();
        let result = by.ask(self.request, self.limit).await;
        // Redirects are among the doubtful errors, so `follow` handles them.
        let is_final = !result.as_ref().is_err_and(is_doubtful);
        let answer = Answer { result, by, epoch, at_home: !self.request.reads };
        if is_final { answer } else { Box::pin(self.follow(answer)).await }
    }

    /// Sends the transmission to a primary, and rejects the reply of a primary that was replaced
    /// meanwhile.
    ///
    /// A primary can hang, be replaced, and then resume. It still acts as a primary, but its grants
    /// are invalid. If a primary has not answered within the time that a live primary needs, this
    /// function also watches for its replacement. Once the primary is replaced, the transmission is
    /// given up.
    ///
    /// In a cluster, the former primary may have lost only this slot, and still be the primary of
    /// other slots. After the loss it answers requests for the slot with a redirect. So any other
    /// reply is from the time when it served the slot, and is valid. An idempotent request is
    /// repeated at the new primary nevertheless, because a repetition does no harm.
    async fn to_primary(&self, home: Arc<dyn Server>) -> Answer {
        let (topology, request) = (self.topology, self.request);
        let grace = suspicion_timeout(home.time().round_trip());
        let is_replaced = || {
            !is_same(&topology.primary(request.first_key()), &home)
                && (request.is_idempotent() || !topology.primaries().iter().any(|primary| is_same(primary, &home)))
        };
        let mut response = pin!(self.to(Arc::clone(&home)));
        let given_up = async {
            tokio::time::sleep(grace).await;
            Box::pin(self.replaced(&home, is_replaced, grace)).await;
        };
        let stale = || ServerError::unknown("the node that received the request is no longer the primary of the key");
        tokio::select! {
            biased;
            answer = &mut response => match answer.result.is_ok() && answer.at_home && is_replaced() {
                true => Answer { result: Err(stale()), ..answer },
                false => answer,
            },
            () = given_up => Answer { result: Err(stale()), by: home, epoch: None, at_home: true },
        }
    }

    /// Waits, after an unanswered transmission, until the primary is replaced. Then waits for the
    /// time `grace`, in which the answer may still arrive.
    ///
    /// Never completes if the transmission was redirected to another node.
    async fn replaced(&self, home: &Arc<dyn Server>, is_replaced: impl Fn() -> bool, grace: Duration) {
        let mut changes = self.topology.changes();
        let mut suspected = false;
        while !is_replaced() {
            if !suspected && !home.answers() {
                self.topology.suspect(TopologyHint::Silent(home.id().clone()));
                suspected = true;
            }
            tokio::select! {
                changed = changes.changed() => if changed.is_err() { std::future::pending::<()>().await },
                () = tokio::time::sleep(grace), if !suspected => {}
            }
        }
        tokio::time::sleep(grace).await;
        if self.sent_on.load(Ordering::Relaxed) {
            std::future::pending::<()>().await;
        }
    }
}

#[cfg(test)]
mod tests;
