//! The callers of one client that wait for messages of one queue, in the order of their calls.

use std::sync::Arc;
use std::time::Duration;

use redgrid_core::author::ClientExt;
use redgrid_core::wait_queue::{NextPoll, PollFuture, Resource, WaitQueue, WaiterId};
use redgrid_core::{ChannelEvent, Client, Offer, OrderedSubscription};

use crate::ask::{Answer, Given, MOST, Wish, ask};
use crate::desk::Desk;

/// How a receive ends.
#[derive(Debug)]
pub(crate) enum Received {
    /// The caller has a second to take the messages.
    Messages(Offer<Granted>),
    /// The caller does not wait, and there is no message.
    Nothing,
}

/// Messages on their way to their caller. Those that are not taken out go back to the queue.
#[derive(Debug)]
pub(crate) struct Granted {
    desk: Arc<Desk>,
    messages: Vec<Given>,
}

impl Granted {
    pub(crate) fn take(mut self) -> Vec<Given> {
        std::mem::take(&mut self.messages)
    }
}

impl Drop for Granted {
    fn drop(&mut self) {
        let messages = std::mem::take(&mut self.messages);
        self.desk.give_back(messages.into_iter().map(|message| message.receipt).collect());
    }
}

/// What a caller asks for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ReceiveRequest {
    pub(crate) wish: Wish,
    /// The wait ends with the first reply that has no message for it.
    pub(crate) try_only: bool,
}

/// The reply of a poll, with the waiters that it is for.
pub(crate) struct Polled {
    /// The waiters, and the maximum number of messages for each.
    asked_for: Vec<(WaiterId, usize)>,
    answer: Answer,
}

/// The messages of one queue, as its waiters know them.
pub(crate) struct Receivers {
    desk: Arc<Desk>,
}

impl Receivers {
    /// Returns the queue of all callers that wait for messages of a queue through one client.
    pub(crate) fn of(desk: &Arc<Desk>) -> Arc<WaitQueue<Receivers>> {
        let key = desk.keys.queue();
        desk.client.shared(key, || WaitQueue::new(&desk.client, Receivers { desk: Arc::clone(desk) }))
    }
}

impl Resource for Receivers {
    type Request = ReceiveRequest;
    type Outcome = Received;
    type Reply = Polled;

    /// A consumer that has handled a message mostly receives the next one.
    const LINGER: Duration = Duration::from_secs(1);

    fn key(&self) -> &[u8] {
        self.desk.keys.queue()
    }

    fn subscribe(&self, client: &Client) -> OrderedSubscription {
        client.subscribe_ordered_unpolled([self.desk.keys.channel().clone()], self.desk.keys.queue())
    }

    fn poll<'a>(
        self: &Arc<Self>,
        _client: &Client,
        waiters: impl Iterator<Item = (WaiterId, &'a ReceiveRequest)>,
    ) -> PollFuture<Polled> {
        let mut room = MOST;
        let mut asked_for = Vec::new();
        let mut wishes = Vec::new();
        for (id, ReceiveRequest { wish, .. }) in waiters {
            let most = wish.most.min(room);
            if most == 0 {
                break;
            }
            room -= most;
            asked_for.push((id, most));
            wishes.push(Wish { most, ..*wish });
        }
        let desk = Arc::clone(&self.desk);
        Box::pin(async move { Ok(Polled { asked_for, answer: ask(desk, wishes).await? }) })
    }

    fn replied(&self, queue: &Arc<WaitQueue<Self>>, reply: Polled, sent_before: WaiterId) -> NextPoll {
        let Polled { asked_for, answer } = reply;
        let mut all_full = true;
        for ((id, most), messages) in asked_for.into_iter().zip(answer.given) {
            all_full &= messages.len() == most;
            if messages.is_empty() {
                continue;
            }
            // If the caller has left meanwhile, they go back when this is dropped.
            let granted = Granted { desk: Arc::clone(&self.desk), messages };
            queue.complete(id, || Received::Messages(self.desk.client.offer(granted)));
        }
        if all_full || answer.more {
            // There may be messages for others.
            return NextPoll::Now;
        }
        queue.complete_below(sent_before, |request| request.try_only, || Received::Nothing);
        answer.due.map_or(NextPoll::Regular, NextPoll::Within)
    }

    /// A message has the time in milliseconds until something is due, or causes a poll.
    fn received(&self, _queue: &Arc<WaitQueue<Self>>, event: &ChannelEvent) -> NextPoll {
        let ChannelEvent::Message { payload, .. } = event else { return NextPoll::Now };
        let millis: Option<u64> = std::str::from_utf8(payload).ok().and_then(|text| text.parse().ok());
        match millis {
            Some(millis) if millis > 0 => NextPoll::Within(Duration::from_millis(millis)),
            _ => NextPoll::Now,
        }
    }
}
