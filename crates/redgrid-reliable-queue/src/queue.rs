//! The reliable queue.

use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use redgrid_codecs::{Codec, EncodesFor};
use redgrid_core::author::ClientExt;
use redgrid_core::author::counts::QueueEvent;
use redgrid_core::object::layouts::reliable_queue;
use redgrid_core::object::{Object, ObjectError, ObjectRef};
use redgrid_core::{Client, Request, ServerError};
use redgrid_work::{ChangeReply, MessageId, Propagator, Receipt, delay_of, reason_of, receipt_change, visibility_of};

use crate::browse;
use crate::dead::DeadLetters;
use crate::delivery::Delivery;
use crate::error::{QueueError, settled, unexpected};
use crate::message::Message;
use crate::push::{Push, PushMany};
use crate::queue_client::QueueClient;
use crate::receive::{Receive, ReceiveMany};

redgrid_core::default_codec! {
    /// A queue with acknowledgements: each message is delivered to one consumer at a time, and
    /// again unless it is [settled](Delivery) within its visibility.
    ///
    /// It is cheap to clone. All handles of one client with the same name share a queue of waiters,
    /// and their concurrent operations are batched.
    #[doc(alias = "RReliableQueue")]
    pub struct ReliableQueue<T; C> {
        object_ref: ObjectRef,
        queue_client: Result<Arc<QueueClient>, ObjectError>,
        codec: C,
        values: PhantomData<fn() -> T>,
        pub(crate) family: &'static str,
        pub(crate) propagator: Propagator,
    }
}

impl<T, C: Codec + Default> ReliableQueue<T, C> {
    /// Returns the queue with this name. No request is sent: an invalid name is reported by the
    /// first call.
    pub fn new(client: &Client, name: impl AsRef<str>) -> Self {
        let object_ref = ObjectRef::new(client, name);
        let queue_client = QueueClient::of(&object_ref);
        ReliableQueue {
            object_ref,
            queue_client,
            codec: C::default(),
            values: PhantomData,
            family: "",
            propagator: Propagator::default(),
        }
    }
}

impl<T, C> ReliableQueue<T, C> {
    /// Returns the same queue with another codec.
    pub fn with_codec<D: Codec>(self, codec: D) -> ReliableQueue<T, D> {
        let ReliableQueue { object_ref, queue_client, family, propagator, .. } = self;
        ReliableQueue { object_ref, queue_client, codec, values: PhantomData, family, propagator }
    }

    /// Returns the queue as an object, with all its keys: existence, lifetime, rename, memory
    /// usage. The queue exists once something was pushed or set. If it is renamed, waiters under
    /// the old name keep waiting there.
    pub fn object(&self) -> Object {
        self.object_ref.object(reliable_queue)
    }

    pub(crate) fn object_ref(&self) -> &ObjectRef {
        &self.object_ref
    }

    pub(crate) fn codec(&self) -> &C {
        &self.codec
    }

    pub(crate) fn queue_client(&self) -> Result<&Arc<QueueClient>, ObjectError> {
        self.queue_client.as_ref().map_err(Clone::clone)
    }

    /// Pushes a message when awaited; the returned builder has options. Concurrent pushes of one
    /// client are sent together, in their order.
    ///
    /// ```no_run
    /// # #[cfg(feature = "json")]
    /// # async fn demo(mails: &redgrid_reliable_queue::ReliableQueue<String>) -> Result<(), Box<dyn std::error::Error>> {
    /// use std::time::Duration;
    ///
    /// let pushed = mails.push("welcome ada").delay(Duration::from_secs(60)).deduplicate("welcome-ada").await?;
    /// println!("{} is {}", pushed.id, if pushed.is_new { "new" } else { "there already" });
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// [`QueueError::TooLarge`] and [`QueueError::Full`] depending on the queue's settings. After
    /// [`Failure::OutcomeUnknown`](crate::Failure::OutcomeUnknown) the message may still be pushed,
    /// once, within 30 s.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped after the request is sent, the message is still pushed, once.
    #[doc(alias = "add")]
    #[doc(alias = "offer")]
    pub fn push<Q: ?Sized>(&self, value: &Q) -> Push<T, C>
    where
        C: EncodesFor<T, Q>,
    {
        Push::new(self.clone(), self.object_ref.encoded(&self.codec, value))
    }

