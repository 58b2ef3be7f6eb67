//! The callers of one client that wait for messages of one queue, in the order of their calls.

use std::sync::Arc;
use std::time::Duration;

use redgrid_core::author::ClientExt;
use redgrid_core::wait_queue::{NextPoll, PollFuture, Resource, WaitQueue, WaiterId};
use redgrid_core::{ChannelEvent, Client, Offer, OrderedSubscription};

use crate::request::{MAX_MESSAGES, MessageRequest, ReceiveReply, ReceivedMessage, send_receive};
use crate::work_client::WorkClient;

/// How a receive ends.
#[derive(Debug)]
// Not `#[non_exhaustive]`: only the crates above this one use it.
pub enum Received {
    /// The messages are offered to the caller, which has one second to take them.
    Messages(Offer<Granted>),
    /// There is no message, and the caller does not wait.
    Nothing,
}

/// Messages that are offered to a caller. Those that are not taken return to the queue.
#[derive(Debug)]
pub struct Granted {
    work_client: Arc<WorkClient>,
    messages: Vec<ReceivedMessage>,
}

impl Granted {
    /// Takes the messages.
    pub fn take(mut self) -> Vec<ReceivedMessage> {
        std::mem::take(&mut self.messages)
    }
}

impl Drop for Granted {
    fn drop(&mut self) {
        let messages = std::mem::take(&mut self.messages);
        self.work_client.return_untried(messages.into_iter().map(|message| message.receipt).collect());
    }
}

/// The request of a caller.
#[derive(Debug, Clone, Copy)]
// Not `#[non_exhaustive]`: only the crates above this one use it.
pub struct ReceiveRequest {
    /// The messages that it wants.
    pub wanted: MessageRequest,
    /// Whether the wait ends with the first reply that has no message for it.
    pub try_only: bool,
}

/// The reply to a poll, with its waiters.
pub struct Polled {
    /// The waiters, and the maximum number of messages for each.
    limits: Vec<(WaiterId, usize)>,
    reply: ReceiveReply,
}

/// The resource of a wait queue: the messages of one queue.
pub struct Receivers {
    work_client: Arc<WorkClient>,
}

impl Receivers {
    /// Returns the queue of all callers that wait for messages of a queue through one client.
    pub fn of(work_client: &Arc<WorkClient>) -> Arc<WaitQueue<Receivers>> {
        let key = work_client.keys().queue();
        work_client
            .client()
            .shared(key, || WaitQueue::new(work_client.client(), Receivers { work_client: Arc::clone(work_client) }))
    }
}

impl Resource for Receivers {
    type Request = ReceiveRequest;
    type Outcome = Received;
    type Reply = Polled;

    /// The subscription is kept for this time after the last wait, because a consumer usually
    /// receives the next message after handling one.
    const LINGER: Duration = Duration::from_secs(1);

    fn key(&self) -> &[u8] {
        self.work_client.keys().queue()
    }

    fn subscribe(&self, client: &Client) -> OrderedSubscription {
        client.subscribe_ordered_unpolled([self.work_client.keys().channel().clone()], self.work_client.keys().queue())
    }

    fn poll<'a>(
        self: &Arc<Self>,
        _client: &Client,
        waiters: impl Iterator<Item = (WaiterId, &'a ReceiveRequest)>,
    ) -> PollFuture<Polled> {
        let mut capacity = MAX_MESSAGES;
        let mut limits = Vec::new();
        let mut requests = Vec::new();
        for (id, ReceiveRequest { wanted, .. }) in waiters {
            let max = wanted.max.min(capacity);
            if max == 0 {
                break;
            }
            capacity -= max;
            limits.push((id, max));
            requests.push(MessageRequest { max, ..*wanted });
        }
        let work_client = Arc::clone(&self.work_client);
        Box::pin(async move { Ok(Polled { limits, reply: send_receive(work_client, requests).await? }) })
    }

    fn replied(&self, queue: &Arc<WaitQueue<Self>>, reply: Polled, sent_before: WaiterId) -> NextPoll {
        let Polled { limits, reply } = reply;
        let mut all_full = true;
        for ((id, max), messages) in limits.into_iter().zip(reply.messages) {
            all_full &= messages.len() == max;
            if messages.is_empty() {
                continue;
            }
            // If the caller is gone, dropping the offer returns the messages.
            let granted = Granted { work_client: Arc::clone(&self.work_client), messages };
            queue.complete(id, || Received::Messages(self.work_client.client().offer(granted)));
        }
        if all_full || reply.more {
            // There may be messages for other waiters.
            return NextPoll::Now;
        }
        queue.complete_below(sent_before, |request| request.try_only, || Received::Nothing);
        reply.next_due.map_or(NextPoll::Regular, NextPoll::Within)
    }

    /// Returns when to poll after a notification. A notification contains the milliseconds until a
    /// message is due; any other content causes a poll at once.
    fn received(&self, _queue: &Arc<WaitQueue<Self>>, event: &ChannelEvent) -> NextPoll {
        let ChannelEvent::Message { payload, .. } = event else { return NextPoll::Now };
        let millis: Option<u64> = std::str::from_utf8(payload).ok().and_then(|text| text.parse().ok());
        match millis {
            Some(millis) if millis > 0 => NextPoll::Within(Duration::from_millis(millis)),
            _ => NextPoll::Now,
        }
    }
}
