//! Sends many requests at once. Each node receives the requests for its keys in order; no request
//! waits for the reply to the previous one.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use futures_util::StreamExt;
use futures_util::future::join_all;
use futures_util::stream;

use crate::clock::Instant;
use crate::config::Durability;
use crate::connection::route::is_doubtful;
use crate::connection::send::commit;
use crate::connection::{
    CommitError, ConnectionId, Core, NodeId, Progress, Reply, Request, RetryPolicy, Server, TopologyHint, is_same,
    jittered,
};
use crate::error::{ServerError, after_unanswered};

/// Maximum number of requests in flight per node. Each request occupies memory until its reply
/// arrives.
const AT_ONCE: usize = 1000;

/// Maximum number of slots whose requests are retried concurrently. Requests of one slot are
/// retried one by one.
const SLOTS_AT_ONCE: usize = 16;

/// The outcome of one request of a batch.
#[derive(Debug, Clone)]
// Not `#[non_exhaustive]`: only implementations of object types use it.
pub struct Batched {
    /// The reply.
    pub result: Result<Reply, ServerError>,
    /// Whether the write of the request is as durable as requested.
    pub durable: Result<(), CommitError>,
}

/// A reply, the node that sent it, and the connection on which the request was sent.
type Answered = (Result<Reply, ServerError>, Arc<dyn Server>, Option<ConnectionId>);

/// The requests of a batch, and their answers so far.
struct Batch<'a> {
    core: &'a Core,
    requests: &'a [Request],
    answers: Vec<Option<Answered>>,
    /// The indices of requests that must be retried one by one, by slot.
    alone: BTreeMap<u16, Vec<usize>>,
}

impl Core {
    /// Sends many requests, and retries them until `until`. Returns one result per request, in the
    /// order of the requests.
    pub async fn send_batch(&self, requests: Vec<Request>, until: Instant, durability: Durability) -> Vec<Batched> {
        if self.life.is_closed() {
            let shut = || Err(ServerError::not_sent("the client is shut down"));
            return requests.iter().map(|_| Batched { result: shut(), durable: Ok(()) }).collect();
        }
        let answers = requests.iter().map(|_| None).collect();
        let mut batch = Batch { core: self, requests: &requests, answers, alone: BTreeMap::new() };
        let mut open: Vec<usize> = (0..requests.len()).collect();
        while !open.is_empty() {
            open = batch.round(open).await;
            let pause = self.clock.now() + jittered(self.settings.retry_delay);
            if open.is_empty() || pause >= until || self.life.is_closed() {
                break;
            }
            self.clock.sleep_until(pause).await;
        }
        let by_slot = std::mem::take(&mut batch.alone).into_values().map(|those| batch.one_by_one(those, until));
        let late: Vec<_> = stream::iter(by_slot).buffer_unordered(SLOTS_AT_ONCE).collect().await;
        for (at, answer) in late.into_iter().flatten() {
            batch.answers[at] = Some(answer);
        }
        let durable = batch.committed(durability).await;
        let not_sent = || Err(ServerError::not_sent("its time limit ended before it was sent"));
        let results = batch.answers.into_iter().map(|answer| answer.map_or_else(not_sent, |(result, ..)| result));
        results.zip(durable).map(|(result, durable)| Batched { result, durable }).collect()
    }
}

