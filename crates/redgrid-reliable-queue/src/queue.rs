//! The queue.

use std::borrow::Borrow;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use redgrid_codecs::{Codec, Encode};
use redgrid_core::author::ClientExt;
use redgrid_core::object::layouts::reliable_queue;
use redgrid_core::object::{Object, ObjectError, ObjectRef};
use redgrid_core::{Client, Request, ServerError};

use crate::changes::{Told, under};
use crate::dead::DeadLetters;
use crate::delivery::Delivery;
use crate::desk::Desk;
use crate::error::QueueError;
use crate::look;
use crate::message::{Message, MessageId, Receipt};
use crate::push::{Push, PushMany};
use crate::receive::{Receive, ReceiveMany};
use crate::settings::{delay_of, reason_of, visibility_of};

/// The type, with the codec of one that names none: there is one only with the feature `json`.
macro_rules! reliable_queue_type {
    ($($codec:tt)*) => {
        /// A queue whose messages are acknowledged: each is given to one at a time, and comes back unless it is [settled](Delivery) within its
        /// visibility.
        ///
        /// Cheap to clone. All handles of one client with the same name share a line of those who wait, and what they do at the same time
        /// goes together.
        #[doc(alias = "RReliableQueue")]
        pub struct ReliableQueue<T, C $($codec)*> {
            object_ref: ObjectRef,
            desk: Result<Arc<Desk>, ObjectError>,
            codec: C,
            values: PhantomData<fn() -> T>,
        }
    };
}

#[cfg(feature = "json")]
reliable_queue_type!(= redgrid_codecs::Json);
#[cfg(not(feature = "json"))]
reliable_queue_type!();

impl<T, C: Codec + Default> ReliableQueue<T, C> {
    /// Creates the queue with this name. No request is sent: an invalid name is reported by the
    /// first call.
    pub fn new(client: &Client, name: impl AsRef<str>) -> Self {
        let object_ref = ObjectRef::new(client, name);
        let desk = Desk::of(&object_ref);
        ReliableQueue { object_ref, desk, codec: C::default(), values: PhantomData }
    }
}

impl<T, C> ReliableQueue<T, C> {
    /// The same queue with another codec.
    pub fn with_codec<D: Codec>(self, codec: D) -> ReliableQueue<T, D> {
        ReliableQueue { object_ref: self.object_ref, desk: self.desk, codec, values: PhantomData }
    }

    /// What every object has, of all its keys: whether it is there (something was pushed or set), its lifetime, other names, its size in
    /// memory. Who waits under the old name of a queue that is renamed goes on waiting there.
    pub fn object(&self) -> Object {
        self.object_ref.object(reliable_queue)
    }

    pub(crate) fn object_ref(&self) -> &ObjectRef {
        &self.object_ref
    }

    pub(crate) fn codec(&self) -> &C {
        &self.codec
    }

    pub(crate) fn desk(&self) -> Result<&Arc<Desk>, ObjectError> {
        self.desk.as_ref().map_err(Clone::clone)
    }

    /// Pushes a message when it is awaited; options are on what is returned. Messages of one client that are pushed at the same time go
    /// together, in their order.
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
    /// [`QueueError::TooLarge`] and [`QueueError::Full`] by the queue's settings. After
    /// [`Failure::OutcomeUnknown`](crate::Failure::OutcomeUnknown) the request is sent again for
    /// 30 s: the message may still be pushed, once.
    ///
    /// # Cancel safety
    ///
    /// What has left is pushed although nobody waits for it, once.
    #[doc(alias = "add")]
    #[doc(alias = "offer")]
    pub fn push<Q: ?Sized>(&self, value: &Q) -> Push<T, C>
    where
        T: Borrow<Q>,
        C: Encode<Q> + Clone,
    {
        Push::new(self.clone(), self.object_ref.encoded(&self.codec, value))
    }