    /// Pushes several messages when awaited, in their order, in batches of 500 or 4 MiB. Returns
    /// the outcome of each. A batch is atomic, except for messages that the queue rejects. After a
    /// failed batch, no other is sent.
    ///
    /// # Errors
    ///
    /// As [`ReliableQueue::push`], for each message.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the batch that was sent is pushed; later batches are not.
    #[doc(alias = "addMany")]
    pub fn push_many<'a, Q: ?Sized + 'a>(&self, values: impl IntoIterator<Item = &'a Q>) -> PushMany<T, C>
    where
        C: EncodesFor<T, Q>,
    {
        let values = values.into_iter().map(|value| self.object_ref.encoded(&self.codec, value)).collect();
        PushMany::new(self.clone(), values)
    }

    /// Receives the next message when awaited. The call waits for one, up to
    /// [`timeout`](Receive::timeout) if that is set. Tasks of one process receive in the order of
    /// their calls.
    ///
    /// # Errors
    ///
    /// [`QueueError::TimedOut`] after the timeout; [`QueueError::ShuttingDown`];
    /// [`Failure::Unavailable`](crate::Failure::Unavailable) after `response_timeout × (retries +
    /// 1)` without contact. Messages of a lost reply are delivered again.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future cancels the wait. A message that was already delivered to it is returned
    /// to the queue at once; this delivery does not count as an attempt.
    #[doc(alias = "poll")]
    pub fn receive(&self) -> Receive<T, C>
    where
        C: Clone,
    {
        Receive::new(self.clone())
    }

    /// Receives up to `max` messages when awaited: 1 to 100, and about 4 MiB. The call waits until
    /// there is one, and takes the messages that are available at that time. The result is empty
    /// after [`timeout`](ReceiveMany::timeout).
    ///
    /// # Errors
    ///
    /// As [`ReliableQueue::receive`], except for the timeout.
    ///
    /// # Cancel safety
    ///
    /// As [`ReliableQueue::receive`].
    #[doc(alias = "pollMany")]
    pub fn receive_many(&self, max: usize) -> ReceiveMany<T, C>
    where
        C: Clone,
    {
        ReceiveMany::new(self.clone(), max)
    }

    /// Receives a message that is available now; `None` if there is none.
    ///
    /// # Errors and cancel safety
    ///
    /// As for [`ReliableQueue::receive`].
    #[doc(alias = "poll")]
    pub async fn try_receive(&self) -> Result<Option<Delivery<T, C>>, QueueError>
    where
        T: 'static,
        C: Codec + Clone,
    {
        Ok(self.receive_many(1).timeout(Duration::ZERO).await?.pop())
    }

    /// Acknowledges a message by its receipt, which may come from another process. Like
    /// [`Delivery::ack`], a late call also removes a message that is already a dead letter.
    ///
    /// # Errors
    ///
    /// As [`Delivery::ack`]. If the message no longer exists, the error is [`QueueError::Stale`],
    /// however the message was settled.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped after the request is sent, the request is still executed.
    #[doc(alias = "acknowledge")]
    pub async fn ack(&self, receipt: &Receipt) -> Result<(), QueueError> {
        let queue_client = self.queue_client()?;
        let reply = queue_client.settle("ack", receipt, None).await?;
        self.settled(QueueEvent::Acknowledged, receipt, &reply)
    }

    /// Acknowledges several messages in batches of 500. Returns the outcome of each.
    ///
    /// # Errors
    ///
    /// As [`ReliableQueue::ack`], for each message.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the batch that was sent is still executed.
    #[doc(alias = "acknowledge")]
    pub async fn ack_many<'a>(&self, receipts: impl IntoIterator<Item = &'a Receipt>) -> Vec<Result<(), QueueError>> {
        let receipts: Vec<_> = receipts.into_iter().collect();
        let mut outcomes = Vec::with_capacity(receipts.len());
        for part in receipts.chunks(500) {
            let reply = match self.queue_client() {
                Ok(queue_client) => {
                    queue_client.change(part.iter().map(|receipt| receipt_change("ack", receipt, None)).collect()).await
                }
                Err(error) => Err(error.into()),
            };
            match reply {
                Ok(reply) => {
                    let each = part.iter().zip(reply);
                    outcomes.extend(each.map(|(of, reply)| self.settled(QueueEvent::Acknowledged, of, &reply)));
                }
                Err(error) => outcomes.extend(part.iter().map(|_| Err(error.clone()))),
            }
        }
        outcomes
    }

    /// Returns a message to the queue by its receipt; see [`Delivery::nack`].
    ///
    /// # Errors and cancel safety
    ///
    /// As for [`Delivery::nack`].
    #[doc(alias = "negativeAcknowledge")]
    pub async fn nack(&self, receipt: &Receipt, delay: Duration) -> Result<(), QueueError> {
        let (queue_client, delay) = (self.queue_client()?, delay_of(&self.object_ref, "delay", delay)?);
        let reply = queue_client.settle("nack", receipt, Some(delay)).await?;
        self.settled(QueueEvent::Returned, receipt, &reply)
    }