impl Batch<'_> {
    /// Sends each node the requests for its keys, without retries.
    ///
    /// Returns the indices of the requests that were not sent.
    async fn round(&mut self, open: Vec<usize>) -> Vec<usize> {
        let (core, requests) = (self.core, self.requests);
        let mut homes: Vec<(Arc<dyn Server>, Vec<usize>)> = Vec::new();
        for at in open {
            let home = core.home(requests[at].first_key());
            match homes.iter_mut().find(|(known, _)| is_same(known, &home)) {
                Some((_, those)) => those.push(at),
                None => homes.push((home, vec![at])),
            }
        }
        let responses = homes.into_iter().map(|(home, those)| async move {
            let limit = core.clock.now() + core.settings.response_timeout;
            let epoch = home.current_connection_id();
            let mut results = Vec::with_capacity(those.len());
            for some in those.chunks(AT_ONCE) {
                let copies = some.iter().map(|at| requests[*at].clone().not_after(limit)).collect();
                results.extend(home.call(copies).await);
                if results.iter().any(|result| result.as_ref().is_err_and(ServerError::is_not_sent)) {
                    // The requests that were not sent will be sent again. Later requests must not
                    // overtake them.
                    break;
                }
            }
            let unsent = || Err(ServerError::not_sent("an earlier request of the batch was not sent"));
            results.resize_with(those.len(), unsent);
            (home, epoch, those, results)
        });
        let mut again = Vec::new();
        for (home, epoch, those, results) in join_all(responses).await {
            if results.iter().any(|result| result.as_ref().is_err_and(is_doubtful)) {
                core.topology.suspect(TopologyHint::Node(home.id().clone()));
            }
            let replaced = !core.decides(&home);
            for (at, mut result) in those.into_iter().zip(results) {
                let request = &requests[at];
                if result.is_ok() && replaced {
                    // `home` was replaced, but still answers like a primary, for example because it
                    // hung during the failover. So its reply is not valid.
                    result = Err(ServerError::unknown("the node that answered is no longer the primary of the key"));
                }
                let by_itself = match &result {
                    Err(ServerError::Refused { code, message }) => code.is_passing() && request.is_servers_own(message),
                    Err(ServerError::Unknown { .. }) => request.is_idempotent(),
                    _ => false,
                };
                if let Err(ServerError::NotSent { .. }) = result {
                    again.push(at);
                } else if by_itself {
                    self.alone.entry(core.topology.slot(request.first_key())).or_default().push(at);
                }
                self.answers[at] = Some((result, Arc::clone(&home), epoch.clone()));
            }
        }
        again
    }

    /// Retries the requests of a slot one after another, to keep their order.
    async fn one_by_one(&self, mut those: Vec<usize>, until: Instant) -> Vec<(usize, Answered)> {
        let core = self.core;
        those.sort_unstable();
        let mut answers = Vec::with_capacity(those.len());
        for at in those {
            if core.clock.now() >= until {
                // The deadline has passed: do not send the request again, and keep its known
                // outcome.
                continue;
            }
            let progress = Progress::default();
            let work = core.exchange(self.requests[at].clone(), until, RetryPolicy::Retries, &progress);
            let answer = tokio::select! {
                biased;
                outcome = work => {
                    let was_unknown = matches!(&self.answers[at], Some((Err(ServerError::Unknown { .. }), ..)));
                    let copied = was_unknown || outcome.was_retransmitted();
                    let result = outcome.result.map_err(|error| if copied { after_unanswered(error) } else { error });
                    (result, outcome.by, outcome.epoch)
                }
                () = core.clock.sleep_until(until) => {
                    (Err(progress.at_the_end()), core.home(self.requests[at].first_key()), None)
                }
            };
            answers.push((at, answer));
        }
        answers
    }

    /// Returns for each request whether its write is as durable as requested. Makes one check per
    /// node and connection. Failed requests are not checked, and are reported as durable.
    async fn committed(&self, durability: Durability) -> Vec<Result<(), CommitError>> {
        let mut durable = vec![Ok(()); self.requests.len()];
        if Durability::Primary.covers(durability) {
            return durable;
        }
        let mut nodes: HashMap<(NodeId, Option<u64>), Vec<usize>> = HashMap::new();
        for (at, answer) in self.answers.iter().enumerate() {
            if let Some((Ok(_), by, epoch)) = answer {
                let connection = epoch.as_ref().map(|epoch| epoch.connection);
                nodes.entry((by.id().clone(), connection)).or_default().push(at);
            }
        }
        let responses = nodes.into_values().map(|those| async move {
            let key = self.requests[those[0]].first_key();
            let proven = match &self.answers[those[0]] {
                Some((_, by, epoch)) => commit(&**by, epoch.as_ref(), durability, key).await,
                None => Ok(()),
            };
            (those, proven)
        });
        for (those, proven) in join_all(responses).await {
            for at in those {
                durable[at].clone_from(&proven);
            }
        }
        durable
    }
}