    /// Pushes several messages when it is awaited, in their order, in parts of 500 or 4 MiB; tells what became of each. A part is pushed as a
    /// whole, but for messages that the queue does not take; behind one that failed no other leaves.
    ///
    /// # Errors
    ///
    /// As [`ReliableQueue::push`], for each message.
    ///
    /// # Cancel safety
    ///
    /// The part that has left is pushed, those behind it are not.
    #[doc(alias = "addMany")]
    pub fn push_many<'a, Q: ?Sized + 'a>(&self, values: impl IntoIterator<Item = &'a Q>) -> PushMany<T, C>
    where
        T: Borrow<Q>,
        C: Encode<Q> + Clone,
    {
        let values = values.into_iter().map(|value| self.object_ref.encoded(&self.codec, value)).collect();
        PushMany::new(self.clone(), values)
    }

    /// Receives the next message when it is awaited: waits for one, unless [`within`](Receive::timeout) bounds that. Tasks of one process
    /// receive in the order in which they came.
    ///
    /// # Errors
    ///
    /// [`QueueError::TimedOut`]; [`QueueError::ShuttingDown`];
    /// [`Failure::Unavailable`](crate::Failure::Unavailable) after
    /// `response_timeout × (retries + 1)` without a reply: delivered messages come back.
    ///
    /// # Cancel safety
    ///
    /// Dropping it cancels the wait. A message that was on its way to it goes back at once, and counts as not tried.
    #[doc(alias = "poll")]
    pub fn receive(&self) -> Receive<T, C>
    where
        C: Clone,
    {
        Receive::new(self.clone())
    }

    /// Receives up to `most` messages when it is awaited, 1 to 100 and about 4 MiB: waits until there is one, and takes what is there
    /// then. None where [`within`](ReceiveMany::timeout) is over.
    ///
    /// # Errors
    ///
    /// As [`ReliableQueue::receive`], but for the time.
    ///
    /// # Cancel safety
    ///
    /// As [`ReliableQueue::receive`].
    #[doc(alias = "pollMany")]
    pub fn receive_many(&self, most: usize) -> ReceiveMany<T, C>
    where
        C: Clone,
    {
        ReceiveMany::new(self.clone(), most)
    }

    /// Receives a message that is there now; `None` where there is none.
    ///
    /// # Errors
    ///
    /// As [`ReliableQueue::receive`].
    ///
    /// # Cancel safety
    ///
    /// As [`ReliableQueue::receive`].
    #[doc(alias = "poll")]
    pub async fn try_receive(&self) -> Result<Option<Delivery<T, C>>, QueueError>
    where
        T: 'static,
        C: Codec + Clone,
    {
        Ok(self.receive_many(1).timeout(Duration::ZERO).await?.pop())
    }

    /// Acknowledges a message by its receipt, which another process may have been given.
    ///
    /// # Errors
    ///
    /// As [`Delivery::ack`]; a message that is gone is [`QueueError::Stale`], whoever settled it.
    ///
    /// # Cancel safety
    ///
    /// What has left is carried out although nobody waits for it.
    #[doc(alias = "acknowledge")]
    pub async fn ack(&self, receipt: &Receipt) -> Result<(), QueueError> {
        let desk = self.desk()?;
        desk.settle("ack", receipt, None).await?.settled(&desk.name, receipt.id)
    }

    /// Acknowledges several messages in parts of 500; what became of each.
    ///
    /// # Errors
    ///
    /// As [`ReliableQueue::ack`], for each message.
    ///
    /// # Cancel safety
    ///
    /// What has left is carried out although nobody waits for it.
    #[doc(alias = "acknowledge")]
    pub async fn ack_many<'a>(&self, receipts: impl IntoIterator<Item = &'a Receipt>) -> Vec<Result<(), QueueError>> {
        let receipts: Vec<_> = receipts.into_iter().collect();
        let mut outcomes = Vec::with_capacity(receipts.len());
        for part in receipts.chunks(500) {
            let told = match self.desk() {
                Ok(desk) => desk.change(part.iter().map(|receipt| under("ack", receipt, None)).collect()).await,
                Err(error) => Err(error.into()),
            };
            match (self.desk(), told) {
                (Ok(desk), Ok(told)) => {
                    let each = part.iter().zip(told);
                    outcomes.extend(each.map(|(receipt, told)| told.settled(&desk.name, receipt.id)));
                }
                (_, Err(error)) => outcomes.extend(part.iter().map(|_| Err(error.clone()))),
                (Err(error), _) => outcomes.extend(part.iter().map(|_| Err(error.clone().into()))),
            }
        }
        outcomes
    }

    /// Gives a message back by its receipt; see [`Delivery::nack`].
    ///
    /// # Errors
    ///
    /// As [`Delivery::nack`].
    ///
    /// # Cancel safety
    ///
    /// As [`Delivery::nack`].
    #[doc(alias = "negativeAcknowledge")]
    pub async fn nack(&self, receipt: &Receipt, delay: Duration) -> Result<(), QueueError> {
        let (desk, delay) = (self.desk()?, delay_of(&self.object_ref, "delay", delay)?);
        desk.settle("nack", receipt, Some(delay)).await?.settled(&desk.name, receipt.id)
    }

    /// Makes a message dead by its receipt; see [`Delivery::reject`].
    ///
    /// # Errors
    ///
    /// As [`Delivery::reject`].
    ///
    /// # Cancel safety
    ///
    /// As [`Delivery::reject`].
    #[doc(alias = "negativeAcknowledge")]
    pub async fn reject(&self, receipt: &Receipt, reason: impl AsRef<str>) -> Result<(), QueueError> {
        let (desk, reason) = (self.desk()?, reason_of(&self.object_ref, reason.as_ref())?);
        desk.settle("reject", receipt, Some(reason)).await?.settled(&desk.name, receipt.id)
    }

