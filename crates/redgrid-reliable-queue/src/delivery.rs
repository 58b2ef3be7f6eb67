//! A received message.

use std::marker::PhantomData;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use redgrid_codecs::Decode;
use redgrid_core::Failure;
use redgrid_core::author::ClientExt;
use redgrid_core::author::counts::{QueueEvent, queue_handled, queue_messages};
use redgrid_core::clock::Instant;
use redgrid_core::object::ObjectError;
use redgrid_work::{
    ChangeReply, MessageId, MessageState, Receipt, ReceivedMessage, TraceContext, delay_of, reason_of, visibility_of,
};

use crate::count;
use crate::error::{self, QueueError};
use crate::message::Message;
use crate::queue::ReliableQueue;
use crate::queue_client::QueueClient;

/// States of a delivery: not settled; acknowledgement sent but not answered; acknowledged; settled
/// otherwise.
const OPEN: u8 = 0;
const UNANSWERED: u8 = 1;
const ACKNOWLEDGED: u8 = 2;
const RETURNED: u8 = 3;

/// A message received by this process. No other consumer receives it until its visibility ends.
///
/// It is settled by [`ack`](Delivery::ack), [`nack`](Delivery::nack) or
/// [`reject`](Delivery::reject). If it is dropped without being settled, the message is delivered
/// again when its visibility ends, or at once with [`back_on_drop`](crate::Receive::back_on_drop).
/// So a panic or a crash loses no message.
#[must_use = "a message that is not acknowledged is delivered again"]
pub struct Delivery<T, C> {
    message: Message<T, C>,
    receipt: Receipt,
    queue_client: Arc<QueueClient>,
    until: Mutex<Instant>,
    state: AtomicU8,
    back_on_drop: bool,
    received: Instant,
    /// The label in metrics.
    family: &'static str,
}

impl<T, C> Delivery<T, C> {
    pub(crate) fn new(
        queue: &ReliableQueue<T, C>,
        queue_client: &Arc<QueueClient>,
        given: ReceivedMessage,
        back_on_drop: bool,
    ) -> Self
    where
        C: Clone,
    {
        let received = queue_client.client().clock().now();
        let left = given.until.since(received);
        // This time is for display only: it is from the client's clock, and the server's clock
        // decides.
        let until = SystemTime::now().checked_add(left).unwrap_or(UNIX_EPOCH);
        let message = Message {
            id: given.receipt.message_id(),
            attempts: given.attempt,
            priority: given.priority,
            pushed_at: given.pushed_at,
            state: MessageState::InFlight { until },
            object_ref: queue.object_ref().clone(),
            bytes: given.bytes,
            codec: queue.codec().clone(),
            values: PhantomData,
        };
        let until = Mutex::new(given.until);
        let state = AtomicU8::new(OPEN);
        Delivery {
            message,
            receipt: given.receipt,
            queue_client: Arc::clone(queue_client),
            until,
            state,
            back_on_drop,
            received,
            family: queue.family,
        }
    }

    /// Returns the id of the message.
    pub fn id(&self) -> MessageId {
        self.message.id
    }

    /// Returns the number of deliveries of the message, including this one: 1 for the first.
    pub fn attempt(&self) -> u32 {
        self.message.attempts
    }

    /// Returns the priority of the message, 0 to 9.
    pub fn priority(&self) -> u8 {
        self.message.priority
    }

    /// Returns when the message was pushed, by the server's clock.
    pub fn pushed_at(&self) -> SystemTime {
        self.message.pushed_at
    }

    /// Returns the headers of the message.
    ///
    /// # Errors
    ///
    /// As [`Message::headers`].
    pub fn headers(&self) -> Result<Vec<(String, String)>, ObjectError> {
        self.message.headers()
    }

    /// Returns the trace context that the producer has pushed with the message; `None` if there is
    /// none, or none that is valid.
    ///
    /// See [`ReliableQueue::trace_with`].
    pub fn trace_context(&self) -> Option<TraceContext> {
        TraceContext::of_headers(&self.headers().ok()?)
    }

    /// Decodes the value. [Reject](Delivery::reject) a message that cannot be decoded.
    ///
    /// # Errors
    ///
    /// As [`Message::value`].
    pub fn value(&self) -> Result<T, ObjectError>
    where
        C: Decode<T>,
    {
        self.message.value()
    }

    /// Returns the receipt. With it, another process can settle the message.
    pub fn receipt(&self) -> &Receipt {
        &self.receipt
    }

    /// Returns how long no other consumer can receive the message, counted from before the request
    /// was sent. Returns zero after the end of the visibility, and after a call of `nack` or
    /// `reject`, whatever its outcome.
    pub fn remaining(&self) -> Duration {
        let until = *self.until.lock().unwrap_or_else(PoisonError::into_inner);
        until.since(self.queue_client.client().clock().now())
    }

