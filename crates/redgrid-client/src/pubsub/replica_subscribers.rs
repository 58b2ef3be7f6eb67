//! Counts the subscribers of channels, at a primary and at replicas. A primary does not count the
//! subscribers at its replicas.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::join_all;

use super::manager::SubscriptionManager;
use crate::config::SubscriptionMode;
use crate::connection::{Core, Reply, Request, RetryPolicy, Server, is_same};
use crate::error::ServerError;

/// How long to wait for a subscriber count: 50 ms. A hanging replica must not delay a release by
/// more than this time.
const REPLICA_TIMEOUT: Duration = Duration::from_millis(50);

/// The number of subscribers of a channel at a replica, if the replica returned it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
// Not `#[non_exhaustive]`: only redgrid-core uses it.
pub enum ReplicaSubscribers {
    /// The number of subscribers.
    Count(u64),
    /// The replica returned no count.
    Unknown,
}

/// Returns the number of subscribers of `channels` at all nodes where waiters of `key` subscribe.
pub async fn waiting_subscribers(core: &Core, channels: &[Bytes], key: &Bytes) -> Result<u64, ServerError> {
    let subscriptions = &core.subscriptions;
    // The channels are passed as keys. So the request goes to the primary of their slot.
    let request = Request::subcommand("PUBSUB", subscriptions.numsub_subcommand()).keys(channels.iter().cloned());
    let until = core.clock.now() + core.settings.patience();
    let counts = parse_counts(core.run_with(request.idempotent(), until, RetryPolicy::Retries).await?)?;
    let pairs: Vec<_> = channels.iter().map(|channel| (channel, key)).collect();
    let at_replicas = match subscriptions.replica_subscribers(&pairs) {
        Some(counting) => counting.await,
        None => Vec::new(),
    };
    let at_replicas = at_replicas.into_iter().map(|subscribers| match subscribers {
        ReplicaSubscribers::Count(count) => Ok(count),
        ReplicaSubscribers::Unknown => Err(ServerError::unknown("a replica did not count its subscribers in time")),
    });
    Ok(counts.into_iter().sum::<u64>() + at_replicas.sum::<Result<u64, _>>()?)
}

impl SubscriptionManager {
    /// Counts the subscribers of each channel at a replica: the one where the waiters of the
    /// channel's key subscribe.
    ///
    /// The count is 0 for a channel whose waiters subscribe at the primary. Returns `None` if the
    /// waiters of all channels subscribe at the primary.
    pub fn replica_subscribers(
        &self,
        channels: &[(&Bytes, &Bytes)],
    ) -> Option<Pin<Box<dyn Future<Output = Vec<ReplicaSubscribers>> + Send>>> {
        if self.settings.subscription_mode == SubscriptionMode::Primary {
            return None;
        }
        let subcommand = self.numsub_subcommand();
        let mut requests: Vec<(Arc<dyn Server>, Vec<Bytes>)> = Vec::new();
        let mut positions = Vec::with_capacity(channels.len());
        for (channel, key) in channels {
            let listener = self.topology.listener(key);
            if is_same(&listener, &self.topology.primary(key)) {
                positions.push(None);
                continue;
            }
            let index = requests.iter().position(|(known, _)| is_same(known, &listener)).unwrap_or_else(|| {
                requests.push((listener, Vec::new()));
                requests.len() - 1
            });
            requests[index].1.push(Bytes::clone(channel));
            positions.push(Some((index, requests[index].1.len() - 1)));
        }
        if requests.is_empty() {
            return None;
        }
        // The future is boxed because it is rarely needed. Without the box, the future of every
        // release would be larger, by the size of this future.
        Some(Box::pin(async move {
            let counts =
                join_all(requests.iter().map(|(server, channels)| count_subscribers(&**server, subcommand, channels)))
                    .await;
            let at_primary = ReplicaSubscribers::Count(0);
            let of = |position: Option<(usize, usize)>| position.map_or(at_primary, |(index, nth)| counts[index][nth]);
            positions.into_iter().map(of).collect()
        }))
    }
}

impl SubscriptionManager {
    /// Returns the number of subscribers of a channel at the primary of `key`; `None` if the
    /// primary returns no count.
    pub async fn subscribers_at_primary(&self, channel: &Bytes, key: &[u8]) -> Option<u64> {
        let primary = self.topology.primary(key);
        match count_subscribers(&*primary, self.numsub_subcommand(), std::slice::from_ref(channel)).await[..] {
            [ReplicaSubscribers::Count(subscribers)] => Some(subscribers),
            _ => None,
        }
    }

    pub(crate) fn numsub_subcommand(&self) -> &'static str {
        if self.topology.is_sharded() { "SHARDNUMSUB" } else { "NUMSUB" }
    }
}

/// Requests the subscriber counts of `channels`, and returns one result for each.
async fn count_subscribers(
    server: &dyn Server,
    subcommand: &'static str,
    channels: &[Bytes],
) -> Vec<ReplicaSubscribers> {
    let request = Request::command("PUBSUB").arg(subcommand);
    let request = channels.iter().fold(request, |request, channel| request.arg(channel.clone()));
    match tokio::time::timeout(REPLICA_TIMEOUT, server.call_one(request))
        .await
        .map(|reply| reply.and_then(parse_counts))
    {
        Ok(Ok(counts)) if counts.len() == channels.len() => counts.into_iter().map(ReplicaSubscribers::Count).collect(),
        _ => vec![ReplicaSubscribers::Unknown; channels.len()],
    }
}

/// Parses a reply of the form `channel, count, …`. The channels are in the order of the request.
pub(crate) fn parse_counts(reply: Reply) -> Result<Vec<u64>, ServerError> {
    match reply {
        Reply::Map(pairs) => pairs.into_iter().map(|(_, count)| count.into_typed()).collect(),
        reply => {
            let parts = reply.into_typed::<Vec<Reply>>()?;
            parts.into_iter().skip(1).step_by(2).map(Reply::into_typed).collect()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_read_from_pairs() {
        let text = |text: &'static str| Reply::Bytes(text.into());
        let flat = Reply::Array(vec![text("a"), Reply::Int(2), text("b"), Reply::Int(0)]);
        assert_eq!(parse_counts(flat).unwrap(), [2, 0]);
        assert_eq!(parse_counts(Reply::Map(vec![(text("a"), Reply::Int(3))])).unwrap(), [3]);
        assert!(parse_counts(Reply::Array(vec![text("a"), text("b")])).is_err());
    }
}