    /// Moves the end of a message's visibility by its receipt; see [`Delivery::extend`].
    ///
    /// # Errors
    ///
    /// As [`Delivery::extend`].
    ///
    /// # Cancel safety
    ///
    /// What has left is carried out although nobody waits for it.
    pub async fn extend(&self, receipt: &Receipt, visibility: Duration) -> Result<(), QueueError> {
        let (desk, visibility) = (self.desk()?, visibility_of(&self.object_ref, visibility)?);
        desk.settle("extend", receipt, Some(visibility)).await?.settled(&desk.name, receipt.id)
    }

    /// The first messages that would be received now, at most 100, without receiving them.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] says what is true then.
    ///
    /// # Cancel safety
    ///
    /// Dropping it changes nothing.
    #[doc(alias = "listAll")]
    pub async fn peek(&self, most: usize) -> Result<Vec<Message<T, C>>, ObjectError>
    where
        C: Clone,
    {
        if !(1..=100).contains(&most) {
            return Err(self.object_ref.invalid("number of messages", "1 to 100", most));
        }
        self.looked(|request| request.arg("first").arg(most.to_string())).await
    }

    /// A message wherever it is, as long as it is not over.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] says what is true then.
    ///
    /// # Cancel safety
    ///
    /// Dropping it changes nothing.
    #[doc(alias = "contains")]
    pub async fn get(&self, id: MessageId) -> Result<Option<Message<T, C>>, ObjectError>
    where
        C: Clone,
    {
        Ok(self.looked(|request| request.arg("one").arg(id.arg())).await?.pop())
    }

    pub(crate) async fn looked(&self, with: impl FnOnce(Request) -> Request) -> Result<Vec<Message<T, C>>, ObjectError>
    where
        C: Clone,
    {
        let desk = self.desk()?;
        let said: Vec<Bytes> = self.object_ref.read(with(desk.keys.look())).await?;
        let messages = said.chunks(8).map(|parts| look::read(parts, &self.object_ref, &self.codec)).collect();
        let unexpected =
            || ServerError::Decode { expected: "messages and where they are", got: "something else".into() };
        Option::<Vec<_>>::ok_or_else(messages, || ObjectError::of(&desk.name, unexpected()))
    }

    /// Drops a message, wherever it is; tells whether it was there. Who has it can not acknowledge it any more.
    ///
    /// # Errors
    ///
    /// [`QueueError`] says what is true then.
    ///
    /// # Cancel safety
    ///
    /// What has left is carried out although nobody waits for it.
    pub async fn remove(&self, id: MessageId) -> Result<bool, QueueError> {
        let desk = self.desk()?;
        match desk.change_one(vec![Bytes::from_static(b"remove"), id.arg()]).await? {
            Told::Done => Ok(true),
            Told::Gone => Ok(false),
            other => Err(other.unexpected(&desk.name)),
        }
    }

    /// Drops all messages, those that are given and the dead among them, and forgets deduplication ids; tells how many messages there were.
    /// Settings stay, and so does what was counted.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] says what is true then.
    ///
    /// # Cancel safety
    ///
    /// What has left is carried out although nobody waits for it.
    pub async fn clear(&self) -> Result<u64, ObjectError> {
        let desk = self.desk()?;
        let cleared: Vec<u64> = self.once(desk, desk.keys.clear()).await?;
        Ok(cleared.first().copied().unwrap_or(0))
    }

    pub(crate) async fn once(
        &self,
        desk: &Desk,
        request: redgrid_core::IdempotentRequest,
    ) -> Result<Vec<u64>, ObjectError> {
        desk.client.run_exactly_once(request).await.map_err(|source| ObjectError::of(&desk.name, source))
    }

    pub(crate) fn unexpected(&self, expected: &'static str) -> ObjectError {
        match self.object_ref.name_and_key() {
            Ok((name, _)) => ObjectError::of(name, ServerError::Decode { expected, got: "something else".into() }),
            Err(invalid) => invalid,
        }
    }

    /// Messages that are given to nobody any more.
    #[doc(alias = "deadLetterQueueName")]
    pub fn dead(&self) -> DeadLetters<T, C>
    where
        C: Clone,
    {
        DeadLetters::new(self.clone())
    }
}

impl<T, C: Clone> Clone for ReliableQueue<T, C> {
    fn clone(&self) -> Self {
        let (object_ref, desk) = (self.object_ref.clone(), self.desk.clone());
        ReliableQueue { object_ref, desk, codec: self.codec.clone(), values: PhantomData }
    }
}

impl<T, C: fmt::Debug> fmt::Debug for ReliableQueue<T, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("ReliableQueue");
        shown.field("name", &self.object_ref.name()).field("codec", &self.codec).finish_non_exhaustive()
    }
}