    /// Acknowledges the message: the work is done, and the message is removed. A second call does
    /// nothing.
    ///
    /// This succeeds as long as no other consumer has received the message, even after the end of
    /// its visibility. If the message has become a dead letter since then, because it was delivered
    /// the maximum number of times, the acknowledgement removes the dead letter.
    ///
    /// # Errors
    ///
    /// [`QueueError::Stale`] if another consumer has received the message, or it was settled
    /// otherwise: the work may be done twice. After [`Failure::OutcomeUnknown`], or a dropped call,
    /// `ack` may be called again: a message that no longer exists then counts as acknowledged.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped after the request is sent, the request is still executed. If it is
    /// dropped earlier, the message is delivered again.
    #[doc(alias = "acknowledge")]
    pub async fn ack(&self) -> Result<(), QueueError> {
        if self.state.load(Ordering::Acquire) == ACKNOWLEDGED {
            return Ok(());
        }
        // The state is set before the request is sent, because the request of a dropped call may be
        // executed.
        let before = self.state.swap(UNANSWERED, Ordering::AcqRel);
        let reply = self.queue_client.settle("ack", &self.receipt, None).await;
        match reply {
            Ok(ChangeReply::Done) => self.settled(QueueEvent::Acknowledged, ACKNOWLEDGED, &ChangeReply::Done),
            Ok(ChangeReply::Gone) if before == UNANSWERED => {
                self.settled(QueueEvent::Acknowledged, ACKNOWLEDGED, &ChangeReply::Done)
            }
            Ok(other) => {
                self.state.store(before, Ordering::Release);
                self.until_at_most(Instant::MIN);
                self.settled(QueueEvent::Acknowledged, before, &other)
            }
            Err(error) => {
                if !matches!(error, QueueError::Object(ObjectError::Failed(Failure::OutcomeUnknown { .. }))) {
                    self.state.store(before, Ordering::Release);
                }
                Err(error)
            }
        }
    }

    /// Returns the message to the queue: it is ready again after `delay`, zero to 3650 days, at its
    /// old position. It becomes a dead letter if the queue's maximum number of attempts is reached.
    ///
    /// # Errors
    ///
    /// [`QueueError::Stale`] if the message no longer belongs to this delivery;
    /// [`Failure::InvalidArgument`] for an invalid delay.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped after the request is sent, the request is still executed. If it is
    /// dropped earlier, the message is delivered again later.
    #[doc(alias = "negativeAcknowledge")]
    pub async fn nack(&self, delay: Duration) -> Result<(), QueueError> {
        let delay = delay_of(&self.message.object_ref, "delay", delay)?;
        self.until_at_most(Instant::MIN);
        let reply = self.queue_client.settle("nack", &self.receipt, Some(delay)).await?;
        self.settled(QueueEvent::Returned, RETURNED, &reply)
    }

    /// Rejects the message: it becomes a dead letter at once, with `reason`, at most 1,024 bytes.
    ///
    /// # Errors
    ///
    /// [`QueueError::Stale`] if the message no longer belongs to this delivery;
    /// [`Failure::InvalidArgument`] if the reason is too long.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped after the request is sent, the request is still executed. If it is
    /// dropped earlier, the message is delivered again.
    #[doc(alias = "negativeAcknowledge")]
    pub async fn reject(&self, reason: impl AsRef<str>) -> Result<(), QueueError> {
        let reason = reason_of(&self.message.object_ref, reason.as_ref())?;
        self.until_at_most(Instant::MIN);
        let reply = self.queue_client.settle("reject", &self.receipt, Some(reason)).await?;
        self.settled(QueueEvent::Rejected, RETURNED, &reply)
    }

    /// Sets the end of the message's visibility to `visibility` from now, 1 ms to 3650 days.
    ///
    /// # Errors
    ///
    /// [`QueueError::Stale`] if a receive has found that the visibility has ended, or if the
    /// message no longer belongs to this delivery. [`Failure::InvalidArgument`] for an invalid
    /// visibility.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped after the request is sent, the request is still executed. In that
    /// case [`remaining`](Delivery::remaining) is too low.
    pub async fn extend(&self, visibility: Duration) -> Result<(), QueueError> {
        let visibility_arg = visibility_of(&self.message.object_ref, visibility)?;
        let until = self.queue_client.client().clock().now() + visibility;
        self.until_at_most(until);
        let reply = self.queue_client.settle("extend", &self.receipt, Some(visibility_arg)).await?;
        if reply != ChangeReply::Done {
            self.until_at_most(Instant::MIN);
        }
        error::settled(&reply, &self.queue_client.name, self.receipt.message_id())?;
        *self.until.lock().unwrap_or_else(PoisonError::into_inner) = until;
        Ok(())
    }

    /// Limits the local end of the visibility. Called before a request that may shorten the
    /// visibility, because the request may be executed without a reply.
    fn until_at_most(&self, most: Instant) {
        let mut until = self.until.lock().unwrap_or_else(PoisonError::into_inner);
        *until = most.min(*until);
    }

    /// Ends a call that settles the message. If it succeeded, `state` is the new state.
    fn settled(&self, event: QueueEvent, state: u8, reply: &ChangeReply) -> Result<(), QueueError> {
        let result = error::settled(reply, &self.queue_client.name, self.receipt.message_id());
        count::settled(self.family, event, &result);
        if result.is_ok() {
            queue_handled(self.family, self.queue_client.client().clock().now().since(self.received));
            self.state.store(state, Ordering::Release);
        }
        result
    }
}

impl<T, C> Drop for Delivery<T, C> {
    fn drop(&mut self) {
        // If an unanswered acknowledgement was executed, the message is gone, and this request has
        // no effect.
        if *self.state.get_mut() > UNANSWERED {
            return;
        }
        queue_handled(self.family, self.queue_client.client().clock().now().since(self.received));
        if self.back_on_drop {
            queue_messages(self.family, QueueEvent::Returned, 1);
            let receipts = vec![self.receipt.clone()];
            self.queue_client.work_client.change_in_background("nack", receipts, Some(Bytes::from_static(b"0")));
        }
    }
}

redgrid_core::debug_fields!([T, C] Delivery<T, C>, |it| message: it.message);
