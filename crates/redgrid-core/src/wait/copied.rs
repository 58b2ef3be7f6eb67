//! How many listen: at a replica, which passes messages on to those that the primary does not count, and at the primary itself.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::join_all;

use super::hub::Hub;
use crate::config::SubscriptionMode;
use crate::connection::{Reply, Request, Server, is_same};
use crate::error::ServerError;

/// How long the count of a replica is waited for: 50 ms. A release is not to take longer because of a replica that hangs.
const WITHIN: Duration = Duration::from_millis(50);

/// Who listens to a channel at a replica.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Copied {
    /// So many.
    Listeners(u64),
    /// It did not say.
    Unknown,
}

impl Hub {
    /// Asks how many listen to channels of one slot where waiters of their keys do; `None` where that is not at a replica.
    pub(crate) fn copied(
        &self,
        channels: &[(&Bytes, &Bytes)],
    ) -> Option<Pin<Box<dyn Future<Output = Vec<Copied>> + Send>>> {
        if self.settings.subscription_mode == SubscriptionMode::Primary {
            return None;
        }
        let question = self.question();
        let mut asked: Vec<(Arc<dyn Server>, Vec<Bytes>)> = Vec::new();
        let mut places = Vec::with_capacity(channels.len());
        for (channel, key) in channels {
            let listener = self.topology.listener(key);
            if is_same(&listener, &self.topology.primary(key)) {
                places.push(None);
                continue;
            }
            let at = asked.iter().position(|(known, _)| is_same(known, &listener)).unwrap_or_else(|| {
                asked.push((listener, Vec::new()));
                asked.len() - 1
            });
            asked[at].1.push(Bytes::clone(channel));
            places.push(Some((at, asked[at].1.len() - 1)));
        }
        if asked.is_empty() {
            return None;
        }
        // Boxed: it is rare, and the future of every release would have room for it.
        Some(Box::pin(async move {
            let counts = join_all(asked.iter().map(|(server, channels)| count(&**server, question, channels))).await;
            let at_primary = Copied::Listeners(0);
            let of = |place: Option<(usize, usize)>| place.map_or(at_primary, |(at, nth)| counts[at][nth]);
            places.into_iter().map(of).collect()
        }))
    }
}

impl Hub {
    /// How many listen to a channel at the primary of `key`; none where that does not say.
    pub(crate) async fn listeners(&self, channel: &Bytes, key: &[u8]) -> Option<u64> {
        let primary = self.topology.primary(key);
        match count(&*primary, self.question(), std::slice::from_ref(channel)).await[..] {
            [Copied::Listeners(listeners)] => Some(listeners),
            _ => None,
        }
    }

    pub(crate) fn question(&self) -> &'static str {
        if self.topology.is_sharded() { "SHARDNUMSUB" } else { "NUMSUB" }
    }
}

/// As many answers as channels.
async fn count(server: &dyn Server, question: &'static str, channels: &[Bytes]) -> Vec<Copied> {
    let request = Request::command("PUBSUB").arg(question);
    let request = channels.iter().fold(request, |request, channel| request.arg(channel.clone()));
    let answer = tokio::time::timeout(WITHIN, server.call(vec![request])).await;
    let answer = answer.ok().and_then(|mut answers| answers.pop()?.ok());
    match answer.map(counts_in) {
        Some(Ok(counts)) if counts.len() == channels.len() => counts.into_iter().map(Copied::Listeners).collect(),
        _ => vec![Copied::Unknown; channels.len()],
    }
}

/// Reads `channel, count, …`, which comes in the order of the question.
pub(crate) fn counts_in(reply: Reply) -> Result<Vec<u64>, ServerError> {
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
        assert_eq!(counts_in(flat).unwrap(), [2, 0]);
        assert_eq!(counts_in(Reply::Map(vec![(text("a"), Reply::Int(3))])).unwrap(), [3]);
        assert!(counts_in(Reply::Array(vec![text("a"), text("b")])).is_err());
    }
}