    /// Rejects a message by its receipt; see [`Delivery::reject`].
    ///
    /// # Errors and cancel safety
    ///
    /// As for [`Delivery::reject`].
    #[doc(alias = "negativeAcknowledge")]
    pub async fn reject(&self, receipt: &Receipt, reason: impl AsRef<str>) -> Result<(), QueueError> {
        let (queue_client, reason) = (self.queue_client()?, reason_of(&self.object_ref, reason.as_ref())?);
        let reply = queue_client.settle("reject", receipt, Some(reason)).await?;
        self.settled(QueueEvent::Rejected, receipt, &reply)
    }

    /// Sets the end of a message's visibility by its receipt; see [`Delivery::extend`].
    ///
    /// # Errors
    ///
    /// As [`Delivery::extend`].
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped after the request is sent, the request is still executed.
    pub async fn extend(&self, receipt: &Receipt, visibility: Duration) -> Result<(), QueueError> {
        let (queue_client, visibility) = (self.queue_client()?, visibility_of(&self.object_ref, visibility)?);
        let reply = queue_client.settle("extend", receipt, Some(visibility)).await?;
        settled(&reply, &queue_client.name, receipt.message_id())
    }

    /// Returns the first messages that would be received now, at most 100, without receiving them;
    /// of a paused queue, those that come after the pause.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] if the server did not answer.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    #[doc(alias = "listAll")]
    pub async fn peek(&self, max: usize) -> Result<Vec<Message<T, C>>, ObjectError>
    where
        C: Clone,
    {
        if !(1..=100).contains(&max) {
            return Err(self.object_ref.invalid("number of messages", "1 to 100", max));
        }
        self.browse(|request| request.arg("first").arg(max.to_string())).await
    }

    /// Returns a message in any state, unless it has expired.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] if the server did not answer.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    #[doc(alias = "contains")]
    pub async fn get(&self, id: MessageId) -> Result<Option<Message<T, C>>, ObjectError>
    where
        C: Clone,
    {
        Ok(self.browse(|request| request.arg("one").arg(id.arg())).await?.pop())
    }

    pub(crate) async fn browse(&self, with: impl FnOnce(Request) -> Request) -> Result<Vec<Message<T, C>>, ObjectError>
    where
        C: Clone,
    {
        let queue_client = self.queue_client()?;
        let reply: Vec<Bytes> = self.object_ref.read(with(queue_client.keys().browse())).await?;
        let messages = reply.chunks(8).map(|parts| browse::read(parts, &self.object_ref, &self.codec)).collect();
        let unexpected =
            || ServerError::Decode { expected: "messages with their states", got: "something else".into() };
        Option::<Vec<_>>::ok_or_else(messages, || ObjectError::of(&queue_client.name, unexpected()))
    }

    /// Removes a message in any state. Returns whether it existed. A consumer that has received the
    /// message can no longer acknowledge it.
    ///
    /// # Errors
    ///
    /// [`QueueError`] says whether the message may have been removed.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped after the request is sent, the request is still executed.
    pub async fn remove(&self, id: MessageId) -> Result<bool, QueueError> {
        let queue_client = self.queue_client()?;
        match queue_client.change_one(vec![Bytes::from_static(b"remove"), id.arg()]).await? {
            ChangeReply::Done => Ok(true),
            ChangeReply::Gone => Ok(false),
            _ => Err(unexpected(&queue_client.name)),
        }
    }

    /// Removes all messages, including those in flight and dead letters, and all deduplication ids.
    /// Returns the number of removed messages. Settings and totals stay.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] says whether the messages may have been removed.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped after the request is sent, the request is still executed.
    pub async fn clear(&self) -> Result<u64, ObjectError> {
        let queue_client = self.queue_client()?;
        let cleared: Vec<u64> = self.run_exactly_once(queue_client, queue_client.keys().clear()).await?;
        Ok(cleared.first().copied().unwrap_or(0))
    }

    pub(crate) async fn run_exactly_once(
        &self,
        queue_client: &QueueClient,
        request: redgrid_core::IdempotentRequest,
    ) -> Result<Vec<u64>, ObjectError> {
        queue_client
            .client()
            .run_exactly_once(request)
            .await
            .map_err(|source| ObjectError::of(&queue_client.name, source))
    }

    pub(crate) fn unexpected(&self, expected: &'static str) -> ObjectError {
        match self.object_ref.name_and_key() {
            Ok((name, _)) => ObjectError::of(name, ServerError::Decode { expected, got: "something else".into() }),
            Err(invalid) => invalid,
        }
    }

    /// Returns the dead letters: messages that are not delivered any more.
    #[doc(alias = "deadLetterQueueName")]
    pub fn dead(&self) -> DeadLetters<T, C>
    where
        C: Clone,
    {
        DeadLetters::new(self.clone())
    }
}

redgrid_core::clone_fields!([T, C: Clone] ReliableQueue<T, C> {
    object_ref, queue_client, codec, values, family, propagator
});

redgrid_core::debug_fields!([T, C: std::fmt::Debug] ReliableQueue<T, C>, |it|
    name: it.object_ref.name(), codec: it.codec
);
