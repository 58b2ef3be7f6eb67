//! Builders of receives.

use std::time::Duration;

use redgrid_codecs::Codec;
use redgrid_core::ServerError;
use redgrid_core::author::ClientExt;
use redgrid_core::clock::Instant;
use redgrid_core::into_future;
use redgrid_core::object::ObjectError;
use redgrid_core::wait_queue::WaitEnd;
use redgrid_work::{MAX_MESSAGES, MessageRequest, ReceiveRequest, Received, Receivers, visibility_of};

use crate::count;
use crate::delivery::Delivery;
use crate::error::QueueError;
use crate::queue::ReliableQueue;

/// Options of a receive.
#[derive(Debug, Clone, Copy, Default)]
struct Options {
    visibility: Option<Duration>,
    timeout: Option<Duration>,
    back_on_drop: bool,
}

/// Receives one message when awaited; created by [`ReliableQueue::receive`].
#[must_use = "does nothing until awaited"]
#[derive(Debug, Clone)]
pub struct Receive<T, C> {
    queue: ReliableQueue<T, C>,
    options: Options,
}

/// Receives several messages when awaited; created by [`ReliableQueue::receive_many`].
#[must_use = "does nothing until awaited"]
#[derive(Debug, Clone)]
pub struct ReceiveMany<T, C> {
    queue: ReliableQueue<T, C>,
    max: usize,
    options: Options,
}

macro_rules! options {
    ($receive:ident) => {
        impl<T, C> $receive<T, C> {
            /// Sets how long no other consumer receives the message: 1 ms to 3650 days. Default:
            /// the queue's setting, else 30 s. It should be longer than the work takes;
            /// [`Delivery::extend`] moves the end of the visibility.
            pub fn visibility(mut self, visibility: Duration) -> Self {
                self.options.visibility = Some(visibility);
                self
            }

            /// Limits the wait for a message. It is unlimited unless set. With [`Duration::ZERO`]
            /// the call only waits for the server's reply.
            pub fn timeout(mut self, timeout: Duration) -> Self {
                self.options.timeout = Some(timeout);
                self
            }

            /// If a [`Delivery`] is dropped unsettled, returns its message to the queue at once, as
            /// [`Delivery::nack`] without a delay does. Without this option, the message is
            /// delivered again when its visibility ends.
            pub fn back_on_drop(mut self) -> Self {
                self.options.back_on_drop = true;
                self
            }
        }
    };
}

options!(Receive);
options!(ReceiveMany);

impl<T, C> Receive<T, C> {
    pub(crate) fn new(queue: ReliableQueue<T, C>) -> Self {
        Receive { queue, options: Options::default() }
    }
}

impl<T, C> ReceiveMany<T, C> {
    pub(crate) fn new(queue: ReliableQueue<T, C>, max: usize) -> Self {
        ReceiveMany { queue, max, options: Options::default() }
    }
}

into_future!([T: 'static, C: Codec + Clone] Receive<T, C> => Result<Delivery<T, C>, QueueError>, |this| async move {
    let mut deliveries = receive(&this.queue, 1, this.options).await?;
    match deliveries.pop() {
        Some(delivery) => Ok(delivery),
        None => {
            let (name, waited) =
                (this.queue.queue_client()?.name.clone(), this.options.timeout.unwrap_or_default());
            Err(QueueError::TimedOut { name, waited })
        }
    }
});

into_future!(
    [T: 'static, C: Codec + Clone] ReceiveMany<T, C> => Result<Vec<Delivery<T, C>>, QueueError>,
    |this| async move { receive(&this.queue, this.max, this.options).await }
);

/// Waits for messages; returns none after the timeout.
async fn receive<T: 'static, C: Codec + Clone>(
    queue: &ReliableQueue<T, C>,
    max: usize,
    options: Options,
) -> Result<Vec<Delivery<T, C>>, QueueError> {
    let queue_client = queue.queue_client()?;
    if !(1..=MAX_MESSAGES).contains(&max) {
        return Err(queue.object_ref().invalid("number of messages", "1 to 100", max).into());
    }
    options.visibility.map(|visibility| visibility_of(queue.object_ref(), visibility)).transpose()?;
    let clock = queue_client.client().clock();
    let try_only = options.timeout.is_some_and(|timeout| timeout.is_zero());
    // A receive with a timeout of zero has no time limit here: the poll limits its time.
    let timeout = options.timeout.filter(|timeout| !timeout.is_zero());
    let until = timeout.map_or(Instant::MAX, |timeout| clock.now() + timeout);
    loop {
        let wanted = MessageRequest { max, visibility: options.visibility };
        let mut waiter = Receivers::of(&queue_client.work_client).enter(ReceiveRequest { wanted, try_only });
        let failure = match waiter.ended_by(until).await {
            WaitEnd::Completed(Received::Messages(offer)) => {
                // The caller was too late: the messages were returned to the queue. Receive again.
                let Some(granted) = offer.take() else { continue };
                let delivery = |deliveries| Delivery::new(queue, queue_client, deliveries, options.back_on_drop);
                let messages = granted.take();
                count::received(queue.family, &messages);
                return Ok(messages.into_iter().map(delivery).collect());
            }
            WaitEnd::Completed(Received::Nothing) => None,
            WaitEnd::Failed(source) => Some(source),
            WaitEnd::TimedOut | WaitEnd::NoReply => waiter.out_of_contact(),
        };
        return match failure {
            None => Ok(Vec::new()),
            Some(ServerError::ShuttingDown) => Err(QueueError::ShuttingDown { name: queue_client.name.clone() }),
            Some(source) => Err(ObjectError::of_read(&queue_client.name, source).into()),
        };
    }
}
